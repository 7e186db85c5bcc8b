"""Builders in processes of their own: ``python -m tests.builders kill|wait <store> <directory>``."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.crawled_site import CrawledSite

KILLS = 200


def build_on_and_on(store: str, begin: Callable[[], object]) -> None:
    """Publish one generation after another, calling *begin* before each."""
    site = CrawledSite(store)
    for number in range(1_000_000):
        begin()
        site.build(f"{os.getpid()}-{number}")


def kill_many(store: str, directory: Path) -> None:
    """Start builders, kill each somewhere in its first, second or third build, and print how many held the lease."""
    site = CrawledSite(store)
    begun = time.monotonic()
    site.build("first")
    duration = time.monotonic() - begun
    chance, holders = random.Random(7), 0
    for kill in range(KILLS):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            build_on_and_on(store, partial(os.write, writer, b"."))
        for _ in range(kill % 3 + 1):
            os.read(reader, 1)
        time.sleep(chance.uniform(0.0, duration))  # the random point
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)
        holders += is_leased(site)
    print(holders)  # noqa: T201


def is_leased(site: CrawledSite) -> bool:
    """Whether somebody, who may be dead, holds the right to build what follows the newest set."""
    last = site.refresher.last_good()
    archive = site.refresher._archive
    return last is not None and archive.store.get(archive.lease_key(last.number + 1)) is not None


def build_when_told(store: str, directory: Path) -> None:
    """Build one generation, waiting in the middle for a file ``go``, and print the number of the set served then."""

    def wait() -> None:
        (directory / "pulling").touch()
        while not (directory / "go").exists():
            time.sleep(0.005)

    site = CrawledSite(store)
    site.before_batch = wait
    print(site.build("stopped").number)  # noqa: T201


if __name__ == "__main__":
    {"kill": kill_many, "wait": build_when_told}[sys.argv[1]](sys.argv[2], Path(sys.argv[3]))
