"""Sections of the type `directory`: a built static site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...sources.page_dates import CommitDates, FileDates, FrontMatterDates, NoDates, PageDates
from ...sources.parts import Source
from ...sources.static_site import Pages, StaticSiteSource
from ..options import SWITCH, TEXT, TEXTS, Form, one_of, option
from .kind import Place


def _place(value: Any) -> str:
    text: str = TEXT.read(value)
    if not text.startswith("/") or text.startswith("//"):
        raise ValueError("must be a path that begins with one slash, such as '/docs'")
    return text


AT = Form(_place, {"type": "string", "pattern": "^/(?!/)"})


@dataclass(frozen=True)
class DirectoryKind:
    """The pages of a site that was built into a directory."""

    path: str = option(TEXT, "The directory; a relative one begins where this file is.")
    at: str = option(AT, "Where in the site the directory is.", "/")
    strip: bool = option(SWITCH, "Whether the host answers `/about` for `about.html`, and that is to be listed.", False)
    include: tuple[str, ...] = option(
        TEXTS, "What is listed: globs of names, such as `*.pdf`, or of paths, such as `blog/*`.", ("*.html", "*.htm")
    )
    exclude: tuple[str, ...] = option(TEXTS, "What of that is not, likewise.", ())
    lastmod: str = option(
        one_of("none", "front_matter", "git", "mtime"),
        "How it is known when a page changed: by the front matter of its source, by its last commit, or by the time of "
        "its file, which is only true if a build leaves the files of unchanged pages alone.",
        "none",
    )
    source: str | None = option(
        TEXT, "The directory of the sources, for `front_matter`, and for `git` if the site itself is not in it.", None
    )

    def __post_init__(self) -> None:
        if self.lastmod == "front_matter" and self.source is None:
            raise ValueError("lastmod = 'front_matter' needs source, the directory of the pages' sources")
        if self.source is not None and self.lastmod not in ("front_matter", "git"):
            raise ValueError("source is for lastmod = 'front_matter' or 'git'")

    def sources(self, place: Place) -> Sequence[Source]:
        pages = Pages(place.directory / self.path, self.include, self.exclude, self.at, self.strip)
        return [StaticSiteSource(place.name, place.base, pages, self._dates(place), place.settings.timezone)]

    def _dates(self, place: Place) -> PageDates:
        source = place.directory / self.source if self.source else None
        if self.lastmod == "git":
            return CommitDates(place.directory / self.path, source)
        if self.lastmod == "front_matter":
            assert source is not None
            return FrontMatterDates(source)
        return FileDates() if self.lastmod == "mtime" else NoDates()
