"""A site without an application: sections that are lists of entries, which tests change at will."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from flask_sitemapx.protocol.entries import Columns
from flask_sitemapx.protocol.locs import BaseUrl
from flask_sitemapx.snapshots.builder import Builder
from flask_sitemapx.snapshots.compression import decompressed, zlib_codec
from flask_sitemapx.snapshots.reading import Rules
from flask_sitemapx.snapshots.shards import Limits, entries
from flask_sitemapx.snapshots.snapshot import BLANK, Archive, Document, Snapshot
from flask_sitemapx.sources.parts import NamedPart, Past, Plan, Source

BASE = BaseUrl.parse("https://example.com")
NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z
DATE = "2027-01-15T08:00:00Z"


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class WholeSource:
    """A section in one part, which has a name, a version and columns."""

    name: str
    endpoint: str | None = None

    def version(self) -> str | None:
        return None

    def columns(self) -> Iterator[Columns]:
        raise NotImplementedError

    def rule(self) -> str | None:
        return None

    def plan(self, past: Past) -> Plan:
        known = next((part.version for part in past.parts), None)
        return Plan([NamedPart("", self.columns, self.version(), None if past.is_touched else known, is_cut=True)])

    def part(self, key: str, following: str | None) -> NamedPart:
        return NamedPart(key, self.columns, is_cut=True)


class ListSource(WholeSource):
    """A section of paths, each alone or with a `lastmod`."""

    def __init__(self, name: str, *items: Any, version: str | None = None) -> None:
        self.name = name
        self.items: list[Any] = list(items)
        self.said = version
        self.pulls = 0
        self.before_batch: Callable[[], None] = lambda: None
        self.batch = 4

    def version(self) -> str | None:
        return self.said

    def columns(self) -> Iterator[Columns]:
        self.pulls += 1
        for start in range(0, max(len(self.items), 1), self.batch):
            self.before_batch()
            batch = self.items[start : start + self.batch]
            rows = [item if isinstance(item, tuple) else (item, None) for item in batch]
            if rows:
                yield Columns([path for path, _ in rows], [lastmod for _, lastmod in rows])


class KeyedSource(WholeSource):
    """A section in parts, each a list of paths with a version."""

    def __init__(self, name: str, **parts: list[str]) -> None:
        self.name = name
        self.parts = parts
        self.versions: dict[str, str | None] = dict.fromkeys(parts, "1")
        self.pulls: list[str] = []
        self.closed: list[str] = []
        self.before_batch: Callable[[str], None] = lambda key: None
        self.own_rule: str | None = None
        self.memo: str | None = None
        self.pasts: list[Past] = []

    def rule(self) -> str | None:
        return self.own_rule

    def plan(self, past: Past) -> Plan:
        self.pasts.append(past)
        known = {part.key: part.version for part in past.parts}
        return Plan([self._part(key, known.get(key)) for key in self.parts], self.memo)

    def part(self, key: str, following: str | None) -> NamedPart:
        return self._part(key, None)

    def _part(self, key: str, known: str | None) -> NamedPart:
        return NamedPart(key, partial(self._columns, key), self.versions.get(key), known)

    def _columns(self, key: str) -> Iterator[Columns]:
        self.pulls.append(key)
        try:
            for start in range(0, len(self.parts[key]), 4):
                self.before_batch(key)
                yield Columns(self.parts[key][start : start + 4])
        finally:
            self.closed.append(key)


class Site:
    """Sections, rules and a builder on a store, and what a reader sees of them."""

    def __init__(self, store: Any, *sources: Source, urls: int = 8, **rules: Any) -> None:
        self.sources: list[Any] = list(sources)
        self.clock = Clock()
        self.rules = Rules(Limits(urls), **rules)
        self.archive = Archive(store, "site")
        self.monotonic = Clock(0.0)
        self.builder = Builder(
            BASE,
            self.archive,
            lambda: self.sources,
            lambda: self.rules,
            zlib_codec(),
            clock=self.clock,
            monotonic=self.monotonic,
        )
        self.snapshot: Snapshot = BLANK
        self.fingerprint = "f"
        self.tokens: dict[str, str] = {}

    def build(self, **options: Any) -> Snapshot:
        """Build and publish the next snapshot."""
        self.builder.remove_leftovers(self.snapshot, lambda: True)
        built = self.builder.build(self.snapshot, self.fingerprint, self.tokens, **options)
        assert self.archive.publish(built)
        self.snapshot = built
        return built

    def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds
        self.monotonic.now += seconds

    @property
    def document(self) -> Document:
        """That of ``/sitemap.xml``."""
        assert self.snapshot.document is not None
        return self.snapshot.document

    def first(self, section: str) -> Document:
        """That of a section's first sitemap."""
        document = self.snapshot.sections[section].listed[0].document
        assert document is not None
        return document

    def numbers(self, section: str) -> list[int]:
        return [shard.number for shard in self.snapshot.sections[section].listed]

    def text(self, document: Document) -> str:
        pieces = (self.archive.blob(digest) for digest, _ in document.pieces)
        return b"".join(decompressed(pieces, 4_096)).decode()

    def front(self) -> list[str]:
        """The paths in ``/sitemap.xml``."""
        return paths(self.text(self.document))

    def listed(self, section: str) -> list[str]:
        """The paths in a section's shards, in order."""
        documents = [shard.document for shard in self.snapshot.sections[section].shards if shard.document]
        return [path for document in documents for path in paths(b"".join(entries(document, self.archive.blob)))]

    def blobs(self) -> set[str]:
        return set(self.archive.blob_names())


def paths(xml: str | bytes) -> list[str]:
    text = xml if isinstance(xml, str) else xml.decode()
    return re.findall(r"<loc>https://example\.com([^<]*)</loc>", text)


def numbered(count: int, start: int = 0) -> list[str]:
    return [f"/page/{number}" for number in range(start, start + count)]
