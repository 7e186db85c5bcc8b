"""The site's name is configuration: what a request may say about it, and what it may not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ..errors import ConfigurationError
from ..protocol.locs import PLACEHOLDER, BaseUrl

MAX_NAMES = 16
"""As many trusted names get stored sets of their own; each has one for http and one for https."""
_HOST = re.compile(r"([a-z0-9_.-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?", re.ASCII | re.IGNORECASE)


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
    placeholders answers, filled in from the request and stored under no name.
    """

    def __init__(self, fixed: BaseUrl | None, trusted: Sequence[str] = (), mount: str = "") -> None:
        self._fixed = Site(fixed, b"") if fixed else None
        self._trusted = tuple(name.lower() for name in trusted)
        exact = [name for name in self._trusted if not name.startswith(".")]
        self._exact = frozenset(exact if len(exact) <= MAX_NAMES else ())
        self._mount = mount

    @property
    def is_fixed(self) -> bool:
        """Whether a request has no say in any URL."""
        return self._fixed is not None

    @property
    def fixed(self) -> BaseUrl | None:
        return self._fixed.base if self._fixed else None

    def site(self, environ: dict[str, Any]) -> Site:
        """The site of a request; raises `BadHost`."""
        host = environ.get("HTTP_HOST") or f"{environ['SERVER_NAME']}:{environ['SERVER_PORT']}"
        found = _HOST.fullmatch(host)
        if found is None or not self._is_trusted(found[1].lower()):
            raise BadHost(f"the host {host[:100]!r} is malformed or not trusted")
        if self._fixed is not None:
            return self._fixed
        base = _requested(environ["wsgi.url_scheme"], host.lower(), environ.get("SCRIPT_NAME", ""))
        is_named = base.origin.partition("://")[2] in self._exact and base.mount == self._mount
        return Site(base, b"") if is_named else Site(PLACEHOLDER, base.text.encode())

    def _is_trusted(self, name: str) -> bool:
        if not self._trusted:
            return True
        return any(
            name == known.partition(":")[0] or (known.startswith(".") and f".{name}".endswith(known))
            for known in self._trusted
        )


@lru_cache(maxsize=64)
def _requested(scheme: str, host: str, script_name: str) -> BaseUrl:
    try:
        return BaseUrl.parse(f"{scheme}://{host}{script_name.encode('latin-1').decode()}")
    except (ConfigurationError, UnicodeError) as error:
        raise BadHost(str(error)[:200]) from None
