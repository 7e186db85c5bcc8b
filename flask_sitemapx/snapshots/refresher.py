"""When a set is built, by whom, and what is served meanwhile."""

from __future__ import annotations

import atexit
import logging
import threading
import time
import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from tempfile import TemporaryDirectory

from ..errors import BuildFailed, Busy, Damaged, NotBuilt, SitemapError
from .builder import Builder
from .directory import DirectoryStore
from .forking import after_fork
from .lease import Lease, LeaseLost, Watch
from .reading import Progress
from .rehearsal import Rehearsal
from .snapshot import BLANK, Shard, Snapshot
from .streaming import Streamed
from .view import View

logger = logging.getLogger(__name__)

FIRST_RETRY = 5.0
"""Seconds after a failed build before the next; doubled with each failure, up to the refresh interval."""
FIRST_PART = 0.5
"""What share of the time that a request may wait the very first build takes before it publishes what there is."""
COMPLETING_SECONDS = 30.0
"""After so long a build that reads what was only planned publishes what there is, and goes on."""
PAUSE_SECONDS = 0.004
"""How often a builder lets other threads go first; to do so takes some 0.1 ms, and without it they wait 5 ms."""
ENDING_SECONDS = 2.0
"""How long a process that ends waits for its build to see it."""
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


@dataclass(frozen=True, slots=True)
class Order:
    """How a build is wanted: after *budget* seconds the rest is left for another time; *only* some sections."""

    budget: float = float("inf")
    only: Collection[str] | None = None
    progress: Progress = lambda section, count: None


IN_FULL = Order()
"""All sections, however long it takes."""


class Job:
    """A build under way in this process."""

    def __init__(self, begun: float) -> None:
        self.begun = begun
        self.done = threading.Event()


class Refresher:
    """Keeps the snapshot of one site fresh, from one background thread at a time, started when it is first needed.

    `current` answers at once while the snapshot is fresh, and also while it is only due for a build.
    """

    is_pending: bool
    """Whether a build is wanted for which no thread could be started."""
    _job: Job | None
    _thread: threading.Thread | None
    _lease: Lease | None

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
        self._fingerprint = fingerprint
        self._clock = clock
        self._monotonic = monotonic
        self._view = View(self._archive, names, fingerprint, timing.build_wait, monotonic)
        self._failures = 0
        self._retry_at = float("-inf")
        self.error: str | None = None
        """What the last build failed with, if it failed."""
        self._watch = Watch(timing.lease, monotonic)
        self._paused_at = float("-inf")
        self._reset()
        after_fork(self._reset)
        _all.add(self)

    @property
    def store_error(self) -> str | None:
        """What the last look at the store failed with, if it failed."""
        return self._view.error

    def current(self) -> Snapshot:
        """The snapshot to serve; `NotBuilt` if there is none, `BuildFailed` if it failed and failures are shown."""
        self._look()
        state = self.state()
        if state == "due":
            self._start()
        elif state != "fresh":
            self._wait()
            if self.error and not self._timing.retry and self.state() != "fresh":
                raise BuildFailed(self.error)
        return self._served()

    def begin(self) -> None:
        """Begin a build if the snapshot is not fresh, whatever failed before, and do not wait for it."""
        self._look()
        if self.state() != "fresh":
            self._retry_at = float("-inf")
            self._start()

    def last_good(self) -> Snapshot | None:
        """The newest snapshot, whatever its age, without waiting for a build."""
        self._look()
        return self._snapshot

    def known(self) -> Snapshot | None:
        """The snapshot as far as it can be told at once; None if that is unknown, or it is no longer sure to be empty.

        No store is asked that may be slow to answer, or only in the background.
        """
        if not self._view.look_if_cheap() and self._snapshot is None:
            self._start()
        snapshot = self._snapshot
        if snapshot is None or (snapshot.document is None and self.state() != "fresh"):
            return None
        return snapshot

    def building_for(self) -> float | None:
        """Seconds since this process began the build that is under way, or None."""
        job = self._under_way()
        return None if job is None else self._monotonic() - job.begun

    def state(self) -> str:
        """``fresh``, ``due`` (for a build), ``stale`` (worth waiting for one), or ``missing``."""
        snapshot = self._snapshot
        if snapshot is None or snapshot.fingerprint == "":
            return "missing"
        age = self._age(snapshot)
        if self._view.is_outdated(snapshot) or self._view.is_damaged or age >= 2 * self._timing.refresh:
            return "stale"
        if age >= self._due_age(snapshot.failures) or (snapshot.expires_at <= self._clock() and not snapshot.failures):
            return "due"
        return "fresh" if snapshot.is_complete or snapshot.failures else "due"

    def fresh(self) -> Snapshot:
        """The snapshot if it is fresh, else one that is built and published now, in this thread."""
        self._look()
        return self._served() if self.state() == "fresh" else self.build()

    def build(self, order: Order = IN_FULL, *, patience: float = float("inf")) -> Snapshot:
        """Build and publish now, in this thread, whatever the age; or wait for another builder and return its set.

        Raises `Busy` if that one takes longer than *patience* seconds.
        """
        self._view.read()
        # Not the number: that of a builder that died is taken by a copy of the set before.
        old = {0.0, (self._snapshot or BLANK).built_at}
        self._build_until(lambda: (self._snapshot or BLANK).built_at not in old, order, patience)
        return self._served()

    def rehearsed(self, order: Order) -> Snapshot:
        """What `build` would publish now; nothing is stored or published, and nobody else's build is in the way."""
        self._view.read()
        with TemporaryDirectory() as scratch:
            builder = self._builder.on(Rehearsal(self._store, DirectoryStore(scratch)))
            return builder.build(
                self._snapshot or BLANK,
                self._fingerprint(),
                self._view.tokens,
                progress=order.progress,
                budget=order.budget,
                only=order.only,
            )

    def touch(self, section: str) -> None:
        self._view.touch(section)

    def blob(self, digest: str) -> bytes:
        """Stored bytes, whole. On `Damaged` the next `current` is another set: a newer one, or one built anew."""
        return self._view.blob(digest)

    def finished(self, section: str, planned: Shard) -> Shard | None:
        """A shard that the set has as planned only, if it was finished since."""
        return self._view.finished(section, planned)

    def streamed(self, section: str, planned: Shard) -> Streamed:
        """The document of a shard that the set has as planned only, made now and stored as it goes."""
        return self._builder.streamed(self._served(), section, planned)

    def run_pending(self) -> None:
        """Build now, after a response, since no thread could be started."""
        with self._lock:
            if not self.is_pending or self._under_way() is not None:
                return
            self.is_pending = False
            self._job = job = Job(self._monotonic())
        self._work(job)

    def _served(self) -> Snapshot:
        if self._snapshot is None or self._snapshot.fingerprint == "":
            wait = max(1, round(max(self._retry_at - self._monotonic(), 0)) or int(self._timing.build_wait) or 1)
            raise NotBuilt(self.error or "the first build is not done yet", retry_after=wait)
        return self._snapshot

    def _due_age(self, failures: int) -> float:
        """The age at which a snapshot wants to be built anew. All processes see its failures, so one tries again."""
        if not failures:
            return self._timing.refresh
        return min(_delay(failures), self._timing.refresh) if self._timing.retry else 0.0

    def _age(self, snapshot: Snapshot) -> float:
        return abs(self._clock() - snapshot.built_at)  # a clock that jumped back makes no snapshot young for ever

    @property
    def _snapshot(self) -> Snapshot | None:
        return self._view.snapshot

    def _look(self) -> None:
        if self._view.look():
            self._failures, self._retry_at = 0, float("-inf")

    # Building

    def _wait(self) -> None:
        """Wait for a build that knows of each touch before this call, as far as a request may wait.

        One that is under way may have read its entries before; if it did, the next one has not.
        """
        job = self._under_way()
        if job is not None and (not self._has_waited_for(job) or self.state() in ("fresh", "due")):
            return
        job = self._start()
        if job is not None:
            self._has_waited_for(job)

    def _has_waited_for(self, job: Job) -> bool:
        """Whether *job* ended within the time that a request may wait, which counts from its begin."""
        has_ended = job.done.wait(max(0.0, job.begun + self._timing.build_wait - self._monotonic()))
        self._look()
        return has_ended

    def _under_way(self) -> Job | None:
        job = self._job
        return None if job is None or job.done.is_set() else job

    def _start(self) -> Job | None:
        """The build under way, begun now if there was none; None while failures forbid it or no thread is to be had."""
        with self._lock:
            if (job := self._under_way()) is not None:
                return job
            if self._monotonic() < self._retry_at:
                return None
            # Known before it begins: who comes after that must not take it for one that begins after they came.
            self._job = job = Job(self._monotonic())
            self._thread = threading.Thread(target=self._work, args=(job,), name="sitemap-build", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                self._job = None
                self.is_pending = True
                return None
            return job

    def _work(self, job: Job) -> None:
        try:
            self._build_until(lambda: self.state() == "fresh")
        except BaseException as error:
            self._fail(error)
            if not isinstance(error, Exception):
                raise
        finally:
            job.done.set()

    def _build_until(self, is_done: Callable[[], bool], order: Order = IN_FULL, patience: float = float("inf")) -> None:
        """Build once, unless *is_done* first: others build, too."""
        begun = self._monotonic()
        while True:
            self._view.read()
            if is_done():
                return
            previous = self._snapshot or BLANK
            key = self._archive.lease_key(previous.number + 1)
            lease = Lease.acquired(self._store, key, self._timing.lease, self._monotonic)
            if lease is None:
                if self._monotonic() - begun >= patience:
                    raise Busy(f"somebody else is building the set of {self._builder.base.text}")
                self._wait_for_other(key, previous)
                continue
            left = begun + order.budget - self._monotonic()
            self._lease = lease
            try:
                built = self._built(lease, previous.number, order, left)
            finally:
                lease.release()
                self._lease = None
            if built is not None:
                if not built.unbuilt or built.failures or self._monotonic() - begun >= order.budget:
                    return
                is_done = self._is_complete  # what was only planned is read next
            self._stopping.wait(0 if built else LOOK_SECONDS)

    def _is_complete(self) -> bool:
        return self._snapshot is not None and not self._snapshot.unbuilt

    def _wait_for_other(self, key: str, previous: Snapshot) -> None:
        """Leave time to the holder of the lease *key*; if it is dead, see to it that it can never publish."""
        record = self._store.get(key)
        if record is not None and self._watch.is_still(key, record):
            # It may only be stopped, and wake up later: with its number taken all that it did is void.
            if self._archive.publish(replace(previous, number=previous.number + 1)):
                logger.warning("sitemap: the builder of set %d is held for dead", previous.number + 1)
            self._store.delete(key)
            return
        self._stopping.wait(LOOK_SECONDS)
        self._give_up_if_ending()

    def _built(self, lease: Lease, number: int, order: Order, left: float) -> Snapshot | None:
        """What follows set *number*, built in about *left* seconds and published; None if that must be tried again."""
        self._view.read()
        previous = self._snapshot or BLANK
        if previous.number != number:
            return None
        # Noted before anything is pulled: a touch from now on differs from them, and so is not lost.
        tokens, fingerprint, damaged = self._view.tokens, self._fingerprint(), self._view.is_damaged
        completing = self._is_completing(previous, fingerprint) and order.only is None
        try:
            with lease.kept_alive():
                self._builder.remove_leftovers(previous, lease.is_held)
                snapshot = self._builder.build(
                    previous,
                    fingerprint,
                    tokens,
                    checkpoint=partial(self._checkpoint, lease),
                    damaged=damaged,
                    progress=order.progress,
                    budget=min(left, self._longest(previous, completing)),
                    completing=completing,
                    only=order.only,
                )
                self._give_up_if_ending()
                is_published = self._archive.publish(snapshot)
        except LeaseLost:
            return None
        except Damaged:  # a document that was to be merged with others
            if damaged:
                raise
            self._view.is_damaged = True
            return None
        if not is_published:
            return None
        self._succeed(snapshot, damaged)
        return snapshot

    def _is_completing(self, previous: Snapshot, fingerprint: str) -> bool:
        """Whether all that is left to do is to read what was only planned."""
        is_planned = bool(previous.unbuilt) and all(section.is_complete for section in previous.sections.values())
        is_current = (
            previous.fingerprint == fingerprint and not self._view.is_damaged and not self._view.is_outdated(previous)
        )
        return is_planned and is_current and self._age(previous) < self._due_age(previous.failures)

    def _longest(self, previous: Snapshot, completing: bool) -> float:
        """After how many seconds what there is is published, and the rest left for the next build."""
        if not previous.sections:  # so that no request finds nothing, however large the site is
            return self._timing.build_wait * FIRST_PART
        return COMPLETING_SECONDS if completing else float("inf")

    def _succeed(self, snapshot: Snapshot, damaged: bool) -> None:
        self._view.accept(snapshot, is_mended=damaged)
        self.error = next((state.error for state in snapshot.sections.values() if state.error), None)
        self._failures, self._retry_at = 0, float("-inf")
        if self.error and damaged:
            self._back_off()  # what is damaged may be what could not be made again

    def _fail(self, error: BaseException) -> None:
        if self._stopping.is_set():
            return
        is_expected = isinstance(error, SitemapError)  # its text says it all
        logger.error("sitemap: build failed: %s", error, exc_info=None if is_expected else error)
        self.error = str(error) or type(error).__name__
        self._back_off()

    def _back_off(self) -> None:
        if self._timing.retry:
            self._failures = min(self._failures + 1, 20)
            delay = min(_delay(self._failures), max(self._timing.refresh, FIRST_RETRY))
            self._retry_at = self._monotonic() + delay

    def _checkpoint(self, lease: Lease) -> None:
        self._give_up_if_ending()
        lease.renew_if_due()
        now = self._monotonic()
        if now - self._paused_at >= PAUSE_SECONDS:
            time.sleep(0)  # let requests be answered between batches
            self._paused_at = now

    def _give_up_if_ending(self) -> None:
        if self._stopping.is_set():
            raise BuildFailed("this process is ending")

    def _reset(self) -> None:
        """Forget threads and locks, which do not survive a fork."""
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._job = self._thread = self._lease = None
        self.is_pending = False

    def _stop(self, patience: float = ENDING_SECONDS) -> None:
        self._stopping.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(patience)
            if (lease := self._lease) is not None:
                lease.release()  # its thread ends with the process, wherever it is


def _delay(failures: int) -> float:
    return FIRST_RETRY * float(2 ** min(failures - 1, 20))


_all: weakref.WeakSet[Refresher] = weakref.WeakSet()


def _stop_all() -> None:
    refreshers = list(_all)
    for refresher in refreshers:
        refresher._stopping.set()
    deadline = time.monotonic() + ENDING_SECONDS
    for refresher in refreshers:
        refresher._stop(max(0.0, deadline - time.monotonic()))


atexit.register(_stop_all)
