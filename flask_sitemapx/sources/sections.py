"""A registered section as a build pulls it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..protocol.entries import Columns
from .items import Items, Urls
from .registry import Defaults, Section


class SectionSource:
    """A section with what its items need: *urls*, the *view_defaults* of endpoints, the *endpoint* of its mappings."""

    def __init__(
        self,
        section: Section,
        urls: Urls | None = None,
        view_defaults: Callable[[str], Defaults | None] = lambda endpoint: None,
        endpoint: str | None = None,
    ) -> None:
        self.name = section.name
        self.endpoint = endpoint
        self._section = section
        self._urls = urls
        self._view_defaults = view_defaults

    def version(self) -> str | None:
        """A text that stands while the section's version does, or None if it has none."""
        value = self._section.version() if self._section.version else None
        return None if value is None else repr(value)

    def columns(self) -> Iterator[Columns]:
        """All entries, pulled as they are asked for; the function is closed in any case."""
        items = Items(self._urls, self._section.defaults, self._view_defaults, self.endpoint)
        pulled = self._section.function()
        try:
            yield from items.columns(pulled)
        finally:
            if close := getattr(pulled, "close", None):
                close()
