"""Files: what tells that they stand, and bytes of whatever compression, within bounds."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fsspec
import pytest

from flask_sitemapx.errors import ConfigurationError, Unreadable
from flask_sitemapx.sources import files
from flask_sitemapx.sources.files import FsspecFile, decompressed, file_at

TEXT = b"slug\n" + b"".join(b"page-%d\n" % number for number in range(10_000))
NOW = 1_800_000_000.0


def read(address: object, directory: Path = Path()) -> bytes:
    with closing(file_at(str(address), directory).opened()) as file:
        return file.read()


@pytest.mark.parametrize(
    "content",
    [
        TEXT,
        gzip.compress(TEXT),
        gzip.compress(TEXT[:500]) + gzip.compress(TEXT[500:]),
        bz2.compress(TEXT),
        lzma.compress(TEXT),
    ],
    ids=["plain", "gzip", "two members", "bzip2", "xz"],
)
def test_the_first_bytes_tell_how_a_file_is_compressed(tmp_path, content):
    (tmp_path / "pages").write_bytes(content)
    assert read("pages", tmp_path) == TEXT
    assert read(tmp_path / "pages") == TEXT


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\x28\xb5\x2f\xfd....", "zstd"),
        (b"PK\x03\x04....", "zip"),
        ("a".encode("utf-16"), "UTF-16; save it as UTF-8"),
    ],
)
def test_what_is_not_read_is_named(tmp_path, content, told):
    (tmp_path / "pages.csv").write_bytes(content)
    with pytest.raises(Unreadable, match=f"pages.csv is .*{told}"):
        read("pages.csv", tmp_path)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_damage_is_told_after_what_stands_before_it(tmp_path, compress, damage):
    content = compress(os.urandom(100_000))
    middle = len(content) // 2
    content = content[:middle] if damage == "cut" else content[:middle] + b"\0" * 40 + content[middle + 40 :]
    (tmp_path / "pages").write_bytes(content)
    with pytest.raises(Unreadable, match="pages cannot be decompressed"):
        read("pages", tmp_path)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_what_grows_out_of_proportion_is_given_up(compress, monkeypatch):
    monkeypatch.setattr(files, "FREE", 1024 * 1024)
    bomb = compress(b"\n" * 64 * 1024 * 1024)
    read = io.BytesIO()
    file = decompressed(io.BufferedReader(io.BytesIO(bomb)), "bomb")
    with closing(file), pytest.raises(Unreadable, match="bomb grows more than 500 times"):
        shutil.copyfileobj(file, read)
    assert len(read.getvalue()) <= 1024 * 1024 + 500 * len(bomb)


def test_the_version_of_a_file_stands_until_it_changes(tmp_path):
    path = tmp_path / "pages"
    path.write_bytes(b"1")
    os.utime(path, (NOW - 100, NOW - 100))
    file = file_at("pages", tmp_path)
    first = file.version(NOW)
    assert first is not None
    assert file.version(NOW) == first
    os.utime(path, (NOW - 50, NOW - 50))
    second = file.version(NOW)
    path.write_bytes(b"12")
    os.utime(path, (NOW - 50, NOW - 50))
    third = file.version(NOW)
    (tmp_path / "new").write_bytes(b"21")
    os.utime(tmp_path / "new", (NOW - 50, NOW - 50))
    (tmp_path / "new").rename(path)
    assert len({first, second, third, file.version(NOW)}) == 4


def test_a_file_that_changed_just_now_has_no_version_since_it_may_change_again_unseen(tmp_path):
    (tmp_path / "pages").touch()
    os.utime(tmp_path / "pages", (NOW - 1, NOW - 1))
    assert file_at("pages", tmp_path).version(NOW) is None
    assert file_at("pages", tmp_path).version(NOW + 2) is not None


def test_only_a_file_is_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(OSError, match="is no file"):
            file_at(name, tmp_path).version(NOW)
        with pytest.raises(OSError, match="is no file"):
            file_at(name, tmp_path).opened()
    with pytest.raises(FileNotFoundError):
        file_at("nothing", tmp_path).version(NOW)


# fsspec


class Web(ThreadingHTTPServer):
    """Files by HTTP; its `headers` are sent with each, ranges are not known."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), WebHandler)
        self.files: dict[str, bytes] = {}
        self.headers: dict[str, str] = {}
        self.asked: list[str] = []

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"


class WebHandler(BaseHTTPRequestHandler):
    server: Web

    def do_GET(self) -> None:
        self.server.asked.append(self.command)
        body = self.server.files.get(self.path.partition("?")[0])
        self.send_response(404 if body is None else 200)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        if self.command == "GET" and body:
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def web() -> Iterator[Web]:
    with Web() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_file_of_the_web_is_read_in_one_piece(web, caplog):
    big = TEXT * 100  # more than fsspec asks for at a time
    web.files = {"/plain": big, "/gzip": gzip.compress(TEXT)}
    assert read(web.url("/plain")) == big
    assert web.asked.count("GET") == 1
    assert read(web.url("/gzip")) == TEXT
    assert caplog.records == []


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("ETag", ('"1"', '"2"')),
        ("Last-Modified", ("Tue, 01 Dec 2026 13:02:57 GMT", "Tue, 01 Dec 2026 13:02:58 GMT")),
    ],
)
def test_the_server_tells_whether_a_file_of_the_web_changed(web, name, values):
    web.files = {"/pages": TEXT}
    file = file_at(web.url("/pages"), Path())
    versions = []
    for value in (values[0], *values):
        web.headers = {name: value}
        versions.append(file.version(NOW))
    assert None not in versions
    assert versions[0] == versions[1] != versions[2]
    assert "GET" not in web.asked


def test_a_file_has_no_version_where_its_server_does_not_tell(web):
    web.files = {"/pages": TEXT}
    assert file_at(web.url("/pages"), Path()).version(NOW) is None


def test_what_gives_access_is_not_told(web):
    url = web.url("/nothing?signature=s3cret").replace("://", "://user:passw0rd@")
    file = FsspecFile(url)
    for attempt in (lambda: file.version(NOW), file.opened):
        with pytest.raises(Unreadable, match=r"http://….*/nothing\?… cannot be opened: FileNotFoundError") as caught:
            attempt()
        assert "s3cret" not in str(caught.value)
        assert "passw0rd" not in str(caught.value)


def test_any_file_system_of_fsspec_is_read(tmp_path):
    path = tmp_path / "pages"
    path.write_bytes(gzip.compress(TEXT))
    file = file_at(f"file://{path}", tmp_path)
    first = file.version(NOW)
    assert first is not None
    assert read(f"file://{path}") == TEXT
    path.write_bytes(b"slug\n")
    assert file.version(NOW) != first
    memory = fsspec.filesystem("memory")
    memory.pipe("/test_files", TEXT)
    assert read("memory://test_files") == TEXT
    memory.rm("/test_files")


class Listing(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """A file system that goes by its last listing until that is not to be believed any more, as that of S3 does."""

    etag = "1"

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        info: dict[str, Any] = self.dircache.setdefault(path, {"name": path, "size": 1, "ETag": self.etag})
        return info

    def invalidate_cache(self, path: str | None = None) -> None:
        self.dircache.clear()


def test_old_listings_are_not_believed(monkeypatch):
    monkeypatch.setattr(Listing, "dircache", {}, raising=False)
    fsspec.register_implementation("listing", Listing, clobber=True)
    file = file_at("listing://pages", Path())
    first = file.version(NOW)
    monkeypatch.setattr(Listing, "etag", "2")
    assert file.version(NOW) != first


@pytest.mark.parametrize("address", ["nosuch://a/b", "nosuch://a::file://b"])
def test_an_address_that_nothing_opens_is_a_fault_of_configuration(address):
    with pytest.raises(ConfigurationError, match="nosuch"):
        file_at(address, Path()).version(NOW)


def test_without_fsspec_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'flask-sitemapx\[files\]'"):
        file_at("s3://bucket/pages.csv", Path()).version(NOW)
