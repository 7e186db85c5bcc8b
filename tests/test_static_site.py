"""Built static sites: which pages are listed, under which address, and when they are read again."""

from __future__ import annotations

import logging
import os
import subprocess
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import Client

from flask_sitemapx.errors import BuildFailed, ConfigurationError
from flask_sitemapx.protocol.gate import Gate
from flask_sitemapx.protocol.locs import BaseUrl
from flask_sitemapx.service.application import File, configured
from flask_sitemapx.service.sites import Sites
from flask_sitemapx.snapshots.directory import DirectoryStore
from flask_sitemapx.sources import static_site
from flask_sitemapx.sources.page_dates import FileDates, NoDates, PageDates
from flask_sitemapx.sources.page_head import PageHead
from flask_sitemapx.sources.static_site import Pages, StaticSiteSource
from tests.section_sources import NOW, Site

HEAD = "<!doctype html><html><head><title>A</title>{}</head><body>A</body></html>"


def write(directory: Path, *paths: str, head: str = "", age: float = 100.0) -> None:
    for path in paths:
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(HEAD.format(head))
        os.utime(file, (NOW - age, NOW - age))


@pytest.fixture
def public(tmp_path: Path) -> Path:
    (tmp_path / "public").mkdir()
    return tmp_path / "public"


def listed(directory: Path, base: str = "https://example.com", **options: Any) -> list[str]:
    site = BaseUrl.parse(base)
    source = StaticSiteSource("site", site, Pages(directory, **options), NoDates(), UTC)
    gate = Gate(site, section="site", timezone=UTC, strict=True)
    locs = [loc for columns in source.part("", None).columns() for loc in gate.rendered(columns).locs]
    return [loc.removeprefix(base) for loc in locs]


def test_an_index_is_its_directory(public):
    write(public, "index.html", "about.html", "blog/index.html", "blog/a.html", "blog/b/index.htm", "my-index.html")
    assert listed(public) == ["/about.html", "/blog/a.html", "/blog/b/", "/blog/", "/", "/my-index.html"]


def test_extensions_may_be_left_out(public):
    write(public, "index.html", "about.html", "blog/index.html", "v1.2.html", "html.html")
    assert listed(public, strips=True) == ["/about", "/blog/", "/html", "/", "/v1.2"]


def test_the_directory_may_be_anywhere_in_the_site(public):
    write(public, "index.html", "a.html")
    for at in ("/docs", "/docs/"):
        assert listed(public, at=at) == ["/docs/a.html", "/docs/"]
    assert listed(public, "https://example.com/shop", at="/docs") == ["/docs/a.html", "/docs/"]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a b.html", "/a%20b.html"),
        ("100%.html", "/100%25.html"),
        ("%41.html", "/%2541.html"),
        ("a?b#c.html", "/a%3Fb%23c.html"),
        ("über.html", "/%C3%BCber.html"),
        ("it's (a) & b.html", "/it&apos;s%20(a)%20&amp;%20b.html"),
        (os.fsdecode(b"\xff.html"), "/%FF.html"),
        ("a\nb.html", "/a%0Ab.html"),
        ("...html", None),
    ],
)
def test_names_of_files_are_percent_encoded(public, name, path):
    write(public, name)
    assert listed(public) == ([path] if path else [])


def test_hidden_files_and_pages_of_errors_are_left_out(public):
    write(public, ".hidden.html", ".git/a.html", "404.html", "de/404.html", "404/index.html", "a404.html", "404/a.html")
    (public / "style.css").touch()
    assert listed(public) == ["/404/a.html", "/a404.html"]


def test_globs_say_what_is_listed(public):
    write(public, "index.html", "a.html", "drafts/b.html", "drafts/c/d.html", "tags/index.html", "tags/e/index.html")
    write(public, "paper.pdf", head='<meta name="robots" content="noindex">')  # which it has no meaning in
    assert listed(public, include=("*.html", "*.pdf"), exclude=("drafts/*", "/tags/*")) == [
        "/a.html",
        "/",
        "/paper.pdf",
    ]
    assert listed(public, include=("tags/*",)) == ["/tags/e/", "/tags/"]
    assert listed(public, include=("[a-d].html",)) == ["/a.html", "/drafts/b.html", "/drafts/c/d.html"]
    assert listed(public, include=()) == []


@pytest.mark.parametrize(
    "head",
    [
        '<meta name="robots" content="noindex">',
        '<meta http-equiv="refresh" content="0; url=/b.html">',
        '<link rel="canonical" href="/b.html">',
        '<link rel="canonical" href="b.html">',
        '<link rel="canonical" href="/">',
        '<link rel="canonical" href="?page=1">',
        '<link rel="canonical" href="https://example.org/a.html">',
        '<link rel="canonical" href="http://example.com/a.html">',
        '<link rel="canonical" href="//a.html">',
        '<link rel="canonical" href="http://[/">',
    ],
)
def test_pages_that_are_not_to_be_listed_are_left_out(public, head):
    write(public, "b.html")
    write(public, "a.html", head=head)
    assert listed(public) == ["/b.html"]


@pytest.mark.parametrize(
    ("canonical", "loc"),
    [
        ("https://example.com/a/b%20c.html", "/a/b%20c.html"),
        ("HTTPS://Example.COM:443/a/b%20c.html", "/a/b%20c.html"),
        ("b c.html", "/a/b%20c.html"),
        ("#top", "/a/b%20c.html"),
        ("/a/b%20c", "/a/b%20c"),
        ("/a/b%20c/", "/a/b%20c/"),
        ("../a/b%20c", "/a/b%20c"),
    ],
)
def test_a_page_is_listed_by_the_address_that_it_gives_itself(public, canonical, loc):
    write(public, "a/b c.html", head=f'<link rel="canonical" href="{canonical}">')
    assert listed(public) == [loc]


@pytest.mark.parametrize(
    ("canonical", "loc"), [("/blog/", "/blog/"), ("/blog", "/blog"), ("/blog/index.html", "/blog/index.html")]
)
def test_so_is_an_index(public, canonical, loc):
    write(public, "blog/index.html", head=f'<link rel="canonical" href="{canonical}">')
    assert listed(public) == [loc]


def test_so_is_one_whose_name_means_something_in_xml(public):
    write(public, "it's a&b.html", head='<link rel="canonical" href="it\'s a&amp;b">')
    assert listed(public) == ["/it&apos;s%20a&amp;b"]


def test_a_link_inside_the_site_is_another_address_unless_its_pages_say_otherwise(public):
    write(public, "v2/a.html")
    write(public, "v2/b.html", head='<link rel="canonical" href="/latest/b.html">')
    (public / "latest").symlink_to("v2")
    assert listed(public) == ["/latest/a.html", "/latest/b.html", "/v2/a.html"]


def test_what_was_left_out_is_told(public, caplog):
    caplog.set_level(logging.INFO)
    write(public, "a.html", "b.html", head='<link rel="canonical" href="https://www.example.com/">')
    assert listed(public) == []
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        "sitemap: section 'site': left out: canonical elsewhere (2 times, such as 'a.html' (https://www.example.com/))"
    )
    caplog.clear()
    write(public, "c.html")
    assert listed(public) == ["/c.html"]
    assert [record.levelno for record in caplog.records] == [logging.INFO]


# Builds


@pytest.fixture
def reads(monkeypatch) -> list[str]:
    """The names of the pages that were read."""
    names: list[str] = []

    class Noted(PageHead):
        def __init__(self, file: Any) -> None:
            names.append(os.path.basename(file.name))
            super().__init__(file)

    monkeypatch.setattr(static_site, "PageHead", Noted)
    return names


def source(public: Path, dates: PageDates | None = None, **options: Any) -> StaticSiteSource:
    base = BaseUrl.parse("https://example.com")
    return StaticSiteSource("site", base, Pages(public, **options), dates or NoDates(), UTC)


@pytest.fixture
def site(tmp_path: Path, public: Path) -> Site:
    write(public, "a.html", "b.html")
    return Site(DirectoryStore(tmp_path / "store"), source(public))


def test_nothing_is_read_while_no_file_changes(site, public, reads):
    site.build()
    (public / "style.css").touch()
    site.build()
    assert reads == ["a.html", "b.html"]
    write(public, "c.html")
    site.build()
    assert site.listed("site") == ["/a.html", "/b.html", "/c.html"]
    (public / "a.html").unlink()
    site.build()
    assert site.listed("site") == ["/b.html", "/c.html"]


def test_pages_are_read_again_when_they_are_touched_or_listed_otherwise(site, public, reads):
    site.build()
    site.tokens["site"] = "now"
    site.build()
    assert len(reads) == 4
    site.sources = [source(public, strips=True)]
    site.build()
    assert len(reads) == 6
    assert site.listed("site") == ["/a", "/b"]


def test_pages_that_changed_just_now_are_read_at_the_next_build_too(site, public, reads):
    write(public, "b.html", age=1)
    site.build()
    site.build()
    assert len(reads) == 4
    site.clock.now += 10
    site.build()
    site.build()
    assert len(reads) == 6


def test_pages_are_read_each_time_while_it_cannot_be_told_whether_their_dates_stand(site, public, reads):
    class Unsure(NoDates):
        def version(self, now: float) -> str | None:
            return None

    site.sources = [source(public, Unsure())]
    site.build()
    site.build()
    assert len(reads) == 4


def test_a_directory_that_is_gone_leaves_the_last_good_entries(site, public):
    site.build()
    public.rename(public.parent / "old")
    snapshot = site.build()
    assert site.listed("site") == ["/a.html", "/b.html"]
    assert "FileNotFoundError" in str(snapshot.sections["site"].error)


def test_a_page_that_cannot_be_read_is_left_out_and_counted(tmp_path, site, public, monkeypatch):
    def unreadable(file: Any) -> PageHead:
        if file.name.endswith("a.html"):
            raise PermissionError(13, "Permission denied")
        return PageHead(file)

    monkeypatch.setattr(static_site, "PageHead", unreadable)
    snapshot = site.build()
    assert site.listed("site") == ["/b.html"]
    assert snapshot.sections["site"].faults[""] == {"page-unreadable": [1, "'a.html' (Permission denied)"]}
    with pytest.raises(BuildFailed, match=r"a page can be read \(Permission denied\)"):
        Site(DirectoryStore(tmp_path / "strict"), source(public), strict=True).build()


def test_dates_come_from_where_it_is_said(site, public):
    site.sources = [source(public, FileDates())]
    site.build()
    assert site.text(site.first("site")).count("<lastmod>2027-01-15T07:58:20Z</lastmod>") == 2


# In sitemap.toml


def sites(directory: Path, options: str) -> Sites:
    text = f'base_url = "https://example.com"\n[sections.site]\ntype = "directory"\n{options}'
    return Sites(configured(File(directory / "sitemap.toml", text), {}), {})


def test_the_file_of_a_site_says_where_it_was_built(public):
    write(public, "index.html", "about.html", "drafts/a.html")
    (public.parent / "pages").mkdir()
    (public.parent / "pages" / "about.md").write_text("---\nlastmod: 2026-11-30\n---\n")
    found = sites(
        public.parent,
        """
        path = "public"
        at = "/docs"
        strip = true
        exclude = ["drafts/*"]
        lastmod = "front_matter"
        source = "pages"
        """,
    )
    text = Client(found).get("/sitemap.xml").text
    assert "<url><loc>https://example.com/docs/about</loc><lastmod>2026-11-30</lastmod></url>" in text
    assert "<url><loc>https://example.com/docs/</loc></url>" in text
    assert text.count("<url>") == 2


@pytest.mark.parametrize("lastmod", ["none", "mtime", "git"])
def test_other_dates_need_no_source(public, lastmod):
    write(public, "a.html")
    subprocess.run(["git", "init", "--quiet"], cwd=public, check=True)
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "add", "a.html"], cwd=public, check=True)
    subprocess.run(["git", *identity, "commit", "--quiet", "--message=m"], cwd=public, check=True)
    text = Client(sites(public.parent, f'path = "public"\nlastmod = "{lastmod}"')).get("/sitemap.xml").text
    assert ("<lastmod>" in text) is (lastmod != "none")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ('path = "public"\nat = "docs"', "line 5: sections.site.at must be a path that begins with one slash"),
        ('path = "public"\nlastmod = "date"', "line 5: sections.site.lastmod must be one of 'none', 'front_matter'"),
        ('path = "public"\nlastmod = "front_matter"', "line 2: sections.site: lastmod = 'front_matter' needs source"),
        ('path = "public"\nsource = "x"', "line 2: sections.site: source is for lastmod = 'front_matter' or 'git'"),
    ],
)
def test_what_is_wrong_with_its_options_is_told_with_its_line(tmp_path, options, told):
    with pytest.raises(ConfigurationError, match=told):
        sites(tmp_path, options)
