"""What is counted, in one process and in several, and what is known of the sites."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from werkzeug.test import Client, create_environ, run_wsgi_app

from flask_sitemapx.errors import Damaged, StoreError
from flask_sitemapx.service.metrics import GAUGES, kind
from flask_sitemapx.service.operations import Operations
from tests.test_operations import ADMIN, Site, asked, operations

ROOT = Path(__file__).parent.parent
Samples = dict[str, dict[tuple[str, ...], float]]


def samples(app: Operations) -> Samples:
    """The values of all metrics, by name and by the values of the labels in the order of their names."""
    answer = asked(app, "/metrics", ADMIN)
    assert answer.status_code == 200
    found: Samples = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            labels = tuple(value for _, value in sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


@pytest.fixture
def site(tmp_path) -> Site:
    return Site(f"file:{tmp_path / 'store'}").build()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/sitemap.xml", "index"),
        ("/sitemap.xml.gz", "index"),
        ("/sitemap.txt", "index"),
        ("/sitemap-index-2.xml", "index"),
        ("/blog/sitemap.xml", "index"),
        ("/sitemap-pages-1.xml", "shard"),
        ("/blog/sitemap-pages-1.txt", "shard"),
        ("/robots.txt", "robots"),
        ("/sitemap", "page"),
        ("/sitemap.css", "page"),
        ("/sitemap-pages.atom", "other"),
        ("/", "other"),
        ("", "other"),
        ("/sitemap.xml/", "other"),
    ],
)
def test_an_answer_is_of_one_of_five_kinds(path, expected):
    assert kind(path) == expected


def test_answers_are_counted_by_kind_and_status_and_bytes_as_they_are_sent(site):
    app = operations({"a": site})
    client = Client(app)
    first = client.get("/sitemap.xml")
    for _ in range(3):
        client.get("/sitemap.xml", headers={"If-None-Match": first.headers["ETag"]})
    client.head("/sitemap.xml")
    client.get("/sitemap-pages-9.xml")
    client.get("/robots.txt")
    client.get("/elsewhere")
    assert samples(app)["sitemap_answers_total"] == {
        ("index", "200"): 2,
        ("index", "304"): 3,
        ("shard", "404"): 1,
        ("robots", "200"): 1,
        ("other", "404"): 1,
    }
    sent = samples(app)["sitemap_sent_bytes_total"]
    assert sent[("index",)] == len(first.data)
    assert sent[("other",)] == len(b"nothing")  # which had no Content-Length


def test_what_operators_ask_for_is_not_counted(site):
    app = operations({"a": site})
    for path in ("/healthz", "/readyz", "/-/refresh"):
        asked(app, path, ADMIN)
    assert "sitemap_answers_total" not in samples(app)


def test_a_body_without_a_length_is_counted_block_by_block_and_closed():
    closed = []

    class Body:
        def __iter__(self) -> Any:
            return iter([b"12", b"345"])

        def close(self) -> None:
            closed.append(True)

    def streaming(environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return Body()

    app = operations({}, app=streaming)
    body, _, _ = run_wsgi_app(app, create_environ("/sitemap-pages-1.xml"))
    assert next(iter(body)) == b"12"
    body.close()  # type: ignore[attr-defined]
    assert closed
    assert samples(app)["sitemap_sent_bytes_total"] == {("shard",): 2}


def test_each_site_has_its_gauges(tmp_path, site):
    other = Site(f"file:{tmp_path / 'other'}", "https://b.example")
    found = samples(operations({"a": site, "b": other}))
    assert found["sitemap_up"] == {("a",): 1, ("b",): 0}
    assert found["sitemap_store_up"] == {("a",): 1, ("b",): 1}
    assert found["sitemap_entries"] == {("news", "a"): 1, ("pages", "a"): 1}
    assert found["sitemap_sitemaps"] == {("news", "a"): 1, ("pages", "a"): 1}
    assert found["sitemap_section_failed"] == {("news", "a"): 0, ("pages", "a"): 0}
    assert found["sitemap_set_number"] == {("a",): 1}
    snapshot = site.binding.refresher().last_good()
    assert snapshot is not None
    assert found["sitemap_build_seconds"] == {("a",): snapshot.seconds}
    assert 0 <= found["sitemap_set_age_seconds"][("a",)] < 60
    assert {f"sitemap_{name}" for name in GAUGES} - {"sitemap_dropped"} <= {*found}


def test_what_was_left_out_is_told_by_section_and_rule(tmp_path):
    site = Site(f"file:{tmp_path / 'store'}")
    site.binding.registry.section("bad")(lambda: ["https://elsewhere.example/", "/good", "https://third.example/"])
    assert samples(operations({"a": site.build()}))["sitemap_dropped"] == {("loc-host", "bad", "a"): 2}


def test_a_section_that_failed_and_its_last_good_entries_are_told(tmp_path):
    site, entries = Site(f"file:{tmp_path / 'store'}"), ["/1", "/2"]

    @site.binding.registry.section("failing")
    def failing() -> Iterable[str]:
        if not entries:
            raise OSError("gone")
        return [*entries]

    site.build()
    entries.clear()
    found = samples(operations({"a": site.build()}))
    assert found["sitemap_section_failed"][("failing", "a")] == 1
    assert found["sitemap_entries"][("failing", "a")] == 2


def test_errors_of_the_store_are_counted_as_they_are_logged(site):
    app = operations({"a": site})
    logger = logging.getLogger("flask_sitemapx.snapshots.view")
    logger.error("sitemap: %s", StoreError("it is gone"))
    logger.error("sitemap: %s, building anew", Damaged("it is torn"))
    logger.error("sitemap: %s", ValueError("something else"))
    assert samples(app)["sitemap_store_errors_total"] == {(): 2}


def test_counting_silences_nothing():
    script = (
        "import logging; from flask_sitemapx.service.operations import Operations; Operations(None, {}, {});"
        "logging.getLogger('flask_sitemapx.snapshots.view').warning('heard')"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stderr == "heard\n"


def test_a_service_that_is_gone_leaves_no_handler(site):
    logger = logging.getLogger("flask_sitemapx")
    before = [*logger.handlers]
    app = operations({"a": site})
    assert logger.handlers != before
    del app
    gc.collect()
    assert logger.handlers == before


def test_without_prometheus_client_the_service_goes_on_and_says_what_is_missing(site, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    app = operations({"a": site})
    assert asked(app, "/sitemap.xml").status_code == 200
    assert asked(app, "/metrics").status_code == 404
    answer = asked(app, "/metrics", ADMIN)
    assert (answer.status_code, "pip install 'flask-sitemapx[service]'" in answer.text) == (501, True)


COUNTING = """
import os, sys
from prometheus_client.parser import text_string_to_metric_families
from tests.test_operations import ADMIN, asked, operations
def nothing(environ, start_response):
    start_response("404 Not Found", [("Content-Length", "0")])
    return []
children = []
for _ in range(2):
    if not (child := os.fork()):
        app = operations({}, app=nothing)
        for _ in range(5):
            assert asked(app, "/robots.txt").status_code == 404
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
sys.stdout.write(asked(operations({}, app=nothing), "/metrics", ADMIN).text)
"""


def test_processes_answer_for_each_other_and_for_those_that_ended(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", COUNTING],
        cwd=ROOT,
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert 'sitemap_answers_total{kind="robots",status="404"} 10.0' in ran.stdout, ran.stderr
