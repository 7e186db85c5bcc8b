"""Templates of addresses: which are taken, and what they make of values."""

from __future__ import annotations

import pytest

from flask_sitemapx.errors import ConfigurationError, InvalidEntry
from flask_sitemapx.protocol.entries import Columns
from flask_sitemapx.protocol.gate import Gate
from flask_sitemapx.protocol.locs import BaseUrl
from flask_sitemapx.sources.loc_template import LocTemplate


def made(template: str, **values: object) -> str | InvalidEntry:
    return LocTemplate(template).locs({name: [value] for name, value in values.items()})[0]


@pytest.mark.parametrize(
    ("value", "segment"),
    [
        ("lamp", "lamp"),
        ("a/b", "a%2Fb"),
        ("a b?c#d&e", "a%20b%3Fc%23d%26e"),
        ("100%", "100%25"),
        ("%2F", "%252F"),
        ("über", "%C3%BCber"),
        ("-._~", "-._~"),
        (17, "17"),
        (1.5, "1.5"),
    ],
)
def test_a_column_is_a_segment_of_a_path(value, segment):
    assert made("/p/{slug}", slug=value) == f"/p/{segment}"


def test_values_of_one_column_do_not_depend_on_the_others():
    locs = LocTemplate("/p/{slug}").locs({"slug": ["lamp", "a b", "x\ny"]})
    assert locs[:2] == ["/p/lamp", "/p/a%20b"]
    assert LocTemplate("/p/{slug}").locs({"slug": ["lamp", "x\ny"]})[0] == "/p/lamp"


def test_several_columns_stand_where_they_are_named():
    template = LocTemplate("https://example.com/{lang}/100%/{slug}?from={lang}")
    assert template.locs({"lang": ["en", "de"], "slug": ["a", "b"]}) == [
        "https://example.com/en/100%/a?from=en",
        "https://example.com/de/100%/b?from=de",
    ]
    assert template.columns == ("lang", "slug", "lang")


def test_a_plus_leaves_slashes_and_what_is_encoded():
    assert made("/docs/{+path}", path="a%20b/c?d=e") == "/docs/a%20b/c?d=e"


def test_a_column_alone_is_the_address():
    assert made("{url}", url="https://example.com/a?b") == "https://example.com/a?b"
    assert made("{Product URL}", **{"Product URL": "/a"}) == "/a"


@pytest.mark.parametrize("value", [None, "", " ", True, [], {}])
@pytest.mark.parametrize("template", ["/p/{slug}", "/p/{+slug}", "{slug}"])
def test_a_column_without_text_is_no_address(template, value):
    error = made(template, slug=value)
    assert isinstance(error, InvalidEntry)
    assert error.rule == "loc-column"
    assert "'slug'" in str(error)


@pytest.mark.parametrize("value", ["a\nb", "a\x00", "\x7f", "\ud800"])
def test_control_characters_are_not_hidden_by_encoding_them(value):
    error = made("/p/{slug}", slug=value)
    assert isinstance(error, InvalidEntry)
    assert error.rule == "loc-control-character"


def test_a_row_is_wrong_if_any_of_its_columns_is():
    good, bad = LocTemplate("/{a}/{b}").locs({"a": ["x", "y"], "b": ["z", None]})
    assert good == "/x/z"
    assert isinstance(bad, InvalidEntry)


@pytest.mark.parametrize(("template", "value"), [("/p/{a}", ".."), ("/{+a}", "/evil.example/"), ("{a}", "//evil")])
def test_no_value_leads_out_of_the_site(template, value):
    gate = Gate(BaseUrl.parse("https://example.com"), section="s", timezone=None, strict=False)  # type: ignore[arg-type]
    assert gate.rendered(Columns([made(template, a=value)])).locs == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/about",
        "p/{slug}",
        "{host}/{slug}",
        "{+a}{b}",
        "/p/{slug",
        "/p/slug}",
        "/p/{}",
        "/{{slug}}",
        "https://{host}/",
    ],
)
def test_what_gives_no_addresses_is_refused(text):
    with pytest.raises(ConfigurationError, match=r"^must (begin|have)"):
        LocTemplate(text)
