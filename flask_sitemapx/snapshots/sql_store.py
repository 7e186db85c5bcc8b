"""A table of a database as a store, through SQLAlchemy."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError, StoreError
from .forking import after_fork

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine, Pool, Table

TABLE = "sitemapx"
KEY_LENGTH = 255
TIMEOUT = 5
"""Seconds to wait for a connection and for an answer."""


class SqlStore:
    """The table ``sitemapx`` of *engine*'s database, created at the first use unless it exists."""

    shared = True
    exclusive = True

    def __init__(self, engine: Engine) -> None:
        import sqlalchemy as sa

        if engine.dialect.name == "sqlite" and engine.url.database in (None, "", ":memory:"):
            raise ConfigurationError("names no file, and processes do not share memory: write 'memory:'")
        # Each statement by itself: none holds a lock for longer, and SQLite has none to make greater.
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._table = table = _table()
        self._has_table = False
        self._foreign_pools: list[Pool] = []
        is_key = table.c.key == sa.bindparam("at")
        self._select = sa.select(table.c.value).where(is_key)
        self._update = sa.update(table).where(is_key)
        self._delete = sa.delete(table).where(is_key)
        self._names = sa.select(table.c.key).where(
            table.c.key >= sa.bindparam("first"), table.c.key < sa.bindparam("end")
        )
        after_fork(self._reset)

    @classmethod
    def at(cls, address: str) -> SqlStore:
        """The store in the database at *address*, which is asked at the first use only.

        PostgreSQL is spoken to by psycopg 3, unless the address names another driver.
        """
        try:
            engine = _engine(address)
        except ImportError as error:
            raise ConfigurationError(f"needs {_missing(error, address)}") from None
        store = cls(engine)
        weakref.finalize(store, engine.dispose)
        return store

    def get(self, key: str) -> bytes | None:
        with self._connected() as connection:
            value: bytes | None = connection.execute(self._select, {"at": key}).scalar()
            return value

    def put(self, key: str, value: bytes) -> None:
        with self._connected() as connection:
            for _ in range(2):  # another may insert it between the two statements, and yet another delete it
                if connection.execute(self._update, {"at": key, "value": value}).rowcount > 0:
                    return
                if self._is_inserted(connection, key, value):
                    return
        raise StoreError(f"the table {TABLE} did not keep the {len(value):,} bytes of {key!r}")

    def add(self, key: str, value: bytes) -> bool:
        with self._connected() as connection:
            return self._is_inserted(connection, key, value)

    def delete(self, key: str) -> None:
        with self._connected() as connection:
            connection.execute(self._delete, {"at": key})

    def names(self, prefix: str) -> Iterable[str]:
        with self._connected() as connection:
            end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
            return connection.execute(self._names, {"first": prefix, "end": end}).scalars().all()

    def version(self) -> None:
        return None

    def _is_inserted(self, connection: Connection, key: str, value: bytes) -> bool:
        from sqlalchemy.exc import IntegrityError

        try:
            connection.execute(self._table.insert(), {"key": key, "value": value})
        except IntegrityError:
            return False
        return True

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        from sqlalchemy.exc import SQLAlchemyError

        try:
            with self._engine.connect() as connection:
                self._ensure_table(connection)
                yield connection
        except SQLAlchemyError as error:
            self._has_table = False  # it may be gone, or the database another one
            cause = getattr(error, "orig", None) or error  # without the statement and its bytes
            raise StoreError(f"{self._engine.dialect.name}: {' '.join(str(cause).split())}") from error

    def _ensure_table(self, connection: Connection) -> None:
        import sqlalchemy as sa

        if self._has_table:
            return
        if not sa.inspect(connection).has_table(TABLE):
            try:
                self._table.create(connection, checkfirst=False)
            except sa.exc.DBAPIError:
                if not sa.inspect(connection).has_table(TABLE):  # nor did another process create it meanwhile
                    raise
        self._has_table = True

    def _reset(self) -> None:
        # Kept, since collecting a connection of the parent could close it.
        self._foreign_pools.append(self._engine.pool)
        self._engine.dispose(close=False)


def _engine(address: str) -> Engine:
    import sqlalchemy as sa

    url = database_url(address)
    try:
        return sa.create_engine(
            url,
            connect_args=_connect_args(url),
            hide_parameters=True,
            max_overflow=8,
            pool_pre_ping=True,
            pool_size=2,
            pool_timeout=TIMEOUT,
            poolclass=sa.QueuePool,
        )
    except (sa.exc.ArgumentError, ValueError, TypeError) as error:
        raise ConfigurationError(f"has parameters that cannot be used: {error}") from None


def database_url(address: str) -> URL:
    """The URL of SQLAlchemy for *address*, with a driver for PostgreSQL. Raises `ConfigurationError`."""
    import sqlalchemy as sa

    try:
        url = sa.make_url(address)
        if url.drivername in ("postgres", "postgresql"):  # the first is what Heroku still writes
            url = url.set(drivername="postgresql+psycopg")
        is_async = url.get_dialect().is_async
    except sa.exc.NoSuchModuleError:
        raise ConfigurationError("is of no kind that is known here or to SQLAlchemy") from None
    except (sa.exc.ArgumentError, ValueError):  # its text may hold parts of a password with characters that end it
        raise ConfigurationError("is no address that SQLAlchemy can read; percent-encode the password") from None
    if is_async:
        raise ConfigurationError("names a driver for asyncio, which is of no use here")
    return url


def _missing(error: ImportError, address: str) -> str:
    name = error.name or "psycopg"  # which names nothing when it is there without libpq
    extra = "postgresql" if address.startswith("postgres") else "sql"
    is_ours = name in ("sqlalchemy", "psycopg")
    return f"{name}: pip install 'flask-sitemapx[{extra}]'" if is_ours else f"the driver {name}, which is not installed"


def _connect_args(url: URL) -> dict[str, Any]:
    if url.drivername != "postgresql+psycopg":
        return {}
    given: dict[str, Any] = {
        "connect_timeout": TIMEOUT,
        "options": f"-c statement_timeout={TIMEOUT * 1000}",
        "tcp_user_timeout": TIMEOUT * 1000,  # a server that fell silent, where the system can tell
        "keepalives_idle": TIMEOUT,
        "keepalives_interval": 1,
        "keepalives_count": TIMEOUT,
    }
    return {name: value for name, value in given.items() if name not in url.query}


def _table() -> Table:
    import sqlalchemy as sa
    from sqlalchemy.dialects import mysql

    # By bytes, whatever the database sorts by: names() takes a range.
    key = sa.String(KEY_LENGTH).with_variant(sa.String(KEY_LENGTH, "C"), "postgresql")
    key = key.with_variant(sa.String(KEY_LENGTH, "ascii_bin"), "mysql", "mariadb")
    value = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
    columns = sa.Column("key", key, primary_key=True), sa.Column("value", value, nullable=False)
    return sa.Table(TABLE, sa.MetaData(), *columns)
