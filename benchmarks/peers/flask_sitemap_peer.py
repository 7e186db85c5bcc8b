"""Flask-Sitemap: a generator of (endpoint, values, lastmod) and its own template, one page of up to 50,000 entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flask_sitemap import Sitemap

from ..workload import ORIGIN, Row, shop
from . import Peer


def peer(rows: Sequence[Row]) -> Peer:
    """Flask-Sitemap on a shop of its own; its page 1 is asked for, since its index would make every URL once more."""
    app = shop()
    app.config.update(SITEMAP_MAX_URL_COUNT=50_000, SITEMAP_URL_SCHEME="https")
    sitemap = Sitemap(app)

    @sitemap.register_generator  # type: ignore[untyped-decorator,unused-ignore]
    def products() -> Iterator[Row]:
        for endpoint, values, lastmod in rows:
            yield endpoint, dict(values), lastmod  # it writes into the mapping that it is given

    def document() -> str:
        with app.test_request_context(base_url=ORIGIN):
            text: str = sitemap.page(1)
            return text

    return Peer(document, app, "/sitemap1.xml")
