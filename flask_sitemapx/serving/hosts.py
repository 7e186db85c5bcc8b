"""The site's name is configuration: what a request may say about it, and what it may not."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote

from ..errors import ConfigurationError
from ..protocol.locs import PLACEHOLDER, BaseUrl

MAX_NAMES = 16
"""As many trusted names get stored sets of their own; each has one for http and one for https."""
_HOST = re.compile(r"([a-z0-9_.-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::([0-9]{0,5}))?", re.ASCII | re.IGNORECASE)


class BadHost(ValueError):
    """A request whose Host header, scheme or mount point cannot be part of a URL, or is not trusted."""


class Site(NamedTuple):
    """Which set answers a request, and the bytes that its placeholders become, if it has any."""

    base: BaseUrl
    fill: bytes


class Hosts:
    """Tells the site of a request.

    *fixed* is the one base URL, if it is configured; *trusted* are names as in Flask's ``TRUSTED_HOSTS``, of which
    those without a leading dot name sites too; *mount* is the configured mount point. In all other cases the set with
    placeholders answers, filled in from the request and stored under no name. Raises `ConfigurationError` for a
    trusted name that is none.
    """

    def __init__(self, fixed: BaseUrl | None, trusted: Iterable[str] = (), mount: str = "") -> None:
        entries = [trusted] if isinstance(trusted, str) else [*trusted]
        exact = [entry for entry in entries if not entry.startswith(".")]
        self._fixed = Site(fixed, b"") if fixed else None
        self._names = frozenset(map(_trusted_name, entries))
        self._suffixes = tuple(name for name in self._names if name.startswith("."))
        self._sites = {
            BaseUrl.parse(f"{scheme}://{name}{mount}")
            for name in (exact if len(exact) <= MAX_NAMES else ())
            for scheme in ("http", "https")
        }
        # Requests repeat what they say, and who sends forged ones only pushes out others.
        self._site = lru_cache(maxsize=256)(self._site_of)

    @property
    def fixed(self) -> BaseUrl | None:
        """The base URL in which a request has no say."""
        return self._fixed.base if self._fixed else None

    @property
    def is_open(self) -> bool:
        """Whether a request may bring any name."""
        return self._fixed is None and not self._names

    def site(self, environ: dict[str, Any]) -> Site:
        """The site of a request; raises `BadHost`."""
        host = environ.get("HTTP_HOST")
        if not host:  # as in HTTP/1.0
            if self._fixed is not None:
                return self._fixed
            host = _server(environ)
        return self._site(environ["wsgi.url_scheme"], host, environ.get("SCRIPT_NAME", ""))

    def _site_of(self, scheme: str, host: str, script_name: str) -> Site:
        found = _HOST.fullmatch(host)
        name = found[1].lower().removesuffix(".") if found else ""  # the root's dot is part of no URL
        if found is None or not self._is_trusted(name):
            raise BadHost(f"the host {host[:100]!r} is malformed or not trusted")
        if self._fixed is not None:
            return self._fixed
        base = _requested(scheme, f"{name}:{found[2]}" if found[2] else name, script_name)
        return Site(base, b"") if base in self._sites else Site(PLACEHOLDER, base.text.encode())

    def _is_trusted(self, name: str) -> bool:
        return not self._names or name in self._names or f".{name}".endswith(self._suffixes)


def _requested(scheme: str, host: str, script_name: str) -> BaseUrl:
    try:
        # PEP 3333: the bytes of SCRIPT_NAME, decoded from percents and read as latin-1
        mount = quote(script_name.encode("latin-1"), safe="/:@!$()*+,;=")
        if mount and not mount.startswith("/"):
            raise BadHost(f"the mount point {script_name[:100]!r} does not start with a slash")
        return BaseUrl.parse(f"{scheme}://{host}{mount}")
    except (ConfigurationError, UnicodeError) as error:
        raise BadHost(str(error)[:200]) from None


def _server(environ: dict[str, Any]) -> str:
    name: str = environ["SERVER_NAME"]
    name = f"[{name}]" if ":" in name and not name.startswith("[") else name
    return f"{name}:{environ['SERVER_PORT']}"


def _trusted_name(entry: str) -> str:
    """The name in an entry of ``TRUSTED_HOSTS``: in lower case and punycode, without port, its leading dot kept."""
    name = entry.removeprefix(".")
    try:
        base = BaseUrl.parse(f"http://{name}")
    except ConfigurationError as error:
        raise ConfigurationError(f"TRUSTED_HOSTS holds {entry!r}, which is no host name ({error})") from None
    found = _HOST.fullmatch(base.text.removeprefix("http://"))
    if found is None:
        raise ConfigurationError(f"TRUSTED_HOSTS holds {entry!r}, which is no host name")
    return entry[: len(entry) - len(name)] + found[1]
