"""`SitemapMiddleware` in front of applications of many kinds."""

from __future__ import annotations

import contextvars
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, url_for
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.middleware.proxy_fix import ProxyFix
from werkzeug.test import Client, EnvironBuilder

from flask_sitemapx import BuildFailed, ConfigurationError, Registry, Sitemap, SitemapMiddleware, UrlEntry
from tests.test_docs import blocks

ROOT = Path(__file__).parent.parent
ORIGIN = "https://shop.example"
MOUNTED = f"{ORIGIN}/shop"


def plain(environ: Any, start_response: Any) -> list[bytes]:
    """An application that is a function."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"the application's {environ['PATH_INFO']}".encode()]


def registry(*items: Any, name: str = "pages", **options: Any) -> Registry:
    """One section with *items*."""
    registry = Registry()
    registry.section(name, **options)(lambda: iter(items))
    return registry


def served(*items: Any, **settings: Any) -> SitemapMiddleware:
    """*items* in front of a function, on https://shop.example unless *settings* say otherwise."""
    return SitemapMiddleware(plain, registry(*items), **{"base_url": ORIGIN, "build_wait": 60, **settings})


def get(app: Any, path: str, **options: Any) -> Any:
    return Client(app).get(path, **options)


def locs(app: Any, path: str = "/sitemap.xml", **options: Any) -> list[str]:
    """The locs of a document that must be there."""
    response = get(app, path, **options)
    assert response.status_code == 200, response.text
    return re.findall("<loc>([^<]*)</loc>", response.text)


def problems(app: SitemapMiddleware, section: str = "pages") -> dict[str, Any]:
    found: dict[str, Any] = app.status()["sites"][0]["snapshot"]["sections"][section]["problems"]
    return found


# A bare function ------------------------------------------------------------------------------------------------------


def test_a_bare_function_gets_a_sitemap_and_robots_txt():
    app = served("/", "/about")
    assert locs(app) == [f"{ORIGIN}/", f"{ORIGIN}/about"]
    assert locs(app, "/sitemap-pages-1.xml") == [f"{ORIGIN}/", f"{ORIGIN}/about"]
    assert get(app, "/robots.txt").text.endswith(f"\nSitemap: {ORIGIN}/sitemap.xml\n")
    assert get(app, "/about").text == "the application's /about"


def test_a_section_yields_all_forms_that_need_no_framework():
    app = served(
        "/path",
        f"{ORIGIN}/url",
        {"loc": "/mapping", "lastmod": "2024-05-06", "priority": 0.5},
        UrlEntry("/entry", lastmod=date(2024, 5, 7), changefreq="daily"),
        UrlEntry("/asked", lastmod=lambda entry: f"2024-05-{len(entry.loc):02}"),  # type: ignore[arg-type]
    )
    document = get(app, "/sitemap.xml").text
    assert [loc.removeprefix(ORIGIN) for loc in locs(app)] == ["/path", "/url", "/mapping", "/entry", "/asked"]
    assert "/mapping</loc><lastmod>2024-05-06</lastmod><priority>0.5</priority>" in document
    assert "/entry</loc><lastmod>2024-05-07</lastmod><changefreq>daily</changefreq>" in document
    assert "/asked</loc><lastmod>2024-05-06</lastmod>" in document


REASON = "endpoints of this application are not known; yield a path, or a mapping with a loc"


@pytest.mark.parametrize("endpoint", [None, "article"])
def test_what_needs_an_endpoint_is_left_out_with_the_reason(endpoint):
    huge = ("article", {"number": 10**5_000})
    items = registry("/kept", ("article", {"slug": "a"}), ("article", None), huge, {"slug": "b"}, endpoint=endpoint)
    app = SitemapMiddleware(plain, items, base_url=ORIGIN)
    assert locs(app) == [f"{ORIGIN}/kept"]
    found = problems(app)
    assert found["item-endpoint"][0] == (3 if endpoint is None else 4)
    assert found["item-endpoint"][1] == f"'article' ({REASON})"


def test_what_needs_an_endpoint_fails_the_build_if_that_is_wanted():
    app = served(("article", {"slug": "a"}), on_error="raise")
    with pytest.raises(BuildFailed, match=f"'pages'.*{REASON}.*'article'"):
        app.build()


def test_a_registry_without_entries_says_so():
    app = SitemapMiddleware(plain, Registry(), base_url=ORIGIN)
    response = get(app, "/sitemap.xml")
    assert (response.status_code, response.text) == (404, "There is nothing to list: no section has entries.\n")
    assert "Sitemap:" not in get(app, "/robots.txt").text


def test_a_section_may_come_after_the_first_answer():
    items = registry("/early")
    app = SitemapMiddleware(plain, items, base_url=ORIGIN)
    assert locs(app) == [f"{ORIGIN}/early"]
    items.section("late")(lambda: ["/late"])
    assert locs(app) == [f"{ORIGIN}/early", f"{ORIGIN}/late"]


def test_a_sitemap_that_is_bound_to_no_application_is_a_registry():
    sitemap = Sitemap()
    sitemap.section("pages")(lambda: ["/"])
    assert locs(SitemapMiddleware(plain, sitemap, base_url=ORIGIN)) == [f"{ORIGIN}/"]


# Every other request --------------------------------------------------------------------------------------------------


class Told:
    """An application that notes what it is given, and what becomes of what it returns."""

    def __init__(self) -> None:
        self.given: list[tuple[Any, Any, Any]] = []
        self.closed = 0

    def __call__(self, environ: Any, start_response: Any) -> Any:
        self.given.append((environ, dict(environ), start_response))
        return self

    def __iter__(self) -> Iterator[bytes]:
        yield b"body"

    def close(self) -> None:
        self.closed += 1


OTHERS = ["/", "/x", "/sitemap", "/sitemapx", "/sitemap-other-1.xml", "/sitemap.xml/", "/robots.txt", "/robots.txt/x"]


@pytest.mark.parametrize("path", [*OTHERS, *(f"/shop{path}" for path in OTHERS), "/shop", "/shopping"])
@pytest.mark.parametrize("base_url", [None, ORIGIN, MOUNTED])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_every_other_request_passes_through_untouched(base_url, path, method):
    inner = Told()
    app = SitemapMiddleware(inner, registry("/"), base_url=base_url, robots=False)
    environ = EnvironBuilder(path, method=method, data={"a": "b"} if method == "POST" else None).get_environ()
    before = dict(environ)

    def start_response(*arguments: Any) -> Any:
        raise AssertionError("it is for the application to call")

    returned = app(environ, start_response)
    assert returned is inner
    [(given, seen, started)] = inner.given
    assert given is environ
    assert seen == environ == before
    assert started is start_response
    assert inner.closed == 0, "to close what is returned is for the server"


def test_the_application_may_use_all_that_start_response_offers():
    written: list[bytes] = []
    calls: list[tuple[Any, ...]] = []

    def start_response(*arguments: Any) -> Callable[[bytes], object]:
        calls.append(arguments)
        return written.append

    def application(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])(b"written")
        try:
            raise LookupError("late")
        except LookupError:
            start_response("500 Oh", [], sys.exc_info())
        return []

    body = SitemapMiddleware(application, registry("/"), base_url=ORIGIN)(
        {"PATH_INFO": "/x", "REQUEST_METHOD": "GET"}, start_response
    )
    assert (body, written, [call[0] for call in calls]) == ([], [b"written"], ["200 OK", "500 Oh"])
    assert calls[1][2][0] is LookupError


def test_what_the_application_raises_reaches_the_server():
    def broken(environ: Any, start_response: Any) -> list[bytes]:
        raise LookupError(environ["PATH_INFO"])

    app = SitemapMiddleware(broken, registry("/"), base_url=ORIGIN)
    with pytest.raises(LookupError, match="/x"):
        get(app, "/x")
    assert locs(app) == [f"{ORIGIN}/"]


def test_a_request_without_a_path_is_passed_on():
    inner = Told()
    for base_url in (ORIGIN, MOUNTED):
        app = SitemapMiddleware(inner, registry("/"), base_url=base_url)
        assert app({"REQUEST_METHOD": "GET"}, lambda *arguments: None) is inner  # type: ignore[arg-type]


# robots.txt -----------------------------------------------------------------------------------------------------------


def test_robots_txt_is_ours_unless_it_is_left_to_the_application():
    assert "Sitemap:" in get(served("/"), "/robots.txt").text
    assert get(served("/", robots=False), "/robots.txt").text == "the application's /robots.txt"
    assert get(served("/", disallow_all=True), "/robots.txt").text == "User-agent: *\nDisallow: /\n"


def test_below_a_mount_robots_txt_is_the_application_s_unless_it_is_wanted():
    for base_url in (MOUNTED, None):
        for robots, text in ((None, "the application's /robots.txt"), (True, "Sitemap: ")):
            app = served("/", base_url=base_url, robots=robots)
            assert text in get(DispatcherMiddleware(plain, {"/shop": app}), "/shop/robots.txt").text


def test_status_offers_the_lines_for_a_robots_txt_that_is_not_ours():
    assert served("/", robots=False).status()["robots_lines"][-1] == f"Sitemap: {ORIGIN}/sitemap.xml"


# What cannot be used --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"stor": "memory:"}, "no setting 'stor'; did you mean 'store'?"),
        ({"SITEMAP_MAX_URLS": 5}, "no setting 'SITEMAP_MAX_URLS'; did you mean 'max_urls'?"),
        ({"baseurl": ORIGIN}, "no setting 'baseurl'; did you mean 'base_url'?"),
        ({"xyzzy": 1}, "no setting 'xyzzy'; there are base_url, index, max_urls, store"),
        ({"hooks": True}, "no setting 'hooks'; there are base_url"),
        ({"routes": "all"}, "no setting 'routes'"),
        ({"include": "*"}, "no setting 'include'"),
        ({"max_urls": 0}, "SITEMAP_MAX_URLS must be a whole number of at least 1 and at most 50000, not 0"),
        ({"on_error": "rais"}, "SITEMAP_ON_ERROR must be one of 'skip', 'raise', not 'rais'"),
        ({"base_url": "shop.example"}, "SITEMAP_BASE_URL: .*'shop.example'"),
        ({"base_url": 7}, "SITEMAP_BASE_URL must be text, not 7"),
        ({"store": "flie:/x"}, "flie:/x"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_used_raise_at_once(settings, text):
    with pytest.raises(ConfigurationError, match=text):
        served("/", **settings)


def test_what_is_no_registry_is_refused():
    with pytest.raises(ConfigurationError, match="the sections come from a Registry or Sitemap, not from <function"):
        SitemapMiddleware(registry("/"), plain)  # type: ignore[arg-type]


def shop(name: str = "shop", **config: Any) -> tuple[Flask, Sitemap]:
    """A Flask application with two pages and a section, and its sitemap."""
    app = Flask(name)
    app.config.update(SITEMAP_BUILD_WAIT=60, SITEMAP_ROUTES="all", **config)
    sitemap = Sitemap(app)
    app.add_url_rule("/", "home", lambda: "home")
    app.add_url_rule("/lamps/<name>", "lamp", lambda name: name)

    @sitemap.section("lamps")
    def lamps() -> Iterator[Any]:
        yield "lamp", {"name": "a b"}, "2024-05-06"
        yield url_for("lamp", name="c")
        yield {"loc": url_for("lamp", name="d", _external=True)}

    return app, sitemap


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda app: app,
        lambda app: app.wsgi_app,
        lambda app: SitemapMiddleware(plain, registry("/"), base_url=ORIGIN),
    ],
    ids=["application", "wsgi_app", "middleware"],
)
def test_an_application_that_is_answered_for_already_is_refused_with_the_remedy(wrapped):
    app, sitemap = shop(SITEMAP_BASE_URL=ORIGIN)
    for source in (sitemap, registry("/")):
        with pytest.raises(ConfigurationError, match="has a Sitemap already, which answers for it; use that alone"):
            SitemapMiddleware(wrapped(app), source)


@pytest.mark.parametrize("extensions", [None, 7, ["sitemapx"], {"other": 1}], ids=str)
def test_what_other_frameworks_call_extensions_is_none_of_ours(extensions):
    inner = Told()
    inner.extensions = extensions  # type: ignore[attr-defined]
    assert locs(SitemapMiddleware(inner, registry("/"), base_url=ORIGIN)) == [f"{ORIGIN}/"]


def test_a_flask_application_without_a_sitemap_is_an_application_like_others():
    app = Flask("shop")
    app.add_url_rule("/", "home", lambda: "home")
    app.wsgi_app = SitemapMiddleware(app.wsgi_app, registry("/"), base_url=ORIGIN)  # type: ignore[method-assign]
    assert locs(app) == [f"{ORIGIN}/"]
    assert get(app, "/").text == "home"


def test_a_sitemap_of_several_applications_is_refused():
    _, sitemap = shop("one")
    sitemap.init_app(Flask("two"))
    with pytest.raises(ConfigurationError, match=r"several applications \('one', 'two'\); give one of its own to each"):
        SitemapMiddleware(plain, sitemap, base_url=ORIGIN)


def test_a_sitemap_of_an_application_whose_mount_is_not_known_is_refused():
    _, sitemap = shop()
    with pytest.raises(ConfigurationError, match="where 'shop' is mounted is not known; give base_url='https://"):
        SitemapMiddleware(plain, sitemap)


# A mounted pair -------------------------------------------------------------------------------------------------------


def pair(app: Flask) -> DispatcherMiddleware:
    start = Flask("start")
    start.add_url_rule("/", "start", lambda: "start")
    start.add_url_rule("/robots.txt", "robots", lambda: "start's robots.txt")
    return DispatcherMiddleware(start, {"/shop": app})


PAGES = [f"{MOUNTED}{path}" for path in ("/", "/lamps/a%20b", "/lamps/c", "/lamps/d")]


@pytest.mark.parametrize("store", ["memory:", "file:"])
@pytest.mark.parametrize(
    "config", [{}, {"SITEMAP_BASE_URL": "https://other.example"}, {"SITEMAP_HOOKS": True}], ids=str
)
def test_the_sitemap_of_a_mounted_application_is_answered_where_that_is(tmp_path, store, config):
    app, sitemap = shop(**config)
    store = f"{store}{tmp_path}" if store == "file:" else store
    site = SitemapMiddleware(pair(app), sitemap, base_url=MOUNTED, store=store, index="always")
    documents = locs(site, "/shop/sitemap.xml")
    assert documents == [f"{MOUNTED}/sitemap-routes-1.xml", f"{MOUNTED}/sitemap-lamps-1.xml"]
    assert [loc for url in documents for loc in locs(site, url.removeprefix(ORIGIN))] == PAGES
    assert get(site, "/").text == "start"
    assert get(site, "/shop/").text == "home"
    assert get(site, "/shop/lamps/c").text == "c"
    assert get(site, "/robots.txt").text == "start's robots.txt"
    assert site.status()["robots_lines"] == ["User-agent: *", "Disallow:", "", f"Sitemap: {MOUNTED}/sitemap.xml"]


def test_a_server_may_take_the_mount_point_off_the_path_or_leave_it():
    app = served("/", base_url=MOUNTED)
    for outer in (app, DispatcherMiddleware(plain, {"/shop": app})):
        assert locs(outer, "/shop/sitemap.xml") == [f"{MOUNTED}/"]
    assert locs(app) == [f"{MOUNTED}/"]
    deep = served("/", base_url=f"{ORIGIN}/a/b")
    for mount in ("/a", "/a/b"):
        assert locs(DispatcherMiddleware(plain, {mount: deep}), "/a/b/sitemap.xml") == [f"{ORIGIN}/a/b/"]
        twice = get(DispatcherMiddleware(plain, {mount: deep}), f"{mount}/a/b/sitemap.xml")
        assert twice.text == "the application's /a/b/sitemap.xml"


def test_a_mount_point_that_is_not_ascii_is_found_in_the_path():
    app = served("/", base_url=f"{ORIGIN}/läden")
    assert locs(app, "/l%C3%A4den/sitemap.xml") == locs(app) == [f"{ORIGIN}/l%C3%A4den/"]


def test_what_the_configuration_of_the_mounted_application_says_counts_too():
    for config in ({"SITEMAP_BASE_URL": MOUNTED}, {"SERVER_NAME": "shop.example", "APPLICATION_ROOT": "/shop"}):
        app, sitemap = shop(**config, PREFERRED_URL_SCHEME="https")
        site = SitemapMiddleware(pair(app), sitemap)
        assert locs(site, "/shop/sitemap.xml") == PAGES


def test_settings_for_routes_may_be_given_for_a_sitemap_with_routes():
    app, sitemap = shop()
    site = SitemapMiddleware(pair(app), sitemap, base_url=MOUNTED, routes="marked", include=["home"])
    assert PAGES[0] in locs(site)
    site = SitemapMiddleware(pair(app), sitemap, base_url=MOUNTED, exclude=["home"])
    assert PAGES[0] not in locs(site)


def test_a_mounted_application_that_is_wrapped_is_answered_for_all_the_same():
    app, sitemap = shop()
    app.wsgi_app = ProxyFix(app.wsgi_app)  # type: ignore[method-assign]
    assert locs(SitemapMiddleware(pair(app), sitemap, base_url=MOUNTED)) == PAGES


def test_the_application_and_the_middleware_share_the_set_of_one_store(tmp_path):
    app, sitemap = shop(SITEMAP_BASE_URL=MOUNTED, SITEMAP_STORE=f"file:{tmp_path}")
    site = SitemapMiddleware(pair(app), sitemap)
    built = site.build()
    assert get(site, "/shop/sitemap.xml").headers["ETag"] == get(app, "/sitemap.xml").headers["ETag"]
    assert sitemap.status(app)["sites"][0]["snapshot"]["built_at"] == built.summary()["built_at"]
    sitemap.touch("lamps", app)
    assert site.status()["sites"][0]["state"] == "stale"


# build, touch, status -------------------------------------------------------------------------------------------------


def test_after_a_touch_the_next_answer_is_another():
    items = ["/a"]
    registry = Registry()
    registry.section("pages")(lambda: list(items))
    app = SitemapMiddleware(plain, registry, base_url=ORIGIN, build_wait=60)
    assert app.build().count == 1
    items.append("/b")
    assert locs(app) == [f"{ORIGIN}/a"]
    app.touch("pages")
    assert locs(app) == [f"{ORIGIN}/a", f"{ORIGIN}/b"]
    with pytest.raises(ConfigurationError, match="no section 'page'; there are pages"):
        app.touch("page")


def test_status_is_plain_and_true():
    app = served("/", 7)
    assert json.loads(json.dumps(app.status()))["sites"][0]["state"] == "missing"
    app.build()
    told = json.loads(json.dumps(app.status()))
    assert (told["base_url"], told["store"], told["sites"][0]["state"]) == (ORIGIN, "memory:", "fresh")
    assert told["sites"][0]["snapshot"]["sections"]["pages"]["problems"].keys() == {"item-form"}


def test_a_section_finds_no_context_of_whoever_asks_for_the_build():
    asker = contextvars.ContextVar("asker", default="nobody")
    items = Registry()
    items.section("pages")(lambda: [f"/{asker.get()}"])
    app = SitemapMiddleware(plain, items, base_url=ORIGIN)
    asker.set("somebody")
    app.build()
    assert locs(app) == [f"{ORIGIN}/nobody"]


def test_a_build_that_fails_says_nothing_to_the_world():
    items = Registry()
    items.section("pages")(lambda: 1 / 0)
    app = SitemapMiddleware(plain, items, base_url=ORIGIN)
    with pytest.raises(BuildFailed, match="ZeroDivisionError"):
        app.build()
    response = get(app, "/sitemap.xml")
    assert (response.status_code, "Division" in response.text) == (503, False)
    assert get(app, "/robots.txt").status_code == 200


def test_without_a_thread_a_build_runs_after_the_answer(monkeypatch):
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    app = served("/")
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with get(app, "/sitemap.xml", buffered=False) as response:
        assert response.status_code == 503
    assert locs(app) == [f"{ORIGIN}/"]


# Settings of the environment ------------------------------------------------------------------------------------------


def test_settings_come_from_the_environment_too(monkeypatch, tmp_path):
    values = {"BASE_URL": MOUNTED, "STORE": f"file:{tmp_path}", "INDEX": "always", "ROBOTS": "yes", "HOOKS": "yes"}
    for name, value in values.items():
        monkeypatch.setenv(f"SITEMAP_{name}", value)
    app = SitemapMiddleware(plain, registry("/"))
    assert locs(app) == [f"{MOUNTED}/sitemap-pages-1.xml"]
    assert f"Sitemap: {MOUNTED}/sitemap.xml" in get(app, "/robots.txt").text
    assert app.status()["store"] == f"file:{tmp_path}"
    assert locs(SitemapMiddleware(plain, registry("/"), base_url=ORIGIN, index="auto", store="memory:")) == [
        f"{ORIGIN}/"
    ]
    monkeypatch.setenv("SITEMAP_MAX_URLS", "many")
    with pytest.raises(ConfigurationError, match=r"SITEMAP_MAX_URLS must be a whole number.*'many'"):
        served("/")


# Without a name -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mount", ["", "/sub", "/a/b", "/läden"])
def test_without_a_base_url_the_name_and_the_mount_are_those_of_the_request(mount):
    app = served("/", "/about", base_url=None)
    outer = DispatcherMiddleware(plain, {mount.encode().decode("latin-1"): app}) if mount else app
    encoded = mount.replace("ä", "%C3%A4")
    for scheme in ("http", "https"):
        found = locs(outer, f"{mount}/sitemap.xml", base_url=f"{scheme}://any.example")
        assert found == [f"{scheme}://any.example{encoded}{path}" for path in ("/", "/about")]


def test_that_the_name_comes_from_requests_is_warned_of_once(caplog):
    for base_url, count in ((None, 1), (ORIGIN, 0)):
        caplog.clear()
        app = served("/", base_url=base_url)
        locs(app)
        locs(app)
        assert len([r for r in caplog.records if "set SITEMAP_BASE_URL" in r.getMessage()]) == count


def test_forged_hosts_leave_nothing_behind(tmp_path):
    app = served("/", base_url=None, store=f"file:{tmp_path}")
    assert locs(app, headers={"Host": "first.example"}) == ["http://first.example/"]
    before = sorted(path for path in tmp_path.rglob("*"))
    for number in range(600):
        assert locs(app, headers={"Host": f"forged{number}.example"}) == [f"http://forged{number}.example/"]
    assert get(app, "/sitemap.xml", headers={"Host": "<forged>"}).status_code == 400
    assert sorted(path for path in tmp_path.rglob("*")) == before
    assert len(app.status()["sites"]) == 1
    publisher = app._binding.services().publisher
    assert publisher._forms.cache_info().currsize <= 512
    assert publisher._hosts._site.cache_info().currsize <= 256


def test_applications_without_a_name_keep_apart_in_one_store(tmp_path):
    one, two = (
        SitemapMiddleware(plain, registry(f"/{name}", name=name), store=f"file:{tmp_path}") for name in ("one", "two")
    )
    for _ in range(2):
        assert locs(one) == ["http://localhost/one"]
        assert locs(two) == ["http://localhost/two"]


def test_an_application_without_a_name_keeps_its_set_when_sections_come(tmp_path):
    def application(*more: str) -> SitemapMiddleware:
        items = registry("/a")
        for name in more:
            items.section(name)(partial(list, [f"/{name}"]))
        return SitemapMiddleware(plain, items, store=f"file:{tmp_path}")

    assert application().build().number + 1 == application("b").build().number
    assert SitemapMiddleware(plain, Registry(), store=f"file:{tmp_path}").build().number == 1


# Threads and processes ------------------------------------------------------------------------------------------------


def test_threads_that_come_first_together_get_one_build():
    pulls: list[int] = []
    barrier = threading.Barrier(16)
    items = Registry()

    @items.section("pages")
    def pages() -> Iterator[str]:
        pulls.append(1)
        yield "/"

    app = SitemapMiddleware(plain, items, base_url=ORIGIN, build_wait=60)

    def ask(_: int) -> tuple[str, ...]:
        barrier.wait(60)
        return (*locs(app), str(id(app._binding.refresher())))

    with ThreadPoolExecutor(16) as threads:
        answers = set(threads.map(ask, range(16)))
    assert (len(answers), len(pulls)) == (1, 1)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # it forks, and has threads
@pytest.mark.parametrize("store", ["memory:", "file:"])
@pytest.mark.parametrize("is_warm", [False, True])
def test_a_forked_child_answers_although_a_lock_was_held(tmp_path, store, is_warm):
    items = ["/a"]
    registry = Registry()
    registry.section("pages")(lambda: list(items))
    store = f"{store}{tmp_path}" if store == "file:" else store
    app = SitemapMiddleware(plain, registry, base_url=ORIGIN, store=store, build_wait=60)
    if is_warm:
        assert locs(app) == [f"{ORIGIN}/a"]
    with app._binding._lock:
        child = threading.Thread(target=lambda: statuses.append(os.waitpid(forked(app, items), 0)[1]))
        statuses: list[int] = []
        child.start()
        child.join(60)
    assert statuses == [0]
    assert locs(app) == [f"{ORIGIN}/a", f"{ORIGIN}/b"] if store != "memory:" else [f"{ORIGIN}/a"]


def forked(app: SitemapMiddleware, items: list[str]) -> int:
    """A child in which the lock is held by a thread that it has not."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            items.append("/b")
            app.touch("pages")
            code = 0 if locs(app) == [f"{ORIGIN}/a", f"{ORIGIN}/b"] else 2
        finally:
            os._exit(code)
    return child


MODULE = """
import os, time
from pathlib import Path
from flask_sitemapx import Registry, SitemapMiddleware

here = Path(__file__).parent
registry = Registry()

@registry.section("pages")
def pages():
    with open(here / "pulls", "a") as file:
        file.write(f"{os.getpid()}\\n")
    yield from (f"/page/{number}" for number in range(1_000))

def foreign(environ, start_response):
    start_response("204 No Content", [])
    return []

middleware = SitemapMiddleware(foreign, registry, base_url="https://shop.example", build_wait=60)

def application(environ, start_response):
    # Each worker answers when both have an answer, so that it was not one of them that gave both.
    body = [*middleware(environ, start_response)]
    (here / f"{os.getpid()}.answered").touch()
    deadline = time.monotonic() + 60
    while len([*here.glob("*.answered")]) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    return body
"""


@contextmanager
def gunicorn(directory: Path, *options: str) -> Iterator[int]:
    """The port of a gunicorn with two workers for a middleware in a module."""
    (directory / "counted.py").write_text(MODULE)
    environ = {
        **os.environ,
        "PYTHONPATH": f"{directory}{os.pathsep}{ROOT}",
        "SITEMAP_STORE": f"file:{directory / 'store'}",
    }
    log = directory / "log"
    command = [sys.executable, "-m", "gunicorn", "counted:application", "--bind", "127.0.0.1:0", "--workers", "2"]
    command += ["--error-logfile", str(log), "--no-control-socket", *options]
    with subprocess.Popen(command, cwd=directory, env=environ) as server:
        try:
            deadline = time.monotonic() + 60
            while not log.exists() or log.read_text().count("Booting worker") < 2:
                assert time.monotonic() < deadline
                assert server.poll() is None
                time.sleep(0.01)
            yield int(re.findall(r"Listening at: http://127\.0\.0\.1:([0-9]+)", log.read_text())[0])
        finally:
            server.terminate()


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--preload"]], ids=str)
def test_two_workers_share_one_build_in_a_directory(tmp_path, options):
    def asked(path: str) -> tuple[int, str | None, bytes]:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", path)
        response = connection.getresponse()
        answer = response.status, response.getheader("ETag"), response.read()
        connection.close()
        return answer

    with gunicorn(tmp_path, *options) as port, ThreadPoolExecutor(2) as threads:
        answers = set(threads.map(asked, ["/sitemap.xml"] * 2))
        assert asked("/")[0] == 204
    assert [status for status, _, _ in answers] == [200]
    assert len([*tmp_path.glob("*.answered")]) == 2
    assert len((tmp_path / "pulls").read_text().splitlines()) == 1


# Django ---------------------------------------------------------------------------------------------------------------

SETTINGS = """
ALLOWED_HOSTS = ["*"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite"}}
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
INSTALLED_APPS = ["shop"]
ROOT_URLCONF = "shop.urls"
SECRET_KEY = "secret"
USE_TZ = True
"""
MODELS = """
from django.db import models

class Article(models.Model):
    slug = models.CharField(max_length=50)
    updated = models.DateTimeField()
"""
URLS = """
from django.http import HttpResponse
from django.urls import path

urlpatterns = [path("articles/<str:slug>/", lambda request, slug: HttpResponse(f"about {slug}"), name="article")]
"""
ASKED = """
import json
from datetime import UTC, datetime

from werkzeug.test import Client

from shop.wsgi import application
from shop.models import Article
from django.db import connection

with connection.schema_editor() as editor:
    editor.create_model(Article)
for slug in ("lamps", "ä b"):
    Article.objects.create(slug=slug, updated=datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC))
client = Client(application)
paths = ["/sitemap.xml", "/robots.txt", "/articles/lamps/", "/sitemap-other-1.xml"]
print(json.dumps([[answer.status_code, answer.text] for answer in map(client.get, paths)]))
"""


def test_a_django_project_gets_its_sitemap_by_what_the_page_about_it_says(tmp_path):
    [wsgi] = blocks(ROOT / "docs" / "how-to-middleware.md", "py")
    project = tmp_path / "shop"
    project.mkdir()
    files = {"__init__": "", "settings": SETTINGS, "models": MODELS, "urls": URLS, "wsgi": wsgi}
    for name, text in files.items():
        (project / f"{name}.py").write_text(text)
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-W", "error", "-c", ASKED]
    ran = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    (status, sitemap), (_, robots), page, (lost, _) = json.loads(ran.stdout)
    assert status == 200, sitemap
    lastmod = "<lastmod>2024-05-06T07:08:09Z</lastmod>"
    for path in ("/articles/lamps/", "/articles/%C3%A4%20b/"):
        assert f"<url><loc>https://example.com{path}</loc>{lastmod}</url>" in sitemap
    assert "Sitemap: https://example.com/sitemap.xml" in robots
    assert page == [200, "about lamps"]
    assert lost == 404, "it is the project's own"
