"""The sites of a file, each bound by itself, and which of them a request means."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import unquote_to_bytes

from ..binding import Binding, Front
from ..middleware import PlainApplication
from ..protocol.locs import BaseUrl
from ..serving.representation import Response, refusal
from ..settings import PREFIX, Settings
from ..sources.parts import Part, Past, Source
from ..sources.registry import Registry
from .configuration import Configuration, Site, state
from .databases import Databases
from .kinds.kind import Kind, Place

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

logger = logging.getLogger(__name__)


class Sites(Mapping[str, Binding]):
    """The bindings of all sites by name, and the WSGI application that asks the one that a request means.

    A site alone answers whatever the host of a request is; several are told apart by it, and an unknown one gets 400.
    """

    def __init__(self, configuration: Configuration, environ: Mapping[str, str]) -> None:
        addresses = {name: database.value for name, database in configuration.databases.items()}
        databases = Databases(addresses, environ)
        place = partial(Place, directory=configuration.directory, environ=environ, engine=databases.engine)
        self._bindings = {name: _bound(site, place) for name, site in configuration.sites.items()}
        fronts = [_Mounted(site.base, self._bindings[name]) for name, site in configuration.sites.items()]
        self._hosts = _by_host(fronts)
        self._only = next(iter(self._hosts.values())) if len({front.host for front in fronts}) == 1 else None

    def __getitem__(self, name: str) -> Binding:
        return self._bindings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._bindings)

    def __len__(self) -> int:
        return len(self._bindings)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        fronts = self._only or self._of_host(environ.get("HTTP_HOST", ""))
        if fronts is None:
            return answered(refusal("400 Bad Request", "No site of this host is here."), environ, start_response)
        path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
        front = next((front for front in fronts if path.startswith(front.mount + "/")), fronts[-1])
        return front(environ, start_response)

    def _of_host(self, host: str) -> list[_Mounted] | None:
        host = host.lower()
        name = _PORT.sub("", host).removesuffix(".")  # the root's dot is part of no URL
        return self._hosts.get(host) or self._hosts.get(name)


_PORT = re.compile(r":[0-9]*\Z", re.ASCII)


class _Mounted(Front):
    """The front of a site, which also finds its mount point as part of the path."""

    def __init__(self, base: BaseUrl, binding: Binding) -> None:
        super().__init__(_nothing, binding)
        self.host = base.origin.partition("://")[2]
        # PEP 3333: the bytes of paths, decoded from percents and read as latin-1
        self.mount = unquote_to_bytes(base.mount).decode("latin-1")

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if self.mount:
            path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
            if path.startswith(self.mount + "/"):
                environ = {**environ, "SCRIPT_NAME": self.mount, "PATH_INFO": path.removeprefix(self.mount)}
        return super().__call__(environ, start_response)


def _by_host(fronts: Sequence[_Mounted]) -> dict[str, list[_Mounted]]:
    """The fronts of each host, the longest mount point first; the port may be left out where that is enough."""
    hosts: dict[str, list[_Mounted]] = {}
    for front in sorted(fronts, key=lambda front: -len(front.mount)):
        hosts.setdefault(front.host, []).append(front)
    names = Counter(_PORT.sub("", host) for host in hosts)
    return hosts | {name: of_host for host, of_host in hosts.items() if names[name := _PORT.sub("", host)] == 1}


def _nothing(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    return answered(refusal("404 Not Found", "Here are /sitemap.xml and /robots.txt."), environ, start_response)


def answered(response: Response, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    start_response(response.status, response.headers)
    return () if environ["REQUEST_METHOD"] == "HEAD" else response.body


def _bound(site: Site, place: partial[Place]) -> Binding:
    registry = Registry()
    for group in site.robots:
        state(registry.robots, group)
    binding = Binding(SiteApplication(site, place, registry), registry)
    binding.services()
    return binding


class SiteApplication(PlainApplication):
    """A site of the file as its binding sees it."""

    def __init__(self, site: Site, place: partial[Place], registry: Registry) -> None:
        config = {PREFIX + name.upper(): setting.value for name, setting in site.settings.items()}
        super().__init__(registry, {**config, f"{PREFIX}HOOKS": False})
        self._sections = site.sections
        self._place = place

    name = "sitemap.toml"

    def names(self) -> list[str]:
        return [*self._sections]

    def sources(self, base: BaseUrl, settings: Settings) -> Sequence[Source]:
        place = partial(self._place, base=base, settings=settings)
        return [self._source(place(name=name), kind) for name, kind in self._sections.items()]

    def _source(self, place: Place, kind: Kind) -> Source:
        try:
            (source,) = kind.sources(place)
        except Exception as error:  # of a library that is missing, or of an application that is imported
            logger.debug("sitemap: section %r", place.name, exc_info=True)
            return Failing(place.name, error)
        return source

    def parts(self) -> Iterable[object]:
        yield from self._sections.items()

    def empty(self) -> str:
        return "There is nothing to list: no section of the file has entries."


class Failing:
    """A section that cannot be had, so that the others can."""

    endpoint = None

    def __init__(self, name: str, error: Exception) -> None:
        self.name = name
        self._error = error

    def rule(self) -> None:
        """Nothing is read."""

    def plan(self, past: Past) -> NoReturn:
        raise self._error

    def part(self, key: str, following: str | None) -> Part:
        return self.plan(Past(0, 0, 0))
