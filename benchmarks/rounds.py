"""Contenders measured in turn, round by round, so that a busy moment of the machine touches all of them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Effort:
    """How much work a run may do: the entries of a site, the rounds, and the requests of one row in one round."""

    name: str
    entries: int
    rounds: int
    requests: int

    def __str__(self) -> str:
        return f"{self.name}: {self.entries:,} entries, medians of {self.rounds} interleaved rounds"


FULL = Effort("full", entries=50_000, rounds=5, requests=500)
QUICK = Effort("quick (its ratios mean little)", entries=500, rounds=2, requests=10)

Measurement = Callable[[], float]
"""One go of a contender; the seconds that one unit of it (an entry, a request) took."""


class Timings:
    """Seconds a unit, by contender and round."""

    def __init__(self, seconds: Mapping[str, list[float]]) -> None:
        self.seconds = seconds

    def __contains__(self, name: str) -> bool:
        return name in self.seconds

    def __iter__(self) -> Iterator[str]:
        return iter(self.seconds)

    def median(self, name: str) -> float:
        """Median seconds a unit."""
        return median(self.seconds[name])

    def ratio(self, name: str, reference: str) -> float:
        """Median, over the rounds, of how many times *reference* the contender *name* took in that round."""
        return median(one / other for one, other in zip(self.seconds[name], self.seconds[reference], strict=True))


def timings(contenders: Mapping[str, Measurement], rounds: int) -> Timings:
    """Every contender once for warming up, then *rounds* times in turn."""
    for measure in contenders.values():
        measure()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, measure in contenders.items():
            seconds[name].append(measure())
    return Timings(seconds)


def clocked(
    work: Callable[[], int],
    units: int,
    clock: Callable[[], float] = time.process_time,
    before: Callable[[], object] = int,
) -> Measurement:
    """A measurement of *work*, which must do *units* and say so; *before* runs before the clock starts.

    The clock is the CPU time of this process if not told otherwise.
    """

    def measure() -> float:
        before()
        gc.collect()
        start = clock()
        done = work()
        seconds = clock() - start
        if done != units:
            raise RuntimeError(f"{done} of {units} units were done, so nothing was measured")
        return seconds / units

    return measure
