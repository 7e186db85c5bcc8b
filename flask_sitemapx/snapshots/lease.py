"""The right to build a set: one holder at a time, for as long as it gives signs of life."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ..errors import BuildFailed, StoreError
from .store import Store


class LeaseLost(BuildFailed):
    """The holder gave no sign of life for too long, and somebody else may be building."""


class Lease:
    """A record under *key*, made with the exclusive `add` of a store, that its holder changes while it lives.

    Nobody takes a lease over, and clocks of two machines are never compared: who sees a record stand still for
    *seconds* of its own time (`Watch`) holds the holder for dead. What a dead holder left must not matter then.
    """

    def __init__(self, store: Store, key: str, seconds: float, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._key = key
        self._seconds = seconds
        self._monotonic = monotonic
        self._token = secrets.token_hex(16).encode()
        self._renewals = 0
        self._begun = monotonic()

    @classmethod
    def acquired(cls, store: Store, key: str, seconds: float, monotonic: Callable[[], float]) -> Lease | None:
        """The lease, or None while its record is there."""
        lease = cls(store, key, seconds, monotonic)
        return lease if store.add(key, lease._record()) else None

    def is_held(self) -> bool:
        """Whether nobody can hold this holder for dead: they began to watch after its last sign of life began."""
        return self._monotonic() - self._begun < self._seconds and self._is_mine()

    def renew(self) -> None:
        """Give a sign of life; raises `LeaseLost` if it comes too late."""
        begun = self._monotonic()
        if not self.is_held():
            raise LeaseLost("the lease was lost during the build")
        self._store.put(self._key, self._record())
        self._begun = begun

    def renew_if_due(self) -> None:
        """As `renew`, at little cost if that was done a short time ago."""
        if self._monotonic() - self._begun >= self._seconds / 3:
            self.renew()

    def release(self) -> None:
        """Let others build at once."""
        with suppress(StoreError):  # then they will wait and see
            if self._is_mine():
                self._store.delete(self._key)

    @contextmanager
    def kept_alive(self) -> Iterator[None]:
        """Renew the lease from a thread of its own, since a source may be silent for longer than a lease lasts."""
        done = threading.Event()

        def renew() -> None:
            while not done.wait(self._seconds / 3):
                with suppress(StoreError, LeaseLost):  # the builder itself will notice
                    self.renew()

        thread = threading.Thread(target=renew, name="sitemap-lease", daemon=True)
        with suppress(RuntimeError):  # no thread to be had: the builder renews it between batches
            thread.start()
        try:
            yield
        finally:
            done.set()
            if thread.ident is not None:
                thread.join()

    def _record(self) -> bytes:
        self._renewals += 1
        return b"%s %d" % (self._token, self._renewals)

    def _is_mine(self) -> bool:
        return (self._store.get(self._key) or b"").startswith(self._token)


class Watch:
    """Tells whether a record stood still for *seconds*."""

    def __init__(self, seconds: float, monotonic: Callable[[], float]) -> None:
        self._seconds = seconds
        self._monotonic = monotonic
        self._seen: tuple[str, bytes] | None = None
        self._since = 0.0

    def is_still(self, key: str, record: bytes) -> bool:
        now = self._monotonic()
        if self._seen != (key, record):
            self._seen, self._since = (key, record), now
        return now - self._since >= self._seconds
