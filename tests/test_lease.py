"""The right to build: one holder, signs of life, and what a watcher may conclude."""

from __future__ import annotations

import threading

import pytest

from flask_sitemapx.errors import StoreError
from flask_sitemapx.snapshots.lease import Lease, LeaseLost, Watch
from flask_sitemapx.snapshots.memory import MemoryStore

KEY = "state/site.lease.1"


class Clock:
    """A monotonic clock that stands still."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(10_000)


def acquired(store, clock, seconds=15.0) -> Lease:
    lease = Lease.acquired(store, KEY, seconds, clock)
    assert lease is not None
    return lease


def test_one_of_two_gets_the_lease_and_the_other_when_it_is_released(store, clock):
    lease = acquired(store, clock)
    assert Lease.acquired(store, KEY, 15, clock) is None
    lease.release()
    assert acquired(store, clock).is_held()


def test_a_lease_is_held_until_its_time_is_over(store, clock):
    lease = acquired(store, clock)
    clock.now += 14.9
    assert lease.is_held()
    clock.now += 0.1
    assert not lease.is_held()


def test_a_sign_of_life_prolongs_it(store, clock):
    lease = acquired(store, clock)
    clock.now += 10
    lease.renew()
    clock.now += 14.9
    assert lease.is_held()


def test_a_sign_of_life_that_comes_too_late_is_none(store, clock):
    lease = acquired(store, clock)
    before = store.get(KEY)
    clock.now += 15
    with pytest.raises(LeaseLost):
        lease.renew()
    assert store.get(KEY) == before


def test_a_lease_whose_record_is_gone_is_lost_and_does_not_come_back(store, clock):
    lease = acquired(store, clock)
    store.delete(KEY)
    with pytest.raises(LeaseLost):
        lease.renew()
    assert store.get(KEY) is None


def test_a_late_holder_may_still_make_room_but_only_its_own(store, clock):
    late = acquired(store, clock)
    clock.now += 100
    late.release()
    lease = acquired(store, clock)
    late.release()
    assert lease.is_held()


def test_between_batches_it_is_renewed_only_when_a_third_of_its_time_is_over(store, clock):
    lease = acquired(store, clock)
    first = store.get(KEY)
    clock.now += 4.9
    lease.renew_if_due()
    assert store.get(KEY) == first
    clock.now += 0.1
    lease.renew_if_due()
    assert store.get(KEY) != first


def test_a_thread_renews_it_while_a_source_is_silent_and_then_ends(store, clock):
    put = threading.Event()

    class Observed(MemoryStore):
        def put(self, key, value):
            super().put(key, value)
            put.set()

    store = Observed(10_000)
    lease = acquired(store, clock, seconds=0.03)
    with lease.kept_alive():
        assert put.wait(30)
    assert not [thread for thread in threading.enumerate() if thread.name == "sitemap-lease"]


def test_a_store_in_trouble_does_not_end_the_signs_of_life(clock):
    tried = threading.Semaphore(0)

    class Troubled(MemoryStore):
        def put(self, key, value):
            tried.release()
            raise StoreError("no connection")

    lease = acquired(Troubled(10_000), clock, seconds=0.03)
    with lease.kept_alive():
        assert tried.acquire(timeout=30)
        assert tried.acquire(timeout=30)


def test_without_a_thread_the_lease_lasts_as_long_as_it_lasts(store, clock, monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    lease = acquired(store, clock)
    with lease.kept_alive():
        assert lease.is_held()


def test_a_release_that_the_store_refuses_is_no_error(clock):
    class Refusing(MemoryStore):
        def delete(self, key):
            raise StoreError("no connection")

    acquired(Refusing(10_000), clock).release()


def test_a_record_that_stands_still_for_its_time_is_still(clock):
    watch = Watch(15, clock)
    assert not watch.is_still(KEY, b"a 1")
    clock.now += 14.9
    assert not watch.is_still(KEY, b"a 1")
    clock.now += 0.1
    assert watch.is_still(KEY, b"a 1")


def test_a_record_that_changed_is_watched_anew(clock):
    watch = Watch(15, clock)
    watch.is_still(KEY, b"a 1")
    clock.now += 10
    assert not watch.is_still(KEY, b"a 2")
    clock.now += 10
    assert not watch.is_still(KEY, b"a 2")
    assert not watch.is_still("state/site.lease.2", b"a 2")


@pytest.mark.parametrize("ahead", [-100_000.0, 0.0, 100_000.0])
def test_no_watcher_holds_a_living_holder_for_dead_however_its_clock_goes(store, clock, ahead):
    lease = acquired(store, clock)
    watch = Watch(15, lambda: clock.now + ahead)
    for _ in range(10):
        clock.now += 5
        lease.renew_if_due()
        assert not watch.is_still(KEY, store.get(KEY) or b"")
