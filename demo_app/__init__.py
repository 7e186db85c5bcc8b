"""An atlas of Unicode: a page for every assigned character and for every block, with a sitemap of them all."""

from __future__ import annotations

import os
from pathlib import Path

from flask import Flask, Response

from .database import close_connection
from .languages import LANGUAGES
from .listing import sitemap
from .views import atlas

DATABASE = "atlas.sqlite3"
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


def create_app(data: str | os.PathLike[str] | None = None) -> Flask:
    """The atlas, kept in the directory *data*, by default ``$ATLAS_DATA`` or ``var`` in the current directory.

    ``python -m demo_app.prepare`` makes the database; until then every page answers 503.
    """
    app = Flask(__name__)
    folder = data_directory(data)
    app.config.from_mapping(
        DATABASE=folder / DATABASE,
        MAX_CONTENT_LENGTH=16 * 1024,
        SEND_FILE_MAX_AGE_DEFAULT=3600,
        SITEMAP_STORE=f"file:{folder / 'sitemap'}",
        SITEMAP_BASE_URL=base_url(),
        SITEMAP_LANGUAGES=list(LANGUAGES),
    )
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.teardown_appcontext(close_connection)
    app.after_request(_secured)
    app.register_blueprint(atlas)
    sitemap.init_app(app)
    return app


def data_directory(data: str | os.PathLike[str] | None = None) -> Path:
    return Path(data or os.environ.get("ATLAS_DATA") or "var").absolute()


def base_url() -> str | None:
    """The site's name: as configured, else this machine's. None on Heroku, where only a request can tell it."""
    if name := os.environ.get("SITEMAP_BASE_URL"):
        return name
    return None if "DYNO" in os.environ else f"http://127.0.0.1:{os.environ.get('PORT', '8000')}"


def _secured(response: Response) -> Response:
    response.headers.update(SECURITY_HEADERS)
    return response
