"""`SitemapMiddleware`: a sitemap in front of any WSGI application."""

from __future__ import annotations

import contextvars
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from .binding import Application, Binding, Front
from .errors import ConfigurationError
from .extension import KEY, FlaskApplication, Sitemap
from .protocol.locs import BaseUrl
from .serving.publisher import ROBOTS_PATH
from .settings import PREFIX, Settings
from .snapshots.snapshot import Snapshot
from .sources.languages import Languages, languages_of
from .sources.parts import Source
from .sources.registry import Registry, Section
from .sources.sections import SectionSource

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

    from .sources.tables import Table

_HOOKS = "hooks"
_OF_ROUTES = ("routes", "include", "exclude", "words")


class SitemapMiddleware(Front):
    """The sitemap of a registry, answered in front of *wsgi_app*, which gets all other requests untouched.

        registry = Registry()

        @registry.section("pages")
        def pages():
            yield from ("/", "/about")

        application = SitemapMiddleware(application, registry, base_url="https://example.com")

    A `Sitemap` that is bound to one Flask application, mounted somewhere inside of *wsgi_app*, serves its routes and
    endpoints too; then *base_url* includes where that is. *settings* are those of the package, in lower case without
    their prefix: ``store="file:/a/directory"``; what is not given comes from the environment. Without *base_url* each
    answer takes the site's name and mount point from its request. Raises `ConfigurationError` for what cannot be used.
    """

    def __init__(
        self, wsgi_app: WSGIApplication, registry: Registry, *, base_url: str | None = None, **settings: Any
    ) -> None:
        if not isinstance(registry, Registry):
            raise ConfigurationError(f"the sections come from a Registry or Sitemap, not from {registry!r}")
        if _is_served(wsgi_app):
            raise ConfigurationError("this application has a Sitemap already, which answers for it; use that alone")
        binding = Binding(_application(registry, {"base_url": base_url, **settings}), registry)
        base = binding.services().hosts.fixed
        if base is None and not isinstance(binding.application, PlainApplication):
            raise ConfigurationError(
                f"where {binding.application.name!r} is mounted is not known; "
                "give base_url='https://www.example.com/mount'"
            )
        super().__init__(wsgi_app, binding)
        # PEP 3333: the bytes of paths, decoded from percents and read as latin-1
        self._mount = unquote_to_bytes(base.mount).decode("latin-1") if base else ""
        self._prefixes = (f"{self._mount}/sitemap", self._mount + ROBOTS_PATH) if self._mount else ()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if self._prefixes:
            path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
            if path.startswith(self._prefixes):
                return self._below_mount(environ, start_response, path.removeprefix(self._mount))
        return super().__call__(environ, start_response)

    def _below_mount(self, environ: WSGIEnvironment, start_response: StartResponse, path: str) -> Iterable[bytes]:
        """The answer to a request whose mount point is still part of its path, as it is outside of a dispatcher."""
        front = Front(lambda _, start: self._app(environ, start), self._binding)
        return front({**environ, "SCRIPT_NAME": self._mount, "PATH_INFO": path}, start_response)

    def build(self) -> Snapshot:
        """Build and publish a new set now, in this thread, and return it. Raises `BuildFailed` if a section fails."""
        # In a context of its own: a section finds the same whoever asks for the build.
        return contextvars.Context().run(self._binding.refresher().build)

    def touch(self, section: str) -> None:
        """Say that the entries of *section* changed: the next request waits for them to be read again."""
        self._binding.touch(section)

    def status(self) -> dict[str, Any]:
        """What is served and what is wrong with it, as plain values that JSON can hold."""
        return self._binding.status()


class PlainApplication:
    """An application of which nothing is known."""

    is_wrapped = False
    shows_errors = False
    mount = ""
    trusted_hosts: Iterable[str] = ()

    def __init__(self, registry: Registry, config: dict[str, Any]) -> None:
        self.config = config
        self._registry = registry

    @property
    def name(self) -> str:
        """What tells it from others that share a store: where its first section is from. Later ones come behind."""
        first = next(iter(self._registry.sections.values()), None)
        return f"{getattr(first, 'function', self).__module__}:{first.name}" if first else "wsgi"

    def base_url(self) -> None:
        return None

    def names(self) -> list[str]:
        return [*self._registry.sections]

    def sources(self, base: BaseUrl, settings: Settings) -> Sequence[Source]:
        languages = languages_of(base, settings.languages) if isinstance(settings.languages, dict) else None
        return [_source(section, settings, languages) for section in self._registry.sections.values()]

    def scope(self, base: BaseUrl) -> AbstractContextManager[None]:
        return nullcontext()

    def size(self) -> int:
        return 0

    def parts(self) -> Iterable[object]:
        return ()

    def owner(self, path: str, base: BaseUrl | None) -> None:
        return None

    def rule_owner(self, path: str) -> None:
        return None

    def leave(self, path: str) -> None:
        """Nothing of ours stands in the way of an application behind us."""

    def empty(self) -> str:
        return "There is nothing to list: no section has entries."


def _source(section: Section | Table, settings: Settings, languages: Languages | None) -> Source:
    if isinstance(section, Section):
        return SectionSource(section, endpoint=section.endpoint, languages=languages)
    from .sources.tables import TableSource

    return TableSource(section, settings.timezone, languages=languages)


def _is_served(wsgi_app: Any) -> bool:
    """Whether *wsgi_app* is answered for already: a Flask application with a Sitemap, its wsgi_app, or one of us."""
    extensions = getattr(wsgi_app, "extensions", None)
    return isinstance(wsgi_app, Front) or (isinstance(extensions, Mapping) and KEY in extensions)


def _application(registry: Registry, settings: Mapping[str, Any]) -> Application:
    apps = registry.apps if isinstance(registry, Sitemap) else []
    if len(apps) > 1:
        names = ", ".join(repr(app.name) for app in apps)
        raise ConfigurationError(
            f"this Sitemap is bound to several applications ({names}); give one of its own to each"
        )
    if not apps:
        return PlainApplication(registry, _config(settings, without=_OF_ROUTES))
    return FlaskApplication(apps[0], registry, _config(settings))


def _config(settings: Mapping[str, Any], without: Iterable[str] = ()) -> dict[str, Any]:
    known = [spec.name for spec in fields(Settings) if spec.name not in (_HOOKS, *without)]
    for name in settings:
        if name not in known:
            raise ConfigurationError(f"a middleware has no setting {name!r}; {_meant(name, known)}")
    given = {PREFIX + name.upper(): value for name, value in settings.items() if value is not None}
    return {**given, f"{PREFIX}{_HOOKS.upper()}": False}  # which it has not, whatever the environment says


def _meant(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name.lower().removeprefix(PREFIX.lower()), known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
