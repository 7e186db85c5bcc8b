"""Benchmark `routes`: walking a large url_map and judging its rules, as the first build does."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from flask import Flask, url_for

from flask_sitemapx import Registry
from flask_sitemapx.sources import judgement, routes, view_code
from flask_sitemapx.sources.judgement import Judge
from flask_sitemapx.sources.routes import Routes

from . import workload
from .large_app import addresses, large_app
from .rounds import Effort, Measurement, Timings, clocked, timings
from .tables import Table, Target

CALLS = 200
URL_FOR = f"flask.url_for, {CALLS} calls"
WALKED = "walked and judged"
OPEN = "endpoints whose arguments are open"
EXPLAINED = "a reason for each rule"
TIMES = 5  # as many rounds as elsewhere: a walk is short

ABOUT = """CPU of a whole walk over a map of {rules:,} rules, {needy} of which need arguments; {listed} are listed.
Before each walk all that is known of the application and of names is forgotten, as in a new process. A reason for
each rule is what `explain_routes` gives. The calls of url_for are for rules from all over the same map."""


def tables(effort: Effort) -> Iterator[Table]:
    """One table: url_for, and ours in three ways."""
    app = large_app()
    paths = [rule.rule for rule in app.url_map.iter_rules()]
    with app.test_request_context(base_url=workload.ORIGIN):
        calls = list(addresses(app, CALLS))
        contenders = {
            URL_FOR: clocked(partial(called, calls), 1),
            WALKED: walking(app, lambda walk: list(walk.items())),
            OPEN: walking(app, lambda walk: list(walk.open_endpoints())),
            EXPLAINED: walking(app, lambda walk: list(walk.explained())),
        }
        gc.freeze()  # or else the collection before each walk takes ten times as long as the walk
        measured = timings(contenders, effort.rounds * TIMES)
        gc.unfreeze()
    needy, listed = sum("<" in path for path in paths), len(list(walk(app).items()))
    yield table(measured, ABOUT.format(rules=len(paths), needy=needy, listed=listed))


def called(calls: list[tuple[str, dict[str, Any]]]) -> int:
    """Call url_for for each of *calls*; 1, as all of them are one unit."""
    return int(all(url_for(endpoint, **values) for endpoint, values in calls))


def walking(app: Flask, work: Callable[[Routes], list[Any]]) -> Measurement:
    """CPU of *work* on a walk over *app*, which must come to something."""
    return clocked(lambda: int(bool(work(walk(app)))), 1, before=forget)


def walk(app: Flask) -> Routes:
    """The walk that the extension makes for a build under `SITEMAP_ROUTES = "auto"`."""
    views, registry = app.view_functions, Registry()
    return Routes(
        app.url_map.bind(workload.HOST, url_scheme="https"),
        lambda endpoint: registry.mark(views.get(endpoint)),
        has_view=views.__contains__,
        own="sitemapx.",
        judge=Judge(views, app.before_request_funcs).verdict,
    )


def forget() -> None:
    """Empty the caches of functions, as they are in a new process."""
    for module in (judgement, routes, view_code):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def table(measured: Timings, about: str) -> Table:
    made = Table("routes", about, ["what", "ms CPU", f"x {URL_FOR}"])
    for name in measured:
        made.rows.append([name, measured.median(name) * 1e3, measured.ratio(name, URL_FOR)])
    made.targets.append(Target(f"{WALKED} / {URL_FOR}", measured.ratio(WALKED, URL_FOR), at_most=1.0))
    return made
