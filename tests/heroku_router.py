"""A router before a dyno, as Heroku has it: its headers, its timeouts, its connections that are used again.

https://devcenter.heroku.com/articles/http-routing
"""

from __future__ import annotations

import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

HOP_BY_HOP = {"connection", "keep-alive", "te", "transfer-encoding", "upgrade", "host"}
SET_BY_ROUTER = {"x-forwarded-proto", "x-forwarded-port", "x-request-start", "x-request-id", "via"}


class Timeouts(NamedTuple):
    """In seconds: until the first byte of an answer, between two bytes, and of a connection to the dyno without any."""

    first_byte: float = 30
    window: float = 55
    idle: float = 90


HEROKU = Timeouts()


class Router(ThreadingHTTPServer):
    """Passes requests on to the dyno at *port*; *errors* are Heroku's codes for what the dyno did wrong."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, timeouts: Timeouts) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.port = int(self.server_address[1])
        self.errors: list[str] = []
        self.reused = 0
        self.timeouts = timeouts
        self._dyno = port
        self._idle: list[tuple[HTTPConnection, float]] = []
        self._lock = threading.Lock()

    def connection(self) -> HTTPConnection:
        """One to the dyno that is idle, else a new one."""
        with self._lock:
            while self._idle:
                connection, since = self._idle.pop()
                if time.monotonic() - since < self.timeouts.idle:
                    self.reused += 1
                    return connection
                connection.close()
        connection = HTTPConnection("127.0.0.1", self._dyno)
        connection.connect()
        return connection

    def keep(self, connection: HTTPConnection) -> None:
        with self._lock:
            self._idle.append((connection, time.monotonic()))

    def server_close(self) -> None:
        super().server_close()
        for connection, _ in self._idle:
            connection.close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Router

    def do_GET(self) -> None:
        try:
            connection = self.server.connection()
        except ConnectionRefusedError:
            self._failed("H21")
            return
        if self._is_answered(connection):
            self.server.keep(connection)
        else:
            connection.close()

    do_HEAD = do_POST = do_GET  # noqa: N815 - names of http.server

    def _is_answered(self, connection: HTTPConnection) -> bool:
        """Whether the dyno answered, and *connection* may be used again."""
        try:
            response = self._asked(connection)
        except TimeoutError:
            self._failed("H12")
        except (OSError, HTTPException):
            self._failed("H13")
        else:
            return self._is_passed_on(connection, response)
        return False

    def _asked(self, connection: HTTPConnection) -> HTTPResponse:
        timed(connection).settimeout(self.server.timeouts.first_byte)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self._headers():
            connection.putheader(name, value)
        connection.endheaders(self.rfile.read(int(self.headers["Content-Length"] or 0)))
        return connection.getresponse()

    def _headers(self) -> Iterator[tuple[str, str]]:
        yield "Host", self.headers["Host"]
        yield "Connection", "keep-alive"
        for name, value in self.headers.items():
            if name.lower() not in HOP_BY_HOP | SET_BY_ROUTER | {"x-forwarded-for"}:
                yield name, value
        yield "X-Request-Id", self.headers["X-Request-Id"] or str(uuid.uuid4())
        yield "X-Forwarded-For", ", ".join([*self.headers.get_all("X-Forwarded-For", []), self.client_address[0]])
        yield "X-Forwarded-Proto", "https"
        yield "X-Forwarded-Port", "443"
        yield "X-Request-Start", str(int(time.time() * 1000))
        yield "Via", "1.1 heroku-router"

    def _is_passed_on(self, connection: HTTPConnection, response: HTTPResponse) -> bool:
        is_chunked = response.length is None and self.command != "HEAD"
        self.send_response_only(response.status, response.reason)
        for name, value in response.getheaders():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        if is_chunked:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if not response.will_close:
            timed(connection).settimeout(self.server.timeouts.window)
        try:
            while block := response.read1(65_536):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(block), block) if is_chunked else block)
        except TimeoutError:
            self._cut("H15")
            return False
        except (OSError, HTTPException):
            self._cut("H18")
            return False
        if is_chunked:
            self.wfile.write(b"0\r\n\r\n")
        response.close()
        return not response.will_close

    def _failed(self, code: str) -> None:
        self.server.errors.append(f"{code} {self.path}")
        self.close_connection = True
        self.send_response_only(503)
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()

    def _cut(self, code: str) -> None:
        self.server.errors.append(f"{code} {self.path}")
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: tests read *errors*."""


def timed(connection: HTTPConnection) -> socket.socket:
    assert isinstance(connection.sock, socket.socket)
    return connection.sock


@contextmanager
def routing(port: int, timeouts: Timeouts = HEROKU) -> Iterator[Router]:
    """A router to the dyno at *port*."""
    with Router(port, timeouts) as router:
        thread = threading.Thread(target=router.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield router
        finally:
            router.shutdown()
            thread.join()
