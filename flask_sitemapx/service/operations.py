"""What operators ask the service for beside sitemaps: is it there, is it ready, what did it do, and build anew."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from werkzeug.wsgi import ClosingIterator

from ..binding import Binding
from ..errors import ConfigurationError, StoreError, shown
from ..serving.representation import TEXT, Headers, Response, refusal
from ..settings import switch
from .access import Access, Bucket
from .metrics import Metrics, kind, known
from .sites import answered

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

logger = logging.getLogger(__name__)

DEBUG = "SITEMAP_DEBUG"
BURST, PER_SECOND = 60.0, 1.0
"""As many touches are taken at once by each process, and after them as many in a second."""
_PREFIX = "/-/"
_HEALTH, _READY, _METRICS, _TOUCH, _REFRESH = "/healthz", "/readyz", "/metrics", f"{_PREFIX}touch/", f"{_PREFIX}refresh"


class Operations:
    """Answers what operators ask for, counts all answers of *app*, and says in debug how long they took."""

    def __init__(
        self,
        app: WSGIApplication,
        sites: Mapping[str, Binding],
        environ: Mapping[str, str],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._sites = sites
        self._access = Access.of(environ)
        self._metrics = _metrics(sites)
        self._is_debug = _is_debug(environ)
        self._touches = Bucket(BURST, PER_SECOND, monotonic)
        self._warnings = Bucket(BURST, PER_SECOND, monotonic)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path in (_HEALTH, _READY, _METRICS) or path.startswith(_PREFIX):
            response = self._answer(path, environ)
            if response is not None:
                return answered(response, environ, start_response)
        return self._counted(path, environ, start_response)

    def _counted(self, path: str, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        metrics, what, begun = self._metrics, kind(path), time.perf_counter()
        has_body, is_measured = environ["REQUEST_METHOD"] == "GET", False

        def started(status: str, headers: Headers, *exc_info: Any) -> Callable[[bytes], object]:
            nonlocal has_body, is_measured
            if metrics is not None:
                metrics.count(what, status[:3])
                has_body = has_body and not status.startswith("304")
                if has_body and (length := _length(headers)) is not None:
                    is_measured = True
                    metrics.count_bytes(what, length)
            if self._is_debug:
                took = (time.perf_counter() - begun) * 1e3
                headers = [*headers, ("Server-Timing", f"sitemap;dur={took:.1f}")]
            return start_response(status, headers, *exc_info)

        body = self._app(environ, started)
        if metrics is None or is_measured or not has_body:
            return body
        return _measured(body, lambda length: metrics.count_bytes(what, length))

    # What operators ask for

    def _answer(self, path: str, environ: WSGIEnvironment) -> Response | None:
        """None if there is nothing for who asks: then the answer is that of any path that is not there."""
        if path.startswith(_PREFIX):
            return self._changed(path, environ)
        if path != _HEALTH and not self._access.may_look(environ):
            return None
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return refusal("405 Method Not Allowed", "GET and HEAD only.", [("Allow", "GET, HEAD")])
        if path == _HEALTH:
            return _answer("200 OK", TEXT, b"ok")
        return self._ready() if path == _READY else self._counts()

    def _ready(self) -> Response:
        """Ready is a service with a set of any site: one that has none must not take the others out of service."""
        sites = {name: known(binding) for name, binding in self._sites.items()}
        is_ready = any(site["ready"] for site in sites.values())
        body = json.dumps({"ready": is_ready, "sites": sites}, indent=2).encode() + b"\n"
        return _answer("200 OK" if is_ready else "503 Service Unavailable", "application/json", body)

    def _counts(self) -> Response:
        if self._metrics is None:
            return refusal("501 Not Implemented", "This needs prometheus_client: pip install 'flask-sitemapx[service]'")
        return _answer("200 OK", *self._metrics.text())

    def _changed(self, path: str, environ: WSGIEnvironment) -> Response | None:
        section = path.removeprefix(_TOUCH) if path.startswith(_TOUCH) else None
        if not self._access.is_touchable or not (section or path == _REFRESH):
            return None
        if not self._access.may_touch(environ):
            if self._warnings.take():
                logger.warning("sitemap: a touch from %s has no or a wrong token", environ.get("REMOTE_ADDR", "-"))
            return refusal("401 Unauthorized", "A token is needed.", [("WWW-Authenticate", "Bearer")])
        if environ["REQUEST_METHOD"] != "POST":
            return refusal("405 Method Not Allowed", "POST only.", [("Allow", "POST")])
        if not self._touches.take():
            return refusal("429 Too Many Requests", "That is more than can be built.", retry_after=1)
        try:
            site, binding = self._site(environ)
        except ConfigurationError as error:
            return refusal("400 Bad Request", str(error))
        try:
            return self._touched(site, binding, section, environ)
        except ConfigurationError as error:
            return refusal("404 Not Found", str(error))
        except StoreError as error:
            logger.error("sitemap: a touch of %s is not noted: %s", site, error)
            return refusal("503 Service Unavailable", "The store cannot be written just now.", retry_after=10)

    def _site(self, environ: WSGIEnvironment) -> tuple[str, Binding]:
        """The site that a request means: the only one, else that of ``?site=``, else that of its host."""
        asked = parse_qs(environ.get("QUERY_STRING", "")).get("site")
        if asked:
            if asked[0] not in self._sites:
                raise ConfigurationError(f"there is no site {shown(asked[0])}; there are {', '.join(self._sites)}")
            return asked[0], self._sites[asked[0]]
        found = [*self._sites.items()]
        if len(found) > 1:
            host = environ.get("HTTP_HOST", "").lower()
            exact = [one for one in found if host == _host(one[1])]
            found = exact or [one for one in found if _without_port(host) == _without_port(_host(one[1]))]
        if len(found) != 1:
            raise ConfigurationError(f"say which site, by ?site= and one of {', '.join(self._sites) or 'none'}")
        return found[0]

    def _touched(self, site: str, binding: Binding, section: str | None, environ: WSGIEnvironment) -> Response:
        if environ.get("wsgi.multiprocess") and not binding.services().is_shared:
            text = "The store is 'memory:', so other processes would not hear of it; set SITEMAP_STORE."
            return refusal("409 Conflict", text)
        for name in binding.names() if section is None else [section]:
            binding.touch(name)
        if section is None:
            binding.refresher().begin()
        logger.info("sitemap: %s of %s is to be built anew", "all" if section is None else section, site)
        return _answer("202 Accepted", TEXT, b"It is to be built anew.\n")


def _metrics(sites: Mapping[str, Binding]) -> Metrics | None:
    try:
        return Metrics(sites)
    except ConfigurationError as error:
        logger.debug("sitemap: %s", error)
        return None


def _is_debug(environ: Mapping[str, str]) -> bool:
    try:
        return switch(environ.get(DEBUG) or False)
    except ValueError as error:
        raise ConfigurationError(f"{DEBUG} {error}, not {shown(environ[DEBUG])}") from None


def _host(binding: Binding) -> str:
    base = binding.services().hosts.fixed
    return base.origin.partition("://")[2] if base else ""


def _without_port(host: str) -> str:
    return re.sub(r":[0-9]*\Z", "", host).removesuffix(".")  # the root's dot is part of no URL


def _length(headers: Headers) -> int | None:
    return next((int(value) for name, value in headers if name == "Content-Length"), None)


def _measured(body: Iterable[bytes], count: Callable[[int], None]) -> Iterable[bytes]:
    def blocks() -> Iterable[bytes]:
        for block in body:
            count(len(block))
            yield block

    close = getattr(body, "close", None)
    return ClosingIterator(blocks(), [close] if close else None)


def _answer(status: str, media_type: str, body: bytes) -> Response:
    headers = [("Content-Type", media_type), ("Content-Length", str(len(body))), ("Cache-Control", "no-store")]
    return Response(status, headers, (body,))
