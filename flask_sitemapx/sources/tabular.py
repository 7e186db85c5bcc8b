"""Files of rows, CSV and JSON Lines, as sections: each row is a page."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import tzinfo
from itertools import islice
from operator import itemgetter
from typing import Any, BinaryIO, Protocol

from ..errors import ConfigurationError, InvalidEntry, shown
from ..protocol.entries import Columns
from .files import File
from .items import BATCH
from .loc_template import LocTemplate
from .parts import NamedPart, Past, Plan

MAX_LINE = 1024 * 1024
"""Bytes of a line, or of a row of CSV that goes on over several."""
BOM = b"\xef\xbb\xbf"
FIELDS = ("lastmod", "changefreq", "priority")

Row = tuple[Any, ...]


class Form(Protocol):
    """How rows are written."""

    def rows(self, lines: Lines, names: Sequence[str]) -> Iterator[Row | InvalidEntry]:
        """The number of the line that each ends in, and what it has under *names*; or what is wrong with it."""
        ...


class TabularSource:
    """The rows of a *file* as a section; *loc* makes their addresses, *fields* has the columns of `FIELDS` by name.

    Nothing is read while the file stands. A row that cannot be read is left out, and counted with its line.
    """

    endpoint = None

    def __init__(
        self, name: str, file: File, form: Form, loc: LocTemplate, fields: Mapping[str, str], timezone: tzinfo
    ) -> None:
        self.name = name
        self._file = file
        self._form = form
        self._loc = loc
        self._fields = fields
        self._timezone = timezone

    def rule(self) -> str:
        return f"{self._file.address} {self._form} {self._loc.text} {self._fields} {self._timezone}"

    def plan(self, past: Past) -> Plan:
        """One part, cut where its entries say so."""
        known = None if past.is_touched else next((part.version for part in past.parts), None)
        return Plan([NamedPart("", self._columns, self._file.version(past.now), known, is_cut=True)])

    def part(self, key: str, following: str | None) -> NamedPart:
        return NamedPart(key, self._columns, is_cut=True)

    def _columns(self) -> Iterator[Columns]:
        names = [*dict.fromkeys((*self._loc.columns, *self._fields.values()))]
        with closing(self._file.opened()) as file:
            rows = self._form.rows(Lines(file, self._file.address), names)
            while batch := list(islice(rows, BATCH)):
                yield self._read(batch, names)

    def _read(self, batch: Sequence[Row | InvalidEntry], names: Sequence[str]) -> Columns:
        bad = {position: row for position, row in enumerate(batch) if isinstance(row, InvalidEntry)}
        nothing = (None,) * (1 + len(names))
        numbers, *columns = zip(*(nothing if isinstance(row, InvalidEntry) else row for row in batch), strict=True)
        by_name = dict(zip(names, columns, strict=True))
        locs = self._loc.locs(by_name)
        for position, loc in enumerate(locs):
            if isinstance(loc, InvalidEntry):
                locs[position] = bad.get(position) or self._placed(loc, numbers[position])
        lastmods, changefreqs, priorities = (self._field(by_name, field) for field in FIELDS)
        return Columns(locs, lastmods, changefreqs, priorities)

    def _field(self, columns: Mapping[str, Sequence[Any]], field: str) -> Sequence[Any] | None:
        if field not in self._fields:
            return None
        return [None if value == "" else value for value in columns[self._fields[field]]]

    def _placed(self, error: InvalidEntry, number: int) -> InvalidEntry:
        place = f"{self._file.address}, line {number}"
        return InvalidEntry(error.rule, place, "a row has what its address is made of", error.reason)


# Forms ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Csv:
    """Rows with a *delimiter* between their fields; without *columns*, the first row has their names."""

    delimiter: str = ","
    columns: tuple[str, ...] = ()

    def rows(self, lines: Lines, names: Sequence[str]) -> Iterator[Row | InvalidEntry]:
        reader = csv.reader(lines, delimiter=self.delimiter, strict=True)
        columns = self.columns or self._header(reader, lines)
        values = _values(lines.address, columns, names)
        count = len(columns)
        while True:
            lines.begin_row()
            try:
                row = next(reader)
            except StopIteration:
                return
            except InvalidEntry as error:
                yield error
            except csv.Error as error:
                yield lines.wrong("row-form", "a row of CSV", str(error))
            else:
                if len(row) == count:
                    yield (lines.number, *values(row))
                elif row:  # a blank line has no fields
                    yield lines.wrong("row-length", "a row has a field for each column", f"{len(row)}, not {count}")

    def _header(self, reader: Iterator[list[str]], lines: Lines) -> list[str]:
        try:
            return [name.strip() for name in next(reader)]
        except StopIteration:
            raise ConfigurationError(f"{lines.address} is empty; its first line has the names of its columns") from None
        except (InvalidEntry, csv.Error) as error:
            raise ConfigurationError(f"{lines.address}: the names of its columns cannot be read: {error}") from None


def _values(address: str, columns: Sequence[str], names: Sequence[str]) -> Callable[[Sequence[str]], Sequence[str]]:
    """What gives the fields under *names* of a row that has *columns*."""
    for name in names:
        if columns.count(name) != 1:
            told = "twice" if name in columns else f"not; there are {shown(', '.join(columns))}"
            raise ConfigurationError(f"{address} has the column {name!r} {told}")
    places = [columns.index(name) for name in names]
    return itemgetter(*places) if len(places) > 1 else lambda row: [row[places[0]]]


@dataclass(frozen=True, slots=True)
class JsonLines:
    """An object of JSON in each line; blank lines are passed over. A name that it does not have is null."""

    def rows(self, lines: Lines, names: Sequence[str]) -> Iterator[Row | InvalidEntry]:
        while True:
            lines.begin_row()
            try:
                line = next(lines)
                row = json.loads(line) if not line.isspace() else None
            except StopIteration:
                return
            except InvalidEntry as error:
                yield error
            except (ValueError, RecursionError) as error:
                yield lines.wrong("row-form", "a line is an object of JSON", getattr(error, "msg", str(error)))
            else:
                if isinstance(row, dict):
                    yield (lines.number, *map(row.get, names))
                elif not line.isspace():
                    yield lines.wrong("row-form", "a line is an object of JSON", f"of type {type(row).__name__}")


class Lines:
    """The lines of a file of UTF-8. For one that is too long or no UTF-8, `next` raises, and then goes on after it."""

    def __init__(self, file: BinaryIO, address: str) -> None:
        self.address = address
        self.number = 0
        self._file = file
        self._length = 0

    def begin_row(self) -> None:
        self._length = 0

    def wrong(self, rule: str, explanation: str, reason: str) -> InvalidEntry:
        """That the line that was read last is wrong."""
        return InvalidEntry(rule, f"{self.address}, line {self.number}", explanation, reason)

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        line = self._file.readline(MAX_LINE + 1)
        if not line:
            raise StopIteration
        self.number += 1
        self._length += len(line)
        if self._length > MAX_LINE:
            self._pass_over(line)
            raise self.wrong("row-size", "a row is too long", f"more than {MAX_LINE} bytes")
        try:
            return (line.removeprefix(BOM) if self.number == 1 else line).decode()
        except UnicodeDecodeError as error:
            raise self.wrong("row-encoding", "a row is UTF-8", str(error)) from None

    def _pass_over(self, line: bytes) -> None:
        while line and not line.endswith(b"\n"):
            line = self._file.readline(MAX_LINE)
