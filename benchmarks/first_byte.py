"""Benchmark `first_byte`: how long a client of gunicorn waits for the beginning of a document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from statistics import median
from tempfile import TemporaryDirectory

from . import ours, peers, workload
from .rounds import Effort, Timings
from .servers import Answer, serving
from .tables import Table, Target

EMPTY = "a tiny answer (bare WSGI hello)"
STORED = "ours, stored"
GZIPPED = "ours, stored, asked for with gzip"
COLD = "ours, nothing built yet"
PEERS = ("flask-sitemap", "flask-sitemapper")

ABOUT = """Wall time from connecting to gunicorn (one sync worker, loopback) to the first byte of the answer and
to the first <url> in it, for a document of {entries:,} URLs. "Nothing built yet" is the first request
to a new server whose store is empty."""


def tables(effort: Effort) -> Iterator[Table]:
    """One table; needs gunicorn."""
    if not find_spec("gunicorn"):
        yield Table("first_byte", "", ["answer"], skipped=["all of it (gunicorn is not installed)"])
        return
    found, absent = peers.installed(PEERS, workload.first(1))
    entries = str(effort.entries)
    with ExitStack() as stack:
        directory = stack.enter_context(TemporaryDirectory())
        app, sitemap = ours.site(workload.first(effort.entries), f"file:{directory}")
        sitemap.build(app)
        mine = stack.enter_context(serving("ours", directory, entries))
        shard = ours.shard_path(lambda path: mine.ask(path).body)
        askers: dict[str, Callable[[], Answer]] = {
            EMPTY: partial(stack.enter_context(serving("hello")).ask, "/"),
            STORED: partial(mine.ask, shard),
            GZIPPED: partial(mine.ask, shard, headers={"Accept-Encoding": "gzip"}),
            COLD: partial(cold, entries, shard),
        }
        for name, peer in found.items():
            askers[name] = partial(stack.enter_context(serving(name, entries)).ask, peer.path)
        yield table(in_turn(askers, effort.rounds), effort, absent)


def cold(entries: str, path: str) -> Answer:
    """The first answer of a server that was just started on an empty directory."""
    with TemporaryDirectory() as directory, serving("ours", directory, entries) as server:
        return server.ask(path)


def in_turn(askers: Mapping[str, Callable[[], Answer]], rounds: int) -> dict[str, list[Answer]]:
    """Answers by contender and round, after a first round that warms all up and is dropped."""
    answers: dict[str, list[Answer]] = {name: [] for name in askers}
    for _ in range(rounds + 1):
        for name, ask in askers.items():
            answers[name].append(ask())
    return {name: checked(name, given[1:]) for name, given in answers.items()}


def checked(name: str, answers: list[Answer]) -> list[Answer]:
    for answer in answers:
        if answer.status != 200:
            raise RuntimeError(f"{name}: answered {answer.status}: {answer.body[:200]!r}")
    return answers


def table(answers: dict[str, list[Answer]], effort: Effort, absent: list[str]) -> Table:
    waits = Timings(
        {name: [answer.first_url or answer.first_byte for answer in given] for name, given in answers.items()}
    )
    columns = ["answer", "first byte ms", "first <url> ms", f"x {STORED}"]
    made = Table("first_byte", ABOUT.format(entries=effort.entries), columns, skipped=absent)
    for name, given in answers.items():
        urls = [answer.first_url for answer in given if answer.first_url is not None]
        first_byte = median(answer.first_byte for answer in given)
        made.rows.append([name, first_byte * 1e3, median(urls) * 1e3 if urls else None, waits.ratio(name, STORED)])
    made.targets.append(Target(f"{STORED}: first <url>, ms", waits.median(STORED) * 1e3, at_most=10.0))
    if PEERS[0] in waits:
        made.targets.append(Target(f"{PEERS[0]} / {STORED}", waits.ratio(PEERS[0], STORED), at_least=300.0))
    return made
