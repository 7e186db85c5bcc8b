"""Rendered entries in, stored documents out: where shards are cut, and how each is hashed and compressed once."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import cast

from ..protocol.documents import MAX_BYTES, MAX_NEWS, MAX_URLS, URLSET, Frame, declarations
from ..protocol.elements import KNOWN, Namespace, Namespaces, packed
from ..protocol.gate import Rendered
from ..protocol.locs import PLACEHOLDER_WEIGHT
from ..protocol.media import news_expires_at, publication_dates
from ..protocol.text import text_length
from .compression import Codec, decompressed
from .snapshot import Document, sha256

PIECE = 512 * 1024
"""Most bytes of a stored piece: stores refuse or lose large values."""
BLOCK = 64 * 1024
# So much of a document is held back until it is known whether it changed; beyond, it is compressed as it grows.
HELD_BACK = 4 * 1024 * 1024

_END = b"</url>\n"

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

    Namespaces are declared in the root as far as they are used before the root has to be written; later ones are in
    the entries that use them.
    """

    def __init__(
        self, frame: Frame, codec: Codec, put: Put, known: Mapping[str, Document], *, reuse: bool = True
    ) -> None:
        self.count = 0
        self.size = len(frame.head) + len(frame.tail)
        self.news = 0
        self._frame = frame
        self._namespaces: set[Namespace] = set()
        self._known = known
        self._reuse = reuse
        self._hash = hashlib.sha256()
        self._held: list[bytes] | None = []
        self._held_size = 0
        self._pieces = Pieces(codec, put)
        self._origins = 0
        self._dates = LatestDate()
        self._length = self.size
        self._text_length = 0
        self._expires_at = float("inf")

    def declared(self, elements: bytes, namespaces: Namespaces) -> bytes:
        """*elements*, with those of *namespaces* declared that the root does not declare and no longer can."""
        late = [] if self._held is not None else [one for one in namespaces if one not in self._namespaces]
        return _declaring(elements, late) if late else elements

    def head_growth(self, namespaces: Namespaces) -> int:
        """Bytes by which the root grows if entries of *namespaces* are written."""
        return 0 if self._held is None else len(declarations(self._new(namespaces)))

    def write(
        self,
        elements: bytes,
        count: int,
        lastmods: Iterable[str | None],
        namespaces: Namespaces = (),
        text_length: int = 0,
    ) -> None:
        """Add *elements*, as `declared` gives them; *text_length* is what their locs take as plain text."""
        if namespaces:
            self._use(elements, namespaces)
        origins = elements.count(b"\0") if b"\0" in elements else 0  # count() is ten times as slow as finding none
        self.count += count
        self.size += len(elements) + origins * PLACEHOLDER_WEIGHT
        self._length += len(elements)
        self._text_length += text_length
        self._origins += origins
        self._dates.add(lastmods)
        self._hash.update(elements)
        self._hold_or_compress(elements)

    def document(self, changed_at: Callable[[str | None], str | None]) -> Document:
        """The stored document; *changed_at* says of a new one when it changed, given its latest `lastmod`."""
        entries_hash = self._hash.hexdigest()
        head = zlib.crc32(self._frame.declaring(sorted(self._namespaces)).head)
        known = self._known.get(entries_hash)
        if known is not None and known.head == head and self._reuse:
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
            head=head,
            text_length=self._text_length,
            namespaces=packed(sorted(self._namespaces)),
            expires_at=self._expires_at if self.news else None,
        )

    def _use(self, elements: bytes, namespaces: Namespaces) -> None:
        """Note what is used of *namespaces*."""
        if self._held is not None:
            growth = self.head_growth(namespaces)
            self.size += growth
            self._length += growth
            self._namespaces.update(namespaces)
        if KNOWN["news"] in namespaces:
            dates = publication_dates(elements.decode())
            self.news += len(dates)
            self._expires_at = min([self._expires_at, *map(news_expires_at, dates)])

    def _new(self, namespaces: Namespaces) -> list[Namespace]:
        return [one for one in namespaces if one not in self._namespaces]

    def _hold_or_compress(self, data: bytes) -> None:
        if self._held is None:
            self._pieces.compress(data)
            return
        self._held.append(data)
        self._held_size += len(data)
        if self._held_size > HELD_BACK:
            self._release()

    def _release(self) -> bytes:
        """The head, as it is from now on; what was held back is compressed."""
        head = self._frame.declaring(sorted(self._namespaces)).head
        if self._held is not None:
            for data in (head, *self._held):
                self._pieces.compress(data)
        self._held = None
        return head


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
        if batch.namespaces:
            elements = self._writer.declared(elements, batch.namespaces)
        if self._fits(batch, elements) and self._are_new(batch.locs):
            length = text_length(batch.locs)
            self._writer.write(elements, len(batch.locs), batch.lastmods, batch.namespaces, length)
        else:
            yield from self._one_by_one(batch)

    def _fits(self, batch: Rendered, elements: bytes) -> bool:
        """Whether a whole batch belongs into the document at hand."""
        locs = batch.locs
        count = self._writer.count + len(locs)
        size = self._writer.size + len(elements) + len(locs) * PLACEHOLDER_WEIGHT
        if batch.namespaces:
            # Each link to the site itself is as long as it may become, too.
            size += self._writer.head_growth(batch.namespaces) + elements.count(b"\0") * PLACEHOLDER_WEIGHT
            if self._is_full_of_news(elements, batch.namespaces):
                return False
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
            used = tuple(one for one in batch.namespaces if f"<{one.prefix}:" in element)
            data = self._writer.declared(element.encode(), used)
            if self._is_cut(loc, data, used):
                data = element.encode()
                yield self._start, self._writer
                self._start = sha256(loc.encode())[:16]
                self._writer = self._new_writer()
                self._seen, self._noted = set(), [[]]
            self._seen.add(loc)
            self._noted[-1].append(loc)
            self._writer.write(data, 1, (lastmod,), used, text_length([loc]))

    def _is_full_of_news(self, elements: bytes, namespaces: Namespaces) -> bool:
        return KNOWN["news"] in namespaces and self._writer.news + elements.count(b"<news:news>") > MAX_NEWS

    def _is_cut(self, loc: str, data: bytes, used: Namespaces) -> bool:
        count = self._writer.count
        if not count:
            return False
        size = self._writer.size + len(data) + data.count(b"\0") * PLACEHOLDER_WEIGHT
        size += self._writer.head_growth(used)
        if count >= self._limits.urls or size > self._limits.size or self._is_full_of_news(data, used):
            if self._whole:
                raise Outgrown("it is more than a sitemap holds")
            return True
        is_large = count >= self._least or self._writer.size >= self._least_size
        return is_large and zlib.crc32(loc.encode()) % self._multiple == 0


def entries(document: Document, blob: Callable[[str], bytes]) -> Iterator[bytes]:
    """The entries of a stored urlset, without what stands around them, in blocks."""
    blocks = decompressed((blob(digest) for digest, _ in document.pieces), BLOCK)
    head = b""
    for block in blocks:
        head += block
        if (at := head.find(b">\n", head.find(b"<urlset"))) >= 0 and b"<urlset" in head:
            break
    at += len(b">\n")
    left = document.length - at - len(URLSET.tail)
    for block in chain([head[at:]], blocks):
        content = block[:left]
        left -= len(content)
        if content:
            yield content


def element_lists(document: Document, blob: Callable[[str], bytes]) -> Iterator[list[bytes]]:
    """The `<url>` elements of a stored urlset, some at a time."""
    rest = b""
    for block in entries(document, blob):
        *elements, rest = (rest + block).split(_END)
        yield [element + _END for element in elements]


def _declaring(elements: bytes, namespaces: Iterable[Namespace]) -> bytes:
    """*elements*, where each entry declares those of *namespaces* that it uses."""
    entries = elements.split(_END)
    for place, entry in enumerate(entries):
        used = [one for one in namespaces if f"<{one.prefix}:".encode() in entry]
        entries[place] = entry.replace(b"<url", b"<url" + declarations(used), 1)
    return _END.join(entries)
