"""When a set is built, who builds it, and what is served meanwhile."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from flask_sitemapx.errors import BuildFailed, Damaged, NotBuilt, StoreError
from flask_sitemapx.snapshots import refresher as refresher_module
from flask_sitemapx.snapshots import view
from flask_sitemapx.snapshots.directory import DirectoryStore
from flask_sitemapx.snapshots.lease import Lease, Watch
from flask_sitemapx.snapshots.memory import MemoryStore
from flask_sitemapx.snapshots.refresher import FIRST_RETRY, Refresher, Timing
from flask_sitemapx.snapshots.snapshot import Snapshot
from flask_sitemapx.snapshots.store import POLL_SECONDS
from tests.section_sources import NOW, Clock, ListSource, Site, numbered, paths
from tests.waiting import until

HOUR = 3_600.0


class Polled(MemoryStore):
    """Memory that several keepers share as if they were processes, which does not tell of changes."""

    shared = True

    def __init__(self) -> None:
        super().__init__(10_000_000)
        self.trouble: str | None = None

    def get(self, key: str) -> bytes | None:
        if self.trouble:
            raise StoreError(self.trouble)
        return super().get(key)

    def version(self) -> Any:
        return None


class Process:
    """What one process has: a builder and a keeper on a store, and clocks of its own."""

    def __init__(self, store: Any, *items: str, version: str | None = None, name: str = "blog", **timing: Any) -> None:
        self.store = store
        self.source = ListSource(name, *(items or ("/a",)), version=version)
        self.site = Site(store, self.source)
        self.clock = self.site.clock
        self.monotonic = Clock(0.0)
        self.print = "print"
        given = {"refresh": HOUR, "build_wait": 30.0, "lease": 15.0, **timing}
        self.refresher = Refresher(
            self.site.builder,
            Timing(**given),
            lambda: [source.name for source in self.site.sources],
            lambda: self.print,
            self.clock,
            self.monotonic,
        )

    def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds
        self.monotonic.now += seconds

    def served(self) -> list[str]:
        return self.paths(self.refresher.current())

    def paths(self, snapshot: Snapshot) -> list[str]:
        assert snapshot.document is not None
        return paths(self.site.text(snapshot.document))

    def settled(self) -> None:
        """Wait for the background."""
        thread = self.refresher._thread
        if thread is not None:
            thread.join(30)
            assert not thread.is_alive()

    def state(self) -> str:
        self.refresher.last_good()
        return self.refresher.state()

    def fails(self, text: str = "the database is gone", kind: type[Exception] = OSError) -> None:
        def fail() -> None:
            raise kind(text)

        self.source.before_batch = fail

    def recovers(self) -> None:
        self.source.before_batch = lambda: None


def pieces(snapshot: Snapshot, section: str) -> list[str]:
    """The digests of the pieces of a section's first document."""
    document = snapshot.sections[section].shards[0].document
    assert document is not None
    return [digest for digest, _ in document.pieces]


class Gate:
    """Holds a source until it is opened."""

    def __init__(self, source: ListSource) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()
        source.before_batch = self

    def __call__(self) -> None:
        self.reached.set()
        assert self.opened.wait(30)


def in_thread(call: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
    thread.start()
    return thread, results


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(10_000_000)


@pytest.fixture
def process(store) -> Process:
    return Process(store)


# Freshness


def test_the_first_need_starts_a_build_and_waits_for_it(process):
    assert process.refresher.last_good() is None
    assert process.state() == "missing"
    assert process.served() == ["/a"]
    assert process.state() == "fresh"
    assert process.source.pulls == 1


def test_a_fresh_set_is_served_itself_and_nothing_is_built(process):
    first = process.refresher.current()
    process.pass_time(HOUR - 1)
    assert process.refresher.current() is first
    assert process.source.pulls == 1


def test_a_set_that_is_due_is_served_at_once_and_built_in_the_background(process):
    first = process.refresher.current()
    gate = Gate(process.source)
    process.pass_time(HOUR)
    assert process.state() == "due"
    assert process.refresher.current() is first
    assert gate.reached.wait(30)
    assert process.refresher.current() is first
    gate.opened.set()
    process.settled()
    assert process.refresher.current().number == 2
    assert process.source.pulls == 2


def test_a_stale_set_is_waited_for(process):
    process.refresher.current()
    process.pass_time(2 * HOUR)
    process.source.items = ["/new"]
    assert process.state() == "stale"
    assert process.served() == ["/new"]


def test_a_wait_ends_with_its_time_and_the_stale_set_is_served():
    process = Process(MemoryStore(10_000_000), build_wait=0.05)
    first = process.refresher.current()
    gate = Gate(process.source)
    process.pass_time(2 * HOUR)
    assert process.refresher.current() is first
    process.pass_time(1)
    assert process.refresher.current() is first  # and this one did not wait: the build began too long ago
    gate.opened.set()
    process.settled()
    assert process.source.pulls == 2


def test_with_nothing_built_yet_it_says_when_to_ask_again():
    process = Process(MemoryStore(10_000_000), build_wait=0.05)
    gate = Gate(process.source)
    with pytest.raises(NotBuilt, match="the first build is not done yet") as caught:
        process.refresher.current()
    assert caught.value.retry_after == 1
    gate.opened.set()
    process.settled()
    assert process.served() == ["/a"]


def test_a_clock_that_jumped_back_makes_no_set_young_for_ever(process):
    process.refresher.current()
    process.clock.now -= 5 * HOUR
    assert process.state() == "stale"
    process.refresher.current()
    assert process.state() == "fresh"


def test_many_requests_at_once_are_one_build(process):
    gate = Gate(process.source)
    requests = [in_thread(process.served) for _ in range(20)]
    assert gate.reached.wait(30)
    gate.opened.set()
    for thread, _ in requests:
        thread.join(30)
    assert [results for _, results in requests] == [[["/a"]]] * 20
    assert process.source.pulls == 1


def test_a_build_that_is_asked_for_is_made_at_any_age(process):
    first = process.refresher.current()
    process.source.items = ["/new"]
    built = process.refresher.build()
    assert built.number == first.number + 1
    assert process.served() == ["/new"]


def test_a_build_that_is_asked_for_waits_for_another_builder(process):
    gate = Gate(process.source)
    process.refresher._start()
    assert gate.reached.wait(30)
    thread, results = in_thread(process.refresher.build)
    gate.opened.set()
    thread.join(30)
    assert [snapshot.number for snapshot in results] == [1]
    assert process.source.pulls == 1


def test_a_build_that_is_asked_for_raises_what_it_fails_with(process):
    process.fails()
    with pytest.raises(BuildFailed, match="section 'blog': OSError: the database is gone"):
        process.refresher.build()


# Touches


def test_a_touched_section_is_waited_for(process):
    process.source.said = "1"
    process.refresher.current()
    process.source.items = ["/new"]
    process.refresher.touch("blog")
    assert process.state() == "stale"
    assert process.served() == ["/new"]
    assert process.state() == "fresh"
    assert process.source.pulls == 2


def test_a_touch_is_for_one_section(store):
    process = Process(store, version="1")
    shop = ListSource("shop", "/shop", version="1")
    process.site.sources.append(shop)
    process.refresher.current()
    process.refresher.touch("shop")
    process.refresher.current()
    assert (process.source.pulls, shop.pulls) == (1, 2)


def test_a_touch_of_a_section_that_is_not_ours_changes_nothing(process):
    process.refresher.current()
    process.refresher.touch("somebody-else-s")
    assert process.state() == "fresh"


def test_a_touch_during_a_build_is_not_lost(process):
    gate = Gate(process.source)
    thread, first = in_thread(process.served)
    assert gate.reached.wait(30)
    process.recovers()
    process.refresher.touch("blog")
    gate.opened.set()
    thread.join(30)
    process.settled()
    process.source.items = ["/new"]
    assert process.state() == "stale"
    assert process.served() == ["/new"]
    assert first in ([["/a"]], [["/new"]])


def test_who_comes_after_a_touch_waits_for_a_build_that_began_after_it(process):
    process.refresher.current()
    process.refresher.touch("blog")
    gate = Gate(process.source)
    threading.Thread(target=process.refresher.current, daemon=True).start()
    assert gate.reached.wait(30)
    process.source.items = ["/new"]  # the batch at hand was not taken yet, so let it be seen to be read twice
    process.refresher.touch("blog")
    thread, results = in_thread(process.served)
    process.recovers()
    gate.opened.set()
    thread.join(30)
    assert results == [["/new"]]
    assert process.source.pulls == 3


# Failures


def test_a_build_that_failed_is_left_alone_for_longer_and_longer(process, caplog):
    process.refresher.current()
    process.source.said = "2"
    process.print = "other"
    process.fails("the store is full", StoreError)  # which fails the build, not the section
    pulls, waits = process.source.pulls, []
    for _ in range(14):
        process.refresher.current()
        process.settled()
        pulls += 1
        assert process.source.pulls == pulls
        waits.append(process.refresher._retry_at - process.monotonic.now)
        process.pass_time(waits[-1] - 0.1)
        process.refresher.current()
        process.settled()
        assert process.source.pulls == pulls
        process.pass_time(0.1)
    assert waits[:4] == [FIRST_RETRY, 2 * FIRST_RETRY, 4 * FIRST_RETRY, 8 * FIRST_RETRY]
    assert waits[-1] == HOUR
    assert process.refresher.error == "the store is full"
    assert caplog.text.count("sitemap: build failed") == 14
    process.recovers()
    assert process.served() == ["/a"]
    assert process.refresher.error is None


def test_an_empty_manifest_is_a_damaged_one_and_built_anew(process, store):
    process.refresher.current()
    site = process.site.archive.site
    store.put(f"state/{site}.manifest.2", b"")
    process.refresher.touch(process.source.name)
    assert process.served() == ["/a"]
    process.settled()
    assert process.source.pulls == 2
    assert process.refresher.current().number == 3


def test_a_site_is_known_to_be_empty_only_while_its_set_is_fresh(process):
    assert process.refresher.known() is None
    process.source.items = []
    process.refresher.current()
    known = process.refresher.known()
    assert known is not None
    assert known.document is None
    process.pass_time(HOUR)
    assert process.refresher.known() is None


def test_a_store_that_is_silent_holds_up_one_request_and_no_other(process, store, monkeypatch):
    process.refresher.current()
    silent, asked = threading.Event(), threading.Event()

    def latest(known: Snapshot | None) -> Snapshot | None:
        asked.set()
        assert silent.wait(30)
        return known

    monkeypatch.setattr(process.site.archive, "latest", latest)
    monkeypatch.setattr(view, "LOOK_PATIENCE", 0.01)
    monkeypatch.setattr(view, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(type(store), "version", lambda self: object())
    thread, _ = in_thread(process.refresher.current)
    assert asked.wait(30)
    for _ in range(2):
        assert process.served() == ["/a"]
    assert process.refresher.store_error == "the store does not answer"
    silent.set()
    thread.join(30)


def test_a_cold_build_that_failed_says_when_it_is_tried_again(process):
    process.fails()
    for _ in range(2):
        with pytest.raises(NotBuilt, match="the database is gone") as caught:
            process.refresher.current()
        assert caught.value.retry_after == FIRST_RETRY
    assert process.source.pulls == 1
    process.pass_time(FIRST_RETRY)
    process.recovers()
    assert process.served() == ["/a"]


def test_in_debug_failures_are_shown_and_tried_again_at_once(store):
    process = Process(store, retry=False)
    process.fails()
    for _ in range(2):
        with pytest.raises(BuildFailed, match="the database is gone"):
            process.refresher.current()
    assert process.source.pulls == 2
    process.recovers()
    assert process.served() == ["/a"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_exit_in_a_source_is_a_failure_and_leaves_nobody_waiting(process):
    def leave() -> None:
        raise SystemExit("bye")

    process.source.before_batch = leave
    with pytest.raises(NotBuilt, match="bye"):
        process.refresher.current()
    process.settled()
    assert process.store.names("state/") == []


def test_a_section_that_failed_is_tried_again_soon_by_one_of_all_processes(store):
    store.shared = True
    one, other = Process(store), Process(store)
    one.refresher.current()
    one.fails()
    other.fails()
    pulls = []
    for age in (HOUR, FIRST_RETRY, 2 * FIRST_RETRY):
        one.pass_time(age)
        other.clock.now, other.monotonic.now = one.clock.now, one.monotonic.now
        for process in (one, other, other, one):
            process.refresher.current()
            process.settled()
        pulls.append(one.source.pulls + other.source.pulls)
    assert pulls == [2, 3, 4]
    assert other.refresher.current().failures == 3
    assert other.served() == ["/a"]
    one.pass_time(4 * FIRST_RETRY - 1)
    assert one.state() == "fresh"
    one.pass_time(1)
    assert one.state() == "due"


def test_a_touch_of_a_section_that_failed_has_it_tried_at_once(process):
    process.refresher.current()
    process.fails()
    process.refresher.touch("blog")
    assert process.served() == ["/a"]
    assert process.state() == "fresh"
    assert process.refresher.error == "OSError: the database is gone"
    process.recovers()
    process.source.items = ["/new"]
    process.refresher.touch("blog")
    assert process.served() == ["/new"]


def test_in_debug_a_touched_section_that_fails_is_shown(store):
    process = Process(store, retry=False)
    process.refresher.current()
    process.fails()
    process.refresher.touch("blog")
    with pytest.raises(BuildFailed, match="the database is gone"):
        process.refresher.current()


# Other processes


def test_what_another_process_published_is_served_without_a_build(tmp_path):
    one, other = Process(DirectoryStore(tmp_path), "/one"), Process(DirectoryStore(tmp_path), "/other")
    one.refresher.current()
    assert other.served() == ["/one"]
    one.source.items = ["/two"]
    one.refresher.build()
    assert other.served() == ["/two"]
    assert other.source.pulls == 0


def test_what_another_process_touched_is_stale_here(tmp_path):
    one, other = Process(DirectoryStore(tmp_path)), Process(DirectoryStore(tmp_path), "/other")
    one.refresher.current()
    assert other.served() == ["/a"]
    one.refresher.touch("blog")
    assert other.served() == ["/other"]
    assert one.served() == ["/other"]


def test_a_store_that_tells_no_version_is_looked_at_once_a_second():
    store = Polled()
    one, other = Process(store, "/one"), Process(store)
    one.refresher.current()
    assert other.served() == ["/one"]
    one.source.items = ["/two"]
    one.refresher.build()
    other.pass_time(POLL_SECONDS / 2)
    assert other.served() == ["/one"]
    other.pass_time(POLL_SECONDS / 2)
    assert other.served() == ["/two"]


def test_its_own_touch_is_seen_at_once():
    process = Process(Polled())
    process.refresher.current()
    process.source.items = ["/new"]
    process.refresher.touch("blog")
    assert process.served() == ["/new"]


def test_another_set_up_builds_once_and_not_in_turns(store):
    store.shared = True
    old, new = Process(store, "/old"), Process(store, "/new")
    new.print = "new print"
    assert old.served() == ["/old"]
    for _ in range(3):
        assert new.served() == ["/new"]
        assert old.served() == ["/new"]
    assert (old.source.pulls, new.source.pulls) == (1, 1)


def test_who_has_only_seen_a_set_like_its_own_leaves_the_newer_one(store):
    store.shared = True
    old, seen, new = Process(store, "/old"), Process(store, "/old"), Process(store, "/new")
    new.print = "new print"
    old.refresher.current()
    assert seen.served() == ["/old"]
    new.refresher.current()
    assert seen.served() == ["/new"]
    assert seen.source.pulls == 0


def test_a_section_that_only_the_other_knows_makes_nothing_stale(store):
    store.shared = True
    old, new = Process(store), Process(store)
    old.site.sources.append(ListSource("shop", "/shop"))
    old.refresher.touch("shop")
    old.refresher.current()
    assert new.state() == "fresh"


# A builder that is dead, or seems so


class Stopped(Process):
    """A process that was stopped in the middle of a build."""

    def __init__(self, store: Any, *items: str) -> None:
        super().__init__(store, *items)
        self.gate = Gate(self.source)
        self.refresher._start()
        assert self.gate.reached.wait(30)

    def goes_on(self) -> None:
        self.recovers()
        self.gate.opened.set()
        self.settled()


def living(process: Process) -> threading.Thread:
    thread, _ = in_thread(process.served)
    return thread


def test_a_builder_without_signs_of_life_is_held_for_dead_after_its_time(store, caplog):
    store.shared = True
    stopped, other = Stopped(store, "/stopped"), Process(store, "/other")
    thread = living(other)
    until(lambda: other.refresher._watch._seen)
    other.monotonic.now += 14.9
    assert not other.source.pulls
    other.monotonic.now += 0.1
    thread.join(30)
    assert other.served() == ["/other"]
    assert "the builder of set 1 is held for dead" in caplog.text
    stopped.goes_on()
    assert other.served() == ["/other"]
    assert stopped.served() == ["/other"]
    assert other.refresher.current().number == 2


def test_who_was_held_for_dead_cannot_publish_and_leaves_nothing(store):
    store.shared = True
    first = Process(store, "/first")
    first.refresher.current()
    stopped = Process(store, "/stopped")
    assert stopped.served() == ["/first"]
    stopped.source.items = ["/stopped"]
    gate = Gate(stopped.source)
    stopped.pass_time(HOUR)
    stopped.refresher.current()
    assert gate.reached.wait(30)
    other = Process(store, "/other")
    other.pass_time(HOUR)
    other.refresher.current()
    until(lambda: other.refresher._watch._seen)
    other.monotonic.now += 15
    other.settled()
    assert other.served() == ["/other"]
    assert other.refresher.current().number == 3
    stopped.recovers()
    gate.opened.set()
    stopped.settled()
    assert stopped.refresher.current().number == 3
    other.refresher.build()
    assert set(store.names("blobs/")) == {
        f"blobs/site/{digest[:2]}/{digest}"
        for digest in other.refresher.current().blobs() | set(other.refresher.current().garbage)
    }


def test_who_lost_its_lease_gives_up_at_the_next_batch(store):
    store.shared = True
    process = Process(store, *numbered(12))
    steps = iter(range(2))

    def stop() -> None:
        if next(steps, None) == 1:
            process.monotonic.now += 15
            store.delete(process.site.archive.lease_key(1))

    process.source.before_batch = stop
    process.refresher._start()
    process.settled()
    assert process.source.pulls == 2
    assert process.refresher.current().count == 12
    assert process.refresher.error is None


def is_other(watch: Watch, seen: object) -> bool:
    return watch._seen != seen


def test_a_builder_that_gives_signs_of_life_is_waited_for(store):
    store.shared = True
    lease = Lease.acquired(store, "state/site.lease.1", 15, lambda: 0.0)
    assert lease is not None
    other = Process(store)
    thread = living(other)
    for _ in range(20):
        before = other.refresher._watch._seen
        lease.renew()
        until(partial(is_other, other.refresher._watch, before))
        other.monotonic.now += 10
    assert other.source.pulls < 1
    lease.release()
    thread.join(30)
    assert other.served() == ["/a"]


def test_a_build_that_is_asked_for_is_none_that_a_dead_builder_left(store):
    store.shared = True
    process = Process(store, "/first")
    process.refresher.current()
    Lease.acquired(store, "state/site.lease.2", 15, lambda: 0.0)
    process.source.items = ["/new"]
    thread, results = in_thread(process.refresher.build)
    until(lambda: process.refresher._watch._seen)
    process.monotonic.now += 15
    thread.join(30)
    assert process.paths(results[0]) == ["/new"]
    assert results[0].number == 3


def test_a_set_that_another_published_first_is_taken(store, monkeypatch):
    store.shared = True
    process, other = Process(store, "/mine"), Process(store, "/other")
    acquired = Lease.acquired

    def overtaken(*args):
        monkeypatch.setattr(Lease, "acquired", acquired)
        other.refresher.build()
        return acquired(*args)

    monkeypatch.setattr(Lease, "acquired", overtaken)
    assert process.served() == ["/other"]
    assert process.source.pulls == 0


# Trouble with the store


def test_trouble_with_the_store_is_noted_and_the_last_good_set_served(caplog):
    store = Polled()
    process = Process(store)
    first = process.refresher.current()
    store.trouble = "no connection"
    for _ in range(3):
        process.pass_time(POLL_SECONDS)
        assert process.refresher.current() is first
    assert process.refresher.store_error == "no connection"
    assert caplog.text.count("no connection") == 1
    store.trouble = None
    assert process.refresher.current() is first
    process.pass_time(POLL_SECONDS)
    assert process.refresher.current() is first
    assert process.refresher.store_error is None


def test_a_store_that_comes_back_is_used_before_the_wait_after_failures_is_over(caplog):
    store = Polled()
    process = Process(store)
    store.trouble = "no connection"
    for _ in range(6):
        with pytest.raises(NotBuilt, match="no connection"):
            process.refresher.current()
        process.settled()
        process.pass_time(max(0.0, process.refresher._retry_at - process.monotonic.now))
    with pytest.raises(NotBuilt):
        process.refresher.current()
    process.settled()
    store.trouble = None
    process.pass_time(POLL_SECONDS)
    assert process.served() == ["/a"]


def test_a_version_that_cannot_be_told_is_trouble_too(store, monkeypatch):
    process = Process(store)
    first = process.refresher.current()

    def version():
        raise StoreError("cannot read the directory")

    monkeypatch.setattr(store, "version", version)
    assert process.refresher.current() is first
    assert process.refresher.store_error == "cannot read the directory"


def test_others_do_not_wait_for_a_look_at_a_store_in_trouble():
    store = Polled()
    process = Process(store)
    first = process.refresher.current()
    store.trouble = "no connection"
    process.pass_time(POLL_SECONDS)
    process.refresher.current()
    process.pass_time(POLL_SECONDS)
    with process.refresher._view._reading:  # as if a thread were looking
        thread, results = in_thread(process.refresher.current)
        thread.join(30)
    assert results == [first]


def test_a_damaged_document_has_all_built_anew(process):
    first = process.refresher.current()
    digest = first.document.pieces[0][0]
    process.store.put(f"blobs/site/{digest[:2]}/{digest}", b"rubbish")
    with pytest.raises(Damaged):
        process.refresher.blob(digest)
    assert process.state() == "stale"
    assert process.served() == ["/a"]
    assert process.state() == "fresh"
    assert process.refresher.blob(digest)


def test_damage_that_is_noticed_again_while_it_is_mended_has_nothing_built_twice(process):
    first = process.refresher.current()
    digest = first.document.pieces[0][0]
    process.store.delete(f"blobs/site/{digest[:2]}/{digest}")
    gate = Gate(process.source)
    with pytest.raises(Damaged):
        process.refresher.blob(digest)
    thread, results = in_thread(process.served)
    assert gate.reached.wait(30)
    with pytest.raises(Damaged):
        process.refresher.blob(digest)
    gate.opened.set()
    thread.join(30)
    assert results == [["/a"]]
    assert process.state() == "fresh"
    assert process.source.pulls == 2


def test_damage_that_is_noticed_during_another_build_is_not_forgotten(store):
    process = Process(store, version="1")
    process.site.rules = replace(process.site.rules, always_index=True)
    slow = ListSource("slow", "/slow")
    process.site.sources.append(slow)
    digest = pieces(process.refresher.current(), "blog")[0]
    gate = Gate(slow)
    process.pass_time(HOUR)
    process.refresher.current()
    assert gate.reached.wait(30)
    store.delete(f"blobs/site/{digest[:2]}/{digest}")
    with pytest.raises(Damaged):
        process.refresher.blob(digest)
    gate.opened.set()
    process.settled()
    assert process.state() == "stale"
    process.refresher.current()
    assert process.refresher.blob(digest)
    assert process.source.pulls == 2


def test_a_document_of_a_set_long_gone_is_no_damage(process):
    first = process.refresher.current()
    process.source.items = ["/new"]
    for _ in range(3):
        process.refresher.build()
        process.pass_time(700)
    digest = first.document.pieces[0][0]
    with pytest.raises(Damaged):
        process.refresher.blob(digest)
    assert process.state() == "fresh"


def test_damage_that_a_build_meets_is_mended_by_another_build(store):
    store.shared = True
    process = Process(store, version="1")
    shop = ListSource("shop", "/shop", version="1")
    process.site.sources.append(shop)
    first = process.refresher.current()
    digest = pieces(first, "shop")[0]
    store.delete(f"blobs/site/{digest[:2]}/{digest}")
    process.source.items, process.source.said = ["/new"], "2"
    process.refresher.touch("blog")
    assert process.served() == ["/new", "/shop"]
    assert process.state() == "fresh"
    assert process.refresher.error is None


def test_damage_that_stays_is_a_failure(store, monkeypatch):
    process = Process(store)
    process.refresher.current()

    def build(*args, **options):
        raise Damaged("blobs/x is missing")

    monkeypatch.setattr(process.site.builder, "build", build)
    with pytest.raises(Damaged):
        process.refresher.build()


def test_damage_in_a_section_that_fails_is_not_met_by_building_on_and_on(process):
    first = process.refresher.current()
    digest = first.document.pieces[0][0]
    process.store.delete(f"blobs/site/{digest[:2]}/{digest}")
    process.fails()
    for _ in range(5):
        with pytest.raises(Damaged):
            process.refresher.blob(digest)
        process.refresher.current()
        process.settled()
    assert process.source.pulls == 2
    process.pass_time(FIRST_RETRY)
    process.recovers()
    assert process.served() == ["/a"]


def test_an_emptied_store_is_filled_again(tmp_path):
    process = Process(DirectoryStore(tmp_path / "maps"), version="1")
    process.refresher.current()
    os.rename(tmp_path / "maps", tmp_path / "gone")
    process.pass_time(POLL_SECONDS)
    assert process.served() == ["/a"]
    assert process.refresher.current().number == 2
    again = Process(DirectoryStore(tmp_path / "maps"), "/unused")
    assert again.served() == ["/a"]


# Without threads, and after forks


@pytest.fixture
def no_threads(monkeypatch):
    start = threading.Thread.start

    def refuse(thread):
        if thread.name.startswith("sitemap"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)


def test_where_no_thread_can_run_the_build_runs_after_the_response(process, no_threads):
    for _ in range(2):
        with pytest.raises(NotBuilt):
            process.refresher.current()
    assert process.refresher.is_pending
    process.refresher.run_pending()
    assert not process.refresher.is_pending
    process.refresher.run_pending()
    assert process.served() == ["/a"]
    assert process.source.pulls == 1
    first = process.refresher.current()
    process.pass_time(HOUR)
    assert process.refresher.current() is first
    process.refresher.run_pending()
    assert process.refresher.current().number == 2


def test_two_responses_that_end_at_once_are_one_build(process, no_threads):
    with pytest.raises(NotBuilt):
        process.refresher.current()
    gate = Gate(process.source)
    thread, _ = in_thread(process.refresher.run_pending)
    assert gate.reached.wait(30)
    process.refresher.is_pending = True
    process.refresher.run_pending()
    gate.opened.set()
    thread.join(30)
    assert process.source.pulls == 1


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # it forks, and has threads
@pytest.mark.parametrize("in_memory", [True, False])
def test_a_forked_child_builds_although_its_parent_s_thread_and_locks_are_gone(tmp_path, in_memory):
    store = MemoryStore(10_000_000) if in_memory else DirectoryStore(tmp_path)
    process = Process(store, lease=0.3)
    process.refresher._monotonic = time.monotonic
    process.refresher._watch._monotonic = process.refresher._view._monotonic = time.monotonic
    gate = Gate(process.source)
    process.refresher._start()
    assert gate.reached.wait(30)
    with process.refresher._lock, process.refresher._view._reading:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                gate.opened.set()
                built = process.served()
                code = 0 if (built, process.source.pulls) == (["/a"], 2 if in_memory else 1) else 2
            finally:
                os._exit(code)
    if not in_memory:
        gate.opened.set()  # the parent is alive, so the child leaves the build to it
    assert os.waitpid(child, 0)[1] == 0
    gate.opened.set()
    process.settled()
    assert process.served() == ["/a"]


def test_a_process_that_ends_gives_its_lease_back_and_is_no_failure(process, caplog):
    gate = Gate(process.source)
    process.refresher._start()
    assert gate.reached.wait(30)
    stopping = threading.Thread(target=refresher_module._stop_all)
    stopping.start()
    until(process.refresher._stopping.is_set)
    gate.opened.set()
    stopping.join(30)
    process.settled()
    assert list(process.store.names("state/")) == []
    assert "failed" not in caplog.text


def test_who_waits_for_another_builder_ends_with_its_process(store):
    store.shared = True
    Lease.acquired(store, "state/site.lease.1", 15, lambda: 0.0)
    process = Process(store)
    process.refresher._start()
    until(lambda: process.refresher._watch._seen)
    process.refresher._stop()
    process.settled()
    assert process.source.pulls == 0


def test_the_time_of_a_set_is_when_it_was_built(process):
    assert process.refresher.current().built_at == NOW


def test_a_set_is_due_when_something_in_it_stops_being_true(process):
    process.refresher.current()
    known = process.refresher._snapshot
    vars(known)["expires_at"] = process.clock.now + 60.0  # as if there were news in it
    process.pass_time(59)
    assert process.state() == "fresh"
    process.pass_time(1)
    assert process.state() == "due"
    process.refresher.current()
    process.settled()
    assert process.state() == "fresh"
