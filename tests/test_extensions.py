from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from lxml import etree

from flask_sitemapx.errors import ConfigurationError, InvalidEntry
from flask_sitemapx.protocol.documents import URLSET
from flask_sitemapx.protocol.elements import KNOWN, Namespace, packed, unpacked
from flask_sitemapx.protocol.entries import Columns, UrlEntry, known_extras
from flask_sitemapx.protocol.extensions import COMPARED, MAX_IMAGES
from flask_sitemapx.protocol.gate import Gate
from flask_sitemapx.protocol.locs import PLACEHOLDER, BaseUrl
from flask_sitemapx.protocol.media import News, Video

BASE = BaseUrl.parse("https://example.com/shop")
OURS = Path(__file__).parent / "schema" / "sitemap.xsd"
OFFICIAL = Path(__file__).parents[2] / "shared" / "xsd" / "all.xsd"
NAMES = {prefix: namespace.uri for prefix, namespace in KNOWN.items()}
NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
LANGUAGES = {"en": "/cat", "de-AT": "/katze", "x-default": "/cat"}
PAGEMAP = Namespace("pagemap", "http://www.google.com/schemas/sitemap-pagemap/1.0")
VIDEO = Video(
    thumbnail_loc="/thumb.jpg",
    title="Cats & dogs",
    description="What they do",
    content_loc="https://cdn.example/cats.mp4",
)
NEWS = News("The Times", "en", NOW - timedelta(hours=1), "Cat found")


def gate(base=BASE, *, strict=False) -> Gate:
    return Gate(base, section="blog", timezone=UTC, strict=strict, now=NOW.timestamp())


def written(gate: Gate, *locs: str, **extras):
    """The urlset of entries at *locs* with columns of *extras*."""
    rendered = gate.rendered(Columns(locs, extras=extras))
    frame = URLSET.declaring(rendered.namespaces)
    return etree.fromstring(frame.head + "".join(rendered.elements).encode() + frame.tail)


def problems(loc: str = "/cat", **extras) -> dict[str, int]:
    """How often which rule is broken by one entry, whose faulty parts are left out."""
    tolerant = gate()
    tree = written(tolerant, loc, **{name: [value] for name, value in extras.items()})
    assert tree.findtext("{*}url/{*}loc") == f"https://example.com/shop{loc}"
    return {rule: count for rule, (count, _) in tolerant.problems.as_dict().items()}


def test_an_entry_may_state_everything_and_is_valid():
    tree = written(
        gate(strict=True),
        "/cat",
        alternates=[LANGUAGES],
        images=[["/cat.jpg", "https://cdn.example/cat.png?a=1&b=2"]],
        videos=[[VIDEO]],
        news=[NEWS],
    )
    etree.XMLSchema(etree.parse(OURS)).assertValid(tree)
    assert [child.tag.partition("}")[2] for child in tree[0]] == [
        "loc",
        "link",
        "link",
        "link",
        "image",
        "image",
        "video",
        "news",
    ]


@pytest.mark.skipif(not OFFICIAL.exists(), reason="the official schemas are not at ../shared/xsd")
def test_it_is_valid_by_the_official_schemas_too():
    extras = {"alternates": [LANGUAGES], "images": [["/cat.jpg"]], "videos": [[VIDEO]], "news": [NEWS]}
    etree.XMLSchema(etree.parse(OFFICIAL)).assertValid(written(gate(strict=True), "/cat", **extras))


def test_only_namespaces_that_are_used_are_declared():
    assert gate().rendered(Columns(["/a"])).namespaces == ()
    assert gate().rendered(Columns(["/a"], extras={"images": [None], "alternates": [{}]})).namespaces == ()
    assert gate().rendered(Columns(["/a", "/b"], extras={"images": [None, ["/i"]]})).namespaces == (KNOWN["image"],)


# Alternates


def test_alternates_are_written_for_each_language():
    tree = written(gate(strict=True), "/cat", alternates=[{"en-gb": "/cat", "de": "https://example.de/katze?a&b"}])
    links = [dict(link.attrib) for link in tree.iterfind("{*}url/xhtml:link", NAMES)]
    assert links == [
        {"rel": "alternate", "hreflang": "en-GB", "href": "https://example.com/shop/cat"},
        {"rel": "alternate", "hreflang": "de", "href": "https://example.de/katze?a&b"},
    ]


def test_a_page_that_is_not_among_its_alternates_has_none():
    assert problems("/dog", alternates=LANGUAGES) == {"alternate-self": 1}


def test_a_page_on_a_site_without_a_name_is_among_its_alternates():
    rendered = gate(PLACEHOLDER, strict=True).rendered(Columns(["/cat"], extras={"alternates": [LANGUAGES]}))
    assert rendered.elements[0].count('href="\0/cat"') == 2


@pytest.mark.parametrize(
    ("alternates", "broken"),
    [
        ({**LANGUAGES, "de_AT": "/x"}, {"hreflang": 1}),
        ({**LANGUAGES, "fr": "chat"}, {"alternate-loc-relative": 1}),
        ({**LANGUAGES, "fr": "ftp://example.com/chat"}, {"alternate-loc-scheme": 1}),
        ({**LANGUAGES, "fr": "https://example.com/chat#x"}, {"alternate-loc-fragment": 1}),
        ({**LANGUAGES, "EN": "/other"}, {"alternate-twice": 1}),
        ([("en", "/cat")], {"alternates": 1}),
    ],
)
def test_a_bad_alternate_is_left_out_and_counted(alternates, broken):
    assert problems(alternates=alternates) == broken


def test_a_page_that_does_not_name_the_page_that_names_it_is_reported():
    tolerant = gate()
    both, one = {"en": "/cat", "de": "/katze"}, {"de": "/katze"}
    tolerant.rendered(Columns(["/cat", "/katze"], extras={"alternates": [both, one]}))
    assert not tolerant.problems.as_dict()
    tolerant.finish()
    assert tolerant.problems.as_dict()["alternate-return"][0] == 1


def test_pages_that_name_each_other_are_no_problem_and_others_are_not_known():
    tolerant = gate()
    sets = [{"en": "/cat", "de": "/katze", "fr": "https://example.fr/chat"}] * 2
    tolerant.rendered(Columns(["/cat", "/katze"], extras={"alternates": sets}))
    tolerant.rendered(Columns(["/dog"], extras={"alternates": [{"en": "/dog", "de": "/hund"}]}))
    tolerant.finish()
    assert not tolerant.problems.as_dict()


def test_what_is_kept_to_compare_pages_does_not_grow_with_the_site():
    tolerant = gate()
    for start in range(0, 3 * COMPARED, 500):
        locs = [f"/{number}" for number in range(start, start + 500)]
        tolerant.rendered(Columns(locs, extras={"alternates": [{"en": loc} for loc in locs]}))
        assert len(tolerant._extensions._returns._links) <= COMPARED


# Images, videos, news


def test_images_are_urls_of_any_host_each_once():
    tree = written(
        gate(strict=True), "/cat", "/dog", images=["/cat.jpg", ["/a b.jpg", "http://cdn.example/ü", "/a b.jpg"]]
    )
    assert tree.xpath("//image:loc/text()", namespaces=NAMES) == [
        "https://example.com/shop/cat.jpg",
        "https://example.com/shop/a%20b.jpg",
        "http://cdn.example/%C3%BC",
    ]


def test_of_too_many_images_the_first_thousand_stay():
    tolerant = gate()
    tree = written(tolerant, "/cat", images=[[f"/{number}.jpg" for number in range(MAX_IMAGES + 1)]])
    assert len(tree.xpath("//image:image", namespaces=NAMES)) == MAX_IMAGES
    assert [*tolerant.problems.as_dict()] == ["images-count"]


@pytest.mark.parametrize(
    ("extras", "broken"),
    [
        ({"images": ["/cat.jpg", "\x01"]}, {"image-loc-control-character": 1}),
        ({"images": ["/cat.jpg", 7]}, {"images": 1}),
        ({"images": 7}, {"images": 1}),
        ({"images": {"loc": "/cat.jpg"}}, {"images": 1}),
        ({"videos": ["/cat.mp4"]}, {"videos": 1}),
        ({"news": "Cat found"}, {"news": 1}),
        ({"elements": "<a/>"}, {"elements": 1}),
    ],
    ids=str,
)
def test_what_is_none_of_these_is_left_out_and_counted(extras, broken):
    assert problems(**extras) == broken


def test_under_strict_rules_the_error_names_section_entry_and_rule():
    with pytest.raises(
        InvalidEntry, match=r"section 'blog', entry 'https://example\.com/shop/cat': .*image-loc-scheme"
    ):
        written(gate(strict=True), "/cat", images=[["ftp://example.com/cat.jpg"]])


@pytest.mark.parametrize(
    ("age", "is_news"), [(timedelta(0), True), (timedelta(hours=47), True), (timedelta(hours=48), False)]
)
def test_news_are_left_out_by_themselves_when_two_days_old(age, is_news):
    strict = gate(strict=True)  # for which this is no fault
    tree = written(strict, "/cat", news=[News("The Times", "en", NOW - age, "Cat found")])
    assert bool(tree.xpath("//news:news", namespaces=NAMES)) is is_news
    assert [*strict.problems.as_dict()] == ([] if is_news else ["news-expired"])


def test_the_videos_of_an_entry_are_checked_against_its_own_address():
    own = Video(thumbnail_loc="/thumb.jpg", title="Cats", description="What they do", player_loc="/cat")
    assert problems(videos=[own])


# Elements of other namespaces


def test_elements_of_other_namespaces_are_written_and_escaped():
    element = PAGEMAP.element("PageMap", content=[PAGEMAP.element("Attribute", {"name": 'a "b"'}, "1 < 2\n& more")])
    rendered = gate(strict=True).rendered(Columns(["/cat"], extras={"elements": [[element]]}))
    assert rendered.namespaces == (PAGEMAP,)
    assert "\n" not in rendered.elements[0].removesuffix("\n")
    attribute = written(gate(strict=True), "/cat", elements=[[element]]).find(f".//{{{PAGEMAP.uri}}}Attribute")
    assert (attribute.get("name"), attribute.text) == ('a "b"', "1 < 2\n& more")


@pytest.mark.parametrize(
    ("element", "broken"),
    [
        (PAGEMAP.element("Page Map"), "element-name"),
        (PAGEMAP.element("xml-thing"), "element-name"),
        (PAGEMAP.element("PageMap", {"a b": "c"}), "element-name"),
        (PAGEMAP.element("PageMap", content="\x00"), "element-character"),
        (PAGEMAP.element("PageMap", {"name": "\ud800"}), "element-character"),
        (PAGEMAP.element("PageMap", {"name": 7}), "element-text"),  # type: ignore[dict-item]
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_element_that_is_no_xml_is_left_out_and_counted(element, broken):
    assert problems(elements=element) == {broken: 1}


def test_a_prefix_stands_for_one_namespace_in_a_section():
    other = Namespace("pagemap", "urn:other")
    tolerant = gate()
    tree = written(tolerant, "/a", "/b", elements=[PAGEMAP.element("PageMap"), other.element("PageMap")])
    assert len(tree.xpath("//*[local-name()='PageMap']")) == 1
    assert [*tolerant.problems.as_dict()] == ["element-prefix"]


@pytest.mark.parametrize(
    ("prefix", "uri"),
    [("a b", "urn:x"), ("xml", "urn:x"), ("", "urn:x"), ("a", ""), ("a", "u\x00"), ("a", "a b"), ("image", "urn:x")],
)
def test_a_namespace_that_cannot_be_declared_is_refused(prefix, uri):
    with pytest.raises(ConfigurationError):
        Namespace(prefix, uri)


def test_namespaces_are_written_down_briefly_and_read_again():
    namespaces = (KNOWN["image"], PAGEMAP)
    assert packed(namespaces) == f"image pagemap={PAGEMAP.uri}"
    assert unpacked(packed(namespaces)) == namespaces
    assert unpacked("") == ()


# Entries


def test_an_entry_holds_what_it_is_given():
    entry = UrlEntry("/cat", date(2026, 11, 30), images=["/cat.jpg"])
    assert entry.extras == {"images": ["/cat.jpg"]}
    assert entry == UrlEntry("/cat", date(2026, 11, 30), images=["/cat.jpg"])
    assert entry != UrlEntry("/cat", date(2026, 11, 30))
    assert "images" in repr(entry)


def test_a_name_that_means_nothing_is_told_of():
    with pytest.raises(TypeError, match="unknown: image; what an entry may state is alternates, images"):
        known_extras({"image": ["/cat.jpg"]})


def test_columns_of_extras_are_as_long_as_the_others():
    with pytest.raises(ValueError, match="a column of 1 values beside 2 locs"):
        Columns(["/a", "/b"], extras={"images": [None]})
