"""The right to build: one holder at a time, for as long as it gives signs of life."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ..errors import StoreError
from .store import Store


class Lease:
    """A record with token and deadline, made with nothing but the exclusive `add` of a store.

    A lease that ran out is not overwritten: the next one is *added* under the next attempt's key, so that of two that
    try at once one succeeds. A holder has lost its lease when its deadline passed or a later attempt exists.
    """

    def __init__(self, store: Store, name: str, attempt: int, seconds: float, clock: Callable[[], float]) -> None:
        self._store = store
        self._name = name
        self._attempt = attempt
        self._seconds = seconds
        self._clock = clock
        self._token = secrets.token_hex(16)
        self._deadline = 0.0

    @classmethod
    def acquired(cls, store: Store, name: str, seconds: float, clock: Callable[[], float]) -> Lease | None:
        """The lease *name*, or None while somebody else holds it."""
        attempt = 0
        while record := store.get(_key(name, attempt)):
            if _in_force(record, seconds, clock()):
                return None
            attempt += 1
        lease = cls(store, name, attempt, seconds, clock)
        return lease if store.add(_key(name, attempt), lease._record()) else None

    def is_held(self) -> bool:
        record = self._store.get(_key(self._name, self._attempt))
        later = self._store.get(_key(self._name, self._attempt + 1))
        return bool(record) and later is None and self._is_mine(record or b"") and self._clock() < self._deadline

    def renew(self) -> bool:
        """Move the deadline; False if the lease is lost."""
        if not self.is_held():
            return False
        self._store.put(_key(self._name, self._attempt), self._record())
        return True

    def release(self) -> None:
        """Let others build at once."""
        if self.is_held():
            self._store.delete(_key(self._name, self._attempt))

    @contextmanager
    def kept_alive(self) -> Iterator[None]:
        """Renew the lease from a thread of its own, since a source may be silent for longer than a lease lasts."""
        done = threading.Event()

        def renew() -> None:
            with suppress(StoreError):  # a store in trouble means a lost lease, which publishing will notice
                while not done.wait(self._seconds / 3) and self.renew():
                    pass

        thread = threading.Thread(target=renew, name="sitemap-lease", daemon=True)
        with suppress(RuntimeError):  # no thread to be had: the lease lasts as long as it lasts
            thread.start()
        try:
            yield
        finally:
            done.set()
            if thread.ident is not None:
                thread.join()

    def _record(self) -> bytes:
        self._deadline = self._clock() + self._seconds
        return json.dumps({"token": self._token, "deadline": self._deadline}).encode()

    def _is_mine(self, record: bytes) -> bool:
        return bool(json.loads(record)["token"] == self._token)


def _key(name: str, attempt: int) -> str:
    return f"{name}.{attempt}"


def _in_force(record: bytes, seconds: float, now: float) -> bool:
    # A deadline much further away than a lease lasts was written before a clock jumped back: it means nothing.
    try:
        return bool(0 < json.loads(record)["deadline"] - now <= 2 * seconds)
    except (ValueError, KeyError, TypeError):
        return False
