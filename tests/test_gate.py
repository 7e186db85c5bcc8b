from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from urllib.parse import unquote_to_bytes
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from flask_sitemapx.errors import InvalidEntry, shown
from flask_sitemapx.protocol.documents import NAMESPACE, URLSET
from flask_sitemapx.protocol.entries import Columns
from flask_sitemapx.protocol.gate import Gate, Problems, Rendered
from flask_sitemapx.protocol.locs import MAX_LENGTH, PLACEHOLDER, PLACEHOLDER_ORIGIN, BaseUrl

BASE = BaseUrl.parse("https://example.com/shop")
OURS = Path(__file__).parent / "schema" / "sitemap.xsd"
OFFICIAL = Path(__file__).parents[2] / "shared" / "xsd" / "all.xsd"
SCHEMA = etree.XMLSchema(etree.parse(OURS))


def gate(*, base=BASE, section="blog", timezone=UTC, strict=False) -> Gate:
    return Gate(base, section=section, timezone=timezone, strict=strict)


def refusal(columns: Columns) -> InvalidEntry:
    with pytest.raises(InvalidEntry) as caught:
        gate(strict=True).rendered(columns)
    return caught.value


# Entries


def test_good_entries_become_elements():
    columns = Columns(["/a", "/b?c&d"], [date(2026, 11, 30), None], ["daily", None], [None, 0.5])

    assert gate(strict=True).rendered(columns) == Rendered(
        locs=["https://example.com/shop/a", "https://example.com/shop/b?c&amp;d"],
        lastmods=["2026-11-30", None],
        elements=[
            "<url><loc>https://example.com/shop/a</loc><lastmod>2026-11-30</lastmod><changefreq>daily</changefreq></url>\n",
            "<url><loc>https://example.com/shop/b?c&amp;d</loc><priority>0.5</priority></url>\n",
        ],
    )


def test_columns_that_are_absent_leave_every_entry_without_the_field():
    assert gate().rendered(Columns(["/a"])) == Rendered(
        ["https://example.com/shop/a"], [None], ["<url><loc>https://example.com/shop/a</loc></url>\n"]
    )


def test_no_entries_make_no_elements():
    assert gate(strict=True).rendered(Columns([], [], [], [])) == Rendered([], [], [])
    assert gate(strict=True).rendered(Columns([], ready=True)) == Rendered([], [], [])


def test_an_entry_with_a_bad_loc_is_left_out_and_counted_and_its_fields_are_not_looked_at():
    guard = gate()

    rendered = guard.rendered(Columns(["/a", "/b#c", "/d"], ["2026-01-01", "nonsense", None], None, [0.1, 9, 0.3]))

    assert rendered.locs == ["https://example.com/shop/a", "https://example.com/shop/d"]
    assert rendered.lastmods == ["2026-01-01", None]
    assert [etree.fromstring(element).findtext("priority") for element in rendered.elements] == ["0.1", "0.3"]
    assert guard.problems.as_dict() == {"loc-fragment": [1, "'/b#c'"]}


def test_a_bad_field_is_left_out_of_its_entry_and_counted():
    guard = gate()

    rendered = guard.rendered(Columns(["/a", "/b"], ["nonsense", "2026-01-01"], ["daily", "Daily"], [7, 1]))

    assert rendered.elements == [
        "<url><loc>https://example.com/shop/a</loc><changefreq>daily</changefreq></url>\n",
        "<url><loc>https://example.com/shop/b</loc><lastmod>2026-01-01</lastmod><priority>1.0</priority></url>\n",
    ]
    assert guard.problems.as_dict() == {
        "lastmod-form": [1, "'nonsense'"],
        "changefreq": [1, "'Daily'"],
        "priority": [1, "7"],
    }


@pytest.mark.parametrize(
    ("columns", "rule", "value", "places"),
    [
        (Columns(["/fine", "/b#c"]), "loc-fragment", "/b#c", ["section 'blog'", "'/b#c'"]),
        (Columns(["/fine", "/b"], ["2026-01-01", "now"]), "lastmod-form", "now", ["section 'blog'", "'/b'", "'now'"]),
        (Columns(["/b"], None, ["often"]), "changefreq", "often", ["section 'blog'", "'/b'", "'often'", "weekly"]),
        (Columns(["/b"], None, None, [7]), "priority", 7, ["section 'blog'", "'/b'", "7", "0.0 to 1.0"]),
        (Columns(["https://example.com/shop/.."], ready=True), "loc-dot-segment", "https://example.com/shop/..", []),
    ],
)
def test_a_strict_gate_raises_with_section_entry_value_and_rule(columns, rule, value, places):
    error = refusal(columns)

    assert (error.rule, error.value) == (rule, value)
    for place in [*places, rule]:
        assert place in str(error)


@pytest.mark.parametrize("strict", [False, True])
def test_a_date_without_a_day_is_dropped_and_counted_even_by_a_strict_gate(strict):
    guard = gate(strict=strict)

    rendered = guard.rendered(Columns(["/a", "/b", "/c"], ["2026", "2026-11", "2026-11-30"]))

    assert rendered.lastmods == [None, None, "2026-11-30"]
    assert guard.problems.as_dict() == {"lastmod-without-day": [2, "'2026'"]}


def test_times_without_a_zone_are_read_in_the_gate_s_timezone():
    berlin = gate(timezone=ZoneInfo("Europe/Berlin"))

    assert berlin.rendered(Columns(["/a"], [datetime(2026, 7, 1, 12)])).lastmods == ["2026-07-01T10:00:00Z"]
    assert berlin.rendered(Columns(["/a"], ["2026-07-01 12:00:00"])).lastmods == ["2026-07-01T10:00:00Z"]


def test_ready_locs_pass_as_they_are():
    ready = ["https://example.com/shop/a&amp;b", "https://example.com/shop/.well-known/x"]

    assert gate(strict=True).rendered(Columns(ready, ready=True)).locs == ready


def test_ready_locs_that_are_too_long_or_have_dot_segments_are_left_out():
    guard = gate()
    long = "https://example.com/shop/" + "x" * MAX_LENGTH

    rendered = guard.rendered(Columns([long, "https://example.com/shop/a", "https://example.com/shop/./b"], ready=True))

    assert rendered.locs == ["https://example.com/shop/a"]
    assert {rule: count for rule, (count, _) in guard.problems.as_dict().items()} == {
        "loc-length": 1,
        "loc-dot-segment": 1,
    }


@pytest.mark.parametrize("ready", [False, True])
def test_a_loc_that_could_not_be_made_is_counted_or_raised_like_any_other(ready):
    error = InvalidEntry("url-values", {"slug": None}, "the rule needs a slug")
    columns = Columns(["https://example.com/shop/a", error], ready=ready)
    guard = gate()

    assert guard.rendered(columns).locs == ["https://example.com/shop/a"]
    assert guard.problems.as_dict() == {"url-values": [1, "{'slug': None}"]}
    assert "section 'blog': the rule needs a slug (url-values)" in str(refusal(columns))


def test_an_unnamed_site_keeps_its_place_free():
    guard = gate(base=PLACEHOLDER)

    rendered = guard.rendered(Columns(["/a", f"{PLACEHOLDER_ORIGIN}/b", "https://example.com/c"]))

    assert rendered.locs == ["\0/a", "\0/b"]
    assert guard.problems.as_dict() == {"loc-no-base-url": [1, "'https://example.com/c'"]}


# changefreq and priority


class Frequency(StrEnum):
    DAILY = "daily"


@pytest.mark.parametrize("word", ["always", "hourly", "daily", "weekly", "monthly", "yearly", "never", Frequency.DAILY])
def test_changefreq_is_one_of_seven_words(word):
    rendered = gate(strict=True).rendered(Columns(["/a"], None, [word]))

    assert f"<changefreq>{getattr(word, 'value', word)}</changefreq>" in rendered.elements[0]


@pytest.mark.parametrize("word", ["", "Daily", " daily", "sometimes", 1, True, b"daily", [], {"daily"}])
def test_changefreq_is_nothing_else(word):
    assert refusal(Columns(["/a", "/b"], None, ["daily", word])).rule == "changefreq"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.0"),
        (0.0, "0.0"),
        (-0.0, "0.0"),
        (-1e-300, None),
        (1, "1.0"),
        (1.0, "1.0"),
        (0.5, "0.5"),
        (0.25, "0.25"),
        (0.1 + 0.2, "0.3"),
        (0.123456, "0.12"),
        (0.999, "1.0"),
        (1e-9, "0.0"),
        (1.001, None),
        (-0.1, None),
        (float("nan"), None),
        (float("inf"), None),
        (10**400, None),
        (True, None),
        (False, None),
        ("0.8", "0.8"),
        ("0.80", "0.8"),
        (".5", "0.5"),
        ("+1.", "1.0"),
        ("0", "0.0"),
        ("-0", "0.0"),
        ("1.1", None),
        ("nan", None),
        ("1e-1", None),
        ("0,5", None),
        ("0_1", None),
        ("\u0660", None),
        ("", None),
        (Decimal("0.75"), "0.75"),
        (Decimal("NaN"), None),
        (Decimal("sNaN"), None),
        (Fraction(1, 4), "0.25"),
        (0.5 + 0j, None),
        ([], None),
        (b"0.5", None),
    ],
)
@pytest.mark.parametrize("neighbours", [[], [object()]], ids=["alone", "one by one"])
def test_priority_is_a_number_from_0_to_1_in_hundredths(value, text, neighbours):
    values = [value, *neighbours]

    rendered = gate().rendered(Columns([f"/{n}" for n in range(len(values))], None, None, values))

    assert etree.fromstring(rendered.elements[0]).findtext("priority") == text


# Problems


def test_problems_are_counted_by_rule_with_the_first_example():
    problems = Problems("blog")
    for value in ("/a#b", "/c#d"):
        problems.add("loc-fragment", value)

    assert problems.as_dict() == {"loc-fragment": [2, "'/a#b'"]}


def test_an_example_says_why_where_the_rule_does_not():
    lenient = gate()
    lenient.rendered(Columns([InvalidEntry("url-build", "article", "no URL can be built", "ValueError: no slug")]))

    assert lenient.problems.as_dict() == {"url-build": [1, "'article' (ValueError: no slug)"]}


def test_problems_survive_json():
    problems = Problems("blog")
    problems.add("loc-control-character", "/\ud800\0")

    assert json.loads(json.dumps(problems.as_dict())) == problems.as_dict()


def test_an_example_is_short_whatever_the_value():
    class Hostile:
        def __repr__(self):
            raise RuntimeError

    assert len(shown("x" * 10_000)) == 200
    assert len(shown(list(range(10_000)))) == 200
    assert shown(Hostile()) == "<Hostile>"
    assert shown("x" * 198) == repr("x" * 198)


# Anything at all

tricky = st.text(st.sampled_from("/.%2eE?&='#@:<>\"[]ab \n\0\\é日\ud800\ufffe]]>"), max_size=12) | st.text(max_size=12)
locs = st.builds(str.__add__, st.sampled_from(["", "/", "https://example.com/shop/"]), tricky) | st.integers()
aware = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=14)), ZoneInfo("Europe/Berlin")]))
lastmods = st.none() | st.dates() | st.datetimes() | aware | st.dates().map(str) | tricky
changefreqs = st.none() | st.sampled_from(["daily", "never", "Daily"]) | tricky | st.booleans()
priorities = st.none() | st.floats() | st.floats(0, 1) | st.decimals() | st.booleans() | st.sampled_from(["0.5", "2"])
entries = st.lists(st.tuples(locs, lastmods, changefreqs, priorities), max_size=6)


def columns_of(rows) -> Columns:
    locs, lastmods, changefreqs, priorities = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Columns(locs, lastmods, changefreqs, priorities)


@given(entries)
def test_what_passes_is_well_formed_valid_and_means_what_was_stated(rows):
    rendered = gate().rendered(columns_of(rows))
    stated = [row[0].strip(" \t\r\n") for row in rows if gate().rendered(columns_of([row])).locs]

    tree = etree.fromstring(URLSET.head + "".join(rendered.elements).encode() + URLSET.tail)
    read = [loc.text for loc in tree.iter(f"{{{NAMESPACE}}}loc")]

    assert [unquote_to_bytes(loc) for loc in read] == [
        unquote_to_bytes(BASE.text + loc if loc.startswith("/") else loc) for loc in stated
    ]
    if len(set(read)) == len(read) > 0:  # the gate lets duplicates pass
        SCHEMA.assertValid(tree)


@pytest.mark.skipif(not OFFICIAL.exists(), reason="the official schemas are not at ../shared/xsd")
def test_what_passes_is_valid_by_the_official_schema():
    schema = etree.XMLSchema(etree.parse(OFFICIAL, etree.XMLParser(no_network=True)))

    @given(entries)
    def check(rows):
        rendered = gate().rendered(columns_of(rows))
        if rendered.elements:
            schema.assertValid(etree.fromstring(URLSET.head + "".join(rendered.elements).encode() + URLSET.tail))

    check()


@given(entries)
def test_a_batch_gives_what_its_entries_give_one_by_one(rows):
    together, apart = gate(), gate()

    rendered = together.rendered(columns_of(rows))
    singles = [apart.rendered(columns_of([row])) for row in rows]

    assert rendered.locs == [loc for single in singles for loc in single.locs]
    assert rendered.lastmods == [lastmod for single in singles for lastmod in single.lastmods]
    assert rendered.elements == [element for single in singles for element in single.elements]
    assert {rule: count for rule, (count, _) in together.problems.as_dict().items()} == {
        rule: count for rule, (count, _) in apart.problems.as_dict().items()
    }


@given(entries)
def test_a_strict_gate_raises_exactly_if_a_lax_one_has_something_else_to_count_than_dates_without_a_day(rows):
    lax, strict = gate(), gate(strict=True)
    expected = lax.rendered(columns_of(rows))

    if lax.problems.kinds.keys() - {"lastmod-without-day"}:
        with pytest.raises(InvalidEntry):
            strict.rendered(columns_of(rows))
    else:
        assert strict.rendered(columns_of(rows)) == expected
