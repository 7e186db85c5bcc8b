"""A registered section as a build pulls it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from ..errors import ConfigurationError
from ..protocol.entries import Columns
from .awaiting import Awaiting, EnsureSync, awaited, in_asyncio
from .defaults import Defaults
from .items import Items, Urls
from .languages import Languages
from .parts import NamedPart, Part, Past, Plan
from .registry import Item, Section


class SectionSource:
    """A section with what its items need: *urls*, the *view_defaults* of endpoints, the *endpoint* of its mappings.

    *ensure_sync* runs what is asynchronous of it, *languages* are those of the site.
    """

    def __init__(
        self,
        section: Section,
        urls: Urls | None = None,
        view_defaults: Callable[[str], Defaults | None] = lambda endpoint: None,
        endpoint: str | None = None,
        ensure_sync: EnsureSync = in_asyncio,
        languages: Languages | None = None,
    ) -> None:
        self.name = section.name
        self.endpoint = endpoint
        self._section = section
        self._urls = urls
        self._view_defaults = view_defaults
        self._ensure_sync = ensure_sync
        self._languages = languages

    def rule(self) -> None:
        """Its items may be of any endpoint."""

    def plan(self, past: Past) -> Plan:
        """One part, or one for each key that the section's ``shards`` gives."""
        known = {part.key: part.version for part in past.parts}
        if self._section.shards is None:
            version = awaited(self._section.version(), self._ensure_sync) if self._section.version else None
            # Whatever the version says, somebody knows better.
            stands = None if past.is_touched else known.get("")
            return Plan([self._whole(_text(version), stands)])
        return Plan([self._keyed(text, key, version, known.get(text)) for text, (key, version) in self._keys().items()])

    def part(self, key: str, following: str | None) -> Part:
        if self._section.shards is None:
            return self._whole()
        keys = self._keys()
        return self._keyed(key, *keys[key]) if key in keys else NamedPart(key, lambda: iter(()))

    def _whole(self, version: str | None = None, known: str | None = None) -> NamedPart:
        return NamedPart("", partial(self._columns, self._section.function), version, known, is_cut=True)

    def _keyed(self, text: str, key: object, version: object, known: str | None = None) -> NamedPart:
        pulled = partial(self._columns, partial(self._section.function, key))
        return NamedPart(text, pulled, _text(version), known)

    def _keys(self) -> dict[str, tuple[Any, Any]]:
        """Key and version of each shard, by the text of the key."""
        assert self._section.shards is not None
        keys: dict[str, tuple[Any, Any]] = {}
        with Awaiting(self._ensure_sync) as awaiting:
            for given in awaiting.items(self._section.shards()):
                key, version = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
                if str(key) in keys:
                    raise ConfigurationError(f"section {self.name!r}: shards gives the key {str(key)!r} twice")
                keys[str(key)] = key, version
        return keys

    def _columns(self, function: Callable[[], Iterable[Item]]) -> Iterator[Columns]:
        """All entries, pulled as they are asked for; what *function* returns is closed in any case."""
        with Awaiting(self._ensure_sync) as awaiting:
            items = Items(
                self._urls, self._section.defaults, self._view_defaults, self.endpoint, awaiting, self._languages
            )
            pulled = awaiting.items(function())
            try:
                yield from items.columns(pulled)
            finally:
                if close := getattr(pulled, "close", None):
                    close()


def _text(version: object) -> str | None:
    return None if version is None else repr(version)
