"""Benchmark `extensions`: what alternates and images cost, and that entries without any do not pay for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

from flask import Flask

from flask_sitemapx import UrlEntry
from flask_sitemapx.protocol.documents import URLSET
from flask_sitemapx.protocol.gate import Gate
from flask_sitemapx.protocol.locs import BaseUrl
from flask_sitemapx.snapshots.compression import fastest_codec
from flask_sitemapx.snapshots.shards import Cutter, DocumentWriter, Limits
from flask_sitemapx.sources.defaults import Defaults
from flask_sitemapx.sources.items import Items
from flask_sitemapx.sources.languages import Languages
from flask_sitemapx.sources.urls import UrlBuilder

from . import workload
from .rounds import Effort, Timings, clocked, timings
from .tables import Table, Target

LANGUAGES = ("en", "de", "fr")
BASE = BaseUrl.parse(workload.ORIGIN)
WHEN = datetime(2026, 11, 30, 8, tzinfo=UTC)

ABOUT = """CPU of an entry from its item to the stored document, checked and compressed by {codec}.
The pages of a site in three languages, {what}: plain, and with an alternate for each language
and an image elsewhere."""


def tables(effort: Effort) -> Iterator[Table]:
    """A table for entries that state all themselves, and one for endpoints spread over the languages and x-default."""
    pages = effort.entries // len(LANGUAGES)
    yield table("extensions, UrlEntry", "each a UrlEntry", pages, effort, partial(plain, pages), partial(rich, pages))
    items = partial(of_endpoint, pages)
    yield table("extensions, endpoint", "by endpoint and values", pages, effort, items, partial(spread, pages), app())


def table(
    title: str,
    what: str,
    pages: int,
    effort: Effort,
    without: Callable[[], Iterator[Any]],
    with_all: Callable[[], Iterator[Any]],
    site: Flask | None = None,
) -> Table:
    measured = measure(pages * len(LANGUAGES), effort, without, with_all, site)
    about = ABOUT.format(codec=fastest_codec().name, what=what)
    made = Table(title, about, ["contender", "us/URL", "this / plain"])
    for name in measured:
        made.rows.append([name, measured.median(name) * 1e6, measured.ratio(name, "plain")])
    if site is None:  # of endpoints there is one more alternate, x-default
        made.targets.append(Target("rich / plain", measured.ratio("rich", "plain"), at_most=4.0))
    return made


def measure(
    entries: int,
    effort: Effort,
    without: Callable[[], Iterator[Any]],
    with_all: Callable[[], Iterator[Any]],
    site: Flask | None,
) -> Timings:
    urls = UrlBuilder(site.url_map.bind(workload.HOST, url_scheme="https"), BASE) if site else None
    languages = Languages(BASE, LANGUAGES, "lang_code", lambda endpoint: True)
    ways = {
        "plain": lambda: built(Items(urls, Defaults()), without()),
        "rich": lambda: built(Items(urls, Defaults(), languages=languages if site else None), with_all()),
    }
    assert ways["plain"]() == ways["rich"]() == entries
    return timings({name: clocked(way, entries) for name, way in ways.items()}, effort.rounds)


def built(items: Items, given: Iterable[Any]) -> int:
    """The number of entries of the stored documents."""
    gate = Gate(BASE, section="pages", timezone=UTC, strict=True)
    cutter = Cutter(Limits(50_000), writer, print)
    documents = cutter.documents(map(gate.rendered, items.columns(given)))
    return sum(made.document(lambda latest: None).entries for _, made in documents)


def writer() -> DocumentWriter:
    return DocumentWriter(URLSET, fastest_codec(), lambda digest, data: None, {})


def plain(pages: int) -> Iterator[UrlEntry]:
    for number in range(pages):
        for language in LANGUAGES:
            yield UrlEntry(f"/{language}/page/{number}", WHEN)


def rich(pages: int) -> Iterator[UrlEntry]:
    for number in range(pages):
        versions = {language: f"/{language}/page/{number}" for language in LANGUAGES}
        images = [f"https://cdn.example.net/{number}.jpg"]
        for language in LANGUAGES:
            yield UrlEntry(versions[language], WHEN, None, None, versions, images)


def app() -> Flask:
    made = Flask("pages")
    made.add_url_rule("/<lang_code>/page/<int:number>", "page", lambda **values: "")
    return made


def of_endpoint(pages: int) -> Iterator[Any]:
    for number in range(pages):
        for language in LANGUAGES:
            yield "page", {"lang_code": language, "number": number}, WHEN


def spread(pages: int) -> Iterator[Any]:
    for number in range(pages):
        images = {"images": [f"https://cdn.example.net/{number}.jpg"]}
        yield "page", {"number": number}, WHEN, None, None, images
