"""What a `<url>` says in other namespaces, as it was read, and in the types in which a section states it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from .media import News, Video

Moved: TypeAlias = Callable[[str], str]
"""From an address that was read to the one that it is for us."""


class Alternate(NamedTuple):
    """An `xhtml:link rel="alternate"`."""

    hreflang: str | None
    href: str


class Extension(tuple[tuple[str, str], ...]):
    """An image, video or news element: pairs of a path and its text, in the order of the document.

        image.get("loc")
        news.get("publication/name")
        video.get("restriction@relationship")

    Attributes stand before the text of their element; empty texts are left out.
    """

    __slots__ = ()

    def get(self, path: str) -> str | None:
        """The first text at *path*, or None."""
        return next((text for own, text in self if own == path), None)


@dataclass(frozen=True, slots=True)
class Extensions:
    """What a `<url>` says in the namespaces of Google and XHTML; unchecked."""

    alternates: tuple[Alternate, ...] = ()
    images: tuple[Extension, ...] = ()
    videos: tuple[Extension, ...] = ()
    news: tuple[Extension, ...] = ()


NO_EXTENSIONS = Extensions()


def extras_of(extensions: Extensions, moved: Moved = str) -> dict[str, Any]:
    """What an entry with *extensions* states, by the names of `UrlEntry`; addresses are *moved*.

    Values that cannot be converted stay text, which the gate refuses and tells of.
    """
    found = ((name, read(extensions, moved)) for name, read in _READERS.items())
    return {name: value for name, value in found if value}


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
