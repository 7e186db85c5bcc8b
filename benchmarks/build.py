"""Benchmark `build`: CPU of a cold build of the whole site."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from . import ours, peers, workload, yardstick
from .peers import Peer
from .rounds import Effort, Timings, clocked, timings
from .tables import Cell, Table, Target

YARDSTICK = "yardstick (ready URLs, nothing stored)"
PLAIN = "ours, before compression"
FAST = "ours, gzipped with isal and stored"
SLOW = "ours, gzipped with zlib and stored"
MERGED = "the same with zlib, and merged into one document"
# Row: codec, SITEMAP_INDEX. With "auto" a site that fits into one document is written as sections and as that one.
OURS = {
    PLAIN: ("none", "always"),
    FAST: ("isal", "always"),
    SLOW: ("zlib", "always"),
    MERGED: ("zlib", "auto"),
}

ABOUT = """Cold build of one site of {entries:,} URLs, CPU of one process. Rows are in memory before the
clock starts. Ours makes URLs, checks and hashes all, and compresses and stores where it says so; the
peers make URLs and one string of XML. The yardstick is given its URLs: the cost of writing alone."""

# How many times the CPU of the peer our row must at least save.
TARGETS = {
    PLAIN: {"flask-sitemap": 10.0, "django.contrib.sitemaps": 25.0},
    FAST: {"flask-sitemap": 7.0, "django.contrib.sitemaps": 18.0},
    SLOW: {"flask-sitemap": 3.5, "django.contrib.sitemaps": 9.0},
}


def tables(effort: Effort) -> Iterator[Table]:
    """One table: the yardstick, ours in three ways, the peers."""
    rows = workload.first(effort.entries)
    found, absent = peers.installed(list(peers.MODULES), rows)
    codecs = ours.codecs()
    with TemporaryDirectory() as directory:
        contenders = {YARDSTICK: clocked(partial(write, workload.ready(effort.entries)), effort.entries)}
        for name, (codec, index) in OURS.items():
            if codec in codecs:
                build = ours.ColdBuild(rows, codecs[codec], index, Path(directory))
                contenders[name] = clocked(build, effort.entries, before=build.prepare)
        contenders |= {name: clocked(partial(written, peer), effort.entries) for name, peer in found.items()}
        measured = timings(contenders, effort.rounds)
    if "isal" not in codecs:
        absent.append(f"{FAST} (isal is not installed); pip install flask-sitemapx[fast]")
    yield table(measured, effort, found, absent)


def write(entries: list[tuple[str, datetime]]) -> int:
    """Run the yardstick as a server would, dropping each chunk; how many entries the chunks held."""
    return sum(chunk.count(b"<loc>") for chunk in yardstick.urlset(entries, workload.ORIGIN))


def written(peer: Peer) -> int:
    return peer.document().count("<loc>")


def table(measured: Timings, effort: Effort, found: Mapping[str, Peer], absent: list[str]) -> Table:
    columns = ["contender", "us/URL", "x yardstick", *(f"{name} / this" for name in found)]
    made = Table("build", ABOUT.format(entries=effort.entries), columns, skipped=absent)
    for name in measured:
        ratios: list[Cell] = [measured.ratio(peer, name) for peer in found]
        made.rows.append([name, measured.median(name) * 1e6, measured.ratio(name, YARDSTICK), *ratios])
    for name, bounds in TARGETS.items():
        for peer, bound in bounds.items():
            if name in measured and peer in measured:
                made.targets.append(Target(f"{peer} / {name}", measured.ratio(peer, name), at_least=bound))
    return made
