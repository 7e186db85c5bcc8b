"""`SitemapMiddleware`: a sitemap in front of any WSGI application."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from .binding import Application, Binding, Front
from .errors import ConfigurationError
from .extension import KEY, FlaskApplication, Sitemap
from .protocol.locs import BaseUrl
from .settings import PREFIX, Settings
from .snapshots.snapshot import Snapshot
from .sources.registry import Registry
from .sources.sections import SectionSource

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication


class SitemapMiddleware(Front):
    """The sitemap of a registry, answered in front of *wsgi_app*, which gets all other requests untouched.

        registry = Registry()

        @registry.section("pages")
        def pages():
            yield from ("/", "/about")

        application = SitemapMiddleware(application, registry, base_url="https://example.com")

    A `Sitemap` that is bound to one Flask application, mounted somewhere inside of *wsgi_app*, serves its routes and
    endpoints too. *settings* are those of the package, without their prefix: ``store="file:/a/directory"``; what is not
    given comes from the environment. Without *base_url* each answer takes the site's name from its request. Raises
    `ConfigurationError` for settings that cannot be used.
    """

    def __init__(
        self, wsgi_app: WSGIApplication, registry: Registry, *, base_url: str | None = None, **settings: Any
    ) -> None:
        if KEY in getattr(wsgi_app, "extensions", ()):
            raise ConfigurationError("this application has a Sitemap already, which answers for it; use that alone")
        config = _config(base_url=base_url, **settings)
        self._bound = Binding(_application(registry, config), registry)
        self._bound.services()
        super().__init__(wsgi_app, self._bound)

    def build(self) -> Snapshot:
        """Build and publish a new set now, in this thread, and return it. Raises `BuildFailed` if a section fails."""
        return self._bound.refresher().build()

    def touch(self, section: str) -> None:
        """Say that the entries of *section* changed: the next request waits for them to be read again."""
        self._bound.touch(section)

    def status(self) -> dict[str, Any]:
        """What is served and what is wrong with it, as plain values that JSON can hold."""
        return self._bound.status()


class PlainApplication:
    """An application of which nothing is known."""

    name = "wsgi"
    is_wrapped = False
    shows_errors = False
    mount = ""
    trusted_hosts: Iterable[str] = ()

    def __init__(self, registry: Registry, config: dict[str, Any]) -> None:
        self.config = config
        self._registry = registry

    def base_url(self) -> None:
        return None

    def names(self) -> list[str]:
        return [*self._registry.sections]

    def sources(self, base: BaseUrl, settings: Settings) -> Sequence[SectionSource]:
        return [SectionSource(section, endpoint=section.endpoint) for section in self._registry.sections.values()]

    def scope(self, base: BaseUrl) -> AbstractContextManager[None]:
        return nullcontext()

    def size(self) -> int:
        return 0

    def parts(self) -> Iterable[object]:
        return ()

    def owner(self, path: str, base: BaseUrl | None) -> None:
        return None

    def leave(self, path: str) -> None:
        """Nothing of ours stands in the way of an application behind us."""

    def empty(self) -> str:
        return "There is nothing to list: no section has entries."


def _config(**settings: Any) -> dict[str, Any]:
    known = [spec.name for spec in fields(Settings)]
    for name in settings:
        if name not in known:
            raise ConfigurationError(f"there is no setting {name!r}; there are {', '.join(known)}")
    return {PREFIX + name.upper(): value for name, value in settings.items()}


def _application(registry: Registry, config: dict[str, Any]) -> Application:
    apps = registry.apps if isinstance(registry, Sitemap) else []
    if len(apps) > 1:
        names = ", ".join(repr(app.name) for app in apps)
        raise ConfigurationError(
            f"this Sitemap is bound to several applications ({names}); give one of its own to each"
        )
    return FlaskApplication(apps[0], registry, config) if apps else PlainApplication(registry, config)
