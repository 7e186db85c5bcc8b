"""Sections of the type `sql`: a table, or a query."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from ...errors import InvalidEntry
from ...protocol.locs import BaseUrl
from ...sources.defaults import Defaults
from ...sources.loc_template import LocTemplate
from ...sources.parts import Part, Past, Plan, Source
from ..options import ONE_OR_MORE, TEXT, Form, option
from .kind import Place
from .tabular import LOC

COLUMNS = ("lastmod", "changefreq", "priority", "changed_since")
"""Options that each name a column, for what the table section calls by the same name."""
EXTRAS = ("images", "alternates")
"""Options that each name a column, for what an entry may state beyond sitemaps.org."""


def _query(value: Any) -> str:
    text: str = TEXT.read(value).rstrip("; \n")
    if not _READING.match(text):
        raise ValueError("must begin with SELECT or WITH")
    return text


_READING = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*(?:SELECT|WITH)\b", re.IGNORECASE | re.DOTALL)
QUERY = Form(_query, {"type": "string", "minLength": 1})


@dataclass(frozen=True)
class SqlKind:
    """The rows of a table or of a query, which are read again where they changed."""

    key: tuple[str, ...] = option(
        ONE_OR_MORE,
        "The column by which rows are told apart and put in order, such as the primary key; or a list of columns that "
        "are so together. There should be an index on it.",
    )
    loc: str = option(
        LOC,
        "The address of a row: a path such as `/p/{slug}`, where `{slug}` is a column, percent-encoded as a segment; "
        "`{+path}` may have slashes. `{url}` alone is the path or URL as it is.",
    )
    table: str | None = option(TEXT, "The table or view, or `schema.table`.", None)
    query: str | None = option(QUERY, "Instead of a table: a SELECT that gives the columns.", None)
    where: str | None = option(
        TEXT, "Which rows of the table are listed: a condition, as SQL has it after WHERE.", None
    )
    database: str = option(TEXT, "The name of the database in `databases`; by default that of `DATABASE_URL`.", "")
    lastmod: str | None = option(TEXT, "The column that says when the page changed.", None)
    changefreq: str | None = option(TEXT, "The column that says how often it does.", None)
    priority: str | None = option(TEXT, "The column of its priority.", None)
    changed_since: str | None = option(
        TEXT,
        "A column with an index that says when the row changed, often the same as `lastmod`; then a build asks for the "
        "rows that changed, instead of looking at all.",
        None,
    )

    images: str | None = option(
        TEXT, "The column of the page's images: a path or URL, or a list of them, also as JSON.", None
    )
    alternates: str | None = option(
        TEXT,
        "The column of the page in all languages: an object from language to path or URL, also as JSON.",
        None,
    )

    def __post_init__(self) -> None:
        if (self.table is None) == (self.query is None):
            raise ValueError("give either a table or a query")
        if self.query is not None and self.where is not None:
            raise ValueError("where is for a table; a query says it itself")

    def sources(self, place: Place) -> Sequence[Source]:
        return [SqlSource(self, place)]


class SqlSource:
    """The rows that *kind* names as a section; the database is asked which columns it has when they are needed."""

    endpoint = None

    def __init__(self, kind: SqlKind, place: Place) -> None:
        self.name = place.name
        self._kind = kind
        self._place = place

    def rule(self) -> str | None:
        return self._rows.rule()

    def plan(self, past: Past) -> Plan:
        return self._rows.plan(past)

    def part(self, key: str, following: str | None) -> Part:
        return self._rows.part(key, following)

    @cached_property
    def _rows(self) -> Source:
        kind, place = self._kind, self._place
        engine = place.engine(kind.database)  # which says so if SQLAlchemy is not installed
        from ...sources.tables import Table, TableSource
        from ..sql_text import SqlText

        template = LocTemplate(kind.loc)
        given = {f"values.{name}": name for name in template.columns}
        given |= {use: name for use in COLUMNS if (name := getattr(kind, use)) is not None}
        extras = {use: name for use in EXTRAS if (name := getattr(kind, use)) is not None}
        given |= {f"values.{name}": name for name in extras.values()}
        defaults = Defaults(extras={use: partial(_stated, name) for use, name in extras.items()})
        text = SqlText(place.name, kind.key, given, kind.table, kind.query, kind.where)
        table = Table(place.name, text.statements(engine), kind.loc, defaults, engine)
        return TableSource(table, place.settings.timezone, _TemplateUrls(template, place.base))


def _stated(name: str, row: Any) -> Any:
    """What *row* has in the column *name*; text that is JSON of a list or an object as that."""
    value = row._mapping[name]
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        try:
            return json.loads(value)
        except ValueError:
            return value  # which the gate refuses, and tells of
    return value or None


class _TemplateUrls:
    """The finished locs that a *template* gives."""

    def __init__(self, template: LocTemplate, base: BaseUrl) -> None:
        self._template = template
        self._base = base

    def column_locs(
        self, endpoint: str, columns: Mapping[str, Sequence[Any]], length: int
    ) -> Sequence[str | InvalidEntry]:
        locs = self._template.locs(columns)
        return self._base.locs(locs) or [self._finished(loc) for loc in locs]

    def _finished(self, loc: str | InvalidEntry) -> str | InvalidEntry:
        if isinstance(loc, InvalidEntry):
            return loc
        try:
            return self._base.loc(loc)
        except InvalidEntry as error:
            return error
