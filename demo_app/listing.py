"""What the atlas lists in its sitemap, and what a crawler sees of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flask import Flask

from flask_sitemapx import Feed, Sitemap

from . import database
from .languages import DEFAULT

sitemap = Sitemap()
sitemap.robots(disallow=["/search"])


@sitemap.section(
    "blocks",
    lastmod=lambda: database.fact("dated"),
    version=lambda: database.fact("prepared_at"),
    feed=Feed("Blocks of Unicode", author="Atlas of Unicode", where=lambda path: path.startswith("/block/")),
)
def blocks() -> Iterator[tuple[Any, ...]]:
    for block in database.every_block():
        yield "atlas.block", {"slug": block["slug"]}


@sitemap.section("characters", version=database.edition, images=lambda values: f"/character/{values['code']}.svg")
def characters() -> Iterator[tuple[Any, ...]]:
    for code, lastmod in database.every_character():
        yield "atlas.character", {"code": f"U+{code:04X}"}, lastmod, None, None, None if has_name(code) else IN_ENGLISH


IN_ENGLISH = {"languages": DEFAULT}


def has_name(code: int) -> bool:
    """Whether a character has a name of its own; of ideographs and syllables that are called by a number, no page in
    another language says more."""
    return not any(first <= code <= last for first, last in _NUMBERED)


_NUMBERED = (
    (0x3400, 0x9FFF),  # CJK ideographs
    (0xAC00, 0xD7A3),  # Hangul syllables
    (0xF900, 0xFAD9),
    (0x12000, 0x1467F),  # cuneiform, hieroglyphs
    (0x17000, 0x18CFF),  # Tangut
    (0x20000, 0x3FFFF),
)


def documents(status: dict[str, Any]) -> dict[str, list[str]]:
    """The paths of all sitemaps by section, as `Sitemap.status` tells them."""
    snapshot = status["sites"][0]["snapshot"] or {"sections": {}}
    return {
        name: [shard["path"] for shard in section["shards"]]
        for name, section in snapshot["sections"].items()
        if section["shards"]
    }


def etags(app: Flask, base_url: str) -> dict[str, str]:
    """The ETag of the index and of each sitemap, asked for as a crawler asks; the first answer may wait for a build."""
    client = app.test_client()

    def etag(path: str) -> str:
        return client.head(path, base_url=base_url).headers.get("ETag", "")

    index = etag("/sitemap.xml")
    shards = [path for paths in documents(sitemap.status(app)).values() for path in paths]
    return {"/sitemap.xml": index, **{path: etag(path) for path in shards}}
