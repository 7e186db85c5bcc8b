"""What a section states about its pages: one by one (`UrlEntry`), or many at once by column (`Columns`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import compress
from types import MappingProxyType
from typing import Any, TypeAlias

from ..errors import InvalidEntry
from .elements import Element
from .media import News, Video

Lastmod: TypeAlias = date | datetime | str | None
"""When a page changed: a day, a time, a W3C Datetime text, or None where nobody knows."""


EXTRAS = ("alternates", "images", "videos", "news", "elements", "languages")
"""The names of all that an entry may state beyond sitemaps.org."""
NO_EXTRAS: Mapping[str, Any] = MappingProxyType({})
"""What nearly all entries have: one object, by which they are known."""


def known_extras(extras: Mapping[str, Any]) -> Mapping[str, Any]:
    """*extras* themselves. Raises TypeError if one is not known."""
    if unknown := extras.keys() - set(EXTRAS):
        raise TypeError(f"unknown: {', '.join(sorted(unknown))}; what an entry may state is {', '.join(EXTRAS)}")
    return extras


@dataclass(slots=True, init=False)
class UrlEntry:
    """One `<url>`, as its section states it.

        UrlEntry("/about")
        UrlEntry("/blog/1", date(2026, 11, 30))
        UrlEntry("https://example.com/", priority=1.0)
        UrlEntry("/cat", images=["/static/cat.jpg"], alternates={"en": "/cat", "de": "/katze"})

    *loc* is a path inside the application (one leading slash) or an absolute URL of the site. *lastmod* is the day or
    time of the page's last change; *changefreq* one of the seven words of sitemaps.org; *priority* a number from 0.0
    to 1.0.

    *alternates* are the page in all languages, itself included: a mapping from language code, or ``x-default``, to path
    or URL. *images* are paths or URLs of images on the page, *videos* and *news* say what Google wants to know of
    these, and *elements* are of other namespaces: see `Namespace`. *languages* are those of the site's that the page is
    in, if not in all.

    Nothing is checked at birth: the gate checks every entry, in one place and under one policy, so that a bad one can
    be skipped and counted as well as raised. Not frozen and best made with positional arguments: both are several
    times faster.
    """

    loc: str
    lastmod: Lastmod = None
    changefreq: str | None = None
    priority: float | int | str | None = None
    extras: Mapping[str, Any] = field(default_factory=lambda: NO_EXTRAS)

    def __init__(
        self,
        loc: str,
        lastmod: Lastmod = None,
        changefreq: str | None = None,
        priority: float | str | None = None,
        alternates: Mapping[str, str] | None = None,
        images: Sequence[str] | None = None,
        videos: Sequence[Video] | None = None,
        news: News | None = None,
        elements: Sequence[Element] | None = None,
        languages: Sequence[str] | None = None,
    ) -> None:
        self.loc = loc
        self.lastmod = lastmod
        self.changefreq = changefreq
        self.priority = priority
        if alternates or images or videos or news or elements or languages:
            given = zip(EXTRAS, (alternates, images, videos, news, elements, languages), strict=True)
            self.extras = {name: value for name, value in given if value}
        else:
            self.extras = NO_EXTRAS


@dataclass(slots=True)
class Columns:
    """A batch of entries (about 512), turned on its side: what the gate takes.

        Columns(["/a", "/b"])
        Columns(["/a", "/b"], lastmods=[date(2026, 11, 30), None])

    A column that is None says that no entry of the batch has that field; the others, and those of *extras* by name, are
    as long as *locs*, or ValueError is raised. *ready* says that the locs are absolute, in scope, percent-encoded and
    XML-escaped already, so that only their length and dot segments are left to check. In place of a loc that could not
    be made stands its `InvalidEntry`: the gate counts or raises it.
    """

    locs: Sequence[str | InvalidEntry]
    lastmods: Sequence[Any] | None = None
    changefreqs: Sequence[Any] | None = None
    priorities: Sequence[Any] | None = None
    ready: bool = False
    extras: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for column in (self.lastmods, self.changefreqs, self.priorities, *self.extras.values()):
            if column is not None and len(column) != len(self.locs):
                raise ValueError(f"a column of {len(column)} values beside {len(self.locs)} locs")

    def kept(self, mask: Sequence[bool]) -> Columns:
        """The same, with only those entries for which *mask* is true."""
        return self._each(lambda column: list(compress(column, mask)))

    def repeated(self, times: Sequence[int]) -> Columns:
        """The same, with each entry as often as *times* says."""
        return self._each(lambda column: repeated(column, times))

    def _each(self, changed: Callable[[Sequence[Any]], list[Any]]) -> Columns:
        return Columns(
            changed(self.locs),
            None if self.lastmods is None else changed(self.lastmods),
            None if self.changefreqs is None else changed(self.changefreqs),
            None if self.priorities is None else changed(self.priorities),
            self.ready,
            {name: changed(column) for name, column in self.extras.items()},
        )


def repeated(column: Sequence[Any], times: Sequence[int]) -> list[Any]:
    """Each value of *column* as often as *times* says."""
    return [value for value, count in zip(column, times, strict=True) for _ in range(count)]
