"""A document of TOML as values with their lines, variables filled in, and all that is wrong with it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from typing import Any, TypeVar

from ..errors import ConfigurationError, shown
from ..snapshots.opening import described
from .lines import Path, lines
from .options import InPart

T = TypeVar("T")

_VARIABLE = re.compile(r"\$(\$?)\{([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PASSWORD = re.compile(r"[\w+.-]+://[^/?#@]*:(?!\$\{)[^/?#@]+@")
_SECRET = re.compile(r"(^|_)(token|secret|password|passwd|pwd)s?$", re.IGNORECASE)


class Document:
    """What a text says, and what is wrong with it.

        document = Document(text, os.environ)
        options = document.made(Options, document.values, ())
        document.check("sitemap.toml")    # raises ConfigurationError with all that was found

    *values* has the variables of *environ* in place of ``${NAME}``; what is wrong is gathered and shown as written, so
    that no secret gets into an error.
    """

    def __init__(self, text: str, environ: Mapping[str, str]) -> None:
        self.written: dict[str, Any] = {}
        self.lines: Mapping[Path, int] = {}
        self._environ = environ
        self._problems: list[tuple[int, str]] = []
        self._unfilled: set[Path] = set()
        self.is_read = False
        try:
            self.written = tomllib.loads(text)
            self.lines = lines(text.replace("\r\n", "\n"))
            self.is_read = True
        except tomllib.TOMLDecodeError as error:
            self._add_syntax(str(error), text)
        self.values: dict[str, Any] = self._filled(self.written, ())

    def add(self, path: Path, text: str) -> None:
        """Take note that the value at *path*, or a missing one, is wrong."""
        self._problems.append((self.line(path) or 0, text))

    def line(self, path: Path) -> int | None:
        """The line of the value at *path*, or of what it would stand in."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)

    def at(self, path: Path) -> Any:
        """The value at *path* as it is written."""
        return _at(self.written, path)

    def check(self, name: str) -> None:
        """Raise `ConfigurationError` with everything that is wrong with the file *name*, in order of its lines."""
        if self._problems:
            found = sorted(self._problems, key=lambda problem: problem[0])
            told = [f"{name}, line {line}: {text}" if line else f"{name}: {text}" for line, text in found]
            raise ConfigurationError("\n".join(told))

    def made(self, cls: type[T], table: Mapping[str, Any], path: Path, known: Iterable[str] = ()) -> T | None:
        """The dataclass of options *cls* of what *table* says; None if that is wrong, as are all keys but *known*."""
        before = len(self._problems)
        given = self._given(cls, table, path, known)
        if len(self._problems) > before:
            return None
        try:
            return cls(**given)
        except ValueError as error:
            self.add(path, f"{named(path)}: {error}")
        return None

    def _given(self, cls: Any, table: Mapping[str, Any], path: Path, known: Iterable[str]) -> dict[str, Any]:
        specs = {spec.name: spec for spec in fields(cls)}
        for key in table.keys() - specs.keys() - {*known}:
            self.unknown((*path, key), [*specs, *known])
        for spec in specs.values():
            if spec.default is MISSING and spec.name not in table:
                self.add(path, f"{named((*path, spec.name))} is missing")
        given = specs.keys() & table.keys()
        return {name: self.read(specs[name].metadata["form"].read, table[name], (*path, name)) for name in given}

    def read(self, read: Callable[[Any], Any], value: Any, path: Path) -> Any:
        """What *read* makes of *value*; None if it refuses it."""
        try:
            return read(value)
        except InPart as error:
            self._refuse((*path, *error.path), error)
        except ValueError as error:
            self._refuse(path, error)
        return None

    def table(self, table: Mapping[str, Any], path: Path) -> dict[str, Any]:
        """The table under the last key of *path*, which leads to it; empty if there is none."""
        value = table.get(str(path[-1]), {})
        if not isinstance(value, dict):
            self.add(path, f"{named(path)} must be a table")
            return {}
        return value

    def tables(self, tables: Mapping[str, Any], path: Path) -> dict[str, dict[str, Any]]:
        """Those of *tables*, which stand at *path*, that are tables; what else is there is wrong."""
        for key in [key for key, value in tables.items() if not isinstance(value, dict)]:
            self.add((*path, key), f"{named((*path, key))} must be a table")
        return {key: value for key, value in tables.items() if isinstance(value, dict)}

    def unknown(self, path: Path, known: Iterable[str]) -> None:
        """Take note that the last key of *path* is none of those that are *known*."""
        key = str(path[-1])
        if _SECRET.search(key):
            self.add(path, f"{named(path)} is unknown here: a secret belongs in the environment")
        else:
            self.add(path, f"{named(path)} is unknown; {meant(key, known)}")

    def _refuse(self, path: Path, error: ValueError) -> None:
        if path in self._unfilled:
            return
        value, written, text = _at(self.values, path), self.at(path), str(error)
        if isinstance(value, str):
            text = text.replace(repr(value), repr(written)).replace(repr(described(value)), repr(written))
        self.add(path, refused(named(path), text, written))

    def _add_syntax(self, text: str, document: str) -> None:
        found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", text)
        line = int(found[1]) if found and found[1] else document.count("\n") + 1
        place = f" (column {found[2]})" if found and found[2] else ""
        self._problems.append((line, f"this is no TOML: {text[: found.start()] if found else text}{place}"))

    # Variables

    def _filled(self, value: Any, path: Path) -> Any:
        """*value* with what the environment has for each ``${NAME}``."""
        if isinstance(value, dict):
            return {key: self._filled(one, (*path, key)) for key, one in value.items()}
        if isinstance(value, list):
            return [self._filled(one, (*path, position)) for position, one in enumerate(value)]
        if not isinstance(value, str):
            return value
        if _PASSWORD.match(value):
            self.add(path, f"{named(path)} holds a password; put that into the environment, and write ${{ITS_NAME}}")
        return _VARIABLE.sub(lambda found: self._variable(found, path), value)

    def _variable(self, found: re.Match[str], path: Path) -> str:
        is_escaped, name = found.groups()
        if is_escaped:
            return found[0][1:]
        if not _NAME.fullmatch(name):
            self.add(path, f"{named(path)} holds {found[0]!r}, which names no variable; for the signs write '$${{'")
        elif name not in self._environ:
            self.add(path, f"{named(path)} needs the variable {name}, which the environment does not have")
            self._unfilled.add(path)
        return self._environ.get(name, "")


def meant(word: str, known: Iterable[str]) -> str:
    """What to say to somebody who wrote *word* and could have written what is *known*."""
    words = sorted(known)
    close = get_close_matches(word.lower().replace("-", "_").removeprefix("sitemap_"), words, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(words)}"


def refused(name: str, error: str, written: Any) -> str:
    """What to say of the value called *name*, as it is *written*, that was refused with *error*."""
    if not error.startswith(("must ", "is ", "holds ", "names ", "needs ")):
        return f"{name}: {error}"
    told = f", not {shown(written)}"
    is_told = not error.startswith("must ") or error.endswith(told) or not isinstance(written, str | int | float)
    return f"{name} {error}" if is_told else f"{name} {error}{told}"


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def named(path: Path) -> str:
    """*path* as it could be written: ``sections.pages.urls[2]``."""
    parts = [f"[{key}]" if isinstance(key, int) else f".{_quoted(key)}" for key in path]
    return "".join(parts).removeprefix(".")


def _quoted(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else f'"{key}"'
