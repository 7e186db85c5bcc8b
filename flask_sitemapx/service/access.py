"""Who may ask for what only operators are shown, and how often: tokens, a second address, a bucket."""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import ConfigurationError, shown

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

ADMIN_TOKEN, TOUCH_TOKEN, ADMIN_BIND = "SITEMAP_ADMIN_TOKEN", "SITEMAP_TOUCH_TOKEN", "SITEMAP_ADMIN_BIND"
LEAST_CHARACTERS = 16
"""Of a token: so many cannot be found by trying."""


@dataclass(frozen=True, slots=True, repr=False)  # which would show the tokens
class Access:
    """Who may ask: whoever has a token, or comes to the *place* of a second address, a port or a path."""

    admin_token: bytes = b""
    touch_token: bytes = b""
    place: int | str | None = None

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Access:
        """That of the environment; raises `ConfigurationError`."""
        return cls(_token(environ, ADMIN_TOKEN), _token(environ, TOUCH_TOKEN), admin_place(environ))

    def may_look(self, request: WSGIEnvironment) -> bool:
        """Whether the state of the service is shown."""
        return self._is_at_second_address(request) or _has(request, self.admin_token)

    @property
    def is_touchable(self) -> bool:
        return bool(self.admin_token or self.touch_token)

    def may_touch(self, request: WSGIEnvironment) -> bool:
        """Whether the request has one of the tokens, either of which will do."""
        # Both in any case, so that time does not tell which of them it was not.
        return _has(request, self.touch_token) | _has(request, self.admin_token)

    def _is_at_second_address(self, request: WSGIEnvironment) -> bool:
        # Not SERVER_PORT: behind a Unix socket gunicorn takes that from the Host header.
        connection = request.get("gunicorn.socket")
        if connection is None or self.place is None:
            return False
        try:
            own = connection.getsockname()
        except OSError:  # the client is gone
            return False
        return bool((own if isinstance(own, str) else own[1]) == self.place)


def _token(environ: Mapping[str, str], name: str) -> bytes:
    token = environ.get(name, "").strip()
    if token and (len(token) < LEAST_CHARACTERS or not token.isascii() or not token.isprintable() or " " in token):
        raise ConfigurationError(
            f"{name} must be {LEAST_CHARACTERS} characters or more, ASCII without blanks, that nobody can guess; "
            "this makes one: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return token.encode()


def admin_place(environ: Mapping[str, str]) -> int | str | None:
    """The port, or path of a Unix socket, of the second address, if there is one; raises `ConfigurationError`."""
    text = environ.get(ADMIN_BIND, "").strip()
    if not text:
        return None
    if text.startswith("unix:"):
        return text.removeprefix("unix:")
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigurationError(f"{ADMIN_BIND} must be like 127.0.0.1:9100 or unix:/path, not {shown(text)}")
    return int(port)


def _has(request: WSGIEnvironment, token: bytes) -> bool:
    scheme, _, given = request.get("HTTP_AUTHORIZATION", "").partition(" ")
    is_equal = hmac.compare_digest(given.strip().encode("latin-1", "replace"), token)
    return is_equal and scheme.lower() == "bearer" and bool(token)


class Bucket:
    """Lets *burst* through at once, and *per_second* after them."""

    def __init__(self, burst: float, per_second: float, monotonic: Callable[[], float]) -> None:
        self._burst = burst
        self._per_second = per_second
        self._monotonic = monotonic
        self._left = burst
        self._at = monotonic()
        self._lock = threading.Lock()

    def take(self) -> bool:
        with self._lock:
            now = self._monotonic()
            self._left = min(self._burst, self._left + (now - self._at) * self._per_second)
            self._at = now
            if self._left < 1:
                return False
            self._left -= 1
            return True
