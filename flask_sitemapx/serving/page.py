"""The pages for people at `/sitemap`: what is served, how near the limits it is, and what was left out and why."""

from __future__ import annotations

import re
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache, partial
from hashlib import sha256
from html import unescape
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlencode

from ..errors import BuildFailed, NotBuilt, StoreError
from ..protocol.documents import MAX_BYTES
from ..settings import Settings
from ..snapshots.refresher import Refresher
from ..snapshots.shards import entries
from ..snapshots.snapshot import Document, SectionState, Shard, Snapshot
from .hosts import Site
from .page_template import STYLE, TEMPLATES
from .publisher import NUMBER, PAGE_PATH, index_paths
from .representation import Headers, Response

if TYPE_CHECKING:
    from jinja2 import Environment


PER_PAGE = 100
"""Entries of a sitemap, or sitemaps of a section, on one page."""
MAX_SEARCH = 200
"""Characters of what is searched for."""
MAX_BARS = 120
"""Of a plot: ten years of months."""

_STYLE_HASH = b64encode(sha256(STYLE.encode()).digest()).decode()
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Headers = [
    ("Content-Type", "text/html; charset=utf-8"),
    ("Cache-Control", "no-store"),
    ("X-Robots-Tag", "noindex"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),
    ("Content-Security-Policy", _POLICY),
]


class Pages:
    """The pages of all sites of one application. Nothing of a request is kept."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock

    def answer(self, environ: dict[str, Any], site: Site, refresher: Refresher) -> Response:
        """The page that the query string of a GET or HEAD asks for, or one that says why there is none.

        Raises `StoreError` if stored entries cannot be read.
        """
        show = partial(self._shown, site)
        try:
            wanted = _wanted(environ.get("QUERY_STRING", ""))
            return _response("200 OK", self._page(wanted, site, refresher, show))
        except Refused as refused:
            return _response(refused.status, show("refused", refused=refused))

    def _page(self, wanted: Wanted, site: Site, refresher: Refresher, show: Callable[..., str]) -> str:
        snapshot, trouble = _current(refresher)
        if not wanted.section:
            return show("overview", **self._overview(snapshot, trouble, site, refresher))
        if snapshot is None:
            raise Refused("503 Service Unavailable", "There is no sitemap yet.")
        section = snapshot.sections.get(wanted.section)
        if section is None:
            raise Refused("404 Not Found", f"There is no section {wanted.section!r} in this set.")
        if not wanted.shard:
            return show("section", **_section(wanted, section, site, self._clock()))
        shard = snapshot.shard(wanted.section, wanted.shard)
        if shard is None:
            raise Refused("404 Not Found", f"There is no sitemap {wanted.shard} of the section {wanted.section!r}.")
        return show("shard", **_shard(wanted, section, shard, site, refresher, self._clock()))

    def _shown(self, site: Site, template: str, **values: Any) -> str:
        limits = {"urls": self._settings.max_urls, "size": MAX_BYTES}
        name = site.fill.decode() or site.base.text
        return _environment().get_template(template).render(values, site=name, limits=limits, now=self._clock())

    def _overview(
        self, snapshot: Snapshot | None, trouble: str | None, site: Site, refresher: Refresher
    ) -> dict[str, Any]:
        sections = snapshot.sections if snapshot else {}
        totals = {name: _totals(section.listed, site) for name, section in sections.items()}
        shards = [(name, shard) for name, section in sections.items() for shard in section.listed]
        return {
            "state": refresher.state(),
            "building_for": refresher.building_for(),
            "troubles": dict.fromkeys(text for text in (trouble, refresher.error, refresher.store_error) if text),
            "snapshot": snapshot,
            "refresh": self._settings.refresh,
            "paths": [path.removeprefix("/") for path in index_paths(snapshot)] if snapshot else [],
            "sections": sections,
            "totals": totals,
            "total": _totals([shard for _, shard in shards], site),
            "drops": [drop for name, section in sections.items() for drop in _drops(name, section.problems, site)],
            "plots": [_changes([shard for _, shard in shards], self._clock()), _sizes(shards, site)],
        }


class Refused(Exception):
    """A page that there is not."""

    def __init__(self, status: str, text: str) -> None:
        self.status = status
        super().__init__(text)


class Wanted(NamedTuple):
    """What a query string asks for: all sections, the sitemaps of one, or the entries of one sitemap."""

    section: str = ""
    shard: int = 0
    page: int = 1
    q: str = ""


def _wanted(query_string: str) -> Wanted:
    try:
        # PEP 3333: its bytes, read as latin-1
        query = query_string.encode("latin-1").decode(errors="replace")
        fields = parse_qs(query, keep_blank_values=True, max_num_fields=len(Wanted._fields))
    except ValueError:
        raise Refused("400 Bad Request", "The query string cannot be read.") from None
    for name, values in fields.items():
        if name not in Wanted._fields or len(values) > 1:
            raise Refused("400 Bad Request", f"The query string has {name[:50]!r}, which is unknown or there twice.")
    given = {name: values[0] for name, values in fields.items()}
    section, q = given.get("section", ""), given.get("q", "").strip()
    wanted = Wanted(section[:MAX_SEARCH], _number(given, "shard", 0), _number(given, "page", 1), q)
    if len(q) > MAX_SEARCH:
        raise Refused("400 Bad Request", f"At most {MAX_SEARCH} characters can be searched for.")
    if (wanted.shard and not section) or (q and not wanted.shard):
        raise Refused("400 Bad Request", "A search needs a sitemap, and a sitemap its section.")
    return wanted


def _number(given: dict[str, str], name: str, default: int) -> int:
    text = given.get(name)
    if text is None:
        return default
    if not NUMBER.fullmatch(text):
        raise Refused("400 Bad Request", f"The {name} must be a number from 1 on, not {text[:50]!r}.")
    return int(text)


def _current(refresher: Refresher) -> tuple[Snapshot | None, str | None]:
    """What is served, as for any crawler, and what is wrong if it is not what it should be."""
    try:
        return refresher.current(), None
    except (NotBuilt, BuildFailed, StoreError) as error:
        trouble = str(error)
    snapshot = None
    with suppress(StoreError):
        snapshot = refresher.last_good()
    return (snapshot if snapshot and snapshot.fingerprint else None), trouble


# A section


def _section(wanted: Wanted, section: SectionState, site: Site, now: float) -> dict[str, Any]:
    paging = _paging(wanted, len(section.listed))
    shards = section.listed[paging.first : paging.first + PER_PAGE]
    named = [(wanted.section, shard) for shard in shards]
    return {
        "name": wanted.section,
        "section": section,
        "shards": [(shard, _length(shard.document, site)) for shard in shards],
        "total": _totals(section.listed, site),
        "drops": [*_drops(wanted.section, section.problems, site)],
        "plots": [_changes(section.listed, now), _sizes(named, site)],
        "paging": paging,
    }


class Totals(NamedTuple):
    """What several sitemaps come to."""

    sitemaps: int
    unbuilt: int
    urls: int
    size: int
    most_urls: int
    largest: int
    changed_at: str | None


def _totals(shards: Sequence[Shard], site: Site) -> Totals:
    documents = [shard.document for shard in shards if shard.document]
    lengths = [_length(document, site) for document in documents]
    return Totals(
        len(shards),
        len(shards) - len(documents),
        sum(document.entries for document in documents),
        sum(lengths),
        max((document.entries for document in documents), default=0),
        max(lengths, default=0),
        max((document.changed_at for document in documents if document.changed_at), default=None),
    )


def _length(document: Document | None, site: Site) -> int:
    """Bytes of the XML with the site's name in it."""
    return document.length + document.origins * (len(site.fill or b"\0") - 1) if document else 0


class Drop(NamedTuple):
    """Entries that were left out."""

    section: str
    rule: str
    entries: int
    example: str


def _drops(name: str, problems: Any, site: Site) -> Iterator[Drop]:
    for rule, (count, example) in problems.items():
        yield Drop(name, rule, count, example.replace(r"\x00", site.fill.decode()))  # the placeholder's repr


# A sitemap


def _shard(
    wanted: Wanted, section: SectionState, shard: Shard, site: Site, refresher: Refresher, now: float
) -> dict[str, Any]:
    if shard.is_unbuilt:
        shard = refresher.finished(wanted.section, shard) or shard
    document = shard.document
    blocks = entries(document, refresher.blob) if document else ()
    found = _found((block.replace(b"\0", site.fill) for block in blocks), wanted)
    return {
        "name": wanted.section,
        "shard": shard,
        "path": shard.path(wanted.section).removeprefix("/"),
        "document": document,
        "size": _length(document, site),
        "drops": [*_drops(wanted.section, section.faults.get(shard.part, {}), site)],
        "found": found,
        "plots": [_lastmods(found, now)],
        "paging": _paging(wanted, found.total),
        "q": wanted.q,
        "max_search": MAX_SEARCH,
    }


class Entry(NamedTuple):
    """An entry as it is shown; *readable* is its loc without percents, where that says more."""

    loc: str
    readable: str | None
    lastmod: str
    changefreq: str
    priority: str


class Found(NamedTuple):
    """Of the entries that a search finds: those on the page, how many there are, and how many in which month."""

    entries: list[Entry]
    total: int
    months: Counter[str]


# Of an element only what is counted and searched; the rest is looked into for what is shown.
_ELEMENT = re.compile(r"<url>\n?<loc>([^<]*)</loc>(?:<lastmod>([^<]*)</lastmod>)?(.*?)</url>", re.DOTALL)
_CHANGEFREQ = re.compile(r"<changefreq>([^<]*)<")
_PRIORITY = re.compile(r"<priority>([^<]*)<")


def _found(blocks: Iterable[bytes], wanted: Wanted) -> Found:
    """One pass over all entries of a document, of which a block at a time is in memory."""
    first = (wanted.page - 1) * PER_PAGE
    is_match = _search(wanted.q)
    shown: list[Entry] = []
    total, months = 0, Counter[str]()
    for text in _whole_elements(blocks):
        matches = [match for match in _ELEMENT.findall(text) if is_match is None or is_match(match[0])]
        shown += [_entry(*match) for match in matches[max(0, first - total) : max(0, first + PER_PAGE - total)]]
        total += len(matches)
        months.update([lastmod[:7] for _, lastmod, _ in matches])
    return Found(shown, total, months)


def _whole_elements(blocks: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for block in blocks:
        whole, end, rest = (rest + block).rpartition(b"</url>")
        yield (whole + end).decode()


def _search(q: str) -> Callable[[str], bool] | None:
    """Whether a loc holds *q* as it is typed or percent-encoded, in whatever case; None if that is not asked."""
    if not q:
        return None
    needle, encoded = q.lower(), quote(q, safe="/:?&=%@!$()*+,;~").lower()

    def is_match(loc: str) -> bool:
        text = (unescape(loc) if "&" in loc else loc).lower()
        return needle in text or encoded in text

    return is_match


def _entry(loc: str, lastmod: str, rest: str) -> Entry:
    loc = unescape(loc)
    changefreq, priority = _CHANGEFREQ.search(rest), _PRIORITY.search(rest)
    return Entry(loc, _readable(loc), lastmod, changefreq[1] if changefreq else "", priority[1] if priority else "")


def _readable(loc: str) -> str | None:
    try:
        text = unquote(loc, errors="strict")
    except UnicodeDecodeError:
        return None
    # What is not printable includes the characters that turn the direction of others.
    return text if not text.isascii() and text.isprintable() else None


class Paging(NamedTuple):
    """Where a page stands among others; *first* counts from 0, *pages* from 1."""

    wanted: Wanted
    first: int
    pages: int

    def link(self, page: int) -> str:
        return _link(**self.wanted._replace(page=page)._asdict())


def _paging(wanted: Wanted, total: int) -> Paging:
    pages = max(1, -(-total // PER_PAGE))
    if wanted.page > pages:
        raise Refused("404 Not Found", f"There is no page {wanted.page}: the last one is {pages}.")
    return Paging(wanted, (wanted.page - 1) * PER_PAGE, pages)


def _link(**fields: Any) -> str:
    """Relative to the page's own address, so that it is right wherever the application is mounted."""
    given = {name: value for name, value in fields.items() if value and (name, value) != ("page", 1)}
    return f"?{urlencode(given)}" if given else PAGE_PATH.removeprefix("/")


# Plots


class Bar(NamedTuple):
    label: str
    value: int
    link: str = ""


class Plot(NamedTuple):
    """A row of bars; *note* says what they leave out."""

    title: str
    bars: list[Bar]
    format: Callable[[int], str]
    note: str = ""

    @property
    def highest(self) -> Bar:
        return max(self.bars, key=lambda bar: bar.value)

    def height(self, bar: Bar) -> float:
        """In percent; what is more than nothing is to be seen."""
        return max(2.0, round(100 * bar.value / self.highest.value, 1)) if bar.value else 0.0


def _sizes(shards: Sequence[tuple[str, Shard]], site: Site) -> Plot:
    """A bar for each of the first `MAX_BARS` shards, given with the names of their sections."""
    bars = [
        Bar(f"{name}-{shard.number}", _length(shard.document, site), _link(section=name, shard=shard.number))
        for name, shard in shards[:MAX_BARS]
    ]
    left = len(shards) - len(bars)
    return Plot("Size by sitemap", bars, size, f"{number(left)} more are not drawn" if left else "")


def _changes(shards: Iterable[Shard], now: float) -> Plot:
    documents = [shard.document for shard in shards if shard.document]
    months = Counter((document.changed_at or "")[:7] for document in documents)
    return _months("Sitemaps by month of their last change", months, now)


def _lastmods(found: Found, now: float) -> Plot:
    return _months("URLs by month of lastmod", found.months, now)


def _months(title: str, counts: Counter[str], now: float) -> Plot:
    """A bar for each month between the first and the last, none of them in the future, and at most `MAX_BARS`."""
    known = {_month(text): count for text, count in counts.items() if text}
    this = _month(_moment(now).strftime("%Y-%m"))
    past = [month for month in known if month <= this]
    last = max(past, default=this)
    first = max(min(past, default=last), last - MAX_BARS + 1)
    bars = [Bar(_month_text(month), known.get(month, 0)) for month in range(first, last + 1)] if past else []
    apart = {
        "without a date": counts[""],
        f"before {_month_text(first)}": sum(count for month, count in known.items() if month < first),
        "in the future": sum(count for month, count in known.items() if month > this),
    }
    return Plot(title, bars, number, ", ".join(f"{number(count)} {where}" for where, count in apart.items() if count))


def _month(text: str) -> int:
    return int(text[:4]) * 12 + int(text[5:7]) - 1


def _month_text(month: int) -> str:
    return f"{month // 12:04}-{month % 12 + 1:02}"


# Texts


def number(value: int) -> str:
    return f"{value:,}"


def size(value: int) -> str:
    if value < 1024:
        return f"{value} B"
    return f"{value / 1024:,.1f} KiB" if value < 1024 * 1024 else f"{value / 1024 / 1024:,.1f} MiB"


def duration(seconds: float) -> str:
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def moment(timestamp: float) -> str:
    return _moment(timestamp).strftime("%Y-%m-%d %H:%M:%S UTC")


def _moment(timestamp: float) -> datetime:
    return datetime.fromtimestamp(timestamp, UTC)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import DictLoader, Environment, StrictUndefined

    environment = Environment(
        loader=DictLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(number=number, size=size, duration=duration, moment=moment)
    environment.globals.update(link=_link, style=STYLE)
    return environment


def _response(status: str, text: str) -> Response:
    body = text.encode(errors="backslashreplace")
    return Response(status, [*_HEADERS, ("Content-Length", str(len(body)))], (body,))
