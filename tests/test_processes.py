"""Several processes on one directory: killed, stopped, and all asked at once."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Self

import pytest

from flask_sitemapx.protocol.documents import URLSET
from flask_sitemapx.snapshots.directory import DirectoryStore
from flask_sitemapx.snapshots.shards import entries
from flask_sitemapx.snapshots.snapshot import Archive, Snapshot
from tests.builders import ENTRIES, KILLS, SECTIONS, Generation, keeper
from tests.section_sources import Site, paths

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent


def started(*arguments: Any, module: str = "tests.builders", **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, text=True, **options)


def until(is_so: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 60
    while not (answer := is_so()):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return answer


class Reader:
    """Reads whole sets as long as the test runs, and notes what is wrong with one."""

    def __init__(self, directory: Path) -> None:
        self.store = DirectoryStore(directory)
        self.generations: set[str] = set()
        self.wrong: list[str] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._read_on_and_on)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()

    def _read_on_and_on(self) -> None:
        known: Snapshot | None = None
        archive = Archive(self.store, "site")
        try:
            while not self._done.is_set():
                # In turns as one who was there before, and as one who is new.
                known = archive.latest(known)
                for snapshot, through in ((known, archive), (Archive(self.store, "site").latest(None), archive)):
                    if snapshot is not None and snapshot.fingerprint:
                        self.generations.add(generation(snapshot, through))
        except Exception as error:
            self.wrong.append(repr(error))


def generation(snapshot: Snapshot, archive: Archive) -> str:
    """The one generation that all entries of *snapshot* are of; each document of it is read."""
    site = Site(archive.store)
    site.snapshot, site.archive = snapshot, archive
    listed = [address(path) for path in site.front()]
    shards = [snapshot.shard(section, number) for section, number in listed]
    found = [path for shard in shards if shard for path in paths(whole(shard.document, archive))]
    generations = {path.split("/")[1] for path in found}
    assert len(found) == len(SECTIONS) * ENTRIES, f"{len(found)} entries in set {snapshot.number}"
    assert len(generations) == 1, f"generations {generations} in set {snapshot.number}"
    return generations.pop()


def address(path: str) -> tuple[str, int]:
    found = re.fullmatch(r"/sitemap-([a-z]+)-([0-9]+)\.xml", path)
    assert found is not None
    return found[1], int(found[2])


def whole(document: Any, archive: Archive) -> bytes:
    body = b"".join(entries(document, URLSET, archive.blob))
    assert len(URLSET.head) + len(body) + len(URLSET.tail) == document.length
    return body


def test_a_builder_killed_at_any_point_leaves_no_torn_set(tmp_path):
    DirectoryStore(tmp_path)
    with Reader(tmp_path) as one, Reader(tmp_path) as other:
        killer = started("kill", tmp_path, stdout=subprocess.PIPE)
        printed, _ = killer.communicate(timeout=120)
    assert killer.returncode == 0
    assert one.wrong == other.wrong == []
    assert int(printed) > KILLS / 5
    assert one.generations
    assert other.generations

    refresher = keeper(tmp_path, lambda: [Generation(section, "last") for section in SECTIONS])
    last = refresher.build()
    archive = Archive(DirectoryStore(tmp_path), "site")
    assert generation(last, archive) == "last"
    assert last.number > KILLS
    assert set(archive.blob_names()) == last.blobs() | last.garbage.keys()
    assert [path.name for path in (tmp_path / "state").glob("*lease*")] == []
    assert len(list((tmp_path / "state").glob("*manifest*"))) <= 3


def test_a_builder_that_was_stopped_cannot_publish_when_it_goes_on(tmp_path):
    stopped = started("wait", tmp_path, stdout=subprocess.PIPE)
    until((tmp_path / "pulling").exists)
    os.kill(stopped.pid, signal.SIGSTOP)
    built = keeper(tmp_path, lambda: [Generation(section, "other") for section in SECTIONS]).build()
    (tmp_path / "go").touch()
    os.kill(stopped.pid, signal.SIGCONT)
    printed, _ = stopped.communicate(timeout=60)
    assert int(printed) == built.number == 2
    archive = Archive(DirectoryStore(tmp_path), "site")
    assert archive.latest(None) == built
    assert generation(built, archive) == "other"


@contextmanager
def gunicorn(directory: Path, workers: int) -> Iterator[int]:
    """The port of gunicorn with *workers* for `tests.counted_app`."""
    environ = {
        **os.environ,
        "COUNTED_PULLS": str(directory / "pulls"),
        "SITEMAP_STORE": f"file:{directory / 'store'}",
        "SITEMAP_BASE_URL": "https://example.com",
        "SITEMAP_BUILD_WAIT": "60",
    }
    log = directory / "log"
    options = ["--bind", "127.0.0.1:0", "--workers", workers, "--timeout", 120, "--error-logfile", log]
    server = started("tests.counted_app:app", *options, module="gunicorn", env=environ)
    try:
        until(lambda: log.exists() and log.read_text().count("Booting worker") == workers)
        yield int(re.findall(r"Listening at: http://127\.0\.0\.1:([0-9]+)", log.read_text())[0])
    finally:
        server.terminate()
        server.wait(60)


def test_four_cold_workers_that_are_asked_200_times_at_once_build_once(tmp_path):
    at_once = threading.Barrier(200)

    def asked(path: str) -> tuple[int, int]:
        connection = HTTPConnection("127.0.0.1", port, timeout=120)
        at_once.wait(60)
        connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
        response = connection.getresponse()
        size = len(response.read())
        connection.close()
        return response.status, size

    with gunicorn(tmp_path, 4) as port, ThreadPoolExecutor(200) as threads:
        answers = list(threads.map(asked, ["/sitemap.xml", "/sitemap-counted-1.xml"] * 100))
    assert {status for status, _ in answers} == {200}
    assert len(set(answers)) == 2
    assert len((tmp_path / "pulls").read_text().splitlines()) == 1
