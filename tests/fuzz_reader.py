"""Feeds the reader with what nobody would write: `python -m tests.fuzz_reader CORPUS [-max_total_time=60]`.

Needs atheris (`pip install atheris`). The first byte of an input says how the rest is wrapped.
"""

from __future__ import annotations

import gzip
import importlib
import sys
import time
import warnings
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

atheris: Any = importlib.import_module("atheris")
with atheris.instrument_imports(include=["flask_sitemapx.protocol", "email", "_strptime"]):
    from flask_sitemapx.errors import Unreadable
    from flask_sitemapx.protocol.documents import URLSET
    from flask_sitemapx.protocol.elements import KNOWN
    from flask_sitemapx.protocol.gate import Gate
    from flask_sitemapx.protocol.locs import BaseUrl
    from flask_sitemapx.protocol.reader import ChildSitemap, Limits, Problem, SitemapReader
    from flask_sitemapx.sources.defaults import Defaults
    from flask_sitemapx.sources.items import Items

BASE = BaseUrl.parse("https://a")
EXTENDED = URLSET.declaring(KNOWN.values()).head + b"<url><loc>https://a/</loc>"

SMALL = Limits(
    size=20_000,
    entries=9,
    entry_size=2_000,
    tag=500,
    elements=200,
    text=300,
    depth=9,
    attributes=5,
    names=40,
    problems=5,
    members=5,
)
WRAPPINGS: list[Callable[[bytes], bytes]] = [
    bytes,
    gzip.compress,
    lambda data: data.decode("utf-8", "replace").encode("utf-16"),
    lambda data: b"<urlset>" + data,
    lambda data: b'<rss version="2.0"><channel><item>' + data,
    lambda data: b"<urlset><url><loc>https://a/</loc>" + data + b"</url></urlset>",
    lambda data: EXTENDED + data + b"</url></urlset>",
    lambda data: EXTENDED + b"<video:video>" + data + b"</video:video></url></urlset>",
]


def test_one_input(data: bytes) -> None:
    document = WRAPPINGS[data[0] % len(WRAPPINGS)](data[1:]) if data else b""
    began = time.process_time()  # another process may have the machine
    for limits in (Limits(), SMALL):
        read(document, limits)
    assert time.process_time() - began < 2


def read(document: bytes, limits: Limits) -> None:
    problems: list[Problem] = []
    count = 0
    gate = Gate(BASE, section="fuzzed", timezone=UTC, strict=False)
    try:
        reader = SitemapReader(document, limits=limits, report=problems.append)
        for entry in reader:
            count += 1
            assert isinstance(entry, ChildSitemap) == (reader.kind == "sitemapindex")
            assert entry.loc == entry.loc.strip() != ""
            assert len(entry.loc) <= limits.entry_size
            assert entry.lastmod is None or len(str(entry.lastmod)) in (10, 20)
            for columns in Items(None, Defaults()).columns([entry] if reader.kind != "sitemapindex" else []):
                gate.rendered(columns)
    except Unreadable:
        pass
    assert count <= limits.entries
    assert len(problems) <= limits.problems


def seed(directory: Path) -> None:
    from tests.test_reader import DOCUMENTS

    directory.mkdir(parents=True, exist_ok=True)
    for number, document in enumerate(DOCUMENTS.values()):
        (directory / f"seed-{number}").write_bytes(b"\0" + document)
        (directory / f"seed-{number}-gzip").write_bytes(b"\1" + document)


if __name__ == "__main__":
    warnings.simplefilter("error")
    seed(Path(sys.argv[1]))
    atheris.Setup(sys.argv, test_one_input)
    atheris.Fuzz()
