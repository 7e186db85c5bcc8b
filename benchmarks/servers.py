"""Applications under gunicorn, files under nginx, in processes of their own, and a client that counts and times."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from .workload import HOST

ROOT = Path(__file__).parents[1]
PATIENCE = 60.0  # seconds to wait for an answer
NGINX = """{user} worker_processes 1; daemon off; pid {place}/nginx.pid; error_log {place}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log off; sendfile on;
    client_body_temp_path {place}/1; proxy_temp_path {place}/2; fastcgi_temp_path {place}/3;
    uwsgi_temp_path {place}/4; scgi_temp_path {place}/5;
    server {{
        listen 127.0.0.1:{port};
        location = /other {{ return 200 "Hello, World!"; }}
        location / {{
            root {files};
            gzip_static on; gzip_vary on;
            types {{ "application/xml; charset=utf-8" xml; application/gzip gz; }}
        }}
    }}
}}
"""


@dataclass(frozen=True, slots=True)
class Server:
    """A master, of gunicorn or nginx, with one worker on a port of the loopback interface."""

    port: int
    worker: int

    def cpu(self) -> float:
        """Seconds of CPU that the worker has used since it was born, by its POSIX CPU clock."""
        clock = ctypes.c_int()
        if ctypes.CDLL(None).clock_getcpuclockid(self.worker, ctypes.byref(clock)) != 0:
            raise OSError("this system tells no CPU time of another process")
        return time.clock_gettime(clock.value)

    def ask(self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> Answer:
        """One request on a connection of its own, read to its end."""
        fields = {"Host": HOST, "Connection": "close", **(headers or {})}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        start = time.perf_counter()
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as connection:
            connection.sendall("\r\n".join(lines).encode())
            return answer(connection, start)


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers by lower-case name, body, and seconds until the first byte and the first `<url>`.

    A `<url>` is looked for in the first 16 KiB only, and not in what is compressed.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    first_byte: float
    first_url: float | None


def answer(connection: socket.socket, start: float) -> Answer:
    """What comes over *connection* until it is closed, timed from *start*."""
    received = bytearray()
    first_byte: float | None = None
    first_url: float | None = None
    while data := connection.recv(262_144):
        now = time.perf_counter() - start
        received += data
        if first_byte is None:
            first_byte = now
        if first_url is None and received.find(b"<url>", 0, 16_384) >= 0:
            first_url = now
    if first_byte is None:
        raise RuntimeError("the server closed the connection without an answer")
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    status_line, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Answer(int(status_line.split()[1]), headers, body, first_byte, first_url)


@contextmanager
def serving(app: str, *arguments: str) -> Iterator[Server]:
    """The application called *app* in `served`, given *arguments*, until the block is left."""
    command = [sys.executable, "-m", f"{__package__}.served", app, *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"the server of {app!r} did not start")
            yield Server(**json.loads(line))
        finally:
            process.terminate()


def nginx_program() -> str | None:
    """Where nginx is, also if it is where only administrators look; None if it is not installed."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


@contextmanager
def nginx(program: str, files: Path) -> Iterator[Server]:
    """nginx on the exported *files* until the block is left, configured as the documentation has it."""
    with TemporaryDirectory() as place, started_nginx(program, files, Path(place)) as (process, port):
        try:
            Server(port, process.pid).ask("/other")  # answered once the worker is there
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            yield Server(port, int(children[0]))
        finally:
            process.terminate()
            process.wait()


@contextmanager
def started_nginx(program: str, files: Path, place: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Its master process, and the port that it takes over while it listens already, so that nobody has to poll."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port, inherited = listening.getsockname()[1], listening.fileno()
        user = "user root;" if os.geteuid() == 0 else ""  # or its worker could not read a private directory
        (place / "nginx.conf").write_text(NGINX.format(user=user, place=place, port=port, files=files))
        command = [program, "-p", str(place), "-e", f"{place}/error.log", "-c", f"{place}/nginx.conf"]
        environ = {**os.environ, "NGINX": f"{inherited};"}
        process = subprocess.Popen(command, env=environ, pass_fds=[inherited], stderr=subprocess.DEVNULL)
    with process:
        yield process, port
