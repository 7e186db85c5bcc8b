"""The yardstick: the plainest fast writer of a urlset, which is what a tuned script of one page would do.

One f-string an entry, 512 entries a chunk, dates from tables, checks by batch. It is given ready URLs, builds none,
hashes nothing, and knows one kind of date; a library that does more is measured as a multiple of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime

CHUNK = 512
HEAD = b'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
TAIL = b"</urlset>\n"
URI_CHARACTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?#[]@!$&'()*+,;=%\n"
TWO_DIGITS = [f"{number:02}" for number in range(60)]


class Days(dict[int, str]):
    """The text of a day by its ordinal, made at the first use."""

    def __missing__(self, ordinal: int) -> str:
        self[ordinal] = day = date.fromordinal(ordinal).isoformat()
        return day


def urlset(entries: Sequence[tuple[str, datetime]], origin: str) -> Iterator[bytes]:
    """The document in chunks; *entries* are (loc, lastmod): absolute, escaped locs at *origin*, datetimes in UTC."""
    day, two = Days(), TWO_DIGITS
    yield HEAD
    for start in range(0, len(entries), CHUNK):
        chunk = entries[start : start + CHUNK]
        check(chunk, origin)
        yield "".join(
            [
                f"<url><loc>{loc}</loc><lastmod>{day[at.toordinal()]}T{two[at.hour]}:{two[at.minute]}:{two[at.second]}Z"
                "</lastmod></url>\n"
                for loc, at in chunk
            ]
        ).encode()
    yield TAIL


def check(chunk: Sequence[tuple[str, datetime]], origin: str) -> None:
    locs = [loc for loc, _ in chunk]
    text = "\n".join(["", *locs])
    prefix = f"\n{origin}/"
    if not text.isascii() or text.encode().translate(None, URI_CHARACTERS) or text.count(prefix) != len(chunk):
        raise ValueError(f"a loc is not an ASCII URI at {origin}")
    if max(map(len, locs)) >= 2048 or {at.tzinfo for _, at in chunk} != {UTC}:
        raise ValueError("a loc is too long, or a lastmod is not in UTC")
