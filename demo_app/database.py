"""The atlas in SQLite: its schema, a connection for each application context, and what is asked of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from flask import current_app, g
from werkzeug.exceptions import ServiceUnavailable

BUSY_SECONDS = 10.0
SCHEMA = """
CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE blocks (
    first INTEGER PRIMARY KEY, last INTEGER NOT NULL, name TEXT NOT NULL, slug TEXT NOT NULL UNIQUE,
    script TEXT NOT NULL, count INTEGER NOT NULL, sample INTEGER NOT NULL
);
CREATE TABLE characters (code INTEGER PRIMARY KEY, name TEXT NOT NULL, block INTEGER NOT NULL REFERENCES blocks);
CREATE TABLE notes (code INTEGER PRIMARY KEY REFERENCES characters, text TEXT NOT NULL, edited_at TEXT NOT NULL);
CREATE TABLE edits (
    id INTEGER PRIMARY KEY, code INTEGER NOT NULL REFERENCES characters, at TEXT NOT NULL,
    seconds REAL, changed TEXT, kept INTEGER
);
"""
_CHARACTER = """
    SELECT characters.code, characters.name, blocks.script, blocks.name AS block, blocks.slug AS block_slug
    FROM characters JOIN blocks ON blocks.first = characters.block
"""
# Words as they begin anywhere in a name: "sun" finds SUN and SUNFLOWER, not TSUNG.
_WORD = "(' ' || replace(characters.name, '-', ' ')) LIKE '% ' || ? || '%'"


def connect(path: Path) -> sqlite3.Connection:
    """A connection that waits for others instead of failing; *path* must exist."""
    connection = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=BUSY_SECONDS)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def connection() -> sqlite3.Connection:
    """The connection of the application context at hand."""
    if "connection" not in g:
        path = current_app.config["DATABASE"]
        if not path.exists():
            raise ServiceUnavailable(f"There is no atlas at {path} yet: run python -m demo_app.prepare")
        g.connection = connect(path)
    opened: sqlite3.Connection = g.connection
    return opened


def close_connection(error: BaseException | None = None) -> None:
    if opened := g.pop("connection", None):
        opened.close()


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# What the sitemap asks


def every_block() -> Iterator[sqlite3.Row]:
    yield from connection().execute("SELECT slug FROM blocks ORDER BY first")


def every_character() -> Iterator[tuple[int, str]]:
    """Code point and time of the latest edit, or the date of the data, one at a time in the order of code points."""
    yield from connection().execute(
        "SELECT code, coalesce(edited_at, (SELECT value FROM facts WHERE key = 'dated')) "
        "FROM characters LEFT JOIN notes USING (code) ORDER BY code"
    )


def edition() -> tuple[str, int]:
    """Equal for as long as no page of a character changes: when it was all made, and the number of the last edit."""
    (last,) = connection().execute("SELECT coalesce(max(id), 0) FROM edits").fetchone()
    return fact("prepared_at"), last


def fact(key: str) -> str:
    (value,) = connection().execute("SELECT value FROM facts WHERE key = ?", (key,)).fetchone()
    return str(value)


# What pages ask


def totals() -> sqlite3.Row:
    row: sqlite3.Row = (
        connection().execute("SELECT count(*) AS blocks, sum(count) AS characters FROM blocks").fetchone()
    )
    return row


def blocks() -> list[sqlite3.Row]:
    return connection().execute("SELECT * FROM blocks ORDER BY first").fetchall()


def block(slug: str) -> sqlite3.Row | None:
    row: sqlite3.Row | None = connection().execute("SELECT * FROM blocks WHERE slug = ?", (slug,)).fetchone()
    return row


def block_beside(first: int, *, after: bool) -> sqlite3.Row | None:
    condition = "first > ? ORDER BY first" if after else "first < ? ORDER BY first DESC"
    return _one(f"SELECT * FROM blocks WHERE {condition} LIMIT 1", first)  # noqa: S608 - one of two constants


def characters_of(first: int, offset: int, limit: int) -> list[sqlite3.Row]:
    query = f"{_CHARACTER} WHERE characters.block = ? ORDER BY characters.code LIMIT ? OFFSET ?"
    return connection().execute(query, (first, limit, offset)).fetchall()


def character(code: int) -> sqlite3.Row | None:
    return _one(f"{_CHARACTER} WHERE characters.code = ?", code)


def character_beside(code: int, *, after: bool) -> sqlite3.Row | None:
    condition = "characters.code > ? ORDER BY" if after else "characters.code < ? ORDER BY -"
    return _one(f"{_CHARACTER} WHERE {condition} characters.code LIMIT 1", code)


def those(codes: Iterable[int]) -> list[sqlite3.Row]:
    """The assigned ones of *codes*, in their order."""
    return [row for code in codes if (row := character(code))]


def named(words: list[str], limit: int) -> tuple[int, list[sqlite3.Row]]:
    """How many names hold all *words*, and the first of them: the very name, then the shortest."""
    condition = " AND ".join([_WORD] * len(words))
    counted = f"SELECT count(*) FROM characters WHERE {condition}"  # noqa: S608 - constants
    (total,) = connection().execute(counted, words).fetchone()
    query = f"{_CHARACTER} WHERE {condition} ORDER BY length(characters.name), characters.code LIMIT ?"
    return total, connection().execute(query, (*words, limit)).fetchall()


def note(code: int) -> sqlite3.Row | None:
    return _one("SELECT text, edited_at FROM notes WHERE code = ?", code)


def edits(limit: int) -> list[sqlite3.Row]:
    query = "SELECT edits.*, characters.name FROM edits JOIN characters USING (code) ORDER BY id DESC LIMIT ?"
    return connection().execute(query, (limit,)).fetchall()


def edit(number: int) -> sqlite3.Row | None:
    return _one("SELECT * FROM edits WHERE id = ?", number)


# What an edit writes


def save_note(code: int, text: str) -> int:
    """Keep *text* as the note of a page, and return the number of the edit."""
    at = now()
    with connection() as writing:
        writing.execute(
            "INSERT INTO notes (code, text, edited_at) VALUES (?, ?, ?) "
            "ON CONFLICT (code) DO UPDATE SET text = excluded.text, edited_at = excluded.edited_at",
            (code, text, at),
        )
        number = writing.execute("INSERT INTO edits (code, at) VALUES (?, ?)", (code, at)).lastrowid
    return number or 0


def save_outcome(number: int, seconds: float, changed: Iterable[str], kept: int) -> None:
    """Keep what an edit did to the sitemap: the documents that changed, and how many did not."""
    with connection() as writing:
        writing.execute(
            "UPDATE edits SET seconds = ?, changed = ?, kept = ? WHERE id = ?",
            (seconds, " ".join(changed), kept, number),
        )


def _one(query: str, *values: int) -> sqlite3.Row | None:
    row: sqlite3.Row | None = connection().execute(query, values).fetchone()
    return row
