"""Entries of another site's sitemap as those of ours: with our addresses, and what they state beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from ..errors import InvalidEntry
from ..protocol.entries import Columns
from ..protocol.media import News, Video
from ..protocol.reader import NO_EXTENSIONS, Extension, Extensions, Problem, ReadEntry
from .items import BATCH

Moved = Callable[[str], str]
"""From an address of theirs to the one that it is for us."""

OF_DOCUMENTS = frozenset({"namespace", "doctype", "gzip-twice", "gzip-trailing", "space-before-xml"})
"""Rules of the reader that no entry breaks."""


class Moves:
    """Addresses below one of the base URLs *replace*, moved to the path *at* of our site; others stay as they are.

    moved = Moves(["http://app.internal:8000"], "/blog")
    moved("http://app.internal:8000/a?b")    # '/blog/a?b'
    """

    def __init__(self, replace: Sequence[str], at: str) -> None:
        self._replace = replace
        self._at = at.rstrip("/")

    def __call__(self, url: str) -> str:
        return next((self._at + (rest or "/") for base in self._replace if (rest := below(url, base)) is not None), url)


def below(url: str, base: str) -> str | None:
    """What follows the base URL *base* in *url*, or None if it is not below it."""
    rest = url.removeprefix(base)
    if len(rest) == len(url) or (rest and rest[0] not in "/?"):
        return None
    return f"/{rest}" if rest.startswith("?") else rest


def columns_of(entries: Iterable[Any], moved: Moved) -> Iterator[Columns]:
    """The *entries* of a `SitemapReader` as they go on to the gate."""
    iterator = iter(entries)
    while batch := list(islice(iterator, BATCH)):
        yield Columns(
            [moved(entry.loc) for entry in batch],
            [entry.lastmod for entry in batch],
            [entry.changefreq for entry in batch],
            [entry.priority for entry in batch],
            extras=_extras(batch, moved),
        )


def problems_of(problems: Iterable[Problem], address: str) -> list[InvalidEntry]:
    """What is wrong with the entries of the document at *address*."""
    return [
        InvalidEntry(one.rule, f"{address}, line {one.line}", one.explanation, one.explanation)
        for one in problems
        if one.rule not in OF_DOCUMENTS
    ]


def _extras(batch: Sequence[ReadEntry], moved: Moved) -> dict[str, list[Any]]:
    given = [entry.extensions for entry in batch]
    if all(extensions is NO_EXTENSIONS for extensions in given):
        return {}
    columns = {name: [read(extensions, moved) for extensions in given] for name, read in _READERS.items()}
    return {name: column for name, column in columns.items() if any(column)}


def _alternates(extensions: Extensions, moved: Moved) -> dict[Any, str] | None:
    return {one.hreflang: moved(one.href) for one in extensions.alternates} or None


def _images(extensions: Extensions, moved: Moved) -> list[str] | None:
    return [moved(loc) for image in extensions.images if (loc := image.get("loc"))] or None


def _videos(extensions: Extensions, moved: Moved) -> list[Video] | None:
    return [_video(video, moved) for video in extensions.videos] or None


def _video(video: Extension, moved: Moved) -> Video:
    get = video.get

    def place(path: str) -> str | None:
        url = get(path)
        return url and moved(url)

    return Video(
        thumbnail_loc=place("thumbnail_loc") or "",
        title=get("title") or "",
        description=get("description") or "",
        content_loc=place("content_loc"),
        player_loc=place("player_loc"),
        duration=_number(get("duration"), int),
        expiration_date=get("expiration_date"),
        rating=_number(get("rating"), float),
        view_count=_number(get("view_count"), int),
        publication_date=get("publication_date"),
        tags=[text for path, text in video if path == "tag"],
        family_friendly=_ANSWERS.get(get("family_friendly") or ""),
        restriction=_limited(video, "restriction"),
        platform=_limited(video, "platform"),
        requires_subscription=_ANSWERS.get(get("requires_subscription") or ""),
        uploader=get("uploader"),
        uploader_info=place("uploader@info"),
        live=_ANSWERS.get(get("live") or ""),
    )


_ANSWERS = {"yes": True, "no": False, "Yes": True, "No": False}


def _number(text: str | None, kind: Callable[[str], Any]) -> Any:
    """*text* as a number; what is none goes to the gate, which counts it."""
    try:
        return None if text is None else kind(text)
    except ValueError:
        return text


def _limited(video: Extension, name: str) -> tuple[str, list[str]] | None:
    members = video.get(name)
    return None if members is None else (video.get(f"{name}@relationship") or "", members.split())


def _news(extensions: Extensions, moved: Moved) -> News | None:
    if not extensions.news:
        return None
    get = extensions.news[0].get  # Google, "News sitemaps": one for each <url>
    return News(
        get("publication/name") or "",
        get("publication/language") or "",
        get("publication_date") or "",
        get("title") or "",
    )


_READERS: dict[str, Callable[[Extensions, Moved], Any]] = {
    "alternates": _alternates,
    "images": _images,
    "videos": _videos,
    "news": _news,
}
