"""Feeds of the newest pages, as Atom (RFC 4287) has it, with a hub (WebSub) if there is one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import unescape
from typing import NamedTuple
from urllib.parse import unquote, urlsplit
from xml.sax.saxutils import quoteattr

from ..errors import ConfigurationError
from .documents import Frame
from .elements import xml_text

MAX_ENTRIES = 1_000

FEED = Frame(
    b'<?xml version="1.0" encoding="UTF-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">\n',
    b"</feed>\n",
)
_DATED = re.compile(rb"<loc>([^<]*)</loc><lastmod>([^<]*)</lastmod>")


@dataclass(frozen=True, slots=True)
class Feed:
    """A feed of the newest pages of a section, at ``/sitemap-<section>.atom``.

        Feed("Articles of the Times", author="The Times")

    *title* and *author* are texts, *count* is how many pages there are at most, *hub* the URL of a WebSub hub.
    *entry_title* gives the title of a page, given its path; by default that is made of the path's last part. *where*
    says of a path whether its page may be in the feed. Raises `ConfigurationError` for what cannot be used.
    """

    title: str
    author: str = ""
    count: int = 50
    hub: str | None = None
    entry_title: Callable[[str], str] | None = None
    where: Callable[[str], object] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.title, str) or not self.title.strip():
            raise ConfigurationError("a feed has a title")
        if not 1 <= self.count <= MAX_ENTRIES:
            raise ConfigurationError(f"a feed has from 1 to {MAX_ENTRIES} entries, not {self.count}")

    @property
    def signature(self) -> str:
        """A text that is the same in every process, and another for another feed of the same pages."""
        functions = [getattr(one, "__qualname__", "?") if one else None for one in (self.entry_title, self.where)]
        return repr((self.title, self.author, self.count, self.hub, *functions))


class Dated(NamedTuple):
    """A page and when it changed: a W3C datetime and a loc, as sitemaps have them."""

    lastmod: str
    loc: str

    def path(self, root: str) -> str:
        """Its path below *root*, with which its loc begins."""
        return unescape(self.loc.removeprefix(root))


def dated(elements: Iterable[bytes]) -> list[Dated]:
    """The pages of `<url>` *elements* that have a `lastmod`."""
    found = (_DATED.search(element) for element in elements)
    return [Dated(match[2].decode(), match[1].decode()) for match in found if match]


def feed_elements(feed: Feed, own: str, root: str, pages: Sequence[Dated]) -> str:
    """What is in a feed at the URL *own*, of a site whose URLs begin with *root*: its head, and an entry for each page.

    Raises `InvalidEntry` for a title that XML does not allow.
    """
    updated = max((page.lastmod for page in pages), default="1970-01-01")
    hub = f'<link rel="hub" href={quoteattr(feed.hub)}/>\n' if feed.hub else ""
    head = (
        f"<id>{own}</id>\n<title>{xml_text(feed.title)}</title>\n<updated>{_time(updated)}</updated>\n"
        # RFC 4287 4.1.1: a feed has an author
        f"<author><name>{xml_text(feed.author or feed.title)}</name></author>\n"
        f'<link rel="self" type="application/atom+xml" href="{own}"/>\n<link href="{root}/"/>\n{hub}'
    )
    return head + "".join(_entry(feed, root, page) for page in pages)


def _entry(feed: Feed, root: str, page: Dated) -> str:
    path = page.path(root)
    title = xml_text(feed.entry_title(path) if feed.entry_title else readable(path))
    return (
        f"<entry><id>{page.loc}</id><title>{title}</title>"
        f'<updated>{_time(page.lastmod)}</updated><link href="{page.loc}"/></entry>\n'
    )


def readable(path: str) -> str:
    """A title made of the last part of *path*: ``/blog/two-cats`` becomes ``two cats``."""
    part = urlsplit(path).path.rstrip("/").rpartition("/")[2]
    return " ".join(re.split(r"[-_\s]+", unquote(part))).strip() or path


def _time(lastmod: str) -> str:
    """RFC 4287 3.3: a time, not only a day."""
    return lastmod if "T" in lastmod else f"{lastmod}T00:00:00Z"
