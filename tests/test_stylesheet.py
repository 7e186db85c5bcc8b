"""The stylesheet of XML sitemaps: how it is served and exported, and what people see by it in a browser."""

from __future__ import annotations

import gzip
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from flask import Flask, Response
from werkzeug.serving import make_server
from werkzeug.test import Client

from flask_sitemapx import Registry, Sitemap, SitemapMiddleware
from flask_sitemapx.protocol.documents import LEGACY_NAMESPACE, NAMESPACE
from flask_sitemapx.protocol.elements import KNOWN
from flask_sitemapx.serving.stylesheet import STYLESHEET
from flask_sitemapx.tools.export import Exported, export
from tests.browser import Browser

LARGE = 50_000
LONG = "https://shop.example/" + "long_" * 60
TITLE = "شمس اليوم (Reuters) أشرقت!"


def shop(**config: Any) -> tuple[Flask, Sitemap]:
    app = Flask("shop")
    app.config.update({"SITEMAP_BASE_URL": "https://shop.example", **config})
    app.add_url_rule("/", "home", lambda: "home")
    return app, Sitemap(app)


# How it is served


@pytest.fixture(params=["in front", "behind hooks", "middleware"])
def client(request) -> Client:
    if request.param == "middleware":
        registry = Registry()
        registry.section("pages")(lambda: iter(["/about"]))
        return Client(SitemapMiddleware(Flask("other"), registry, base_url="https://shop.example"))
    return shop(SITEMAP_HOOKS=request.param == "behind hooks")[0].test_client()


def test_it_is_beside_the_sitemaps_that_name_it(client):
    (href,) = re.findall(
        r'^<\?xml-stylesheet type="text/css" href="([^"]+)"\?>$', client.get("/sitemap.xml").text, re.MULTILINE
    )
    answer = client.get(f"/{href}")
    assert answer.text == STYLESHEET
    assert answer.headers["Content-Type"] == "text/css; charset=utf-8"
    assert answer.headers["Content-Length"] == str(len(STYLESHEET.encode()))


def test_it_is_packed_for_those_who_can_unpack(client):
    answer = client.get("/sitemap.css", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["Content-Encoding"] == "gzip"
    assert answer.headers["Vary"] == "Accept-Encoding"
    assert gzip.decompress(answer.data).decode() == STYLESHEET
    assert answer.data[4:8] == bytes(4)  # no time, so that all workers send the same
    assert answer.headers["ETag"] != client.get("/sitemap.css").headers["ETag"]


@pytest.mark.parametrize("coding", ["gzip", "identity"])
def test_it_is_not_sent_to_those_who_have_it(client, coding):
    headers = {"Accept-Encoding": coding}
    etag = client.get("/sitemap.css", headers=headers).headers["ETag"]
    answer = client.get("/sitemap.css", headers={**headers, "If-None-Match": etag})
    assert (answer.status_code, answer.data, answer.headers["ETag"]) == (304, b"", etag)


def test_head_tells_its_length_and_other_methods_are_refused(client):
    answer = client.head("/sitemap.css")
    assert (answer.headers["Content-Length"], answer.data) == (str(len(STYLESHEET.encode())), b"")
    assert client.post("/sitemap.css").status_code == 405
    assert client.get("/sitemap.css", headers={"Accept-Encoding": "identity;q=0"}).status_code == 406


def test_it_may_be_kept_for_a_week(client):
    assert client.get("/sitemap.css").headers["Cache-Control"].startswith("public, max-age=604800")


@pytest.mark.parametrize("hooks", [False, True])
@pytest.mark.parametrize("name", ["none", "/static/own.css"])
def test_it_is_not_served_where_no_sitemap_names_it(name, hooks):
    app, _ = shop(SITEMAP_STYLESHEET=name, SITEMAP_HOOKS=hooks)
    assert app.test_client().get("/sitemap.css").status_code == 404
    app, _ = shop(SITEMAP_STYLESHEET=name, SITEMAP_HOOKS=hooks)
    app.add_url_rule("/<name>", "any", lambda name: f"the page {name}")
    assert app.test_client().get("/sitemap.css").text == "the page sitemap.css"


@pytest.mark.parametrize("hooks", [False, True])
def test_a_stylesheet_of_the_application_is_left_alone(hooks):
    app, _ = shop(SITEMAP_HOOKS=hooks)
    app.add_url_rule("/sitemap.css", "own", lambda: "own")
    assert app.test_client().get("/sitemap.css").text == "own"


def test_it_is_exported_with_the_sitemaps_that_name_it_and_removed_when_they_name_another(tmp_path):
    exported(tmp_path)
    assert (tmp_path / "sitemap.css").read_text("utf-8") == STYLESHEET
    assert "sitemap.css" in exported(tmp_path).unchanged
    assert exported(tmp_path, SITEMAP_STYLESHEET="/static/sitemap.css").removed == ["sitemap.css"]
    assert not (tmp_path / "sitemap.css").exists()


def exported(directory: Path, **config: Any) -> Exported:
    app, _ = shop(**config)
    refresher = app.extensions["sitemapx"].refresher()
    return export(refresher.build(), directory, refresher.blob)


def test_it_is_small_and_needs_nothing_from_elsewhere():
    assert len(STYLESHEET.encode()) < 6_000
    assert "url(" not in STYLESHEET
    assert "@import" not in STYLESHEET


# What people see


def urlset(entries: str, namespace: str = NAMESPACE) -> str:
    declared = "".join(one.declaration for one in KNOWN.values())
    return f'<urlset xmlns="{namespace}"{declared}>{entries}</urlset>'


VIDEO = {
    "thumbnail_loc": "https://cdn.example/lamp.jpg",
    "title": "How a lamp is made",
    "description": "From the first sketch to the last screw.",
    "content_loc": "https://cdn.example/lamp.mp4",
    "player_loc": "https://cdn.example/lamp",
    "duration": "600",
    "expiration_date": "2027-01-01",
    "rating": "4.2",
    "view_count": "1234",
    "publication_date": "2026-01-01",
    "tag": "lamps",
    "family_friendly": "yes",
    'restriction relationship="allow"': "DE AT CH",
    "requires_subscription": "no",
    'uploader info="https://shop.example/ann"': "Ann",
    'platform relationship="deny"': "tv",
    "live": "no",
}
VIDEO_ELEMENT = "".join(f"<video:{tag}>{text}</video:{tag.split()[0]}>" for tag, text in VIDEO.items())
ENTRIES = f"""
<url><loc>https://shop.example/</loc></url>
<url><loc>https://shop.example/about</loc><lastmod>2026-01-05</lastmod><changefreq>weekly</changefreq>
<priority>0.8</priority></url>
<url><loc>https://shop.example/en/lamp</loc><lastmod>2026-02-01T10:30:00+02:00</lastmod>
<xhtml:link rel="alternate" hreflang="de" href="https://shop.example/de/lampe"/>
<xhtml:link rel="alternate" hreflang="x-default" href="{LONG}lamp"/>
<image:image><image:loc>https://cdn.example/lamp-1.png</image:loc></image:image>
<image:image><image:loc>https://cdn.example/lamp-2.png</image:loc></image:image></url>
<url><loc>https://shop.example/film</loc><lastmod>2026-02-02</lastmod><video:video>{VIDEO_ELEMENT}</video:video></url>
<url><loc>https://shop.example/news</loc><news:news><news:publication><news:name>صحيفة</news:name>
<news:language>ar</news:language></news:publication><news:publication_date>2026-02-03</news:publication_date>
<news:title>{TITLE}</news:title></news:news></url>
<url><loc>{LONG}end</loc><lastmod>2026-02-04</lastmod></url>
"""
LABELLED = [
    ("changefreq", "weekly"),
    ("priority", "0.8"),
    ("alternate de", "https://shop.example/de/lampe"),
    ("alternate x-default", f"{LONG}lamp"),
    ("image", "https://cdn.example/lamp-1.png"),
    ("thumbnail", "https://cdn.example/lamp.jpg"),
    ("title", "How a lamp is made"),
    ("description", "From the first sketch to the last screw."),
    ("file", "https://cdn.example/lamp.mp4"),
    ("player", "https://cdn.example/lamp"),
    ("seconds", "600"),
    ("expires", "2027-01-01"),
    ("rating", "4.2"),
    ("views", "1234"),
    ("published", "2026-01-01"),
    ("tag", "lamps"),
    ("family friendly", "yes"),
    ("allow in", "DE AT CH"),
    ("subscription", "no"),
    ("uploader", "Ann"),
    ("deny on", "tv"),
    ("live", "no"),
    ("publication", "صحيفة"),
    ("language", "ar"),
    ("title", TITLE),
]


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The address of a site that has sitemaps of its own, and others beside them, under a strict policy."""
    app, sitemap = shop(SITEMAP_BASE_URL=None, SITEMAP_MAX_URLS=2, SITEMAP_HOOKS=True)
    sitemap.section("pages")(lambda: ({"loc": f"/{number}", "lastmod": "2026-01-01"} for number in range(4)))
    plain = (
        f"<url><loc>https://shop.example/lamp-{number}</loc><lastmod>2026-01-01</lastmod></url>\n"
        for number in range(LARGE)
    )
    documents = {
        "rich": urlset(ENTRIES),
        "legacy": urlset(ENTRIES, LEGACY_NAMESPACE),
        "one": urlset("<url><loc>https://shop.example/</loc></url>"),
        "large": urlset("".join(plain)),
    }

    @app.get("/<name>.xml")
    def document(name: str) -> Response:
        style = '<?xml-stylesheet type="text/css" href="sitemap.css"?>'
        return Response(f'<?xml version="1.0"?>{style}{documents[name]}', content_type="application/xml")

    @app.after_request
    def guarded(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = "default-src 'none'; style-src 'self'"
        return response

    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


class Shown(NamedTuple):
    """A text on the page, and where it is."""

    text: str
    left: float
    top: float
    width: float
    height: float


def shown(browser: Browser) -> list[Shown]:
    """The texts that are laid out, among them those that the stylesheet adds."""
    browser.painted()
    snapshot = browser.call("DOMSnapshot.captureSnapshot", computedStyles=[])
    strings, layout = snapshot["strings"], snapshot["documents"][0]["layout"]
    texts = [strings[text].strip() if text >= 0 else "" for text in layout["text"]]
    return [Shown(text, *bounds) for text, bounds in zip(texts, layout["bounds"], strict=True) if text]


def opened(browser: Browser, url: str, width: int, height: int = 4_000) -> list[Shown]:
    browser.open(url, width, height=height)
    return shown(browser)


def counts(texts: list[Shown]) -> str:
    """The line below the title."""
    (first,) = (one for one in texts if one.text in ("URLs:", "Sitemaps:"))
    line = sorted((one for one in texts if one.top == first.top), key=lambda one: one.left)
    return " ".join(one.text for one in line).replace(" ,", ",")


ALL = "URLs: 6, with images: 1, with alternates: 1, with videos: 1, with news: 1"


@pytest.mark.browser
@pytest.mark.parametrize(
    ("path", "title", "line"),
    [
        ("/rich.xml", "Sitemap", ALL),
        ("/legacy.xml", "Sitemap", ALL),
        ("/one.xml", "Sitemap", "URLs: 1"),
        ("/sitemap.xml", "Sitemap index", "Sitemaps: 3"),
        ("/sitemap-pages-1.xml", "Sitemap", "URLs: 2"),
    ],
)
def test_a_sitemap_has_a_title_and_counts(browser, site, path, title, line):
    texts = opened(browser, f"{site}{path}", 1280)
    assert texts[0].text == title
    assert counts(texts) == line


@pytest.mark.browser
@pytest.mark.parametrize("path", ["/rich.xml", "/sitemap.xml"])
def test_on_a_desktop_locs_and_dates_are_numbered_rows_of_columns_with_heads(browser, site, path):
    texts = opened(browser, f"{site}{path}", 1280)
    url, modified = (next(one for one in texts if one.text == head) for head in ("URL", "Last modified"))
    rows = [one.top for one in texts if one.text.startswith("http") and one.left == url.left and one.height < 30]
    assert len(rows) >= 3
    assert min(rows) > url.top == modified.top
    dates = [one for one in texts if re.match("20", one.text) and one.left == modified.left]
    assert dates
    assert {one.top for one in dates} & {*rows}
    assert [one.text for one in texts if one.left < url.left - 10 and one.text.isdigit()] == [
        str(number + 1) for number in range(3 if path == "/sitemap.xml" else 6)
    ]


@pytest.mark.browser
def test_what_belongs_to_an_entry_has_a_label_beside_it(browser, site):
    texts = opened(browser, f"{site}/rich.xml", 1280)
    beside = [
        (label.text, value.text)
        for label in texts
        for value in texts
        if 0 < value.left - label.left - label.width < 150 and abs(value.top - label.top) < 5
    ]
    assert [pair for pair in LABELLED if pair not in beside] == []
    assert any(one.text == "https://shop.example/ann" for one in texts)


@pytest.mark.browser
def test_on_a_phone_everything_is_stacked_and_labelled(browser, site):
    texts = opened(browser, f"{site}/rich.xml", 360)
    (about,) = (one for one in texts if one.text.endswith("/about"))
    (date,) = (one for one in texts if one.text == "2026-01-05")
    assert date.top > about.top
    assert any(one.text == "last modified" and abs(one.top - date.top) < 5 for one in texts)
    assert not {"URL", "Last modified"} & {one.text for one in texts}


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("path", ["/rich.xml", "/sitemap.xml"])
def test_it_fits_a_phone_and_a_desktop_in_both_schemes(browser, site, path, width, scheme):
    browser.prefers(scheme)
    texts = opened(browser, f"{site}{path}", width)
    assert all(one.left >= 0 and one.left + one.width <= width for one in texts)
    root = "document.documentElement"
    assert browser.value(f"{root}.scrollWidth") <= browser.value(f"{root}.clientWidth") <= width
    paper = browser.value(f"getComputedStyle({root}).backgroundColor")
    assert paper == {"light": "rgb(247, 248, 248)", "dark": "rgb(17, 22, 24)"}[scheme]


@pytest.mark.browser
@pytest.mark.parametrize("width", [360, 1280])
def test_no_text_lies_upon_another(browser, site, width):
    texts = [one for one in opened(browser, f"{site}/rich.xml", width) if not one.text.isdigit()]  # which begin lines
    pairs = ((one, other) for place, one in enumerate(texts) for other in texts[:place])
    assert [pair for pair in pairs if overlap(*pair)] == []


def overlap(one: Shown, other: Shown) -> bool:
    is_beside = one.left + one.width <= other.left + 1 or other.left + other.width <= one.left + 1
    return not (is_beside or one.top + one.height <= other.top + 4 or other.top + other.height <= one.top + 4)


@pytest.mark.browser
def test_a_real_phone_which_takes_it_for_wide_shows_it_large(browser, site):
    browser.open(f"{site}/rich.xml", 360, mobile=True, screenWidth=360, screenHeight=800)
    assert browser.value("innerWidth") == 980  # or it would be no test
    (about,) = (one for one in shown(browser) if one.text.endswith("/about"))
    assert about.height * 360 / 980 > 14  # as high a line as one of 13 pixels or more


@pytest.mark.browser
@pytest.mark.parametrize("width", [360, 1280])
def test_a_title_is_written_in_its_own_direction(browser, site, width):
    opened(browser, f"{site}/rich.xml", width)
    edge = "(range.setStart(node, {0}), range.setEnd(node, {0} + 1), range.getBoundingClientRect().left)"
    first, last = edge.format(0), edge.format(len(TITLE) - 1)
    node = "let range = document.createRange(), node = document.querySelector('news > title').firstChild"
    assert browser.value(f"(() => {{ {node}; return {last} < {first} }})()")


@pytest.mark.browser
def test_on_paper_it_is_black_on_white_with_all_entries(browser, site):
    browser.prefers("dark")
    browser.open(f"{site}/rich.xml", 1280)
    browser.call("Emulation.setEmulatedMedia", media="print")
    try:
        style = "getComputedStyle(document.querySelector('{}')).{}"
        assert browser.value(style.format("url", "contentVisibility")) == "visible"
        assert browser.value(style.format("urlset", "backgroundColor")) == "rgb(255, 255, 255)"
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")


@pytest.mark.browser
@pytest.mark.parametrize("width", [360, 1280])
def test_of_the_largest_sitemap_only_what_is_in_sight_is_laid_out(browser, site, width):
    texts = opened(browser, f"{site}/large.xml", width, height=800)
    assert counts(texts) == "URLs: 50000"
    assert 10 < len(texts) < 500
    browser.value("scrollTo(0, 1e9)")
    assert any(one.text == f"https://shop.example/lamp-{LARGE - 1}" for one in shown(browser))
