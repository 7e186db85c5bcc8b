"""`Sitemap` in Flask applications of many kinds."""

from __future__ import annotations

import contextvars
import gc
import gzip
import json
import logging
import random
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from flask import (
    Blueprint,
    Flask,
    current_app,
    g,
    has_request_context,
    jsonify,
    redirect,
    render_template,
    session,
    url_for,
)
from flask.cli import routes_command
from flask.views import MethodView, View
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import ForeignKey, select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.middleware.proxy_fix import ProxyFix
from werkzeug.test import Client, EnvironBuilder

from flask_sitemapx import BuildFailed, ConfigurationError, Sitemap, StoreError
from flask_sitemapx.extension import KEY
from flask_sitemapx.snapshots import view
from flask_sitemapx.snapshots.refresher import Refresher

ORIGIN = "https://shop.example"


def shop(name: str = "shop", **config: Any) -> Flask:
    """An application of one page, on https://shop.example unless *config* says otherwise."""
    app = Flask(name)
    app.secret_key = "secret"
    app.config.update({"SITEMAP_BASE_URL": ORIGIN, "SITEMAP_BUILD_WAIT": 60, **config})
    app.add_url_rule("/", "home", lambda: "home")
    return app


def section(sitemap: Sitemap, *items: Any, name: str = "articles", **options: Any) -> list[Any]:
    """The list of what the section *name* yields from now on."""
    current = list(items)
    sitemap.section(name, **options)(lambda: iter(current))
    return current


def locs(app: Flask, path: str = "/sitemap.xml") -> list[str]:
    """The locs of a document that must be there."""
    response = app.test_client().get(path)
    assert response.status_code == 200, response.text
    return re.findall("<loc>([^<]*)</loc>", response.text)


def keeper(app: Flask) -> Refresher:
    found: Refresher = app.extensions[KEY].refresher()
    return found


def built(app: Flask) -> None:
    """Wait for the build under way."""
    thread = keeper(app)._thread
    if thread is not None:
        thread.join(60)


def sent(app: Flask, path: str, **more: Any) -> tuple[str, dict[str, str], Any]:
    """Status, headers and the body as a server gets them."""
    got: list[Any] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        got.extend((status, dict(headers)))

    environ = {**EnvironBuilder(path).get_environ(), **more}
    body = app.wsgi_app({name: value for name, value in environ.items() if value is not None}, start_response)
    return got[0], got[1], body


# Binding --------------------------------------------------------------------------------------------------------------


def test_routes_and_sections_may_come_before_the_sitemap_or_after():
    app = shop()
    sitemap = Sitemap()
    section(sitemap, "/early", name="early")
    sitemap.init_app(app)
    section(sitemap, "/late", name="late")
    app.add_url_rule("/about", "about", lambda: "about")
    assert locs(app) == [f"{ORIGIN}/", f"{ORIGIN}/about", f"{ORIGIN}/early", f"{ORIGIN}/late"]


def test_a_section_that_is_registered_after_the_first_answer_is_listed_at_the_next():
    app = shop()
    sitemap = Sitemap(app)
    assert locs(app) == [f"{ORIGIN}/"]
    section(sitemap, "/late")
    assert locs(app) == [f"{ORIGIN}/", f"{ORIGIN}/late"]


def test_one_sitemap_serves_two_applications_each_its_own():
    sitemap = Sitemap()
    apps = [shop(name, SITEMAP_BASE_URL=f"https://{name}.example") for name in ("one", "two")]
    for app in apps:
        sitemap.init_app(app)
        app.add_url_rule(f"/{app.name}", app.name, lambda: "")
    section(sitemap, "/shared")
    for app in apps:
        assert locs(app) == [f"https://{app.name}.example/{path}" for path in ("", app.name, "shared")]
    assert sitemap.status(apps[0])["base_url"] == "https://one.example"


def test_marks_of_one_sitemap_say_nothing_to_another():
    pages = Blueprint("pages", __name__)
    first, second = Sitemap(), Sitemap()

    @pages.get("/a")
    @first.exclude
    @second.include(priority=0.9)
    def a() -> str:
        return ""

    apps = [shop("one"), shop("two")]
    for app, sitemap in zip(apps, (first, second), strict=True):
        app.register_blueprint(pages)
        sitemap.init_app(app)
    assert locs(apps[0]) == [f"{ORIGIN}/"]
    assert locs(apps[1]) == [f"{ORIGIN}/", f"{ORIGIN}/a"]
    section(first, "/only-first")
    assert locs(apps[1]) == [f"{ORIGIN}/", f"{ORIGIN}/a"]


def test_applications_without_a_name_keep_apart_in_one_store(tmp_path):
    apps = [shop(name, SITEMAP_BASE_URL=None, SITEMAP_STORE=f"file:{tmp_path}") for name in ("one", "two")]
    for app in apps:
        Sitemap(app)
        app.add_url_rule(f"/{app.name}", app.name, lambda: "")
    for app in [*apps, *apps]:
        assert locs(app) == ["http://localhost/", f"http://localhost/{app.name}"]


def test_a_second_sitemap_is_refused_with_the_remedy():
    app = shop()
    sitemap = Sitemap(app)
    with pytest.raises(ConfigurationError, match="'shop' has a Sitemap already; import and use that instance"):
        Sitemap(app)
    with pytest.raises(ConfigurationError, match="already"):
        sitemap.init_app(app)
    assert locs(app) == [f"{ORIGIN}/"]


def test_an_application_that_serves_already_is_not_half_bound():
    app = shop()
    app.test_client().get("/")
    with pytest.raises(AssertionError, match="setup"):
        Sitemap(app)
    assert KEY not in app.extensions
    assert app.test_client().get("/sitemap.xml").status_code == 404


def test_a_sitemap_knows_to_which_application_it_is_bound():
    with pytest.raises(ConfigurationError, match=r"not bound to the application 'shop'; call init_app\(app\)"):
        Sitemap().status(shop())
    app = shop()
    Sitemap(app)
    with pytest.raises(ConfigurationError, match="not bound"):
        Sitemap().touch("routes", app)


def test_inside_a_context_the_application_is_the_current_one():
    app = shop()
    sitemap = Sitemap(app)
    with app.app_context():
        assert sitemap.build().count == 1
        assert sitemap.status()["sites"][0]["state"] == "fresh"


def test_flask_knows_our_rules():
    app = shop()
    Sitemap(app)
    with app.test_request_context():
        assert url_for("sitemapx.sitemap") == "/sitemap.xml"
        assert url_for("sitemapx.shard", section="articles", number=3, _external=True).endswith(
            "/sitemap-articles-3.xml"
        )
        assert url_for("sitemapx.shard_gzip", section="a-b", number="1") == "/sitemap-a-b-1.xml.gz"
    routes = app.test_cli_runner().invoke(routes_command).output
    for endpoint in ("sitemap", "sitemap_gzip", "shard", "shard_gzip", "robots"):
        assert f"sitemapx.{endpoint} " in routes


# In front of Flask, and behind it -------------------------------------------------------------------------------------


def gated(**config: Any) -> tuple[Flask, list[str]]:
    """A shop whose hooks note what they see, and that sets a cookie."""
    app = shop(**config)
    seen: list[str] = []

    @app.before_request
    def before() -> None:
        seen.append("before")
        session["visits"] = session.get("visits", 0) + 1

    @app.after_request
    def after(response: Any) -> Any:
        seen.append("after")
        response.headers["X-Hook"] = "was here"
        return response

    return app, seen


def test_hooks_and_sessions_do_not_touch_a_sitemap():
    app, seen = gated()
    Sitemap(app)
    for path in ("/sitemap.xml", "/robots.txt", "/sitemap-routes-1.xml.gz", "/sitemap-routes-9.xml"):
        response = app.test_client().get(path)
        assert "Set-Cookie" not in response.headers
        assert "X-Hook" not in response.headers
    assert seen == []


def test_a_login_gate_does_not_close_a_sitemap():
    app = shop(SITEMAP_ROUTES="all")
    app.before_request(lambda: redirect("/login"))
    Sitemap(app)
    assert locs(app) == [f"{ORIGIN}/"]
    assert app.test_client().get("/").status_code == 302


def test_with_hooks_all_goes_through_flask():
    app, seen = gated(SITEMAP_HOOKS=True)
    Sitemap(app)
    for path in ("/sitemap.xml", "/robots.txt", "/sitemap-routes-1.xml.gz"):
        response = app.test_client().get(path)
        assert response.status_code == 200
        assert "Set-Cookie" in response.headers
        assert response.headers["X-Hook"] == "was here"
    assert seen == ["before", "after"] * 3


@pytest.mark.parametrize("base_url", [ORIGIN, None])
@pytest.mark.parametrize("accepted", ["identity", "gzip"])
def test_flask_alters_no_header_and_no_body(base_url, accepted):
    apps = [shop(SITEMAP_HOOKS=hooks, SITEMAP_BASE_URL=base_url) for hooks in (False, True)]
    for app in apps:
        Sitemap(app)
    for path in ("/sitemap.xml", "/sitemap-routes-1.xml.gz", "/sitemap-routes-0001.xml", "/robots.txt"):
        etag = apps[0].test_client().get(path, headers={"Accept-Encoding": accepted}).headers.get("ETag", "")
        for method in ("GET", "HEAD"):
            for extra in ({}, {"If-None-Match": etag}, {"If-Match": '"other"'}, {"Accept-Encoding": "*;q=0"}):
                headers = {"Accept-Encoding": accepted, **extra}
                ours, theirs = (app.test_client().open(path, method=method, headers=headers) for app in apps)
                assert (theirs.status, list(theirs.headers)) == (ours.status, list(ours.headers))
                assert theirs.data == ours.data


@pytest.mark.parametrize("method", ["POST", "OPTIONS", "DELETE"])
def test_behind_hooks_other_methods_are_refused_too(method):
    app = shop(SITEMAP_HOOKS=True)
    Sitemap(app)
    response = app.test_client().open("/sitemap.xml", method=method)
    assert response.status_code == 405
    assert {*response.headers["Allow"].split(", ")} == {"GET", "HEAD"}


@pytest.mark.parametrize("hooks", [False, True])
def test_what_is_no_section_of_ours_is_left_to_the_application(hooks):
    app = shop(SITEMAP_HOOKS=hooks)
    Sitemap(app)
    app.register_error_handler(404, lambda error: ("the shop's own page", 404))
    app.add_url_rule("/sitemap-<name>.xml", "own", lambda name: f"own {name}")
    client = app.test_client()
    assert client.get("/sitemap-holiday-pictures.xml").text == "own holiday-pictures"
    for number in ("1", "9" * 5_000):
        assert client.get(f"/sitemap-unknown-{number}.xml.gz").text == "the shop's own page"


def test_with_a_proxy_fix_and_no_name_the_request_goes_through_flask():
    app, seen = gated(SITEMAP_BASE_URL=None)
    app.wsgi_app = ProxyFix(app.wsgi_app)  # type: ignore[method-assign]
    Sitemap(app)
    assert app.test_client().get("/sitemap.xml").headers["X-Hook"] == "was here"
    assert seen == ["before", "after"]


def test_a_path_may_be_missing_from_a_request():
    app = shop()
    Sitemap(app)
    status, _, _ = sent(app, "/", PATH_INFO=None)
    assert status == "200 OK"


# robots.txt and sitemap.xml of the application's own ------------------------------------------------------------------


def own_before(app: Flask, sitemap: Sitemap) -> None:
    app.add_url_rule("/robots.txt", "own", lambda: "own")
    sitemap.init_app(app)


def own_after(app: Flask, sitemap: Sitemap) -> None:
    sitemap.init_app(app)
    app.add_url_rule("/robots.txt", "own", lambda: "own")


def own_by_catch_all(app: Flask, sitemap: Sitemap) -> None:
    sitemap.init_app(app)
    app.add_url_rule("/<path:path>", "own", lambda path: "own")


def own_by_converter(app: Flask, sitemap: Sitemap) -> None:
    sitemap.init_app(app)
    app.add_url_rule("/<any('robots', 'humans'):name>.txt", "own", lambda name: "own")


def own_in_blueprint(app: Flask, sitemap: Sitemap) -> None:
    sitemap.init_app(app)
    pages = Blueprint("pages", __name__)
    pages.add_url_rule("/robots.txt", "own", lambda: "own")
    app.register_blueprint(pages)


@pytest.mark.parametrize("hooks", [False, True])
@pytest.mark.parametrize("robots", [None, False])
@pytest.mark.parametrize("setup", [own_before, own_after, own_by_catch_all, own_by_converter, own_in_blueprint])
def test_an_application_s_own_robots_txt_is_left_alone(setup, robots, hooks, caplog):
    app = shop(SITEMAP_HOOKS=hooks, SITEMAP_ROBOTS=robots)
    sitemap = Sitemap()
    with caplog.at_level(logging.INFO, "flask_sitemapx"):
        setup(app, sitemap)
        assert [app.test_client().get("/robots.txt").text for _ in range(3)] == ["own"] * 3
    said = [record.getMessage() for record in caplog.records if "robots.txt" in record.getMessage()]
    assert len(said) == (robots is None)
    assert all("own'; sitemap.robots.lines() has the lines" in text for text in said)
    sitemap.robots(disallow=["/admin/"])
    assert sitemap.robots.lines() == ["User-agent: *", "Disallow: /admin/"]
    assert sitemap.status(app)["robots_lines"][-1] == f"Sitemap: {ORIGIN}/sitemap.xml"


def test_our_robots_txt_is_served_in_place_of_the_application_s_if_that_is_wanted():
    app = shop(SITEMAP_ROBOTS=True)
    own_before(app, Sitemap())
    assert app.test_client().get("/robots.txt").text.startswith("User-agent: *")


def test_without_robots_txt_of_either_side_there_is_none():
    app = shop(SITEMAP_ROBOTS=False)
    Sitemap(app)
    assert app.test_client().get("/robots.txt").status_code == 404


@pytest.mark.parametrize("hooks", [False, True])
@pytest.mark.parametrize("has_file", [False, True])
@pytest.mark.parametrize("owner", ["app", "blueprint"])
def test_static_files_at_the_root_own_robots_txt_if_they_have_it(tmp_path, owner, has_file, hooks):
    if has_file:
        (tmp_path / "robots.txt").write_text("own")
    here = {"static_folder": str(tmp_path), "static_url_path": ""}
    app = Flask("shop", **(here if owner == "app" else {}))  # type: ignore[arg-type]
    app.config.update(SITEMAP_BASE_URL=ORIGIN, SITEMAP_HOOKS=hooks)
    if owner == "blueprint":
        app.register_blueprint(Blueprint("files", __name__, **{**here, "static_url_path": "/"}))  # type: ignore[arg-type]
    Sitemap(app)
    response = app.test_client().get("/robots.txt")
    assert response.text.startswith("own" if has_file else "User-agent: *")
    response.close()


def test_a_page_that_only_wants_a_slash_is_no_robots_txt():
    app = shop()
    Sitemap(app)
    app.add_url_rule("/<name>/", "page", lambda name: name)
    assert app.test_client().get("/robots.txt").text.startswith("User-agent: *")


def test_a_redirect_owns_robots_txt():
    app = shop()
    Sitemap(app)
    app.add_url_rule("/robots.txt", "moved", redirect_to="/static/robots.txt")
    assert app.test_client().get("/robots.txt").headers["Location"].endswith("/static/robots.txt")


def test_a_robots_txt_that_takes_posts_only_is_none():
    app = shop()
    Sitemap(app)
    app.add_url_rule("/robots.txt", "own", lambda: "own", methods=["POST"])
    assert app.test_client().get("/robots.txt").text.startswith("User-agent: *")


def test_where_hosts_are_matched_a_robots_txt_of_any_of_them_is_left_alone():
    app = Flask("shop", host_matching=True, static_host="shop.example")
    Sitemap(app)
    app.add_url_rule("/robots.txt", "own", lambda: "own", host="shop.example")
    assert app.test_client().get("/robots.txt", base_url=ORIGIN).text == "own"


def test_where_hosts_are_matched_the_pages_of_ours_are_listed():
    app = Flask("shop", host_matching=True, static_host="shop.example")
    app.config["SITEMAP_BASE_URL"] = ORIGIN
    Sitemap(app)
    app.add_url_rule("/a", "a", lambda: "", host="shop.example")
    app.add_url_rule("/b", "b", lambda: "", host="other.example")
    app.add_url_rule("/robots.txt", "own", lambda: "own", host="other.example")
    assert locs(app) == [f"{ORIGIN}/a"]
    assert app.test_client().get("/robots.txt", base_url=ORIGIN).text.startswith("User-agent: *")


def test_a_sitemap_xml_of_the_application_s_own_is_answered_by_us_with_a_warning(caplog):
    app = shop()
    app.add_url_rule("/sitemap.xml", "old_sitemap", lambda: "old")
    Sitemap(app)
    locs(app)
    locs(app)
    assert [r.getMessage() for r in caplog.records] == [
        "sitemap: /sitemap.xml is answered in place of the application's 'old_sitemap'"
    ]


def test_under_a_mount_there_is_no_robots_txt_unless_it_is_wanted():
    for wanted, status in ((None, 404), (True, 200)):
        app = shop(SITEMAP_BASE_URL=None, SITEMAP_ROBOTS=wanted)
        Sitemap(app)
        client = Client(DispatcherMiddleware(shop("outer"), {"/sub": app}))
        assert client.get("/sub/robots.txt").status_code == status


def test_a_site_that_is_not_in_production_may_close_its_robots_txt():
    app = shop(SITEMAP_DISALLOW_ALL=True)
    Sitemap(app).robots(allow=["/"])
    assert app.test_client().get("/robots.txt").text == "User-agent: *\nDisallow: /\n"


def test_robots_txt_follows_a_later_rule_at_once():
    app = shop()
    sitemap = Sitemap(app)
    before = app.test_client().get("/robots.txt")
    sitemap.robots("GPTBot", disallow=["/"])
    after = app.test_client().get("/robots.txt", headers={"If-None-Match": before.headers["ETag"]})
    assert "GPTBot" not in before.text
    assert "GPTBot" in after.text


# Empty, cold, failing -------------------------------------------------------------------------------------------------


def test_a_site_with_nothing_to_list_says_so_and_robots_txt_names_no_sitemap():
    app = shop(SITEMAP_ROUTES="marked")
    sitemap = Sitemap(app)
    assert "Sitemap:" in app.test_client().get("/robots.txt").text
    sitemap.build(app)
    response = app.test_client().get("/sitemap.xml")
    assert (response.status_code, response.content_type) == (404, "text/plain; charset=utf-8")
    assert "of 2 rules of the url_map none is listed" in response.text
    assert response.text.count("\n") == 1
    assert "Sitemap:" not in app.test_client().get("/robots.txt").text


def test_before_the_first_build_is_done_clients_are_asked_to_come_again():
    app = shop(SITEMAP_BUILD_WAIT=0)
    sitemap = Sitemap(app)
    gate = threading.Event()

    @sitemap.section("slow")
    def slow() -> Iterator[str]:
        gate.wait(60)
        yield "/slow"

    response = app.test_client().get("/sitemap.xml")
    robots = app.test_client().get("/robots.txt")
    gate.set()
    built(app)
    assert (response.status_code, response.headers["Cache-Control"]) == (503, "no-store")
    assert int(response.headers["Retry-After"]) >= 1
    assert (robots.status_code, "Sitemap:" in robots.text) == (200, True)
    assert locs(app) == [f"{ORIGIN}/", f"{ORIGIN}/slow"]


@pytest.mark.parametrize("config", [{"TESTING": True}, {"DEBUG": True}])
def test_while_developing_a_section_that_fails_is_shown(config):
    app = shop(**config)
    sitemap = Sitemap(app)

    @sitemap.section("articles")
    def articles() -> Iterator[str]:
        yield "/a"
        raise LookupError("no such table")

    response = app.test_client().get("/sitemap.xml")
    assert (response.status_code, response.content_type) == (500, "text/plain; charset=utf-8")
    assert "section 'articles': LookupError: no such table" in response.text
    assert app.test_client().get("/robots.txt").status_code == 200
    with pytest.raises(BuildFailed, match="articles"):
        sitemap.build(app)


def test_in_production_the_last_good_entries_go_on_being_served(caplog):
    app = shop()
    sitemap = Sitemap(app)
    failing: list[Exception] = []

    @sitemap.section("articles")
    def articles() -> Iterator[str]:
        yield "/a"
        if failing:
            raise failing[0]

    assert locs(app) == [f"{ORIGIN}/", f"{ORIGIN}/a"]
    failing.append(LookupError("no such table"))
    sitemap.touch("articles", app)
    assert locs(app) == [f"{ORIGIN}/", f"{ORIGIN}/a"]
    told = sitemap.status(app)["sites"][0]
    assert told["snapshot"]["sections"]["articles"]["error"] == "LookupError: no such table"
    assert any("'articles'" in record.getMessage() for record in caplog.records)


def test_in_production_a_first_build_that_fails_says_nothing_to_the_world():
    app = shop()
    sitemap = Sitemap(app)
    sitemap.section("articles")(lambda: 1 / 0)
    response = app.test_client().get("/sitemap.xml")
    assert response.status_code == 503
    assert "Division" not in response.text
    assert "ZeroDivisionError" in sitemap.status(app)["sites"][0]["error"]


def test_bad_entries_are_left_out_and_reported():
    app = shop()
    sitemap = Sitemap(app)
    section(sitemap, "/a", "relative", "https://evil.example/", ("home", {}), 7)
    assert locs(app) == [f"{ORIGIN}/", f"{ORIGIN}/a"]
    problems = sitemap.status(app)["sites"][0]["snapshot"]["sections"]["articles"]["problems"]
    assert sum(count for count, _ in problems.values()) == 3


def test_without_a_thread_a_build_runs_after_the_answer(monkeypatch):
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    app = shop()
    Sitemap(app)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    status, _, body = sent(app, "/sitemap.xml")
    assert status == "503 Service Unavailable"
    assert keeper(app).is_pending
    body.close()
    assert locs(app) == [f"{ORIGIN}/"]


# touch and status -----------------------------------------------------------------------------------------------------


def test_after_a_touch_the_next_answer_is_another():
    app = shop()
    sitemap = Sitemap(app)
    items = section(sitemap, "/a")
    assert locs(app)[1:] == [f"{ORIGIN}/a"]
    items.append("/b")
    assert locs(app)[1:] == [f"{ORIGIN}/a"]
    sitemap.touch("articles", app)
    assert locs(app)[1:] == [f"{ORIGIN}/a", f"{ORIGIN}/b"]


def test_a_touch_of_no_section_names_those_there_are():
    app = shop()
    sitemap = Sitemap(app)
    section(sitemap, name="blog")
    with pytest.raises(ConfigurationError, match="no section 'bolg'; there are routes, blog"):
        sitemap.touch("bolg", app)


def test_a_touch_reaches_all_sites():
    app = shop(SITEMAP_BASE_URL=None, TRUSTED_HOSTS=["a.example", "b.example"])
    sitemap = Sitemap(app)
    items = section(sitemap, "/a")

    def counts() -> list[int]:
        hosts = ("a.example", "b.example")
        return [app.test_client().get("/sitemap.xml", headers={"Host": host}).text.count("<loc>") for host in hosts]

    assert counts() == [2, 2]
    items.append("/b")
    sitemap.touch("articles", app)
    assert counts() == [3, 3]
    assert {site["base_url"] for site in sitemap.status(app)["sites"]} == {"http://a.example", "http://b.example"}


def test_status_is_plain_and_true():
    app = shop()
    sitemap = Sitemap(app)
    section(sitemap, "/a", "/b", ("home", {}))
    before = sitemap.status(app)
    sitemap.build(app)
    after = json.loads(json.dumps(sitemap.status(app)))
    assert before["sites"][0]["state"] == "missing"
    assert before["sites"][0]["snapshot"] is None
    assert (after["base_url"], after["store"]) == (ORIGIN, "memory:")
    assert after["limits"] == {"urls": 10_000, "bytes": 52_428_800}
    site = after["sites"][0]
    assert (site["state"], site["error"], site["store_error"]) == ("fresh", None, None)
    assert 0 <= site["age"] <= 60
    assert site["age"] + site["due_in"] == 3_600
    length = len(app.test_client().get("/sitemap-articles-1.xml").data)
    assert site["largest"] == {"urls": 3, "bytes": length}
    assert site["snapshot"]["sections"]["articles"]["count"] == 3


def test_status_offers_the_lines_for_a_robots_txt_that_is_not_ours():
    app = shop(SITEMAP_BASE_URL=f"{ORIGIN}/sub")
    sitemap = Sitemap(app)
    assert sitemap.status(app)["robots_lines"][-1] == f"Sitemap: {ORIGIN}/sub/sitemap.xml"
    unnamed = shop(SITEMAP_BASE_URL=None, SITEMAP_ROBOTS=False)
    assert Sitemap(unnamed).status(unnamed)["robots_lines"] == ["User-agent: *", "Disallow:"]
    own = shop()
    assert "robots_lines" not in Sitemap(own).status(own)


def test_status_tells_of_a_store_that_cannot_be_opened(tmp_path):
    (tmp_path / "file").touch()
    app = shop(SITEMAP_STORE=f"file:{tmp_path / 'file'}")
    told = Sitemap(app).status(app)
    assert told["sites"] == []
    assert "cannot use the directory" in json.dumps(told)


def test_other_defaults_have_a_section_pulled_although_its_version_stands(tmp_path):
    def document(changefreq: str, priority: float) -> str:
        app = shop(SITEMAP_STORE=f"file:{tmp_path}")
        sitemap = Sitemap(app)

        @app.get("/page")
        @sitemap.include(priority=priority)
        def page() -> str:
            return ""

        section(sitemap, ("page", {"n": 1}), version=lambda: 1, changefreq=changefreq)
        return app.test_client().get("/sitemap-articles-1.xml").text

    assert "<changefreq>weekly</changefreq><priority>0.1</priority>" in document("weekly", 0.1)
    assert "<changefreq>daily</changefreq><priority>0.1</priority>" in document("daily", 0.1)
    assert "<changefreq>daily</changefreq><priority>0.2</priority>" in document("daily", 0.2)


def test_a_sitemap_of_one_application_needs_no_context():
    app = shop()
    sitemap = Sitemap(app)
    section(sitemap, "/a")
    assert sitemap.build().count == 2
    sitemap.touch("articles")
    assert sitemap.status()["sites"][0]["state"] == "stale"
    sitemap.init_app(shop())
    with pytest.raises(RuntimeError, match="application context"):
        sitemap.touch("articles")


def test_a_sitemap_does_not_keep_applications_alive():
    sitemap = Sitemap()
    for _ in range(3):
        sitemap.init_app(shop())
    gc.collect()
    assert sitemap.apps == []


def test_a_refresh_builds_only_what_is_not_fresh():
    app = shop()
    sitemap = Sitemap(app)
    section(sitemap, "/a")
    first = sitemap.refresh(app)
    assert sitemap.refresh(app) is first
    sitemap.touch("articles", app)
    assert sitemap.refresh(app).number == first.number + 1


# Contexts -------------------------------------------------------------------------------------------------------------


@contextmanager
def library(uri: str) -> Iterator[tuple[Flask, Sitemap]]:
    """Authors with books, lazily loaded, in a database that its session reads."""
    app = shop(SQLALCHEMY_DATABASE_URI=uri)
    db = SQLAlchemy(model_class=type("Model", (DeclarativeBase,), {}))
    db.init_app(app)

    class Author(db.Model):  # type: ignore[name-defined,misc]
        id: Mapped[int] = mapped_column(primary_key=True)
        books: Mapped[list[Book]] = relationship()

    class Book(db.Model):  # type: ignore[name-defined,misc]
        id: Mapped[int] = mapped_column(primary_key=True)
        author_id: Mapped[int] = mapped_column(ForeignKey(Author.id))

    with app.app_context():
        db.create_all()
        db.session.add_all([Author(id=number, books=[Book(), Book()]) for number in range(1, 4)])
        db.session.commit()
    app.add_url_rule("/<int:author>/<int:book>", "book", lambda author, book: "")
    sitemap = Sitemap(app)

    @sitemap.section("books")
    def books() -> Iterator[Any]:
        for author in db.session.scalars(select(Author)):
            for book in author.books:
                yield "book", {"author": author.id, "book": book.id}

    app.extensions["db"] = db
    yield app, sitemap
    with app.app_context():
        db.engine.dispose()


@pytest.mark.parametrize("where", ["memory", "file"])
def test_a_database_session_lives_through_a_pull(where, tmp_path):
    uri = "sqlite://" if where == "memory" else f"sqlite:///{tmp_path / 'library.db'}"
    expected = [f"{ORIGIN}/{author}/{book}" for author in (1, 2, 3) for book in (2 * author - 1, 2 * author)]
    with library(uri) as (app, sitemap):
        assert locs(app, "/sitemap-books-1.xml") == expected
        with app.app_context():
            caller = app.extensions["db"].session()
            assert sitemap.build().count == 7
            assert app.extensions["db"].session() is caller, "the pull had a session of its own"


def test_nothing_leaks_from_a_pull_to_whoever_asked_for_it():
    app = shop()
    sitemap = Sitemap(app)
    variable = contextvars.ContextVar("variable", default="outside")

    @sitemap.section("articles")
    def articles() -> Iterator[str]:
        variable.set("inside")
        assert "user" not in g
        assert not has_request_context()
        g.user = "builder"
        yield "/a"
        assert current_app.name == "shop"
        assert (g.user, variable.get()) == ("builder", "inside")
        yield "/b"

    with app.test_request_context("/"):
        g.caller = session["caller"] = "caller"
        assert sitemap.build().count == 3
        assert ("user" in g, g.caller, dict(session)) == (False, "caller", {"caller": "caller"})
        assert variable.get() == "outside"


def torn_down(app: Flask) -> list[Any]:
    """What was passed to teardown functions."""
    passed: list[Any] = []
    app.teardown_appcontext(passed.append)
    return passed


def test_each_pull_is_torn_down_once():
    app = shop()
    sitemap = Sitemap(app)
    section(sitemap, *(f"/{number}" for number in range(2_000)))
    passed = torn_down(app)
    sitemap.build(app)
    assert passed == [None] * 2, "one for the routes, one for the articles"
    assert len(locs(app)) == 2_001
    assert len(passed) == 2


def test_a_pull_that_fails_is_torn_down_once_with_its_error():
    app = shop()
    sitemap = Sitemap(app)
    closed = []

    @sitemap.section("articles")
    def articles() -> Iterator[str]:
        try:
            yield from ("/a", "relative")
            raise LookupError
        finally:
            closed.append(current_app.name)

    passed = torn_down(app)
    with pytest.raises(BuildFailed):
        sitemap.build(app)
    assert list(map(type, passed)) == [type(None), LookupError]
    assert closed == ["shop"]


def test_a_generator_is_closed_inside_its_context_when_an_entry_fails_the_build():
    app = shop(SITEMAP_ON_ERROR="raise")
    sitemap = Sitemap(app)
    closed = []

    @sitemap.section("articles")
    def articles() -> Iterator[str]:
        try:
            while True:
                yield "relative"
        finally:
            closed.append(current_app.name)

    passed = torn_down(app)
    with pytest.raises(BuildFailed, match=r"section 'articles': .*'relative'"):
        sitemap.build(app)
    assert closed == ["shop"]
    assert len(passed) == 2


class Cursor:
    """Rows that are to be closed, as a database's are."""

    def __init__(self) -> None:
        self.closed_in: str | None = None

    def __iter__(self) -> Iterator[str]:
        return iter(["/a", "relative", "/b"])

    def close(self) -> None:
        self.closed_in = current_app.name


@pytest.mark.parametrize("on_error", ["skip", "raise"])
def test_what_a_section_returns_is_closed_inside_its_context(on_error):
    app = shop(SITEMAP_ON_ERROR=on_error)
    sitemap = Sitemap(app)
    cursor = Cursor()
    sitemap.section("articles")(lambda: cursor)
    with suppress(BuildFailed):
        sitemap.build(app)
    assert cursor.closed_in == "shop"


@pytest.mark.parametrize(
    ("config", "base"),
    [
        ({"SITEMAP_BASE_URL": f"{ORIGIN}/sub"}, f"{ORIGIN}/sub"),
        ({"SITEMAP_BASE_URL": None, "SERVER_NAME": "shop.example"}, "http://shop.example"),
        ({"SITEMAP_BASE_URL": None}, "http://localhost"),
    ],
)
def test_url_for_in_a_section_gives_addresses_of_the_site(config, base):
    app = shop(**config)
    sitemap = Sitemap(app)
    app.add_url_rule("/articles/<slug>", "article", lambda slug: slug)

    @sitemap.section("articles")
    def articles() -> Iterator[str]:
        yield url_for("article", slug="a b")
        yield url_for("article", slug="c", page=2)

    expected = [f"{base}/", f"{base}/articles/a%20b", f"{base}/articles/c?page=2"]
    host = {"Host": "shop.example"} if "SERVER_NAME" in config else {}
    text = app.test_client().get("/sitemap.xml", headers=host).text
    assert re.findall("<loc>([^<]*)</loc>", text) == expected
    with app.test_request_context("/", base_url="http://elsewhere.example/mount"):
        assert sitemap.build().count == 3, "also when a view asks for the build"
    assert re.findall("<loc>([^<]*)</loc>", app.test_client().get("/sitemap.xml", headers=host).text) == expected


def multilingual(default: Any) -> tuple[Flask, Sitemap]:
    app = shop()
    app.url_defaults(default)
    app.add_url_rule("/<lang_code>/about", "about", lambda lang_code: "")
    app.add_url_rule("/<lang_code>/articles/<slug>", "article", lambda lang_code, slug: "")
    sitemap = Sitemap(app)
    section(sitemap, ("article", {"slug": "a"}), ("article", {"lang_code": "fr", "slug": "b"}))
    return app, sitemap


def test_url_defaults_complete_addresses():
    def language(endpoint: str, values: dict[str, Any]) -> None:
        if current_app.url_map.is_endpoint_expecting(endpoint, "lang_code"):
            values.setdefault("lang_code", g.get("lang_code", "en"))

    app, _ = multilingual(language)
    assert locs(app) == [f"{ORIGIN}/{path}" for path in ("", "en/about", "en/articles/a", "fr/articles/b")]


def test_url_defaults_have_no_part_in_the_context_of_a_pull():
    def language(endpoint: str, values: dict[str, Any]) -> None:
        g.asked = g.get("asked", 0) + 1
        values.setdefault("lang_code", g.get("lang_code", "en"))

    app, sitemap = multilingual(language)

    @sitemap.section("more")
    def more() -> Iterator[Any]:
        g.lang_code = "de"
        for number in range(1_000):
            yield "article", {"slug": str(number)}
        assert "asked" not in g

    assert f"{ORIGIN}/en/articles/999" in locs(app)


def test_url_defaults_that_fail_drop_their_addresses_with_the_reason():
    def language(endpoint: str, values: dict[str, Any]) -> None:
        if "lang_code" not in values and current_app.url_map.is_endpoint_expecting(endpoint, "lang_code"):
            values["lang_code"] = g.lang_code

    app, sitemap = multilingual(language)
    assert f"{ORIGIN}/" in locs(app)
    sections = sitemap.status(app)["sites"][0]["snapshot"]["sections"]
    assert sections["routes"]["problems"]["url-defaults"][0] == 1  # of the rule that needs nothing else
    assert sections["articles"]["problems"]["url-defaults"][0] == 1


# Views ----------------------------------------------------------------------------------------------------------------


def test_a_blueprint_that_is_registered_twice_is_listed_twice():
    app = shop(SITEMAP_ROUTES="marked")
    sitemap = Sitemap(app)
    pages = Blueprint("pages", __name__)
    pages.add_url_rule("/about", "about", sitemap.include(lambda: "about", priority=0.3))
    app.register_blueprint(pages, url_prefix="/one", name="one")
    app.register_blueprint(pages, url_prefix="/two", name="two")
    assert locs(app) == [f"{ORIGIN}/one/about", f"{ORIGIN}/two/about"]
    assert app.test_client().get("/sitemap.xml").text.count("<priority>0.3</priority>") == 2


def test_view_classes_are_marked_in_any_way():
    app = shop(SITEMAP_ROUTES="marked")
    sitemap = Sitemap(app)

    @sitemap.include
    class Marked(View):
        def dispatch_request(self) -> str:
            return ""

    class Decorated(MethodView):
        decorators = [sitemap.include(lastmod="2024-05-06")]  # noqa: RUF012

        def get(self) -> str:
            return ""

    class Plain(MethodView):
        def get(self) -> str:
            return ""

    class Sub(Marked):
        pass

    app.add_url_rule("/marked", view_func=Marked.as_view("marked"))
    app.add_url_rule("/decorated", view_func=Decorated.as_view("decorated"))
    app.add_url_rule("/result", view_func=sitemap.include(Plain.as_view("result")))
    app.add_url_rule("/plain", view_func=Plain.as_view("plain"))
    app.add_url_rule("/sub", view_func=Sub.as_view("sub"))
    assert locs(app) == [f"{ORIGIN}/{path}" for path in ("marked", "decorated", "result")]


def test_marks_work_above_and_below_the_route():
    app = shop(SITEMAP_ROUTES="marked")
    sitemap = Sitemap(app)

    @sitemap.include
    @app.get("/above")
    def above() -> str:
        return ""

    @app.get("/below")
    @sitemap.include
    def below() -> str:
        return ""

    assert above() == below() == ""
    assert locs(app) == [f"{ORIGIN}/above", f"{ORIGIN}/below"]


def test_values_come_from_entry_view_and_section_in_this_order():
    app = shop()
    sitemap = Sitemap(app)
    when = datetime(2024, 1, 1, tzinfo=UTC)
    view = sitemap.include(lambda slug: slug, changefreq="daily", lastmod=lambda: when)
    app.add_url_rule("/articles/<slug>", "article", view)
    items = [("article", {"slug": "a"}), ("article", {"slug": "b"}, None, "weekly", lambda row: 0.1)]
    section(sitemap, *items, "/c", priority=lambda: 0.9, changefreq="yearly")
    text = app.test_client().get("/sitemap-articles-1.xml").text
    rows = re.findall(
        r"<loc>\S*/(.)</loc>(?:<lastmod>(\d+).*?</lastmod>)?<changefreq>(.*?)</.*?<priority>(.*?)</", text
    )
    assert rows == [("a", "2024", "daily", "0.9"), ("b", "2024", "weekly", "0.1"), ("c", "", "yearly", "0.9")]


# Settings -------------------------------------------------------------------------------------------------------------


def test_settings_come_from_the_environment_too(monkeypatch):
    monkeypatch.setenv("SITEMAP_BASE_URL", "https://environment.example")
    monkeypatch.setenv("SITEMAP_MAX_AGE", "7")
    app = shop(SITEMAP_BASE_URL=None)
    Sitemap(app)
    response = app.test_client().get("/sitemap.xml")
    assert "<loc>https://environment.example/</loc>" in response.text
    assert response.headers["Cache-Control"].startswith("public, max-age=7,")


WRONG = [
    ({"SITEMAP_MAX_URLS": "many"}, "SITEMAP_MAX_URLS must be a whole number"),
    ({"SITEMAP_BASE_URL": "shop.example"}, r"SITEMAP_BASE_URL: .*'shop\.example'"),
    ({"SITEMAP_STORE": "nowhere:"}, "SITEMAP_STORE must be .*'nowhere:'"),
    ({"SITEMAP_BASE_URL": None, "SERVER_NAME": "a b"}, "SERVER_NAME: .*'a b'"),
    ({"TRUSTED_HOSTS": ["*"]}, r"TRUSTED_HOSTS holds '\*'"),
]


@pytest.mark.parametrize(("config", "text"), WRONG, ids=str)
def test_a_setting_that_cannot_be_used_is_named(config, text):
    app = shop(**config)
    sitemap = Sitemap(app)
    for call in (sitemap.build, sitemap.status):
        with pytest.raises(ConfigurationError, match=text):
            call(app)


@pytest.mark.parametrize(("config", "text"), WRONG[:3], ids=str)
def test_under_wrong_settings_robots_txt_and_the_rest_of_the_shop_answer_all_the_same(config, text, caplog):
    app = shop(**config)
    Sitemap(app).robots(disallow=["/admin/"])
    app.add_url_rule("/sitemap-page", "page", lambda: "a page of the shop")
    robots = app.test_client().get("/robots.txt")
    assert (robots.status_code, robots.text) == (200, "User-agent: *\nDisallow: /admin/\n")
    assert robots.headers["Cache-Control"] == "no-store"
    assert app.test_client().get("/sitemap-page").text == "a page of the shop"
    assert app.test_client().get("/sitemap.xml").status_code == 500
    assert re.search(text, caplog.text)


@pytest.mark.parametrize(("closed", "is_closed"), [("on", True), ("off", False), ("nonsense", True), ("", False)])
def test_under_wrong_settings_robots_txt_stays_closed_if_it_was(closed, is_closed, monkeypatch):
    monkeypatch.setenv("SITEMAP_DISALLOW_ALL", closed)
    app = shop(SITEMAP_MAX_URLS=-1)
    Sitemap(app)
    text = app.test_client().get("/robots.txt").text
    assert (text == "User-agent: *\nDisallow: /\n") == is_closed


def test_a_store_that_cannot_be_opened_is_tried_again(tmp_path, caplog):
    directory = tmp_path / "store"
    directory.write_text("in the way")
    app = shop(SITEMAP_STORE=f"file:{directory}")
    sitemap = Sitemap(app)
    response = app.test_client().get("/sitemap.xml")
    robots = app.test_client().get("/robots.txt")
    assert (response.status_code, response.headers["Retry-After"]) == (503, "10")
    assert str(directory) not in response.text
    assert str(directory) in caplog.text
    assert (robots.status_code, "Sitemap:" in robots.text) == (200, True)
    with pytest.raises(StoreError):
        sitemap.touch("routes", app)
    directory.unlink()
    assert locs(app) == [f"{ORIGIN}/"]


def test_a_name_that_comes_from_requests_is_warned_of_once_outside_development(caplog):
    developing: dict[str, Any] = {"TESTING": True}
    trusting: dict[str, Any] = {"TRUSTED_HOSTS": ["localhost"]}
    for config, count in (({}, 1), (developing, 0), (trusting, 0)):
        caplog.clear()
        app = shop(**{"SITEMAP_BASE_URL": None, **config})
        Sitemap(app)
        locs(app)
        locs(app)
        assert len([r for r in caplog.records if "set SITEMAP_BASE_URL" in r.getMessage()]) == count


def test_a_set_for_each_process_is_warned_of_once(tmp_path, caplog):
    for store, count in (("memory:", 1), (f"file:{tmp_path}", 0)):
        caplog.clear()
        app = shop(SITEMAP_STORE=store)
        Sitemap(app)
        for _ in range(3):
            list(sent(app, "/sitemap.xml", **{"wsgi.multiprocess": True})[2])
        assert len([r for r in caplog.records if "memory:" in r.getMessage()]) == count


def test_a_view_that_is_excluded_in_a_new_version_is_gone_at_once(tmp_path):
    for is_listed in (True, False):
        app = shop(SITEMAP_STORE=f"file:{tmp_path}")
        sitemap = Sitemap(app)
        view = sitemap.include(lambda: "") if is_listed else sitemap.exclude(lambda: "")
        app.add_url_rule("/admin", "admin", view)
        assert (f"{ORIGIN}/admin" in locs(app)) == is_listed


# Bodies ---------------------------------------------------------------------------------------------------------------


def large(tmp_path: Path, **config: Any) -> tuple[Flask, Sitemap, list[Path]]:
    """A shop with a document of several stored pieces, and where they are, in order."""
    app = shop(SITEMAP_STORE=f"file:{tmp_path}", **config)
    sitemap = Sitemap(app)
    section(sitemap, *(f"/{random.Random(number).randbytes(800).hex()}" for number in range(1_000)))
    shard = sitemap.build(app).shard("articles", 1)
    assert shard is not None
    document = shard.document
    assert document is not None
    assert len(document.pieces) > 1
    return app, sitemap, [next(tmp_path.rglob(digest)) for digest, _ in document.pieces]


def text_of(body: bytes) -> bytes:
    return gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body


@pytest.mark.parametrize("method", ["delete", "corrupt", "cut"])
@pytest.mark.parametrize("path", ["/sitemap-articles-1.xml", "/sitemap-articles-1.xml.gz"])
@pytest.mark.parametrize("base_url", [ORIGIN, None])
def test_a_damaged_first_piece_is_made_anew_before_it_is_answered(tmp_path, monkeypatch, base_url, path, method):
    monkeypatch.setattr(view, "KEPT_BYTES", 0)
    app, _, pieces = large(tmp_path, SITEMAP_BASE_URL=base_url)
    before = app.test_client().get(path).data
    damage(pieces[0], method)
    after = app.test_client().get(path)
    assert (after.status_code, text_of(after.data)) == (200, text_of(before))


@pytest.mark.parametrize("accepted", ["identity", "gzip"])
def test_a_piece_that_is_damaged_midway_cuts_the_answer_and_the_next_is_whole(tmp_path, monkeypatch, accepted):
    monkeypatch.setattr(view, "KEPT_BYTES", 0)
    app, _, pieces = large(tmp_path)
    request = {"HTTP_ACCEPT_ENCODING": accepted}
    before = b"".join(sent(app, "/sitemap-articles-1.xml", **request)[2])
    damage(pieces[-1], "corrupt")
    status, headers, body = sent(app, "/sitemap-articles-1.xml", **request)
    received: list[bytes] = []
    with pytest.raises(StoreError):
        received.extend(body)
    assert status == "200 OK"
    assert 0 < len(b"".join(received)) < int(headers["Content-Length"])
    assert b"".join(sent(app, "/sitemap-articles-1.xml", **request)[2]) == before


def test_what_this_process_has_read_is_sent_although_the_store_lost_it(tmp_path):
    app, sitemap, pieces = large(tmp_path)
    before = app.test_client().get("/sitemap-articles-1.xml").data
    for piece in pieces:
        damage(piece, "delete")
    assert app.test_client().get("/sitemap-articles-1.xml").data == before
    assert sitemap.status(app)["sites"][0]["state"] == "fresh"


def test_a_head_and_a_304_of_a_damaged_document_read_no_piece(tmp_path):
    app, _, pieces = large(tmp_path)
    for piece in pieces:
        damage(piece, "delete")
    etag = app.test_client().head("/sitemap-articles-1.xml").headers["ETag"]
    assert app.test_client().get("/sitemap-articles-1.xml", headers={"If-None-Match": etag}).status_code == 304
    assert sum(path.name in {piece.name for piece in pieces} for path in tmp_path.rglob("*")) == 0


def damage(piece: Path, method: str) -> None:
    data = piece.read_bytes()
    if method == "delete":
        piece.unlink()
    elif method == "cut":
        piece.write_bytes(data[:-1])
    else:
        piece.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def test_a_client_that_hangs_up_leaves_nothing_open(tmp_path):
    app, _, _ = large(tmp_path)
    for request in ({}, {"HTTP_ACCEPT_ENCODING": "gzip"}):
        _, _, body = sent(app, "/sitemap-articles-1.xml", **request)
        assert next(iter(body))
        body.close()
        assert list(body) == []


def test_a_client_that_hangs_up_behind_hooks_leaves_nothing_open(tmp_path):
    app, _, _ = large(tmp_path, SITEMAP_HOOKS=True)
    passed = torn_down(app)
    _, _, body = sent(app, "/sitemap-articles-1.xml")
    assert next(iter(body))
    body.close()
    assert passed == [None]


def test_threads_that_come_first_together_find_one_set_of_services():
    app = shop()
    Sitemap(app)
    barrier = threading.Barrier(8)
    found = []

    def look() -> None:
        barrier.wait(60)
        found.append((app.extensions[KEY].services(), keeper(app)))

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 8
    assert len(set(found)) == 1


# Which views are listed -----------------------------------------------------------------------------------------------


def guide(**config: Any) -> Flask:
    """A shop with a page, a log-in form, an API and a page for each city."""
    app = shop(**config)
    app.add_url_rule("/about", "about", lambda: render_template("about.html"))
    app.add_url_rule("/login", "login", lambda: render_template("login.html"))
    app.add_url_rule("/cities", "cities", lambda: jsonify([]))
    app.add_url_rule("/city/<name>", "city", lambda name: render_template("city.html", name=name))
    return app


def test_by_default_what_looks_like_a_public_page_is_listed():
    app = guide()
    Sitemap(app)
    assert locs(app) == [f"{ORIGIN}/", f"{ORIGIN}/about"]


def test_settings_list_more_and_less():
    for config, paths in (
        ({"SITEMAP_ROUTES": "all"}, ["/", "/about", "/login", "/cities"]),
        ({"SITEMAP_INCLUDE": ["login"], "SITEMAP_EXCLUDE": "/about, nothing"}, ["/", "/login"]),
        ({"SITEMAP_ROUTES": "marked", "SITEMAP_INCLUDE": "/cit*"}, ["/cities"]),
        ({"SITEMAP_WORDS": ["about"]}, ["/", "/login"]),
    ):
        app = guide(**config)
        Sitemap(app)
        assert locs(app) == [f"{ORIGIN}{path}" for path in paths], config


def test_routes_are_explained():
    app = guide()
    sitemap = Sitemap(app)
    sitemap.section("cities", endpoint="city")(lambda: ())
    found = {endpoint: (url, listed, reason) for endpoint, url, listed, reason in sitemap.explain_routes(app)}
    assert found["about"] == ("/about", True, "its view uses a template")
    assert found["login"] == (None, False, "its path or endpoint has the word 'login'")
    assert found["city"] == (None, False, "it needs name: the section 'cities' lists it")
    assert found["sitemapx.sitemap"] == (None, False, "it serves the sitemap")
    assert len(found) == len({rule.endpoint for rule in app.url_map.iter_rules()})


def test_endpoints_that_no_section_completes_are_counted_once_in_the_log(caplog):
    app = guide()
    sitemap = Sitemap(app)
    with caplog.at_level("INFO", "flask_sitemapx.extension"):
        sitemap.build(app)
        sitemap.build(app)
    assert [record.message for record in caplog.records if "need arguments" in record.message] == [
        "sitemap: 1 endpoints need arguments, and no section is known to list them; see explain_routes()"
    ]
