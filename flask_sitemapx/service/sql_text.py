"""Tables and queries that an operator names by their text, as the statements of a table section."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from ..errors import ConfigurationError
from ..sources.statements import Statements
from .document import meant


@dataclass(frozen=True, slots=True)
class SqlText:
    """A *table*, `schema.table` or the rows of it that *where* is true of; or a *query*.

    The columns of *key* and *given*, the latter by their use, are named as the database names them. All texts are the
    operator's own, and go to the database as they are.
    """

    section: str
    key: Sequence[str]
    given: Mapping[str, str]
    table: str | None = None
    query: str | None = None
    where: str | None = None

    def statements(self, engine: sa.Engine) -> Statements:
        """What is selected, with the types that the database of *engine* has for it.

        Raises `ConfigurationError` for a table or a column that is not there.
        """
        with engine.connect() as connection:
            known = self._names(connection)
            for name in (*self.key, *self.given.values()):
                if name not in known:
                    raise ConfigurationError(f"{self._place} has no column {name!r}; {meant(name, known)}")
            dialect = connection.dialect.name
            first = connection.execute(self._statements({}, dialect).hop((None, None), 0, dialect)).first()
            types = {} if first is None else dict(zip(self.key, map(_type_of, first), strict=True))
            return self._statements(types, dialect)

    @property
    def _place(self) -> str:
        return "the query" if self.table is None else f"the table {self.table!r}"

    def _names(self, connection: sa.Connection) -> list[str]:
        """The names of all columns that there are."""
        everything: sa.Select[Any] = sa.select(sa.literal_column("*")).select_from(self._rows([])).limit(0)
        try:
            return [*connection.execute(everything).keys()]
        except (sa.exc.ProgrammingError, sa.exc.OperationalError):
            connection.rollback()
            self._require_table(connection)
            raise

    def _require_table(self, connection: sa.Connection) -> None:
        if self.table is None:
            return
        schema, _, name = self.table.rpartition(".")
        found = sa.inspect(connection)
        known = {*found.get_table_names(schema or None), *found.get_view_names(schema or None)}
        if name not in known:
            raise ConfigurationError(f"the database has no table {self.table!r}; {meant(name, known)}")

    def _statements(self, types: Mapping[str, sa.types.TypeEngine[Any]], dialect: str) -> Statements:
        names = dict.fromkeys((*self.key, *self.given.values()))
        columns = self._rows([sa.column(name, types.get(name)) for name in names]).c
        given: dict[str, Any] = {use: columns[name] for use, name in self.given.items()}
        if "changed_since" in given and dialect == "sqlite":
            given["changed_since"] = sa.type_coerce(given["changed_since"], _WrittenTime())
        # On lines of its own, which a comment does not reach.
        where: Any = None if self.where is None else sa.literal_column(f"(\n{self.where}\n)")
        return Statements(self.section, [columns[name] for name in self.key], given, None, where, ())

    def _rows(self, columns: Sequence[sa.ColumnClause[Any]]) -> sa.TableClause | sa.Subquery:
        if self.query is None:
            schema, _, name = str(self.table).rpartition(".")
            return sa.table(name, *columns, schema=schema or None)
        text = self.query.replace(":", "\\:")  # which would begin a parameter
        return sa.text(f"\n{text}\n").columns(*columns).subquery("selected")


def _type_of(value: Any) -> sa.types.TypeEngine[Any]:
    """The type of a key's column that has *value*; of a text none, so that it is compared as the database does."""
    if isinstance(value, datetime):
        return sa.DateTime(timezone=value.tzinfo is not None)
    return _TYPES.get(type(value), sa.types.NullType())


_TYPES: dict[type, sa.types.TypeEngine[Any]] = {
    int: sa.BigInteger(),
    date: sa.Date(),
    Decimal: sa.Numeric(),
    UUID: sa.Uuid(),
}


class _WrittenTime(sa.types.TypeDecorator[Any]):
    """A day or a time that SQLite has as text: in UTC, or without a zone; others stay texts."""

    impl = sa.String
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> Any:
        if isinstance(value, datetime):
            # With a space, which comes before the T that others write: rather too many rows are later than too few.
            return value.replace(tzinfo=None).isoformat(" ", "microseconds")
        return value.isoformat() if isinstance(value, date) else value

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Any:
        try:
            if len(value) == len("2026-11-30"):
                return date.fromisoformat(value)
            moment = datetime.fromisoformat(value)
        except (TypeError, ValueError):
            return value
        if moment.utcoffset() in (None, timedelta(0)):
            return moment if moment.tzinfo is None else moment.astimezone(UTC)
        return value
