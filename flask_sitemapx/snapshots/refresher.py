"""When a set is built, by whom, and what is served meanwhile."""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from ..errors import BuildFailed, Damaged, NotBuilt, SitemapError, StoreError
from .builder import Builder
from .lease import Lease
from .snapshot import BLANK, Snapshot
from .store import POLL_SECONDS, STATE, Store

logger = logging.getLogger(__name__)

FIRST_RETRY = 5.0
"""Seconds after a failed build before the next; doubled with each failure, up to the refresh interval."""
LOOK_SECONDS = 0.05
"""How often a builder looks whether another one is done."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations in seconds: see the settings of the same names."""

    refresh: float
    build_wait: float
    lease: float
    retry: bool = True
    """Whether a failed build is left alone for a while; not so in debug and testing, where its text is wanted."""


def touch(store: Store, section: str) -> None:
    """Say that *section* changed: a fresh token, so that no change during a build is lost and nobody has to count."""
    store.put(_touch_key(section), secrets.token_hex(8).encode())


def _touch_key(section: str) -> str:
    return f"{STATE}touch.{section}"


class Job:
    """A build under way in this process."""

    def __init__(self, begun: float) -> None:
        self.begun = begun
        self.done = threading.Event()


class Refresher:
    """Keeps the snapshot of one site fresh, from one background thread at a time, started when it is first needed.

    `current` answers at once while the snapshot is fresh, and also while it is only due for a build.
    """

    def __init__(
        self,
        builder: Builder,
        timing: Timing,
        names: Callable[[], Sequence[str]],
        fingerprint: Callable[[], str],
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._builder = builder
        self._archive = builder.archive
        self._store = builder.archive.store
        self._timing = timing
        self._names = names
        self._fingerprint = fingerprint
        self._clock = clock
        self._monotonic = monotonic
        self._snapshot: Snapshot | None = None
        self._tokens: dict[str, str] = {}
        self._version: Hashable | None = None
        self._looked_at = float("-inf")
        self._accepted_fingerprint = ""
        self._damaged = False
        self._failures = 0
        self._retry_at = float("-inf")
        self.error: str | None = None
        """What the last build failed with, if it failed."""
        self.store_error: str | None = None
        """What the last look at the store failed with, if it failed."""
        self._job: Job | None = None
        self._thread: threading.Thread | None = None
        self.is_pending = False
        """Whether a build is wanted for which no thread could be started."""
        self._reset()
        _all.add(self)

    def current(self) -> Snapshot:
        """The snapshot to serve; `NotBuilt` if there is none, `BuildFailed` if it failed and failures are shown."""
        self._look()
        state = self.state()
        if state == "fresh":
            return self._served()
        if self._monotonic() < self._retry_at:
            return self._served()
        job = self._start()
        if state == "due" or job is None:
            return self._served()
        job.done.wait(max(0.0, job.begun + self._timing.build_wait - self._monotonic()))
        self._look()
        if self.error and not self._timing.retry and self.state() != "fresh":
            raise BuildFailed(self.error)
        return self._served()

    def last_good(self) -> Snapshot | None:
        """The newest snapshot, whatever its age, without waiting for anything."""
        self._look()
        return self._snapshot

    def state(self) -> str:
        """``fresh``, ``due`` (for a build), ``stale`` (worth waiting for one), or ``missing``."""
        snapshot = self._snapshot
        if snapshot is None or snapshot.fingerprint == "":
            return "missing"
        age = abs(self._clock() - snapshot.built_at)  # a clock that jumped back makes no snapshot young for ever
        if self._is_outdated(snapshot) or self._damaged or age >= 2 * self._timing.refresh:
            return "stale"
        return "due" if age >= self._timing.refresh or snapshot.failed else "fresh"

    def build(self) -> Snapshot:
        """Build and publish now, in this thread, whatever the age; or wait for another builder and return its set."""
        self._read()
        known = self._snapshot.number if self._snapshot else 0
        self._build_until(lambda: bool(self._snapshot and self._snapshot.number > known))
        return self._served()

    def touch(self, section: str) -> None:
        touch(self._store, section)
        self._version = None
        self._looked_at = float("-inf")

    def blob(self, digest: str) -> bytes:
        """Stored bytes, whole. On `Damaged` the next `current` is another set: a newer one, or all built anew."""
        try:
            return self._archive.blob(digest)
        except Damaged as error:
            known = self._snapshot
            self._read()
            if self._snapshot is known:
                logger.error("sitemap: %s, building anew", error)
                self._damaged = True
            raise

    def run_pending(self) -> None:
        """Build now, after a response, since no thread could be started."""
        if self.is_pending:
            self.is_pending = False
            self._work(self._job or Job(self._monotonic()))

    def _served(self) -> Snapshot:
        if self._snapshot is None or self._snapshot.fingerprint == "":
            wait = max(1, round(max(self._retry_at - self._monotonic(), 0)) or int(self._timing.build_wait) or 1)
            raise NotBuilt(self.error or "the first build is not done yet", retry_after=wait)
        return self._snapshot

    def _is_outdated(self, snapshot: Snapshot) -> bool:
        fingerprint = self._fingerprint()
        if snapshot.fingerprint != fingerprint and self._accepted_fingerprint != fingerprint:
            return True  # set up otherwise; once only, or an old and a new process would build in turns for ever
        return any(
            self._tokens.get(name) != state.token for name, state in snapshot.sections.items() if not state.error
        )

    # Looking at the store

    def _look(self) -> None:
        """Take note of what other processes published and touched."""
        try:
            version = self._store.version()
            if version is None:
                if self._monotonic() - self._looked_at < POLL_SECONDS:
                    return
            elif version == self._version:
                return
            self._read()
            self._version = version
            self._looked_at = self._monotonic()
            self.store_error = None
        except StoreError as error:
            if self.store_error is None:
                logger.error("sitemap: %s", error)
            self.store_error = str(error)

    def _read(self) -> None:
        known = self._snapshot
        newest = self._archive.latest(known)
        # Threads read at the same time, and the slower one must not bring back an older set.
        if newest and (self._snapshot is known or self._snapshot is None or newest.number > self._snapshot.number):
            self._snapshot = newest
        self._tokens = self._read_tokens()

    def _read_tokens(self) -> dict[str, str]:
        found = ((name, self._store.get(_touch_key(name))) for name in self._names())
        return {name: token.decode("ascii", "replace") for name, token in found if token is not None}

    # Building

    def _start(self) -> Job | None:
        """The build under way, begun now if there was none; None if no thread can be had."""
        with self._lock:
            if self._job is not None and not self._job.done.is_set():
                return self._job
            self._job = job = Job(self._monotonic())
            self._thread = threading.Thread(target=self._work, args=(job,), name="sitemap-build", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                self.is_pending = True
                return None
            return job

    def _work(self, job: Job) -> None:
        try:
            self._build_until(lambda: self.state() == "fresh")
        except Exception as error:
            self._fail(error)
        finally:
            job.done.set()

    def _build_until(self, is_done: Callable[[], bool]) -> None:
        while True:
            self._read()
            if is_done():
                return
            number = (self._snapshot or BLANK).number + 1
            lease = Lease.acquired(self._store, self._archive.lease_name(number), self._timing.lease, self._clock)
            if lease is None:
                self._stopping.wait(LOOK_SECONDS)
                self._checkpoint()
                continue
            try:
                if self._build_under(lease, number):
                    return
            finally:
                lease.release()

    def _build_under(self, lease: Lease, number: int) -> bool:
        """Build and publish *number*; False if somebody else has done it."""
        self._read()
        previous = self._snapshot or BLANK
        if previous.number + 1 != number:
            return False
        # Noted before anything is pulled: a touch from now on differs from them, and so is not lost.
        tokens, fingerprint = self._read_tokens(), self._fingerprint()
        with lease.kept_alive():
            self._builder.remove_leftovers(previous)
            damaged, self._damaged = self._damaged, False
            try:
                snapshot = self._builder.build(
                    previous, fingerprint, tokens, checkpoint=self._checkpoint, damaged=damaged
                )
            except BaseException:
                self._damaged |= damaged
                raise
        if not lease.is_held():
            raise BuildFailed("the lease was lost during the build")
        if not self._archive.publish(snapshot):
            return False
        self._archive.clear_leases(number)
        self._succeed(snapshot, fingerprint, tokens)
        return True

    def _succeed(self, snapshot: Snapshot, fingerprint: str, tokens: dict[str, str]) -> None:
        self._snapshot = snapshot
        self._accepted_fingerprint = fingerprint
        self._version = None
        failed = next((state.error for state in snapshot.sections.values() if state.error), None)
        if failed:
            self._back_off(failed)
        else:
            self._failures, self._retry_at, self.error = 0, float("-inf"), None

    def _fail(self, error: Exception) -> None:
        is_expected = isinstance(error, SitemapError)  # its text says it all
        logger.error("sitemap: build failed: %s", error, exc_info=None if is_expected else error)
        self._back_off(str(error))

    def _back_off(self, error: str) -> None:
        self.error = error
        if self._timing.retry:
            delay = min(FIRST_RETRY * 2**self._failures, max(self._timing.refresh, FIRST_RETRY))
            self._failures = min(self._failures + 1, 20)
            self._retry_at = self._monotonic() + delay

    def _checkpoint(self) -> None:
        if self._stopping.is_set():
            raise BuildFailed("this process is ending")
        time.sleep(0)  # let requests be answered between batches

    def _reset(self) -> None:
        """Forget threads and locks, which do not survive a fork."""
        self._lock = threading.Lock()
        self._job = self._thread = None
        self.is_pending = False
        self._stopping = threading.Event()

    def _stop(self) -> None:
        self._stopping.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(2.0)  # long enough to give the lease back


_all: weakref.WeakSet[Refresher] = weakref.WeakSet()


def _reset_all() -> None:
    for refresher in _all:
        refresher._reset()


def _stop_all() -> None:
    for refresher in list(_all):
        refresher._stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all)
atexit.register(_stop_all)
