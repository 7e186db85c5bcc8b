"""The rows of a table section, asked for over one connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .keys import Key, checked
from .statements import Statements

if TYPE_CHECKING:
    from sqlalchemy import Connection

Span = tuple[Key | None, Key | None]
"""From a key on, up to another; None for an open end."""


class Rows:
    """What *statements* select for *section*. Only the database compares keys, since only it knows their order."""

    def __init__(self, connection: Connection, statements: Statements, section: str) -> None:
        self.statements = statements
        self.dialect = connection.dialect.name
        self._connection = connection
        self._section = section

    def hop(self, start: Key | None, end: Key | None, rows: int) -> Key | None:
        """The key that comes *rows* rows after the first of a range, if it is in it."""
        return self._key(self.statements.hop((start, end), rows, self.dialect))

    def following(self, key: Key | None, start: Key) -> Key | None:
        """The first key from *start* on that comes after *key*."""
        return start if key is None else self._key(self.statements.following(key, start, self.dialect))

    def count(self, start: Key | None, end: Key | None) -> int:
        return int(self._connection.execute(self.statements.count((start, end), self.dialect)).scalar_one())

    def look(self, span: Span, latest: Any) -> tuple[int, Any, int]:
        """How many rows there are, the latest lastmod, and how many have the *latest* one that was known."""
        if "lastmod" not in self.statements.columns:
            return self.count(*span), None, 0
        count, newest, same = self._connection.execute(self.statements.look(span, latest, self.dialect)).one()
        return count, newest, same

    def latest_change(self) -> Any:
        return self._connection.execute(self.statements.latest_change()).scalar_one()

    def changed_keys(self, lower: Any) -> Iterator[Key]:
        """The keys of all rows that changed after *lower*, in no order."""
        streaming = self._connection.execution_options(yield_per=1_000)
        rows = streaming.execute(self.statements.changed(lower, self.dialect))
        try:
            yield from map(tuple, rows)
        finally:
            rows.close()

    def has_changed(self, lower: Any, span: Span) -> bool:
        return self._connection.execute(self.statements.changed(lower, self.dialect, span).limit(1)).first() is not None

    def _key(self, statement: Any) -> Key | None:
        row = self._connection.execute(statement).first()
        return None if row is None else checked(self.statements.key_names, tuple(row), self._section)
