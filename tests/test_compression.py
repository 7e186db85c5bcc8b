"""Gzip: equal bytes for equal input, and never more in memory than asked for."""

from __future__ import annotations

import gzip
import os
import random
import sys
import zlib

import pytest

from flask_sitemapx.snapshots.compression import FEED, compressed, decompressed, fastest_codec, zlib_codec

TEXT = b"".join(b"<url><loc>https://example.com/%d</loc></url>\n" % number for number in range(20_000))
codecs = pytest.mark.parametrize("codec", [zlib_codec(), fastest_codec()], ids=lambda codec: codec.name)


def blocks(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def test_the_fastest_codec_is_isal_by_its_version_and_is_named_otherwise_than_zlib():
    import isal

    assert fastest_codec().name == f"isal-{isal.ISAL_VERSION}-2"
    assert zlib_codec().name == f"zlib-{zlib.ZLIB_RUNTIME_VERSION}-6"


def test_without_isal_it_is_zlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "isal", None)
    assert fastest_codec().name == zlib_codec().name


@codecs
def test_a_gzip_member_has_no_time_in_it_and_is_the_same_each_time(codec):
    first, second = (b"".join(compressed([TEXT], codec)) for _ in range(2))
    assert first == second
    assert first[:4] == b"\x1f\x8b\x08\x00"
    assert first[4:8] == bytes(4)
    assert gzip.decompress(first) == TEXT


@codecs
@pytest.mark.parametrize("size", [1, 1_000, 65_536, len(TEXT)])
def test_what_comes_out_does_not_depend_on_how_it_is_cut(codec, size):
    text = TEXT[:5_000] if size == 1 else TEXT
    pieces = blocks(b"".join(compressed(blocks(text, size), codec)), max(size, 7))
    assert b"".join(decompressed(pieces, 4_096)) == text


@codecs
@pytest.mark.parametrize(
    "data", [bytes(20_000_000), TEXT, os.urandom(100_000), b""], ids=["zeros", "text", "noise", ""]
)
def test_no_block_is_larger_than_the_limit_and_few_are_smaller(codec, data):
    limit = 65_536
    packed = b"".join(compressed([data], codec))
    sizes = [len(block) for block in decompressed(blocks(packed, 512 * 1024), limit)]
    assert sum(sizes) == len(data)
    assert all(0 < size <= limit for size in sizes)
    assert len(sizes) <= len(data) // limit + len(packed) // FEED + 2


@codecs
def test_random_pieces_come_out_whole(codec):
    source = random.Random(1)
    data = b"".join(bytes([source.randrange(4)]) * source.randrange(1, 3_000) for _ in range(500))
    packed = b"".join(compressed([data], codec))
    assert b"".join(decompressed(blocks(packed, source.randrange(1, 50)), source.randrange(1, 999))) == data
