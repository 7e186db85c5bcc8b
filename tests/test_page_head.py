"""The head of a page: what it says about listing it, however it is written."""

from __future__ import annotations

import io

import pytest

from flask_sitemapx.sources.page_head import MAX_HEAD, PageHead


def head(text: str | bytes) -> PageHead:
    return PageHead(io.BytesIO(text.encode() if isinstance(text, str) else text))


@pytest.mark.parametrize(
    "text",
    [
        '<!doctype html><html><head><meta name="robots" content="noindex"></head>',
        "<META NAME=Robots CONTENT='NoIndex,nofollow'>",
        '<head><meta content="nofollow, noindex" name="robots" />',
        '<meta name="robots" content="none">',
        '<title>a</title><meta name="robots" content="index"><meta name="robots" content="noindex"><body>',
    ],
)
def test_a_page_may_ask_not_to_be_listed(text):
    assert head(text).is_noindex


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain text",
        '<meta name="robots" content="index, follow">',
        '<meta name="robots" content="noimageindex">',
        '<meta name="description" content="noindex">',
        '<!-- <meta name="robots" content="noindex"> -->',
        '<script>"<meta name=robots content=noindex>"</script>',
        '</head><meta name="robots" content="noindex">',
        '<body><meta name="robots" content="noindex">',
        '<body onload="a()"><meta name="robots" content="noindex">',
        '<meta name="robots">',
        "<meta name=robots content=noindex",
    ],
)
def test_other_pages_do_not(text):
    found = head(text)
    assert not found.is_noindex
    assert found.canonical is None
    assert not found.is_redirect


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ('<link rel="canonical" href="https://example.com/a?b=1&amp;c=2">', "https://example.com/a?b=1&c=2"),
        ("<LINK HREF=/ü REL='Canonical alternate'>", "/ü"),
        ('<link rel="canonical" href=" /a\n"><link rel="canonical" href="/b">', "/a"),
        ('<link rel="canonical" href=""><link rel="stylesheet" href="/b">', None),
        ('<link rel="canonical" href="/a" href="/b">', "/a"),
        ('<link rel="canonical">', None),
    ],
)
def test_a_page_may_say_where_it_is(text, canonical):
    assert head(text).canonical == canonical


@pytest.mark.parametrize(
    ("content", "is_redirect"), [("0; url=/a", True), ("0;URL='/a'", True), ("30", False), ("", False)]
)
def test_a_page_may_send_on(content, is_redirect):
    assert head(f'<meta http-equiv="Refresh" content="{content}">').is_redirect is is_redirect


def test_a_head_may_be_long_and_have_any_bytes():
    filler = b"<style>" + b"\xff\xe9 {} <" * 10_000 + b"</style>"
    assert head(filler + b"<meta name=robots content=noindex>").is_noindex
    assert head("<title>ü</title>".encode("latin-1") + b"<meta name=robots content=noindex>").is_noindex


def test_no_more_is_read_than_the_head():
    page = io.BytesIO(b"<head></head>" + b" " * 1_000_000)
    PageHead(page)
    assert page.tell() < 20_000


@pytest.mark.parametrize("unit", [b" ", b"<", b"<a ", b"<!--", b"<style>", b"<a b='", b"&", b"<?", b"<!["])
def test_a_head_without_an_end_is_given_up(unit):
    page = io.BytesIO(unit * (1_000_000 // len(unit)))
    assert not PageHead(page).is_noindex
    assert page.tell() <= MAX_HEAD
