"""Sections of the type `sitemap`, from the file to the sitemap: real servers that change, fail and come back."""

from __future__ import annotations

import gzip
import re
import socket
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from itertools import count, cycle
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from werkzeug.test import Client

from flask_sitemapx.errors import BuildFailed, ConfigurationError
from flask_sitemapx.protocol.locs import BaseUrl
from flask_sitemapx.service.configuration import Configuration, configuration
from flask_sitemapx.service.sites import Sites
from flask_sitemapx.snapshots.snapshot import SectionState
from flask_sitemapx.sources.fetching import Fetcher
from flask_sitemapx.sources.parts import Known, Past
from flask_sitemapx.sources.remote import PATIENCE, RemoteSource
from tests.remote_server import RemoteServer, raw
from tests.section_sources import NOW, Clock

pytestmark = pytest.mark.usefixtures("closed_pools")

SHOP = "https://shop.example"
NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"
URLSET = (
    f'<urlset xmlns="{NAMESPACE}" xmlns:image="http://www.google.com/schemas/sitemap-image/1.1" '
    'xmlns:video="http://www.google.com/schemas/sitemap-video/1.1" '
    'xmlns:news="http://www.google.com/schemas/sitemap-news/0.9" xmlns:xhtml="http://www.w3.org/1999/xhtml">'
)
OLD = "2026-06-01"


def urlset(*locs: str) -> bytes:
    return f"{URLSET}{''.join(f'<url><loc>{loc}</loc></url>' for loc in locs)}</urlset>".encode()


def index(*sitemaps: str | tuple[str, str]) -> bytes:
    """An index of addresses, each alone or with its lastmod."""
    pairs = [(one, "") if isinstance(one, str) else one for one in sitemaps]
    entries = (f"<loc>{loc}</loc>{f'<lastmod>{date}</lastmod>' if date else ''}" for loc, date in pairs)
    listed = "".join(f"<sitemap>{entry}</sitemap>" for entry in entries)
    return f'<sitemapindex xmlns="{NAMESPACE}">{listed}</sitemapindex>'.encode()


class Merging:
    """A site whose section `theirs` is what *server* has at `/sitemap.xml`."""

    def __init__(self, server: RemoteServer, directory: Path) -> None:
        self.server = server
        self.directory = directory
        self.options = f'url = "{server.url}/sitemap.xml"\nprivate = true\n'
        self.settings = ""
        self.type = "sitemap"
        self.clock = Clock()

    def configuration(self) -> Configuration:
        text = (
            f'base_url = "{SHOP}"\nstore = "file:{self.directory}/sets"\n{self.settings}'
            f'[sections.theirs]\ntype = "{self.type}"\n{self.options}'
        )
        return configuration(text, self.directory / "sitemap.toml", {})

    def sites(self) -> Sites:
        return Sites(self.configuration(), {})

    def build(self, touch: bool = False) -> SectionState:
        """The section, as a process builds it that begins now; requests are noted anew."""
        self.server.requests.clear()
        refresher = self.sites()["shop.example"].refresher()
        refresher._builder._clock = self.clock
        if touch:
            refresher.touch("theirs")
        return refresher.build().sections["theirs"]

    @property
    def asked(self) -> list[tuple[str, int]]:
        """Paths without their dots, and how they were answered, since the last build began."""
        return [(path.removesuffix(".xml"), status) for path, status in self.server.requests]

    def entries(self) -> list[str]:
        client = Client(self.sites())
        text = client.get("/sitemap.xml").text
        if "<sitemapindex" in text:
            paths = re.findall(f"<loc>{SHOP}(/[^<]*)</loc>", text)
            text = "".join(client.get(path).text for path in paths)
        return re.findall("<url>(.*)</url>", text)

    def listed(self) -> list[str]:
        return [path for entry in self.entries() for path in re.findall(f"^<loc>{SHOP}([^<]*)</loc>", entry)]

    def problems(self, section: SectionState) -> dict[str, tuple[int, str]]:
        """Counts and examples, without the server's address."""
        return {
            rule: (count, example.replace(self.server.url, "")) for rule, (count, example) in section.problems.items()
        }


@pytest.fixture
def server() -> Iterator[RemoteServer]:
    with RemoteServer() as server:
        yield server


@pytest.fixture
def merging(server, tmp_path) -> Merging:
    return Merging(server, tmp_path)


def two(server: RemoteServer, *dates: str) -> None:
    """An index of two sitemaps, of a page each."""
    one, other = dates or ("", "")
    server.answers |= {
        "/sitemap.xml": index((f"{server.url}/a.xml", one), (f"{server.url}/b.xml", other)),
        "/a.xml": urlset(f"{SHOP}/a"),
        "/b.xml": urlset(f"{SHOP}/b"),
    }


# What is listed


def test_what_another_sitemap_lists_is_listed(merging):
    merging.server.answers["/sitemap.xml"] = (
        f"{URLSET}<url><loc>{SHOP}/a b</loc><lastmod>2026-11-30T09:15:30+01:00</lastmod>"
        f"<changefreq>weekly</changefreq><priority>0.8</priority></url><url><loc>{SHOP}/b?c&amp;d</loc></url></urlset>"
    ).encode()
    merging.build()
    stated = "<lastmod>2026-11-30T08:15:30Z</lastmod><changefreq>weekly</changefreq><priority>0.8</priority>"
    assert merging.entries() == [f"<loc>{SHOP}/a%20b</loc>{stated}", f"<loc>{SHOP}/b?c&amp;d</loc>"]


@pytest.mark.parametrize(
    "body",
    [
        gzip.compress(urlset(f"{SHOP}/a")),
        gzip.compress(gzip.compress(urlset(f"{SHOP}/a"))),
        urlset(f"{SHOP}/a").decode().encode("utf-16"),
        f"{SHOP}/a\n".encode(),
        f"<rss version='2.0'><channel><item><link>{SHOP}/a</link></item></channel></rss>".encode(),
    ],
)
def test_it_is_read_in_any_form(merging, body):
    merging.server.answers["/sitemap.xml"] = body
    merging.build()
    assert merging.listed() == ["/a"]


def test_an_index_is_followed_and_each_of_its_sitemaps_is_one_here(merging):
    two(merging.server)
    section = merging.build()
    assert merging.listed() == ["/a", "/b"]
    assert [shard.document.entries for shard in section.listed if shard.document] == [1, 1]


def test_several_sitemaps_are_one_section_and_what_two_list_is_listed_once(merging):
    url = merging.server.url
    merging.server.answers |= {
        "/sitemap.xml": index(f"{url}/a.xml", f"{url}/b.xml"),
        "/other.xml": index(f"{url}/b.xml", "c.xml"),
        "/a.xml": urlset(f"{SHOP}/a"),
        "/b.xml": urlset(f"{SHOP}/b"),
        "/c.xml": urlset(f"{SHOP}/c"),
        "/d.txt": f"{SHOP}/d".encode(),
    }
    merging.options = f'url = ["{url}/sitemap.xml", "{url}/d.txt", "{url}/other.xml"]\nprivate = true\n'
    for _ in range(2):
        assert merging.build().count == 4
        assert merging.listed() == ["/a", "/b", "/d", "/c"]


def test_addresses_of_another_host_are_not_listed_but_counted(merging):
    merging.server.answers["/sitemap.xml"] = urlset(f"{SHOP}/a", "https://other.example/a", f"{merging.server.url}/a")
    section = merging.build()
    assert merging.listed() == ["/a"]
    assert {rule: count for rule, (count, _) in section.problems.items()} == {"loc-host": 1, "loc-scheme": 1}


def test_base_urls_that_are_replaced_give_ours(merging):
    url = merging.server.url
    locs = [
        f"{url}/a",
        f"{url}",
        f"{url}?b",
        "http://www.shop.example.evil/c",
        "http://www.shop.example/d",
        f"{SHOP}/e",
    ]
    merging.server.answers["/sitemap.xml"] = urlset(*locs)
    merging.options += f'replace = ["{url}/", "http://www.shop.example"]\n'
    section = merging.build()
    assert merging.listed() == ["/a", "/", "/?b", "/d", "/e"]
    assert list(section.problems) == ["loc-scheme"]
    merging.options += 'at = "/blog/"\n'
    merging.build()
    assert merging.listed() == ["/blog/a", "/blog/", "/blog/?b", "/blog/d", "/e"]


def test_alternates_images_videos_and_news_are_taken_over_with_our_addresses(merging):
    app = "http://app.internal"
    merging.server.answers["/sitemap.xml"] = f"""{URLSET}<url><loc>{app}/a</loc>
        <xhtml:link rel="alternate" hreflang="en" href="{app}/a"/>
        <xhtml:link rel="alternate" hreflang="de" href="{app}/de/a"/>
        <image:image><image:loc>{app}/a.png</image:loc></image:image>
        <image:image><image:loc>https://cdn.example/b.png</image:loc></image:image>
        <video:video>
            <video:thumbnail_loc>{app}/t.png</video:thumbnail_loc><video:title>Cats</video:title>
            <video:description>What cats do</video:description><video:player_loc>{app}/play</video:player_loc>
            <video:duration>60</video:duration><video:rating>4.5</video:rating><video:view_count>7</video:view_count>
            <video:publication_date>2026-11-30</video:publication_date>
            <video:family_friendly>no</video:family_friendly>
            <video:restriction relationship="allow">DE AT</video:restriction>
            <video:requires_subscription>yes</video:requires_subscription>
            <video:uploader info="{app}/us">Us</video:uploader><video:live>no</video:live>
            <video:tag>cat</video:tag><video:tag>dog</video:tag>
        </video:video>
        <news:news><news:publication><news:name>Times</news:name><news:language>en</news:language></news:publication>
            <news:publication_date>2027-01-15</news:publication_date><news:title>Found</news:title></news:news>
        </url><url><loc>{app}/b</loc></url></urlset>""".encode()
    merging.options += f'replace = "{app}"\n'
    section = merging.build()
    assert section.problems == {}
    entry, plain = merging.entries()
    assert plain == f"<loc>{SHOP}/b</loc>"
    expected = f"""<xhtml:link rel="alternate" hreflang="en" href="{SHOP}/a"/>
        <xhtml:link rel="alternate" hreflang="de" href="{SHOP}/de/a"/>
        <image:image><image:loc>{SHOP}/a.png</image:loc></image:image>
        <image:image><image:loc>https://cdn.example/b.png</image:loc></image:image>
        <video:video><video:thumbnail_loc>{SHOP}/t.png</video:thumbnail_loc><video:title>Cats</video:title>
        <video:description>What cats do</video:description><video:player_loc>{SHOP}/play</video:player_loc>
        <video:duration>60</video:duration><video:rating>4.5</video:rating><video:view_count>7</video:view_count>
        <video:publication_date>2026-11-30</video:publication_date><video:tag>cat</video:tag><video:tag>dog</video:tag>
        <video:family_friendly>no</video:family_friendly>
        <video:restriction relationship="allow">DE AT</video:restriction>
        <video:requires_subscription>yes</video:requires_subscription>
        <video:uploader info="{SHOP}/us">Us</video:uploader><video:live>no</video:live></video:video>
        <news:news><news:publication><news:name>Times</news:name><news:language>en</news:language></news:publication>
        <news:publication_date>2027-01-15</news:publication_date><news:title>Found</news:title></news:news>"""
    assert entry == f"<loc>{SHOP}/a</loc>{re.sub(chr(10) + ' *', '', expected)}"


def test_what_is_wrong_with_entries_is_counted_with_the_line(merging):
    body = f"<urlset>\n<url></url>\n<url><loc>{SHOP}/a</loc><lastmod>soon</lastmod></url>\n"
    video = "<video:video><video:duration>long</video:duration></video:video>"
    merging.server.answers["/sitemap.xml"] = f"{body}<url><loc>{SHOP}/b</loc>{video}</url></urlset>".replace(
        "<urlset>", URLSET
    ).encode()
    section = merging.build()
    assert merging.listed() == ["/a", "/b"]
    assert merging.problems(section) == {
        "video-location": (1, "''"),
        "loc-missing": (1, "'/sitemap.xml, line 2' (an entry without loc is left out)"),
        "lastmod-form": (
            1,
            "'/sitemap.xml, line 3' (lastmod is not written YYYY-MM-DD or YYYY-MM-DDThh:mm:ssZ: 'soon')",
        ),
    }


# What is fetched again


def test_what_stands_is_asked_for_and_not_fetched_again(merging):
    two(merging.server)
    merging.build()
    assert merging.asked == [("/sitemap", 200), ("/a", 200), ("/b", 200)]
    merging.build()
    assert merging.asked == [("/sitemap", 304), ("/a", 304), ("/b", 304)]
    assert merging.listed() == ["/a", "/b"]


def test_a_sitemap_that_is_no_index_is_asked_for_once(merging):
    merging.server.answers["/sitemap.xml"] = urlset(f"{SHOP}/a")
    merging.build()
    assert merging.asked == [("/sitemap", 200)]
    merging.build()
    assert merging.asked == [("/sitemap", 304)]
    merging.server.answers["/sitemap.xml"] = urlset(f"{SHOP}/b")
    merging.build()
    assert merging.asked == [("/sitemap", 200)]
    assert merging.listed() == ["/b"]


def test_one_that_changed_is_fetched_and_its_sitemap_written(merging):
    two(merging.server)
    before = merging.build().listed
    merging.server.answers["/b.xml"] = urlset(f"{SHOP}/b", f"{SHOP}/new")
    after = merging.build().listed
    assert merging.asked == [("/sitemap", 304), ("/a", 304), ("/b", 200)]
    assert merging.listed() == ["/a", "/b", "/new"]
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False]
    assert [shard.number for shard in after] == [1, 2]


def test_without_validators_the_same_bytes_are_not_read_anew(merging):
    merging.server.has_validators = False
    two(merging.server)
    before = merging.build().listed
    merging.clock.now += 60
    assert merging.build().listed == before
    assert merging.asked == [("/sitemap", 200), ("/a", 200), ("/b", 200)]


def test_what_an_index_says_did_not_change_for_days_is_not_asked_for(merging):
    two(merging.server, OLD, "2027-01-14")  # a day before now
    merging.build()
    merging.build()
    assert merging.asked == [("/sitemap", 304), ("/b", 304)]
    two(merging.server, OLD, OLD)
    merging.build()
    assert merging.asked == [("/sitemap", 200), ("/b", 304)]
    two(merging.server, "2027-01-15", OLD)
    merging.server.answers["/a.xml"] = urlset(f"{SHOP}/new")
    merging.build()
    assert merging.asked == [("/sitemap", 200), ("/a", 200), ("/b", 304)]
    assert merging.listed() == ["/new", "/b"]


def test_a_touch_has_everything_asked_for(merging):
    two(merging.server, OLD, OLD)
    merging.build()
    merging.build(touch=True)
    assert merging.asked == [("/sitemap", 304), ("/a", 304), ("/b", 304)]


def test_after_the_verify_age_everything_is_fetched_again(merging):
    two(merging.server, OLD, OLD)
    merging.build()
    merging.clock.now += 8 * 86_400
    merging.build()
    assert merging.asked == [("/sitemap", 304), ("/a", 200), ("/b", 200)]


def test_other_options_have_everything_fetched_again(merging):
    two(merging.server)
    merging.server.answers["/a.xml"] = urlset("http://www.shop.example/a")
    merging.build()
    merging.options += 'replace = "http://www.shop.example"\n'
    merging.build()
    assert merging.asked == [("/sitemap", 200), ("/a", 200), ("/b", 200)]
    assert merging.listed() == ["/a", "/b"]


def test_sitemaps_come_and_go_with_the_index(merging):
    server = merging.server
    two(server)
    merging.build()
    server.answers |= {
        "/sitemap.xml": index(f"{server.url}/c.xml", f"{server.url}/b.xml"),
        "/c.xml": urlset(f"{SHOP}/c"),
    }
    merging.build()
    assert merging.asked == [("/sitemap", 200), ("/c", 200), ("/b", 304)]
    assert merging.listed() == ["/c", "/b"]


def test_an_index_may_become_a_sitemap_and_the_other_way_round(merging):
    two(merging.server)
    merging.build()
    merging.server.answers["/sitemap.xml"] = urlset(f"{SHOP}/all")
    merging.build()
    assert merging.listed() == ["/all"]
    two(merging.server)
    merging.build()
    assert merging.listed() == ["/a", "/b"]


# What cannot be had


@pytest.mark.parametrize(
    "answer",
    [
        404,
        500,
        b"",
        b"<!DOCTYPE html><html><body>Sorry</body></html>",
        urlset(f"{SHOP}/x")[:-10],
        gzip.compress(urlset(f"{SHOP}/x"))[:-10],
        gzip.compress(b"<urlset>" + b" " * 50_000_000),
        b'<!DOCTYPE urlset [<!ENTITY a "b">]>' + urlset(f"{SHOP}/&a;"),
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + urlset(f"{SHOP}/x")),
        raw(b""),
    ],
)
def test_one_that_fails_keeps_its_last_good_entries_and_the_others_go_on(merging, answer):
    two(merging.server)
    merging.build()
    merging.server.answers |= {"/a.xml": answer, "/b.xml": urlset(f"{SHOP}/new")}
    section = merging.build()
    assert merging.listed() == ["/a", "/new"]
    assert section.error is None
    count, example = merging.problems(section)["remote-stale"]
    assert count == 1
    assert example.startswith("'/a.xml' (since 2027-01-15T08:00:00Z: ")


def test_it_is_told_since_when_until_it_comes_back(merging):
    two(merging.server)
    merging.build()
    merging.server.answers["/a.xml"] = 503
    for _ in range(2):
        merging.clock.now += 3600
        assert merging.problems(merging.build()) == {
            "remote-stale": (1, "'/a.xml' (since 2027-01-15T09:00:00Z: it answers 503 Service Unavailable)")
        }
    merging.server.answers["/a.xml"] = urlset(f"{SHOP}/back")
    assert merging.build().problems == {}
    assert merging.listed() == ["/back", "/b"]


def test_an_index_that_fails_keeps_all_that_it_listed(merging):
    two(merging.server)
    merging.build()
    merging.server.answers["/sitemap.xml"] = 503
    for _ in range(2):
        section = merging.build()
        assert merging.asked == [("/sitemap", 503)]
        assert merging.listed() == ["/a", "/b"]
        assert list(section.problems) == ["remote-stale"]
    two(merging.server)
    merging.build()
    assert merging.asked == [("/sitemap", 304), ("/a", 304), ("/b", 304)]


def test_one_that_cannot_be_had_at_first_is_counted_and_the_others_are_listed(merging):
    two(merging.server)
    merging.server.answers["/a.xml"] = 503
    section = merging.build()
    assert merging.listed() == ["/b"]
    assert merging.problems(section) == {"remote-missing": (1, "'/a.xml' (it answers 503 Service Unavailable)")}
    merging.server.answers["/a.xml"] = urlset(f"{SHOP}/a")
    assert merging.build().problems == {}
    assert merging.listed() == ["/a", "/b"]


def test_one_of_several_addresses_that_cannot_be_had_at_first_leaves_the_others(merging):
    merging.server.answers["/sitemap.xml"] = urlset(f"{SHOP}/a")
    merging.options = merging.options.replace('.xml"', f'.xml", "{merging.server.url}/b.xml?key=sesame"]').replace(
        "url = ", "url = ["
    )
    section = merging.build()
    assert merging.listed() == ["/a"]
    assert merging.problems(section) == {
        "remote-missing": (1, "'/b.xml?…' (since 2027-01-15T08:00:00Z: it answers 404 Not Found)")
    }


def test_an_index_without_sitemaps_is_no_failure(merging):
    two(merging.server)
    merging.build()
    merging.server.answers["/sitemap.xml"] = index()
    for _ in range(2):
        section = merging.build()
        assert (section.error, section.problems, section.count) == (None, {}, 0)


def test_where_nothing_was_ever_had_the_section_fails_and_tells_no_key(merging):
    merging.options = merging.options.replace(".xml", ".xml?key=sesame")
    with pytest.raises(BuildFailed) as caught:
        merging.build()
    address = f"{merging.server.url}/sitemap.xml"
    assert str(caught.value) == f"section 'theirs': FetchFailed: {address}?…: it answers 404 Not Found"


def test_a_host_that_is_down_keeps_what_it_had_and_the_others_go_on(server, merging):
    with RemoteServer() as other:
        others = [f"{other.url}/{number}.xml" for number in range(10)]
        other.answers = {f"/{number}.xml": urlset(f"{SHOP}/{number}") for number in range(10)}
        server.answers = {"/sitemap.xml": index(*others, f"{server.url}/a.xml"), "/a.xml": urlset(f"{SHOP}/a")}
        merging.options += f'hosts = ["127.0.0.1:{other.server_port}"]\n'
        merging.build()
        assert len(other.requests) == 10
    section = merging.build()
    assert merging.asked == [("/sitemap", 304), ("/a", 304)]
    assert section.problems["remote-stale"][0] == 10
    assert section.count == 11


@pytest.mark.parametrize(("pattern", "asked"), [("-", 3), ("--+", 10)])
def test_a_host_that_is_silent_three_times_in_a_row_is_not_asked_again(server, pattern, asked):
    port = server.server_port
    answers = cycle(pattern)
    names: list[str] = []

    def resolve(host: str, port: int, type: int) -> list[Any]:
        names.append(host)
        if host == "b.example" and next(answers) == "-":
            raise socket.gaierror
        return [(socket.AF_INET, type, 0, "", ("127.0.0.1", port))]

    url = f"http://a.example:{port}/sitemap.xml"
    server.answers = {f"/{number}.xml": urlset(f"{SHOP}/{number}") for number in range(0, 10, 2)}
    server.answers["/sitemap.xml"] = index(*[f"http://b.example:{port}/{number}.xml" for number in range(10)])
    fetcher = Fetcher([url], [f"b.example:{port}"], private=True, resolve=resolve)
    for part in RemoteSource("theirs", BaseUrl.parse(SHOP), [url], fetcher).plan(Past(NOW, 10, 10_000)).parts:
        list(part.columns())
    assert names == ["a.example"] + ["b.example"] * asked


def test_an_index_is_fetched_anew_if_not_all_that_it_listed_is_known(server):
    two(server)
    fetcher = Fetcher([server.url], private=True)
    source = RemoteSource("theirs", BaseUrl.parse(SHOP), [f"{server.url}/sitemap.xml"], fetcher)
    plan = source.plan(Past(NOW, 10, 10_000))
    keys = [part.key for part in plan.parts]
    known = tuple(Known(key, None, 1, 100) for key in keys[:2])
    again = source.plan(Past(NOW, 10, 10_000, known, plan.memo))
    assert sorted(part.key for part in again.parts) == sorted(keys)
    assert server.requests == [("/sitemap.xml", 200)] * 2


def test_under_strict_rules_what_cannot_be_had_fails_the_build(merging):
    merging.settings = 'on_error = "raise"\n'
    two(merging.server)
    merging.build()
    merging.server.answers["/a.xml"] = 503
    with pytest.raises(BuildFailed, match=r"remote-stale"):
        merging.build()
    assert merging.listed() == ["/a", "/b"]


# Where sitemaps are fetched from


def test_an_index_leads_to_no_other_host_unless_that_is_named(server, merging):
    with RemoteServer() as other:
        other.answers["/b.xml"] = urlset(f"{SHOP}/b")
        server.answers = {"/sitemap.xml": index(f"{server.url}/a.xml", f"{other.url}/b.xml")}
        server.answers["/a.xml"] = urlset(f"{SHOP}/a")
        section = merging.build()
        assert merging.listed() == ["/a"]
        assert other.requests == []
        assert "is not a place that the configuration names" in section.problems["remote-missing"][1]
        options = merging.options
        merging.options += f'hosts = ["127.0.0.1:{other.server_port}"]\n'
        merging.build()
        assert merging.listed() == ["/a", "/b"]
        merging.options = options
        merging.build()
        assert merging.listed() == ["/a"]


@pytest.mark.parametrize(
    "loc", ["file:///etc/passwd", "ftp://127.0.0.1/a", "http://user:pw@127.0.0.1/", "http://", "a b", "http://["]
)
def test_an_index_leads_to_nothing_that_is_no_sitemap_of_its_host(merging, loc):
    merging.server.answers["/sitemap.xml"] = index(loc, f"{merging.server.url}/a.xml")
    merging.server.answers["/a.xml"] = urlset(f"{SHOP}/a")
    section = merging.build()
    assert merging.listed() == ["/a"]
    assert section.problems["remote-missing"][0] == 1
    assert merging.build().problems["remote-missing"][0] == 1


def test_an_index_in_an_index_is_not_followed(merging):
    two(merging.server)
    merging.server.answers["/a.xml"] = index(f"{merging.server.url}/b.xml")
    section = merging.build()
    assert merging.listed() == ["/b"]
    assert "it is an index, and stands in one" in section.problems["remote-missing"][1]


@pytest.mark.parametrize(("options", "mount"), [("", ""), ('replace = "{}"\nat = "/blog"\n', "/blog")])
def test_an_index_may_name_our_address_for_what_is_beside_it(merging, options, mount):
    two(merging.server)
    merging.server.answers["/sitemap.xml"] = index(f"{SHOP}{mount}/a.xml", f"{SHOP}{mount}/b.xml")
    merging.options += options.format(merging.server.url)
    merging.build()
    assert merging.listed() == ["/a", "/b"]


def test_a_private_address_is_fetched_from_only_if_that_is_said(merging):
    two(merging.server)
    merging.options = merging.options.replace("private = true\n", "")
    with pytest.raises(BuildFailed, match=r"127\.0\.0\.1 is at no public address; private = true allows others"):
        merging.build()
    assert merging.server.requests == []


def test_what_was_only_planned_is_fetched_when_somebody_asks_for_it(server):
    two(server)
    fetcher = Fetcher([server.url], private=True)
    source = RemoteSource("theirs", BaseUrl.parse(SHOP), [f"{server.url}/sitemap.xml"], fetcher)
    plan = source.plan(Past(NOW, 10, 10_000))
    keys = [part.key for part in plan.parts]
    assert server.requests == [("/sitemap.xml", 200)]
    with closing(source.part(keys[1], keys[2])) as part:  # type: ignore[type-var]
        assert [loc for columns in part.columns() for loc in columns.locs] == [f"{SHOP}/a"]
        assert part.version() is not None
    assert list(source.part(keys[0], keys[1]).columns()) == []


def test_memory_does_not_grow_with_the_sitemap(server):
    locs = (f"<url><loc>{SHOP}/{number:060}</loc></url>" for number in range(40_000))
    server.answers["/sitemap.xml"] = f"{URLSET}{''.join(locs)}</urlset>".encode()
    fetcher = Fetcher([server.url], private=True)
    source = RemoteSource("theirs", BaseUrl.parse(SHOP), [f"{server.url}/sitemap.xml"], fetcher)
    tracemalloc.start()
    try:
        parts = source.plan(Past(NOW, 10, 10_000)).parts
        assert sum(len(columns.locs) for part in parts for columns in part.columns()) == 40_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3_000_000


def test_a_server_that_takes_its_time_for_each_does_not_hold_up_the_rest(server):
    two(server)
    fetcher = Fetcher([server.url], private=True)
    urls = [f"{server.url}/sitemap.xml"]
    # Each look at it takes longer than half of what all may take.
    monotonic = count(0.0, PATIENCE * 0.4).__next__
    source = RemoteSource("theirs", BaseUrl.parse(SHOP), urls, fetcher, monotonic=monotonic)
    locs = [
        loc for part in source.plan(Past(NOW, 10, 10_000)).parts for columns in part.columns() for loc in columns.locs
    ]
    assert locs[0] == f"{SHOP}/a"
    assert "since all before it took too long" in str(locs[1])


def test_a_section_may_have_been_one_of_another_kind(merging, tmp_path):
    engine = sa.create_engine(f"sqlite:///{tmp_path}/shop.db", poolclass=sa.NullPool)
    with closing(engine.raw_connection()) as connection:
        connection.execute("CREATE TABLE pages AS SELECT 1 AS id")
    address = f'[databases]\nshop = "sqlite:///{tmp_path}/shop.db"\n'
    kinds = [
        (merging.options, "/a"),
        (f'database = "shop"\ntable = "pages"\nkey = "id"\nloc = "/{{id}}"\n{address}', "/1"),
        (merging.options, "/a"),
    ]
    merging.server.answers["/sitemap.xml"] = urlset(f"{SHOP}/a")
    for merging.options, path in kinds:
        merging.type = "sql" if "table" in merging.options else "sitemap"
        assert merging.build().error is None
        assert merging.listed() == [path]


# Options


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("", "sections.theirs.url is missing"),
        ("url = []", "sections.theirs.url must be text, or a list of texts"),
        ('url = "/sitemap.xml"', "sections.theirs.url: cannot be fetched: a URL starts with http:// or https://"),
        ('url = "https://u:p@a.example/"', "sections.theirs.url: cannot be fetched: a loc carries no user name"),
        ('url = "https://a.example/"\nreplace = "a.example"', "sections.theirs.replace: base URL 'a.example': it must"),
        ('url = "https://a.example/"\nat = "/a"', "sections.theirs: at is for addresses that get the base URL"),
        ('url = "https://a.example/"\nhosts = ["http://b"]', "sections.theirs.hosts: 'http://b' is no host"),
        ('url = "https://a.example/"\ntimeout = 0', "sections.theirs.timeout must be a whole number of at least 1"),
        ('urls = ["https://a.example/"]', "sections.theirs.urls is unknown; did you mean 'url'?"),
    ],
)
def test_what_is_wrong_with_the_options_is_told_at_the_start(merging, options, told):
    merging.options = options
    with pytest.raises(ConfigurationError, match=re.escape(told)):
        merging.configuration()


def test_the_sitemap_of_the_site_itself_is_not_merged_into_it(merging):
    merging.options = f'url = "{SHOP}/sitemap.xml"\n'
    with pytest.raises(BuildFailed, match="is the sitemap that this section would be in"):
        merging.build()
