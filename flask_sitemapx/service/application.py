"""The service as a WSGI application, from the file and the environment."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..binding import Binding
from ..errors import ConfigurationError
from ..protocol.robots import Robots
from ..serving.publisher import ROBOTS_PATH
from ..serving.representation import TEXT, Response, refusal
from .configuration import Configuration, configuration
from .keeping import Keeper
from .operations import Operations
from .sites import Sites, answered

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

logger = logging.getLogger(__name__)

VARIABLE = "SITEMAP_CONFIG"
NAME = "sitemap.toml"
_WHAT_TO_WRITE = f"""\
There is no {NAME} yet. `flask-sitemapx init` writes one with comments; the least that says something is

    base_url = "https://www.example.com"

    [sections.pages]
    type = "urls"
    urls = ["/", "/about"]

Then start the service again, in the same directory or with {VARIABLE}=/the/path/of/{NAME}.
"""


class File(NamedTuple):
    """A file as it was read."""

    path: Path
    text: str


class Service:
    """Answers for all *sites* by *app*, and keeps their sets fresh, in each process from its first request on."""

    def __init__(self, app: WSGIApplication, sites: Mapping[str, Binding]) -> None:
        self.sites = sites
        self._app = app
        self._keeper = Keeper(sites)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if not self._keeper.has_begun:
            self._keeper.begin()
        return self._app(environ, start_response)

    def begin(self) -> None:
        """Keep the sets fresh without waiting for a first request; not before a fork, which threads do not survive."""
        self._keeper.begin()


def create_app(path: str | os.PathLike[str] | None = None, environ: Mapping[str, str] = os.environ) -> Service:
    """The service of the file at *path*, else of that in ``SITEMAP_CONFIG``, else of ``sitemap.toml``.

    Without any it answers with what to write. Raises `ConfigurationError` with all that is wrong with the file.
    """
    file = read(path, environ)
    if file is None:
        logger.warning("sitemap: there is no %s here; `flask-sitemapx init` writes one", NAME)
        return Service(Operations(_without_file, {}, environ), {})
    sites = Sites(configured(file, environ), environ)
    return Service(Operations(sites, sites, environ), sites)


def configured(file: File, environ: Mapping[str, str] = os.environ) -> Configuration:
    """What *file* says; raises `ConfigurationError` with all that is wrong with it."""
    return configuration(file.text, file.path, environ)


def read(path: str | os.PathLike[str] | None, environ: Mapping[str, str] = os.environ) -> File | None:
    """The file at *path* or where *environ* has it, as `remember` last saw it; None if there is none and none is named.

    Raises `ConfigurationError` for one that is named and cannot be read.
    """
    named = path or environ.get(VARIABLE) or None
    place = Path(named or NAME).absolute()
    if place in _remembered:
        return _remembered[place]
    try:
        return File(place, place.read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        if named is None and isinstance(error, FileNotFoundError):
            return None
        raise ConfigurationError(f"{place} cannot be read: {getattr(error, 'strerror', None) or error}") from None


_remembered: dict[Path, File] = {}


def remember(environ: Mapping[str, str] = os.environ) -> None:
    """Read the file now for this process and all that it forks; one that cannot be used leaves the last one in force.

    For gunicorn's master, which so finds a broken file before its workers do. Raises `ConfigurationError` if there is
    no last one.
    """
    last = dict(_remembered)
    _remembered.clear()
    try:
        file = read(None, environ)
        if file is None and last:
            raise ConfigurationError(f"{NAME} is gone")
        if file is not None:
            configured(file, environ)
            _remembered[file.path] = file
    except ConfigurationError as error:
        if not last:
            raise
        _remembered.update(last)
        logger.error("sitemap: the last file goes on being served, since this one cannot be used:\n%s", error)


def _without_file(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    path = environ.get("PATH_INFO", "")
    if path == ROBOTS_PATH:
        return answered(_text(Robots().text()), environ, start_response)
    if path in ("", "/"):
        return answered(_text(_WHAT_TO_WRITE), environ, start_response)
    response = refusal("404 Not Found", f"There is no {NAME} yet; / says what to write.")
    return answered(response, environ, start_response)


def _text(text: str) -> Response:
    headers = [("Content-Type", TEXT), ("Content-Length", str(len(text))), ("Cache-Control", "no-store")]
    return Response("200 OK", headers, (text.encode(),))
