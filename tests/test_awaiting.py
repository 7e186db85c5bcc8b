"""Asynchronous sections and callbacks, in Flask and without it."""

from __future__ import annotations

import asyncio
import contextvars
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

import pytest
from flask import Flask, current_app, g
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import Mapped, mapped_column

from flask_sitemapx import BuildFailed, Registry, Sitemap, SitemapMiddleware
from flask_sitemapx.sources.awaiting import BATCH, Awaiting, awaited
from tests.test_extension import ORIGIN, shop


class Build:
    """What `sitemap.build()` made of one section or view."""

    def __init__(self, **config: Any) -> None:
        self.app = shop(**{"SITEMAP_ON_ERROR": "raise", **config})
        self.sitemap = Sitemap(self.app)
        self.app.add_url_rule("/pages/<slug>", "page", lambda slug: slug)

    def locs(self) -> list[str]:
        self.sitemap.build()
        return re.findall(f"<loc>{ORIGIN}(.*?)</loc>", self.text())

    def text(self) -> str:
        return self.app.test_client().get("/sitemap.xml").text


@pytest.fixture
def build():
    return Build()


def threads() -> int:
    return sum(thread.name == "sitemap-await" for thread in threading.enumerate())


async def day() -> str:
    await asyncio.sleep(0)
    return "2026-11-30"


async def many(count: int, seen: list[Any], sign: Callable[[], object] = asyncio.get_running_loop) -> Any:
    try:
        for number in range(count):
            await asyncio.sleep(0)
            seen.append(sign())
            yield f"/{number}"
    finally:
        seen.append(sign())


def test_a_section_may_be_an_asynchronous_generator(build):
    @build.sitemap.section("pages")
    async def pages():
        await asyncio.sleep(0)
        yield "/a"
        yield "page", {"slug": "b"}

    assert build.locs() == ["/", "/a", "/pages/b"]


def test_a_section_may_be_a_coroutine_function_of_a_list(build):
    @build.sitemap.section("pages")
    async def pages():
        await asyncio.sleep(0)
        return ["/a", "/b"]

    assert build.locs() == ["/", "/a", "/b"]


def test_the_keys_of_a_section_and_their_entries_may_be_asynchronous(build):
    async def months():
        await asyncio.sleep(0)
        yield "october"
        yield "november", 1

    @build.sitemap.section("news", shards=months)
    async def news(month):
        await asyncio.sleep(0)
        yield f"/{month}"

    assert build.locs() == ["/", "/october", "/november"]


def test_a_section_may_be_a_coroutine_function_of_an_asynchronous_iterable(build):
    @build.sitemap.section("pages")
    async def pages():
        return many(2, [])

    assert build.locs() == ["/", "/0", "/1"]


@pytest.mark.parametrize("sign", [asyncio.get_running_loop, asyncio.current_task, threading.get_ident])
def test_a_generator_lives_in_one_task_of_one_loop_from_the_first_entry_to_the_last(build, sign):
    seen: list[Any] = []
    build.sitemap.section("pages")(partial(many, 2 * BATCH + 1, seen, sign))
    build.locs()
    assert len(seen) == 2 * BATCH + 2
    assert len(set(seen)) == 1


def test_timeouts_that_span_entries_are_those_of_asyncio(build):
    @build.sitemap.section("pages")
    async def pages():
        async with asyncio.timeout(60):
            for number in range(BATCH + 1):
                yield f"/{number}"

    assert len(build.locs()) == BATCH + 2


def test_callbacks_of_entries_use_the_loop_of_their_section(build):
    loops: list[Any] = []

    async def changed(values):
        loops.append(asyncio.get_running_loop())
        return f"2026-11-0{values['slug']}"

    @build.sitemap.section("pages")
    async def pages():
        loops.append(asyncio.get_running_loop())
        yield "page", {"slug": 1}, changed
        yield "page", {"slug": 2}, changed

    build.locs()
    assert re.findall("<lastmod>(.*?)</lastmod>", build.text()) == ["2026-11-01", "2026-11-02"]
    assert len(loops) == 3
    assert len(set(loops)) == 1


def test_values_of_a_section_may_be_coroutine_functions(build):
    build.sitemap.section("pages", lastmod=day, version=day)(lambda: ["/a"])
    build.locs()
    assert f"<loc>{ORIGIN}/a</loc><lastmod>2026-11-30</lastmod>" in build.text()


def test_a_version_may_be_a_coroutine_function(build):
    pulls: list[Any] = []
    build.sitemap.section("pages", version=day)(partial(many, 1, pulls))
    build.locs()
    assert build.locs() == ["/", "/0"]
    assert len(pulls) == 2


def test_marks_on_views_may_be_coroutine_functions(build):
    async def never():
        await asyncio.sleep(0)
        return False

    build.app.view_functions["home"] = build.sitemap.include(lastmod=day)(lambda: "home")
    build.app.add_url_rule("/dated", "dated", build.sitemap.include(lastmod=day, when=day)(lambda: ""))
    build.app.add_url_rule("/hidden", "hidden", build.sitemap.include(when=never)(lambda: ""))
    assert build.locs() == ["/", "/dated"]
    assert build.text().count("<lastmod>2026-11-30</lastmod>") == 2
    reasons = {rule.endpoint: rule.reason for rule in build.sitemap.explain_routes()}
    assert reasons["hidden"] == "when= says no"


def test_no_more_than_a_batch_is_read_ahead():
    seen: list[Any] = []
    with Awaiting() as awaiting:
        items = iter(awaiting.items(many(3 * BATCH, seen)))
        next(items)
        assert len(seen) == BATCH
        items.close()  # type: ignore[attr-defined]
    assert len(seen) == BATCH + 1


def test_what_is_not_asynchronous_starts_no_thread():
    with Awaiting() as awaiting:
        assert list(awaiting.items(iter("ab"))) == ["a", "b"]
        assert awaiting.value("a") == "a"
        assert threads() == 0


def test_a_generator_is_closed_in_its_task_when_the_build_is_given_up(build):
    seen: list[Any] = []

    @build.sitemap.section("pages")
    async def pages():
        try:
            for number in range(3 * BATCH):
                seen.append(asyncio.current_task())
                yield f"/{number}" if number < BATCH else "https://example.org/elsewhere"
        finally:
            await asyncio.sleep(0)
            seen.append(asyncio.current_task())

    with pytest.raises(BuildFailed, match="elsewhere"):
        build.locs()
    assert len(seen) == 2 * BATCH + 1
    assert len(set(seen)) == 1
    assert threads() == 0


def test_a_generator_is_closed_in_its_loop_when_the_wait_is_interrupted():
    closed: list[Any] = []

    async def pages():
        try:
            await asyncio.sleep(0.2)  # a signal just before Python waits for a lock ends no wait
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            await asyncio.sleep(3600)
            yield "/a"
        finally:
            await asyncio.sleep(0)
            closed.append(asyncio.get_running_loop())

    with pytest.raises(KeyboardInterrupt), Awaiting() as awaiting:
        list(awaiting.items(pages()))
    assert len(closed) == 1
    assert threads() == 0


def test_the_application_context_of_the_pull_is_that_of_the_generator(build):
    build.app.config["SQLALCHEMY_DATABASE_URI"] = "sqlite://"
    db = SQLAlchemy(build.app)

    class Page(db.Model):  # type: ignore[name-defined,misc]
        id: Mapped[int] = mapped_column(primary_key=True)
        updated: Mapped[datetime]

    with build.app.app_context():
        db.create_all()
        db.session.add_all(Page(updated=datetime(2026, 11, 30)) for _ in range(BATCH + 1))
        db.session.commit()

    ends: list[Any] = []
    build.app.teardown_appcontext(lambda error: ends.append(g.pop("name", None)))

    @build.sitemap.section("pages")
    async def pages():
        g.name = current_app.name
        first = db.session()
        for (number,) in db.session.execute(db.select(Page.id)):
            yield f"/{number}"
        assert db.session() is first

    assert len(build.locs()) == BATCH + 2
    assert ends.count("shop") == 1
    with build.app.app_context():
        db.engine.dispose()


def test_context_variables_of_the_generator_stay_with_it(build):
    variable = contextvars.ContextVar("variable", default="outside")

    @build.sitemap.section("pages")
    async def pages():
        token = variable.set("inside")
        for number in range(BATCH + 1):
            yield f"/{number}/{variable.get()}"
        variable.reset(token)

    assert set(build.locs()[1:]) == {f"/{number}/inside" for number in range(BATCH + 1)}
    assert variable.get() == "outside"


def test_an_application_that_runs_coroutines_in_its_own_way_is_asked_to():
    runs: list[Any] = []

    class OwnWay(Flask):
        def ensure_sync(self, func):
            runs.append(func)
            return lambda *args: asyncio.run(func(*args))

    app = OwnWay("own")
    app.config["SITEMAP_BASE_URL"] = ORIGIN
    sitemap = Sitemap(app)
    sitemap.section("pages")(partial(many, BATCH + 1, []))
    sitemap.build()
    assert len(runs) == 1


def test_a_build_may_be_asked_for_where_a_loop_runs(build):
    build.sitemap.section("pages", version=day)(partial(many, 2, []))

    async def view():
        return build.locs()

    assert asyncio.run(view()) == ["/", "/0", "/1"]


def test_an_error_of_a_generator_is_that_of_its_section(build):
    @build.sitemap.section("pages")
    async def pages():
        yield "/a"
        await asyncio.sleep(0)
        raise OSError("the disk is gone")

    with pytest.raises(BuildFailed, match="section 'pages': OSError: the disk is gone"):
        build.locs()
    assert threads() == 0


def test_a_cancelled_section_fails_alone():
    build = Build(SITEMAP_ON_ERROR="skip")
    build.locs()

    @build.sitemap.section("pages")
    async def pages():
        raise asyncio.CancelledError
        yield

    assert build.locs() == ["/"]


def test_callbacks_after_one_that_fails_are_not_asked(build):
    async def failing(values):
        raise OSError("the disk is gone")

    build.sitemap.section("pages")(lambda: [("page", {"slug": "a"}, failing), ("page", {"slug": "b"}, failing)])
    with pytest.raises(BuildFailed, match="the disk is gone"):
        build.locs()


def test_a_missing_extra_is_named(build, monkeypatch):
    monkeypatch.setitem(sys.modules, "asgiref.sync", None)
    build.sitemap.section("pages")(partial(many, 2, []))
    with pytest.raises(BuildFailed, match=r"ConfigurationError: Install Flask with .* 'flask-sitemapx\[async\]'"):
        build.locs()


def test_a_function_that_cannot_run_the_loop_ends_the_wait():
    with pytest.raises(RuntimeError, match="the event loop ended"), Awaiting(lambda function: lambda: None) as awaiting:
        awaiting.value(day())


def test_a_registry_without_flask_awaits_with_asyncio_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "asgiref.sync", None)
    registry = Registry()
    seen: list[Any] = []
    registry.section("pages", lastmod=day, version=day)(partial(many, 2, seen))
    SitemapMiddleware(lambda environ, start: [], registry, base_url=ORIGIN).build()
    assert len(seen) == 3
    assert len(set(seen)) == 1


def test_a_value_is_awaited_by_itself():
    assert awaited(day()) == "2026-11-30"
    assert awaited("a") == "a"
    assert threads() == 0


ENDING = """
import asyncio, threading
from flask import Flask
from flask_sitemapx.sources.awaiting import Awaiting

def pull():
    with Awaiting(Flask("app").ensure_sync) as awaiting:
        for _ in awaiting.items(endless()):
            begun.set()

async def endless():
    try:
        while True:
            yield "/"
    finally:
        print("closed", flush=True)

begun = threading.Event()
threading.excepthook = lambda hook: print(hook.exc_value, flush=True)
threading.Thread(target=pull, daemon=True).start()
begun.wait()
"""


def test_a_process_that_ends_does_not_wait_for_all_entries():
    ran = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=20)
    assert ran.returncode == 0, ran.stderr
    assert "closed" in ran.stdout
