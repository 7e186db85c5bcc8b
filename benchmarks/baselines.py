"""The least that a server, a framework and a middleware can be asked to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flask import Flask


def hello(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """A bare WSGI application."""
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "13")])
    return [b"Hello, World!"]


def empty_flask() -> Flask:
    """A Flask application whose one view, at `/`, answers nothing."""
    app = Flask(__name__)
    app.add_url_rule("/", "empty", lambda: "")
    return app


class EmptyWrapper:
    """A WSGI middleware that does nothing."""

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self.app = app

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        return self.app(environ, start_response)
