"""Builders on a directory, in processes of their own: ``python -m tests.builders kill|wait <directory>``."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from flask_sitemapx.protocol.entries import Columns
from flask_sitemapx.snapshots.builder import Builder
from flask_sitemapx.snapshots.compression import zlib_codec
from flask_sitemapx.snapshots.directory import DirectoryStore
from flask_sitemapx.snapshots.reading import Rules
from flask_sitemapx.snapshots.refresher import Refresher, Timing
from flask_sitemapx.snapshots.shards import Limits
from flask_sitemapx.snapshots.snapshot import Archive
from tests.section_sources import BASE, WholeSource

SECTIONS = ("articles", "products")
ENTRIES = 300
LEASE = 0.2
KILLS = 50


class Generation(WholeSource):
    """A section all of whose paths begin with the name of the generation."""

    def __init__(self, section: str, generation: str, before_batch: Callable[[], object] = lambda: None) -> None:
        self.name = section
        self._generation = generation
        self._before_batch = before_batch

    def columns(self) -> Iterator[Columns]:
        for start in range(0, ENTRIES, 50):
            self._before_batch()
            yield Columns([f"/{self._generation}/{self.name}/{number}" for number in range(start, start + 50)])


def keeper(directory: Path, sources: Callable[[], list[Generation]]) -> Refresher:
    archive = Archive(DirectoryStore(directory), "site")
    builder = Builder(BASE, archive, sources, lambda: Rules(Limits(24)), zlib_codec())
    return Refresher(builder, Timing(3_600, 10, LEASE), lambda: SECTIONS, lambda: "print")


def build_on_and_on(directory: Path, begin: Callable[[], object]) -> None:
    """Publish one generation after another, calling *begin* before each."""
    numbers = iter(range(1_000_000))

    def sources() -> list[Generation]:
        begin()
        generation = f"{os.getpid()}-{next(numbers)}"
        return [Generation(section, generation) for section in SECTIONS]

    refresher = keeper(directory, sources)
    while True:
        refresher.build()


def kill_many(directory: Path) -> None:
    """Start builders, kill each somewhere in its first, second or third build, and print how many held the lease."""
    begun = time.monotonic()
    keeper(directory, lambda: [Generation(section, "first") for section in SECTIONS]).build()
    duration = time.monotonic() - begun
    chance, holders = random.Random(7), 0
    for kill in range(KILLS):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            build_on_and_on(directory, partial(os.write, writer, b"."))
        for _ in range(kill % 3 + 1):
            os.read(reader, 1)
        time.sleep(chance.uniform(0.0, duration))  # the random point
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)
        holders += any((directory / "state").glob("*lease*"))
    print(holders)  # noqa: T201


def build_when_told(directory: Path) -> None:
    """Build one generation, waiting in the middle for a file ``go``, and print the generation that is served then."""

    def wait() -> None:
        (directory / "pulling").touch()
        while not (directory / "go").exists():
            time.sleep(0.005)

    refresher = keeper(directory, lambda: [Generation(section, "stopped", wait) for section in SECTIONS])
    print(refresher.build().number)  # noqa: T201


if __name__ == "__main__":
    {"kill": kill_many, "wait": build_when_told}[sys.argv[1]](Path(sys.argv[2]))
