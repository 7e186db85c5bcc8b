"""Makes the atlas's database, if there is none, and its first sitemap: ``python -m demo_app.prepare``."""

from __future__ import annotations

import os
import re
import sqlite3
import sys
import tempfile
import time
import unicodedata
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from . import DATABASE, create_app, data_directory
from .database import SCHEMA, now
from .listing import sitemap

# When the data of these versions was published: since then, what a page tells of its character has not changed.
PUBLISHED = {
    "14.0.0": "2021-09-14",
    "15.0.0": "2022-09-13",
    "15.1.0": "2023-09-12",
    "16.0.0": "2024-09-10",
    "17.0.0": "2025-09-09",
}
# The Unicode Standard, 4.8, rule NR2: these names are made from the code point, and Python may lack them.
IDEOGRAPHS = {
    "Tangut": "TANGUT IDEOGRAPH",
    "Tangut Supplement": "TANGUT IDEOGRAPH",
    "Egyptian Hieroglyphs Extended-A": "EGYPTIAN HIEROGLYPH",
}
NOT_CHARACTERS = frozenset({"Cs", "Co", "Cn"})  # surrogates, private use, unassigned


@dataclass(frozen=True, slots=True)
class Block:
    first: int
    last: int
    name: str
    script: str

    @property
    def slug(self) -> str:
        return re.sub("[^a-z0-9]+", "-", self.name.lower())


def prepare(path: Path, last: int = sys.maxunicode) -> bool:
    """Make the database at *path* with all characters up to the code point *last*; False if there is one already.

    It appears whole or not at all, and of two processes that make it at the same time one succeeds.
    """
    if path.exists():
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="preparing-") as folder:
        built = Path(folder) / path.name
        with closing(sqlite3.connect(built)) as connection:
            _fill(connection, last)
        with suppress(FileExistsError):
            os.link(built, path)
            return True
    return False


def blocks() -> Iterator[Block]:
    """The blocks of Unicode, as in its Blocks.txt, with the ISO 15924 code of the script that most of each is in."""
    for line in Path(__file__).with_name("blocks.tsv").read_text("utf-8").splitlines():
        first, last, name, script = line.split("\t")
        yield Block(int(first, 16), int(last, 16), name, script)


def characters(block: Block, last: int) -> Iterator[tuple[int, str]]:
    """Code points and names of what is assigned in *block*."""
    for code in range(block.first, min(block.last, last) + 1):
        if unicodedata.category(chr(code)) not in NOT_CHARACTERS:
            yield code, name(code, block)


def name(code: int, block: Block) -> str:
    """The name of a character; where it has none, its code point with what it is."""
    if known := unicodedata.name(chr(code), ""):
        return known
    if unicodedata.category(chr(code)) == "Cc":
        return f"U+{code:04X} (control)"
    return f"{IDEOGRAPHS.get(block.name, block.name.upper())}-{code:04X}"


def sample(codes: list[int]) -> int:
    """The character that stands for a block: a letter, else one that can be seen; the first are often unusual ones."""
    for kinds in ("L", "SNP", "MCZ"):
        if found := [code for code in codes if unicodedata.category(chr(code))[0] in kinds]:
            return found[len(found) // 3]
    return codes[0]


def _fill(connection: sqlite3.Connection, last: int) -> None:
    # No journal: a file that is not finished is never seen, and the next attempt begins anew.
    connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + SCHEMA)
    for block in blocks():
        rows = list(characters(block, last))
        if rows:
            codes = [code for code, _ in rows]
            connection.execute(
                "INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?)",
                (block.first, block.last, block.name, block.slug, block.script, len(rows), sample(codes)),
            )
            connection.executemany(
                "INSERT INTO characters VALUES (?, ?, ?)", ((code, name, block.first) for code, name in rows)
            )
    version = unicodedata.unidata_version
    prepared_at = now()
    facts = {"unicode": version, "prepared_at": prepared_at, "dated": PUBLISHED.get(version, prepared_at)}
    connection.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())
    connection.commit()
    # Readers and a writer do not wait for each other; the mode stays with the file.
    connection.execute("PRAGMA journal_mode = WAL")


def main() -> None:
    begun = time.perf_counter()
    path = data_directory() / DATABASE
    done = "made" if prepare(path) else "is there already"
    print(f"The atlas {done}: {path} ({time.perf_counter() - begun:.1f} s)")
    snapshot = sitemap.refresh(create_app())
    print(f"The sitemap has {snapshot.count:,} pages, built in {snapshot.seconds:.1f} s")


if __name__ == "__main__":
    main()
