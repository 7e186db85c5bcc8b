"""Where a stream of entries is cut, and what is kept of each document."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from lxml import etree

from flask_sitemapx.protocol.documents import MAX_BYTES, MAX_NEWS, MAX_URLS, URLSET, framed, url_elements
from flask_sitemapx.protocol.elements import KNOWN
from flask_sitemapx.protocol.gate import Rendered
from flask_sitemapx.protocol.locs import PLACEHOLDER_WEIGHT
from flask_sitemapx.protocol.text import text_length
from flask_sitemapx.snapshots.compression import Codec, Compressor, zlib_codec
from flask_sitemapx.snapshots.shards import (
    HELD_BACK,
    PIECE,
    Cutter,
    DocumentWriter,
    LatestDate,
    Limits,
    Pieces,
    entries,
)
from flask_sitemapx.snapshots.snapshot import FORMAT, Document, sha256


class CountingCodec(Codec):
    """zlib, and how many compressors were fed how often."""

    def __init__(self) -> None:
        super().__init__(zlib, 1, "counting")
        self.fed = 0
        self.flushed = 0

    def compressor(self) -> Compressor:
        return CountingCompressor(super().compressor(), self)


class CountingCompressor:
    def __init__(self, inner: Compressor, codec: CountingCodec) -> None:
        self._inner = inner
        self._codec = codec

    def compress(self, data: bytes) -> bytes:
        self._codec.fed += 1
        return self._inner.compress(data)

    def flush(self, mode: int = 4) -> bytes:
        self._codec.flushed += 1
        return self._inner.flush()


@pytest.fixture
def blobs() -> dict[str, bytes]:
    return {}


@pytest.fixture
def codec() -> CountingCodec:
    return CountingCodec()


def locs(count: int, start: int = 0) -> list[str]:
    return [f"https://example.com/{number:08}" for number in range(start, start + count)]


def rendered(batch: list[str], lastmod: str | None = None) -> Rendered:
    return Rendered(batch, [lastmod] * len(batch), url_elements(batch))


def batches(all_locs: list[str], size: int) -> Iterator[Rendered]:
    for start in range(0, len(all_locs), size):
        yield rendered(all_locs[start : start + size])


class Recorder(DocumentWriter):
    """A writer that remembers its entries and compresses nothing."""

    def __init__(self) -> None:
        super().__init__(URLSET, zlib_codec(), lambda digest, data: None, {})
        self.elements: list[bytes] = []

    def write(self, elements, count, lastmods, namespaces=(), text_length=0):
        super().write(elements, count, lastmods, namespaces, text_length)
        self.elements += elements.splitlines()


def cut(all_locs: list[str], limits: Limits, size: int = 512, duplicates: list[str] | None = None):
    """``(start, writer)`` of each document."""
    cutter = Cutter(limits, Recorder, (duplicates if duplicates is not None else []).append)
    return list(cutter.documents(batches(all_locs, size)))


def counts(documents) -> list[int]:
    return [writer.count for _, writer in documents]


# Cuts


def test_nothing_is_no_document():
    assert cut([], Limits(10)) == []
    assert list(Cutter(Limits(10), Recorder, print).documents([rendered([])])) == []


def test_a_batch_of_which_nothing_is_left_is_no_entry_and_no_error():
    cutter = Cutter(Limits(10), Recorder, print)
    dated = rendered(locs(2), "2027-01-01")
    ((_, writer),) = cutter.documents([dated, rendered([]), dated._replace(locs=["a", "b"])])
    assert writer.count == 4
    assert writer._dates.latest == "2027-01-01"


@pytest.mark.parametrize("size", [1, 7, 512])
def test_no_document_has_more_entries_than_the_limit_and_none_is_lost(size):
    documents = cut(locs(1_000), Limits(40), size)
    assert max(counts(documents)) <= 40
    assert min(counts(documents)[:-1]) >= 20
    assert b"".join(line for _, writer in documents for line in writer.elements).count(b"<loc>") == 1_000
    assert [line for _, writer in documents for line in writer.elements] == "".join(
        url_elements(locs(1_000))
    ).encode().splitlines()


def never_a_cut(count: int, multiple: int) -> list[str]:
    """Locs of equal length of which none hashes to a cut."""
    found = (loc for loc in locs(2 * count + 100) if zlib.crc32(loc.encode()) % multiple)
    return [next(found) for _ in range(count)]


def test_a_document_of_exactly_50_000_entries_is_whole_and_one_of_50_001_is_not():
    chosen = never_a_cut(MAX_URLS + 1, MAX_URLS // 8)
    assert counts(cut(chosen[:-1], Limits(MAX_URLS))) == [MAX_URLS]
    assert counts(cut(chosen, Limits(MAX_URLS))) == [MAX_URLS, 1]


@pytest.mark.parametrize("size", [1, 512])
def test_a_document_of_exactly_the_limit_of_bytes_is_whole_and_one_more_is_not(size):
    chosen = never_a_cut(300, MAX_URLS // 8)
    exactly = len(URLSET.head) + len(URLSET.tail) + 300 * len(url_elements(chosen[:1])[0])
    ((_, writer),) = cut(chosen, Limits(MAX_URLS, exactly), size)
    assert writer.size == exactly
    assert counts(cut(chosen, Limits(MAX_URLS, exactly - 1), size)) == [299, 1]


def test_the_limit_of_bytes_is_that_of_the_protocol():
    """A document that is one byte short of, at, and beyond 52,428,800 bytes."""
    assert Limits(MAX_URLS).size == MAX_BYTES == 52_428_800
    frame = len(URLSET.head) + len(URLSET.tail)
    path = "https://example.com/x/" + "a" * 1_990
    count = (MAX_BYTES - frame) // len(url_elements([path + "00000"])[0])
    chosen = [f"{path}{number:05}" for number in range(count)]
    chosen = [loc if zlib.crc32(loc.encode()) % (MAX_URLS // 8) else loc.replace("/x/", "/y/") for loc in chosen]
    left = MAX_BYTES - frame - sum(map(len, url_elements(chosen)))
    for over, expected in ((-1, [count]), (0, [count]), (1, [count - 1, 1])):
        stretched = [*chosen[:-1], chosen[-1] + "b" * (left + over)]
        documents = cut(stretched, Limits(MAX_URLS))
        assert counts(documents) == expected
        assert len(expected) > 1 or documents[0][1].size == MAX_BYTES + over


def test_an_origin_that_is_not_known_counts_as_long_as_it_may_become():
    chosen = [loc.replace("https://example.com", "\0") for loc in never_a_cut(100, 6)]
    frame = len(URLSET.head) + len(URLSET.tail)
    each = len(url_elements(chosen[:1])[0]) + PLACEHOLDER_WEIGHT
    documents = cut(chosen, Limits(MAX_URLS, frame + 10 * each), 7)
    assert max(counts(documents)) <= 10
    for _, writer in documents:
        longest = writer._length + writer._origins * (PLACEHOLDER_WEIGHT - 1)
        assert longest <= frame + 10 * each


@pytest.mark.parametrize("limits", [Limits(64), Limits(MAX_URLS, 20_000), Limits(100, 9_000)], ids=str)
def test_cuts_do_not_depend_on_how_entries_are_batched(limits):
    chosen = locs(3_000)
    chosen[700:700] = chosen[650:690]
    expected = [(start, writer.elements) for start, writer in cut(chosen, limits, 1)]
    assert len(expected) > 5
    for size in (3, 64, 512, 3_040):
        assert [(start, writer.elements) for start, writer in cut(chosen, limits, size)] == expected


def test_an_insert_moves_the_cuts_around_it_only():
    before = {start for start, _ in cut(locs(20_000), Limits(400))}
    moved = []
    for place in random.Random(4).sample(range(20_000), 20):
        changed = locs(20_000)
        changed.insert(place, f"https://example.com/new/{place}")
        moved.append(len(before ^ {start for start, _ in cut(changed, Limits(400))}))
    assert len(before) > 50
    assert sorted(moved)[len(moved) // 2] == 0
    assert max(moved) <= 8


def test_a_document_begins_at_the_hash_of_its_first_loc():
    documents = cut(locs(100), Limits(10))
    first = [writer.elements[0].decode()[len("<url><loc>") : -len("</loc></url>")] for _, writer in documents]
    assert [start for start, _ in documents] == ["", *(sha256(loc.encode())[:16] for loc in first[1:])]


def test_a_limit_of_one_gives_one_entry_each():
    assert counts(cut(locs(5), Limits(1))) == [1] * 5


def test_a_document_is_never_empty_however_small_the_limit_of_bytes():
    assert counts(cut(locs(50), Limits(8, 10), 16)) == [1] * 50


# Duplicates


@pytest.mark.parametrize("size", [1, 3, 512])
def test_a_duplicate_is_dropped_and_told_within_a_document(size):
    told: list[str] = []
    ((_, writer),) = cut(["a", "b", "a", "c", "b", "a"], Limits(100), size, told)
    assert writer.elements == [f"<url><loc>{loc}</loc></url>".encode() for loc in "abc"]
    assert told == ["a", "b", "a"]


@pytest.mark.parametrize("most", [2, 3, 7, 10])
def test_small_documents_are_cut_by_what_they_hold_too(most):
    before, after = (cut(locs(2_000 + more, 1_000 - more), Limits(most)) for more in (0, 1))
    starts = {start for start, _ in before}
    assert len(starts - {start for start, _ in after}) < len(starts) / 10
    assert max(counts(before)) <= most


def test_a_duplicate_beyond_a_cut_stays():
    told: list[str] = []
    documents = cut([*locs(10), *locs(10)], Limits(10), 512, told)
    assert sum(counts(documents)) == 20
    assert told == []


def test_a_duplicate_at_a_limit_cuts_nothing():
    told: list[str] = []
    chosen = never_a_cut(10, 2)
    assert sum(counts(cut([*chosen, chosen[-1]], Limits(10), 512, told))) == 10
    assert told == [chosen[-1]]


# Documents


def writer(blobs, codec, known=(), **options) -> DocumentWriter:
    known = {document.entries_hash: document for document in known}
    return DocumentWriter(URLSET, codec, blobs.__setitem__, known, **options)


def written(made: DocumentWriter, all_locs: list[str], lastmod: str | None = "2027-01-01", size: int = 512) -> Document:
    for start in range(0, len(all_locs), size):
        batch = all_locs[start : start + size]
        data = "".join(url_elements(batch, [lastmod] * len(batch))).encode()
        made.write(data, len(batch), [lastmod] * len(batch), (), text_length(batch))
    return made.document(lambda latest: f"changed {latest}")


def unpacked(document: Document, blobs: dict[str, bytes]) -> bytes:
    return gzip.decompress(b"".join(blobs[digest] for digest, _ in document.pieces))


def test_all_that_is_said_of_a_document_is_true(blobs, codec):
    document = written(writer(blobs, codec), ["\0/a", "\0/b?x=\0", "https://example.com/c"])
    xml = unpacked(document, blobs)
    body = b"".join(xml.splitlines(keepends=True)[2:-1])
    assert xml == URLSET.head + body + URLSET.tail
    packed = b"".join(blobs[digest] for digest, _ in document.pieces)
    assert document == Document(
        entries=3,
        length=len(xml),
        origins=3,
        entries_hash=sha256(body),
        lastmod="2027-01-01",
        changed_at="changed 2027-01-01",
        gzip_etag=sha256("".join(digest for digest, _ in document.pieces).encode())[:32],
        stored=f"{sha256(packed)}:{len(packed)}",
        head=zlib.crc32(URLSET.head),
        text_length=len("\0/a\n\0/b?x=\0\nhttps://example.com/c\n"),
    )
    assert document.etag == f"{FORMAT}-{sha256(body)[:32]}-{zlib.crc32(URLSET.head):08x}"
    assert document.gzip_length == len(packed)


def test_a_document_is_compressed_once(blobs, codec):
    written(writer(blobs, codec), locs(5_000))
    assert codec.flushed == 1
    fed = codec.fed
    assert fed == 10 + 2  # batches, head and tail


def test_an_unchanged_document_is_neither_compressed_nor_stored_and_keeps_its_date(blobs, codec):
    known = written(writer(blobs, codec), locs(5_000))
    fed, flushed = codec.fed, codec.flushed
    blobs.clear()
    assert written(writer(blobs, codec, [known._replace(changed_at="earlier")]), locs(5_000)).changed_at == "earlier"
    assert (codec.fed, codec.flushed, blobs) == (fed, flushed, {})


def test_a_damaged_document_is_stored_again_and_keeps_its_date(blobs, codec):
    known = written(writer(blobs, codec), locs(50))._replace(changed_at="earlier")
    blobs.clear()
    again = written(writer(blobs, codec, [known], reuse=False), locs(50))
    assert again == known
    assert unpacked(again, blobs).count(b"<loc>") == 50


def test_a_large_document_is_compressed_as_it_grows_and_is_still_known(blobs, codec):
    many = [f"{loc}/{'a' * 400}" for loc in locs(12_000)]
    made = writer(blobs, codec)
    known = written(made, many)
    assert known.length > HELD_BACK
    assert unpacked(known, blobs).count(b"<loc>") == 12_000
    assert made._held is None
    assert written(writer(blobs, codec, [known]), many) is known


def test_a_large_gzip_member_lies_in_pieces(blobs):
    noise = random.Random(1)
    data = [noise.randbytes(100_000) for _ in range(13)]
    pieces = Pieces(zlib_codec(), blobs.__setitem__)
    for block in data:
        pieces.compress(block)
    found = pieces.finished()
    assert [length for _, length in found[:-1]] == [PIECE] * (len(found) - 1)
    assert len(found) == 3
    assert all(sha256(blobs[digest]) == digest and len(blobs[digest]) == length for digest, length in found)
    assert gzip.decompress(b"".join(blobs[digest] for digest, _ in found)) == b"".join(data)


@pytest.mark.parametrize("count", [1, 600, 30_000])
def test_the_entries_of_a_stored_document_come_without_its_frame(blobs, codec, count):
    document = written(writer(blobs, codec), locs(count), None)
    blocks = list(entries(document, blobs.__getitem__))
    assert b"".join(blocks) == "".join(url_elements(locs(count))).encode()
    assert all(blocks)


@pytest.mark.parametrize(
    ("batches", "latest"),
    [
        ([["2027-01-01", "2026-01-01"], ["2026-05-01"]], "2027-01-01"),
        ([["2027-01-01", "2027-01-01T00:00:00Z"]], "2027-01-01T00:00:00Z"),
        ([["2027-01-01"], [None], ["2027-01-02"]], None),
        ([[None, "2027-01-01"]], None),
        ([["2027-01-01"], []], "2027-01-01"),
        ([[]], None),
    ],
)
def test_the_latest_date_is_told_if_all_have_one(batches, latest):
    dates = LatestDate()
    for batch in batches:
        dates.add(batch)
    assert dates.latest == latest


# Namespaces


def illustrated(batch: list[str], prefix: str = "image") -> Rendered:
    """Entries of which each has an element of the namespace."""
    elements = [element.replace("</url>", f"<{prefix}:x/></url>") for element in url_elements(batch)]
    return Rendered(batch, [None] * len(batch), elements, (KNOWN[prefix],))


def test_the_root_declares_what_is_used_in_any_entry(blobs, codec):
    cutter = Cutter(Limits(50_000), lambda: writer(blobs, codec), print)
    ((_, made),) = cutter.documents([rendered(locs(500)), illustrated(locs(500, 500)), rendered(locs(500, 1_000))])
    size = made.size
    document = made.document(lambda latest: None)
    xml = unpacked(document, blobs)
    assert len(xml) == document.length == size
    assert xml.startswith(URLSET.declaring([KNOWN["image"]]).head)
    assert xml.count(b"xmlns:") == 1
    assert document.namespaces == "image"
    assert etree.fromstring(xml) is not None
    assert b"".join(entries(document, blobs.__getitem__)).count(b"<url>") == 1_500


def test_a_namespace_that_comes_too_late_for_the_root_is_declared_where_it_is_used(blobs, codec):
    long = [f"https://example.com/{number:02000}" for number in range(2_500)]  # more than is held back
    cutter = Cutter(Limits(50_000), lambda: writer(blobs, codec), print)
    mixed = illustrated(locs(3), "video")._replace(
        elements=[*url_elements(locs(1)), *illustrated(locs(2, 1), "video").elements]
    )
    ((_, made),) = cutter.documents([illustrated(long), mixed, illustrated(locs(1, 9))])
    size = made.size
    document = made.document(lambda latest: None)
    xml = unpacked(document, blobs)
    assert len(xml) == document.length == size
    assert document.namespaces == "image"
    assert xml.count(b'<url xmlns:video="') == xml.count(b"xmlns:video") == 2
    assert len(etree.fromstring(xml)) == 2_504


def test_an_unchanged_document_in_another_frame_is_stored_anew_and_keeps_its_date(blobs, codec):
    known = written(writer(blobs, codec), locs(50))._replace(changed_at="earlier")
    other = DocumentWriter(framed("urlset", stylesheet="/s.css"), codec, blobs.__setitem__, {known.entries_hash: known})
    document = written(other, locs(50))
    assert (document.entries_hash, document.changed_at) == (known.entries_hash, "earlier")
    assert document.etag != known.etag
    assert b"xml-stylesheet" in unpacked(document, blobs)


def test_the_bytes_of_links_cut_documents():
    heavy = [f"<url><loc>{loc}</loc>{'x' * 1_000}</url>\n" for loc in locs(1_000)]
    batch = Rendered(locs(1_000), [None] * 1_000, heavy, (KNOWN["xhtml"],))
    documents = list(Cutter(Limits(50_000, 200_000), Recorder, print).documents([batch]))
    assert len(documents) > 5
    assert max(made.size for _, made in documents) <= 200_000


# News


def reported(batch: list[str], day: int = 1) -> Rendered:
    date = f"<news:news><news:publication_date>2027-01-{day:02}T00:00:00Z</news:publication_date></news:news>"
    elements = [element.replace("</url>", f"{date}</url>") for element in url_elements(batch)]
    return Rendered(batch, [None] * len(batch), elements, (KNOWN["news"],))


@pytest.mark.parametrize("size", [1, 512])
def test_a_document_has_at_most_a_thousand_news_however_many_entries(size):
    news = [reported(locs(size, start)) for start in range(0, 2_560, size)]
    documents = list(Cutter(Limits(50_000), Recorder, print).documents([*news, rendered(locs(5_000, 5_000))]))
    assert max(made.news for _, made in documents) <= MAX_NEWS
    assert sum(counts(documents)) == 2_560 + 5_000
    assert len(documents) <= 6


def test_a_document_expires_with_its_oldest_news(blobs, codec):
    cutter = Cutter(Limits(50), lambda: writer(blobs, codec), print)
    ((_, made),) = cutter.documents([reported(locs(3), 9), reported(locs(3, 3), 7), rendered(locs(3, 6))])
    expires_at = made.document(lambda latest: None).expires_at
    assert expires_at == datetime(2027, 1, 9, tzinfo=UTC).timestamp()
