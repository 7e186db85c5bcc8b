"""Benchmark `manifest`: loading the manifest of a site of many sitemaps."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from flask_sitemapx.snapshots.directory import DirectoryStore
from flask_sitemapx.snapshots.snapshot import Archive, Document, SectionState, Shard, Snapshot, page_hashes

from .rounds import Effort, clocked, timings
from .tables import Table, Target

LOADED = "loaded by another process"
AGAIN = "loaded after a change of one sitemap"
ANSWER = "a sitemap found in what is loaded"
PARSED = "json.loads of its bytes"

ABOUT = """CPU of loading the manifest of {shards:,} sitemaps, {size:.1f} MB in pages of 1,000, from a directory. Each
page is read, its hash checked, and its records made; after a change only the page of the sitemap that changed is."""


def tables(effort: Effort) -> Iterator[Table]:
    """One table."""
    with TemporaryDirectory() as directory:
        archive = Archive(DirectoryStore(directory), "site")
        first, second = snapshot(1, effort.entries), snapshot(2, effort.entries, changed=effort.entries // 2)
        archive.publish(first)
        pages = [path.read_bytes() for path in (Path(directory) / "blobs").rglob("*") if path.is_file()]
        known = Archive(DirectoryStore(directory), "site")
        loaded = known.latest(None)
        archive.publish(second)

        def parse() -> int:
            return sum(len(rows) for rows in [json.loads(page) for page in pages])

        def load() -> int:
            latest = Archive(DirectoryStore(directory), "site").latest(None)
            return len(latest.sections["products"].shards) if latest else 0

        def load_again() -> int:
            known._pages = archive_pages
            latest = known.latest(loaded)
            return len(latest.sections["products"].shards) if latest else 0

        archive_pages = known._pages
        work = {PARSED: parse, LOADED: load, AGAIN: load_again}
        measured = timings({name: clocked(go, effort.entries) for name, go in work.items()}, effort.rounds)
    made = Table("manifest", ABOUT.format(shards=effort.entries, size=sum(map(len, pages)) / 1e6), ["what", "ms", "x"])
    for name in measured:
        made.rows.append([name, measured.median(name) * effort.entries * 1e3, measured.ratio(name, PARSED)])
    made.rows.append([ANSWER, answered(second) * 1e3, None])
    made.targets.append(Target(f"{LOADED} / {PARSED}", measured.ratio(LOADED, PARSED), at_most=2.0))
    yield made


def answered(loaded: Snapshot) -> float:
    """Seconds of one look-up, after the first."""
    loaded.shard("products", 1)
    begun = time.perf_counter()
    for number in range(1, 1_001):
        loaded.shard("products", number)
    return (time.perf_counter() - begun) / 1_000


def snapshot(number: int, shards: int, changed: int = -1) -> Snapshot:
    """A set of so many sitemaps, one of which is *changed*."""
    made = tuple(shard(one, number if one == changed else 1) for one in range(shards))
    section = SectionState(shards=made, pages=page_hashes(made), next_number=shards + 1)
    return Snapshot(number, 1_790_000_000.0, "print", None, True, {"products": section})


def shard(number: int, generation: int) -> Shard:
    digests = [sha256(f"{number} {generation} {piece}".encode()).hexdigest() for piece in range(3)]
    stored = f"{digests[1]}:123456 {digests[2]}:50000"
    date = "2026-11-30T10:00:00Z"
    document = Document(7_500, 1_234_567, 0, digests[0], date, date, digests[0][:32], stored, 123_456_789, 400_000)
    version = f'[7500,"{date}"]'
    return Shard(number + 1, json.dumps([0, [number * 7_500]]), "", "", version, 1_790_000_000.1, document)
