"""A sitemap that is asked for before it was built: streamed from its source while it is stored."""

from __future__ import annotations

import gzip
import threading
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask, current_app, g, has_app_context

from flask_sitemapx import Sitemap
from flask_sitemapx.errors import StoreError
from flask_sitemapx.snapshots.directory import DirectoryStore
from tests.section_sources import paths

BASE = "https://example.com"
MONTHS = ("october", "november", "december")


class Shop:
    """An application whose build stops in the middle, so that november and december are planned but not built."""

    def __init__(self, store: Any, **config: Any) -> None:
        self.app = Flask(__name__)
        self.app.config.update(SITEMAP_BASE_URL=BASE, SITEMAP_STORE=store, SITEMAP_BUILD_WAIT=0)
        self.app.config.update(SITEMAP_INDEX="always", SITEMAP_ROUTES="marked", SITEMAP_ON_ERROR="skip")
        self.app.config.update(config)
        self.sitemap = Sitemap(self.app)
        self.go_on = threading.Event()
        self.planned = threading.Event()
        self.entries = {month: [f"/{month}/{number}" for number in range(1_500)] for month in MONTHS}
        self.pulls: list[str] = []
        self.closed: list[str] = []
        self.fault: Exception | None = None
        self.fault_at = 0
        self.contexts: list[Any] = []
        self.sitemap.section("news", shards=lambda: [(month, "1") for month in MONTHS])(self.news)
        self.app.teardown_appcontext(lambda error: self.contexts.append(g.get("month")) if "month" in g else None)

    def news(self, month: str) -> Iterator[str]:
        if threading.current_thread().name == "sitemap-build" and month != "october":
            self.planned.set()
            self.go_on.wait(60)
        self.pulls.append(month)
        g.month = month
        try:
            for number, entry in enumerate(self.entries[month]):
                if self.fault is not None and number == self.fault_at:
                    raise self.fault
                assert current_app.name == self.app.name
                yield entry
        finally:
            self.closed.append(month)

    def get(self, path: str, **headers: str) -> Any:
        return self.app.test_client().get(path, headers=headers, base_url=BASE, buffered=True)

    def build_partly(self) -> None:
        assert self.get("/sitemap.xml").status_code == 503
        assert self.planned.wait(60)

    def finish(self) -> None:
        self.go_on.set()
        self.sitemap.refresh()


@pytest.fixture
def shop(tmp_path) -> Iterator[Shop]:
    shop = Shop(f"file:{tmp_path}")
    shop.build_partly()
    yield shop
    shop.fault = None
    shop.finish()


def test_the_index_lists_what_is_planned_without_dates(shop):
    listed = shop.get("/sitemap.xml").text
    assert paths(listed) == [f"/sitemap-news-{number}.xml" for number in (1, 2, 3)]
    assert shop.get("/robots.txt").text.count("Sitemap:") == 1


def test_what_was_not_built_is_streamed_and_stored(shop):
    answer = shop.get("/sitemap-news-2.xml")
    assert answer.status_code == 200
    assert paths(answer.text) == shop.entries["november"]
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Content-Type"] == "application/xml; charset=utf-8"
    assert "ETag" not in answer.headers
    assert "Content-Length" not in answer.headers
    again = shop.get("/sitemap-news-2.xml")
    assert again.data == answer.data
    assert again.headers["ETag"]
    assert shop.pulls == ["october", "november"]
    assert shop.closed == ["october", "november"]


def test_what_was_streamed_is_not_read_again_by_the_build(shop):
    streamed = shop.get("/sitemap-news-3.xml")
    shop.finish()
    stored = shop.get("/sitemap-news-3.xml")
    assert stored.data == streamed.data
    assert sorted(shop.pulls) == sorted(MONTHS)


@pytest.mark.parametrize("path", ["/sitemap-news-2.xml", "/sitemap-news-2.xml.gz"])
def test_it_is_streamed_as_gzip_block_by_block(shop, path):
    answer = shop.app.test_client().get(path, headers={"Accept-Encoding": "gzip"}, base_url=BASE)
    blocks = list(answer.iter_encoded())
    assert len(blocks) > 2
    assert paths(gzip.decompress(b"".join(blocks))) == shop.entries["november"]
    assert paths(zlib.decompressobj(31).decompress(blocks[0]))[:10] == shop.entries["november"][:10]
    assert answer.headers.get("Content-Encoding") == (None if path.endswith(".gz") else "gzip")
    assert answer.headers.get("Vary") == (None if path.endswith(".gz") else "Accept-Encoding")


def test_a_head_reads_nothing(shop):
    answer = shop.app.test_client().head("/sitemap-news-2.xml", base_url=BASE)
    assert (answer.status_code, answer.data) == (200, b"")
    assert shop.pulls == ["october"]


def test_no_coding_that_is_acceptable_is_a_406(shop):
    assert shop.get("/sitemap-news-2.xml", **{"Accept-Encoding": "identity;q=0"}).status_code == 406
    assert shop.pulls == ["october"]


def test_a_client_that_hangs_up_closes_the_source_and_stores_nothing(shop, tmp_path):
    answer = shop.app.test_client().get("/sitemap-news-2.xml", base_url=BASE, buffered=False)
    next(answer.iter_encoded())
    assert shop.closed == ["october"]
    answer.close()
    assert shop.closed == ["october", "november"]
    assert shop.contexts[-1] == "november"
    assert shop.get("/sitemap-news-2.xml").headers["Cache-Control"] == "no-store"  # streamed once more


def test_a_client_that_hangs_up_before_it_took_anything_closes_the_source_too(shop):
    shop.app.test_client().get("/sitemap-news-2.xml", base_url=BASE, buffered=False).close()
    assert shop.closed == ["october", "november"]


def test_nothing_of_the_pull_is_seen_by_whoever_sends_it(shop):
    answer = shop.app.test_client().get("/sitemap-news-2.xml", base_url=BASE, buffered=False)
    blocks = answer.iter_encoded()
    next(blocks)
    assert not has_app_context()
    answer.close()


def test_what_turns_out_to_be_empty_is_not_there(shop):
    shop.entries["november"] = []
    assert shop.get("/sitemap-news-2.xml").status_code == 404
    assert shop.get("/sitemap-news-2.xml").status_code == 404
    assert shop.pulls == ["october", "november"]


def test_a_source_that_fails_at_once_is_a_503(shop, caplog):
    shop.fault = OSError("the database is gone")
    answer = shop.get("/sitemap-news-2.xml")
    assert answer.status_code == 503
    assert answer.headers["Retry-After"]
    assert "the database is gone" in caplog.text
    shop.fault = None
    assert shop.get("/sitemap-news-2.xml").status_code == 200


def test_a_source_that_fails_midway_cuts_the_answer_and_nothing_is_stored(shop):
    shop.fault, shop.fault_at = OSError("the database is gone"), 1_200
    with pytest.raises(OSError, match="the database is gone"):
        shop.get("/sitemap-news-2.xml")
    shop.fault = None
    assert shop.get("/sitemap-news-2.xml").headers["Cache-Control"] == "no-store"


def test_what_outgrows_a_sitemap_is_cut_off_and_the_build_divides_it(tmp_path):
    shop = Shop(f"file:{tmp_path}", SITEMAP_MAX_URLS=1_600)
    shop.build_partly()
    shop.entries["november"] = [f"/more/{number}" for number in range(3_000)]
    with pytest.raises(Exception, match="more than a sitemap holds"):
        shop.get("/sitemap-news-2.xml")
    shop.finish()
    assert shop.get("/sitemap-news-2.xml").status_code == 404
    listed = [shop.get(path).text for path in paths(shop.get("/sitemap.xml").text)]
    assert [path for text in listed for path in paths(text)] == [
        path for month in MONTHS for path in shop.entries[month]
    ]


class Full(DirectoryStore):
    """A directory on a disk that fills up."""

    is_full = False

    def put(self, key: str, value: bytes) -> None:
        if self.is_full:
            raise StoreError("no space left on device")
        super().put(key, value)


def test_a_store_that_is_full_keeps_nobody_from_being_served(tmp_path, caplog):
    store = Full(tmp_path)
    shop = Shop(store)
    shop.build_partly()
    store.is_full = True
    assert paths(shop.get("/sitemap-news-2.xml").text) == shop.entries["november"]
    assert "no space left on device" in caplog.text
    store.is_full = False
    assert shop.get("/sitemap-news-2.xml").headers["Cache-Control"] == "no-store"
    shop.finish()
    assert shop.get("/sitemap-news-2.xml").headers["ETag"]


def test_the_name_of_the_site_is_put_in_as_it_streams(tmp_path):
    shop = Shop(f"file:{tmp_path}", SITEMAP_BASE_URL=None)
    shop.build_partly()
    assert paths(shop.get("/sitemap-news-2.xml").text) == shop.entries["november"]
    shop.finish()
