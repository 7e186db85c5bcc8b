"""Videos and news of a page, and the elements that say them, by the rules of Google and of its schemas."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from ..errors import InvalidEntry
from .elements import xml_text
from .w3c_datetime import w3c_datetime

Report: TypeAlias = Callable[[InvalidEntry], None]
"""Told of a field that is left out; raises under strict rules."""
Limited: TypeAlias = tuple[str, Sequence[str]]
"""Where something is to be had: ``("allow", ["DE", "AT"])``, or only not to be had: ``("deny", ["US"])``."""

MAX_TITLE = 100  # the schema of sitemap-video/1.1; Google's page names no limit any more
MAX_DESCRIPTION = 2_048
MAX_TAG = 32
MAX_TAGS = 32
MAX_UPLOADER = 255
MAX_DURATION = 28_800
MAX_RATING = 5.0
NEWS_DAYS = timedelta(days=2)  # Google, "News sitemaps": articles of the last two days


@dataclass(slots=True, kw_only=True)
class Video:
    """A video on a page: Google, "Video sitemaps".

        Video(
            thumbnail_loc="/static/cats.jpg",
            title="Cats",
            description="What cats do all day",
            content_loc="https://cdn.example.com/cats.mp4",
        )

    *content_loc*, the file, or *player_loc*, a player for it, must be there; neither is the page itself. URLs may be of
    any host. *duration* is in seconds, 1 to 28,800, or a timedelta; *rating* from 0.0 to 5.0. *restriction* is of
    countries of ISO 3166-1, *platform* of ``web``, ``mobile`` and ``tv``: ``("allow", ["DE", "AT"])`` or
    ``("deny", [...])``. *uploader* is a name of at most 255 characters, *uploader_info* a URL on the page's host about
    them. There are at most 32 *tags*. Nothing is checked at birth.
    """

    thumbnail_loc: str
    title: str
    description: str
    content_loc: str | None = None
    player_loc: str | None = None
    duration: int | timedelta | None = None
    expiration_date: date | str | None = None
    rating: float | None = None
    view_count: int | None = None
    publication_date: date | str | None = None
    tags: Sequence[str] = ()
    family_friendly: bool | None = None
    restriction: Limited | None = None
    platform: Limited | None = None
    requires_subscription: bool | None = None
    uploader: str | None = None
    uploader_info: str | None = None
    live: bool | None = None


@dataclass(slots=True)
class News:
    """An article: Google, "News sitemaps".

        News("The Example Times", "en", datetime(2026, 11, 30, 8, tzinfo=UTC), "Cat found")

    *publication* is the name of the paper, *language* its code of two or three letters, ``zh-cn`` or ``zh-tw``,
    *publication_date* when the article first appeared. Nothing is checked at birth.
    """

    publication: str
    language: str
    publication_date: date | str
    title: str


def video_element(video: Video, loc: str, link: Callable[[object], str], timezone: tzinfo, report: Report) -> str:
    """The `<video:video>` of *video*, on one line, its children in the order of the schema.

    *loc* is the finished address of its page, *link* gives the finished address of anything. A bad field goes to
    *report* and is left out. Raises `InvalidEntry` if nothing is left that Google would take.
    """
    fields = _Fields(link, timezone, report)
    places = [
        fields.optional(name, value, fields.place_other_than(loc))
        for name, value in (("content_loc", video.content_loc), ("player_loc", video.player_loc))
    ]
    if not any(places):
        raise InvalidEntry("video-location", video.title, "a video has a content_loc or a player_loc")
    texts = [
        fields.required("thumbnail_loc", video.thumbnail_loc, fields.place),
        fields.required("title", video.title, _text_of(MAX_TITLE)),
        fields.required("description", video.description, _text_of(MAX_DESCRIPTION)),
        *places,
        fields.optional("duration", video.duration, _duration),
        fields.optional("expiration_date", video.expiration_date, fields.date),
        fields.optional("rating", video.rating, _rating),
        fields.optional("view_count", video.view_count, _count),
        fields.optional("publication_date", video.publication_date, fields.date),
        *fields.tags(video.tags),
        fields.optional("family_friendly", video.family_friendly, _yes_or_no),
        fields.limited("restriction", video.restriction, _COUNTRY),
        fields.optional("requires_subscription", video.requires_subscription, _yes_or_no),
        fields.uploader(video.uploader, video.uploader_info, loc),
        fields.limited("platform", video.platform, _PLATFORM),
        fields.optional("live", video.live, _yes_or_no),
    ]
    return f"<video:video>{''.join(texts)}</video:video>"


def news_element(news: News, timezone: tzinfo) -> str:
    """The `<news:news>` of *news*, on one line. Raises `InvalidEntry` for a field that breaks a rule or is missing."""
    publication = _checked("news-publication", news.publication, _name)
    language = _checked("news-language", news.language, _language)
    day = _checked("news-publication_date", news.publication_date, lambda value: w3c_datetime(value, timezone))
    title = _checked("news-title", news.title, _text_of(None))
    return (
        f"<news:news><news:publication><news:name>{publication}</news:name>"
        f"<news:language>{language}</news:language></news:publication>"
        f"<news:publication_date>{day}</news:publication_date><news:title>{title}</news:title></news:news>"
    )


def publication_dates(elements: str) -> list[str]:
    """The publication dates of all news in *elements*."""
    return _PUBLICATION_DATE.findall(elements)


def news_expires_at(publication_date: str) -> float:
    """When news of that W3C datetime are two days old, in seconds since the epoch; a day begins at midnight, UTC."""
    published = datetime.fromisoformat(publication_date)
    return ((published if published.tzinfo else published.replace(tzinfo=UTC)) + NEWS_DAYS).timestamp()


_PUBLICATION_DATE = re.compile("<news:publication_date>([^<]*)<")
_COUNTRY = re.compile("[A-Z]{2}")
_PLATFORM = re.compile("web|mobile|tv")
_NEWS_LANGUAGE = re.compile("zh-cn|zh-tw|[a-z]{2,3}")  # the schema of sitemap-news/0.9
_Read: TypeAlias = Callable[[Any], str]


class _Fields:
    """The fields of a video, each as its element; "" for one that is absent or left out."""

    def __init__(self, link: Callable[[object], str], timezone: tzinfo, report: Report) -> None:
        self.place = link
        self._timezone = timezone
        self._report = report

    def required(self, name: str, value: object, read: _Read) -> str:
        return f"<video:{name}>{_checked(f'video-{name}', value, read)}</video:{name}>"

    def optional(self, name: str, value: object, read: _Read) -> str:
        if value is None:
            return ""
        try:
            return self.required(name, value, read)
        except InvalidEntry as error:
            self._report(error)
            return ""

    def date(self, value: object) -> str:
        return w3c_datetime(value, self._timezone)

    def place_other_than(self, loc: str) -> _Read:
        def read(value: object) -> str:
            place = self.place(value)
            if place == loc:
                raise ValueError("the file or player of a video is not the page that it is on")
            return place

        return read

    def tags(self, tags: Any) -> Iterator[str]:
        given = [tags] if isinstance(tags, str) else [*tags]
        if len(given) > MAX_TAGS:
            self._report(InvalidEntry("video-tags", len(given), f"a video has at most {MAX_TAGS} tags"))
        for tag in given[:MAX_TAGS]:
            yield self.optional("tag", tag, _text_of(MAX_TAG))

    def limited(self, name: str, value: Any, form: re.Pattern[str]) -> str:
        if value is None:
            return ""
        try:
            relationship, members = value
            members = members.split() if isinstance(members, str) else [*members]
            if relationship not in ("allow", "deny") or not all(map(form.fullmatch, members)):
                raise ValueError
        except (TypeError, ValueError):
            explanation = f'{name} is like ("allow", [...]), of {form.pattern}'
            self._report(InvalidEntry(f"video-{name}", value, explanation))
            return ""
        return f'<video:{name} relationship="{relationship}">{" ".join(members)}</video:{name}>'

    def uploader(self, name: str | None, info: str | None, loc: str) -> str:
        text = self.optional("uploader", name, _text_of(MAX_UPLOADER))
        if not text or info is None:
            return text
        try:
            link = _checked("video-uploader_info", info, self._place_on_the_host_of(loc))
        except InvalidEntry as error:
            self._report(error)
            return text
        return text.replace("<video:uploader>", f'<video:uploader info="{link}">', 1)

    def _place_on_the_host_of(self, loc: str) -> _Read:
        def read(value: object) -> str:
            place = self.place(value)
            if urlsplit(place).netloc != urlsplit(loc).netloc:
                raise ValueError("the page about an uploader is on the host of the page")
            return place

        return read


def _checked(rule: str, value: object, read: _Read) -> str:
    """What *read* makes of *value*; what it raises as the `InvalidEntry` of *rule*."""
    try:
        return read(value)
    except InvalidEntry as error:
        raise InvalidEntry(rule, value, error.explanation) from None
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidEntry(rule, value, str(error)) from None


def _text_of(most: int | None) -> _Read:
    def read(value: Any) -> str:
        if not isinstance(value, str) or not value.strip():
            raise ValueError("it is a text, and not empty")
        if most is not None and len(value) > most:
            raise ValueError(f"it has at most {most} characters, not {len(value)}")
        return xml_text(value)

    return read


def _name(value: Any) -> str:
    if isinstance(value, str) and ("(" in value or ")" in value):
        raise ValueError("the name of a publication is as on news.google.com, without anything in parentheses")
    return _text_of(None)(value)


def _language(value: Any) -> str:
    if not isinstance(value, str) or not _NEWS_LANGUAGE.fullmatch(value):
        raise ValueError("the language of news is a code of two or three small letters, 'zh-cn' or 'zh-tw'")
    return value


def _duration(value: Any) -> str:
    seconds = value // timedelta(seconds=1) if isinstance(value, timedelta) else value
    if type(seconds) is not int or not 1 <= seconds <= MAX_DURATION:
        raise ValueError(f"duration is a whole number of seconds from 1 to {MAX_DURATION:,}")
    return str(seconds)


def _rating(value: Any) -> str:
    if isinstance(value, bool) or not 0 <= value <= MAX_RATING:
        raise ValueError(f"rating is a number from 0.0 to {MAX_RATING}")
    return str(round(float(value), 2) + 0.0)


def _count(value: Any) -> str:
    if type(value) is not int or value < 0:
        raise ValueError("view_count is a whole number")
    return str(value)


def _yes_or_no(value: Any) -> str:
    if not isinstance(value, bool):
        raise ValueError("it is True or False")
    return "yes" if value else "no"
