"""What only databases have: a table to create, statements that wait, engines of the application."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import CreateTable

from flask_sitemapx.errors import ConfigurationError, StoreError
from flask_sitemapx.snapshots.opening import open_store
from flask_sitemapx.snapshots.sql_store import KEY_LENGTH, SqlStore, _table

BLOB = "blobs/site/ab/abcd"


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request, tmp_path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/maps.db"
    url: str = request.getfixturevalue("postgresql_url")
    return url


@pytest.fixture
def engine(address) -> Iterator[sa.Engine]:
    """The application's own."""
    engine = sa.create_engine(address)
    yield engine
    engine.dispose()


def rows(engine: sa.Engine) -> list[tuple[Any, ...]]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(sa.text("SELECT key, value FROM sitemapx ORDER BY key"))]


def test_the_table_is_created_at_the_first_use(engine, address):
    store = open_store(address, 0)
    assert not sa.inspect(engine).has_table("sitemapx")
    assert store.get(BLOB) is None
    assert sa.inspect(engine).has_table("sitemapx")


def test_of_many_that_create_the_table_at_once_none_fails(engine, address):
    for round_ in range(5):
        stores = [open_store(address, 0) for _ in range(8)]
        barrier = threading.Barrier(len(stores))

        def put(numbered, barrier=barrier):
            barrier.wait(30)
            number, store = numbered
            store.put(f"state/{number}", b"x")

        with ThreadPoolExecutor(len(stores)) as threads:
            list(threads.map(put, enumerate(stores)))
        assert len(rows(engine)) == len(stores), round_
        with engine.begin() as connection:
            connection.execute(sa.text("DROP TABLE sitemapx"))


def test_a_table_that_was_dropped_is_created_again(engine, address):
    store = open_store(address, 0)
    store.put(BLOB, b"x")
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE sitemapx"))
    with pytest.raises(StoreError, match="sitemapx"):
        store.get(BLOB)
    assert store.get(BLOB) is None
    store.put(BLOB, b"y")
    assert rows(engine) == [(BLOB, b"y")]


def test_an_engine_of_the_application_is_taken_and_left_as_it_is(engine):
    open_store(engine, 0).put(BLOB, b"x")
    with engine.connect() as connection:
        connection.execute(sa.text("DELETE FROM sitemapx"))
        connection.rollback()
    assert rows(engine) == [(BLOB, b"x")]


def test_a_table_of_another_shape_is_a_store_error_without_the_bytes(engine, address):
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE sitemapx (name TEXT)"))
    with pytest.raises(StoreError) as caught:
        open_store(address, 0).put(BLOB, b"these bytes")
    assert "\n" not in str(caught.value)
    assert "these bytes" not in str(caught.value)
    assert "[SQL" not in str(caught.value)


def test_an_engine_in_memory_is_refused():
    engine = sa.create_engine("sqlite://")
    with pytest.raises(ConfigurationError, match="SITEMAP_STORE: 'Engine' names no file"):
        open_store(engine, 0)


def test_a_driver_for_asyncio_is_refused():
    with pytest.raises(ConfigurationError, match=r"SITEMAP_STORE: 'sqlite\+aiosqlite:///x' names a driver for asyncio"):
        open_store("sqlite+aiosqlite:///x", 0)


@pytest.mark.parametrize("name", ["mysql", "mariadb"])
def test_mysql_has_room_for_large_values_and_compares_keys_by_bytes(name):
    dialect = sa.engine.make_url(f"{name}+pymysql://").get_dialect()()
    assert isinstance(dialect, mysql.dialect)
    created = str(CreateTable(_table()).compile(dialect=dialect))
    assert "value LONGBLOB NOT NULL" in created
    assert f"VARCHAR({KEY_LENGTH}) COLLATE ascii_bin NOT NULL" in created


# SQLite


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # it forks, and may have threads
def test_processes_that_write_at_once_do_not_find_the_database_locked(tmp_path):
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    arguments = (f"sqlite:///{tmp_path}/maps.db", results)
    processes = [context.Process(target=write_many, args=(number, *arguments)) for number in range(3)]
    for process in processes:
        process.start()
    assert [results.get() for _ in processes] == ["written"] * 3
    for process in processes:
        process.join(30)


def write_many(writer: int, address: str, results: Any) -> None:
    store = open_store(address, 0)
    value = os.urandom(200_000)
    try:
        for number in range(30):
            store.put(f"blobs/site/ab/{writer}-{number}", value)
            store.put("state/head", b"%d" % writer)
            assert store.get(f"blobs/site/ab/{writer}-{number}") == value
            list(store.names("blobs/"))
        results.put("written")
    except StoreError as error:
        results.put(str(error))


# PostgreSQL


def test_a_server_that_restarts_has_kept_everything_and_is_used_again(postgresql, postgresql_url):
    store = open_store(postgresql_url, 0)
    store.put(BLOB, b"x")
    assert store.add("state/manifest.1", b"first")
    postgresql.stop()
    try:
        for call in (lambda: store.get(BLOB), lambda: store.put(BLOB, b""), lambda: store.add("state/manifest.2", b"")):
            with pytest.raises(StoreError, match=r"postgresql: .*refused") as caught:
                call()
            assert "\n" not in str(caught.value)
    finally:
        postgresql.start()
    assert store.get(BLOB) == b"x"
    assert list(store.names("blobs/")) == [BLOB]
    assert store.add("state/manifest.1", b"second") is False


@pytest.fixture
def role(postgresql_url) -> Iterator[str]:
    """The name of a role that may do nothing but connect."""
    name = f"role_{secrets.token_hex(8)}"
    with administrator(postgresql_url) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'open-sesame'")
        yield name
        connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


def administrator(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(sa.make_url(url).set(drivername="postgresql").render_as_string(), autocommit=True)


def test_where_the_table_exists_no_right_to_create_is_needed(postgresql_url, role):
    url = sa.make_url(postgresql_url).set(username=role, password="open-sesame")
    store = open_store(url.render_as_string(hide_password=False), 0)
    with pytest.raises(StoreError, match="permission denied") as caught:
        store.put(BLOB, b"x")
    assert "sesame" not in str(caught.value)
    assert open_store(postgresql_url, 0).get(BLOB) is None
    with administrator(postgresql_url) as connection:
        connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON sitemapx TO {role}")
    store.put(BLOB, b"x")
    assert store.get(BLOB) == b"x"
    del store  # its connection would keep the role


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_psycopg_is_the_driver_of_addresses_that_name_none(postgresql_url, scheme):
    store = open_store(postgresql_url.replace("postgresql+psycopg", scheme), 0)
    assert isinstance(store, SqlStore)
    store.put(BLOB, b"x")
    assert store.get(BLOB) == b"x"
    assert store._engine.driver == "psycopg"


def test_a_statement_that_waits_for_too_long_is_given_up(postgresql_url):
    open_store(postgresql_url, 0).put(BLOB, b"x")
    store = open_store(f"{postgresql_url}?options=-c%20statement_timeout%3D100", 0)
    with administrator(postgresql_url) as connection, connection.transaction():
        connection.execute("LOCK TABLE sitemapx")
        with pytest.raises(StoreError, match=r"postgresql: .*statement timeout"):
            store.get(BLOB)
    assert store.get(BLOB) == b"x"


def test_statements_and_connections_have_five_seconds(postgresql_url):
    store = SqlStore.at(postgresql_url)
    with store._engine.connect() as connection:
        assert connection.execute(sa.text("SHOW statement_timeout")).scalar() == "5s"
        driver: Any = connection.connection.driver_connection
        assert driver.info.get_parameters()["connect_timeout"] == "5"


def test_a_server_that_is_silent_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        store = open_store(f"postgresql://127.0.0.1:{port}/maps?connect_timeout=2", 0)  # no less is possible
        with pytest.raises(StoreError, match=r"postgresql: .*timeout"):
            store.get(BLOB)


def test_keys_sort_by_bytes_whatever_the_database_sorts_by(postgresql_url):
    store = SqlStore.at(postgresql_url)
    store.put(BLOB, b"x")
    with administrator(postgresql_url) as connection:
        query = "SELECT collation_name FROM information_schema.columns WHERE table_name = 'sitemapx'"
        assert connection.execute(f"{query} AND column_name = 'key'").fetchall() == [("C",)]
