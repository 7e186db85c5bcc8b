"""flask_sitemapx as the benchmarks use it: a site, a cold build of it, and where its documents are."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from flask import Flask

from flask_sitemapx import Registry, Sitemap, SitemapMiddleware
from flask_sitemapx.snapshots.compression import Codec, Compressor, fastest_codec, zlib_codec

from .baselines import hello
from .workload import ORIGIN, Row, ready, shop


def site(
    rows: Sequence[Row] | Callable[[], Iterable[Row]], store: str, around: Any = None, **config: Any
) -> tuple[Flask, Sitemap]:
    """A shop whose one section yields *rows* (or what the function *rows* gives at each build), kept in *store*.

    With *around*, our wrapper stands before that WSGI application instead of Flask's.
    """
    app = shop()
    app.add_url_rule("/other", "other", lambda: "")
    if around is not None:
        app.wsgi_app = around  # type: ignore[method-assign]
    app.config.update(
        SITEMAP_BASE_URL=ORIGIN,
        SITEMAP_STORE=store,
        SITEMAP_MAX_URLS=50_000,
        SITEMAP_ROUTES="marked",
        SITEMAP_BUILD_WAIT=60,
        **config,
    )
    sitemap = Sitemap(app)

    @sitemap.section("products")
    def products() -> Iterator[Row]:
        yield from rows() if callable(rows) else rows

    return app, sitemap


def middleware(entries: int, store: str) -> SitemapMiddleware:
    """The middleware in front of the bare hello, with a section of *entries* ready URLs, kept in *store*."""
    registry = Registry()

    @registry.section("products")
    def products() -> Iterator[dict[str, Any]]:
        return ({"loc": loc.replace("&amp;", "&"), "lastmod": lastmod} for loc, lastmod in ready(entries))

    return SitemapMiddleware(hello, registry, base_url=ORIGIN, store=store, max_urls=50_000, build_wait=60)


def shard_path(body: Callable[[str], bytes]) -> str:
    """The path of a document of entries: `/sitemap.xml`, or the first that it lists if it is an index."""
    document = body("/sitemap.xml")
    listed = re.search(rf"<loc>{ORIGIN}(/[^<]+)</loc>".encode(), document)
    return listed[1].decode() if listed and b"<sitemapindex" in document else "/sitemap.xml"


class ColdBuild:
    """A build of *rows* into an empty directory, compressed by *codec*, with `SITEMAP_INDEX` as *index*."""

    def __init__(self, rows: Sequence[Row], codec: Codec, index: str, directory: Path) -> None:
        self.rows = rows
        self.codec = codec
        self.index = index
        self.directory = directory

    def prepare(self) -> None:
        """Empty the directory, and make an application anew."""
        shutil.rmtree(self.directory)
        self.directory.mkdir()
        self.app, self.sitemap = site(self.rows, f"file:{self.directory}", SITEMAP_INDEX=self.index)

    def __call__(self) -> int:
        """Build; how many entries the documents hold."""
        with patch("flask_sitemapx.binding.fastest_codec", lambda: self.codec):
            return int(self.sitemap.build(self.app).count)


def codecs() -> dict[str, Codec]:
    """Codecs by short name: 'none' gives no bytes at all, 'isal' is there if it is installed, 'zlib' always."""
    fastest = fastest_codec()
    isal = {"isal": fastest} if fastest.name.startswith("isal") else {}
    return {"none": NoCodec(), **isal, "zlib": zlib_codec()}


class NoCodec(Codec):
    """Takes documents and gives nothing back, so that a build costs all but compressing and storing."""

    def __init__(self) -> None:
        self.name = "none"

    def compressor(self) -> Compressor:
        return self

    def compress(self, data: bytes) -> bytes:
        return b""

    def flush(self, mode: int = 4) -> bytes:
        return b""
