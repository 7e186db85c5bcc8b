"""What entries state beyond sitemaps.org, checked and written: alternates, images, videos, news, and any element."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from itertools import islice
from typing import Any

from ..errors import NEWS_EXPIRED, InvalidEntry
from .elements import KNOWN, Element, Namespace, Namespaces
from .languages import hreflang
from .locs import BaseUrl
from .media import News, Video, news_element, news_expires_at, publication_dates, video_element

MAX_IMAGES = 1_000  # Google, "Image sitemaps": <image:image> elements in a <url>
COMPARED = 5_000
"""Entries whose alternates are compared with each other: what is kept of them does not grow with the site."""

Refused = Callable[[InvalidEntry, object], None]
"""Told of what is left out, and the loc of its entry; raises under strict rules."""


class Extensions:
    """Writes the extras of the entries of one section; *now* is in seconds since the epoch."""

    def __init__(self, base: BaseUrl, timezone: tzinfo, now: float, refused: Refused) -> None:
        self._base = base
        self._timezone = timezone
        self._now = now
        self._refused = refused
        self._returns = Returns(refused)
        self._prefixes: dict[str, Namespace] = dict(KNOWN)

    def column(self, locs: Sequence[str], extras: Mapping[str, Sequence[Any]]) -> tuple[list[str], Namespaces]:
        """For each of *locs* the elements of its *extras*, and the namespaces that they are in."""
        columns, namespaces = [], set[Namespace]()
        for name, write in _WRITERS.items():
            if name in extras:
                texts, used = write(self, locs, extras[name])
                columns.append(texts)
                namespaces |= used
        texts = columns[0] if len(columns) == 1 else list(map("".join, zip(*columns, strict=True)))
        return texts, tuple(sorted(namespaces))

    def finish(self) -> None:
        """Report what shows only when all entries are known."""
        self._returns.finish()

    # One column each

    def _alternates(self, locs: Sequence[str], column: Sequence[Any]) -> tuple[list[str], set[Namespace]]:
        # A mapping that several entries share is looked at once.
        distinct = {id(value): (loc, value) for loc, value in zip(locs, column, strict=True) if value is not None}
        owners = [loc for loc, _ in distinct.values()]
        given = [self._named(loc, value) for loc, value in distinct.values()]
        links = self._linked("alternate", owners, [hrefs for _, hrefs in given])
        codes = [codes for codes, _ in given]
        sets = dict(zip(distinct, map(self._set, owners, codes, links), strict=True))
        texts = [
            "" if value is None else self._own(loc, *sets[id(value)]) for loc, value in zip(locs, column, strict=True)
        ]
        return texts, _used("xhtml", texts)

    def _named(self, loc: str, value: Any) -> tuple[Sequence[str], Sequence[object]]:
        """The codes of alternates, and where these are."""
        if type(value) is not dict and not isinstance(value, Mapping):
            self._refuse("alternates", value, "alternates are a mapping from language to path or URL", loc)
            return (), ()
        try:
            return list(map(hreflang, value)), list(value.values())
        except InvalidEntry:
            good = [*self._good_pairs(loc, value)]
            return [code for code, _ in good], [href for _, href in good]

    def _good_pairs(self, loc: str, value: Mapping[Any, Any]) -> Iterator[tuple[str, object]]:
        for code, href in value.items():
            try:
                yield hreflang(code), href
            except InvalidEntry as error:
                self._refused(error, loc)

    def _set(self, loc: str, codes: Sequence[str], links: Sequence[str | None]) -> tuple[str, frozenset[str]]:
        """The links to all versions of a page as text, and what they lead to."""
        pairs = [(code, link) for code, link in zip(codes, links, strict=True) if link]
        if len(set(codes)) < len(codes):
            self._refuse("alternate-twice", codes, "each language is named once", loc)
            pairs = []
        text = "".join([f'<xhtml:link rel="alternate" hreflang="{code}" href="{link}"/>' for code, link in pairs])
        return text, frozenset([link for _, link in pairs])

    def _own(self, loc: str, text: str, links: frozenset[str]) -> str:
        """The links of the page at *loc*, which is one of those that they lead to."""
        if not text:
            return ""
        if loc not in links:
            # Google, "Localized versions": each version lists itself as well as all others
            self._refuse("alternate-self", sorted(links), "the alternates of a page include the page itself", loc)
            return ""
        self._returns.add(loc, links)
        return text

    def _images(self, locs: Sequence[str], column: Sequence[Any]) -> tuple[list[str], set[Namespace]]:
        given = [
            () if value is None else value if type(value) is list and len(value) == 1 else self._some(loc, value)
            for loc, value in zip(locs, column, strict=True)
        ]
        texts = [
            "".join([f"<image:image><image:loc>{link}</image:loc></image:image>" for link in links if link])
            for links in self._linked("image", locs, given)
        ]
        return texts, _used("image", texts)

    def _some(self, loc: str, value: Any) -> Sequence[str]:
        """Each of the images *value* once, and not more than are read."""
        images = [*dict.fromkeys(self._members(loc, value, "images", str))]
        if len(images) > MAX_IMAGES:
            self._refuse("images-count", len(images), f"a page has at most {MAX_IMAGES} images", loc)
        return images[:MAX_IMAGES]

    def _videos(self, locs: Sequence[str], column: Sequence[Any]) -> tuple[list[str], set[Namespace]]:
        texts = [
            "".join(self._video(loc, video) for video in self._members(loc, value, "videos", Video))
            for loc, value in zip(locs, column, strict=True)
        ]
        return texts, _used("video", texts)

    def _video(self, loc: str, video: Video) -> str:
        return self._written(loc, lambda report: video_element(video, loc, self._base.link, self._timezone, report))

    def _news(self, locs: Sequence[str], column: Sequence[Any]) -> tuple[list[str], set[Namespace]]:
        texts = [self._article(loc, news) if news is not None else "" for loc, news in zip(locs, column, strict=True)]
        return texts, _used("news", texts)

    def _article(self, loc: str, news: Any) -> str:
        if not isinstance(news, News):
            self._refuse("news", news, "the news of an entry is a News", loc)
            return ""
        text = self._written(loc, lambda report: news_element(news, self._timezone))
        # Google, "News sitemaps": only of the last two days
        if any(news_expires_at(date) <= self._now for date in publication_dates(text)):
            self._refuse(NEWS_EXPIRED, news.publication_date, "news are at most two days old", loc)
            return ""
        return text

    def _elements(self, locs: Sequence[str], column: Sequence[Any]) -> tuple[list[str], set[Namespace]]:
        used: set[Namespace] = set()
        texts = [
            "".join(self._element(loc, one, used) for one in self._members(loc, value, "elements", Element))
            for loc, value in zip(locs, column, strict=True)
        ]
        return texts, used

    def _element(self, loc: str, element: Element, used: set[Namespace]) -> str:
        namespaces = [*element.namespaces()]
        for namespace in namespaces:
            known = self._prefixes.setdefault(namespace.prefix, namespace)
            if known != namespace:
                explanation = f"the prefix {known.prefix!r} stands for {known.uri} in this section"
                self._refuse("element-prefix", namespace.uri, explanation, loc)
                return ""
        text = self._written(loc, lambda report: element.xml())
        used.update(namespaces if text else ())
        return text

    # What they have in common

    def _members(self, loc: str, value: Any, name: str, kind: type) -> Sequence[Any]:
        """What an entry has in a column: one of a *kind*, several, or None."""
        if value is None:
            return ()
        members = [value] if isinstance(value, kind) else value
        if isinstance(members, Iterable) and not isinstance(members, str | bytes | Mapping):
            members = [*members]
            if all(isinstance(one, kind) for one in members):
                return members
        self._refuse(name, value, f"{name} are a list of {kind.__name__}", loc)
        return ()

    def _linked(self, name: str, locs: Sequence[str], groups: Sequence[Sequence[Any]]) -> list[list[str | None]]:
        """The finished URL of each member of each group; None for one that was refused."""
        flat = [text for group in groups for text in group]
        links: Sequence[str | None] | None = self._base.links(flat) if flat else []
        if links is None:
            owners = (loc for loc, group in zip(locs, groups, strict=True) for _ in group)
            links = [self._link(name, loc, text) for loc, text in zip(owners, flat, strict=True)]
        given = iter(links)
        return [[*islice(given, len(group))] for group in groups]

    def _link(self, name: str, loc: str, text: object) -> str | None:
        try:
            return self._base.link(text)
        except InvalidEntry as error:
            self._refuse(f"{name}-{error.rule}", error.value, error.explanation, loc)
            return None

    def _written(self, loc: str, write: Callable[[Callable[[InvalidEntry], None]], str]) -> str:
        try:
            return write(lambda error: self._refused(error, loc))
        except InvalidEntry as error:
            self._refused(error, loc)
            return ""

    def _refuse(self, rule: str, value: object, explanation: str, loc: str) -> None:
        self._refused(InvalidEntry(rule, value, explanation), loc)


_WRITERS: dict[str, Callable[..., tuple[list[str], set[Namespace]]]] = {
    "alternates": Extensions._alternates,
    "images": Extensions._images,
    "videos": Extensions._videos,
    "news": Extensions._news,
    "elements": Extensions._elements,
}


class Returns:
    """Finds pages that are named as an alternate, and do not name the page that names them.

    Google, "Localized versions": if two pages do not both point to each other, the links are ignored. Some thousands
    of entries that stand together are compared; of those further apart nothing is said.
    """

    def __init__(self, refused: Refused) -> None:
        self._refused = refused
        self._links: dict[str, frozenset[str]] = {}

    def add(self, loc: str, links: frozenset[str]) -> None:
        """Note that the page at *loc* names those at *links*."""
        self._links[loc] = links
        if len(self._links) >= COMPARED:
            self.finish()

    def finish(self) -> None:
        """Report the pages noted so far that do not link back, and forget them all."""
        known = self._links
        for links in {id(links): links for links in known.values()}.values():
            for link in links:
                other = known.get(link, links)
                if other is not links and other != links:
                    self._report(link, other, links)
        known.clear()

    def _report(self, link: str, other: frozenset[str], links: frozenset[str]) -> None:
        """Report each page of those with *links* that the page at *link* does not have among its *other* links."""
        for loc in [loc for loc, own in self._links.items() if own is links and loc not in other]:
            explanation = f"the page does not name {loc} as an alternate, which names it"
            self._refused(InvalidEntry("alternate-return", link, explanation), link)


def _used(prefix: str, texts: Iterable[str]) -> set[Namespace]:
    return {KNOWN[prefix]} if any(texts) else set()
