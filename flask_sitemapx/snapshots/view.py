"""What one process knows of a site's set in the store: the newest snapshot, the touch tokens, and what is wrong."""

from __future__ import annotations

import logging
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import is_

from ..errors import Damaged, StoreError
from .forking import after_fork
from .snapshot import Archive, Shard, Snapshot
from .store import POLL_SECONDS, STATE, Store

logger = logging.getLogger(__name__)

LOOK_PATIENCE = 2.0
"""Seconds after which a request that has something to serve leaves it to another to ask the store."""
KEPT_BYTES = 8_000_000
"""As many bytes of stored pieces each process keeps for when the store is in trouble: those that were read last."""


def touch(store: Store, section: str) -> None:
    """Say that *section* changed: a fresh token, so that no change during a build is lost and nobody has to count."""
    store.put(_touch_key(section), secrets.token_hex(8).encode())


def _touch_key(section: str) -> str:
    return f"{STATE}touch.{section}"


class View:
    """The set of *archive*, whose sections have *names*, and which was made by what *fingerprint* stands for.

    It is looked at as often as that is cheap, and not at all for a second after the store failed.
    """

    def __init__(
        self,
        archive: Archive,
        names: Callable[[], Sequence[str]],
        fingerprint: Callable[[], str],
        patience: float,
        monotonic: Callable[[], float],
    ) -> None:
        self.snapshot: Snapshot | None = None
        self.tokens: Mapping[str, str] = {}
        self.is_damaged = False
        """Whether something is lost that the snapshot needs."""
        self.error: str | None = None
        """What the last look at the store failed with, if it failed."""
        self._archive = archive
        self._store = archive.store
        self._names = names
        self._fingerprint = fingerprint
        self._longest = patience
        self._monotonic = monotonic
        self._version: Hashable | None = None
        self._looked_at = float("-inf")
        self._accepted_fingerprint = ""
        self._answered: tuple[tuple[object, ...], bool] = ((None,), False)
        self._kept = Kept(KEPT_BYTES if self._store.shared else 0)
        self._reset()
        after_fork(self._reset)

    def look(self) -> bool:
        """Take note of what other processes published and touched; True if a store in trouble is well again."""
        try:
            version = self._store.version()
        except StoreError as error:
            self._note(error)
            return False
        if not self._is_news(version):
            return False
        if not self._reading.acquire(timeout=self._patience()):
            self._note(StoreError("the store does not answer"))
            return False
        try:
            return self._is_news(version) and self._look_closely(version)
        finally:
            self._reading.release()

    def look_if_cheap(self) -> bool:
        """Look at a store that can tell at once whether anything changed; False for another."""
        try:
            if self._store.version() is None:
                return False
        except StoreError:
            return True
        self.look()
        return True

    def read(self) -> None:
        """Ask the store in any case; raises `StoreError` if it is in trouble."""
        with self._reading:
            newest = self._archive.latest(self.snapshot)
            if newest is not None:
                self._adopt(newest)
            elif self.snapshot is not None:
                self.is_damaged = True  # somebody emptied the store
            found = ((name, self._store.get(_touch_key(name))) for name in self._names())
            self.tokens = {name: token.decode("ascii", "replace") for name, token in found if token is not None}

    def touch(self, section: str) -> None:
        touch(self._store, section)
        with self._reading:
            self._version = None
            self._looked_at = float("-inf")

    def accept(self, snapshot: Snapshot, is_mended: bool) -> None:
        """Take *snapshot*, which this process published; *is_mended* if nothing that it needs can be lost."""
        with self._reading:
            if self.snapshot is None or self.snapshot.number < snapshot.number:
                self._adopt(snapshot)
            self._accepted_fingerprint = snapshot.fingerprint
            self._version = None
            if is_mended:
                self.is_damaged = False

    def is_outdated(self, snapshot: Snapshot) -> bool:
        """Whether it was made of something else than what is known now; asked by every request, so kept."""
        question = (snapshot, self.tokens, self._fingerprint(), self._accepted_fingerprint)
        known, answer = self._answered
        if not all(map(is_, question, known)):
            answer = self._differs(snapshot, question[2])
            self._answered = question, answer
        return answer

    def blob(self, digest: str) -> bytes:
        """Stored bytes, whole. On `Damaged` the next snapshot is another: a newer one, or one built anew."""
        kept = self._kept.get(digest)
        if kept is not None:
            return kept
        if self.error is not None and self._monotonic() - self._looked_at < POLL_SECONDS:
            raise StoreError(self.error)
        try:
            data = self._archive.blob(digest)
        except Damaged as error:
            self.read()
            # Else it belongs to a set that was replaced long ago, which nothing is wrong with.
            if self.snapshot is not None and digest in self.snapshot.blobs():
                logger.error("sitemap: %s, building anew", error)
                self.is_damaged = True
            raise
        except StoreError as error:
            self._note(error)
            raise
        self._kept.put(digest, data)
        return data

    def finished(self, section: str, planned: Shard) -> Shard | None:
        """A shard that the set has as planned only, if it was finished since."""
        if self.error is not None:
            return None
        try:
            return self._archive.finished(section, planned)
        except StoreError as error:
            self._note(error)
            return None

    def _adopt(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        if snapshot.fingerprint == (fingerprint := self._fingerprint()):
            self._accepted_fingerprint = fingerprint

    def _differs(self, snapshot: Snapshot, fingerprint: str) -> bool:
        if snapshot.fingerprint != fingerprint and self._accepted_fingerprint != fingerprint:
            return True  # set up otherwise; once only, or an old and a new process would build in turns for ever
        known = ((name, snapshot.sections.get(name)) for name in self._names())
        return any(state is not None and self.tokens.get(name) != state.token for name, state in known)

    def _patience(self) -> float:
        """How long to wait while another thread looks: not for a store in trouble, which may be silent for long."""
        if self.error is not None:
            return 0.0
        return max(min(LOOK_PATIENCE, self._longest) if self.snapshot else self._longest, POLL_SECONDS)

    def _is_news(self, version: Hashable | None) -> bool:
        if version is None or self.error is not None:
            return self._monotonic() - self._looked_at >= POLL_SECONDS
        return version != self._version

    def _look_closely(self, version: Hashable | None) -> bool:
        try:
            self.read()
        except StoreError as error:
            self._note(error)
            return False
        self._version = version
        self._looked_at = self._monotonic()
        is_well_again, self.error = self.error is not None, None
        return is_well_again

    def _note(self, error: StoreError) -> None:
        if self.error is None:
            logger.error("sitemap: %s", error)
        self.error = str(error)
        self._looked_at = self._monotonic()

    def _reset(self) -> None:
        """Forget locks, which do not survive a fork."""
        self._reading = threading.RLock()


class Kept:
    """At most *limit* bytes, those that were asked for last."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._values: OrderedDict[str, bytes] = OrderedDict()
        self._reset()
        after_fork(self._reset)

    def get(self, key: str) -> bytes | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: str, value: bytes) -> None:
        if len(value) > self._limit:
            return
        with self._lock:
            self._size += len(value) - len(self._values.pop(key, b""))
            self._values[key] = value
            while self._size > self._limit:
                self._size -= len(self._values.popitem(last=False)[1])

    def _reset(self) -> None:
        self._lock = threading.Lock()
