"""Benchmark `urls`: making a URL from an endpoint and its values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from html import unescape
from typing import Any

from flask import Flask, url_for

from flask_sitemapx.protocol.locs import BaseUrl
from flask_sitemapx.sources.urls import UrlBuilder

from . import workload
from .rounds import Effort, Timings, clocked, timings
from .tables import Table, Target

Values = Mapping[str, Any]
Way = Callable[[], list[str]]
"""All URLs of a table, made in one of the ways that are compared."""

BATCH = 512  # rows that our builder is given at once, as in a build
OURS = "ours, compiled for the rule"
WERKZEUG = "werkzeug MapAdapter.build"
FLASK = "flask.url_for"

ABOUT = """CPU of making one absolute URL of {rule}, {what}. Ours is escaped for XML
and checked as well. Before the clock starts, all three are seen to give the same URLs."""


def tables(effort: Effort) -> Iterator[Table]:
    """A table for the path alone, and one with two values that go to the query."""
    with_query = [values for _, values, _ in workload.rows(min(effort.entries, 20_000))]
    path_only = [{name: values[name] for name in ("category", "slug")} for values in with_query]
    yield table("urls, path only", "no query", path_only, effort, at_least=6.0)
    yield table("urls, with query", "and two values in the query", with_query, effort, at_least=9.0)


def table(title: str, what: str, rows: Sequence[Values], effort: Effort, *, at_least: float) -> Table:
    measured = measure(workload.shop(), rows, effort)
    made = Table(title, ABOUT.format(rule=workload.RULE, what=what), ["contender", "us/URL", f"{FLASK} / this"])
    for name in measured:
        made.rows.append([name, measured.median(name) * 1e6, measured.ratio(FLASK, name)])
    made.targets.append(Target(f"{FLASK} / {OURS}", measured.ratio(FLASK, OURS), at_least=at_least))
    return made


def measure(app: Flask, rows: Sequence[Values], effort: Effort) -> Timings:
    """Timings of the three ways, inside a request at the site's own address, as url_for wants it."""
    with app.test_request_context(base_url=workload.ORIGIN):
        adapter = app.url_map.bind(workload.HOST, url_scheme="https")
        builder = UrlBuilder(adapter, BaseUrl.parse(workload.ORIGIN), app.inject_url_defaults)
        ways: dict[str, Way] = {
            OURS: partial(compiled, builder, rows),
            WERKZEUG: lambda: [adapter.build("product", values, force_external=True) for values in rows],
            FLASK: lambda: [url_for("product", _external=True, **values) for values in rows],
        }
        same(ways)
        counted = {name: clocked(partial(count, way), len(rows)) for name, way in ways.items()}
        return timings(counted, effort.rounds)


def compiled(builder: UrlBuilder, rows: Sequence[Values]) -> list[Any]:
    batches = (rows[start : start + BATCH] for start in range(0, len(rows), BATCH))
    return [loc for batch in batches for loc in builder.locs("product", batch)]


def same(ways: Mapping[str, Way]) -> None:
    """Raise if two of the *ways* differ in any URL."""
    for urls in zip(*(way() for way in ways.values()), strict=True):
        if len(set(map(unescape, urls))) > 1:
            raise RuntimeError(f"not the same URL: {dict(zip(ways, urls, strict=True))}")


def count(way: Way) -> int:
    return len(way())
