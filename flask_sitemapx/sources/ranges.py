"""Into which ranges of its key a table is divided, and how they follow the rows that come and go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Protocol

from ..errors import ConfigurationError
from .keys import Key, part_key


@dataclass(frozen=True, slots=True)
class Range:
    """The rows from *start* up to where the next range starts. The first has no start, the last no end."""

    generation: int
    start: Key | None
    rows: int = 0
    """How many there are now."""
    length: int = 0
    """Bytes of its documents as they were last made."""
    is_changed: bool = True
    """Whether it has to be read."""
    is_known: bool = False
    """Whether it is known what it held when it was last read; else it has to be read in any case."""
    last: Key | None = None
    """The last key that it then held, of the last range."""

    @property
    def key(self) -> str:
        return part_key(self.generation, self.start)


class Seeking(Protocol):
    """Rows in the order of their keys. Only the database compares keys, since only it knows their order."""

    def hop(self, start: Key | None, end: Key | None, rows: int) -> Key | None:
        """The key that comes *rows* rows after the first of a range, if it is in it."""
        ...

    def following(self, key: Key | None, start: Key) -> Key | None:
        """The first key from *start* on that comes after *key*."""
        ...

    def count(self, start: Key | None, end: Key | None) -> int: ...


@dataclass(frozen=True, slots=True)
class Sizes:
    """What documents may hold at the most."""

    urls: int
    size: int

    @property
    def fill(self) -> int:
        """Rows of a new range: there is room for some in its middle before it has to be split."""
        return max(1, self.urls * 3 // 4)

    @property
    def fill_size(self) -> int:
        return self.size * 3 // 4


def opened(generation: int, start: Key | None, rows: int, seeking: Seeking) -> Iterator[Range]:
    """Ranges of so many *rows* from *start* to the end of the table."""
    while True:
        yield Range(generation, start)
        following = seeking.hop(start, None, rows)
        if following is None:
            return
        if following == start:
            raise ConfigurationError(f"the key {start!r} is of more than {rows} rows; a key is of one row")
        start = following


def planned(ranges: Sequence[Range], seeking: Seeking, sizes: Sizes) -> list[Range]:
    """The ranges that follow the *ranges* that were, with the rows that they have now."""
    merged = _merged(ranges, sizes)
    ends = [*(following.start for following in merged[1:]), None]
    return [piece for one, end in zip(merged, ends, strict=True) for piece in _fitting(one, end, seeking, sizes)]


def _merged(ranges: Sequence[Range], sizes: Sizes) -> list[Range]:
    merged: list[Range] = []
    for one in ranges:
        # Less at the end, since that is where rows are added.
        most = sizes.fill // 2 if one is ranges[-1] else sizes.fill
        if merged and _may_merge(merged[-1], one, most, sizes.fill_size):
            before = merged.pop()
            generation = max(before.generation, one.generation) + 1
            one = replace(before, generation=generation, rows=before.rows + one.rows, length=before.length + one.length)
        merged.append(one)
    return merged


def _may_merge(before: Range, one: Range, most: int, most_size: int) -> bool:
    """Whether they fit together; only if both must be read in any case, and it is known how long they are."""
    are_read = all(not each.is_known and (each.length or not each.rows) for each in (before, one))
    return are_read and before.rows + one.rows <= most and before.length + one.length <= most_size


def _fitting(one: Range, end: Key | None, seeking: Seeking, sizes: Sizes) -> list[Range]:
    if end is None and one.is_known and one.rows > sizes.fill and (closed := _closed(one, seeking, sizes)):
        return closed
    if one.rows > sizes.urls or one.length > sizes.fill_size:
        pieces = max(ceil(one.rows / sizes.fill), ceil(one.length / sizes.fill_size))
        return _split(one, end, pieces, seeking)
    return [one]


def _closed(one: Range, seeking: Seeking, sizes: Sizes) -> list[Range] | None:
    """The last range with an end behind all that it held, so that it keeps its key, and those that follow it."""
    full = seeking.hop(one.start, None, sizes.fill)
    end = full and seeking.following(one.last, full)
    if end is None or seeking.count(one.start, end) > sizes.urls:
        return None
    return [one, *opened(one.generation, end, sizes.fill, seeking)]


def _split(one: Range, end: Key | None, pieces: int, seeking: Seeking) -> list[Range]:
    rows = ceil(one.rows / pieces)
    starts = [one.start]
    while len(starts) < pieces and rows and (following := seeking.hop(starts[-1], end, rows)) is not None:
        starts.append(following)
    return [one] if len(starts) == 1 else [Range(one.generation + 1, start) for start in starts]
