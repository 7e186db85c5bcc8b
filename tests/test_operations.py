"""What operators ask the service for: who gets an answer, and what a touch does."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from http.client import HTTPConnection
from typing import Any

import pytest
from werkzeug.test import Client, TestResponse, create_environ, run_wsgi_app

from flask_sitemapx import Registry
from flask_sitemapx.binding import Binding, Front
from flask_sitemapx.errors import ConfigurationError, NotBuilt, StoreError
from flask_sitemapx.middleware import PlainApplication
from flask_sitemapx.service.operations import BURST, Operations
from tests.test_service import Server, started
from tests.waiting import until

ADMIN, TOUCH = "of-the-administrators", "of-the-shop-software"
TOKENS = {"SITEMAP_ADMIN_TOKEN": ADMIN, "SITEMAP_TOUCH_TOKEN": TOUCH}


class Site:
    """A site with the sections `pages` and `news`, which notes what is read."""

    def __init__(self, store: str, base_url: str = "https://a.example", **settings: Any) -> None:
        self.read: list[str] = []
        registry = Registry()
        for name in ("pages", "news"):
            registry.section(name, version=lambda: "always")(self._section(name))
        config = {"SITEMAP_BASE_URL": base_url, "SITEMAP_STORE": store, **settings}
        self.binding = Binding(PlainApplication(registry, config), registry)

    def _section(self, name: str) -> Any:
        def entries() -> Iterable[str]:
            self.read.append(name)
            yield f"/{name}"

        return entries

    def build(self) -> Site:
        self.binding.refresher().build()
        self.read.clear()
        return self


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def nothing(environ: Any, start_response: Any) -> Iterable[bytes]:
    start_response("404 Not Found", [("Content-Type", "text/plain")])
    return [b"nothing"]


def operations(
    sites: Mapping[str, Site], environ: Mapping[str, str] = TOKENS, clock: Any = None, app: Any = None
) -> Operations:
    bindings = {name: site.binding for name, site in sites.items()}
    front = Front(nothing, next(iter(bindings.values()))) if bindings else nothing
    return Operations(app or front, bindings, environ, clock or Clock())


def asked(app: Operations, path: str, token: str | None = None, method: str = "GET", **more: Any) -> TestResponse:
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    return Client(app).open(path, method=method, headers=headers | more.pop("headers", {}), **more)


def touched(app: Operations, path: str, token: str | None = TOUCH, **more: Any) -> TestResponse:
    return asked(app, path, token, "POST", **more)


@pytest.fixture
def store(tmp_path) -> str:
    return f"file:{tmp_path / 'store'}"


@pytest.fixture
def site(store) -> Site:
    return Site(store)


# Who gets an answer


def test_anybody_is_told_that_the_process_is_there_and_no_more():
    answer = asked(operations({}, {}), "/healthz")
    assert (answer.status_code, answer.data) == (200, b"ok")
    assert "no-store" in answer.headers["Cache-Control"]


@pytest.mark.parametrize("path", ["/readyz", "/metrics"])
def test_the_state_is_shown_to_who_has_the_token_of_the_administrators(site, path):
    app = operations({"a": site.build()})
    assert asked(app, path, ADMIN).status_code == 200
    for token in (None, "", TOUCH, ADMIN[:-1], f"{ADMIN}x", "ü", "\u20ac"):
        with_token = {"HTTP_AUTHORIZATION": f"Bearer {token}".encode().decode("latin-1")} if token is not None else {}
        assert asked(app, path, environ_overrides=with_token).status_code == 404
    assert asked(app, path, headers={"Authorization": f"Basic {ADMIN}"}).status_code == 404
    assert asked(app, path, headers={"Authorization": f"bearer  {ADMIN}"}).status_code == 200


@pytest.mark.parametrize("path", ["/readyz", "/metrics"])
@pytest.mark.parametrize("token", [None, "", "x"])
def test_without_a_token_in_the_environment_no_token_opens(site, path, token):
    assert asked(operations({"a": site.build()}, {}), path, token).status_code == 404


@pytest.mark.parametrize("path", ["/readyz", "/metrics", "/-/touch/pages", "/-/refresh", "/-/other"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_where_nothing_is_shown_the_answer_is_that_of_any_path_that_is_not_there(site, path, method):
    app = operations({"a": site.build()}, {})
    elsewhere, answer = (asked(app, path, method=method) for path in ("/elsewhere", path))
    assert (answer.status, answer.headers, answer.data) == (elsewhere.status, elsewhere.headers, elsewhere.data)


class Connection:
    """What gunicorn has in the environment of a request."""

    def __init__(self, name: Any) -> None:
        self._name = name

    def getsockname(self) -> Any:
        if isinstance(self._name, OSError):
            raise self._name
        return self._name


@pytest.mark.parametrize(
    ("bind", "name", "status"),
    [
        ("127.0.0.1:9100", ("127.0.0.1", 9100), 200),
        ("[::1]:9100", ("::1", 9100, 0, 0), 200),
        ("0.0.0.0:9100", ("10.1.2.3", 9100), 200),
        ("127.0.0.1:9100", ("127.0.0.1", 8000), 404),
        ("127.0.0.1:9100", "", 404),
        ("unix:/run/admin.sock", "/run/admin.sock", 200),
        ("unix:/run/admin.sock", "/run/other.sock", 404),
        ("127.0.0.1:9100", OSError(), 404),
        ("", ("127.0.0.1", 9100), 404),
    ],
)
def test_the_state_is_shown_at_the_second_address_by_the_socket_alone(site, bind, name, status):
    app = operations({"a": site.build()}, {"SITEMAP_ADMIN_BIND": bind})
    told = {"SERVER_PORT": "9100", "SERVER_NAME": "127.0.0.1"}
    answer = asked(app, "/readyz", headers={"Host": "127.0.0.1:9100"}, environ_overrides=told)
    assert answer.status_code == 404
    assert asked(app, "/readyz", environ_overrides={"gunicorn.socket": Connection(name)}).status_code == status


def test_at_the_second_address_too_a_touch_needs_a_token(site):
    app = operations({"a": site}, {**TOKENS, "SITEMAP_ADMIN_BIND": "127.0.0.1:9100"})
    at_it = {"gunicorn.socket": Connection(("127.0.0.1", 9100))}
    assert touched(app, "/-/refresh", None, environ_overrides=at_it).status_code == 401


# Ready


def test_a_service_is_ready_as_soon_as_one_site_has_a_set(tmp_path, store):
    sites = {"a": Site(store), "b": Site(f"file:{tmp_path / 'other'}")}
    app = operations(sites)
    missing = {"ready": False, "age": None, "entries": 0, "store": "up"}
    assert ready(app) == (503, {"ready": False, "sites": {"a": missing, "b": missing}})
    sites["a"].build()
    status, told = ready(app)
    assert status == 200
    assert told["sites"]["a"].pop("age") in range(60)
    assert told == {"ready": True, "sites": {"a": {"ready": True, "entries": 2, "store": "up"}, "b": missing}}


def ready(app: Operations) -> tuple[int, Any]:
    answer = asked(app, "/readyz", ADMIN)
    return answer.status_code, answer.json


def test_a_store_in_trouble_is_told_and_the_set_that_is_known_stands(site, monkeypatch):
    site.build()
    app = operations({"a": site})
    store = site.binding.services().store()

    def fail(*_: Any) -> Any:
        raise StoreError("it is gone")

    monkeypatch.setattr(type(store), "version", fail)
    status, told = ready(app)
    assert (status, told["sites"]["a"]["store"]) == (200, "down")


def test_a_service_without_sites_is_not_ready():
    assert asked(operations({}), "/readyz", ADMIN).status_code == 503


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_what_is_only_looked_at_is_not_changed(site, path):
    app = operations({"a": site.build()})
    answer = asked(app, path, ADMIN, "POST")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD")
    head = create_environ(path, method="HEAD", headers={"Authorization": f"Bearer {ADMIN}"})
    assert b"".join(run_wsgi_app(app, head)[0]) == b""


# Touching


@pytest.mark.parametrize("token", [TOUCH, ADMIN])
def test_a_touched_section_is_read_again(site, token):
    app = operations({"a": site.build()})
    assert touched(app, "/-/touch/pages", token).status_code == 202
    assert asked(app, "/sitemap.xml").status_code == 200
    assert site.read == ["pages"]


def test_a_refresh_reads_all_sections_without_waiting_for_a_request(site):
    app = operations({"a": site.build()})
    assert touched(app, "/-/refresh").status_code == 202
    until(lambda: sorted(site.read) == ["news", "pages"])
    until(lambda: site.binding.refresher().building_for() is None)


def test_a_refresh_begins_at_once_although_the_last_build_failed(tmp_path):
    site, failing = Site(f"file:{tmp_path / 'store'}", SITEMAP_ON_ERROR="raise"), [True]

    @site.binding.registry.section("other")
    def other() -> list[str]:
        return ["https://elsewhere.example/"] if failing else ["/other"]

    app = operations({"a": site})
    assert asked(app, "/sitemap.xml").status_code == 503
    failing.clear()
    assert asked(app, "/sitemap.xml").status_code == 503  # since it is not tried anew so soon
    assert touched(app, "/-/refresh").status_code == 202
    refresher = site.binding.refresher()
    assert refresher.building_for() is not None or refresher.last_good() is not None
    until(lambda: ready(app)[0] == 200)


@pytest.mark.parametrize("path", ["/-/touch/pages", "/-/refresh"])
def test_a_touch_needs_a_token(site, path):
    app = operations({"a": site.build()})
    for token in (None, "", TOUCH[:-1], f"{TOUCH}x"):
        answer = touched(app, path, token)
        assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert asked(app, "/sitemap.xml").status_code == 200
    assert site.read == []


@pytest.mark.parametrize("path", ["/-/touch/pages", "/-/refresh"])
@pytest.mark.parametrize("token", [None, "", ADMIN])
def test_where_no_token_is_set_there_is_nothing_to_touch(site, path, token):
    assert touched(operations({"a": site}, {}), path, token).status_code == 404


@pytest.mark.parametrize("path", ["/-/", "/-/touch/", "/-/touch", "/-/other", "/-/refresh/"])
def test_what_is_no_operation_is_not_found(site, path):
    assert touched(operations({"a": site}), path).status_code == 404


def test_a_touch_is_no_get(site):
    answer = asked(operations({"a": site}), "/-/touch/pages", TOUCH)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")


def test_an_unknown_section_is_not_found_and_those_that_there_are_are_named(site):
    answer = touched(operations({"a": site}), "/-/touch/page")
    assert (answer.status_code, answer.text) == (404, "there is no section 'page'; there are pages, news\n")


def test_of_several_sites_the_host_or_the_query_says_which(tmp_path, store):
    a, b = Site(store).build(), Site(f"file:{tmp_path / 'b'}", "https://b.example:8443").build()
    app = operations({"a": a, "b": b})

    def stale() -> list[str]:
        for site in (a, b):
            site.binding.refresher().last_good()
        return [name for name, site in {"a": a, "b": b}.items() if site.binding.refresher().state() == "stale"]

    assert touched(app, "/-/touch/pages", base_url="https://A.example:444").status_code == 202
    assert stale() == ["a"]
    a.build()
    assert touched(app, "/-/touch/pages", base_url="https://b.example").status_code == 202
    assert stale() == ["b"]
    assert touched(app, "/-/touch/pages?site=a", base_url="https://b.example").status_code == 202
    assert stale() == ["a", "b"]


@pytest.mark.parametrize(("host", "missing"), [("a.example:8443", "a"), ("a.example:9443", "b")])
def test_of_two_sites_that_differ_in_the_port_the_one_with_that_of_the_host_is_meant(tmp_path, host, missing):
    ports = {"a": 9443, "b": 8443}
    sites = {name: Site(f"file:{tmp_path / name}", f"https://a.example:{port}") for name, port in ports.items()}
    app = operations(sites)
    assert touched(app, "/-/refresh", headers={"Host": host}).status_code == 202
    until(lambda: ready(app)[0] == 200)
    assert [name for name, told in ready(app)[1]["sites"].items() if not told["ready"]] == [missing]
    assert touched(app, "/-/refresh", headers={"Host": "a.example:1"}).status_code == 400


def test_the_dot_of_the_root_is_part_of_no_host(tmp_path, store):
    app = operations({"a": Site(store), "b": Site(f"file:{tmp_path / 'b'}", "https://b.example")})
    assert touched(app, "/-/touch/pages", headers={"Host": "b.example.:443"}).status_code == 202


@pytest.mark.parametrize(
    ("query", "text"),
    [("", "say which site, by ?site= and one of a, b\n"), ("?site=c", "there is no site 'c'; there are a, b\n")],
)
def test_a_touch_that_means_no_site_is_refused(tmp_path, store, query, text):
    app = operations({"a": Site(store), "b": Site(f"file:{tmp_path / 'b'}", "https://b.example")})
    answer = touched(app, f"/-/refresh{query}", base_url="https://10.0.0.1")
    assert (answer.status_code, answer.text) == (400, text)


def test_so_many_touches_are_taken_and_wrong_tokens_use_up_none(site):
    clock = Clock()
    app = operations({"a": site.build()}, clock=clock)
    for _ in range(2 * int(BURST)):
        assert touched(app, "/-/touch/pages", "wrong").status_code == 401
    for _ in range(int(BURST)):
        assert touched(app, "/-/touch/pages").status_code == 202
    answer = touched(app, "/-/touch/pages")
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
    clock.now = 2.0
    assert [touched(app, "/-/touch/pages").status_code for _ in range(3)] == [202, 202, 429]


def test_of_several_processes_on_memory_a_touch_would_reach_one():
    app = operations({"a": Site("memory:")})
    answer = touched(app, "/-/touch/pages", environ_overrides={"wsgi.multiprocess": True})
    assert (answer.status_code, "set SITEMAP_STORE" in answer.text) == (409, True)
    assert touched(app, "/-/touch/pages", environ_overrides={"wsgi.multiprocess": False}).status_code == 202


def test_a_touch_that_the_store_does_not_take_is_to_be_made_again(site, monkeypatch):
    site.build()

    def fail(*_: Any) -> Any:
        raise StoreError("it is full")

    monkeypatch.setattr(type(site.binding.services().store()), "put", fail)
    answer = touched(operations({"a": site}), "/-/touch/pages")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "10")


def test_no_token_is_logged_and_wrong_ones_are_only_so_often(site, caplog):
    caplog.set_level(logging.DEBUG)
    app = operations({"a": site.build()})
    for token in (ADMIN, TOUCH, *["a-wrong-one-that-is-long"] * 100):
        touched(app, "/-/touch/pages", token)
        asked(app, "/metrics", token)
    assert caplog.text.count("has no or a wrong token") == BURST
    assert not any(token in caplog.text for token in (ADMIN, TOUCH, "a-wrong-one-that-is-long"))


SHARED = """\
base_url = "https://a.example"
store = "file:sets"
[sections.pages]
type = "csv"
path = "pages.csv"
loc = "{url}"
"""


def test_a_touch_at_one_worker_is_known_to_the_others(tmp_path):
    (tmp_path / "sitemap.toml").write_text(SHARED)
    pages = tmp_path / "pages.csv"
    pages.write_text("url\n/old\n")
    options = {"GUNICORN_CMD_ARGS": "--workers 2 --access-logfile - --access-logformat 'at-%(p)s'"}
    process = started(tmp_path, "-m", "flask_sitemapx", "serve", "--port", "0", **options, **TOKENS)
    try:
        server = Server(process, tmp_path / "log")

        def answers_of_both() -> set[bool]:
            """Whether the new page is listed, in all answers until each worker gave one."""
            seen, begun = set(), len(server.log())
            while len(set(re.findall("at-<([0-9]+)>", server.log()[begun:]))) < 2:
                seen.add("/new<" in server.get("a.example"))
            return seen

        assert answers_of_both() == {False}
        pages.write_text("url\n/new\n")
        assert answers_of_both() == {False}
        connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("POST", "/-/touch/pages", b"ignored", {"Authorization": f"Bearer {TOUCH}"})
        assert connection.getresponse().status == 202
        connection.close()
        assert answers_of_both() == {True}
    finally:
        process.terminate()
        process.wait(60)


# Debug


def test_in_debug_answers_say_how_long_they_took(site):
    debugging = operations({"a": site.build()}, {"SITEMAP_DEBUG": "1"})
    etag = asked(debugging, "/sitemap.xml").headers["ETag"]
    for headers in ({}, {"If-None-Match": etag}):
        assert asked(debugging, "/sitemap.xml", headers=headers).headers["Server-Timing"].startswith("sitemap;dur=")
    assert "Server-Timing" not in asked(operations({"a": site}, {}), "/sitemap.xml").headers


def test_debug_is_true_or_false():
    with pytest.raises(ConfigurationError, match="SITEMAP_DEBUG must be true or false, not 'perhaps'"):
        operations({}, {"SITEMAP_DEBUG": "perhaps"})


def test_an_application_that_fails_is_no_different(site):
    def failing(environ: Any, start_response: Any) -> Iterable[bytes]:
        raise NotBuilt("no", 1)

    with pytest.raises(NotBuilt):
        run_wsgi_app(operations({}, app=failing), create_environ("/sitemap.xml"))
