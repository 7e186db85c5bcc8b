"""Rendered entries in, stored documents out: where shards are cut, and how each is hashed and compressed once."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import cast

from ..protocol.documents import MAX_BYTES, MAX_URLS, Frame
from ..protocol.gate import Rendered
from ..protocol.locs import PLACEHOLDER_WEIGHT
from .compression import Codec, decompressed
from .snapshot import Document, sha256

PIECE = 512 * 1024
"""Most bytes of a stored piece: stores refuse or lose large values."""
BLOCK = 64 * 1024
# So much of a document is held back until it is known whether it changed; beyond, it is compressed as it grows.
HELD_BACK = 4 * 1024 * 1024

Put = Callable[[str, bytes], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest document: entries, and bytes of XML; and the largest index, sitemaps."""

    urls: int
    size: int = MAX_BYTES
    sitemaps: int = MAX_URLS


class DocumentWriter:
    """Takes the entries of one document and stores it, unless *known* has it already.

    *known* maps the hash of entries to the document that had them, with the time of its change; it is taken as it is
    stored unless *reuse* is false.
    """

    def __init__(
        self, frame: Frame, codec: Codec, put: Put, known: Mapping[str, Document], *, reuse: bool = True
    ) -> None:
        self.count = 0
        self.size = len(frame.head) + len(frame.tail)
        self._frame = frame
        self._known = known
        self._reuse = reuse
        self._hash = hashlib.sha256()
        self._held: list[bytes] | None = [frame.head]
        self._held_size = 0
        self._pieces = Pieces(codec, put)
        self._origins = 0
        self._dates = LatestDate()
        self._length = self.size

    def write(self, elements: bytes, count: int, lastmods: Iterable[str | None]) -> None:
        origins = elements.count(b"\0") if b"\0" in elements else 0  # count() is ten times as slow as finding none
        self.count += count
        self.size += len(elements) + origins * PLACEHOLDER_WEIGHT
        self._length += len(elements)
        self._origins += origins
        self._dates.add(lastmods)
        self._hash.update(elements)
        self._hold_or_compress(elements)

    def document(self, changed_at: Callable[[str | None], str | None]) -> Document:
        """The stored document; *changed_at* says of a new one when it changed, given its latest `lastmod`."""
        entries_hash = self._hash.hexdigest()
        known = self._known.get(entries_hash)
        if known is not None and self._reuse:
            return known
        self._release()
        self._pieces.compress(self._frame.tail)
        pieces = self._pieces.finished()
        lastmod = self._dates.latest
        return Document(
            entries=self.count,
            length=self._length,
            origins=self._origins,
            entries_hash=entries_hash,
            lastmod=lastmod,
            changed_at=known.changed_at if known else changed_at(lastmod),
            gzip_etag=sha256("".join(digest for digest, _ in pieces).encode())[:32],
            stored=" ".join(f"{digest}:{length}" for digest, length in pieces),
        )

    def _hold_or_compress(self, data: bytes) -> None:
        if self._held is None:
            self._pieces.compress(data)
            return
        self._held.append(data)
        self._held_size += len(data)
        if self._held_size > HELD_BACK:
            self._release()

    def _release(self) -> None:
        for data in self._held or ():
            self._pieces.compress(data)
        self._held = None


class Pieces:
    """One gzip member, stored in pieces of `PIECE` bytes under their hashes as it grows."""

    def __init__(self, codec: Codec, put: Put) -> None:
        self._compressor = codec.compressor()
        self._put = put
        self._pending = bytearray()
        self._stored: list[tuple[str, int]] = []

    def compress(self, data: bytes) -> None:
        self._pending += self._compressor.compress(data)
        while len(self._pending) >= PIECE:
            self._store(PIECE)

    def finished(self) -> tuple[tuple[str, int], ...]:
        self._pending += self._compressor.flush()
        while self._pending:
            self._store(PIECE)
        return tuple(self._stored)

    def _store(self, size: int) -> None:
        piece = bytes(self._pending[:size])
        del self._pending[:size]
        digest = sha256(piece)
        self._put(digest, piece)
        self._stored.append((digest, len(piece)))


class LatestDate:
    """The latest of the dates added, if each entry had one. W3C datetimes in UTC sort as text."""

    def __init__(self) -> None:
        self._latest = ""
        self._complete = True

    def add(self, lastmods: Iterable[str | None]) -> None:
        if not self._complete:
            return
        try:
            self._latest = max((self._latest, *cast("Iterable[str]", lastmods)))
        except TypeError:  # one of them is None
            self._complete = False

    @property
    def latest(self) -> str | None:
        return self._latest or None if self._complete else None


class Outgrown(Exception):
    """What was to be one document does not fit into one."""


class Cutter:
    """Cuts a stream of entries into documents, at places that an insert elsewhere does not move.

    From half of either limit on, the first entry whose `loc` hashes to a multiple starts the next document
    (content-defined cuts, as rsync and restic make them), so that every process cuts alike without knowing the past. At
    a limit a document is cut in any case. Duplicates are dropped within a document. What is *whole* is not cut, but
    raises `Outgrown` at a limit.

    ``documents()`` gives ``(start, writer)``: the hash of the `loc` at which the document was cut, "" for the first.
    """

    def __init__(
        self,
        limits: Limits,
        new_writer: Callable[[], DocumentWriter],
        on_duplicate: Callable[[str], None],
        *,
        whole: bool = False,
    ) -> None:
        self._on_duplicate = on_duplicate
        self._limits = limits
        self._new_writer = new_writer
        self._whole = whole
        self._least = limits.urls + 1 if whole else max(1, limits.urls // 2)
        self._least_size = limits.size + 1 if whole else limits.size // 2
        self._multiple = max(2, limits.urls // 8)
        self._seen: set[str] = set()
        self._noted: list[list[str]] = []
        self._writer = new_writer()
        self._start = ""

    def documents(self, batches: Iterable[Rendered]) -> Iterator[tuple[str, DocumentWriter]]:
        for batch in batches:
            yield from self.added(batch)
        if self._writer.count:
            yield self._start, self._writer

    def added(self, batch: Rendered) -> Iterator[tuple[str, DocumentWriter]]:
        """Write *batch*, and give the documents that end with it."""
        elements = "".join(batch.elements).encode()
        if self._fits(batch.locs, len(elements)) and self._are_new(batch.locs):
            self._writer.write(elements, len(batch.locs), batch.lastmods)
        else:
            yield from self._one_by_one(batch)

    def _fits(self, locs: list[str], size: int) -> bool:
        """Whether a whole batch belongs into the document at hand."""
        count = self._writer.count + len(locs)
        size += self._writer.size + len(locs) * PLACEHOLDER_WEIGHT
        if count > self._limits.urls or size > self._limits.size:
            return False
        is_small = count <= self._least and size <= self._least_size
        return is_small or not any(zlib.crc32(loc.encode()) % self._multiple == 0 for loc in locs)

    def _are_new(self, locs: list[str]) -> bool:
        """Whether each of *locs* is new to the document; if so they are noted."""
        count = len(self._seen)
        self._seen.update(locs)  # one look-up each, not one to ask and one to note
        if len(self._seen) == count + len(locs):
            self._noted.append(locs)
            return True
        self._seen = set(chain.from_iterable(self._noted))
        return False

    def _one_by_one(self, batch: Rendered) -> Iterator[tuple[str, DocumentWriter]]:
        self._noted.append([])
        for loc, lastmod, element in zip(batch.locs, batch.lastmods, batch.elements, strict=True):
            if loc in self._seen:
                self._on_duplicate(loc)
                continue
            data = element.encode()
            if self._is_cut(loc, len(data) + data.count(b"\0") * PLACEHOLDER_WEIGHT):
                yield self._start, self._writer
                self._start = sha256(loc.encode())[:16]
                self._writer = self._new_writer()
                self._seen, self._noted = set(), [[]]
            self._seen.add(loc)
            self._noted[-1].append(loc)
            self._writer.write(data, 1, (lastmod,))

    def _is_cut(self, loc: str, size: int) -> bool:
        count = self._writer.count
        if not count:
            return False
        if count >= self._limits.urls or self._writer.size + size > self._limits.size:
            if self._whole:
                raise Outgrown("it is more than a sitemap holds")
            return True
        is_large = count >= self._least or self._writer.size >= self._least_size
        return is_large and zlib.crc32(loc.encode()) % self._multiple == 0


def entries(document: Document, frame: Frame, blob: Callable[[str], bytes]) -> Iterator[bytes]:
    """The entries of a stored document, without its frame, in blocks."""
    left = document.length - len(frame.head) - len(frame.tail)
    skip = len(frame.head)
    for block in decompressed((blob(digest) for digest, _ in document.pieces), BLOCK):
        content = block[skip:]
        skip = max(0, skip - len(block))
        if content[:left]:
            yield content[:left]
        left -= len(content[:left])
