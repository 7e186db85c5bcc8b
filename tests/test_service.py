"""The service as its operator starts it: one file, one command, gunicorn."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.waiting import until

FILE = """\
store = "file:sets"
[site."a.example".sections.pages]
type = "urls"
urls = ["/", "/a"]
[site."b.example".sections.pages]
type = "urls"
urls = ["/", "/b"]
[site."b.example".robots]
disallow = ["/admin/"]
"""
GUNICORN = ["-m", "gunicorn", "flask_sitemapx.service:create_app()"]


class Server:
    """The service in a process of its own, which says in *log* what it says."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log
        self.port = int(until(self._ports)[0])

    def log(self) -> str:
        return self._log.read_text()

    def _ports(self) -> list[str]:
        assert self.process.poll() is None, self.log()
        return re.findall(r"Listening at: http://[\d.]+:(\d+)", self.log())

    def get(self, host: str, path: str = "/sitemap.xml") -> str:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", path, headers={"Host": host})
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return f"{response.status} {text}"

    def reload(self) -> None:
        booted = self.log().count("Booting worker")
        self.process.send_signal(signal.SIGHUP)
        until(lambda: self.log().count("Booting worker") >= booted + 2 or self.process.poll() is not None)


def started(directory: Path, *arguments: str, **environ: str) -> subprocess.Popen[bytes]:
    """A process of Python in *directory*, which writes all that it prints into the file *log* there."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("SITEMAP_")} | environ
    with (directory / "log").open("wb") as log:
        command = [sys.executable, *arguments]
        return subprocess.Popen(command, cwd=directory, env=environ, stdout=log, stderr=subprocess.STDOUT)


@contextmanager
def serving(directory: Path, *options: str, **environ: str) -> Iterator[Server]:
    """`flask-sitemapx serve` with two workers on a free port."""
    workers = {"GUNICORN_CMD_ARGS": "--workers 2"}
    process = started(directory, "-m", "flask_sitemapx", "serve", *options, **workers, **environ)
    try:
        yield Server(process, directory / "log")
    finally:
        process.terminate()
        process.wait(60)
    assert process.returncode == 0


def test_two_sites_are_served_from_one_file(tmp_path):
    (tmp_path / "sitemap.toml").write_text(FILE)
    with serving(tmp_path, "--port", "0") as server:
        assert "<loc>https://a.example/a</loc>" in server.get("a.example")
        assert "<loc>https://b.example/b</loc>" in server.get("b.example:80")
        assert server.get("a.example", "/sitemap-pages-1.xml").startswith("200 ")
        assert server.get("b.example", "/robots.txt") == (
            "200 User-agent: *\nDisallow: /admin/\n\nSitemap: https://b.example/sitemap.xml\n"
        )
        assert server.get("c.example").startswith("400 ")
        assert server.get("a.example", "/").startswith("404 ")


def test_sets_are_built_before_anybody_asks(tmp_path):
    (tmp_path / "sitemap.toml").write_text(FILE)
    with serving(tmp_path, "--port", "0"):
        until(lambda: len([*(tmp_path / "sets" / "state").glob("*.manifest.1")]) == 2)


def test_a_hangup_has_the_file_read_again_and_a_broken_one_leaves_the_last(tmp_path):
    file = tmp_path / "sitemap.toml"
    file.write_text(FILE)
    with serving(tmp_path, "--port", "0") as server:
        assert "/new<" not in server.get("a.example")
        file.write_text(FILE.replace('"/a"', '"/new"'))
        server.reload()
        until(lambda: "/new<" in server.get("a.example"))
        file.write_text(FILE.replace("urls =", "url ="))
        server.reload()
        until(lambda: 'line 4: site."a.example".sections.pages.url is unknown' in server.log())
        assert "/new<" in server.get("a.example")
        assert "/b<" in server.get("b.example")
        file.write_text(FILE.replace('"/a"', '"/newest"'))
        server.reload()
        until(lambda: "/newest<" in server.get("a.example"))


def test_port_is_that_of_the_environment(tmp_path):
    (tmp_path / "sitemap.toml").write_text(FILE)
    with serving(tmp_path, "--host", "127.0.0.1", PORT="0") as server:
        assert server.get("a.example").startswith("200 ")


def test_without_a_file_the_service_says_what_to_write(tmp_path):
    with serving(tmp_path, "--port", "0") as server:
        assert "flask-sitemapx init" in server.get("any", "/")
        assert server.get("any", "/robots.txt") == "200 User-agent: *\nDisallow:\n"
        assert server.get("any").startswith("404 ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["-m", "flask_sitemapx", "serve", "--port", "0"],
        [*GUNICORN, "--bind", "127.0.0.1:0"],
        [*GUNICORN, "--bind", "127.0.0.1:0", "--config", "python:flask_sitemapx.service.gunicorn_conf"],
    ],
    ids=["serve", "gunicorn", "gunicorn with its configuration"],
)
def test_a_file_that_is_broken_at_the_start_is_an_error_and_no_service(tmp_path, arguments):
    (tmp_path / "sitemap.toml").write_text(FILE.replace("urls =", "url ="))
    process = started(tmp_path, *arguments)
    assert process.wait(60) != 0
    log = (tmp_path / "log").read_text()
    assert "sitemap.toml, line 4: site.\"a.example\".sections.pages.url is unknown; did you mean 'urls'?" in log
