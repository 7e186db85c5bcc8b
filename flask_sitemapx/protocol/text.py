"""Sitemaps as plain text: one URL a line, as sitemaps.org has it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

_LOC = re.compile(rb"<loc>([^<]*)</loc>")


def text_length(locs: Sequence[str]) -> int:
    """How many bytes finished *locs* take as lines."""
    text = "".join(locs)  # percent-encoded, so characters are bytes
    length = len(text) + len(locs)
    if "&" in text:
        length -= text.count("&amp;") * len("amp;") + text.count("&apos;") * len("apos;")
    return length


def lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The locs of a urlset that comes in *blocks* as lines of text, in blocks."""
    rest = b""
    for block in blocks:
        text = rest + block
        found = _LOC.findall(text)
        # What is after the last whole loc may hold the beginning of the next.
        rest = text[text.rindex(b"</loc>") + len(b"</loc>") :] if found else text
        if found:
            yield b"\n".join(found).replace(b"&apos;", b"'").replace(b"&amp;", b"&") + b"\n"
