"""A section of an application, read in that application's context."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial

from ...binding import Application
from ...protocol.entries import Columns
from ...sources.parts import Part, Past, Plan, Source
from .kind import Place

Scope = Callable[[], AbstractContextManager[object]]


def scoped(place: Place, source: Source, application: Application) -> Source:
    """*source* of *application* as the section at *place*."""
    return _Scoped(place.name, source, partial(application.scope, place.base))


class _Scoped:
    def __init__(self, name: str, source: Source, scope: Scope) -> None:
        self.name = name
        self.endpoint = source.endpoint
        self.rule = source.rule
        self._source = source
        self._scope = scope

    def plan(self, past: Past) -> Plan:
        with self._scope():
            plan = self._source.plan(past)
            return Plan([_ScopedPart(part, self._scope) for part in plan.parts], plan.memo)

    def part(self, key: str, following: str | None) -> Part:
        with self._scope():
            return _ScopedPart(self._source.part(key, following), self._scope)


class _ScopedPart:
    def __init__(self, part: Part, scope: Scope) -> None:
        self.key = part.key
        self.is_unchanged = part.is_unchanged
        self.is_cut = part.is_cut
        self._part = part
        self._scope = scope

    def columns(self) -> Iterator[Columns]:
        with self._scope():
            yield from self._part.columns()

    def version(self) -> str | None:
        with self._scope():
            return self._part.version()
