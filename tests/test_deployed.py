"""The service behind nginx, under systemd and in a container, as the documentation has them set up."""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.test_gunicorn_conf import CLOSE, GET, POST, statuses
from tests.test_service import serving
from tests.waiting import until

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "how-to-systemd-nginx.md"
HOST = b"Host: www.example.com\r\n"
TOKEN = "of-the-cms-and-nobody-else"
FILE = """\
base_url = "https://www.example.com"
store = "file:sets"
[sections.pages]
type = "urls"
urls = ["/", "/about"]
"""


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Place:
    """A server at a port of this machine."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, headers={"Host": "www.example.com", **given})
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def send(self, data: bytes) -> bytes:
        """All that comes back until the connection is closed."""
        received = b""
        with self.connect() as connection:
            connection.sendall(data)
            while block := connection.recv(65_536):
                received += block
        return received

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 60)


def written(language: str) -> list[str]:
    """The blocks of the page in *language*."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("service")
    (directory / "sitemap.toml").write_text(FILE)
    with serving(directory, "--port", "0", SITEMAP_TOUCH_TOKEN=TOKEN) as server:
        yield Place(server.port)


# nginx


@pytest.fixture(scope="module")
def nginx() -> str:
    """The path of nginx. Without it the test is skipped."""
    path = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if path is None:
        pytest.skip("there is no nginx on PATH; on Debian: apt-get install nginx")
    return path


@contextmanager
def proxying(nginx: str, directory: Path, port: int, *, is_caching: bool = False) -> Iterator[Place]:
    """nginx before the service at *port*, configured as the page says."""
    upstream, locations, cache_path, cache, limits = written("nginx")
    if is_caching:
        # As few seconds as there can be, so that the test need not wait for ten.
        cache = cache.replace("proxy_cache_valid 200 10s;", "proxy_cache_valid 200 1s;")
        locations = locations.replace("}", f"{cache}add_header X-Cache $upstream_cache_status;\n}}", 1)
        upstream += cache_path.replace("/var/cache/nginx/sitemap", f"{directory}/cache")
    upstream = upstream.replace("127.0.0.1:8000", f"127.0.0.1:{port}")
    assert f":{port}" in upstream
    paths = "\n".join(f"{kind}_temp_path {directory}/{kind};" for kind in TEMPORARY)
    user = "user root;" if os.geteuid() == 0 else ""
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listening:
        own = listening.getsockname()[1]
        (directory / "nginx.conf").write_text(
            f"{user} worker_processes 1; daemon off; pid {directory}/nginx.pid; error_log {directory}/error.log;\n"
            f"{limits}\n"
            f"http {{ access_log off; {paths}\n{upstream}\nserver {{ listen 127.0.0.1:{own}; root {directory}/none;\n"
            f"{locations} }} }}\n"
        )
        # It takes over a socket that listens already, so that nobody has to wait until it does.
        process = subprocess.Popen(
            [nginx, "-p", str(directory), "-e", f"{directory}/error.log", "-c", f"{directory}/nginx.conf"],
            env={"NGINX": f"{listening.fileno()};", "PATH": os.environ["PATH"]},
            pass_fds=[listening.fileno()],
            stderr=subprocess.DEVNULL,
        )
    try:
        yield Place(own)
    finally:
        process.terminate()
        process.wait(60)


TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


@pytest.fixture(scope="module")
def proxy(nginx, service, tmp_path_factory) -> Iterator[Place]:
    with proxying(nginx, tmp_path_factory.mktemp("nginx"), service.port) as proxy:
        yield proxy


@pytest.mark.parametrize(
    "path", ["/sitemap.xml", "/sitemap.xml.gz", "/sitemap-pages-1.xml", "/sitemap.txt", "/sitemap.css", "/robots.txt"]
)
def test_nginx_passes_on_what_the_service_answers(proxy, service, path):
    own = service.ask(path, Accept_Encoding="gzip")
    passed = proxy.ask(path, Accept_Encoding="gzip")
    assert (passed.status, passed.body) == (200, own.body)
    for name in ("ETag", "Content-Type", "Content-Encoding", "Cache-Control", "Vary", "X-Robots-Tag"):
        assert passed.headers.get(name) == own.headers.get(name)
    if "ETag" in own.headers:
        assert proxy.ask(path, Accept_Encoding="gzip", If_None_Match=own.headers["ETag"]).status == 304


def test_nginx_keeps_what_is_not_the_services(proxy):
    for path in ("/", "/sitemaps", "/my-sitemap.xml", "/robots.txt/", "/healthz", "/metrics"):
        answer = proxy.ask(path)
        assert (answer.status, b"nginx" in answer.body) == (404, True)


def test_a_touch_gets_through_nginx_with_its_token_alone(proxy):
    assert proxy.ask("/-/touch/pages", "POST").status == 401
    assert proxy.ask("/-/touch/pages", "POST", Authorization=f"Bearer {TOKEN}").status == 202


def test_a_cache_asks_again_with_its_etag_and_outlives_the_service(nginx, tmp_path):
    (tmp_path / "service").mkdir()
    (tmp_path / "service" / "sitemap.toml").write_text(FILE)
    with ExitStack() as running:
        server = running.enter_context(serving(tmp_path / "service", "--port", "0"))
        proxy = running.enter_context(proxying(nginx, tmp_path, server.port, is_caching=True))
        until(lambda: Place(server.port).ask("/sitemap.xml").status == 200)

        def is_cached(how: str) -> bool:
            answers = [proxy.ask("/sitemap.xml", Accept_Encoding=coding) for coding in ("gzip", "identity")]
            assert gzip.decompress(answers[0].body) == answers[1].body
            return {answer.headers["X-Cache"] for answer in answers} == {how}

        until(lambda: is_cached("HIT"))
        until(lambda: is_cached("REVALIDATED"))
        server.process.terminate()
        server.process.wait(60)
        until(lambda: is_cached("STALE"))


# Hostile clients


def line(length: int) -> bytes:
    """A request line of so many bytes."""
    begin, end = b"GET /robots.txt?", b" HTTP/1.1"
    return begin + b"a" * (length - len(begin + end)) + end + b"\r\n"


SENT = {
    "ten requests at once on one connection": (GET + HOST + b"\r\n") * 9 + GET + HOST + CLOSE,
    "a request line of 4,095 bytes": line(4_095) + HOST,
    "a request line of 10,000 bytes": line(10_000) + HOST,
    "a header of 100 kB": GET + HOST + b"X: " + b"a" * 100_000 + b"\r\n",
    "a hundred and one headers": GET + HOST + b"".join(b"X-%d: 1\r\n" % number for number in range(101)),
    "two lengths that differ": POST + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n",
    "a length, and chunks": POST + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    "two hosts": GET + HOST + b"Host: evil.example\r\n",
    "a blank before the colon of a header": GET + HOST + b"X : 1\r\n",
    "a NUL in a header": GET + HOST + b"X: \0\r\n",
    "HTTP/2 without TLS": b"PRI * HTTP/2.0\r\n\r\nSM\r\n",
    "the host of another site": GET + b"Host: evil.example\r\n" + CLOSE,
    "SCRIPT_NAME, PATH_INFO, X-Forwarded-Host": GET
    + HOST
    + CLOSE
    + b"SCRIPT_NAME: /robots\r\nPATH_INFO: /evil\r\nX-Forwarded-Host: evil.example\r\n",
}


def answers() -> dict[str, tuple[int, int]]:
    """By what is sent: what the page says that the service and nginx answer."""
    table = PAGE.read_text().partition("<!-- hostile -->")[2]
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \| (\d+) \|$", table, re.MULTILINE)
    return {what: (int(alone), int(behind)) for what, alone, behind in rows}


def test_all_that_the_page_tells_of_hostile_clients_is_tried():
    assert answers().keys() == SENT.keys()


@pytest.mark.parametrize("what", SENT)
@pytest.mark.parametrize("behind", [False, True], ids=["alone", "behind nginx"])
def test_hostile_clients_get_what_the_page_says(service, request, what, behind):
    place = request.getfixturevalue("proxy") if behind else service
    got = place.send(SENT[what] + b"\r\n" + GET + HOST + CLOSE + b"\r\n")
    status, *further = statuses(got)
    assert status == answers()[what][behind]
    if what.startswith("ten"):
        assert further == [status] * 9
    else:
        # What nginx has the service refuse was a whole request, and so is the next one.
        assert further in ([[], [200]] if behind else [[]])
    assert b"evil" not in got


@pytest.fixture
def many() -> Iterator[int]:
    """Ten thousand, or as many connections as this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield min(10_000, (12_000 if hard == resource.RLIM_INFINITY else hard) - 1_000)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_behind_nginx_slow_and_silent_clients_are_no_concern_of_the_others(proxy, many, record_property):
    record_property("connections", many)
    with ExitStack() as connections:
        for number in range(many):
            connection = connections.enter_context(proxy.connect())
            if number < 1_000:
                connection.sendall(GET + HOST + b"X: ")
        assert Counter(proxy.ask("/robots.txt").status for _ in range(20)) == {200: 20}


def test_alone_the_service_answers_as_soon_as_so_many_are_gone(service, many):
    with ExitStack() as connections:
        for _ in range(many):
            connection = connections.enter_context(socket.socket())
            connection.setblocking(False)  # so that nobody waits for those who cannot connect
            connection.connect_ex(("127.0.0.1", service.port))
    assert service.ask("/robots.txt").status == 200


# systemd


def unit(number: int) -> str:
    return written("ini")[number].replace(
        "/opt/sitemap/bin/flask-sitemapx", f"{Path(sys.executable).parent}/flask-sitemapx"
    )


@pytest.mark.parametrize("number", [0, 1])
def test_systemd_has_nothing_to_say_against_the_units(tmp_path, number):
    if not shutil.which("systemd-analyze"):
        pytest.skip("there is no systemd-analyze")
    (tmp_path / "sitemap.service").write_text(unit(number).replace("User=sitemap", "User=root"))
    command = ["systemd-analyze", "verify", "--man=no", tmp_path / "sitemap.service"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    said = [line for line in ran.stderr.splitlines() if "sitemap.service" in line]
    assert (ran.returncode, said) == (0, [])


def test_the_service_tells_systemd_when_it_listens(tmp_path):
    (tmp_path / "sitemap.toml").write_text(FILE)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(60)
        with serving(tmp_path, "--port", "0", NOTIFY_SOCKET=str(tmp_path / "notify")) as server:
            assert b"READY=1" in systemd.recv(1_000)
            assert Place(server.port).ask("/healthz").status == 200
    assert "Type=notify\n" in unit(0)


# The container

DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_the_image_is_made_of_files_that_are_there_and_let_through():
    copied = [name for line in re.findall(r"^COPY (.+) \S+$", DOCKERFILE, re.MULTILINE) for name in line.split()]
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    assert copied
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}" in rules


def test_what_the_image_installs_are_extras_that_there_are():
    import tomllib

    (extras,) = re.findall(r'"/source\[(.+)\]"', DOCKERFILE)
    assert {*extras.split(",")} <= {
        *tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    }


def test_the_image_finds_out_whether_the_service_is_well(service):
    (command,) = re.findall(r"^HEALTHCHECK .* CMD (\[.+\])$", DOCKERFILE, re.MULTILINE)
    python, *arguments = json.loads(command)
    assert python == "python"

    def is_well(port: int) -> bool:
        ran = subprocess.run([sys.executable, *arguments], env={"PORT": str(port)}, capture_output=True, timeout=60)
        return ran.returncode == 0

    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = free.getsockname()[1]
    assert is_well(service.port)
    assert not is_well(nobody)


def test_the_service_runs_where_nothing_but_memory_can_be_written(tmp_path):
    (tmp_path / "sitemap.toml").write_text(FILE.replace('"file:sets"', '"memory:"'))
    read_only = ["unshare", "--mount", "sh", "-c", 'mount -o remount,bind,ro / && exec "$@"', "sh"]
    if not shutil.which("unshare") or subprocess.run([*read_only, "true"], capture_output=True).returncode:
        pytest.skip("a read-only file system cannot be had: that takes root and unshare")
    with (tmp_path / "log").open("wb") as log:
        command = [*read_only, sys.executable, "-m", "flask_sitemapx", "serve", "--port", "0"]
        process = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=subprocess.STDOUT)
    try:
        (port,) = until(lambda: re.findall(r"Listening at: http://[\d.]+:(\d+)", (tmp_path / "log").read_text()))
        until(lambda: Place(int(port)).ask("/sitemap.xml").status == 200)
    finally:
        process.terminate()
        assert process.wait(60) == 0
    assert "Traceback" not in (tmp_path / "log").read_text()
