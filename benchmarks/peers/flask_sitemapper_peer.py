"""flask-sitemapper: its url_variables and lastmod as columns, which is the form it asks for, and its generate()."""

from __future__ import annotations

from collections.abc import Sequence

from flask import Response
from flask_sitemapper import Sitemapper

from ..workload import ORIGIN, Row, shop
from . import Peer


def peer(rows: Sequence[Row]) -> Peer:
    """flask-sitemapper on a shop of its own; the columns are made here, before any clock starts."""
    app = shop()
    sitemapper = Sitemapper(app)
    names = rows[0][1]
    columns = {name: [values[name] for _, values, _ in rows] for name in names}
    sitemapper.add_endpoint("product", lastmod=[lastmod for _, _, lastmod in rows], url_variables=columns)

    def view() -> Response:
        response: Response = sitemapper.generate()
        return response

    def document() -> str:
        with app.test_request_context(base_url=ORIGIN):
            return view().get_data(as_text=True)

    app.add_url_rule("/sitemap.xml", "sitemap", view)
    return Peer(document, app, "/sitemap.xml")
