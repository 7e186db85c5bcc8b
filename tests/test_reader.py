from __future__ import annotations

import gzip
import io
import re
import tracemalloc
import zlib
from collections.abc import Iterable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from usp.tree import sitemap_from_str

from flask_sitemapx.errors import Unreadable
from flask_sitemapx.protocol.documents import NAMESPACE, SITEMAPINDEX, URLSET, sitemap_elements, url_elements
from flask_sitemapx.protocol.elements import KNOWN
from flask_sitemapx.protocol.entries import Columns
from flask_sitemapx.protocol.gate import Gate, Rendered
from flask_sitemapx.protocol.locs import BaseUrl
from flask_sitemapx.protocol.media import News, Video
from flask_sitemapx.protocol.read_extensions import Alternate
from flask_sitemapx.protocol.reader import (
    ChildSitemap,
    Limits,
    Problem,
    ReadEntry,
    SitemapReader,
    Source,
)
from flask_sitemapx.snapshots.compression import compressed, fastest_codec, zlib_codec
from flask_sitemapx.sources.defaults import Defaults
from flask_sitemapx.sources.items import Items

XML = '<?xml version="1.0" encoding="UTF-8"?>\n'
LEGACY = "http://www.google.com/schemas/sitemap/0.84"
ATOM = "http://www.w3.org/2005/Atom"
ENTRY = "<url><loc>https://example.com/ü</loc><lastmod>2026-11-30</lastmod></url>\n"


def urlset(content=ENTRY, *, namespace=NAMESPACE, head=XML, attributes="") -> str:
    declared = f' xmlns="{namespace}"' if namespace else ""
    return f"{head}<urlset{declared}{attributes}>\n{content}</urlset>"


EXTENDED = urlset(
    """<url><loc>https://example.com/a</loc>
<xhtml:link rel="alternate" hreflang="de" href="https://example.com/de/a"/>
<xhtml:link rel="amphtml" href="https://example.com/amp/a"/>
<image:image><image:loc>https://example.com/a.png</image:loc></image:image>
<image:image><image:loc>https://example.com/b.png</image:loc><image:title> B &amp; b </image:title></image:image>
<video:video><video:title>V</video:title><video:restriction relationship="deny">DE AT</video:restriction>
<video:tag>x</video:tag><video:tag>y</video:tag><video:description/></video:video>
<news:news><news:publication><news:name>N</news:name><news:language>en</news:language></news:publication>
<news:title>T</news:title></news:news>
<lastmod>2026-11-30</lastmod></url>
""",
    attributes=' xmlns:xhtml="http://www.w3.org/1999/xhtml"'
    ' xmlns:image="http://www.google.com/schemas/sitemap-image/1.1"'
    ' xmlns:video="http://www.google.com/schemas/sitemap-video/1.1"'
    ' xmlns:news="http://www.google.com/schemas/sitemap-news/0.9"',
)
INDEX = f"""{XML}<sitemapindex xmlns="{NAMESPACE}">
<sitemap><loc>https://example.com/1.xml</loc><lastmod>2026-11-30T08:15:30+01:00</lastmod></sitemap>
<sitemap><loc>https://example.com/2.xml</loc></sitemap>
</sitemapindex>"""
RSS = """<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel><link>https://example.com/</link>
<item><title>A</title><link>https://example.com/a</link><atom:link href="https://example.com/feed"/>
<pubDate>Mon, 30 Nov 2026 08:15:30 +0100</pubDate></item>
<item><link>https://example.com/b</link><pubDate>2026-11-30</pubDate></item>
<item><link>https://example.com/c</link><pubDate>yesterday</pubDate></item></channel></rss>"""
FEED = f"""<feed xmlns="{ATOM}"><link href="https://example.com/"/><updated>2026-11-01T00:00:00Z</updated>
<entry><link rel="self" href="https://example.com/a.atom"/><link href="https://example.com/a"/>
<updated>2026-11-30T08:15:30.25+01:00</updated></entry>
<entry><link rel="alternate" href="https://example.com/b"/></entry></feed>"""
LINES = "https://example.com/ü\r\nhttps://example.com/b\r\n\r\nhttps://example.com/c"

UTF16 = XML.replace("UTF-8", "UTF-16")
DOCUMENTS = {
    "urlset": urlset().encode(),
    "legacy": urlset(namespace=LEGACY).encode(),
    "no namespace": urlset(namespace="").encode(),
    "wrong namespace": urlset(namespace="https://www.sitemaps.org/schemas/sitemap/0.9").encode(),
    "namespace with a space": urlset(namespace=f" {NAMESPACE}").encode(),
    "prefixed": f"{XML}<s:urlset xmlns:s='{NAMESPACE}'>{ENTRY}</s:urlset>".encode(),
    "unset namespace": urlset(ENTRY.replace("<url>", '<url xmlns="">')).encode(),
    "no declaration": urlset(head="").encode(),
    "byte order mark": urlset().encode("utf-8-sig"),
    "space before": b"\r\n \n" + urlset().encode(),
    "byte order mark and space": b"\xef\xbb\xbf\n" + urlset().encode(),
    "doctype": urlset(head=XML + "<!DOCTYPE urlset>\n").encode(),
    "utf-16": urlset(head=UTF16).encode("utf-16"),
    "utf-16-be": urlset(head=UTF16).encode("utf-16-be"),
    "latin-1": urlset(head=XML.replace("UTF-8", "ISO-8859-1")).encode("latin-1"),
    "cp1252": urlset(head=XML.replace("UTF-8", "windows-1252")).encode("cp1252"),
    "utf8": urlset(head=XML.replace("UTF-8", "utf8")).encode(),
    "cdata": urlset(ENTRY.replace("https://example.com/ü", "<![CDATA[ https://example.com/ü ]]>")).encode(),
    "extensions": EXTENDED.encode(),
    "index": INDEX.encode(),
    "rss": RSS.encode(),
    "atom": FEED.encode(),
    "text": LINES.encode(),
    "text with byte order mark": LINES.encode("utf-8-sig"),
    "text utf-16": LINES.encode("utf-16"),
    "gzip": gzip.compress(urlset().encode(), mtime=0),
    "gzip twice": gzip.compress(gzip.compress(urlset().encode(), mtime=0), mtime=0),
    "gzip text": gzip.compress(LINES.encode(), mtime=0),
    "laughs": b'<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><urlset><url><loc>&b;</loc></url></urlset>',
}


class Reading:
    """All that comes of a document, until its end or its fault."""

    def __init__(self, source: Source, **limits: int) -> None:
        self.entries: list[Any] = []
        self.problems: list[Problem] = []
        self.kind: str | None = None
        self.fault: Unreadable | None = None
        try:
            reader = SitemapReader(source, limits=Limits(**limits), report=self.problems.append)
            self.kind = reader.kind
            for entry in reader:
                self.entries.append(entry)
        except Unreadable as error:
            self.fault = error

    @property
    def locs(self) -> list[str]:
        return [entry.loc for entry in self.entries]

    @property
    def rules(self) -> list[str]:
        return [problem.rule for problem in self.problems]


def read(source: Source) -> list[Any]:
    reading = Reading(source)
    assert reading.fault is None
    return reading.entries


def fields(entry: Any) -> tuple[Any, ...]:
    return entry.loc, entry.lastmod, entry.changefreq, entry.priority


def faulty(source: Source, message: str, **limits: int) -> Reading:
    reading = Reading(source, **limits)
    assert reading.fault is not None
    assert message in str(reading.fault)
    return reading


# What is read


@pytest.mark.parametrize(
    "name",
    """urlset|legacy|no namespace|wrong namespace|namespace with a space|prefixed|unset namespace|no declaration|
    byte order mark|space before|byte order mark and space|doctype|utf-16|utf-16-be|latin-1|cp1252|utf8|cdata|gzip|
    gzip twice""".replace("\n    ", "").split("|"),
)
def test_a_urlset_is_read_however_it_is_written(name):
    reading = Reading(DOCUMENTS[name])

    if name == "prefixed":  # whose children are in no namespace
        assert reading.kind == "urlset"
    assert (reading.kind, reading.fault) == ("urlset", None)
    assert [fields(entry) for entry in reading.entries] == [("https://example.com/ü", "2026-11-30", None, None)]


@pytest.mark.parametrize("name", ["text", "text with byte order mark", "text utf-16", "gzip text"])
def test_a_text_is_read_line_by_line(name):
    reading = Reading(DOCUMENTS[name])

    assert (reading.kind, reading.fault, reading.problems) == ("text", None, [])
    assert reading.locs == ["https://example.com/ü", "https://example.com/b", "https://example.com/c"]
    assert [entry.line for entry in reading.entries] == [1, 2, 4]


def test_an_index_gives_its_children():
    assert Reading(DOCUMENTS["index"]).kind == "sitemapindex"
    assert read(DOCUMENTS["index"]) == [
        ChildSitemap("https://example.com/1.xml", "2026-11-30T07:15:30Z", 3),
        ChildSitemap("https://example.com/2.xml", None, 4),
    ]


def test_rss_gives_the_links_and_dates_of_its_items():
    reading = Reading(DOCUMENTS["rss"])

    assert (reading.kind, reading.rules) == ("rss", ["lastmod-form"])
    assert [(entry.loc, entry.lastmod) for entry in reading.entries] == [
        ("https://example.com/a", "2026-11-30T07:15:30Z"),
        ("https://example.com/b", "2026-11-30"),
        ("https://example.com/c", None),
    ]


@pytest.mark.parametrize("namespace", [ATOM, "http://purl.org/atom/ns#"])
def test_atom_gives_the_alternate_links_of_its_entries(namespace):
    reading = Reading(FEED.replace(ATOM, namespace).encode())

    assert (reading.kind, reading.problems) == ("atom", [])
    assert [(entry.loc, entry.lastmod) for entry in reading.entries] == [
        ("https://example.com/a", "2026-11-30T07:15:30Z"),
        ("https://example.com/b", None),
    ]


def test_extensions_are_kept_with_their_entry():
    (entry,) = read(DOCUMENTS["extensions"])

    assert fields(entry) == ("https://example.com/a", "2026-11-30", None, None)
    assert entry.extensions.alternates == (Alternate("de", "https://example.com/de/a"),)
    assert entry.extensions.images == (
        (("loc", "https://example.com/a.png"),),
        (("loc", "https://example.com/b.png"), ("title", "B & b")),
    )
    assert entry.extensions.videos == (
        (("title", "V"), ("restriction@relationship", "deny"), ("restriction", "DE AT"), ("tag", "x"), ("tag", "y")),
    )
    assert entry.extensions.news == ((("publication/name", "N"), ("publication/language", "en"), ("title", "T")),)
    assert entry.extensions.videos[0].get("restriction") == "DE AT"
    assert entry.extensions.videos[0].get("description") is None


def test_elements_of_other_namespaces_are_no_fields():
    entry = (
        "<url><loc>https://example.com/</loc><x:lastmod>2026</x:lastmod><x:a><loc>https://x.example/</loc></x:a></url>"
    )
    reading = Reading(urlset(entry, attributes=' xmlns:x="urn:x"').encode())

    assert [fields(entry) for entry in reading.entries] == [("https://example.com/", None, None, None)]
    assert not reading.problems


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_blocks_of_the_source_do_not_matter(name, size):
    document = DOCUMENTS[name]
    whole, cut = Reading(document), Reading(document[at : at + size] for at in range(0, len(document), size))

    assert (cut.kind, cut.entries, cut.problems, str(cut.fault)) == (
        whole.kind,
        whole.entries,
        whole.problems,
        str(whole.fault),
    )


def test_a_binary_file_is_read():
    assert read(io.BytesIO(DOCUMENTS["gzip"])) == read(DOCUMENTS["urlset"])


def test_the_kind_is_known_before_the_rest_is_asked_for():
    def source():
        yield urlset().encode().replace(b"</urlset>", b" " * 70_000)
        raise AssertionError("asked for")

    reader = SitemapReader(source())
    assert reader.kind == "urlset"
    with pytest.raises(AssertionError, match="asked for"):
        list(reader)


def test_what_the_source_raises_comes_after_the_entries_before_it():
    def source():
        yield urlset().encode()[:-10]
        raise ConnectionError("gone")

    entries = iter(SitemapReader(source()))
    assert next(entries).loc == "https://example.com/ü"
    with pytest.raises(ConnectionError):
        next(entries)


def test_the_size_of_what_was_read_is_counted_decompressed():
    reader = SitemapReader(DOCUMENTS["gzip twice"])
    list(reader)

    assert reader.size == len(DOCUMENTS["urlset"])


# What is wrong, and can be read all the same


@pytest.mark.parametrize(
    ("element", "rule"),
    [
        ("<lastmod>30.11.2026</lastmod>", "lastmod-form"),
        ("<lastmod>2026-11</lastmod>", "lastmod-without-day"),
        ("<lastmod>2026-02-30</lastmod>", "lastmod-impossible"),
        ("<changefreq>fortnightly</changefreq>", "changefreq"),
        ("<priority>1.5</priority>", "priority"),
        ("<priority>0,5</priority>", "priority"),
        ("<priority>nan</priority>", "priority"),
        (f"<priority>{'1' * 101}</priority>", "priority-length"),
        (f"<lastmod>2026-11-30T08:15:30.{'1' * 90}Z</lastmod>", "lastmod-length"),
    ],
)
def test_a_bad_value_is_none_and_reported_with_its_line(element, rule):
    reading = Reading(urlset(f"<url>\n<loc>https://example.com/</loc>\n{element}</url>\n{ENTRY}").encode())

    assert fields(reading.entries[0]) == ("https://example.com/", None, None, None)
    assert [(problem.rule, problem.line) for problem in reading.problems] == [(rule, 5)]
    assert len(reading.entries) == 2


def test_good_values_are_read_as_the_gate_takes_them():
    entry = (
        "<url><loc>\n https://example.com/ </loc><changefreq>Daily</changefreq><priority>.5</priority><lastmod/></url>"
    )

    assert [fields(entry) for entry in read(urlset(entry).encode())] == [("https://example.com/", None, "daily", 0.5)]


@pytest.mark.parametrize("loc", ["", "<loc/>", "<loc> \n</loc>"])
def test_an_entry_without_loc_is_left_out_and_reported(loc):
    reading = Reading(urlset(f"<url>{loc}</url>\n{ENTRY}").encode())

    assert reading.locs == ["https://example.com/ü"]
    assert [(problem.rule, problem.line) for problem in reading.problems] == [("loc-missing", 3)]


def test_of_a_repeated_field_the_first_counts():
    reading = Reading(urlset("<url><loc>https://a/</loc><loc>https://b/</loc></url>").encode())

    assert (reading.locs, reading.rules) == (["https://a/"], ["loc-repeated"])


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("no namespace", ("namespace", 2)),
        ("wrong namespace", ("namespace", 2)),
        ("space before", ("space-before-xml", 1)),
        ("byte order mark and space", ("space-before-xml", 1)),
        ("doctype", ("doctype", 2)),
        ("gzip twice", ("gzip-twice", None)),
    ],
)
def test_what_is_wrong_with_a_document_is_reported(name, problem):
    assert [(problem.rule, problem.line) for problem in Reading(DOCUMENTS[name]).problems] == [problem]


def test_lines_and_bytes_count_from_the_true_beginning():
    reading = faulty(b"\r\n \n" + urlset("<url></loc>").encode(), "mismatched tag")

    assert reading.fault is not None
    assert (reading.fault.line, reading.fault.offset) == (5, 5 + len(urlset("<url></")) - len("</urlset>") - 1)


def test_lines_that_are_no_urls_are_reported():
    reading = Reading(b"\n\nhttps://a/\nfoo\nhttps://b/\xff\nhttps://c/ d")

    assert reading.locs == ["https://a/"]
    assert [problem[::2] for problem in reading.problems] == [("loc-form", 4), ("loc-encoding", 5), ("loc-form", 6)]
    assert [problem.offset for problem in reading.problems] == [13, 27, 29]


def test_no_more_problems_are_reported_than_the_limit():
    reading = Reading(b"https://a/\n" + b"foo\n" * 10, problems=3)

    assert len(reading.problems) == 3


# What cannot be read


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b"", "the document is empty"),
        (b"\xef\xbb\xbf \n", "the document is empty"),
        (b"404 Not Found", "neither XML nor a list of URLs"),
        (b"<!DOCTYPE html><html></html>", "the root element 'html'"),
        (b"<urlset", "not well-formed XML: unclosed token (line 1, byte 0)"),
        (b'<?xml version="1.0" encoding="zlib_codec"?><urlset/>', "unknown encoding 'zlib_codec'"),
        (b'<?xml version="1.0" encoding="cp99"?><urlset/>', "unknown encoding 'cp99'"),
        (b'<?xml version="1.0" encoding="cp932"?><urlset/>', "unknown encoding 'cp932'"),
        (b"\x1f\x8b\x08garbage" * 3, "gzip is damaged"),
        (gzip.compress(gzip.compress(gzip.compress(b"<urlset/>"))), "compressed more than twice"),
    ],
)
def test_what_is_no_sitemap_is_refused_at_birth(document, message):
    with pytest.raises(Unreadable) as caught:
        SitemapReader(document)
    assert message in str(caught.value)


def test_entries_before_a_fault_are_given_out():
    reading = faulty(urlset(ENTRY + "<url><loc>https://a/?b&c</loc></url>").encode(), "not well-formed")

    assert reading.locs == ["https://example.com/ü"]
    assert reading.fault is not None
    assert reading.fault.line == 4


def test_entries_before_the_end_of_a_cut_gzip_are_given_out():
    members = gzip.compress(urlset(ENTRY * 9).encode()[:500]) + gzip.compress(b" " * 1000)[:-9]
    reading = faulty(members, f"gzip ends before its end (byte {len(members)})")

    assert len(reading.locs) == 5


def test_wherever_gzip_is_cut_what_is_there_is_read():
    document = gzip.compress(urlset("".join(f"<url><loc>https://a/{at}</loc></url>" for at in range(20_000))).encode())

    for end in [*range(100, 400), *range(400, len(document), 3_001)]:
        there = zlib.decompressobj(31).decompress(document[:end])
        assert len(Reading(document[:end]).entries) == there.count(b"</url>"), end


def test_a_wrong_checksum_is_a_fault():
    document = bytearray(DOCUMENTS["gzip"])
    document[-5] ^= 1

    reading = faulty(bytes(document), "gzip is damaged: Error -3 while decompressing data: incorrect data check")

    assert reading.locs == ["https://example.com/ü"]
    assert reading.fault is not None
    assert reading.fault.offset == len(document) - 5


def test_several_members_are_one_document_and_padding_is_left_out():
    document = urlset().encode()
    members = b"".join(gzip.compress(document[at : at + 50]) for at in range(0, len(document), 50))

    assert read(members + b"\0" * 100) == read(document)


def test_bytes_after_the_members_are_reported():
    reading = Reading(DOCUMENTS["gzip"] + b"\0\0more")

    assert (reading.locs, reading.rules) == (["https://example.com/ü"], ["gzip-trailing"])
    assert reading.problems[0].offset == len(DOCUMENTS["gzip"]) + 2


# Who means harm


def entities(depth: int) -> bytes:
    declared = "".join(f'<!ENTITY e{at} "{f"&e{at - 1};" * 10}">' for at in range(1, depth))
    return (
        f'<!DOCTYPE urlset [<!ENTITY e0 "ha">{declared}]><urlset><url><loc>&e{depth - 1};</loc></url></urlset>'.encode()
    )


@pytest.mark.parametrize(
    "document",
    [
        entities(30),
        entities(30).decode().encode("utf-16"),
        b'<!DOCTYPE a [<!ENTITY a "'
        + b"a" * 9_000
        + b'">]><urlset><url><loc>'
        + b"&a;" * 9_000
        + b"</loc></url></urlset>",
        b'<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]><urlset><url><loc>&a;</loc></url></urlset>',
        b'<!DOCTYPE a [<!ENTITY % a SYSTEM "file:///etc/passwd"> %a;]><urlset/>',
        b'<!DOCTYPE a SYSTEM "file:///etc/passwd" [<!ATTLIST url x CDATA "x">]><urlset/>',
        DOCUMENTS["laughs"],
    ],
)
def test_declarations_are_refused_before_anything_is_made_of_them(document):
    tracemalloc.start()
    try:
        faulty(document, "a DOCTYPE with declarations is refused")
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("head", ["", '<!DOCTYPE urlset SYSTEM "file:///etc/passwd">'])
def test_an_entity_that_is_not_declared_is_a_fault(head):
    reading = faulty(f"{head}<urlset>{ENTRY}<url><loc>https://a/&x;</loc></url></urlset>".encode(), "entity")

    assert reading.locs == ["https://example.com/ü"]


def test_a_bomb_is_given_up_early():
    bomb = gzip.compress(urlset(ENTRY + " " * 50_000_000).encode())
    reading = faulty(bomb, "gzip holds more than 200 times its size")

    assert reading.locs == ["https://example.com/ü"]


def test_blocks_that_hold_nothing_do_not_go_on_for_ever():
    def source():
        compressor = zlib.compressobj(wbits=31)
        yield compressor.compress(b"<urlset>") + compressor.flush(zlib.Z_SYNC_FLUSH)
        while True:
            yield b"\0\0\0\xff\xff" * 10_000

    faulty(source(), "more than 1,000,000 bytes are compressed", size=1_000_000)


def endless(*blocks: str) -> Iterable[bytes]:
    yield from (block.encode() for block in blocks[:-1])
    while True:
        yield blocks[-1].encode()


def numbered(form: str, head: str = "<urlset>") -> Iterable[bytes]:
    yield head.encode()
    at = 0
    while True:
        yield "".join(form.format(at + more) for more in range(1_000)).encode()
        at += 1_000


LARGE = "x" * 10_000


@pytest.mark.parametrize(
    ("source", "message"),
    [
        pytest.param(lambda: endless(" " * 10_000), "larger than 67,108,864 bytes", id="white space"),
        pytest.param(
            lambda: endless("<urlset>", " " * 10_000), "larger than 67,108,864 bytes", id="white space inside"
        ),
        pytest.param(lambda: endless("<urlset>", ENTRY * 100), "more than 100,000 entries", id="entries"),
        pytest.param(lambda: endless("https://a/\n" * 1_000), "more than 100,000 lines", id="lines"),
        pytest.param(lambda: endless("https://a/", LARGE), "a line has more than 65,536 bytes", id="line"),
        pytest.param(lambda: endless("<urlset><a>", "<a>"), "nested deeper than 32", id="depth"),
        pytest.param(lambda: endless("<urlset><url><loc>", LARGE), "more than 65,536 characters", id="text"),
        pytest.param(lambda: endless("<urlset><url>", "<a/>" * 99), "larger than 2,097,152 bytes", id="entry"),
        pytest.param(lambda: endless("<urlset><!--", LARGE), "larger than 262,144 bytes", id="comment"),
        pytest.param(lambda: endless("<urlset x='", LARGE), "larger than 262,144 bytes", id="tag"),
        pytest.param(lambda: endless("<!--", LARGE), "larger than 262,144 bytes", id="prolog"),
        pytest.param(lambda: numbered(" a{}=''", "<urlset"), "larger than 262,144 bytes", id="tag of many attributes"),
        pytest.param(lambda: numbered("<a{}/>"), "more than 2,000 different names", id="elements"),
        pytest.param(lambda: numbered("<a b{}='c'/>"), "more than 2,000 different names", id="attributes"),
        pytest.param(lambda: numbered("<a xmlns:b{}='c'/>"), "more than 2,000 different names", id="prefixes"),
        pytest.param(lambda: numbered("<a xmlns='c{}'/>"), "more than 2,000 different names", id="namespaces"),
        pytest.param(
            lambda: endless("<urlset ", "".join(f"a{at}='' " for at in range(65)) + "/>"),
            "more than 64 attributes",
            id="many attributes",
        ),
    ],
)
def test_each_way_to_grow_has_a_limit(source, message):
    tracemalloc.start()
    try:
        with pytest.raises(Unreadable) as caught:
            for _ in SitemapReader(source()):
                pass
        assert message in str(caught.value)
        assert tracemalloc.get_traced_memory()[1] < 12_000_000
    finally:
        tracemalloc.stop()


def test_elements_that_say_nothing_have_a_limit():
    faulty(endless("<urlset>", "<a/>" * 1_000), "more than 20,000 elements", elements=20_000)


def test_a_member_each_few_bytes_has_a_limit():
    faulty(gzip.compress(b"<urlset>") + gzip.compress(b"") * 20, "more than 20 members", members=20)


def test_entries_up_to_the_limit_are_given_out():
    assert len(faulty(urlset(ENTRY * 6).encode(), "more than 5 entries", entries=5).entries) == 5
    assert Reading(urlset(ENTRY * 5).encode(), entries=5).fault is None


def test_a_whole_sitemap_is_never_in_memory():
    def source():
        yield URLSET.head
        for at in range(0, 50_000, 500):
            locs = [f"https://example.com/{at + more}" for more in range(500)]
            yield "".join(url_elements(locs, ["2026-11-30"] * 500)).encode()
        yield URLSET.tail

    tracemalloc.start()
    try:
        assert sum(1 for _ in SitemapReader(source())) == 50_000
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


# What others read, and what we write


def by_lxml(document: bytes) -> list[tuple[str | None, ...]]:
    return [
        tuple(element.findtext(f"{{{NAMESPACE}}}{name}") for name in ("loc", "lastmod", "changefreq", "priority"))
        for element in etree.fromstring(document)
    ]


def by_usp(document: bytes) -> list[tuple[Any, ...]]:
    return [
        (
            page.url,
            page.last_modified and page.last_modified.timestamp(),
            page.change_frequency and page.change_frequency.value,
            float(page.priority),
        )
        for page in sitemap_from_str(document.decode()).all_pages()
    ]


def as_usp_has_it(entry: ReadEntry) -> tuple[Any, ...]:
    moment = datetime.fromisoformat(str(entry.lastmod)) if entry.lastmod else None
    return entry.loc, moment and moment.timestamp(), entry.changefreq, 0.5 if entry.priority is None else entry.priority


PATHS = st.text("abz019-_.~/?&=;:'äß中%<>", max_size=30).map(lambda text: "/p" + text.replace("//", "/"))
MOMENTS = st.none() | st.dates() | st.datetimes(timezones=st.just(UTC))
WORDS = st.none() | st.sampled_from(["always", "daily", "never"])
PRIORITIES = st.none() | st.integers(0, 100).map(lambda hundredths: hundredths / 100)
ENTRIES = st.lists(st.tuples(PATHS, MOMENTS, WORDS, PRIORITIES), max_size=20)


def written(entries: list[tuple[Any, ...]]) -> tuple[bytes, Rendered]:
    locs, lastmods, changefreqs, priorities = map(list, zip(*entries, strict=True)) if entries else ([], [], [], [])
    gate = Gate(BaseUrl.parse("https://example.com"), section="s", timezone=UTC, strict=False)
    rendered = gate.rendered(Columns(locs, lastmods, changefreqs, priorities))
    return URLSET.head + "".join(rendered.elements).encode() + URLSET.tail, rendered


@given(ENTRIES)
def test_what_we_write_is_read_as_lxml_reads_it(entries):
    document, rendered = written(entries)

    found = read(document)
    assert [
        (loc, lastmod, changefreq, None if priority is None else float(priority))
        for loc, lastmod, changefreq, priority in by_lxml(document)
    ] == [fields(entry) for entry in found]
    assert [entry.lastmod for entry in found] == rendered.lastmods


@given(ENTRIES)
def test_what_is_read_is_written_again_as_it_was(entries):
    document, _ = written(entries)

    assert written([fields(entry) for entry in read(document)])[0] == document


@given(ENTRIES, st.lists(st.integers(1, 200)), st.sampled_from([fastest_codec(), zlib_codec()]))
def test_what_we_compress_is_read_as_it_was(entries, sizes, codec):
    document, _ = written(entries)
    pieces, rest = [], document
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]

    assert read(compressed([*pieces, rest], codec)) == read(document)
    assert read(b"".join(b"".join(compressed([piece], codec)) for piece in [*pieces, rest])) == read(document)


@given(st.lists(st.tuples(st.text("abz019-_/", max_size=9), st.none() | st.dates()), min_size=1, max_size=9))
def test_an_index_that_we_write_is_read_as_it_was(children):
    locs = [f"https://example.com/{name}.xml" for name, _ in children]
    lastmods = [None if day is None else day.isoformat() for _, day in children]
    document = SITEMAPINDEX.head + "".join(sitemap_elements(locs, lastmods)).encode() + SITEMAPINDEX.tail

    assert [(child.loc, child.lastmod) for child in read(document)] == list(zip(locs, lastmods, strict=True))
    assert [replace(child, line=0) for child in read(document)] == [
        ChildSitemap(loc, lastmod) for loc, lastmod in zip(locs, lastmods, strict=True)
    ]


SAFE_PATHS = st.from_regex(r"\A/[a-z0-9][a-z0-9-]{0,9}\Z")  # others usp rewrites
RECENT = st.none() | st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


@given(st.lists(st.tuples(SAFE_PATHS, RECENT, WORDS, PRIORITIES), max_size=9, unique_by=lambda entry: entry[0]))
def test_ultimate_sitemap_parser_reads_the_same(entries):
    document, _ = written(entries)

    assert [as_usp_has_it(entry) for entry in read(document)] == by_usp(document)


def test_the_limits_are_those_that_the_page_lists():
    page = (Path(__file__).parents[1] / "docs" / "how-to-read-sitemaps.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| ([0-9,]+) \|", page, re.MULTILINE)

    assert {name: int(number.replace(",", "")) for name, number in rows} == asdict(Limits())


IMAGES = st.lists(PATHS.map(str), max_size=3, unique=True)
PLACES = st.sampled_from(["/x.mp4", "https://cdn.example/ü.mp4?a=1&b=2", None])
SAID = st.text("ab <&>'\"ü\n", min_size=1, max_size=30).filter(lambda text: text.strip() == text)
ANSWERS = st.none() | st.booleans()
VIDEOS = st.builds(
    Video,
    thumbnail_loc=st.just("/x.jpg"),
    title=SAID,
    description=SAID,
    content_loc=PLACES,
    player_loc=st.just("/player"),
    duration=st.none() | st.integers(1, 28_800),
    rating=st.none() | st.integers(0, 500).map(lambda hundredths: hundredths / 100),
    view_count=st.none() | st.integers(0, 10**9),
    publication_date=st.none() | st.dates().map(str),
    tags=st.lists(SAID, max_size=3),
    family_friendly=ANSWERS,
    restriction=st.none() | st.just(("allow", ["DE", "AT"])),
    platform=st.none() | st.just(("deny", ["tv"])),
    requires_subscription=ANSWERS,
    uploader=st.none() | SAID,
    live=ANSWERS,
)
NEWS = st.none() | st.builds(News, st.just("Times"), st.sampled_from(["en", "zh-cn"]), st.just("2027-01-01"), SAID)


@given(st.lists(st.tuples(IMAGES, st.lists(VIDEOS, max_size=2), NEWS, st.booleans()), max_size=4))
def test_what_entries_state_beyond_sitemaps_org_is_read_and_written_again_as_it_was(stated):
    locs = [f"/page/{number}" for number in range(len(stated))]
    columns = {
        "images": [images for images, *_ in stated],
        "videos": [videos for _, videos, *_ in stated],
        "news": [news for *_, news, _ in stated],
        "alternates": [
            {"en": loc, "de": f"/de{loc}"} if has else None for loc, (*_, has) in zip(locs, stated, strict=True)
        ],
    }
    document = with_extras(locs, columns)
    found = read(document)
    names = {name for entry in found for name in entry.extras}
    again = {name: [entry.extras.get(name) for entry in found] for name in names}
    assert with_extras([entry.loc for entry in found], again) == document
    assert [[*entry.extras.get("videos", [])] != [] for entry in found] == [bool(videos) for _, videos, *_ in stated]


def with_extras(locs: list[str], extras: dict[str, list[Any]]) -> bytes:
    gate = Gate(BaseUrl.parse("https://example.com"), section="s", timezone=UTC, strict=False, now=0.0)
    rendered = gate.rendered(Columns(locs, extras=extras))
    frame = URLSET.declaring(rendered.namespaces)
    return frame.head + "".join(rendered.elements).encode() + frame.tail


def test_a_namespace_may_be_declared_in_an_entry():
    local = '<url xmlns:i="http://www.google.com/schemas/sitemap-image/1.1">'
    image = "<i:image><i:loc>https://example.com/a.jpg</i:loc></i:image>"
    (entry,) = read(URLSET.head + f"{local}<loc>https://example.com/</loc>{image}</url>".encode() + URLSET.tail)
    assert entry.extras == {"images": ["https://example.com/a.jpg"]}


def test_an_entry_may_be_yielded_by_a_section_as_it_was_read():
    document = with_extras(["/cat"], {"images": [["/cat.jpg"]]})
    (columns,) = Items(None, Defaults()).columns(read(document))
    assert columns.extras == {"images": [["https://example.com/cat.jpg"]]}


def test_what_cannot_be_converted_stays_as_it_was_read_for_the_gate_to_tell_of():
    video = "<video:video><video:title>T</video:title><video:duration>long</video:duration></video:video>"
    head = URLSET.declaring([KNOWN["video"]]).head
    (entry,) = read(head + f"<url><loc>https://example.com/</loc>{video}</url>".encode() + URLSET.tail)
    assert entry.extras["videos"][0].duration == "long"
