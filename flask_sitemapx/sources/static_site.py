"""A built static site as a section: the pages in a directory."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from fnmatch import translate
from html import unescape
from itertools import islice
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes, urldefrag, urljoin

from ..errors import InvalidEntry
from ..protocol.entries import Columns
from ..protocol.gate import Problems
from ..protocol.locs import BaseUrl
from .file_tree import TreeFile, files_in, tree_version
from .items import BATCH
from .page_dates import PageDates
from .page_head import PageHead
from .parts import NamedPart, Past, Plan

logger = logging.getLogger(__name__)

HTML = (".html", ".htm")


@dataclass(frozen=True)
class Pages:
    """Which files in *directory* are pages, and where: below *at* in the site, and without `.html` if *strips*.

    *include* and *exclude* are globs. One without a slash is for names of files, another for paths from the directory
    on, in which `*` goes over slashes: `drafts/*` is all that is below.
    """

    directory: Path
    include: tuple[str, ...] = ("*.html", "*.htm")
    exclude: tuple[str, ...] = ()
    at: str = "/"
    strips: bool = False

    def files(self) -> Iterator[TreeFile]:
        included, excluded = _matcher(self.include), _matcher(self.exclude)
        for file in files_in(self.directory):
            if included(file.path) and not excluded(file.path) and not _ERROR_PAGE.search(file.path):
                yield file

    def path(self, file: str) -> str:
        """The path in the site, percent-encoded, of the file at a path in the directory."""
        path = _INDEX.sub("", file)
        if self.strips:
            path = _EXTENSION.sub("", path)
        return f"{self.at.rstrip('/')}/{quote(os.fsencode(path), safe=_SAFE)}"


_ERROR_PAGE = re.compile(r"(?:^|/)404(?:/index)?\.html?$")  # which hosts of static sites send for what is missing
_INDEX = re.compile(r"(?:(?<=/)|^)index\.html?$")
_EXTENSION = re.compile(r"\.html?$")
_SAFE = "/:@!$&'()*+,;=~"  # RFC 3986: pchar; it is a name, so "?" and "%" are encoded


def _matcher(globs: Sequence[str]) -> Callable[[str], bool]:
    paths = [translate(glob.lstrip("/")) for glob in globs if "/" in glob]
    names = [f"(?s:.*/)?{translate(glob)}" for glob in globs if "/" not in glob]
    pattern = re.compile("|".join([*paths, *names]) or "(?!)")
    return lambda path: pattern.match(path) is not None


class StaticSiteSource:
    """The *pages* of a site at *base* as a section, with their *dates*.

    Left out are pages that tell robots not to list them, that have their canonical address elsewhere, or that redirect.
    Nothing is read while no file changes.
    """

    endpoint = None

    def __init__(self, name: str, base: BaseUrl, pages: Pages, dates: PageDates, timezone: tzinfo) -> None:
        self.name = name
        self._base = base
        self._pages = pages
        self._dates = dates
        self._timezone = timezone

    def rule(self) -> str:
        return f"{self._pages} {self._dates} {self._timezone}"

    def plan(self, past: Past) -> Plan:
        """One part, cut where its entries say so."""
        known = None if past.is_touched else next((part.version for part in past.parts), None)
        return Plan([NamedPart("", self._columns, self._version(past.now), known, is_cut=True)])

    def part(self, key: str, following: str | None) -> NamedPart:
        return NamedPart(key, self._columns, is_cut=True)

    def _version(self, now: float) -> str | None:
        pages, dates = tree_version(self._pages.files(), now), self._dates.version(now)
        return None if pages is None or dates is None else f"{pages} {dates}"

    def _columns(self) -> Iterator[Columns]:
        reading = _Reading(self._base, self._pages, Problems(self.name))
        date_of = self._dates.opened()
        files = self._pages.files()
        while batch := list(islice(files, BATCH)):
            listed = [(loc, date_of(file)) for file in batch if (loc := reading.loc(file.path)) is not None]
            yield Columns([loc for loc, _ in listed], [lastmod for _, lastmod in listed])
        reading.tell()


class _Reading:
    """Reads pages, and counts those that are left out."""

    def __init__(self, base: BaseUrl, pages: Pages, left_out: Problems) -> None:
        self._base = base
        self._pages = pages
        self._left_out = left_out
        self._has_listed = False

    def loc(self, file: str) -> str | InvalidEntry | None:
        """The address of the page in *file*, or None if it is not to be listed."""
        path = self._pages.path(file)
        if not file.endswith(HTML):
            return path
        try:
            with open(self._pages.directory / file, "rb") as page:
                head = PageHead(page)
        except OSError as error:
            return InvalidEntry("page-unreadable", file, "a page can be read", error.strerror)
        return self._listed(file, path, head)

    def _listed(self, file: str, path: str, head: PageHead) -> str | None:
        own = path if head.canonical is None else self._canonical(path, head.canonical)
        reasons = {"noindex": head.is_noindex, "a redirect": head.is_redirect, "canonical elsewhere": own is None}
        reason = next((reason for reason, holds in reasons.items() if holds), None)
        if reason is None:
            self._has_listed = True
            return own
        self._left_out.add(reason, file, head.canonical)
        return None

    def _canonical(self, path: str, canonical: str) -> str | None:
        """The path by which the page at *path* calls itself, or None if *canonical* is another page."""
        try:
            loc = self._base.loc(urldefrag(urljoin(self._base.text + path, canonical)).url)
        except ValueError:  # of another site, or no URL
            return None
        own = unescape(loc).removeprefix(self._base.text)
        return own if _page(own) == _page(path) else None

    def tell(self) -> None:
        """Log what was left out, louder if that was all."""
        for reason, (count, example) in self._left_out.kinds.items():
            level = logging.INFO if self._has_listed else logging.WARNING
            section = self._left_out.section
            logger.log(
                level, "sitemap: section %r: left out: %s (%d times, such as %s)", section, reason, count, example
            )


def _page(path: str) -> bytes:
    """The same for all paths by which hosts of static sites know one page: `/a`, `/a/`, `/a.html`, `/a/index.html`."""
    return re.sub(rb"(?:/index)?\.html?$|/$", b"", unquote_to_bytes(path))
