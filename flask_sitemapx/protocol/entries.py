"""What a section states about its pages: one by one (`UrlEntry`), or many at once by column (`Columns`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, TypeAlias

from ..errors import InvalidEntry

Lastmod: TypeAlias = date | datetime | str | None
"""When a page changed: a day, a time, a W3C Datetime text, or None where nobody knows."""


@dataclass(slots=True)
class UrlEntry:
    """One `<url>`, as its section states it.

        UrlEntry("/about")
        UrlEntry("/blog/1", date(2026, 11, 30))
        UrlEntry("https://example.com/", priority=1.0)

    *loc* is a path inside the application (one leading slash) or an absolute URL of the site. *lastmod* is the day or
    time of the page's last change; *changefreq* one of the seven words of sitemaps.org; *priority* a number from 0.0
    to 1.0.

    Nothing is checked at birth: the gate checks every entry, in one place and under one policy, so that a bad one can
    be skipped and counted as well as raised. Not frozen and best made with positional arguments: both are several
    times faster.
    """

    loc: str
    lastmod: Lastmod = None
    changefreq: str | None = None
    priority: float | int | str | None = None


@dataclass(slots=True)
class Columns:
    """A batch of entries (about 512), turned on its side: what the gate takes.

        Columns(["/a", "/b"])
        Columns(["/a", "/b"], lastmods=[date(2026, 11, 30), None])

    A column that is None says that no entry of the batch has that field; the others are as long as *locs*, or
    ValueError is raised. *ready* says that the locs are absolute, in scope, percent-encoded and XML-escaped already,
    so that only their length and dot segments are left to check. In place of a loc that could not be made stands its
    `InvalidEntry`: the gate counts or raises it.
    """

    locs: Sequence[str | InvalidEntry]
    lastmods: Sequence[Any] | None = None
    changefreqs: Sequence[Any] | None = None
    priorities: Sequence[Any] | None = None
    ready: bool = False

    def __post_init__(self) -> None:
        for column in (self.lastmods, self.changefreqs, self.priorities):
            if column is not None and len(column) != len(self.locs):
                raise ValueError(f"a column of {len(column)} values beside {len(self.locs)} locs")
