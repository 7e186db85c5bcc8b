"""Sections of the type `flask`: the url_map of an application, or a section of its `Sitemap`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flask import Flask

from ...errors import ConfigurationError, shown
from ...extension import KEY, FlaskApplication
from ...sources.parts import Source
from ...sources.registry import ROUTES, Registry
from ..imports import IMPORT, imported
from ..options import TEXT, TEXTS, one_of, option
from .kind import Place
from .scoped import scoped


@dataclass(frozen=True)
class FlaskKind:
    """The pages of a Flask application, which is imported, and serves nothing."""

    app: str = option(IMPORT, "The application that is imported: `shop:app`, or `shop:create_app()`.")
    section: str = option(
        TEXT, "Which section, if the application has a `Sitemap` with sections; `routes` is its url_map.", ROUTES
    )
    routes: str = option(
        one_of("auto", "all", "marked"),
        "Which views are listed: `auto`, those that look like public pages; `all` whose address is complete; or only "
        "those `marked` by `@sitemap.include` or `include`.",
        "auto",
    )
    include: tuple[str, ...] = option(
        TEXTS, "Views that are listed: patterns such as `blog.*` over endpoints, blueprints' names and paths.", ()
    )
    exclude: tuple[str, ...] = option(TEXTS, "Views that are not listed, likewise.", ())
    words: tuple[str, ...] | None = option(
        TEXTS, "Words in paths and endpoints that `auto` takes for no public page, in place of its own.", None
    )

    def sources(self, place: Place) -> Sequence[Source]:
        app = imported(self.app, place.directory)
        if not isinstance(app, Flask):
            raise ConfigurationError(f"{self.app} is {shown(app)}, not a Flask application")
        application = FlaskApplication(app, app.extensions[KEY].registry if KEY in app.extensions else Registry())
        if self.section not in application.names():
            names = ", ".join(application.names())
            raise ConfigurationError(f"{self.app} has no section {self.section!r}; there are {names}")
        settings = replace(
            place.settings, routes=self.routes, include=self.include, exclude=self.exclude, words=self.words
        )
        sources = application.sources(place.base, settings)
        return [scoped(place, next(source for source in sources if source.name == self.section), application)]
