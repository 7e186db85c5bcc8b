"""Benchmark `memory`: peak of a build of a small and of a large site, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypedDict

from . import ours, workload
from .rounds import Effort
from .servers import ROOT
from .tables import Table, Target

TIMES = 20  # as many entries in the large site as in the small one

ABOUT = """Peak memory of one build into a directory, in a process of its own, entries from a generator.
Traced: Python's own allocations since the beginning of the build (tracemalloc). Growth of RSS: the
whole process since then, tracemalloc's own records included."""


class Peaks(TypedDict):
    """In MB, above what there was before the build."""

    traced: float
    rss: float | None


def tables(effort: Effort) -> Iterator[Table]:
    """One table of two rows; the traced peak should not depend on the number of entries."""
    made = Table("memory", ABOUT, ["site", "traced peak MB", "growth of RSS MB"])
    small, large = (peak(effort.entries * times) for times in (1, TIMES))
    for entries, result in ((effort.entries, small), (effort.entries * TIMES, large)):
        made.rows.append([f"{entries:,} entries", result["traced"], result["rss"]])
    claim = "traced peak, large site minus small site, MB"
    made.targets.append(Target(claim, large["traced"] - small["traced"], at_most=2.0))
    yield made


def peak(entries: int) -> Peaks:
    """Peaks in MB of a build of *entries*, measured in a new process."""
    command = [sys.executable, "-m", __name__, str(entries)]
    printed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    result: Peaks = json.loads(printed)
    return result


def build(entries: int) -> Peaks:
    """Peaks in MB of a build of *entries* in this process."""
    with TemporaryDirectory() as directory:
        app, sitemap = ours.site(lambda: workload.rows(entries), f"file:{directory}", SITEMAP_INDEX="always")
        before = largest_rss()
        tracemalloc.start()
        snapshot = sitemap.build(app)
        traced = tracemalloc.get_traced_memory()[1]
        if snapshot.count != entries:
            raise RuntimeError(f"{snapshot.count} of {entries} entries were built")
        after = largest_rss()
        return {"traced": traced / 1e6, "rss": after - before if before and after else None}


def largest_rss() -> float | None:
    """Largest resident size of this process so far in MB, where /proc tells it (getrusage counts the parent's, too)."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    return next(int(line.split()[1]) / 1e3 for line in status.splitlines() if line.startswith("VmHWM:"))


if __name__ == "__main__":
    print(json.dumps(build(int(sys.argv[1]))))
