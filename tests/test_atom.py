"""Feeds: what they say, and that they cost no more reading than they must."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask, current_app
from lxml import etree

from flask_sitemapx import Feed, Sitemap
from flask_sitemapx.errors import ConfigurationError
from flask_sitemapx.protocol.atom import readable
from flask_sitemapx.protocol.reader import SitemapReader
from flask_sitemapx.snapshots.memory import MemoryStore
from tests.section_sources import KeyedSource, numbered
from tests.section_sources import Site as BuiltSite

BASE = "https://example.com"
ATOM = {"a": "http://www.w3.org/2005/Atom"}


class Blog:
    """A site whose articles have a feed."""

    def __init__(self, feed: Feed, **config: Any) -> None:
        self.app = Flask(__name__)
        self.app.config.update(SITEMAP_BASE_URL=BASE, SITEMAP_BUILD_WAIT=60, SITEMAP_ROUTES="marked", **config)
        self.sitemap = Sitemap(self.app)
        self.articles: list[Any] = []
        self.sitemap.section("articles", feed=feed)(lambda: self.articles)
        self.sitemap.section("pages")(lambda: ["/"])

    def ask(self, path: str = "/sitemap-articles.atom", **headers: str) -> Any:
        return self.app.test_client().get(path, base_url=BASE, headers=headers)

    def feed(self) -> Any:
        return etree.fromstring(self.ask().data)


def article(name: str, lastmod: str | None) -> dict[str, Any]:
    return {"loc": f"/{name}", "lastmod": lastmod}


def links(feed: Any) -> list[str]:
    return [href.removeprefix(BASE) for href in feed.xpath("//a:entry/a:link/@href", namespaces=ATOM)]


def test_the_newest_pages_come_first_and_are_as_many_as_asked_for():
    blog = Blog(Feed("News", count=3))
    blog.articles = [article(f"day-{day:02}", f"2026-11-{day:02}") for day in range(1, 20)]
    assert links(blog.feed()) == ["/day-19", "/day-18", "/day-17"]


def test_a_feed_has_all_that_atom_asks_for():
    blog = Blog(Feed("News & more", author="The Times", hub="https://hub.example/?a=1&b=2"))
    blog.articles = [article("two-cats?a=1&b='2'", "2026-11-30"), article("dog", "2026-11-29T08:00:00+01:00")]
    answer = blog.ask()
    assert answer.headers["Content-Type"] == "application/atom+xml; charset=utf-8"
    feed = etree.fromstring(answer.data)
    texts = [feed.findtext(f"a:{name}", namespaces=ATOM) for name in ("id", "title", "updated", "author/a:name")]
    assert texts == [f"{BASE}/sitemap-articles.atom", "News & more", "2026-11-30T00:00:00Z", "The Times"]
    assert feed.xpath("a:link[@rel='self']/@href", namespaces=ATOM) == [f"{BASE}/sitemap-articles.atom"]
    assert feed.xpath("a:link[@rel='hub']/@href", namespaces=ATOM) == ["https://hub.example/?a=1&b=2"]
    entry = feed.find("a:entry", ATOM)
    assert [entry.findtext(f"a:{name}", namespaces=ATOM) for name in ("id", "title", "updated")] == [
        f"{BASE}/two-cats?a=1&b='2'",
        "two cats",
        "2026-11-30T00:00:00Z",
    ]


def test_our_own_reader_reads_a_feed():
    blog = Blog(Feed("News"))
    blog.articles = [article("cat", "2026-11-30"), article("dog", "2026-11-29")]
    assert [(entry.loc, entry.lastmod) for entry in SitemapReader(blog.ask().data)] == [
        (f"{BASE}/cat", "2026-11-30T00:00:00Z"),
        (f"{BASE}/dog", "2026-11-29T00:00:00Z"),
    ]


def test_titles_are_asked_of_the_application_in_its_context():
    blog = Blog(Feed("News", entry_title=lambda path: f"{path} of {current_app.name}"))
    blog.articles = [article("cat", "2026-11-30")]
    assert blog.feed().findtext("a:entry/a:title", namespaces=ATOM) == f"/cat of {blog.app.name}"


def test_a_title_that_fails_keeps_the_last_feed_and_the_sitemap(caplog):
    faults: list[Exception] = []

    def title(path: str) -> str:
        if faults:
            raise faults[0]
        return path

    blog = Blog(Feed("News", entry_title=title))
    blog.articles = [article("cat", "2026-11-30")]
    before = blog.ask().data
    faults.append(OSError("no titles"))
    blog.articles.append(article("dog", "2026-12-01"))
    blog.sitemap.build()
    assert blog.ask().data == before
    assert b"/dog" in blog.ask("/sitemap.xml").data
    assert "the feed of section 'articles' failed" in caplog.text


def test_pages_without_a_date_are_in_no_feed():
    blog = Blog(Feed("News"))
    blog.articles = [article("undated", None), article("dated", "2026-11-30")]
    assert links(blog.feed()) == ["/dated"]
    blog.articles = [article("undated", None)]
    blog.sitemap.build()
    assert blog.ask().status_code == 404


def test_a_section_without_a_feed_has_none_and_robots_txt_names_none():
    blog = Blog(Feed("News"))
    blog.articles = [article("cat", "2026-11-30")]
    assert blog.ask("/sitemap-pages.atom").status_code == 404
    assert ".atom" not in blog.ask("/robots.txt").text


def test_a_feed_is_conditional_and_an_unchanged_one_keeps_its_tag():
    blog = Blog(Feed("News", count=1))
    blog.articles = [article("cat", "2026-11-30"), article("dog", "2026-11-29")]
    tag = blog.ask().headers["ETag"]
    assert blog.ask(**{"If-None-Match": tag}).status_code == 304
    blog.articles.append(article("mouse", "2026-11-28"))
    blog.sitemap.build()
    assert blog.ask().headers["ETag"] == tag
    blog.articles.append(article("bird", "2026-12-01"))
    blog.sitemap.build()
    assert blog.ask().headers["ETag"] != tag


def test_a_site_without_a_name_has_a_feed_for_each_name():
    blog = Blog(Feed("News"), SITEMAP_STORE="memory:")
    blog.app.config["SITEMAP_BASE_URL"] = None
    blog.articles = [article("cat", "2026-11-30")]
    answer = blog.app.test_client().get("/sitemap-articles.atom", base_url="http://other.example")
    assert answer.content_length == len(answer.data)
    assert b"<id>http://other.example/cat</id>" in answer.data


class DatedSource(KeyedSource):
    """Parts each of which has entries of a month."""

    def _columns(self, key):
        for columns in super()._columns(key):
            columns.lastmods = [f"2026-{key}-01"] * len(columns.locs)
            yield columns


def test_only_documents_that_may_hold_the_newest_are_read(monkeypatch):
    parts = {f"{month:02}": numbered(8, month * 10) for month in range(1, 10)}
    source = DatedSource("blog", **parts)
    site = BuiltSite(MemoryStore(100_000_000), source, feeds={"blog": Feed("Blog", count=10)}, always_index=True)
    reads: list[str] = []
    blob = site.archive.blob

    def noted(digest: str) -> bytes:
        reads.append(digest)
        return blob(digest)

    monkeypatch.setattr(site.archive, "blob", noted)
    site.build()
    assert len(reads) == 2
    reads.clear()
    site.build()
    assert reads == []
    source.parts["03"] = numbered(8, 500)
    source.versions["03"] = "2"
    site.build()
    assert len(reads) == 2


@pytest.mark.parametrize("values", [{"title": ""}, {"title": "x", "count": 0}, {"title": "x", "count": 1_001}])
def test_a_feed_that_cannot_be_is_refused(values):
    with pytest.raises(ConfigurationError):
        Feed(**values)


@pytest.mark.parametrize(
    ("path", "title"),
    [("/blog/two-cats", "two cats"), ("/blog/b%C3%BCcher_neu/", "bücher neu"), ("/", "/"), ("/a?b=c", "a")],
)
def test_without_a_title_a_page_is_called_by_its_path(path, title):
    assert readable(path) == title
