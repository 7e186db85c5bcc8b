"""Export: the files are what the application serves, and nothing else in the directory is touched."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from flask import Flask

from flask_sitemapx import ConfigurationError, Sitemap, StoreError
from flask_sitemapx.tools.export import MANIFEST, Exported, export

BASE = "https://example.com"
DOCUMENTATION = Path(__file__).parent.parent / "docs" / "how-to-export.md"


class Site:
    """An application whose entries can be changed, and the directory into which it is exported."""

    def __init__(self, directory: Path, *, store: str = "memory:", max_urls: int = 10_000, grace: float = 0) -> None:
        self.directory = directory
        self.entries: list[Any] = ["/one", "/two"]
        self.app = Flask("exported")
        self.app.config.update(
            SITEMAP_BASE_URL=BASE,
            SITEMAP_STORE=store,
            SITEMAP_MAX_URLS=max_urls,
            SITEMAP_GRACE=grace,
            SITEMAP_ROUTES="marked",
        )
        self.sitemap = Sitemap(self.app)
        self.sitemap.section("pages")(lambda: iter(self.entries))

    @property
    def blob(self) -> Callable[[str], bytes]:
        blob: Callable[[str], bytes] = self.app.extensions["sitemapx"].refresher().blob
        return blob

    def export(self, **kwargs: Any) -> Exported:
        return export(self.sitemap.build(self.app), self.directory, self.blob, **kwargs)

    def names(self) -> set[str]:
        return {path.name for path in self.directory.iterdir()} - {MANIFEST}

    def served(self, name: str) -> bytes:
        body: bytes = self.app.test_client().get(f"/{name}").data
        return body


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "out" / "sitemap"


@pytest.fixture
def site(directory):
    return Site(directory)


def state(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_ino, stat.st_mtime_ns


SINGLE = {"sitemap.css", "sitemap.xml", "sitemap.xml.gz", "sitemap-pages-1.xml", "sitemap-pages-1.xml.gz"}


def test_the_files_are_what_the_application_serves(site):
    site.export()
    assert site.names() == SINGLE
    for name in SINGLE:
        assert (site.directory / name).read_bytes() == site.served(name)


def test_a_gzip_file_holds_the_bytes_of_its_twin(site):
    site.export()
    unpacked = gzip.decompress((site.directory / "sitemap.xml.gz").read_bytes())
    assert unpacked == (site.directory / "sitemap.xml").read_bytes()
    assert b"<loc>https://example.com/one</loc>" in unpacked


def test_an_index_is_written_after_the_files_that_it_lists(directory):
    site = Site(directory, max_urls=4)
    site.entries = [f"/{n}" for n in range(20)]
    written = site.export().written
    index = (directory / "sitemap.xml").read_text()
    listed = re.findall(r"<loc>https://example.com/(.*?)</loc>", index)
    assert len(listed) >= 5
    assert written[-2:] == ["sitemap.xml.gz", "sitemap.xml"]
    assert {"sitemap.css", *listed} | {f"{name}.gz" for name in listed} == set(written[:-2])


def test_unchanged_files_are_left_alone(site):
    site.export()
    before = {name: state(site.directory / name) for name in (*SINGLE, MANIFEST)}
    done = site.export()
    assert (done.written, sorted(done.unchanged), done.removed) == ([], sorted(SINGLE), [])
    assert {name: state(site.directory / name) for name in before} == before


def test_only_what_changed_is_written(directory, tmp_path):
    site = Site(directory, store=f"file:{tmp_path}/store", max_urls=100)
    site.entries = [f"/{n}" for n in range(1_000)]
    site.export()
    site.entries[500] = {"loc": "/500", "priority": 0.1}
    done = site.export()
    assert len(done.written) == 4  # a document and the index, each twice
    assert done.written[-1] == "sitemap.xml"
    assert len(done.unchanged) > 10


@pytest.mark.parametrize("damage", [b"", b"<html>", None])
def test_a_file_that_somebody_changed_is_written_anew(site, damage):
    site.export()
    path = site.directory / "sitemap.xml"
    path.unlink()
    if damage is not None:
        path.write_bytes(damage)
    assert site.export().written == ["sitemap.xml"]
    assert path.read_bytes() == site.served("sitemap.xml")


def test_the_time_of_a_file_is_when_its_entries_changed(site):
    site.entries = [{"loc": "/one", "lastmod": "2020-02-03"}, {"loc": "/two", "lastmod": "2021-02-03T04:05:06Z"}]
    site.export()
    for name in SINGLE - {"sitemap.css"}:
        changed = datetime.fromtimestamp((site.directory / name).stat().st_mtime, UTC)
        assert changed == datetime(2021, 2, 3, 4, 5, 6, tzinfo=UTC)


def test_a_day_as_time_is_its_beginning_in_utc(site):
    site.entries = [{"loc": "/one", "lastmod": "2020-02-03"}]
    site.export()
    changed = datetime.fromtimestamp((site.directory / "sitemap.xml").stat().st_mtime, UTC)
    assert changed == datetime(2020, 2, 3, tzinfo=UTC)


def test_other_content_has_another_time_even_if_no_lastmod_says_so(site):
    site.entries = [{"loc": "/one", "lastmod": "2020-02-03", "priority": 0.1}]
    site.export()
    before = (site.directory / "sitemap.xml").stat()
    site.entries = [{"loc": "/one", "lastmod": "2020-02-03", "priority": 0.2}]
    site.export()
    after = (site.directory / "sitemap.xml").stat()
    assert (after.st_size, after.st_mtime > before.st_mtime) == (before.st_size, True)
    assert site.export().written == []


def test_what_is_not_needed_any_more_is_removed(site):
    site.sitemap.section("news")(lambda: iter(site.news))
    site.news = ["/news/1"]
    site.export()
    assert "sitemap-news-1.xml" in site.names()
    site.news = []
    assert sorted(site.export().removed) == ["sitemap-news-1.xml", "sitemap-news-1.xml.gz"]
    assert site.names() == SINGLE


def test_a_document_that_was_cut_anew_stays_while_its_address_is_answered(directory, tmp_path):
    site = Site(directory, store=f"file:{tmp_path}/store", max_urls=100, grace=60)
    site.entries = [f"/{n}" for n in range(40)]
    site.export()
    site.entries = [f"/{n}" for n in range(400)]
    site.export()
    assert b"sitemap-pages-1.xml" not in (directory / "sitemap.xml").read_bytes()
    assert (directory / "sitemap-pages-1.xml").read_bytes() == site.served("sitemap-pages-1.xml") != b""


def test_a_site_with_nothing_to_list_has_no_files(site):
    site.export()
    site.entries = []
    assert sorted(site.export().removed) == sorted(SINGLE)
    assert site.names() == set()


def test_what_others_put_there_stays(site):
    site.directory.mkdir(parents=True)
    (site.directory / "sitemap-old-1.xml").write_text("by hand")
    (site.directory / "robots.txt").write_text("by hand")
    (site.directory / "index.html").write_text("by hand")
    site.export()
    site.entries = []
    site.export()
    assert site.names() == {"sitemap-old-1.xml", "robots.txt", "index.html"}


def test_robots_txt_is_written_when_asked_for_and_else_left_alone(site):
    path = site.directory / "robots.txt"
    assert "robots.txt" in site.export(robots=b"User-agent: *\n").written
    assert path.read_bytes() == b"User-agent: *\n"
    assert site.export(robots=b"User-agent: *\n").written == []
    assert site.export().removed == []
    assert path.read_bytes() == b"User-agent: *\n"
    assert site.export(robots=b"User-agent: GPTBot\n").written == ["robots.txt"]


def test_a_manifest_that_somebody_wrote_leads_nowhere(site):
    site.export()
    outside = site.directory.parent / "sitemap-secret-1.xml"
    names = ["../sitemap-secret-1.xml", "index.html", "/etc/passwd", "sitemap-..-1.xml", ".hidden", "sub/sitemap.xml"]
    (site.directory / "index.html").write_text("page")
    outside.write_text("keep")
    manifest = json.loads((site.directory / MANIFEST).read_text())
    manifest["files"] |= {name: ["tag", 1, 1] for name in names}
    manifest["temporary"] = "../sitemap-secret-1.xml"
    (site.directory / MANIFEST).write_text(json.dumps(manifest))
    site.entries = ["/other"]
    assert site.export().removed == []
    assert outside.read_text() == "keep"
    assert (site.directory / "index.html").read_text() == "page"


@pytest.mark.parametrize(
    "manifest", ["", "null", "[]", "{", '{"format": 99, "files": {"sitemap.xml": null}}', '{"format": 1, "files": [1]}']
)
def test_a_manifest_that_cannot_be_read_counts_as_none(site, manifest):
    site.directory.mkdir(parents=True)
    (site.directory / MANIFEST).write_text(manifest)
    assert set(site.export().written) == SINGLE
    assert site.export().written == []


@pytest.mark.parametrize("record", [None, 1, [], ["tag"], ["tag", "1", 1], {"etag": "tag"}])
def test_a_record_of_another_form_is_not_trusted(site, record):
    site.export()
    manifest = json.loads((site.directory / MANIFEST).read_text())
    manifest["files"]["sitemap.xml"] = record
    (site.directory / MANIFEST).write_text(json.dumps(manifest))
    assert site.export().written == ["sitemap.xml"]


@pytest.mark.parametrize("name", ["sitemap.xml", MANIFEST])
def test_a_link_is_replaced_not_followed(site, name):
    site.directory.mkdir(parents=True)
    outside = site.directory.parent / "outside"
    outside.write_text('{"format": 1, "files": {"sitemap-pages-9.xml": null}}')
    (site.directory / "sitemap-pages-9.xml").write_text("by hand")
    (site.directory / name).symlink_to(outside)
    site.export()
    assert outside.read_text().startswith('{"format": 1')
    assert not (site.directory / name).is_symlink()
    assert (site.directory / "sitemap-pages-9.xml").read_text() == "by hand"


def test_a_link_that_took_the_place_of_a_file_is_not_taken_for_it(site):
    site.export()
    path = site.directory / "sitemap.xml"
    shutil.copy2(path, site.directory.parent / "copy.xml")
    path.unlink()
    path.symlink_to(site.directory.parent / "copy.xml")
    assert site.export().written == ["sitemap.xml"]
    assert not path.is_symlink()


def test_a_file_is_no_directory_to_export_to(site):
    site.directory.parent.mkdir()
    site.directory.write_text("a file")
    with pytest.raises(ConfigurationError, match="no directory"):
        site.export()
    site.directory = site.directory / "below"
    with pytest.raises(ConfigurationError, match="no directory"):
        site.export()


def test_a_directory_in_the_place_of_a_file_is_an_error(site):
    (site.directory / "sitemap.xml").mkdir(parents=True)
    with pytest.raises(OSError, match=r"sitemap\.xml"):
        site.export()
    assert not [name for name in site.names() if name.endswith(".tmp")]


def test_an_export_that_fails_leaves_the_last_index_and_no_halves(directory):
    site = Site(directory, max_urls=4)
    site.entries = [f"/{n}" for n in range(20)]
    site.export()
    index = (directory / "sitemap.xml").read_bytes()
    site.entries = [f"/new/{n}" for n in range(20)]
    snapshot = site.sitemap.build(site.app)
    with pytest.raises(StoreError):
        export(snapshot, directory, failing_after(3, site.blob))
    assert (directory / "sitemap.xml").read_bytes() == index
    assert not [name for name in site.names() if name.endswith(".tmp")]
    assert all((directory / name).read_bytes() for name in site.names())


def test_what_a_failed_export_wrote_is_removed_by_the_next(directory):
    site = Site(directory, max_urls=4)
    site.entries = [f"/{n}" for n in range(20)]
    with pytest.raises(StoreError):
        export(site.sitemap.build(site.app), directory, failing_after(3, site.blob))
    assert site.names()
    site.entries = []
    site.export()
    assert site.names() == set()


def failing_after(count: int, blob: Callable[[str], bytes]) -> Callable[[str], bytes]:
    digests: list[str] = []

    def fail(digest: str) -> bytes:
        digests.append(digest)
        if len(digests) > count:
            raise StoreError("the store is gone")
        return blob(digest)

    return fail


def test_what_a_killed_export_left_is_cleared_up(site):
    site.export()
    left = ".sitemapx-0123456789abcdef.tmp"
    (site.directory / left).write_text("half")
    (site.directory / ".sitemapx-fedcba9876543210.tmp").write_text("of somebody else")
    manifest = json.loads((site.directory / MANIFEST).read_text())
    (site.directory / MANIFEST).write_text(json.dumps(manifest | {"temporary": left}))
    site.entries = ["/other"]
    site.export()
    assert site.names() == SINGLE | {".sitemapx-fedcba9876543210.tmp"}


def test_everybody_may_read_what_the_umask_lets_them(site):
    old = os.umask(0o027)
    try:
        site.export()
    finally:
        os.umask(old)
    assert {(site.directory / name).stat().st_mode & 0o777 for name in SINGLE} == {0o640}


def test_memory_does_not_grow_with_a_document(directory, tmp_path):
    site = Site(directory, store=f"file:{tmp_path}/store", max_urls=50_000)
    site.entries = [f"/{n}/{'x' * 200}" for n in range(40_000)]
    snapshot, blob = site.sitemap.build(site.app), site.blob
    assert snapshot.document
    assert snapshot.document.length > 8_000_000
    tracemalloc.start()
    try:
        export(snapshot, directory, blob)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3_000_000


# Served by nginx


class Answer(NamedTuple):
    status: int
    headers: Message
    body: bytes


@pytest.fixture(scope="module")
def nginx() -> str:
    """The path of nginx. Without it the test is skipped."""
    path = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if path is None:
        pytest.skip("there is no nginx on PATH; on Debian: apt-get install nginx")
    return path


@pytest.fixture
def serve(nginx, tmp_path, directory) -> Iterator[Callable[..., Answer]]:
    """GET from an nginx that is configured as the documentation says."""
    locations = re.findall(r"^```nginx\n(.*?)^```$", DOCUMENTATION.read_text(), re.MULTILINE | re.DOTALL)
    locations = [location.replace("/srv/shop/sitemap", str(directory)) for location in locations]
    assert str(directory) in locations[0]
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    paths = "\n".join(
        f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    configuration = tmp_path / "nginx.conf"
    configuration.write_text(
        f"{'user root;' if os.geteuid() == 0 else ''} worker_processes 1; daemon off;\n"
        f"pid {tmp_path}/nginx.pid; error_log {tmp_path}/error.log;\n"
        f"events {{ worker_connections 64; }}\n"
        f"http {{ access_log off; {paths}\nserver {{ listen 127.0.0.1:{port};\n{''.join(locations)}}} }}\n"
    )
    # It takes over a socket that listens already, so that nobody has to wait until it does.
    process = subprocess.Popen(
        [nginx, "-p", str(tmp_path), "-e", f"{tmp_path}/error.log", "-c", str(configuration)],
        env={"NGINX": f"{listening.fileno()};", "PATH": os.environ["PATH"]},
        pass_fds=[listening.fileno()],
        stderr=subprocess.DEVNULL,
    )

    def get(path: str, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    try:
        yield get
    finally:
        listening.close()
        process.terminate()
        process.wait(20)


def test_nginx_serves_the_bytes_and_types_of_the_application(serve, directory, tmp_path):
    site = Site(directory, store=f"file:{tmp_path}/store", max_urls=4)
    site.entries = [f"/{n}" for n in range(20)]
    site.export(robots=site.served("robots.txt"))
    client = site.app.test_client()
    assert len(site.names()) > 10
    for name in site.names():
        answer, expected = serve(f"/{name}"), client.get(f"/{name}")
        assert (answer.status, answer.body) == (200, expected.data), name
        assert answer.headers["Content-Type"] == expected.headers["Content-Type"], name
        assert answer.headers["Content-Encoding"] is None


def test_nginx_sends_the_gzip_file_to_those_who_take_it(serve, site):
    site.export()
    answer = serve("/sitemap.xml", Accept_Encoding="gzip")
    assert answer.headers["Content-Encoding"] == "gzip"
    assert answer.headers["Vary"] == "Accept-Encoding"
    assert answer.headers["Content-Type"] == "application/xml; charset=utf-8"
    assert answer.headers["X-Robots-Tag"] == "noindex"
    body = answer.body
    assert body == (site.directory / "sitemap.xml.gz").read_bytes()
    assert gzip.decompress(body) == site.served("sitemap.xml")


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_nginx_answers_304_until_the_content_changes(serve, site, coding):
    site.entries = [{"loc": "/one", "lastmod": "2020-02-03", "priority": 0.1}]
    site.export()
    first = serve("/sitemap.xml", Accept_Encoding=coding)
    assert parsedate_to_datetime(first.headers["Last-Modified"]) == datetime(2020, 2, 3, tzinfo=UTC)
    site.export()
    again = serve("/sitemap.xml", Accept_Encoding=coding, If_None_Match=first.headers["ETag"])
    assert (again.status, again.body) == (304, b"")
    site.entries = [{"loc": "/one", "lastmod": "2020-02-03", "priority": 0.2}]
    site.export()
    changed = serve("/sitemap.xml", Accept_Encoding=coding, If_None_Match=first.headers["ETag"])
    assert changed.status == 200
    assert changed.body == (site.directory / ("sitemap.xml" + (".gz" if coding == "gzip" else ""))).read_bytes()


def test_nginx_does_not_show_the_list_of_files(serve, site):
    site.export()
    assert serve(f"/{MANIFEST}").status == 404
