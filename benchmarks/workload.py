"""W1, the site that all contenders list: a shop with two values in the path, two in the query, and a date."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import cycle
from typing import Any

from flask import Flask

Row = tuple[str, dict[str, Any], datetime]

HOST = "www.example.com"
ORIGIN = f"https://{HOST}"
RULE = "/catalogue/<category>/<slug>"
CATEGORIES = ("garden-furniture", "kitchen", "lighting", "office-chairs", "outdoor", "rugs-and-carpets", "storage")
REFS = ("sitemap", "autumn-sale", "newsletter")
OLDEST = datetime(2023, 1, 1, 6, 30, tzinfo=UTC)


def rows(count: int) -> Iterator[Row]:
    """The first *count* entries as (endpoint, values, lastmod), made one at a time; every slug and date differs."""
    categories, refs = cycle(CATEGORIES), cycle(REFS)
    for number, category, ref in zip(range(count), categories, refs):  # noqa: B905 - cycles have no end
        values = {"category": category, "slug": f"a-thing-worth-having-{number:07}", "v": number % 9, "ref": ref}
        yield "product", values, OLDEST + timedelta(seconds=61 * number)


def shop() -> Flask:
    """A Flask application with the one route that the entries name."""
    app = Flask(__name__)
    app.add_url_rule(RULE, "product", lambda category, slug: "")
    return app


def ready(count: int) -> list[tuple[str, datetime]]:
    """The same entries with the loc as it stands in the document: absolute and escaped."""
    return [(loc(values), lastmod) for _, values, lastmod in rows(count)]


def loc(values: dict[str, Any]) -> str:
    return f"{ORIGIN}/catalogue/{values['category']}/{values['slug']}?v={values['v']}&amp;ref={values['ref']}"


def first(count: int) -> list[Row]:
    """The first *count* entries in a list, for contenders that are given rows in memory."""
    return list(rows(count))
