"""Videos and news: every rule of Google's tables and schemas is kept, or what breaks it reported."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from flask_sitemapx.errors import InvalidEntry
from flask_sitemapx.protocol.documents import URLSET
from flask_sitemapx.protocol.elements import KNOWN
from flask_sitemapx.protocol.locs import BaseUrl
from flask_sitemapx.protocol.media import (
    News,
    Video,
    news_element,
    news_expires_at,
    publication_dates,
    video_element,
)

BASE = BaseUrl.parse("https://example.com")
PAGE = "https://example.com/cats"
OURS = Path(__file__).parent / "schema" / "sitemap.xsd"
OFFICIAL = Path(__file__).parents[2] / "shared" / "xsd" / "all.xsd"
SCHEMAS = [etree.XMLSchema(etree.parse(path)) for path in (OURS, OFFICIAL) if path.exists()]
NAMES = {prefix: namespace.uri for prefix, namespace in KNOWN.items()}
VIDEO = Video(
    thumbnail_loc="/thumb.jpg",
    title="Cats & <dogs>",
    description="What they\ndo",
    content_loc="https://cdn.example/cats.mp4?a=1&b=2",
    player_loc="/player?of=cats",
    duration=timedelta(minutes=2),
    expiration_date=date(2027, 1, 1),
    rating=4.25,
    view_count=7,
    publication_date=datetime(2026, 11, 30, 8, tzinfo=UTC),
    tags=["cats", "dogs"],
    family_friendly=True,
    restriction=("allow", ["DE", "AT"]),
    platform=("deny", "tv"),
    requires_subscription=False,
    uploader="Tom & Jerry",
    uploader_info="/users/tom",
    live=False,
)
NEWS = News("The Example Times", "en", datetime(2026, 11, 30, 8, tzinfo=UTC), "Cat found")


def video(given: Video, report: Any = None) -> Any:
    return parsed(video_element(given, PAGE, BASE.link, UTC, report or raised))


def raised(error: InvalidEntry) -> None:
    raise error


def parsed(element: str) -> Any:
    frame = URLSET.declaring(KNOWN.values())
    tree = etree.fromstring(frame.head + f"<url><loc>{PAGE}</loc>{element}</url>".encode() + frame.tail)
    for schema in SCHEMAS:
        schema.assertValid(tree)
    return tree[0][1]


def fields(element: Any) -> list[tuple[str, str | None]]:
    return [(etree.QName(child).localname, child.text) for child in element]


def test_a_video_says_all_that_it_is_given_in_the_order_of_the_schema():
    assert fields(video(VIDEO)) == [
        ("thumbnail_loc", "https://example.com/thumb.jpg"),
        ("title", "Cats & <dogs>"),
        ("description", "What they\ndo"),
        ("content_loc", "https://cdn.example/cats.mp4?a=1&b=2"),
        ("player_loc", "https://example.com/player?of=cats"),
        ("duration", "120"),
        ("expiration_date", "2027-01-01"),
        ("rating", "4.25"),
        ("view_count", "7"),
        ("publication_date", "2026-11-30T08:00:00Z"),
        ("tag", "cats"),
        ("tag", "dogs"),
        ("family_friendly", "yes"),
        ("restriction", "DE AT"),
        ("requires_subscription", "no"),
        ("uploader", "Tom & Jerry"),
        ("platform", "tv"),
        ("live", "no"),
    ]
    assert video(VIDEO).find("video:restriction", NAMES).get("relationship") == "allow"
    assert video(VIDEO).find("video:uploader", NAMES).get("info") == "https://example.com/users/tom"


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("<video:duration>120", "<video:duration>0"),
        ("<video:live>no</video:live>", "<video:live>maybe</video:live>"),
        ('relationship="allow"', ""),
        ("<video:title>Cats", f"<video:title>{'Cats' * 30}"),
    ],
)
def test_our_own_schema_knows_what_is_wrong(text, other):
    element = video_element(VIDEO, PAGE, BASE.link, UTC, raised)
    broken = element.replace(text, other)
    frame = URLSET.declaring(KNOWN.values())
    tree = etree.fromstring(frame.head + f"<url><loc>{PAGE}</loc>{broken}</url>".encode() + frame.tail)
    assert broken != element
    assert not SCHEMAS[0].validate(tree)


def test_an_element_is_one_line_whatever_its_texts_hold():
    assert "\n" not in video_element(VIDEO, PAGE, BASE.link, UTC, raised)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"thumbnail_loc": "thumb.jpg"}, "video-thumbnail_loc"),
        ({"title": ""}, "video-title"),
        ({"title": "x" * 101}, "video-title"),
        ({"title": "a\x00b"}, "video-title"),
        ({"description": None}, "video-description"),
        ({"description": "x" * 2_049}, "video-description"),
        ({"content_loc": None, "player_loc": None}, "video-location"),
    ],
    ids=str,
)
def test_a_video_without_what_it_must_have_is_refused(changes, rule):
    with pytest.raises(InvalidEntry) as caught:
        video_element(replace(VIDEO, **changes), PAGE, BASE.link, UTC, lambda error: None)
    assert caught.value.rule == rule


@pytest.mark.parametrize(
    ("changes", "lost"),
    [
        ({"content_loc": "/cats"}, "content_loc"),
        ({"player_loc": "rtmp://cdn.example/cats"}, "player_loc"),
        ({"duration": 0}, "duration"),
        ({"duration": 28_801}, "duration"),
        ({"duration": True}, "duration"),
        ({"duration": 1.5}, "duration"),
        ({"expiration_date": "2027"}, "expiration_date"),
        ({"publication_date": "2026-02-30"}, "publication_date"),
        ({"rating": 5.1}, "rating"),
        ({"rating": float("nan")}, "rating"),
        ({"rating": "good"}, "rating"),
        ({"view_count": -1}, "view_count"),
        ({"family_friendly": "yes"}, "family_friendly"),
        ({"requires_subscription": 1}, "requires_subscription"),
        ({"live": "no"}, "live"),
        ({"restriction": ("allow", ["Germany"])}, "restriction"),
        ({"restriction": ("only", ["DE"])}, "restriction"),
        ({"restriction": "DE"}, "restriction"),
        ({"platform": ("allow", ["radio"])}, "platform"),
        ({"uploader": "x" * 256}, "uploader"),
    ],
    ids=str,
)
def test_of_a_video_only_the_field_is_left_out_that_breaks_a_rule(changes, lost):
    reported: list[InvalidEntry] = []
    left = video(replace(VIDEO, **changes), reported.append)
    assert [error.rule for error in reported] == [f"video-{lost}"]
    assert lost not in dict(fields(left))
    assert len(left) == len(video(VIDEO)) - 1


def test_tags_are_short_and_few():
    reported: list[InvalidEntry] = []
    left = video(replace(VIDEO, tags=["x" * 33, *map(str, range(40))]), reported.append)
    assert [error.rule for error in reported] == ["video-tags", "video-tag"]
    assert len(left.findall("video:tag", NAMES)) == 31


def test_the_page_about_an_uploader_is_on_the_host_of_the_page():
    reported: list[InvalidEntry] = []
    left = video(replace(VIDEO, uploader_info="https://other.example/tom"), reported.append)
    assert [error.rule for error in reported] == ["video-uploader_info"]
    assert dict(left.find("video:uploader", NAMES).attrib) == {}


texts = st.none() | st.text(max_size=120) | st.integers()
numbers = st.none() | st.integers() | st.floats() | st.booleans()


@given(
    st.builds(
        Video,
        thumbnail_loc=st.sampled_from(["/a.jpg", "https://cdn.example/ü.png"]),
        title=texts,
        description=texts,
        content_loc=st.sampled_from([None, "/cats.mp4", "cats.mp4", "/cats"]),
        duration=numbers,
        rating=numbers,
        view_count=numbers,
        tags=st.lists(texts, max_size=3),
        family_friendly=numbers,
        uploader=texts,
        publication_date=st.none() | st.dates() | st.datetimes() | texts,
        restriction=st.none() | st.tuples(st.sampled_from(["allow", "x"]), st.lists(st.text("DE ", max_size=3))),
    )
)
def test_whatever_is_stated_what_is_written_is_valid(stated):
    try:
        element = video_element(stated, PAGE, BASE.link, UTC, lambda error: None)
    except InvalidEntry:
        return
    parsed(element)


# News


def test_news_say_publication_date_and_title():
    element = parsed(news_element(replace(NEWS, title="Cat & dog"), UTC))
    assert [(etree.QName(one).localname, one.text) for one in element.iter() if not len(one)] == [
        ("name", "The Example Times"),
        ("language", "en"),
        ("publication_date", "2026-11-30T08:00:00Z"),
        ("title", "Cat & dog"),
    ]


def test_minutes_are_completed_for_the_schema():
    assert publication_dates(news_element(replace(NEWS, publication_date="2026-11-30T08:15Z"), UTC)) == [
        "2026-11-30T08:15:00Z"
    ]


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"publication": "The Times (London)"}, "news-publication"),
        ({"publication": ""}, "news-publication"),
        ({"language": "EN"}, "news-language"),
        ({"language": "pt-br"}, "news-language"),
        ({"publication_date": "2026-11"}, "news-publication_date"),
        ({"publication_date": None}, "news-publication_date"),
        ({"title": "\ud800"}, "news-title"),
    ],
    ids=str,
)
def test_news_without_what_they_must_have_are_refused(changes, rule):
    with pytest.raises(InvalidEntry) as caught:
        news_element(replace(NEWS, **changes), UTC)
    assert caught.value.rule == rule


@pytest.mark.parametrize("language", ["en", "deu", "zh-cn", "zh-tw"])
def test_languages_of_news_are_those_of_the_schema(language):
    parsed(news_element(replace(NEWS, language=language), UTC))


@pytest.mark.parametrize(
    ("published", "expires"),
    [("2026-11-30T08:00:00Z", datetime(2026, 12, 2, 8, tzinfo=UTC)), ("2026-11-30", datetime(2026, 12, 2, tzinfo=UTC))],
)
def test_news_expire_after_two_days(published, expires):
    assert news_expires_at(published) == expires.timestamp()
