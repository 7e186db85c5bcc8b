"""A section over a table of a database: what `Registry.table` declares, and how a build reads it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, tzinfo
from itertools import chain, takewhile
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..errors import ConfigurationError, InvalidEntry
from ..protocol.atom import Feed
from ..protocol.entries import EXTRAS, Columns
from .awaiting import EnsureSync, awaited, in_asyncio
from .changes import Changes
from .defaults import NO_DEFAULTS, Defaults
from .keys import Key, packed, parsed_part_key, unpacked
from .languages import LANGUAGES, Languages
from .parts import Known, Past, Plan
from .ranges import Range, Sizes, opened, planned
from .rows import Rows, Span
from .statements import Statements

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

F = TypeVar("F", bound=Callable[..., Any])
Hook = Callable[[Sequence[Any]], Iterable[Mapping[str, Any] | None]]

BATCH = 1_000
"""Rows that a batch function sees at a time."""
FETCH = 500
"""Rows that are fetched at a time without one. With those before still there, fewer than the 700 objects after which
Python looks for garbage, which takes longer than all else."""
FIRST = 25
"""Rows that are fetched first."""
FIELDS = ("lastmod", "changefreq", "priority")


class Table:
    """A section over the rows of a table or a select, as `Registry.table` declared it.

    products = sitemap.table("products", key=Product.id, endpoint="product", values={"slug": Product.slug})

    @products.batch
    def priorities(rows):
        stock = stock_of([row.id for row in rows])
        return [{"priority": 0.8} if stock[row.id] else None for row in rows]
    """

    def __init__(
        self,
        name: str,
        statements: Statements,
        endpoint: str | None,
        defaults: Defaults,
        bind: Any,
        feed: Feed | None = None,
    ) -> None:
        self.name = name
        self.statements = statements
        self.endpoint = endpoint
        self.defaults = defaults
        self.bind = bind
        self.feed = feed
        self.hook: Hook | None = None

    def batch(self, function: F) -> F:
        """Decorate a function that sees up to 1,000 rows at once, so that related data is one query a batch.

        It is given a list of rows with the selected columns by name, and gives as many items in their order: None, or
        a mapping with any of ``values`` (or ``loc``, where the table has that), ``lastmod``, ``changefreq``,
        ``priority`` and the extras of an entry, which go over what the columns say. The function is returned unchanged.
        Raises `ConfigurationError` if there is one already.
        """
        if self.hook is not None:
            raise ConfigurationError(f"section {self.name!r} has a batch function already")
        self.hook = function
        return function

    @property
    def place(self) -> str:
        """By what a row says where its page is."""
        return "loc" if self.endpoint is None else "values"

    @property
    def signature(self) -> str:
        """A text that is the same in every process, and another if other entries are made of the same rows."""
        hook = getattr(self.hook, "__qualname__", "?") if self.hook else ""
        return f"{self.endpoint} {self.defaults.signature} {hook} {self.statements.signature}"


class Urls(Protocol):
    """Where the URLs of an endpoint come from, by column."""

    def column_locs(
        self, endpoint: str, columns: Mapping[str, Sequence[Any]], length: int
    ) -> Sequence[str | InvalidEntry]: ...


class TableSource:
    """A *table* as a build reads it.

    *engine_of* gives the engine for a bind key where the table names none, *rules* stand for the url_map's part in it,
    *timezone* is that of dates without one, *view* is what the endpoint's view says of its entries, *languages* are
    those of the site.
    """

    def __init__(
        self,
        table: Table,
        timezone: tzinfo,
        urls: Urls | None = None,
        engine_of: Callable[[str | None], Any] = lambda bind_key: None,
        rules: str = "",
        ensure_sync: EnsureSync = in_asyncio,
        view: Defaults = NO_DEFAULTS,
        languages: Languages | None = None,
    ) -> None:
        self.name = table.name
        self.languages = languages
        self.endpoint = table.endpoint
        self.table = table
        self.defaults = view.over(table.defaults)
        self.urls = urls
        self.ensure_sync = ensure_sync
        self._timezone = timezone
        self._engine_of = engine_of
        self._rules = rules

    def rule(self) -> str:
        """All that entries are made by, besides the rows; the site's other views and sections have no part in it."""
        languages = self.languages.signature if self.languages else ""
        return f"{self.table.signature} {self.defaults.signature} {self._rules} {self._timezone} {languages}"

    def plan(self, past: Past) -> Plan:
        """The ranges of the key, divided anew where they outgrew a document, and which of them changed."""
        sizes = Sizes(past.urls, past.size)
        known = [_KnownRange.of(part) for part in past.parts]
        with self.connection() as connection:
            rows = Rows(connection, self.table.statements, self.name)
            changes = Changes(rows, past.memo, past.now, self._timezone)
            memo = changes.memo()  # before anything is read: what changes from now on is found the next time
            if known and changes.is_of_this_key:
                ranges = planned(self._looked_at(known, rows, changes), rows, sizes)
            else:
                # Keys of another kind mean other rows, and so other parts, under other numbers.
                generation = max((one.generation + 1 for one in known), default=0)
                ranges = list(opened(generation, None, sizes.fill, rows))
        ends = [*(following.start for following in ranges[1:]), None]
        return Plan([TablePart(self, one, end) for one, end in zip(ranges, ends, strict=True)], memo)

    def part(self, key: str, following: str | None) -> TablePart:
        generation, start = parsed_part_key(key) or (0, None)
        end = parsed_part_key(following) if following else None
        return TablePart(self, Range(generation, start), end[1] if end else None)

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection for one short transaction that only reads, whatever the engine is set to."""
        with self.engine().connect() as connection:
            if connection.dialect.name == "postgresql":
                connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            yield connection

    def engine(self) -> Engine:
        """The engine of the database; raises `ConfigurationError` if there is none, or one for asyncio."""
        bind = self.table.bind
        found = bind() if callable(bind) else bind
        if found is None:
            found = self._engine_of(self.table.statements.bind_key)
        if found is None:
            raise ConfigurationError(f"section {self.name!r}: which database is it in? Give the engine: bind=engine")
        if hasattr(found, "sync_engine"):
            raise ConfigurationError(f"section {self.name!r}: bind= takes an Engine, such as engine.sync_engine")
        engine: Engine = found
        return engine

    def _looked_at(self, known: list[_KnownRange], rows: Rows, changes: Changes) -> list[Range]:
        """The ranges that are known, with the rows that they have now, and whether anything changed in them."""
        starts = [None, *(one.start for one in known[1:])]  # the first is open, whatever it began with
        spans = list(zip(starts, [*starts[1:], None], strict=True))
        if self.table.statements.changed_since is not None:
            looks = changes.among(spans, [one.rows for one in known])
        else:
            looks = [one.compared(rows, span) for one, span in zip(known, spans, strict=True)]
        return [
            Range(one.generation, start, count, one.length, is_changed or not one.is_known, one.is_known, one.last)
            for one, start, (count, is_changed) in zip(known, starts, looks, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class _KnownRange:
    """A range as it was when it was last read; nothing is known of the rows of one that was not."""

    generation: int
    start: Key | None
    length: int
    is_known: bool = False
    rows: int | None = None
    latest: Any = None
    same: int = 0
    """How many rows had the latest lastmod, where that is a day."""
    last: Key | None = None

    @classmethod
    def of(cls, part: Known) -> _KnownRange:
        generation, start = parsed_part_key(part.key) or (0, None)
        if part.version is None:
            return cls(generation, start, part.length)
        version = json.loads(part.version)
        last = version["last"]
        return cls(
            generation, start, part.length, True, version["rows"], unpacked(version["latest"]), version["same"],
            None if last is None else tuple(map(unpacked, last)),
        )  # fmt: skip

    def compared(self, rows: Rows, span: Span) -> tuple[int, bool]:
        """How many rows there are now, and whether they differ from those that were read, as far as that shows."""
        count, latest, same = rows.look(span, self.latest if type(self.latest) is date else None)
        is_told = "lastmod" in rows.statements.columns  # else nothing tells of an edit
        return count, not is_told or (count, latest, same) != (self.rows, self.latest, self.same)


class TablePart:
    """The rows of one range of a table, up to the key *end*."""

    is_cut = False

    def __init__(self, source: TableSource, one: Range, end: Key | None) -> None:
        self.key = one.key
        self.is_unchanged = one.is_known and not one.is_changed
        self._source = source
        self._table = source.table
        self._start = one.start
        self._end = end
        self._count = 0
        self._latest = _Latest()
        self._last: Key | None = None

    def columns(self) -> Iterator[Columns]:
        """All entries, through a cursor on the server, in a short transaction of their own."""
        statements = self._table.statements
        defaults = _evaluated(self._source.defaults, self._source.ensure_sync)
        with self._source.connection() as connection:
            statement = statements.rows((self._start, self._end), connection.dialect.name)
            size = FETCH if self._table.hook is None else BATCH
            result = connection.execution_options(stream_results=True, max_row_buffer=size).execute(statement)
            try:
                # A few at first: somebody may be waiting for them.
                fetches = chain([result.fetchmany(FIRST)], result.partitions(size))
                for rows in takewhile(bool, fetches):
                    yield self._columns(rows, defaults)
            finally:
                result.close()

    def version(self) -> str:
        """What was read, so that no other statement than that which read it has a part in this."""
        last = None if self._last is None else [packed(value) for value in self._last]
        latest, same = (None, 0) if self._table.statements.changed_since is not None else self._latest.told
        return json.dumps({"rows": self._count, "latest": packed(latest), "same": same, "last": last})

    def _columns(self, rows: Sequence[Any], defaults: Defaults) -> Columns:
        statements = self._table.statements
        columns: list[Any] = list(zip(*rows, strict=True))
        self._note(columns)
        values = {use: columns[place] for use, place in statements.places.items()}
        values |= {use: [value] * len(rows) for use, value in statements.constants.items()}
        for name in FIELDS:
            if name not in values and (default := getattr(defaults, name)) is not None:
                values[name] = [default] * len(rows)
        for name, default in defaults.extras.items():
            values[name] = [default(row) for row in rows] if callable(default) else [default] * len(rows)
        if self._table.hook is not None:
            self._overlay(values, rows, self._table.hook)
        return self._rendered(values, len(rows))

    def _note(self, columns: list[Any]) -> None:
        self._count += len(columns[0])
        places = self._table.statements.places
        if "lastmod" in places:
            self._latest.add(columns[places["lastmod"]])
        if self._end is None:
            self._last = tuple(column[-1] for column in columns[: len(self._table.statements.key)])

    def _rendered(self, values: dict[str, Sequence[Any]], length: int) -> Columns:
        lastmods, changefreqs, priorities = (values.get(name) for name in FIELDS)
        extras = {name: values[name] for name in EXTRAS if name in values}
        ready = self._table.endpoint is not None
        columns = Columns(values.get("loc", [""] * length), lastmods, changefreqs, priorities, ready, extras)
        columns = columns if self._table.endpoint is None else self._located(self._table.endpoint, values, columns)
        return columns if self._source.languages is None else self._source.languages.linked(columns)

    def _located(self, endpoint: str, values: dict[str, Sequence[Any]], columns: Columns) -> Columns:
        """*columns* with the URLs of *endpoint*, in each language if it has such."""
        length = len(columns.locs)
        if self._source.urls is None:
            reason = "endpoints of this application are not known; give loc="
            return Columns([InvalidEntry("item-endpoint", endpoint, "no URL can be built", reason)] * length)
        given = {use.removeprefix("values."): column for use, column in values.items() if use.startswith("values.")}
        languages = self._source.languages
        has_language = [languages is not None and languages.argument in given] * length
        spread = languages.spread(endpoint, has_language, columns.extras.get(LANGUAGES)) if languages else None
        if spread is None:
            columns.locs = self._source.urls.column_locs(endpoint, given, length)
            return columns
        columns = columns.repeated(spread.times)
        columns.locs = self._source.urls.column_locs(endpoint, spread.columns(given), len(spread.codes))
        return spread.linked(columns, columns.locs)[0]

    def _overlay(self, values: dict[str, Sequence[Any]], rows: Sequence[Any], hook: Hook) -> None:
        """Put what the batch function says over what the columns say."""
        items = list(awaited(hook(rows), self._source.ensure_sync))
        if len(items) != len(rows):
            raise ConfigurationError(
                f"section {self._source.name!r}: the batch function gave {len(items)} items for {len(rows)} rows"
            )
        for place, item in enumerate(items):
            for use, value in _uses(item or {}, self._source.name, self._table.place):
                column = values.get(use)
                if not isinstance(column, list):
                    column = values[use] = [None] * len(rows) if column is None else list(column)
                column[place] = value


class _Latest:
    """The latest of the dates added, as the database would tell it."""

    def __init__(self) -> None:
        self._latest: Any = None
        self._same = 0

    def add(self, dates: Sequence[Any]) -> None:
        given = dates if None not in dates else [one for one in dates if one is not None]
        if not given:
            return
        latest = max(given)
        if self._latest is None or latest > self._latest:
            self._latest, self._same = latest, 0
        if type(latest) is date:  # of which many rows have the same
            self._same += given.count(self._latest)

    @property
    def told(self) -> tuple[Any, int]:
        return self._latest, self._same


def _uses(item: Mapping[str, Any], section: str, place: str) -> Iterator[tuple[str, Any]]:
    allowed = {place, *FIELDS, *EXTRAS}
    if unknown := item.keys() - allowed:
        names = ", ".join(sorted(map(repr, unknown)))
        raise ConfigurationError(
            f"section {section!r}: the batch function gave {names}; there are {', '.join(sorted(allowed))}"
        )
    for use, value in item.items():
        if use == "values":
            yield from ((f"values.{name}", one) for name, one in value.items())
        else:
            yield use, value


def _evaluated(defaults: Defaults, ensure_sync: EnsureSync) -> Defaults:
    given = (defaults.lastmod, defaults.changefreq, defaults.priority)
    fields = (awaited(value(), ensure_sync) if callable(value) else value for value in given)
    lastmod, changefreq, priority = fields
    return Defaults(lastmod, changefreq, priority, defaults.extras)
