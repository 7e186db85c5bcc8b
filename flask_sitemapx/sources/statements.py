"""The SQL of a table section: which columns, of which rows, in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import sqlalchemy as sa

from ..errors import ConfigurationError
from .keys import Key

# Where (a, b) >= (x, y) is understood; elsewhere it is spelled out, which few planners find an index for.
ROW_VALUES = frozenset({"postgresql", "sqlite", "mysql", "mariadb"})

# Where UUIDs are compared by their bytes or digits, as in Python.
UUIDS_IN_ORDER = frozenset({"postgresql", "sqlite"})

Column = sa.ColumnElement[Any]


class Statements:
    """What a table section selects: its *key* columns, and further ones by the name of their use.

    *given* maps a use (``lastmod``, ``values.slug``) to a column, or to the name of one in *select*.
    """

    def __init__(
        self,
        section: str,
        key: Any,
        given: Mapping[str, Any],
        select: sa.Select[Any] | None,
        where: Any,
        extra: Sequence[Any],
    ) -> None:
        self._section = section
        self._source = select.subquery() if select is not None else None
        keys = key if isinstance(key, tuple | list) else (key,)
        if not keys:
            raise ConfigurationError(f"section {section!r}: a table has a key: a column or several, unique and ordered")
        self.key: tuple[Column, ...] = tuple(self._required("key", one) for one in keys)
        columns = {use: self.column(value) for use, value in given.items()}
        self.columns = {use: column for use, column in columns.items() if column is not None}
        self.constants = {use: value for use, value in given.items() if columns[use] is None}
        self.changed_since: Column | None = self.columns.pop("changed_since", None)
        self._extra = [self._required("extra", one) for one in extra]
        wanted = where if isinstance(where, tuple | list) else () if where is None else (where,)
        # A column that is never null in its table is so in an outer join.
        nullable = (one for one in self.key if select is not None or getattr(one, "nullable", True))
        self._where = (*wanted, *(one.is_not(None) for one in nullable))
        if "changed_since" in self.constants:
            raise ConfigurationError(f"section {section!r}: changed_since is a column, not {given['changed_since']!r}")

    def column(self, value: Any) -> Column | None:
        """*value* as a column, or None if it is a constant."""
        if self._source is not None and isinstance(value, str):
            if value not in self._source.c:
                raise ConfigurationError(f"section {self._section!r}: the select has no column {value!r}")
            return self._source.c[value]
        if hasattr(value, "__clause_element__"):  # an attribute of a mapped class
            value = value.__clause_element__()
        if isinstance(value, sa.ColumnElement):
            return value
        if isinstance(value, type) and hasattr(value, "__table__"):
            raise ConfigurationError(
                f"section {self._section!r}: {value.__name__} is a mapped class; give the column, such as "
                f"{value.__name__}.id: entities take ten times as long to load"
            )
        return None

    @cached_property
    def places(self) -> dict[str, int]:
        """Where in a row the column of each use stands."""
        selected = self._selected
        return {
            use: next(at for at, (_, one) in enumerate(selected) if one is column)
            for use, column in self.columns.items()
        }

    def rows(self, span: tuple[Key | None, Key | None], dialect: str) -> sa.Select[Any]:
        """All selected columns of the rows in *span*, in the order of the key."""
        return self._of(span, dialect, *(column.label(name) for name, column in self._selected)).order_by(*self.key)

    def hop(self, span: tuple[Key | None, Key | None], rows: int, dialect: str) -> sa.Select[Any]:
        """The key *rows* rows after the first of *span*."""
        return self._of(span, dialect, *self.key).order_by(*self.key).offset(rows).limit(1)

    def following(self, key: Key, start: Key, dialect: str) -> sa.Select[Any]:
        """The first key from *start* on that comes after *key*."""
        after = self._of((start, None), dialect, *self.key).where(self._compared(">", key, dialect))
        return after.order_by(*self.key).limit(1)

    def count(self, span: tuple[Key | None, Key | None], dialect: str) -> sa.Select[Any]:
        return self._of(span, dialect, sa.func.count())

    def look(self, span: tuple[Key | None, Key | None], latest: Any, dialect: str) -> sa.Select[Any]:
        """Count, latest lastmod, and how many rows have the *latest* one that was known."""
        lastmod = self.columns["lastmod"]
        same = sa.literal(0) if latest is None else sa.func.count(sa.case((lastmod == latest, 1)))
        return self._of(span, dialect, sa.func.count(), sa.func.max(lastmod), same)

    def latest_change(self) -> sa.Select[Any]:
        return self._of((None, None), "", sa.func.max(self.changed_since))

    def changed(self, lower: Any, dialect: str, span: tuple[Key | None, Key | None] = (None, None)) -> sa.Select[Any]:
        """The keys of rows that changed after *lower*."""
        assert self.changed_since is not None
        return self._of(span, dialect, *self.key).where(self.changed_since > lower)

    @property
    def signature(self) -> str:
        """A text that is the same in every process, and another for another selection."""
        statement = self._of((None, None), "", *(column.label(name) for name, column in self._selected))
        compiled = statement.compile()
        values = sorted(compiled.params.items(), key=str)
        return " ".join(map(str, (compiled, values, self.constants, self.places, self.changed_since)))

    @property
    def key_signature(self) -> str:
        """A text that is another for another key, whose values would mean other rows."""
        return " ".join(f"{column} {column.type!r}" for column in self.key)

    def sorts_as_python(self, dialect: str) -> bool:
        """Whether Python is sure to put keys in the order of the database."""
        ordered = (sa.Integer, sa.DateTime, sa.Date, sa.Numeric, *([sa.Uuid] if dialect in UUIDS_IN_ORDER else []))
        return all(isinstance(column.type, ordered) for column in self.key)

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(str(getattr(one, "key", None) or one) for one in self.key)

    @property
    def bind_key(self) -> str | None:
        """Flask-SQLAlchemy's name for the database of the key's table."""
        elements = sa.sql.visitors.iterate(self._of((None, None), "", *self.key))
        tables = (one for one in elements if isinstance(one, sa.Table))
        return next((table.metadata.info["bind_key"] for table in tables if "bind_key" in table.metadata.info), None)

    @cached_property
    def _selected(self) -> list[tuple[str, Column]]:
        """Each column once, under a name of its own."""
        selected: list[tuple[str, Column]] = []
        names: set[str] = set()
        for column in (*self.key, *self.columns.values(), *self._extra):
            if not any(column is one for _, one in selected):
                name = _free(str(getattr(column, "key", None) or "column"), names)
                names.add(name)
                selected.append((name, column))
        return selected

    def _of(self, span: tuple[Key | None, Key | None], dialect: str, *columns: Any) -> sa.Select[Any]:
        start, end = span
        # The FROM is that of all columns, whatever is selected.
        base = sa.select(*(one for _, one in self._selected)).where(*self._where)
        statement = base.with_only_columns(*columns, maintain_column_froms=True)
        if start is not None:
            statement = statement.where(self._compared(">=", start, dialect))
        if end is not None:
            statement = statement.where(self._compared("<", end, dialect))
        return statement

    def _compared(self, sign: str, key: Key, dialect: str) -> Any:
        """The condition that a row's key is ``<``, ``>`` or ``>=`` than *key*."""
        values = [sa.literal(value, column.type) for value, column in zip(key, self.key, strict=True)]
        if len(self.key) == 1:
            return self.key[0].op(sign, is_comparison=True)(values[0])
        if dialect in ROW_VALUES:
            return sa.tuple_(*self.key).op(sign, is_comparison=True)(sa.tuple_(*values))
        # (a, b) > (x, y) as a > x OR (a = x AND b > y)
        pairs = list(zip(self.key, values, strict=True))
        cases = [
            sa.and_(
                *(one == same for one, same in pairs[:at]),
                column.op(sign if at == len(pairs) - 1 else sign[0], is_comparison=True)(value),
            )
            for at, (column, value) in enumerate(pairs)
        ]
        return sa.or_(*cases)

    def _required(self, what: str, value: Any) -> Column:
        column = self.column(value)
        if column is None:
            raise ConfigurationError(f"section {self._section!r}: {what} must be a column of SQLAlchemy, not {value!r}")
        return column


def _free(name: str, taken: set[str]) -> str:
    number = 2
    wanted = name
    while name in taken:
        name, number = f"{wanted}_{number}", number + 1
    return name
