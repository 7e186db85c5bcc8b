"""Keys of rows as text that gives them back exactly."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from ..errors import ConfigurationError

Key = tuple[Any, ...]
"""The values of a row's key columns."""


def part_key(generation: int, start: Key | None) -> str:
    """The text by which a range of keys is known that begins at *start*; None: that has no beginning.

    ``[0,null]``, ``[1,[17]]``. Whatever moves entries from one range to another gives it a new *generation*, so that
    the same text never stands for other entries.
    """
    return _text([generation, None if start is None else [packed(value) for value in start]])


def parsed_part_key(text: str) -> tuple[int, Key | None] | None:
    """Generation and start, or None if `part_key` did not write this."""
    try:
        generation, start = json.loads(text)
        return int(generation), None if start is None else tuple(map(unpacked, start))
    except (ValueError, TypeError, LookupError):
        return None


def checked(columns: tuple[str, ...], key: Key, section: str) -> Key:
    """*key*, if it can be written; else `ConfigurationError`, which names the column."""
    for column, value in zip(columns, key, strict=True):
        if type(value) not in _PLAIN and type(value) not in _FORMS:
            raise ConfigurationError(
                f"section {section!r}: the key column {column!r} has a {type(value).__name__}; a key is made of "
                "integers, texts, UUIDs, dates, datetimes, decimals, bytes, booleans or floats"
            )
    return key


def packed(value: Any) -> Any:
    """*value* as JSON can hold it, with its type where JSON has none like it."""
    form = _FORMS.get(type(value))
    return {form[0]: form[1](value)} if form else value


def unpacked(value: Any) -> Any:
    """What was `packed`."""
    if not isinstance(value, dict):
        return value
    ((name, text),) = value.items()
    return _READERS[name](text)


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


_PLAIN = frozenset({int, str, bool, float})
_FORMS: dict[type, tuple[str, Callable[[Any], str], Callable[[str], Any]]] = {
    UUID: ("uuid", str, UUID),
    datetime: ("datetime", datetime.isoformat, datetime.fromisoformat),
    date: ("date", date.isoformat, date.fromisoformat),
    Decimal: ("decimal", str, Decimal),
    bytes: ("bytes", bytes.hex, bytes.fromhex),
}
_READERS = {name: read for name, _, read in _FORMS.values()}
