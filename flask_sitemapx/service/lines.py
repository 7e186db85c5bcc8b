"""Where each key of a TOML document stands, which tomllib does not tell."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

Path = tuple[str | int, ...]
"""The keys and positions that lead to a value from the top of a document."""

# What TOML lets stand between signs; the document is known to be valid, so no more is told apart than is needed here.
_TOKEN = re.compile(
    r"""
      (?P<string> \"""(?:\\.|[^\\])*?\"""\"{0,2} | '''.*?'''\'{0,2} | "(?:\\.|[^"\\])*" | '[^']*' )
    | (?P<sign> [\[\]{}=.,\n] )
    | (?P<space> [ \t\r]+ | \#[^\n]* )
    | (?P<bare> [^\s\[\]{}=.,\#"']+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_END = ""


def lines(text: str) -> Mapping[Path, int]:
    """The line of each table, key and item of a list in *text*, a valid document of TOML; lines count from 1."""
    return _Walk(text).lines


class _Token(NamedTuple):
    text: str
    line: int


class _Walk:
    """One walk over a document, with the table in which it is."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Path, int] = {}
        self._lengths: dict[Path, int] = {}  # of each array of tables so far
        self._tokens = _tokens(text)
        self._token = next(self._tokens)
        self._document()

    def _document(self) -> None:
        table: Path = ()
        while self._token.text != _END:
            if self._skip("\n"):
                continue
            if self._token.text == "[":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Path:
        """The path of the table that begins here."""
        line = self._token.line
        self._skip("[")
        is_item = self._skip("[")
        *parents, last = self._key()
        path = self._at((), parents, line)
        if is_item:
            path += (last,)
            self.lines.setdefault(path, line)
            self._lengths[path] = self._lengths.get(path, 0) + 1
            path += (self._lengths[path] - 1,)
            self.lines[path] = line
        else:
            path = self._at(path, [last], line)
            self.lines[path] = line
        while self._skip("]"):
            pass
        return path

    def _pair(self, table: Path) -> None:
        line = self._token.line
        path = self._at(table, self._key(), line)
        self._skip("=")
        self._value(path)

    def _value(self, path: Path) -> None:
        if self._skip("["):
            self._array(path)
        elif self._skip("{"):
            while not self._skip("}"):
                if not self._skip(",", "\n"):
                    self._pair(path)
        else:
            self._next()
            while self._token.text not in (",", "]", "}", "\n", _END):
                self._next()

    def _array(self, path: Path) -> None:
        position = 0
        while not self._skip("]"):
            if not self._skip(",", "\n"):
                self.lines[*path, position] = self._token.line
                self._value((*path, position))
                position += 1

    def _key(self) -> list[str]:
        parts = [_part(self._next())]
        while self._skip("."):
            parts.append(_part(self._next()))
        return parts

    def _at(self, path: Path, parts: list[str], line: int) -> Path:
        """What *parts* lead to from *path*: of an array of tables always to the last."""
        for part in parts:
            path += (part,)
            self.lines.setdefault(path, line)
            if path in self._lengths:
                path += (self._lengths[path] - 1,)
        return path

    def _next(self) -> str:
        text = self._token.text
        self._token = next(self._tokens)
        return text

    def _skip(self, *signs: str) -> bool:
        return self._token.text in signs and bool(self._next())


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for found in _TOKEN.finditer(text):
        if found.lastgroup != "space":
            yield _Token(found[0], line)
        line += found[0].count("\n")
    yield _Token(_END, line)


def _part(token: str) -> str:
    (key,) = tomllib.loads(f"{token} = 0")
    return key
