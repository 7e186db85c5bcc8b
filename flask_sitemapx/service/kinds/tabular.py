"""Sections of the types `csv` and `jsonl`: files with a row for each page."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...sources.files import file_at
from ...sources.loc_template import LocTemplate
from ...sources.parts import Source
from ...sources.tabular import FIELDS, Csv, Form, JsonLines, TabularSource
from ..options import TEXT, TEXTS, option
from ..options import Form as OptionForm
from .kind import Place


def _template(value: Any) -> str:
    return LocTemplate(TEXT.read(value)).text


def _delimiter(value: Any) -> str:
    if not isinstance(value, str) or len(value) != 1 or value in '"\r\n':
        raise ValueError("must be one character, such as ';' or '\\t'")
    return value


LOC = OptionForm(_template, {"type": "string", "pattern": r"\{\+?[^{}]+\}"})
DELIMITER = OptionForm(_delimiter, {"type": "string", "minLength": 1, "maxLength": 1})


@dataclass(frozen=True)
class _TabularKind(ABC):
    path: str = option(
        TEXT,
        "The file: a path that begins where this file is, or an address of fsspec, such as `s3://bucket/pages.csv` or "
        "`https://example.com/pages.csv`. It may be compressed by gzip, bzip2 or xz.",
    )
    loc: str = option(
        LOC,
        "The address of a row: a path such as `/p/{slug}`, where `{slug}` is a column, percent-encoded as a segment; "
        "`{+path}` may have slashes. `{url}` alone is the path or URL as it is.",
    )
    lastmod: str | None = option(TEXT, "The column that says when the page changed.", None)
    changefreq: str | None = option(TEXT, "The column that says how often it does.", None)
    priority: str | None = option(TEXT, "The column of its priority.", None)

    @abstractmethod
    def _form(self) -> Form: ...

    def sources(self, place: Place) -> Sequence[Source]:
        fields = {field: name for field in FIELDS if (name := getattr(self, field))}
        file = file_at(self.path, place.directory)
        loc = LocTemplate(self.loc)
        return [TabularSource(place.name, file, self._form(), loc, fields, place.settings.timezone)]


@dataclass(frozen=True)
class CsvKind(_TabularKind):
    """The rows of a CSV file."""

    delimiter: str = option(DELIMITER, "What stands between two fields.", ",")
    columns: tuple[str, ...] = option(TEXTS, "The names of the columns, if the first line does not have them.", ())

    def _form(self) -> Form:
        return Csv(self.delimiter, self.columns)


@dataclass(frozen=True)
class JsonlKind(_TabularKind):
    """The lines of a JSON Lines file, each an object."""

    def _form(self) -> Form:
        return JsonLines()
