"""What entries get that do not say it themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict


class GivenExtras(TypedDict, total=False):
    """What entries of a section get beyond sitemaps.org: see `UrlEntry`.

    Each is a value for all of them, or a function that is called with the values of an entry, or with its row. Of a
    table it may be a column.
    """

    alternates: Any
    images: Any
    videos: Any
    news: Any
    elements: Any
    languages: Any


@dataclass(frozen=True, slots=True)
class Defaults:
    """What entries get that do not say it themselves; each a value, or a callback without arguments.

    Of *extras*, by name, a callback takes the values of the entry, or its row.
    """

    lastmod: Any = None
    changefreq: Any = None
    priority: Any = None
    extras: Mapping[str, Any] = field(default_factory=dict)

    def over(self, others: Defaults) -> Defaults:
        """These, and *others* where they say nothing."""
        return Defaults(
            others.lastmod if self.lastmod is None else self.lastmod,
            others.changefreq if self.changefreq is None else self.changefreq,
            others.priority if self.priority is None else self.priority,
            {**others.extras, **self.extras},
        )

    @property
    def signature(self) -> str:
        """A text that is the same in every process, and another for other values; callbacks go by their names."""
        values = [self.lastmod, self.changefreq, self.priority]
        values += [one for pair in self.extras.items() for one in pair]
        return " ".join(getattr(value, "__qualname__", "?") if callable(value) else repr(value) for value in values)


NO_DEFAULTS = Defaults()
