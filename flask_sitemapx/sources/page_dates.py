"""When the pages of a static site changed: as their files, their sources or git say."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from ..protocol.entries import Lastmod
from .file_tree import TreeFile, files_in, tree_version
from .front_matter import front_matter_date
from .git_dates import git_dates, git_version

logger = logging.getLogger(__name__)

DateOf = Callable[[TreeFile], Lastmod]


class PageDates(Protocol):
    """Where the dates of pages come from."""

    def version(self, now: float) -> str | None:
        """A text that stands while the dates do, or None if that cannot be told; the pages themselves are seen to."""
        ...

    def opened(self) -> DateOf:
        """What gives the date of a page, for one reading of them all."""
        ...


@dataclass(frozen=True)
class NoDates:
    """Nothing is known."""

    def version(self, now: float) -> str | None:
        return ""

    def opened(self) -> DateOf:
        return lambda page: None


@dataclass(frozen=True)
class FileDates:
    """The times of the pages' own files."""

    def version(self, now: float) -> str | None:
        return ""

    def opened(self) -> DateOf:
        return lambda page: datetime.fromtimestamp(page.mtime_ns // 1_000_000_000, UTC)


@dataclass(frozen=True)
class FrontMatterDates:
    """What the pages of *source* say of which the site is made."""

    source: Path

    def version(self, now: float) -> str | None:
        return tree_version((file for file in files_in(self.source) if file.path.endswith(SOURCES)), now)

    def opened(self) -> DateOf:
        return self._date

    def _date(self, page: TreeFile) -> Lastmod:
        path = source_of(page.path, self.source)
        if path is None:
            return None
        with open(self.source / path, "rb") as file:
            return front_matter_date(file)


@dataclass(frozen=True)
class CommitDates:
    """When the pages in *directory*, or in *source* those of which they are made, were last committed."""

    directory: Path
    source: Path | None = None

    def version(self, now: float) -> str | None:
        return git_version(self.source or self.directory)

    def opened(self) -> DateOf:
        where = self.source or self.directory
        found = git_dates(where)
        if found.is_shallow:
            logger.warning("sitemap: %s is a shallow clone: files that did not change since have no date", where)
        elif not found.dates:
            logger.warning("sitemap: no file in %s was committed to git", where)
        if self.source is None:
            return lambda page: found.dates.get(page.path)
        return lambda page: found.dates.get(source_of(page.path, where) or "")


SOURCES = (".md", ".markdown", ".html")
_POST = re.compile(r"(?:(.*)/)?([0-9]{4})/([0-9]{2})/([0-9]{2})/([^/]+)")


def source_of(page: str, source: Path) -> str | None:
    """The path in *source* of what the *page* was made of, by its name, as Hugo and Jekyll do it."""
    return next((path for path in _candidates(page) if os.path.isfile(source / path)), None)


def _candidates(page: str) -> Iterator[str]:
    stem = re.sub(r"(?:(^|/)index)?\.html?$", "", page)
    stems = [stem, f"{stem}/index", f"{stem}/_index"] if stem else ["index", "_index"]
    if post := _POST.fullmatch(stem):
        category, *words = post.groups()
        name = "-".join(words)
        stems += [f"_posts/{name}", *([f"{category}/_posts/{name}"] if category else [])]
    return (stem + suffix for stem in stems for suffix in SOURCES)
