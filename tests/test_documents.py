from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from flask_sitemapx.protocol.documents import (
    MAX_BYTES,
    MAX_URLS,
    NAMESPACE,
    SITEMAPINDEX,
    URLSET,
    Frame,
    changefreq_element,
    priority_element,
    sitemap_elements,
    url_elements,
)

OURS = Path(__file__).parent / "schema" / "sitemap.xsd"
OFFICIAL = Path(__file__).parents[2] / "shared" / "xsd" / "all.xsd"
SAMPLES = OFFICIAL.parent / "samples"
official_only = pytest.mark.skipif(not OFFICIAL.exists(), reason="the official schemas are not at ../shared/xsd")

LOCS = ["https://example.com/a?b=1&amp;c=2", "https://example.com/it&apos;s"]


@pytest.fixture(params=[pytest.param(OURS, id="ours"), pytest.param(OFFICIAL, id="official", marks=official_only)])
def schema(request):
    return etree.XMLSchema(etree.parse(request.param, etree.XMLParser(no_network=True)))


def document(frame: Frame, elements: list[str]) -> bytes:
    return frame.head + "".join(elements).encode() + frame.tail


def test_the_limits_are_those_of_the_protocol():
    assert (MAX_URLS, MAX_BYTES) == (50_000, 50 * 1024 * 1024)


def test_a_urlset_is_valid_in_every_combination_of_fields(schema):
    for lastmods in (None, ["2026-11-30", "2026-11-30T08:15:30Z"], [None, "2026-11-30"]):
        for changefreqs in (None, [changefreq_element("daily"), ""]):
            for priorities in (None, ["", priority_element("0.5")]):
                elements = url_elements(LOCS, lastmods, changefreqs, priorities)
                schema.assertValid(etree.fromstring(document(URLSET, elements)))


def test_an_index_is_valid_with_and_without_dates(schema):
    for lastmods in (None, ["2026-11-30", "2026-11-30T08:15:30Z"], [None, "2026-11-30"]):
        schema.assertValid(etree.fromstring(document(SITEMAPINDEX, sitemap_elements(LOCS, lastmods))))


@pytest.mark.parametrize(("frame", "root"), [(URLSET, "urlset"), (SITEMAPINDEX, "sitemapindex")])
def test_a_document_begins_with_its_declaration_and_uses_the_default_namespace(frame, root):
    assert frame.head.startswith(b'<?xml version="1.0" encoding="UTF-8"?>\n')
    tree = etree.fromstring(frame.head + frame.tail)
    assert tree.tag == f"{{{NAMESPACE}}}{root}"
    assert tree.nsmap == {None: "http://www.sitemaps.org/schemas/sitemap/0.9"}


def test_an_element_is_one_line_with_its_children_in_the_order_of_the_schema():
    elements = url_elements(
        ["https://a.example/"], ["2026-11-30"], [changefreq_element("never")], [priority_element("1.0")]
    )

    assert "".join(elements) == (
        "<url><loc>https://a.example/</loc><lastmod>2026-11-30</lastmod>"
        "<changefreq>never</changefreq><priority>1.0</priority></url>\n"
    )


def test_fields_that_are_absent_leave_no_trace():
    bare = ["<url><loc>a</loc></url>\n", "<url><loc>b</loc></url>\n"]

    assert url_elements(["a", "b"]) == bare
    assert url_elements(["a", "b"], [None, None]) == bare
    assert url_elements(["a", "b"], None, ["", ""], ["", ""]) == bare
    assert sitemap_elements(["a"], [None]) == sitemap_elements(["a"]) == ["<sitemap><loc>a</loc></sitemap>\n"]


def test_no_locs_make_no_elements():
    assert url_elements([], [], [], []) == url_elements([]) == sitemap_elements([], []) == []


GOOD = "<loc>https://example.com/</loc>"


@pytest.mark.parametrize(
    "children",
    [
        "",
        f"<lastmod>2026-11-30</lastmod>{GOOD}",
        f"{GOOD}<priority>0.5</priority><changefreq>daily</changefreq>",
        f"{GOOD}{GOOD}",
        "<loc>/about</loc>",
        "<loc>ftp://example.com/</loc>",
        "<loc> https://example.com/ </loc>",
        "<loc>https://example.com/a b</loc>",
        "<loc>https://example.com/ü</loc>",
        "<loc>https://example.com/#top</loc>",
        "<loc>https://example.com/%zz</loc>",
        f"<loc>https://example.com/{'x' * 2028}</loc>",
        f"{GOOD}<lastmod>2026</lastmod>",
        f"{GOOD}<lastmod>2026-02-30</lastmod>",
        f"{GOOD}<lastmod>2026-11-30T08:15:30</lastmod>",
        f"{GOOD}<lastmod>2026-11-30T08:15:30+01:00</lastmod>",
        f"{GOOD}<changefreq>Daily</changefreq>",
        f"{GOOD}<priority>1.1</priority>",
        f"{GOOD}<priority>.5</priority>",
        f"{GOOD}<priority>1e-1</priority>",
        f"{GOOD}<unknown/>",
    ],
)
def test_our_schema_refuses_what_we_never_write(children):
    schema = etree.XMLSchema(etree.parse(OURS))

    assert schema.validate(etree.fromstring(document(URLSET, [f"<url>{GOOD}</url>"])))
    assert not schema.validate(etree.fromstring(document(URLSET, [f"<url>{children}</url>"])))


def test_our_schema_allows_the_longest_loc_and_foreign_elements_after_priority():
    longest = f"<loc>https://example.com/{'x' * 2027}</loc>"
    foreign = '<x:thing xmlns:x="urn:example:thing"><x:inner/></x:thing>'
    schema = etree.XMLSchema(etree.parse(OURS))

    assert schema.validate(
        etree.fromstring(document(URLSET, [f"<url>{longest}<priority>0.0</priority>{foreign}</url>"]))
    )
    assert not schema.validate(etree.fromstring(document(URLSET, [f"<url>{foreign}{longest}</url>"])))


def test_our_schema_refuses_empty_documents_and_mixed_ones():
    schema = etree.XMLSchema(etree.parse(OURS))

    assert not schema.validate(etree.fromstring(document(URLSET, [])))
    assert not schema.validate(etree.fromstring(document(SITEMAPINDEX, [])))
    assert not schema.validate(etree.fromstring(document(SITEMAPINDEX, url_elements(LOCS))))


EXTENSIONS = ("bad-image", "bad-video", "bad-news", "bad-href", "bad-foreign")
CORE_SAMPLES = [path for path in sorted(SAMPLES.glob("bad-*.xml")) if not path.stem.startswith(EXTENSIONS)]


@official_only
@pytest.mark.parametrize("sample", CORE_SAMPLES, ids=lambda path: path.stem)
def test_our_schema_refuses_what_the_official_one_refuses_of_the_core(sample):
    try:
        tree = etree.parse(sample)
    except etree.XMLSyntaxError:
        assert sample.stem == "bad-unescaped-amp"
    else:
        assert not etree.XMLSchema(etree.parse(OURS)).validate(tree)
