"""A server of other people's sitemaps: of whatever bytes, and however slowly, a test wants."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Answer = bytes | int | Callable[["Handler"], None]
"""A body, a status, or what writes all of the answer."""


class RemoteServer(ThreadingHTTPServer):
    """Answers *answers* by path; bodies with an ETag, which it honours unless *has_validators* is false."""

    daemon_threads = True

    def __init__(self, host: str = "127.0.0.1") -> None:
        super().__init__((host, 0), Handler)
        self.answers: dict[str, Answer] = {}
        self.headers: dict[str, str] = {}
        self.has_validators = True
        self.requests: list[tuple[str, int]] = []
        self.received: list[Mapping[str, str]] = []
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, request: Any, address: Any) -> None:
        """Nothing: that a client hangs up is what tests are about."""


class Handler(BaseHTTPRequestHandler):
    server: RemoteServer

    def do_GET(self) -> None:
        self.server.received.append(dict(self.headers))
        answer = self.server.answers.get(self.path, 404)
        if callable(answer):
            self.server.requests.append((self.path, 200))
            answer(self)
            return
        status, body, etag = self._answered(answer)
        self.server.requests.append((self.path, status))
        self.send_response(status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        if self.server.has_validators and etag:
            self.send_header("ETag", etag)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answered(self, answer: bytes | int) -> tuple[int, bytes, str]:
        if isinstance(answer, int):
            return answer, b"", ""
        etag = f'"{hash(answer):x}"'
        if self.server.has_validators and self.headers["If-None-Match"] == etag:
            return 304, b"", etag
        return 200, answer, etag

    def log_message(self, format: str, *values: object) -> None:
        """Nothing."""


def redirect(location: str, status: int = 302) -> Answer:
    def answer(handler: Handler) -> None:
        handler.send_response(status)
        handler.send_header("Location", location)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def raw(*pieces: bytes) -> Answer:
    """What writes just these bytes."""

    def answer(handler: Handler) -> None:
        for piece in pieces:
            handler.wfile.write(piece)
            handler.wfile.flush()

    return answer
