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

FORMAT = 1  # of manifests and documents: another number means that nothing stored is carried over
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
    pieces: tuple[tuple[str, int], ...]
    """SHA-256 and length of the pieces of the gzip member."""

    @property
    def etag(self) -> str:
        return f"{FORMAT}-{self.entries_hash[:32]}"

    @property
    def gzip_length(self) -> int:
        return sum(length for _, length in self.pieces)


class Shard(NamedTuple):
    """A numbered document of a section and the cuts between which it lies; "" is an open end."""

    number: int
    start: str
    end: str
    document: Document

    def path(self, section: str) -> str:
        return f"/sitemap-{section}-{self.number}.xml"

    def summary(self, section: str) -> dict[str, Any]:
        """What a person wants to know of it, as plain values."""
        document = self.document
        return {
            "number": self.number,
            "path": self.path(section),
            "count": document.entries,
            "bytes": document.length,
            "changed_at": document.changed_at,
            "etag": document.etag,
        }


@dataclass(frozen=True, slots=True)
class SectionState:
    """What a snapshot knows of one section."""

    shards: tuple[Shard, ...] = ()
    pages: tuple[str, ...] = ()
    """Hashes of the pages on which the shards stand, as `page_hashes` gives them."""
    version: str | None = None
    """Hash of all that the shards were made from, or None if that cannot be told: then they are always made again."""
    token: str | None = None
    """The touch token noted before the entries were read."""
    read_at: float = 0.0
    next_number: int = 1
    retired: tuple[tuple[Shard, float], ...] = ()
    """Shards that were cut anew, each with the time until which its number is still answered."""
    problems: Mapping[str, Any] = field(default_factory=dict)
    """What was left out, by rule: count and an example."""
    error: str | None = None
    """Why these are the entries of an earlier time, if they are."""
    failures: int = 0
    """How many builds in a row that happened in."""

    @property
    def count(self) -> int:
        return sum(shard.document.entries for shard in self.shards)


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
    garbage: Mapping[str, float] = field(default_factory=dict)
    """Blobs that no document needs any more, each with the time since when."""
    seconds: float = 0.0
    """How long the build took."""

    @property
    def count(self) -> int:
        return sum(section.count for section in self.sections.values())

    @property
    def failures(self) -> int:
        """How often in a row one of its sections failed."""
        return max((section.failures for section in self.sections.values()), default=0)

    def shard(self, section: str, number: int) -> Document | None:
        """The document of a published number, also of one that was cut anew a short time ago."""
        return self._documents.get((section, number))

    @cached_property
    def _documents(self) -> dict[tuple[str, int], Document]:
        return {
            (name, shard.number): shard.document
            for name, section in self.sections.items()
            for shard in (*(shard for shard, _ in section.retired), *section.shards)
        }

    def summary(self) -> dict[str, Any]:
        """What a person wants to know of it, as plain values."""
        return {
            "number": self.number,
            "built_at": datetime.fromtimestamp(self.built_at, UTC).isoformat(timespec="seconds"),
            "seconds": self.seconds,
            "kind": "sitemapindex" if self.is_index else "urlset",
            "count": self.count,
            "sections": {
                name: {
                    "count": section.count,
                    "shards": [shard.summary(name) for shard in section.shards],
                    "problems": dict(section.problems),
                    "error": section.error,
                }
                for name, section in self.sections.items()
            },
        }

    def blobs(self) -> set[str]:
        """The hashes of all pieces and pages that this snapshot needs."""
        documents = [*self._documents.values(), *([self.document] if self.document else [])]
        pieces = {digest for document in documents for digest, _ in document.pieces}
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
        number -= 2
        while self.store.get(self._manifest(number)) is not None:
            self.store.delete(self.lease_key(number))
            self.store.delete(self._manifest(number))
            number -= 1

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
            document=_document(root["document"]) if root["document"] else None,
            is_index=root["is_index"],
            sections=sections,
            garbage=root["garbage"],
        )

    def _section(self, root: dict[str, Any]) -> SectionState:
        pages = tuple(root.pop("pages"))
        shards = tuple(shard for digest in pages for shard in self._page(digest))
        retired = tuple((_shard(row), until) for row, until in root.pop("retired"))
        return SectionState(shards=shards, pages=pages, retired=retired, **root)

    def _page(self, digest: str) -> tuple[Shard, ...]:
        known = self._pages.get(digest)
        return tuple(map(_shard, json.loads(self.blob(digest)))) if known is None else known


def _pages(sections: Mapping[str, SectionState]) -> dict[str, tuple[Shard, ...]]:
    return {
        digest: page
        for section in sections.values()
        for digest, page in zip(section.pages, _paged(section.shards), strict=True)
    }


def page_hashes(shards: tuple[Shard, ...]) -> tuple[str, ...]:
    """The hashes under which the pages of a section's shards are kept."""
    return tuple(sha256(_json(page)) for page in _paged(shards))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _section_root(section: SectionState) -> dict[str, Any]:
    return {
        "pages": section.pages,
        "version": section.version,
        "token": section.token,
        "read_at": section.read_at,
        "next_number": section.next_number,
        "retired": section.retired,
        "problems": section.problems,
        "error": section.error,
        "failures": section.failures,
    }


def _paged(shards: tuple[Shard, ...]) -> Iterator[tuple[Shard, ...]]:
    for start in range(0, len(shards), SHARDS_PER_PAGE):
        yield shards[start : start + SHARDS_PER_PAGE]


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _document(row: list[Any]) -> Document:
    return Document._make([*row[:-1], tuple((digest, length) for digest, length in row[-1])])


def _shard(row: list[Any]) -> Shard:
    number, start, end, document = row
    return Shard(number, start, end, _document(document))
