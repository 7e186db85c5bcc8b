"""The service under a real gunicorn: who is believed, how it ends, what it logs, and what hostile clients get."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.test_service import Server, serving, started
from tests.waiting import until

FILE = """\
base_url = "https://a.example"
store = "file:sets"
[sections.pages]
type = "urls"
urls = ["/", "/a"]
"""
TOKEN = "of-the-administrators"
HOST = b"Host: a.example\r\n"
CLOSE = b"Connection: close\r\n"
GET = b"GET /robots.txt HTTP/1.1\r\n"
POST = b"POST /robots.txt HTTP/1.1\r\n"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "sitemap.toml").write_text(FILE)
    return tmp_path


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A service as on Heroku, where everybody may set forwarded headers, which nobody but hostile requests need."""
    directory = tmp_path_factory.mktemp("service")
    (directory / "sitemap.toml").write_text(FILE)
    with serving(directory, "--port", "0", FORWARDED_ALLOW_IPS="*") as server:
        yield server


def sent(server: Server, data: bytes, *, then: bytes = b"") -> bytes:
    """All that comes back until the connection is closed; *then* is sent after the first of it."""
    with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        connection.sendall(data)
        received = connection.recv(65_536) if then else b""
        connection.sendall(then)
        while block := connection.recv(65_536):
            received += block
    return received


def statuses(answers: bytes) -> list[int]:
    return [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]]


def get(address: int | str, path: str, token: str | None = None, host: str = "a.example") -> tuple[int, str]:
    """Status and text from a port, or from a Unix socket by its path."""
    headers = {"Host": host} | ({"Authorization": f"Bearer {token}"} if token else {})
    connection = HTTPConnection("127.0.0.1", address if isinstance(address, int) else 0, timeout=60)
    if isinstance(address, str):
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(address)
    with closing(connection):
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def settings(directory: Path, **environ: str) -> dict[str, str]:
    """The settings that gunicorn comes to."""
    command = [sys.executable, "-m", "gunicorn", "-c", "python:flask_sitemapx.service.gunicorn_conf", "--print-config"]
    given = {key: value for key, value in os.environ.items() if not key.startswith(("SITEMAP_", "PORT"))}
    ran = subprocess.run(
        command, cwd=directory, env={**given, **environ}, capture_output=True, text=True, check=True, timeout=60
    )
    return {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in ran.stdout.splitlines())}


# Settings


def test_on_heroku_it_listens_to_the_router_and_keeps_its_connections(directory):
    found = settings(directory, PORT="5000", WEB_CONCURRENCY="3", FORWARDED_ALLOW_IPS="*")
    assert found["bind"] == "['0.0.0.0:5000']"
    assert found["workers"] == "3"
    assert float(found["keepalive"]) >= 90
    assert float(found["graceful_timeout"]) < 30
    assert found["forwarded_allow_ips"] == "['127.0.0.1', '::1']"
    assert found["forwarder_headers"] == "[]"
    assert found["control_socket_disable"] == "True"


def test_elsewhere_it_listens_to_this_machine_and_believes_who_is_named(directory):
    found = settings(directory, FORWARDED_ALLOW_IPS="10.0.0.0/8", SITEMAP_ADMIN_BIND="127.0.0.1:9100")
    assert found["bind"] == "['127.0.0.1:8000', '127.0.0.1:9100']"
    assert found["forwarded_allow_ips"] == "['10.0.0.0/8']"


def test_an_application_that_is_loaded_before_the_fork_serves_and_builds(directory):
    options = {"GUNICORN_CMD_ARGS": "--preload --workers 2"}
    process = started(directory, "-m", "flask_sitemapx", "serve", "--port", "0", **options)
    try:
        server = Server(process, directory / "log")
        for _ in range(20):
            assert "<loc>https://a.example/a</loc>" in server.get("a.example")
    finally:
        process.terminate()
        process.wait(60)
    assert (process.returncode, "Traceback" in server.log()) == (0, False)


# The second address


def test_the_state_is_shown_at_the_second_address_and_nowhere_else(directory):
    port = free_port()
    with serving(directory, "--port", "0", SITEMAP_ADMIN_BIND=f"127.0.0.1:{port}") as server:
        until(lambda: get(port, "/readyz")[0] == 200)
        assert get(port, "/metrics")[0] == 200
        for path in ("/readyz", "/metrics"):
            assert get(server.port, path)[0] == get(server.port, path, host=f"127.0.0.1:{port}")[0] == 404
        assert get(server.port, "/healthz") == (200, "ok")
        server.reload()
        assert get(port, "/readyz")[0] == 200


def test_who_comes_to_a_unix_socket_cannot_say_that_it_is_the_second_address(directory):
    port, path = free_port(), str(directory / "service.sock")
    binds = f"--bind unix:{path} --bind 127.0.0.1:{port}"
    environ = {"GUNICORN_CMD_ARGS": binds, "SITEMAP_ADMIN_BIND": f"127.0.0.1:{port}"}
    process = started(directory, "-m", "flask_sitemapx", "serve", **environ)
    try:
        until(lambda: "Booting worker" in (directory / "log").read_text())
        assert get(port, "/metrics")[0] == 200
        assert get(path, "/healthz")[0] == 200
        assert get(path, "/metrics", host=f"127.0.0.1:{port}")[0] == 404
    finally:
        process.terminate()
        process.wait(60)


def test_a_second_address_that_is_not_listened_at_is_an_error_and_no_service(directory):
    environ = {"GUNICORN_CMD_ARGS": "--bind 127.0.0.1:0", "SITEMAP_ADMIN_BIND": f"127.0.0.1:{free_port()}"}
    process = started(directory, "-m", "flask_sitemapx", "serve", **environ)
    assert process.wait(60) != 0
    assert "is not listened at: give it in a --bind of its own, too" in (directory / "log").read_text()


@pytest.mark.parametrize("options", [[], ["--reuse-port"]], ids=["", "with listeners of each worker"])
def test_a_second_address_that_is_that_of_everybody_is_an_error_and_no_service(directory, options):
    port = free_port()
    binds = ["--bind", f"127.0.0.1:{port}", "--bind", f"127.0.0.2:{port}"]
    command = ["-m", "gunicorn", "-c", "python:flask_sitemapx.service.gunicorn_conf", *binds, *options]
    process = started(directory, *command, SITEMAP_ADMIN_BIND=f"127.0.0.1:{port}")
    assert process.wait(60) != 0
    assert "is that of everybody, too" in (directory / "log").read_text()


def test_a_token_that_cannot_be_used_is_an_error_and_no_service(directory):
    process = started(directory, "-m", "flask_sitemapx", "serve", "--port", "0", SITEMAP_ADMIN_TOKEN="short")
    assert process.wait(60) != 0
    log = (directory / "log").read_text()
    assert "SITEMAP_ADMIN_TOKEN must be 16 characters or more" in log
    assert "Traceback" not in log


# Counts and logs


def test_workers_answer_for_each_other_and_leave_nothing_behind(directory):
    with serving(directory, "--port", "0", SITEMAP_ADMIN_TOKEN=TOKEN) as server:
        for _ in range(20):
            assert get(server.port, "/robots.txt")[0] == 200
        for _ in range(4):
            text = get(server.port, "/metrics", TOKEN)[1]
            assert 'sitemap_answers_total{kind="robots",status="200"} 20.0' in text
        server.reload()
        assert 'status="200"} 20.0' in get(server.port, "/metrics", TOKEN)[1]
        (directory,) = places_for_counts(server)
        assert directory.is_dir()
    assert not directory.exists()


def places_for_counts(server: Server) -> set[Path]:
    """Where the workers of *server* keep files open that they count in."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    maps = "".join(Path(f"/proc/{child}/maps").read_text() for child in children)
    return {Path(path).parent for path in re.findall(r"(/\S+)/?\.db$", maps, re.MULTILINE)}


def test_preloaded_too_workers_keep_their_sets_and_count(directory):
    environ = {"GUNICORN_CMD_ARGS": "--preload", "SITEMAP_ADMIN_TOKEN": TOKEN}
    process = started(directory, "-m", "flask_sitemapx", "serve", "--port", "0", **environ)
    try:
        server = Server(process, directory / "log")
        until(lambda: get(server.port, "/readyz", TOKEN)[0] == 200)
        assert {get(server.port, "/sitemap.xml")[0] for _ in range(10)} == {200}
        assert 'sitemap_answers_total{kind="index",status="200"} 10.0' in get(server.port, "/metrics", TOKEN)[1]
    finally:
        process.terminate()
        assert process.wait(60) == 0


def test_each_line_is_json_if_that_is_wanted_and_none_has_a_token(directory):
    options = {"GUNICORN_CMD_ARGS": "--access-logfile - --log-level debug --workers 1"}
    environ = {"SITEMAP_LOG_FORMAT": "json", "SITEMAP_ADMIN_TOKEN": TOKEN, "SITEMAP_TOUCH_TOKEN": f"{TOKEN}-2"}
    process = started(directory, "-m", "flask_sitemapx", "serve", "--port", "0", **options, **environ)
    log = directory / "log"
    try:
        port = until(lambda: listening_at(log))
        assert get(port, "/metrics", TOKEN)[0] == 200
        assert get(port, "/metrics", f"wrong-{TOKEN}")[0] == 404
        assert get(port, f"/sitemap-pages-1.xml?token={TOKEN}")[0] == 200
        assert get(port, "/%22%0A%E2%80%A8%FF")[0] == 404
        assert get(port, "/-/touch/pages", f"wrong-{TOKEN}")[0] == 401
    finally:
        process.terminate()
        process.wait(60)
    assert TOKEN not in log.read_text()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    (asked,) = [line for line in lines if line.get("path") == "/sitemap-pages-1.xml"]
    assert asked["bytes"] > 0
    assert {
        "method": "GET",
        "status": 200,
        "level": "info",
        "client": "127.0.0.1",
    }.items() <= asked.items()
    assert '/"\n\xe2\x80\xa8\xff' in [line.get("path") for line in lines]
    (refused,) = [line for line in lines if line["logger"] == "flask_sitemapx.service.operations"]
    assert (refused["level"], "wrong token" in refused["message"]) == ("warning", True)


def test_no_token_is_in_a_line_of_text_either(directory):
    options = {"GUNICORN_CMD_ARGS": "--access-logfile - --log-level debug --workers 1"}
    process = started(directory, "-m", "flask_sitemapx", "serve", "--port", "0", **options, SITEMAP_ADMIN_TOKEN=TOKEN)
    try:
        server = Server(process, directory / "log")
        assert get(server.port, f"/robots.txt?token={TOKEN}", TOKEN)[0] == 200
        assert get(server.port, f"/-/touch/{TOKEN}?token={TOKEN[:-1]}")[0] == 401
        assert statuses(sent(server, GET + HOST + f"Authorization Bearer {TOKEN}\r\n\r\n".encode())) == [400]
        until(lambda: "Invalid HTTP Header: 'Authorization Bearer ***'" in server.log())
    finally:
        process.terminate()
        process.wait(60)
    for line in ('"GET /robots.txt HTTP/1.1" 200 ', '"GET /-/touch/*** HTTP/1.1" 401 '):
        assert line in server.log()
    assert TOKEN[:-1] not in server.log()


def listening_at(log: Path) -> int | None:
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
    found = [line["message"] for line in lines if "Listening at" in line.get("message", "")]
    return int(found[0].rpartition(":")[2].split()[0]) if found else None


def test_a_form_of_lines_that_there_is_not_is_an_error_and_no_service(directory):
    process = started(directory, "-m", "flask_sitemapx", "serve", "--port", "0", SITEMAP_LOG_FORMAT="xml")
    assert process.wait(60) != 0
    assert "SITEMAP_LOG_FORMAT must be 'text' or 'json', not 'xml'" in (directory / "log").read_text()


# The end

SLOW = """\
import os, pathlib, time
def entries():
    for number in range(10 if "QUICK" in os.environ else 10**9):
        yield f"/{number}"
        pathlib.Path("pulling").touch()
        if "QUICK" not in os.environ:
            time.sleep(600 if "STUCK" in os.environ else 0.01)
"""


@pytest.mark.parametrize("stuck", [False, True], ids=["between two entries", "within a source that is silent"])
@pytest.mark.parametrize(("command", "code"), [("serve --port 0", 0), ("worker", 0), ("build", 128 + signal.SIGTERM)])
def test_a_build_that_is_under_way_at_the_end_gives_its_lease_back(directory, command, code, stuck):
    (directory / "slow.py").write_text(SLOW)
    (directory / "sitemap.toml").write_text(
        'base_url = "https://a.example"\nstore = "file:sets"\nlease = 3600\nbuild_wait = 3600\n'
        '[sections.slow]\ntype = "python"\nsource = "slow:entries"\n'
    )
    environ = {"STUCK": "1"} if stuck else {}
    process = started(directory, "-m", "flask_sitemapx", *command.split(), **environ)
    until((directory / "pulling").exists)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == code, (directory / "log").read_text()
    built = started(directory, "-m", "flask_sitemapx", "build", QUICK="1")
    try:
        assert built.wait(30) == 0
    finally:
        built.kill()
        built.wait()
    assert "10 URLs" in (directory / "log").read_text()


# Hostile clients


def test_a_connection_is_kept_for_further_requests_also_for_those_sent_at_once(server):
    assert statuses(sent(server, (GET + HOST + b"\r\n") * 9 + GET + HOST + CLOSE + b"\r\n")) == [200] * 10
    assert statuses(sent(server, GET + HOST + b"\r\n", then=GET + HOST + CLOSE + b"\r\n")) == [200, 200]


def test_an_idle_connection_is_kept_for_longer_than_gunicorn_would(server):
    with closing(HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        for pause in (0, 3):  # its default is 2
            time.sleep(pause)
            connection.request("GET", "/robots.txt", headers={"Host": "a.example"})
            response = connection.getresponse()
            assert (response.status, response.will_close) == (200, False)
            response.read()


def test_a_client_has_no_say_in_where_the_service_is_mounted(server):
    plain = sent(server, GET + HOST + CLOSE + b"\r\n").partition(b"\r\n\r\n")[2]
    for header in (b"SCRIPT_NAME: /robots", b"Script-Name: /robots", b"PATH_INFO: /sitemap.xml", b"X-Script-Name: /a"):
        assert sent(server, GET + HOST + CLOSE + header + b"\r\n\r\n").partition(b"\r\n\r\n")[2] == plain


def test_a_client_cannot_name_another_site_or_scheme(server):
    headers = [b"X-Forwarded-Host: evil.example", b"X-Forwarded-Proto: http", b"Forwarded: host=evil.example"]
    request = GET + HOST + CLOSE + b"\r\n".join(headers) + b"\r\n\r\n"
    assert b"\nSitemap: https://a.example/sitemap.xml\n" in sent(server, request)


LINE = len("GET /robots.txt? HTTP/1.1")
REFUSED = {
    "a request line of 4,095 bytes": (b"GET /robots.txt?%b HTTP/1.1\r\n" % (b"a" * (4_095 - LINE)) + HOST, 414),
    "a header of 9,000 bytes": (GET + HOST + b"X: " + b"a" * 9_000 + b"\r\n", 431),
    "a hundred and one headers": (GET + HOST + b"".join(b"X-%d: 1\r\n" % number for number in range(101)), 431),
    "two lengths": (POST + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n", 400),
    "a length and chunks": (POST + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400),
    "chunks of another kind": (POST + HOST + b"Transfer-Encoding: xchunked\r\n", 501),
    "two hosts": (GET + HOST + b"Host: b.example\r\n", 400),
    "a blank before the colon": (GET + HOST + b"X : 1\r\n", 400),
    "a folded header": (GET + HOST + b"X: 1\r\n 2\r\n", 400),
    "a NUL": (GET + HOST + b"X: \0\r\n", 400),
    "lines without CR": (b"GET /robots.txt HTTP/1.1\nHost: a.example\n\n", 400),
    "HTTP/0.9": (b"GET /robots.txt\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n", 400),
    "schemes that contradict each other": (GET + HOST + b"X-Forwarded-Proto: https\r\nX-Forwarded-Ssl: off\r\n", 400),
}


@pytest.mark.parametrize(("request_", "status"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_plain_http_is_refused_and_the_connection_closed(server, request_, status):
    smuggled = GET + HOST + b"\r\n"
    assert statuses(sent(server, request_ + b"\r\n" + smuggled)) == [status]


def test_a_request_line_of_4094_bytes_is_the_longest(server):
    line = b"GET /robots.txt?%b HTTP/1.1\r\n" % (b"a" * (4_094 - LINE))
    assert statuses(sent(server, line + HOST + CLOSE + b"\r\n")) == [200]


def test_a_body_is_not_waited_for_longer_than_some_seconds(server):
    assert statuses(sent(server, POST + HOST + b"Content-Length: 1000000000\r\n\r\n")) == [405]


def test_a_chunk_that_is_none_ends_the_connection(server):
    request = POST + HOST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n" + GET + HOST + b"\r\n"
    assert statuses(sent(server, request)) == [405, 400]


def test_fewer_slow_clients_than_a_worker_has_threads_are_no_concern_of_the_others(server):
    """Each that began a request and does not go on holds one of its 32, which is why a proxy has to stand before."""
    slow = []
    for _ in range(31):
        connection = socket.create_connection(("127.0.0.1", server.port), 60)
        connection.sendall(GET + HOST + b"X: ")
        slow.append(connection)
    got = Counter(get(server.port, "/robots.txt")[0] for _ in range(5))
    for connection in slow:
        connection.close()
    assert got == {200: 5}
