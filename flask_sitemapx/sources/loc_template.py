"""Addresses made of the columns of rows, such as `/p/{slug}`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from ..errors import ConfigurationError, InvalidEntry, shown

Column = Sequence[str | InvalidEntry]


class LocTemplate:
    """A path or URL with names of columns in it, written as in RFC 6570.

        LocTemplate("/p/{slug}").locs({"slug": ["lamp", "a/b c"]})    # ['/p/lamp', '/p/a%2Fb%20c']
        LocTemplate("/docs/{+path}").locs({"path": ["a/b c"]})        # ['/docs/a/b c']
        LocTemplate("{url}").locs({"url": ["https://example.com/"]})  # ['https://example.com/']

    `{slug}` is one segment of a path: all in it that means something in a URL is percent-encoded. `{+path}` may have
    slashes, a query, and what is percent-encoded already; so may a column that is the whole template. Raises
    `ConfigurationError`, with a text that goes on after "loc", for one that gives no addresses.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        pieces = _EXPRESSION.split(text)
        literals, operators, self.columns = pieces[::3], pieces[1::3], tuple(pieces[2::3])
        if any("{" in literal or "}" in literal for literal in literals):
            raise ConfigurationError(f"must have columns as {{name}} or {{+name}}, and no other braces, not {text!r}")
        if not self.columns:
            raise ConfigurationError(f"must have a column, as in '/p/{{slug}}', not {text!r}, the same for each row")
        is_whole = literals == ["", ""]
        if not is_whole and not _START.match(literals[0]):
            raise ConfigurationError(
                f"must begin with '/', 'http://' or 'https://', or be one {{column}}, not {text!r}"
            )
        self._expand = [_whole if is_whole or operator else _segments for operator in operators]
        self._format = "%s".join(literal.replace("%", "%%") for literal in literals)

    def locs(self, columns: Mapping[str, Sequence[Any]]) -> list[str | InvalidEntry]:
        """The address of each row, or what is wrong with it; *columns* has all that `columns` names."""
        expanded = [expand(name, columns[name]) for expand, name in zip(self._expand, self.columns, strict=True)]
        rows = zip(*expanded, strict=True)
        if all(set(map(type, column)) == {str} for column in expanded):
            return [self._format % row for row in rows]
        return [self._loc(row) for row in rows]

    def _loc(self, row: tuple[str | InvalidEntry, ...]) -> str | InvalidEntry:
        return next((value for value in row if isinstance(value, InvalidEntry)), None) or self._format % row


_EXPRESSION = re.compile(r"\{(\+?)([^{}]+)\}")
_START = re.compile("/|https?://[^/]")
_PLAIN = re.compile(r"[A-Za-z0-9_.~-]+(?:\n[A-Za-z0-9_.~-]+)*")  # RFC 3986 2.3: unreserved
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # half characters, too, of which JSON can tell


def _segments(name: str, column: Sequence[Any]) -> Column:
    """*column* with each value as a part of a segment."""
    if set(map(type, column)) == {str}:
        lines = "\n".join(column)
        if _PLAIN.fullmatch(lines) and lines.count("\n") < len(column):
            return column
    return [_segment(name, value) for value in column]


def _segment(name: str, value: Any) -> str | InvalidEntry:
    text = _text(name, value)
    if isinstance(text, InvalidEntry):
        return text
    if _CONTROL.search(text):  # the gate would no longer see them
        reason = f"column {name!r}: {shown(value)}"
        return InvalidEntry("loc-control-character", value, "a loc holds no control characters", reason)
    return quote(text, safe="")


def _whole(name: str, column: Sequence[Any]) -> Column:
    return [_text(name, value) for value in column]


def _text(name: str, value: Any) -> str | InvalidEntry:
    if isinstance(value, str) and value and not value.isspace():
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return InvalidEntry("loc-column", value, "a column of loc has no text", f"column {name!r}: {shown(value)}")
