"""`flask sitemap`: what each command prints, and the code it ends with."""

from __future__ import annotations

import io
import json
import logging
import os
import pty
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import Result
from flask import Flask

from flask_sitemapx import Sitemap, StoreError
from flask_sitemapx.cli import Watcher, commands
from flask_sitemapx.snapshots.directory import DirectoryStore

BASE = "https://example.com"
REFERENCE = Path(__file__).parent.parent / "docs" / "reference-cli.md"


class Shop:
    """An application with one section whose entries can be changed."""

    def __init__(self, **config: Any) -> None:
        self.entries: list[Any] = ["/one", {"loc": "/two?a=1&b=2", "lastmod": "2024-11-30", "priority": 0.8}]
        self.app = Flask("shop")
        self.app.config.update(SITEMAP_BASE_URL=BASE, SITEMAP_ROUTES="marked", **config)
        self.sitemap = Sitemap(self.app)
        self.sitemap.section("pages")(self.pages)

    def pages(self) -> Iterator[Any]:
        for entry in self.entries:
            if isinstance(entry, Exception):
                raise entry
            yield entry

    def run(self, *args: str) -> Result:
        result = self.app.test_cli_runner().invoke(args=["sitemap", *args])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
        return result

    def json(self, *args: str) -> Any:
        return json.loads(self.run(*args, "--json").stdout)


@pytest.fixture
def store(tmp_path):
    return f"file:{tmp_path}/store"


@pytest.fixture
def shop(store):
    return Shop(SITEMAP_STORE=store)


@pytest.fixture
def lonely():
    """A shop whose set is kept by each process for itself."""
    return Shop(SITEMAP_STORE="memory:")


# build and refresh


def test_build_publishes_and_reports(shop):
    shop.entries += ["/one", "http://elsewhere.example/"]
    result = shop.run("build")
    assert result.exit_code == 0
    head, *table = result.stdout.splitlines()
    assert re.fullmatch(r"set 1 built in [0-9.]+ s: 2 URLs", head)
    assert [line.split()[:3] for line in table[:3]] == [
        ["section", "URLs", "sitemaps"],
        ["routes", "0", "0"],
        ["pages", "2", "1"],
    ]
    assert "left out of pages: 1 entry (duplicate), such as 'https://example.com/one'" in table
    assert any("http://elsewhere.example/" in line for line in table)
    assert "/one" in shop.app.test_client().get("/sitemap.xml").text


def test_build_builds_also_when_the_set_is_fresh(shop):
    shop.run("build")
    shop.entries = ["/three"]
    assert shop.run("build").stdout.startswith("set 2 built in")


def test_build_tells_all_as_json(shop):
    shop.entries += ["/one"]
    told = shop.json("build")
    assert (told["built"], told["number"], told["count"], told["kind"]) == (True, 1, 2, "urlset")
    pages = told["sections"]["pages"]
    assert (pages["count"], pages["error"]) == (2, None)
    assert [shard["path"] for shard in pages["shards"]] == ["/sitemap-pages-1.xml"]
    assert pages["problems"] == {"duplicate": [1, "'https://example.com/one'"]}
    assert 0 <= pages["seconds"] <= told["seconds"]


def test_build_says_which_sitemaps_changed(shop):
    shop.entries = [f"/{number}" for number in range(12)]
    shop.app.config["SITEMAP_MAX_URLS"] = 8
    first = shop.json("build")["sections"]["pages"]
    assert first["changed"] == [shard["path"] for shard in first["shards"]]
    assert shop.json("build")["sections"]["pages"]["changed"] == []
    shop.entries[0] = {"loc": "/0", "lastmod": "2024-11-30"}
    assert shop.json("build")["sections"]["pages"]["changed"] == ["/sitemap-pages-1.xml"]
    assert shop.json("refresh")["sections"]["pages"]["changed"] == []
    table = shop.run("build").stdout.splitlines()
    assert table[1].split() == ["section", "URLs", "sitemaps", "changed", "seconds"]
    assert table[3].split()[:4] == ["pages", "12", "2", "0"]


def test_build_reads_only_the_sections_that_are_named(shop):
    reads = []

    def more():
        reads.append("more")
        yield "/more"

    shop.sitemap.section("more")(more)
    shop.run("build")
    shop.entries.append("/new")
    assert shop.json("build", "--section", "pages")["count"] == 4
    assert len(reads) == 1
    assert shop.json("build", "--section", "pages", "--section", "more")["count"] == 4
    assert len(reads) == 2
    refused = shop.run("build", "--section", "nothing")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "there is no section 'nothing'; there are routes, pages, more" in refused.stderr


def test_a_dry_run_tells_all_and_leaves_all_as_it_was(shop, tmp_path):
    shop.run("build")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    shop.entries += ["/new", "/one"]
    told = shop.json("build", "--dry-run")
    assert (told["built"], told["number"], told["count"]) == (False, 2, 3)
    assert told["sections"]["pages"]["changed"] == ["/sitemap-pages-1.xml"]
    assert told["sections"]["pages"]["problems"] == {"duplicate": [1, "'https://example.com/one'"]}
    assert shop.run("build", "--dry-run").stdout.startswith("set 2 would be built in")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before
    assert "/new" not in shop.run("list").stdout


def test_a_dry_run_fails_as_the_build_would(shop):
    shop.entries = [OSError("no such table")]
    result = shop.run("build", "--dry-run")
    assert result.exit_code == 1
    assert "no such table" in result.stderr


def test_a_dry_run_works_in_memory_too(lonely):
    assert lonely.json("build", "--dry-run")["count"] == 2


def test_a_build_whose_time_is_up_publishes_what_it_has_and_the_next_goes_on(shop):
    reads = []

    def months(month):
        reads.append(month)
        yield f"/{month}"

    shop.sitemap.section("months", shards=lambda: [("may", 1), ("june", 1), ("july", 1)])(months)
    result = shop.run("build", "--budget", "0")
    assert result.exit_code == 0
    assert "the time was up: what is left is read by the next build" in result.stdout
    assert reads == ["may"]
    assert shop.json("status")["sites"][0]["snapshot"]["complete"] is False
    told = shop.json("build")
    assert (told["complete"], told["count"]) == (True, 5)
    assert reads == ["may", "june", "july"]


def test_refresh_builds_only_what_is_not_fresh(shop):
    assert shop.json("refresh")["built"] is True
    again = shop.json("refresh")
    assert (again["built"], again["number"], again["sections"]["pages"]["seconds"]) == (False, 1, None)
    assert re.match(r"set 1 is fresh, built at 20\S+: 2 URLs\n", shop.run("refresh").stdout)
    shop.sitemap.touch("pages", shop.app)
    assert shop.json("refresh")["number"] == 2


@pytest.mark.parametrize("command", ["build", "refresh"])
def test_a_store_of_this_process_only_is_refused(lonely, command):
    result = lonely.run(command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "'memory:'" in result.stderr
    assert "SITEMAP_STORE" in result.stderr


def test_a_site_with_nothing_to_list_is_explained(shop):
    shop.entries = []
    result = shop.run("build")
    assert result.exit_code == 0
    assert "nothing to list" in result.stderr


def test_a_bad_entry_that_fails_the_build_is_named_with_section_rule_and_value(store):
    shop = Shop(SITEMAP_STORE=store, SITEMAP_ON_ERROR="raise")
    shop.entries = ["http://elsewhere.example/"]
    result = shop.run("build")
    assert (result.exit_code, result.stdout) == (1, "")
    for part in ("'pages'", "http://elsewhere.example/", "(rule loc-", "Error: "):
        assert part in result.stderr
    assert "Traceback" not in result.stderr
    assert shop.run("list").exit_code == 1


def test_a_section_that_never_succeeded_fails_the_build(shop):
    shop.entries = ["/one", KeyError("slug")]
    result = shop.run("build")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "section 'pages': KeyError: 'slug'" in result.stderr


@pytest.mark.parametrize("command", [("build",), ("build", "--json"), ("export", "out")])
def test_a_section_that_fails_later_is_reported_beside_the_set(shop, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shop.run("build")
    shop.entries = [KeyError("slug")]
    shop.sitemap.touch("pages", shop.app)
    result = shop.run(*command)
    assert result.exit_code == 1
    assert "section 'pages': KeyError: 'slug' (its last good entries are served)" in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout
    assert len(shop.run("list").stdout.splitlines()) == 2


def test_a_store_that_cannot_be_used_is_an_error_of_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    shop = Shop(SITEMAP_STORE=f"file:{tmp_path}/file/store")
    for command in (("build",), ("list",), ("export", str(tmp_path / "out"))):
        result = shop.run(*command)
        assert result.exit_code == 1
        assert re.fullmatch(r"Error: .*file.*\n", result.stderr.splitlines(keepends=True)[-1])
        assert "Traceback" not in result.stderr


def test_a_setting_that_cannot_be_used_exits_with_2(store):
    result = Shop(SITEMAP_STORE=store, SITEMAP_MAX_URLS=0).run("build")
    assert result.exit_code == 2
    assert "SITEMAP_MAX_URLS" in result.stderr


# Somebody else builds


@contextmanager
def building(store: str) -> Iterator[threading.Event]:
    """Another builder of the same set, which goes on until the event is set."""
    other = Shop(SITEMAP_STORE=store)
    begun, may_end = threading.Event(), threading.Event()

    def pages() -> Iterator[str]:
        begun.set()
        assert may_end.wait(60)
        yield "/by-the-other"

    other.sitemap.sections.clear()
    other.sitemap.section("pages")(pages)
    thread = threading.Thread(target=other.sitemap.build, args=(other.app,))
    thread.start()
    try:
        assert begun.wait(60)
        yield may_end
    finally:
        may_end.set()
        thread.join(60)


@pytest.mark.parametrize("command", [("build",), ("refresh",), ("export", "out")])
def test_somebody_else_who_builds_is_not_disturbed(shop, store, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with building(store):
        result = shop.run(*command, "--wait", "0")
    assert (result.exit_code, result.stdout) == (3, "")
    assert f"somebody else is building the set of {BASE}" in result.stderr
    assert not (tmp_path / "out").exists()


def test_the_set_of_somebody_else_is_waited_for(shop, store):
    with building(store) as may_end:
        timer = threading.Timer(0.2, may_end.set)
        timer.start()
        told = shop.json("build", "--wait", "60")
        timer.join()
    assert (told["built"], told["count"]) == (False, 1)
    assert shop.run("list").stdout == f"{BASE}/by-the-other\n"


def test_by_default_the_wait_is_long_enough_to_notice_that_a_builder_died(store, tmp_path):
    shop = Shop(SITEMAP_STORE=store, SITEMAP_LEASE=0.5)
    archive = shop.app.extensions["sitemapx"].refresher()._archive
    DirectoryStore(str(tmp_path / "store")).put(archive.lease_key(1), b"of a process that is gone 1")
    assert shop.run("refresh", "--wait", "0").exit_code == 3
    assert shop.json("refresh")["built"] is True


# The site's name


@pytest.mark.parametrize("command", [("build",), ("refresh",), ("list",), ("robots",), ("export", "out")])
def test_a_name_that_is_not_configured_is_asked_for(store, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shop = Shop(SITEMAP_STORE=store)
    shop.app.config["SITEMAP_BASE_URL"] = None
    result = shop.run(*command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--base-url https://" in result.stderr
    if command != ("list",):
        assert shop.run(*command, "--base-url", BASE).exit_code == 0


def test_a_set_that_was_built_for_a_name_is_that_of_an_application_with_this_name(store):
    nameless = Shop(SITEMAP_STORE=store)
    nameless.app.config["SITEMAP_BASE_URL"] = None
    nameless.run("build", "--base-url", BASE)
    assert Shop(SITEMAP_STORE=store).run("list").stdout.splitlines()[0] == f"{BASE}/one"


def test_another_name_is_another_set(shop):
    shop.run("build")
    other = "https://staging.example/sub"
    assert shop.run("list", "--base-url", other).exit_code == 1
    assert shop.run("build", "--base-url", other).exit_code == 0
    assert shop.run("list", "--base-url", other).stdout.splitlines()[0] == f"{other}/one"
    assert shop.run("list").stdout.splitlines()[0] == f"{BASE}/one"


@pytest.mark.parametrize("name", ["example.com", "ftp://example.com", ""])
def test_a_name_that_is_none_exits_with_2(shop, name):
    result = shop.run("build", "--base-url", name)
    assert result.exit_code == 2
    assert "Error: " in result.stderr


# list


def test_list_prints_an_address_a_line(shop):
    shop.run("build")
    result = shop.run("list")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{BASE}/one\n{BASE}/two?a=1&b=2\n"


def test_list_prints_an_object_a_line(shop):
    shop.run("build")
    rows = [json.loads(line) for line in shop.run("list", "--json").stdout.splitlines()]
    assert rows == [
        {"loc": f"{BASE}/one", "lastmod": None, "changefreq": None, "priority": None, "section": "pages"},
        {
            "loc": f"{BASE}/two?a=1&b=2",
            "lastmod": "2024-11-30",
            "changefreq": None,
            "priority": 0.8,
            "section": "pages",
        },
    ]


def test_list_prints_every_entry_of_every_document(store):
    shop = Shop(SITEMAP_STORE=store, SITEMAP_MAX_URLS=1_000)
    shop.entries = [f"/{n}/ü" for n in range(5_000)]
    shop.run("build")
    assert shop.run("list").stdout.splitlines() == [f"{BASE}/{n}/%C3%BC" for n in range(5_000)]


def test_list_says_when_the_store_fails(shop, monkeypatch):
    shop.run("build")

    def fail(self: DirectoryStore, key: str) -> bytes:
        raise StoreError("the disk is gone")

    monkeypatch.setattr(DirectoryStore, "get", fail)
    monkeypatch.setattr(DirectoryStore, "version", lambda self: object())
    for command in ("list", "refresh", "status"):
        result = shop.run(command)
        assert (result.exit_code, "the disk is gone" in result.stderr) == (1, True)


def test_list_prints_one_section(shop):
    shop.sitemap.section("news")(lambda: ["/news"])
    shop.run("build")
    assert shop.run("list", "--section", "news").stdout == f"{BASE}/news\n"
    assert len(shop.run("list").stdout.splitlines()) == 3


def test_list_of_a_section_that_is_not_there_names_those_that_are(shop):
    result = shop.run("list", "--section", "page")
    assert result.exit_code == 2
    assert "there is no section 'page'; there are routes, pages" in result.stderr


def test_list_of_a_section_that_is_newer_than_the_set_is_empty(shop):
    shop.run("build")
    shop.sitemap.section("news")(lambda: ["/news"])
    assert shop.run("list", "--section", "news").output == ""


def test_list_builds_nothing_that_others_would_see(shop):
    result = shop.run("list")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "flask sitemap build" in result.stderr
    assert shop.json("status")["sites"][0]["snapshot"] is None


def test_list_builds_for_itself_in_memory(lonely):
    lonely.entries += ["/one"]
    result = lonely.run("list")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 2
    assert "left out of pages: 1 entry (duplicate)" in result.stderr


def test_list_of_damaged_bytes_fails(shop, tmp_path):
    shop.run("build")
    damage(tmp_path / "store")
    result = shop.run("list")
    assert result.exit_code == 1
    assert "damaged" in result.stderr


def damage(directory: Path) -> None:
    blobs = [path for path in (directory / "blobs").rglob("*") if path.is_file()]
    assert blobs
    for path in blobs:
        if path.read_bytes().startswith(b"\x1f\x8b"):
            path.write_bytes(b"\x1f\x8bwrong")


# routes


@pytest.fixture
def explained(shop, monkeypatch):
    told = [
        SimpleNamespace(endpoint="home", url="/", listed=True, reason="the front page"),
        SimpleNamespace(endpoint="blog.article", url="/blog/<slug>", listed=False, reason="no section fills in slug"),
    ]
    monkeypatch.setattr(Sitemap, "explain_routes", lambda self: told, raising=False)
    return shop


def test_routes_prints_a_table(explained):
    assert explained.run("routes").stdout.splitlines() == [
        "listed  endpoint      url           reason",
        "yes     home          /             the front page",
        "no      blog.article  /blog/<slug>  no section fills in slug",
    ]


def test_routes_prints_a_list_of_objects(explained):
    assert explained.json("routes")[1] == {
        "endpoint": "blog.article",
        "url": "/blog/<slug>",
        "listed": False,
        "reason": "no section fills in slug",
    }


# status


def test_status_of_a_fresh_set(shop):
    shop.entries += ["/one"]
    shop.run("build")
    result = shop.run("status")
    assert (result.exit_code, result.stderr) == (0, "")
    for line in (f"site: {BASE}", "state: fresh", "left out of pages: 1 entry (duplicate), such as"):
        assert line in result.stdout
    assert re.search(r"^set 1, built at 20\S+ in [0-9.]+ s, urlset of 2 URLs$", result.stdout, re.MULTILINE)
    assert re.search(r"^largest sitemap: 2 of 10,000 urls, [0-9]+ of 52,428,800 bytes$", result.stdout, re.MULTILINE)
    assert re.search(r"^pages +2 +1$", result.stdout, re.MULTILINE)


def test_status_prints_what_the_method_returns(shop):
    shop.run("build")
    told = shop.json("status")
    expected = json.loads(json.dumps(shop.sitemap.status(shop.app)))
    assert told["sites"][0]["snapshot"] == expected["sites"][0]["snapshot"]
    assert told.keys() == expected.keys()


def test_status_without_a_set(shop):
    result = shop.run("status")
    assert result.exit_code == 1
    assert f"the set of {BASE} is missing" in result.stderr
    assert "state: missing" in result.stdout


def test_status_of_a_touched_section(shop):
    shop.run("build")
    shop.sitemap.touch("pages", shop.app)
    result = shop.run("status", "--json")
    assert result.exit_code == 1
    assert f"the set of {BASE} is stale" in result.stderr
    assert json.loads(result.stdout)["sites"][0]["state"] == "stale"


def test_status_of_a_set_that_is_due_is_well(shop):
    shop.run("build")
    shop.app.extensions["sitemapx"].refresher()._clock = lambda: time.time() + 5_400
    result = shop.run("status")
    assert (result.exit_code, "state: due" in result.stdout) == (0, True)


def test_status_of_a_failed_section(shop):
    shop.run("build")
    shop.entries = [KeyError("slug")]
    shop.run("build")
    result = shop.run("status")
    assert result.exit_code == 1
    assert "section 'pages': KeyError: 'slug'" in result.stderr


def test_status_of_a_store_that_fails(tmp_path):
    (tmp_path / "file").write_text("")
    result = Shop(SITEMAP_STORE=f"file:{tmp_path}/file/store").run("status")
    assert result.exit_code == 1
    assert "file/store" in result.stderr


def test_status_of_what_other_processes_hold_in_memory_cannot_be_told(lonely):
    result = lonely.run("status", "--json")
    assert result.exit_code == 2
    assert "'memory:'" in result.stderr
    assert json.loads(result.stdout)["store"] == "memory:"


def test_status_without_a_name_is_that_of_all_requests(store):
    shop = Shop(SITEMAP_STORE=store)
    shop.app.config["SITEMAP_BASE_URL"] = None
    shop.sitemap.build(shop.app)
    result = shop.run("status")
    assert (result.exit_code, "site: named by each request" in result.stdout) == (0, True)


def test_status_asks_which_of_the_trusted_names_is_meant(store):
    shop = Shop(SITEMAP_STORE=store)
    shop.app.config.update(SITEMAP_BASE_URL=None, TRUSTED_HOSTS=["example.com", "example.org"])
    assert shop.run("status").exit_code == 2
    shop.run("build", "--base-url", BASE)
    result = shop.run("status", "--base-url", BASE)
    assert (result.exit_code, f"site: {BASE}" in result.stdout) == (0, True)


def test_status_prints_the_lines_for_a_robots_txt_elsewhere(store):
    shop = Shop(SITEMAP_STORE=store)
    shop.app.config["SITEMAP_BASE_URL"] = f"{BASE}/sub"
    shop.run("build")
    assert f"  Sitemap: {BASE}/sub/sitemap.xml\n" in shop.run("status").stdout


# robots


def test_robots_prints_what_is_served(shop):
    shop.sitemap.robots("GPTBot", disallow=["/"])
    result = shop.run("robots")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == shop.app.test_client().get("/robots.txt").text
    assert "User-agent: GPTBot" in result.stdout


def test_robots_says_that_it_is_not_served_below_a_mount_point(store):
    shop = Shop(SITEMAP_STORE=store)
    shop.app.config["SITEMAP_BASE_URL"] = f"{BASE}/sub"
    result = shop.run("robots")
    assert (result.exit_code, "not served from here" in result.stderr) == (0, True)
    assert result.stdout.endswith(f"Sitemap: {BASE}/sub/sitemap.xml\n")


# export


def test_export_writes_the_set_and_counts(shop, tmp_path):
    result = shop.run("export", str(tmp_path / "out"))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{tmp_path}/out: 2 URLs; files: 5 written, 0 unchanged, 0 removed\n"
    assert (tmp_path / "out" / "sitemap.xml").read_bytes() == shop.app.test_client().get("/sitemap.xml").data
    assert "0 written, 5 unchanged, 0 removed" in shop.run("export", str(tmp_path / "out")).stdout


def test_export_uses_a_fresh_set_and_builds_one_that_is_not(shop, tmp_path):
    shop.run("build")
    shop.entries = ["/three"]
    told = shop.json("export", str(tmp_path / "out"))
    assert (told["built"], told["count"], len(told["written"]), told["removed"]) == (False, 2, 5, [])
    shop.sitemap.touch("pages", shop.app)
    told = shop.json("export", str(tmp_path / "out"))
    assert (told["built"], told["count"], told["directory"]) == (True, 1, str(tmp_path / "out"))


def test_export_works_in_memory(lonely, tmp_path):
    lonely.entries += ["/one"]
    result = lonely.run("export", str(tmp_path))
    assert result.exit_code == 0
    assert "left out of pages: 1 entry (duplicate)" in result.stderr
    assert f"{BASE}/one" in (tmp_path / "sitemap.xml").read_text()


def test_export_touches_robots_txt_only_when_asked(shop, tmp_path):
    (tmp_path / "robots.txt").write_text("by hand")
    shop.run("export", str(tmp_path))
    assert (tmp_path / "robots.txt").read_text() == "by hand"
    shop.run("export", str(tmp_path), "--robots")
    assert (tmp_path / "robots.txt").read_text() == shop.run("robots").stdout


def test_export_refuses_a_file(shop, tmp_path):
    (tmp_path / "file").write_text("")
    result = shop.run("export", str(tmp_path / "file"))
    assert result.exit_code == 2
    assert "file" in result.stderr


def test_export_says_what_it_cannot_write(shop, tmp_path):
    (tmp_path / "sitemap.xml").mkdir()
    result = shop.run("export", str(tmp_path))
    assert (result.exit_code, result.stdout) == (1, "")
    assert re.search(r"Error: .*sitemap.*: Is a directory", result.stderr)


def test_export_builds_anew_what_is_damaged(shop, tmp_path):
    shop.run("build")
    damage(tmp_path / "store")
    result = shop.run("export", str(tmp_path / "out"))
    assert result.exit_code == 0
    assert f"{BASE}/one" in (tmp_path / "out" / "sitemap.xml").read_text()


# As a user runs it

PROGRAM = """
from flask import Flask
from flask_sitemapx import Sitemap

app = Flask("shop")
app.config.update(SITEMAP_BASE_URL="https://example.com", SITEMAP_STORE={store!r}, SITEMAP_ROUTES="marked")
sitemap = Sitemap(app)

@sitemap.section("pages")
def pages():
    yield from (f"/{{n}}" for n in range(2000))
    yield "/0"

@app.get("/sitemap.xml")
def own():
    return "mine"
"""


@pytest.fixture
def program(tmp_path, store):
    (tmp_path / "shop.py").write_text(PROGRAM.format(store=store))
    return tmp_path


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "flask", "--app", "shop", "sitemap", *args]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), "TERM": "xterm", "COLUMNS": "100"}


def ran(directory: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*args), cwd=directory, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )


def test_a_program_is_built_listed_checked_and_exported(program):
    assert ran(program, "status").returncode == 1
    built = ran(program, "build", "--json")
    assert (built.returncode, json.loads(built.stdout)["count"]) == (0, 2_000)
    assert len(ran(program, "list").stdout.splitlines()) == 2_000
    assert ran(program, "status").returncode == 0
    exported = ran(program, "export", "out")
    assert exported.returncode == 0
    assert (program / "out" / "sitemap.xml").read_bytes().count(b"<loc>") == 2_000


def test_the_log_is_shown_as_lines_and_nothing_is_said_twice(program):
    built = ran(program, "build")
    assert built.stderr == "sitemap: /sitemap.xml is answered in place of the application's 'own'\n"
    assert built.stdout.count("duplicate") == 1


def test_lines_of_the_log_go_to_stderr_without_their_traceback(lonely, monkeypatch, tmp_path):
    package = logging.getLogger("flask_sitemapx")
    monkeypatch.setattr(package, "propagate", False)  # as where nobody set up logging
    lonely.entries += ["/one"]
    lonely.app.config["SITEMAP_BASE_URL"] = None
    result = lonely.run("export", str(tmp_path), "--base-url", BASE)
    assert result.exit_code == 0
    log, report = result.stderr.splitlines()
    assert log.startswith("sitemap: the site's name is taken from each request")
    assert report.startswith("left out of pages: 1 entry (duplicate)")
    assert package.handlers == []


def test_a_log_that_the_application_set_up_is_left_alone(shop, caplog):
    shop.entries += ["/one"]
    with caplog.at_level(logging.WARNING):
        result = shop.run("build")
    assert result.stderr == ""
    assert "duplicate" in caplog.text


def test_somebody_who_stops_reading_stops_the_list(program):
    ran(program, "build")
    process = subprocess.Popen(
        [*command("list")], cwd=program, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()
    process.wait(60)


@pytest.mark.parametrize("times", [1, 2])
def test_a_terminal_shows_how_far_the_build_is(program, times):
    for _ in range(times):
        code, screen = on_terminal(program, "build")
    assert code == 0
    assert re.search(r"pages .* 2001", screen)  # as many as were read, of which one is left out
    assert ("/2000" in screen) is (times == 2)  # before the first build nobody knows how many there will be


@pytest.mark.parametrize(("expected", "shown"), [(20, "15/20"), (None, "15"), (0, "15")])
def test_the_progress_bar_names_the_section_and_counts(monkeypatch, expected, shown):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Watcher(expected) as watcher:
        watcher("pages", 10)
        watcher("news", 5)
    last = terminal.getvalue().split("\r")[-1]
    assert "news" in last
    assert shown in last


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(directory: Path, *args: str) -> tuple[int, str]:
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            command(*args), cwd=directory, env=environment(), stdout=subprocess.DEVNULL, stderr=theirs
        )
    finally:
        os.close(theirs)
    screen = b""
    try:
        while data := read_from_terminal(ours):
            screen += data
    finally:
        os.close(ours)
    return process.wait(60), screen.decode()


def read_from_terminal(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except OSError:  # Linux says so when nobody is at the other end any more
        return b""


def test_without_a_terminal_there_is_no_progress_bar(shop, monkeypatch, capsys):
    with Watcher(expected=10) as watcher:
        watcher("pages", 10)
    assert capsys.readouterr() == ("", "")


def test_the_seconds_of_a_section_are_those_between_its_begin_and_its_end():
    times = iter([1.0, 3.0, 4.0, 10.0, 10.5])
    with Watcher(None, lambda: next(times)) as watcher:
        for section, count in [("one", 0), ("one", 512), ("one", 0), ("two", 0), ("two", 0)]:
            watcher(section, count)
    assert watcher.seconds == {"one": 3.0, "two": 0.5}


def test_a_command_of_the_application_with_this_name_is_left_alone():
    app = Flask("shop")

    @app.cli.command("sitemap")
    def own() -> None:
        print("mine", end="")  # noqa: T201

    Sitemap(app)
    assert app.test_cli_runner().invoke(args=["sitemap"]).output == "mine"


# The reference


def test_the_reference_names_each_command_and_option():
    text = REFERENCE.read_text()
    named = {f"`{name}" for name in commands.commands} | {
        f"`{option}"
        for command in commands.commands.values()
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--")
    }
    assert len(named) == 14
    assert not {name for name in named if name not in text}


def test_the_help_names_the_exit_codes(shop):
    assert "3 somebody else is building" in " ".join(shop.run("--help").stdout.split())
