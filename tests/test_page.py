"""The pages for people at `/sitemap`: what they show, refuse and escape, and how they look in a browser."""

from __future__ import annotations

import logging
import re
import threading
import tracemalloc
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import lxml.html
import pytest
from flask import Flask
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.serving import make_server
from werkzeug.test import Client

from flask_sitemapx import Registry, Sitemap, SitemapMiddleware
from flask_sitemapx.serving import page as page_module

ORIGIN = "https://shop.example"
HOSTILE = "<script>alert(1)</script>\"'&"
LARGE = 50_000


def shop(**config: Any) -> tuple[Flask, Sitemap]:
    app = Flask("shop")
    app.config.update({"SITEMAP_BASE_URL": ORIGIN, "SITEMAP_HTML": True, "SITEMAP_BUILD_WAIT": 60, **config})
    app.add_url_rule("/", "home", lambda: "home")
    return app, Sitemap(app)


def with_products(count: int, **config: Any) -> Flask:
    app, sitemap = shop(**config)

    @sitemap.section("products")
    def products():
        for number in range(count):
            yield {"loc": f"/lamp-{number}?a=1&b=2", "lastmod": f"2026-{number % 3 + 1:02}-01"}

    return app


def opened(app: Flask, query: str = "") -> Any:
    answer = app.test_client().get(f"/sitemap{query}")
    assert answer.status_code == 200, answer.text
    return lxml.html.document_fromstring(answer.text)


def text(element: Any) -> str:
    return " ".join(element.text_content().split())


def locs(document: Any) -> list[str]:
    return [link.get("href") for link in document.xpath("//td[@class='loc']/a")]


# Where it is to be found


def test_it_is_off_unless_asked_for():
    app, _ = shop(SITEMAP_HTML=None)
    assert app.test_client().get("/sitemap").status_code == 404


def test_it_is_always_on_in_debug():
    app, _ = shop(SITEMAP_HTML=None, DEBUG=True)
    assert "Sitemap of https://shop.example" in text(opened(app))


def test_while_it_is_off_the_application_is_asked_as_if_we_were_not_there():
    app, _ = shop(SITEMAP_HTML=None)
    app.add_url_rule("/<name>", "named", lambda name: f"the page {name}", methods=["GET", "POST"])
    assert app.test_client().get("/sitemap").text == "the page sitemap"
    assert app.test_client().post("/sitemap").text == "the page sitemap"


@pytest.mark.parametrize(("rule", "html", "level"), [("/sitemap", True, "WARNING"), ("/sitemap/", None, "INFO")])
def test_a_page_of_the_application_is_left_alone_and_that_is_said_once(caplog, rule, html, level):
    app, _ = shop(SITEMAP_HTML=html, DEBUG=True)
    app.add_url_rule(rule, "own", lambda: "my own")
    with caplog.at_level(logging.INFO, "flask_sitemapx"):
        for _ in range(2):
            assert app.test_client().get("/sitemap", follow_redirects=True).text == "my own"
    said = [
        (record.levelname, record.getMessage()) for record in caplog.records if "/sitemap is" in record.getMessage()
    ]
    assert said == [(level, "sitemap: /sitemap is left to the application's 'own'")]


def test_it_goes_before_a_rule_that_takes_any_path():
    app, _ = shop()
    app.add_url_rule("/<path:path>", "any", lambda path: path)
    assert "Sitemap of" in text(opened(app))


def test_behind_the_hooks_of_the_application_it_can_be_guarded():
    app, _ = shop(SITEMAP_HOOKS=True)
    assert "Sitemap of" in text(opened(app))
    app, _ = shop(SITEMAP_HOOKS=True)
    app.before_request(lambda: ("who are you?", 401))
    assert app.test_client().get("/sitemap").status_code == 401


def test_a_middleware_serves_it_too():
    registry = Registry()
    registry.section("pages")(lambda: iter(["/about"]))
    application = SitemapMiddleware(Flask("other"), registry, base_url=f"{ORIGIN}/sub", html=True)
    answer = Client(application).get("/sub/sitemap?section=pages&shard=1")
    assert locs(lxml.html.document_fromstring(answer.text)) == [f"{ORIGIN}/sub/about"]


# How it answers


def test_it_is_for_no_cache_and_no_index():
    answer = shop()[0].test_client().get("/sitemap")
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Robots-Tag"] == "noindex"
    document = lxml.html.document_fromstring(answer.text)
    assert document.xpath("//meta[@name='robots']/@content") == ["noindex"]


def test_head_tells_the_length_and_other_methods_are_refused():
    client = with_products(2).test_client()
    answer = client.head("/sitemap?section=products")
    assert answer.status_code == 200
    assert int(answer.headers["Content-Length"]) > 1_000
    assert answer.data == b""
    assert client.post("/sitemap").status_code == 405


@pytest.mark.parametrize("query", ["", "?section=products", "?section=products&shard=1&q=lamp", "?section=none"])
def test_its_policy_allows_the_one_style_and_no_script(query):
    answer = with_products(3).test_client().get(f"/sitemap{query}")
    document = lxml.html.document_fromstring(answer.text)
    (style,) = re.findall("<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'; ")
    assert not document.xpath("//script | //@style | //@*[starts-with(name(), 'on')] | //link | //img")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("section=nothing", 404),
        ("section=products&shard=99", 404),
        ("section=products&page=2", 404),
        ("section=products&shard=1&page=2", 404),
        ("section=products&shard=0", 400),
        ("section=products&shard=01", 400),
        ("section=products&shard=-1", 400),
        ("section=products&shard=%D9%A1", 400),
        ("section=products&shard=" + "9" * 5_000, 400),
        ("section=products&page=x", 400),
        ("section=products&section=products", 400),
        ("section=products&q=a", 400),
        ("shard=1", 400),
        ("other=1", 400),
        ("section=products&shard=1&q=" + "a" * 201, 400),
        ("&".join("q=" for _ in range(50)), 400),
        ("section=%FF%00", 404),
    ],
)
def test_what_a_query_string_cannot_ask_for_is_refused_by_a_page(query, status):
    answer = with_products(3).test_client().get(f"/sitemap?{query}")
    assert answer.status_code == status
    assert answer.headers["X-Robots-Tag"] == "noindex"
    assert lxml.html.document_fromstring(answer.text).xpath("//nav/a/@href") == ["sitemap"]


# What it shows


def test_the_overview_tells_sections_counts_sizes_and_freshness():
    app = with_products(250, SITEMAP_MAX_URLS=100)
    shown = text(opened(app))
    assert "fresh" in shown
    assert "URLs 251" in shown
    assert "of 100 URLs" in shown
    assert "of 50.0 MiB" in shown
    assert "Sitemaps by month of their last change 2026-03; most: 2026-03," in shown
    (row,) = opened(app).xpath("//tr[td/a/@href='?section=products']")
    assert row.xpath("td[@data-label='URLs']/text()") == ["250"]


def test_the_size_of_a_document_is_that_which_is_sent():
    app, _ = shop(SITEMAP_BASE_URL=None)
    document = app.test_client().get("/sitemap-routes-1.xml")
    assert f"{len(document.data)} B" in text(opened(app, "?section=routes"))


def test_what_was_left_out_is_told_with_its_rule_and_an_example():
    app, sitemap = shop(SITEMAP_BASE_URL=None)
    sitemap.section("bad")(lambda: iter(["/a#b", "/c#d", "/e", "/e"]))
    for query in ("", "?section=bad", "?section=bad&shard=1"):
        shown = text(opened(app, query))
        assert "loc-fragment 2 '/a#b'" in shown
        assert "duplicate 1 'http://localhost/e'" in shown


def test_a_section_that_fails_is_told_with_its_error():
    app, sitemap = shop()
    fails: list[bool] = []

    @sitemap.section("articles")
    def articles():
        yield "/a"
        if fails:
            raise RuntimeError(HOSTILE)

    opened(app)
    fails.append(True)
    sitemap.touch("articles", app)
    for query in ("", "?section=articles"):
        assert HOSTILE in text(opened(app, query))


def test_without_a_set_it_tells_why_there_is_none():
    app, sitemap = shop()
    sitemap.section("articles")(lambda: 1 / 0)
    assert "There is no sitemap yet." in text(opened(app))
    assert "division by zero" in text(opened(app))
    assert app.test_client().get("/sitemap?section=articles").status_code == 503


def test_a_site_with_nothing_to_list_has_a_page():
    app, _ = shop(SITEMAP_ROUTES="marked")
    assert "There is nothing to list." in text(opened(app))


def test_all_links_lead_somewhere_under_a_mount():
    app, sitemap = shop(SITEMAP_BASE_URL=None, SITEMAP_MAX_URLS=100)
    sitemap.section("pages")(lambda: (f"/p{number}" for number in range(450)))
    client = Client(DispatcherMiddleware(Flask("root"), {"/sub": app}))
    seen, waiting = set(), ["/sub/sitemap"]
    while waiting:
        url = waiting.pop()
        seen.add(url)
        answer = client.get(url)
        assert answer.status_code == 200, url
        if answer.mimetype == "text/html":
            document = lxml.html.document_fromstring(answer.text, base_url=f"http://localhost{url}")
            document.make_links_absolute()
            links = {
                link.removeprefix("http://localhost") for link in document.xpath("//a[not(@rel='noreferrer')]/@href")
            }
            waiting += links - seen - {*waiting}
    assert {"/sub/sitemap.xml", "/sub/sitemap-pages-1.xml", "/sub/sitemap?section=pages&shard=1"} <= seen


def test_the_sitemaps_of_a_section_come_in_pages():
    app, sitemap = shop()
    sitemap.section("many", shards=lambda: {f"{number}": "1" for number in range(250)})(lambda key: iter([f"/{key}"]))
    rows = [
        len(opened(app, f"?section=many&page={page}").xpath("//td/a[starts-with(., 'many-')]")) for page in (1, 2, 3)
    ]
    assert rows == [100, 100, 50]
    assert "131 more are not drawn" in text(opened(app))  # with the one of the routes
    assert opened(app, "?section=many&page=2").xpath("//a[@rel]/@href") == ["?section=many", "?section=many&page=3"]


def test_the_entries_of_a_sitemap_come_in_pages_each_once_and_in_order():
    app = with_products(250)
    pages = [locs(opened(app, f"?section=products&shard=1&page={page}")) for page in (1, 2, 3)]
    assert [len(page) for page in pages] == [100, 100, 50]
    assert [loc for page in pages for loc in page] == [f"{ORIGIN}/lamp-{number}?a=1&b=2" for number in range(250)]


def test_a_search_finds_part_of_a_loc_in_pages_that_keep_it():
    app = with_products(2_000)
    document = opened(app, "?section=products&shard=1&q=LAMP-1&page=2")
    assert "1,111 of 2,000 URLs hold “LAMP-1”" in text(document)
    assert "?section=products&shard=1&page=3&q=LAMP-1" in document.xpath("//a[@rel='next']/@href")
    assert document.xpath("//input[@name='q']/@value") == ["LAMP-1"]
    assert all("/lamp-1" in loc for loc in locs(document))


@pytest.mark.parametrize("q", ["größe", "gr%C3%B6", "a=1&b"])
def test_a_search_goes_by_what_people_type_and_by_what_stands_there(q):
    app, sitemap = shop()
    sitemap.section("pages")(lambda: iter(["/größe?a=1&b=2", "/other"]))
    client = app.test_client()
    answer = client.get("/sitemap", query_string={"section": "pages", "shard": "1", "q": q})
    assert locs(lxml.html.document_fromstring(answer.text)) == [f"{ORIGIN}/gr%C3%B6%C3%9Fe?a=1&b=2"]


def test_a_loc_in_percents_is_shown_readable_too_unless_it_would_turn_the_text():
    app, sitemap = shop()
    sitemap.section("pages")(lambda: iter(["/مقالات", "/a%E2%80%AEb", "/%FF"]))
    document = opened(app, "?section=pages&shard=1")
    assert document.xpath("//bdi[@class='muted']/text()") == [f"{ORIGIN}/مقالات"]


def test_the_origin_is_put_in_where_the_request_names_it():
    app, _ = shop(SITEMAP_BASE_URL=None)
    answer = app.test_client().get("/sitemap?section=routes&shard=1", base_url="http://one.example")
    assert locs(lxml.html.document_fromstring(answer.text)) == ["http://one.example/"]
    assert "\0" not in answer.text


def test_the_months_of_lastmod_are_drawn_with_the_gaps_between_them():
    app, sitemap = shop()
    dates = ["2025-11-02", "2026-02-01", "2026-02-03", None, "1999-01-01", "9999-01-01"]
    sitemap.section("pages")(lambda: ({"loc": f"/{n}", "lastmod": date} for n, date in enumerate(dates)))
    (figure,) = opened(app, "?section=pages&shard=1").xpath("//figure")
    titles = figure.xpath(".//rect/title/text()")
    assert titles[-4:] == ["2025-11: 1", "2025-12: 0", "2026-01: 0", "2026-02: 2"]
    assert len(titles) == page_module.MAX_BARS
    assert "1 without a date, 1 before 2016-03, 1 in the future" in text(figure)


@pytest.mark.parametrize("query", ["?section=pages&shard=1&q=", "?section=", "?q="])
def test_what_comes_from_elsewhere_is_escaped(query):
    app, sitemap = shop()
    sitemap.section("pages")(lambda: iter([f"/{HOSTILE}", f"/#{HOSTILE}"]))
    answer = app.test_client().get(f"/sitemap{query}{HOSTILE.replace('&', '%26')}")
    assert "<script" not in answer.text
    document = lxml.html.document_fromstring(answer.text)
    assert not document.xpath("//script")
    if query.startswith("?section=pages"):
        assert document.xpath("//input[@name='q']/@value") == [HOSTILE]


def test_no_request_grows_anything_and_a_search_holds_no_document():
    app = with_products(LARGE, SITEMAP_MAX_URLS=LARGE)
    client = app.test_client()

    def search(number: int) -> None:
        assert client.get(f"/sitemap?section=products&shard=1&q=lamp-{number}").status_code == 200

    search(0)
    tracemalloc.start()
    try:
        search(1)
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for number in range(2, 8):
            search(number)
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 100_000
    assert peak - before < 3_000_000  # of a document of 4 MB in XML, and much more as objects


# In a browser


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    app, sitemap = shop(SITEMAP_BASE_URL=None, SITEMAP_MAX_URLS=LARGE)

    @sitemap.section("products")
    def products():
        for number in range(LARGE // 2 - 1):  # where the first document may end
            yield {"loc": f"/{'long-' * 30}lamp-{number}", "lastmod": f"20{number % 20 + 10}-01-01"}

    @sitemap.section("whole", shards=lambda: {"one": "1"})
    def whole(key):
        for number in range(LARGE):
            yield {"loc": f"/مقالات/{number}", "lastmod": "2026-01-01"}

    sitemap.section("bad")(lambda: iter([f"/#{HOSTILE}", "/" + "x" * 300]))
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/sitemap"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("query", ["", "?section=bad", "?section=bad&shard=1", "?section=products&shard=1", "?no=1"])
def test_a_page_fits_a_phone_and_a_desktop_in_both_schemes(browser, site, query, width, scheme):
    browser.prefers(scheme)
    browser.open(f"{site}{query}", width)
    assert browser.value("document.styleSheets[0].cssRules.length") > 10  # the policy lets the style through
    root = "document.documentElement"
    assert browser.value(f"{root}.scrollWidth") <= browser.value(f"{root}.clientWidth") <= width
    overflowing = (
        "[...document.querySelectorAll('dl > div, figure, td')].filter(e => e.scrollWidth > e.clientWidth + 1)"
    )
    assert browser.value(f"{overflowing}.length") == 0
    paper = browser.value("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(247, 248, 248)", "dark": "rgb(17, 22, 24)"}[scheme]


@pytest.mark.browser
def test_without_javascript_a_form_searches_the_largest_sitemap(browser, site):
    browser.open(f"{site}?section=whole", 360)
    path = browser.value("document.querySelector('td a').getAttribute('href')")
    browser.open(f"{site}{path}", 360)
    assert browser.value("document.querySelectorAll('td.loc').length") == 100
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.value("document.querySelector('input[name=q]').focus(), true")
        browser.call("Input.insertText", text="مقالات/4999")
        enter = {"type": "keyDown", "key": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
        browser.loading("Input.dispatchKeyEvent", **enter)
        assert browser.value("document.querySelectorAll('td.loc').length") == 11
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.browser
def test_the_bars_of_a_plot_stand_on_its_line(browser, site):
    browser.open(f"{site}?section=products&shard=1", 1280)
    box = "document.querySelector('svg').getBoundingClientRect()"
    rects = "[...document.querySelectorAll('rect')].map(bar => bar.getBoundingClientRect())"
    assert browser.value(f"{rects}.every(bar => Math.abs(bar.bottom - {box}.bottom) < 2 && bar.top >= {box}.top - 1)")
    assert browser.value(f"{rects}.filter(bar => bar.height > 20).length") > 5
