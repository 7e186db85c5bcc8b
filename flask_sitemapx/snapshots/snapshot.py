"""The immutable set of all sitemaps of one site at one time, and how it is written down."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple

from ..errors import Damaged
from .store import BLOBS, STATE, Store

logger = logging.getLogger(__name__)

FORMAT = 3  # of manifests and documents: another number means that nothing stored is carried over
SHARDS_PER_PAGE = 1_000


class Document(NamedTuple):
    """All that a response needs to know of a stored sitemap document, except its body."""

    entries: int
    """How many there are."""
    length: int
    """Bytes of the XML, in which an origin that is not known yet counts as one."""
    origins: int
    """Places where the origin is to be put in."""
    entries_hash: str
    """SHA-256 of the entries, without the frame around them."""
    lastmod: str | None
    """The latest `lastmod` if all entries have one."""
    changed_at: str | None
    """When the entries changed, as W3C datetime; what the index's `lastmod` and `Last-Modified` say."""
    gzip_etag: str
    stored: str
    """The pieces of the gzip member, each as ``<SHA-256>:<length>``: one text takes less time to load than a list."""
    head: int
    """CRC of what stands before the entries."""
    text_length: int = 0
    """Bytes of its URLs as plain text, in which an origin that is not known yet counts as one."""
    namespaces: str = ""
    """Those that the root declares, as `packed` writes them."""
    expires_at: float | None = None
    """When the first of its news is too old to be news, in seconds since the epoch."""

    @property
    def etag(self) -> str:
        return f"{FORMAT}-{self.entries_hash[:32]}-{self.head:08x}"

    @property
    def pieces(self) -> tuple[tuple[str, int], ...]:
        """SHA-256 and length of the pieces of the gzip member."""
        pieces = (piece.partition(":") for piece in self.stored.split())
        return tuple((digest, int(length)) for digest, _, length in pieces)

    @property
    def gzip_length(self) -> int:
        return sum(length for _, length in self.pieces)


class Shard(NamedTuple):
    """A numbered document of a part of a section."""

    number: int
    """0 for a part that has no entries, and so no document."""
    part: str
    """The key of its part."""
    start: str
    """The cut at which it begins within its part, "" for an open end."""
    end: str
    version: str | None
    """What it was read at, as the part itself tells it."""
    read_at: float
    document: Document | None
    """None if the part was planned, but not read so far; then nothing is known of what it holds."""

    @property
    def is_listed(self) -> bool:
        return self.number > 0

    @property
    def is_unbuilt(self) -> bool:
        return self.number > 0 and self.document is None

    @property
    def is_whole_part(self) -> bool:
        """Whether it has all of its part, so that it can be made without regard to others."""
        return not self.start and not self.end

    def path(self, section: str) -> str:
        return f"/sitemap-{section}-{self.number}.xml"

    def summary(self, section: str) -> dict[str, Any]:
        """What a person wants to know of it, as plain values."""
        document = self.document
        return {
            "number": self.number,
            "path": self.path(section),
            "count": document and document.entries,
            "bytes": document and document.length,
            "changed_at": document and document.changed_at,
            "etag": document and document.etag,
        }


@dataclass(frozen=True, slots=True)
class SectionState:
    """What a snapshot knows of one section."""

    shards: tuple[Shard, ...] = ()
    pages: tuple[str, ...] = ()
    """Hashes of the pages on which the shards stand, as `page_hashes` gives them."""
    rule: str = ""
    """Hash of what stands for how entries are made; under another one nothing that was read before stands."""
    memo: str | None = None
    """What the section wants to be told when it is read again."""
    token: str | None = None
    """The touch token noted before the entries were read."""
    read_at: float = 0.0
    """When it was last looked at."""
    is_complete: bool = True
    """Whether all that changed by then was read."""
    next_number: int = 1
    retired: tuple[tuple[Shard, float], ...] = ()
    """Shards that were cut anew, each with the time until which its number is still answered."""
    faults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What was left out of a part, by rule: count and an example."""
    error: str | None = None
    """Why these are the entries of an earlier time, if they are."""
    failures: int = 0
    """How many builds in a row that happened in."""

    @property
    def count(self) -> int:
        return sum(shard.document.entries for shard in self.shards if shard.document)

    @property
    def listed(self) -> list[Shard]:
        """Those that have a sitemap, or will have."""
        return [shard for shard in self.shards if shard.is_listed]

    @property
    def problems(self) -> dict[str, Any]:
        """What was left out of all parts, by rule: count and an example."""
        problems: dict[str, Any] = {}
        for rules in self.faults.values():
            for rule, (count, example) in rules.items():
                known, first = problems.get(rule) or (0, example)
                problems[rule] = [known + count, first]
        return problems


class Index(NamedTuple):
    """One of several indexes of a site that has more sitemaps than one can list."""

    number: int
    """1 is ``/sitemap.xml`` itself."""
    group: str
    """Which sitemaps it lists: a section's name, and which of its ranges of numbers."""
    document: Document


class FeedState(NamedTuple):
    """A feed of the newest pages of a section."""

    key: str
    """Hash of what it was made of."""
    document: Document


@dataclass(frozen=True)
class Snapshot:
    """An immutable set of sitemaps, as published under a number."""

    number: int
    built_at: float
    fingerprint: str
    document: Document | None
    """`/sitemap.xml`, or None if there is nothing to list."""
    is_index: bool
    sections: Mapping[str, SectionState]
    indexes: tuple[Index, ...] = ()
    """All of them, where one cannot list all sitemaps."""
    feeds: Mapping[str, FeedState] = field(default_factory=dict)
    """Those of the sections that have one, by name."""
    garbage: Mapping[str, float] = field(default_factory=dict)
    """Blobs that no document needs any more, each with the time since when."""
    seconds: float = 0.0
    """How long the build took."""

    @property
    def count(self) -> int:
        return sum(section.count for section in self.sections.values())

    @cached_property
    def failures(self) -> int:
        """How often in a row one of its sections failed."""
        return max((section.failures for section in self.sections.values()), default=0)

    @cached_property
    def unbuilt(self) -> list[tuple[str, Shard]]:
        """The shards that were only planned so far, each with the name of its section."""
        return [
            (name, shard) for name, section in self.sections.items() for shard in section.shards if shard.is_unbuilt
        ]

    @cached_property
    def is_complete(self) -> bool:
        """Whether nothing of it is still to be read."""
        return not self.unbuilt and all(section.is_complete for section in self.sections.values())

    @cached_property
    def expires_at(self) -> float:
        """When something that it lists stops being true by itself."""
        documents = (shard.document for section in self.sections.values() for shard in section.shards)
        return min((one.expires_at for one in documents if one and one.expires_at is not None), default=float("inf"))

    def shard(self, section: str, number: int) -> Shard | None:
        """The shard of a published number, also of one that was cut anew a short time ago."""
        return self._shards.get((section, number))

    def index(self, number: int) -> Document | None:
        """One of several indexes, by its number."""
        return next((index.document for index in self.indexes if index.number == number), None)

    @cached_property
    def _shards(self) -> dict[tuple[str, int], Shard]:
        return {
            (name, shard.number): shard
            for name, section in self.sections.items()
            for shard in (*(shard for shard, _ in section.retired), *section.shards)
            if shard.number
        }

    def summary(self) -> dict[str, Any]:
        """What a person wants to know of it, as plain values."""
        return {
            "number": self.number,
            "built_at": datetime.fromtimestamp(self.built_at, UTC).isoformat(timespec="seconds"),
            "seconds": self.seconds,
            "kind": "sitemapindex" if self.is_index else "urlset",
            "count": self.count,
            "complete": self.is_complete,
            "sections": {
                name: {
                    "count": section.count,
                    "shards": [shard.summary(name) for shard in section.listed],
                    "problems": dict(section.problems),
                    "error": section.error,
                }
                for name, section in self.sections.items()
            },
        }

    def blobs(self) -> set[str]:
        """The names of all pieces, pages and records that this snapshot needs."""
        documents = [shard.document for shard in self._shards.values()]
        documents += [self.document, *(index.document for index in self.indexes)]
        documents += [feed.document for feed in self.feeds.values()]
        pieces = {digest for document in documents if document for digest, _ in document.pieces}
        pieces |= {record_name(name, shard) for name, shard in self.unbuilt}
        return pieces | {digest for section in self.sections.values() for digest in section.pages}


BLANK = Snapshot(number=0, built_at=0.0, fingerprint="", document=None, is_index=False, sections={})
"""No set at all: what a manifest that cannot be read stands for."""


class Archive:
    """The manifests of one site in a store.

    A manifest is published by the exclusive creation of the next number. Its shards stand on pages of their own that
    are kept under their hash, so that one edit writes one page and the root.
    """

    def __init__(self, store: Store, site: str) -> None:
        self.store = store
        self.site = site
        # Those of the last snapshot that was read or published, which are in the store therefore.
        self._pages: dict[str, tuple[Shard, ...]] = {}

    def latest(self, known: Snapshot | None) -> Snapshot | None:
        """The newest snapshot, which is *known* itself if nothing newer was published; None if there is none."""
        head = self._head()
        if known and head < known.number and self.store.get(self._manifest(known.number)) is None:
            known, self._pages = None, {}  # somebody emptied the store
        number, manifest = self._walked(max(head, known.number if known else 0))
        if known and known.number == number:
            return known
        if manifest is None:
            manifest = self.store.get(self._manifest(number))
        if manifest is None and self._head() != head:  # two were published meanwhile, and this one removed
            return self.latest(known)
        return self._read(manifest, number, known) if number else None

    def publish(self, snapshot: Snapshot) -> bool:
        """Make *snapshot* the newest; False if another has taken its number."""
        pages = _pages(snapshot.sections)
        for digest, page in pages.items():
            if digest not in self._pages:
                self.put_blob(digest, _json(page))
        if not self.store.add(self._manifest(snapshot.number), self._dumps(snapshot)):
            return False
        self._pages = pages
        self.store.put(self._state("head"), str(snapshot.number).encode())
        return True

    def remove_superseded(self, number: int) -> None:
        """Remove the manifests before *number* and the last one before it, and the leases of all published numbers."""
        for kept in (number, number - 1):
            self.store.delete(self.lease_key(kept))
        oldest = number - 1
        while self.store.get(self._manifest(oldest - 1)) is not None:
            oldest -= 1
        for superseded in range(oldest, number - 1):  # the oldest first: whoever is killed here leaves no gap
            self.store.delete(self.lease_key(superseded))
            self.store.delete(self._manifest(superseded))

    def lease_key(self, number: int) -> str:
        """Where the builder of *number* leaves its lease."""
        # A forked child inherits what its parent had in memory, but not the thread that was building.
        owner = "" if self.store.shared else f".{os.getpid()}"
        return self._state(f"lease.{number}{owner}")

    def put_blob(self, digest: str, data: bytes) -> None:
        self.store.put(self._blob(digest), data)

    def blob(self, digest: str) -> bytes:
        """The bytes whose hash is *digest*; `Damaged` if they are not there whole."""
        data = self.store.get(self._blob(digest))
        if data is None or sha256(data) != digest:
            self._pages = {}  # nor is any other page sure to be there still
            raise Damaged(f"{self._blob(digest)} is {'missing' if data is None else 'damaged'}")
        return data

    def is_whole(self, document: Document) -> bool:
        """Whether all pieces of *document* are there."""
        try:
            return all(self.blob(digest) for digest, _ in document.pieces)
        except Damaged:
            return False

    def finish(self, section: str, planned: Shard, finished: Shard) -> None:
        """Note how a shard came out that the current manifest has as *planned* only."""
        body = _json(finished)
        self.store.put(self._blob(record_name(section, planned)), sha256(body).encode() + b"\n" + body)

    def finished(self, section: str, planned: Shard) -> Shard | None:
        """The shard as somebody finished it since, if that was done and all of it is there."""
        record = self.store.get(self._blob(record_name(section, planned)))
        digest, _, body = (record or b"").partition(b"\n")
        if sha256(body).encode() != digest:
            return None
        shard = _shard(json.loads(body))
        return shard if shard.document is None or self.is_whole(shard.document) else None

    def blob_names(self) -> Iterator[str]:
        yield from (key.rpartition("/")[2] for key in self.store.names(f"{BLOBS}{self.site}/"))

    def delete_blob(self, digest: str) -> None:
        self.store.delete(self._blob(digest))

    def _walked(self, number: int) -> tuple[int, bytes | None]:
        """The newest number from *number* on, and its manifest if it is a later one."""
        # The head may be one behind, after a crash between two writes.
        newest = None
        while (manifest := self.store.get(self._manifest(number + 1))) is not None:
            newest, number = manifest, number + 1
        return number, newest

    def _head(self) -> int:
        head = self.store.get(self._state("head"))
        if head is None or head.isdigit():
            return int(head or 0)
        manifests = (key.rpartition(".") for key in self.store.names(STATE))
        prefix = self._manifest(0).rpartition(".")[0]
        return max((int(number) for name, _, number in manifests if name == prefix), default=0)

    def _state(self, name: str) -> str:
        return f"{STATE}{self.site}.{name}"

    def _manifest(self, number: int) -> str:
        return self._state(f"manifest.{number}")

    def _blob(self, digest: str) -> str:
        return f"{BLOBS}{self.site}/{digest[:2]}/{digest}"

    def _dumps(self, snapshot: Snapshot) -> bytes:
        root = {
            "format": FORMAT,
            "built_at": snapshot.built_at,
            "seconds": snapshot.seconds,
            "fingerprint": snapshot.fingerprint,
            "document": snapshot.document,
            "is_index": snapshot.is_index,
            "sections": {name: _section_root(section) for name, section in snapshot.sections.items()},
            "indexes": snapshot.indexes,
            "feeds": snapshot.feeds,
            "garbage": snapshot.garbage,
        }
        body = _json(root)
        return sha256(body).encode() + b"\n" + body

    def _read(self, manifest: bytes | None, number: int, known: Snapshot | None) -> Snapshot:
        try:
            if manifest is None:
                raise Damaged("it is missing")
            return self._loads(manifest, number)
        except (Damaged, ValueError, KeyError, TypeError) as error:
            logger.error("sitemap: manifest %d cannot be used (%s), building anew", number, error)
            return replace(known or BLANK, number=number, built_at=0.0)

    def _loads(self, manifest: bytes, number: int) -> Snapshot:
        digest, _, body = manifest.partition(b"\n")
        if sha256(body).encode() != digest:
            raise Damaged("its hash differs")
        root = json.loads(body)
        if root["format"] != FORMAT:
            raise Damaged(f"its format is {root['format']}, not {FORMAT}")
        sections = {name: self._section(section) for name, section in root["sections"].items()}
        self._pages = _pages(sections)
        return Snapshot(
            number=number,
            built_at=root["built_at"],
            seconds=root["seconds"],
            fingerprint=root["fingerprint"],
            document=_document(root["document"]),
            is_index=root["is_index"],
            sections=sections,
            indexes=tuple(Index(index, group, Document._make(row)) for index, group, row in root["indexes"]),
            feeds={name: FeedState(key, Document._make(row)) for name, (key, row) in root["feeds"].items()},
            garbage=root["garbage"],
        )

    def _section(self, root: dict[str, Any]) -> SectionState:
        pages = tuple(root.pop("pages"))
        shards = tuple(shard for digest in pages for shard in self._page(digest))
        retired = tuple((_shard(row), until) for row, until in root.pop("retired"))
        return SectionState(shards=shards, pages=pages, retired=retired, **root)

    def _page(self, digest: str) -> tuple[Shard, ...]:
        known = self._pages.get(digest)
        return _shards(self.blob(digest)) if known is None else known


def _pages(sections: Mapping[str, SectionState]) -> dict[str, tuple[Shard, ...]]:
    return {
        digest: page
        for section in sections.values()
        for digest, page in zip(section.pages, _paged(section.shards), strict=True)
    }


def page_hashes(shards: tuple[Shard, ...]) -> tuple[str, ...]:
    """The hashes under which the pages of a section's shards are kept."""
    return tuple(sha256(_json(page)) for page in _paged(shards))


def record_name(section: str, planned: Shard) -> str:
    """The name under which it is noted how a planned shard came out."""
    return sha256(_json([section, planned.number, planned.part]))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _section_root(section: SectionState) -> dict[str, Any]:
    return {
        "pages": section.pages,
        "rule": section.rule,
        "memo": section.memo,
        "token": section.token,
        "read_at": section.read_at,
        "is_complete": section.is_complete,
        "next_number": section.next_number,
        "retired": section.retired,
        "faults": section.faults,
        "error": section.error,
        "failures": section.failures,
    }


def _paged(shards: tuple[Shard, ...]) -> Iterator[tuple[Shard, ...]]:
    for start in range(0, len(shards), SHARDS_PER_PAGE):
        yield shards[start : start + SHARDS_PER_PAGE]


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _document(row: list[Any] | None) -> Document | None:
    return None if row is None else Document._make(row)


def _shard(row: list[Any]) -> Shard:
    return Shard._make([*row[:-1], _document(row[-1])])


def _shards(page: bytes) -> tuple[Shard, ...]:
    make, made = Shard._make, Document._make
    return tuple(
        [
            make((number, part, start, end, version, read_at, document and made(document)))
            for number, part, start, end, version, read_at, document in json.loads(page)
        ]
    )
