"""A shop behind several servers, each asked in the same way."""

from __future__ import annotations

import http.client
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from flask import Flask, session
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client

from flask_sitemapx import Registry, Sitemap, SitemapMiddleware

ORIGIN = "https://shop.example"
ROOT = Path(__file__).parents[1]
HUNG = 120.0
PRODUCTS = [f"/products/{number}?size=a&colour='{number}'" for number in range(40)]
# Long and hard to compress, so that the gzip, too, is larger than a block.
FILES = [f"/files/{random.Random(number).randbytes(250).hex()}" for number in range(1_000)]
LASTMOD = "2024-05-06T07:08:09Z"
SETTINGS: dict[str, Any] = {"build_wait": 60, "max_urls": 1_000}


def create_app(**config: Any) -> Flask:
    """The shop. Whatever goes through Flask meets a closed door, a cookie and an error page of its own."""
    app = Flask("shop")
    app.secret_key = "secret"
    app.config.update({f"SITEMAP_{name.upper()}": value for name, value in SETTINGS.items()}, **config)
    fill(Sitemap(app))

    @app.before_request
    def door() -> tuple[str, int]:
        session["seen"] = True
        return "the door is closed", 403

    @app.errorhandler(404)
    def lost(error: Exception) -> tuple[str, int]:
        return "the shop's own page", 404

    @app.get("/")
    def home() -> str:
        return "home"

    return app


def create_foreign(**settings: Any) -> SitemapMiddleware:
    """The shop written as a bare function, just as closed, behind a middleware."""
    registry = Registry()
    registry.section("home")(lambda: ["/"])
    fill(registry)
    return SitemapMiddleware(_closed, registry, **SETTINGS, **settings)


def fill(registry: Registry) -> None:
    """What both shops say of themselves."""
    registry.robots(disallow=["/admin/"])

    @registry.section("products", lastmod=LASTMOD)
    def products() -> Iterator[str]:
        yield from PRODUCTS

    @registry.section("files")
    def files() -> Iterator[str]:
        yield from FILES


class Answer(NamedTuple):
    """What a client got."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        """The value of the header *name*, which is there once at most."""
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        assert len(values) <= 1, (name, values)
        return values[0] if values else None


class Serving(Protocol):
    """A server and where the shop is on it."""

    base: str

    def ask(self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> Answer:
        """One request for *path* below the shop's mount; no header but Host is sent unless it is given."""
        ...


class InProcess:
    """The shop as a WSGI application below *mount*, at *base_url* if it knows that."""

    def __init__(self, app: Any, mount: str = "", base_url: str | None = None) -> None:
        self.base = base_url or f"http://shop.example{mount}"
        self._mount = mount
        self._client = Client(DispatcherMiddleware(_outer, {mount: app}) if mount else app)

    def ask(self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> Answer:
        fields = {"Host": "shop.example", **(headers or {})}
        response = self._client.open(f"{self._mount}{path}", method=method, headers=fields, buffered=True)
        return Answer(response.status_code, list(response.headers), response.get_data())


class Gunicorn:
    """The shop on a gunicorn at *port*."""

    def __init__(self, port: int, base: str) -> None:
        self.base = base
        self.port = port

    def ask(self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HUNG)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in {"Host": "shop.example", **(headers or {})}.items():
                connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
            return Answer(response.status, response.getheaders(), response.read())
        finally:
            connection.close()


@contextmanager
def gunicorn(
    directory: Path, base_url: str | None = None, workers: int = 2, app: str = "create_app"
) -> Iterator[Gunicorn]:
    """The shop, as *app* makes it, on a gunicorn with *workers* and a store in *directory*.

    It is at *base_url*, if that is to be known.
    """
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("SITEMAP_", "GUNICORN_"))}
    environ |= {"SITEMAP_STORE": f"file:{directory}", "SITEMAP_BASE_URL": base_url or ""}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        handle = listener.fileno()
        command = [sys.executable, "-m", "gunicorn", f"tests.served_shop:{app}()", "--workers", str(workers)]
        command += ["--bind", f"fd://{handle}", "--no-control-socket", "--log-level", "critical"]
        with subprocess.Popen(command, cwd=ROOT, env=environ, pass_fds=[handle], start_new_session=True) as process:
            timer = threading.Timer(HUNG, os.killpg, (process.pid, signal.SIGKILL))
            timer.daemon = True
            timer.start()
            try:
                yield Gunicorn(listener.getsockname()[1], base_url or "http://shop.example")
            finally:
                timer.cancel()
                process.terminate()


def _closed(environ: Any, start_response: Any) -> Iterable[bytes]:
    body = b"the door is closed"
    start_response("403 Forbidden", [("Content-Length", str(len(body))), ("Set-Cookie", "seen=1")])
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]


def _outer(environ: Any, start_response: Any) -> list[bytes]:
    start_response("404 Not Found", [("Content-Length", "0")])
    return [b""]
