"""Entries of another site's sitemap as those of ours: with our addresses, and what they state beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from ..errors import InvalidEntry
from ..protocol.entries import Columns
from ..protocol.read_extensions import NO_EXTENSIONS, Moved, extras_of
from ..protocol.reader import Problem, ReadEntry
from .items import BATCH

OF_DOCUMENTS = frozenset({"namespace", "doctype", "gzip-twice", "gzip-trailing", "space-before-xml"})
"""Rules of the reader that no entry breaks."""


class Moves:
    """Addresses below one of the base URLs *replace*, moved to the path *at* of our site; others stay as they are.

    moved = Moves(["http://app.internal:8000"], "/blog")
    moved("http://app.internal:8000/a?b")    # '/blog/a?b'
    """

    def __init__(self, replace: Sequence[str], at: str) -> None:
        self._replace = replace
        self._at = at.rstrip("/")

    def __call__(self, url: str) -> str:
        return next((self._at + (rest or "/") for base in self._replace if (rest := below(url, base)) is not None), url)


def below(url: str, base: str) -> str | None:
    """What follows the base URL *base* in *url*, or None if it is not below it."""
    rest = url.removeprefix(base)
    if len(rest) == len(url) or (rest and rest[0] not in "/?"):
        return None
    return f"/{rest}" if rest.startswith("?") else rest


def columns_of(entries: Iterable[Any], moved: Moved) -> Iterator[Columns]:
    """The *entries* of a `SitemapReader` as they go on to the gate."""
    iterator = iter(entries)
    while batch := list(islice(iterator, BATCH)):
        yield Columns(
            [moved(entry.loc) for entry in batch],
            [entry.lastmod for entry in batch],
            [entry.changefreq for entry in batch],
            [entry.priority for entry in batch],
            extras=_extras(batch, moved),
        )


def problems_of(problems: Iterable[Problem], address: str) -> list[InvalidEntry]:
    """What is wrong with the entries of the document at *address*."""
    return [
        InvalidEntry(one.rule, f"{address}, line {one.line}", one.explanation, one.explanation)
        for one in problems
        if one.rule not in OF_DOCUMENTS
    ]


def _extras(batch: Sequence[ReadEntry], moved: Moved) -> dict[str, list[Any]]:
    given = [entry.extensions for entry in batch]
    if all(extensions is NO_EXTENSIONS for extensions in given):
        return {}
    extras = [extras_of(extensions, moved) for extensions in given]
    return {name: [one.get(name) for one in extras] for name in set().union(*extras)}
