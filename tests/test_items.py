"""What sections yield, in every form, becomes columns."""

from __future__ import annotations

from collections import OrderedDict
from datetime import date
from typing import Any, NamedTuple

import pytest

from flask_sitemapx.errors import InvalidEntry
from flask_sitemapx.protocol.entries import Columns, UrlEntry
from flask_sitemapx.sources.defaults import Defaults
from flask_sitemapx.sources.items import BATCH, Items

DAY = date(2026, 11, 30)


class Urls:
    """URLs whose text shows what was asked for."""

    def locs(self, endpoint, rows):
        return [f"https://example.com/{endpoint}/{row.get('id', '')}" for row in rows]


NONE = Defaults()
URLS = Urls()


def columns(items, defaults=NONE, view_defaults=lambda endpoint: None, endpoint=None, urls: Any = URLS) -> list[Any]:
    return list(Items(urls, defaults, view_defaults, endpoint).columns(items))


def only(found: list[Any]) -> Any:
    assert len(found) == 1
    return found[0]


def test_paths_and_urls_are_taken_as_they_are():
    assert only(columns(["/a", "https://example.com/b"])) == Columns(["/a", "https://example.com/b"])


def test_a_tuple_is_an_endpoint_with_values():
    found = only(columns([("page", {"id": 1}), ("page", {"id": 2})]))
    assert list(found.locs) == ["https://example.com/page/1", "https://example.com/page/2"]
    assert found.ready
    assert found.lastmods is found.changefreqs is found.priorities is None


def test_a_tuple_goes_on_with_lastmod_changefreq_and_priority():
    found = only(columns([("page", {}, DAY, "daily", 0.5), ("page", {}, None, None, 0.0)]))
    assert list(found.lastmods) == [DAY, None]
    assert list(found.changefreqs) == ["daily", None]
    assert list(found.priorities) == [0.5, 0.0]


def test_tuples_of_one_endpoint_may_differ_in_length():
    found = only(columns([("page", {}), ("page", {}, DAY), ("page", None, None, "daily")]))
    assert list(found.lastmods) == [None, DAY, None]
    assert list(found.changefreqs) == [None, None, "daily"]


def test_entries_are_turned_on_their_side():
    found = only(columns([UrlEntry("/a", DAY), UrlEntry("/b", priority=0.1)]))
    assert list(found.locs) == ["/a", "/b"]
    assert list(found.lastmods) == [DAY, None]
    assert list(found.priorities) == [None, 0.1]
    assert not found.ready


def test_a_mapping_with_loc_is_an_entry():
    found = only(columns([{"loc": "/a", "lastmod": DAY}, {"loc": "/b", "changefreq": "daily"}]))
    assert list(found.locs) == ["/a", "/b"]
    assert list(found.lastmods) == [DAY, None]


def test_a_mapping_without_loc_is_url_values_of_the_sections_endpoint():
    assert list(only(columns([{"id": 7}], endpoint="page")).locs) == ["https://example.com/page/7"]


def test_a_mapping_beside_one_with_loc_is_read_for_itself():
    found = columns([{"loc": "/a"}, {"id": 7}], endpoint="page")
    assert [list(batch.locs) for batch in found] == [["/a"], ["https://example.com/page/7"]]


def test_subclasses_are_read_as_what_they_are():
    class Page(NamedTuple):
        endpoint: str
        values: dict[str, int]

    pages = [Page("page", {"id": 1}), Page("other", {"id": 2})]
    assert [list(batch.locs) for batch in columns(pages)] == [
        ["https://example.com/page/1"],
        ["https://example.com/other/2"],
    ]
    mappings = [OrderedDict(loc="/a"), OrderedDict(id=7)]
    found = columns(mappings, endpoint="page")
    assert [list(batch.locs) for batch in found] == [["/a"], ["https://example.com/page/7"]]


def test_a_mapping_without_loc_and_endpoint_is_refused():
    (error,) = only(columns([{"id": 7}])).locs
    assert isinstance(error, InvalidEntry)
    assert "endpoint" in str(error)


@pytest.mark.parametrize(
    "item", [42, None, (), ("page",), ("page", {}, 1, 2, 3, 4), (["page"], {}), ("page", "id"), b"/a"]
)
def test_what_has_no_known_form_is_refused_for_itself(item):
    found = columns(["/a", item, "/b"])
    locs = [loc for batch in found for loc in batch.locs]
    assert locs[0] == "/a"
    assert locs[2] == "/b"
    assert isinstance(locs[1], InvalidEntry)


def test_forms_may_be_mixed_and_keep_their_order():
    items = ["/a", ("page", {"id": 1}), ("page", {"id": 2}), ("other", {}), UrlEntry("/z")]
    locs = [loc for batch in columns(items) for loc in batch.locs]
    assert locs == ["/a", *(f"https://example.com/{end}" for end in ("page/1", "page/2", "other/")), "/z"]


def test_without_an_application_endpoints_are_refused():
    (error,) = only(columns([("page", {})], urls=None)).locs
    assert isinstance(error, InvalidEntry)


def test_items_are_read_in_batches_and_not_ahead():
    taken: list[int] = []

    def source():
        for number in range(2 * BATCH + 1):
            taken.append(number)
            yield f"/{number}"

    reader = Items(Urls(), Defaults()).columns(source())
    assert len(next(reader).locs) == BATCH
    assert len(taken) == BATCH
    assert [len(batch.locs) for batch in reader] == [BATCH, 1]


def test_holes_are_filled_by_the_view_and_then_by_the_section():
    section = Defaults(lastmod=DAY, changefreq="weekly")
    view = {"page": Defaults(changefreq="daily", priority=0.0)}
    found = only(columns([("page", {}), ("page", {}, "2020-01-01")], section, view.get))
    assert list(found.lastmods) == [DAY, "2020-01-01"]
    assert list(found.changefreqs) == ["daily", "daily"]
    assert list(found.priorities) == [0.0, 0.0]


def test_callbacks_of_a_section_are_asked_once_without_arguments():
    asked: list[int] = []

    def newest():
        asked.append(1)
        return DAY

    found = columns([f"/{n}" for n in range(BATCH + 1)], Defaults(lastmod=newest))
    assert [set(batch.lastmods) for batch in found] == [{DAY}, {DAY}]
    assert asked == [1]


def test_callbacks_of_an_entry_get_its_values():
    found = only(columns([("page", {"id": 3}, lambda values: f"200{values['id']}-01-01"), ("page", {"id": 4}, DAY)]))
    assert list(found.lastmods) == ["2003-01-01", DAY]


def test_callbacks_of_a_mapping_get_the_mapping():
    found = only(columns([{"loc": "/a", "year": 2001, "lastmod": lambda item: f"{item['year']}-01-01"}]))
    assert list(found.lastmods) == ["2001-01-01"]


def test_a_subclass_of_str_is_a_path():
    class Path(str):
        __slots__ = ()

    assert only(columns([Path("/a")])).locs == ["/a"]


# Extras


def test_extras_are_columns_by_name_only_where_there_are_any():
    assert only(columns([UrlEntry("/a")])).extras == {}
    assert only(columns([{"loc": "/a", "title": "A"}])).extras == {}
    found = only(columns([UrlEntry("/a", images=["/a.jpg"]), UrlEntry("/b"), UrlEntry("/c", alternates={"en": "/c"})]))
    assert found.extras == {"images": [["/a.jpg"], None, None], "alternates": [None, None, {"en": "/c"}]}


@pytest.mark.parametrize(
    "item",
    [
        {"loc": "/a", "images": ["/a.jpg"]},
        ("page", {}, None, None, None, {"images": ["/a.jpg"]}),
        UrlEntry("/a", images=["/a.jpg"]),
    ],
    ids=lambda item: type(item).__name__,
)
def test_every_form_of_an_item_may_state_extras(item):
    assert only(columns([item])).extras == {"images": [["/a.jpg"]]}


def test_tuples_with_and_without_extras_may_be_mixed():
    found = only(columns([("page", {}), ("page", {}, DAY, None, None, None), ("page", {}, *[None] * 3, {"news": 1})]))
    assert found.extras == {"news": [None, None, 1]}


def test_an_extra_of_a_tuple_that_means_nothing_is_told_of():
    with pytest.raises(TypeError, match="unknown: image"):
        columns([("page", {}, None, None, None, {"image": "/a.jpg"})])


def test_extras_come_from_the_section_and_before_it_from_the_view_and_the_entry():
    section = Defaults(extras={"images": "/section.jpg", "news": "news"})
    view = {"page": Defaults(extras={"images": "/view.jpg"})}
    items = [("page", {}), ("page", {}, None, None, None, {"images": "/own.jpg"}), ("other", {})]
    first, second = columns(items, section, view.get)
    assert first.extras == {"images": ["/view.jpg", "/own.jpg"], "news": ["news", "news"]}
    assert second.extras == {"images": ["/section.jpg"], "news": ["news"]}


def test_a_callback_for_extras_is_called_with_what_an_item_says():
    seen: list[Any] = []

    def images(said: Any) -> list[str]:
        seen.append(said)
        return ["/x.jpg"]

    section = Defaults(extras={"images": images})
    items: list[Any] = [("page", {"id": 7}), {"loc": "/a"}, "/path", UrlEntry("/b")]
    assert [batch.extras["images"] for batch in columns(items, section)] == [[["/x.jpg"]]] * 4
    assert seen == [{"id": 7}, {"loc": "/a"}, "/path", UrlEntry("/b")]
