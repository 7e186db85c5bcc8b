"""Sections of the type `python`: registered in code, or functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import ConfigurationError, shown
from ...extension import FlaskApplication
from ...middleware import PlainApplication
from ...sources.parts import Source
from ...sources.registry import Registry, Section
from ...sources.sections import SectionSource
from ..imports import IMPORT, imported
from ..options import TEXT, option
from .kind import Place
from .scoped import scoped


@dataclass(frozen=True)
class PythonKind:
    """Entries that code yields."""

    source: str = option(
        IMPORT,
        "What is imported: a function that yields entries, a `Registry` or a `Sitemap`, such as `shop.pages:pages`; "
        "with `()` behind it is called for it.",
    )
    section: str | None = option(
        TEXT, "Which section of a `Registry` or `Sitemap`. Default: that of the same name, or the only one.", None
    )

    def sources(self, place: Place) -> Sequence[Source]:
        found = imported(self.source, place.directory)
        if isinstance(found, Registry):
            return [self._registered(found, place)]
        if callable(found) and self.section is None:
            return [SectionSource(Section(place.name, found))]
        raise ConfigurationError(
            f"{self.source} is {shown(found)}; what is wanted is a function, or a Registry or Sitemap with its section"
        )

    def _registered(self, registry: Registry, place: Place) -> Source:
        apps: list[Any] = getattr(registry, "apps", [])
        application = FlaskApplication(apps[0], registry) if len(apps) == 1 else PlainApplication(registry, {})
        sources = {source.name: source for source in application.sources(place.base, place.settings)}
        name = self.section or self._only(registry, place.name)
        if name not in sources:
            raise ConfigurationError(f"{self.source} has no section {name!r}; there are {', '.join(sources)}")
        return scoped(place, sources[name], application)

    @staticmethod
    def _only(registry: Registry, name: str) -> str:
        return next(iter(registry.sections)) if len(registry.sections) == 1 else name
