"""What the head of an HTML page says about listing it."""

from __future__ import annotations

from codecs import getincrementaldecoder
from contextlib import suppress
from html.parser import HTMLParser
from typing import BinaryIO

BLOCK = 8 * 1024
MAX_HEAD = 256 * 1024
"""Bytes of a page that are looked at, if its head does not end before."""

_Attributes = list[tuple[str, str | None]]


class _Ends(Exception):
    """That the head is over."""


class PageHead(HTMLParser):
    """What a page says up to the end of its head, or in its first `MAX_HEAD` bytes.

    with open("public/index.html", "rb") as file:
        head = PageHead(file)
    """

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self.is_noindex = False
        """Whether robots are told not to list it."""
        self.canonical: str | None = None
        """The address that it gives as its own."""
        self.is_redirect = False
        """Whether it sends on to another address."""
        with suppress(_Ends, AssertionError):  # the latter by html.parser, of a "<![" that it does not know
            self._read(file)

    def _read(self, file: BinaryIO) -> None:
        decoder = getincrementaldecoder("utf-8")("replace")  # of other encodings, what counts here is the same
        length = 0
        while length < MAX_HEAD and (block := file.read(BLOCK)):
            self.feed(decoder.decode(block))
            length += len(block)

    def handle_starttag(self, tag: str, attrs: _Attributes) -> None:
        given = {name: value or "" for name, value in reversed(attrs)}  # of one that is there twice, the first counts
        if tag == "body":
            raise _Ends
        if tag == "meta":
            self._read_meta(given.get("name", "").lower(), given.get("http-equiv", "").lower(), given)
        elif tag == "link" and "canonical" in given.get("rel", "").lower().split():
            self.canonical = self.canonical or given.get("href", "").strip() or None

    def handle_endtag(self, tag: str) -> None:
        if tag == "head":
            raise _Ends

    def _read_meta(self, name: str, http_equiv: str, given: dict[str, str]) -> None:
        content = given.get("content", "").lower()
        if name == "robots":
            # Google, "Robots meta tag": "none" is equivalent to "noindex, nofollow"
            self.is_noindex |= not {"noindex", "none"}.isdisjoint(content.replace(",", " ").split())
        elif http_equiv == "refresh":
            self.is_redirect |= "url" in content
