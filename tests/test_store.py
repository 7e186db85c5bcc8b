"""What every store keeps to, and what each backend adds."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cachelib import FileSystemCache, MemcachedCache, RedisCache, SimpleCache, ValkeyCache
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from flask_sitemapx.errors import ConfigurationError, StoreError
from flask_sitemapx.snapshots.cachelib_store import KEY_PREFIX, CachelibStore
from flask_sitemapx.snapshots.directory import ABANDONED_SECONDS, MTIME_SECONDS, DirectoryStore
from flask_sitemapx.snapshots.memory import MemoryStore
from flask_sitemapx.snapshots.opening import open_store

SHARED = ["directory", "redis", "valkey", "filesystem"]
EXCLUSIVE = ["memory", "directory", "redis", "valkey"]
BLOB = "blobs/site/ab/abcd"


class Backend:
    """Opens the same store again and again."""

    def __init__(self, kind: str, directory: Path, port: int) -> None:
        self.kind = kind
        self._directory = directory
        self._port = port
        self._memory = MemoryStore(10_000_000)

    def open(self) -> Any:
        return self._memory if self.kind == "memory" else open_store(self.setting(), 0)

    def setting(self) -> Any:
        if self.kind == "directory":
            return f"file:{self._directory}"
        if self.kind == "filesystem":
            return FileSystemCache(str(self._directory), threshold=0)
        cache = {"redis": RedisCache, "valkey": ValkeyCache}[self.kind]
        return cache(host="127.0.0.1", port=self._port, key_prefix=f"{self._directory}/")


def backend_of(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Backend:
    port = request.getfixturevalue("valkey_port") if kind in ("redis", "valkey") else 0
    return Backend(kind, tmp_path, port)


@pytest.fixture(params=["memory", *SHARED])
def backend(request, tmp_path) -> Backend:
    return backend_of(request.param, tmp_path, request)


@pytest.fixture
def store(backend) -> Any:
    if backend.kind == "filesystem":
        with pytest.warns(UserWarning, match="let one process build"):
            return backend.open()
    return backend.open()


for_shared = pytest.mark.parametrize("backend", SHARED, indirect=True)
for_exclusive = pytest.mark.parametrize("backend", EXCLUSIVE, indirect=True)


# The contract


def test_what_was_put_is_given_back(store):
    store.put(BLOB, b"\x00<xml>\xff")
    assert store.get(BLOB) == b"\x00<xml>\xff"


def test_what_is_absent_is_none(store):
    assert store.get("state/nothing") is None
    assert store.get("blobs/site/00/nothing") is None


def test_a_value_can_be_replaced_and_may_be_empty(store):
    store.put("state/head", b"1")
    store.put("state/head", b"")
    assert store.get("state/head") == b""


def test_a_large_value_is_kept_whole(store):
    value = os.urandom(512 * 1024)
    store.put(BLOB, value)
    assert store.get(BLOB) == value


def test_adding_creates_a_key_once(store):
    assert store.add("state/manifest.1", b"first") is True
    assert store.add("state/manifest.1", b"second") is False
    assert store.get("state/manifest.1") == b"first"


def test_a_deleted_key_is_absent_and_free(store):
    store.put("state/lease.1", b"x")
    store.delete("state/lease.1")
    store.delete("state/lease.1")
    assert store.get("state/lease.1") is None
    assert store.add("state/lease.1", b"y") is True


def test_blobs_are_listed_until_they_are_deleted(store):
    for key in (BLOB, "blobs/site/ab/abff", "blobs/site/cd/cdef", "blobs/other/ab/abcd", "state/site.head"):
        store.put(key, b"x")
    store.put(BLOB, b"again")
    store.delete("blobs/site/ab/abff")
    assert sorted(store.names("blobs/site/")) == [BLOB, "blobs/site/cd/cdef"]


def test_no_blobs_are_no_names(store):
    assert list(store.names("blobs/site/")) == []


def test_the_version_changes_with_the_state_or_is_not_told(store):
    before = store.version()
    store.put("state/touch.blog", b"x")
    put = store.version()
    store.delete("state/touch.blog")
    deleted = store.version()
    store.add("state/touch.blog", b"x")
    added = store.version()
    assert before is None or len({before, put, deleted, added}) == 4


@for_exclusive
def test_of_many_threads_that_add_at_once_one_succeeds(backend):
    stores = [backend.open() for _ in range(8)]
    for key in (f"state/manifest.{number}" for number in range(20)):
        barrier = threading.Barrier(len(stores))

        def add(store, key=key, barrier=barrier):
            barrier.wait(30)
            return store.add(key, str(id(store)).encode())

        with ThreadPoolExecutor(len(stores)) as threads:
            assert sorted(threads.map(add, stores)) == [False] * (len(stores) - 1) + [True]


@pytest.mark.parametrize("backend", ["directory", "redis", "valkey"], indirect=True)
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # it forks, and has threads
def test_of_many_processes_that_add_at_once_one_succeeds(backend):
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(4), context.SimpleQueue()
    processes = [context.Process(target=add_many, args=(backend, barrier, results)) for _ in range(4)]
    for process in processes:
        process.start()
    won = [results.get() for _ in processes]
    for process in processes:
        process.join(30)
    assert sorted(key for keys in won for key in keys) == sorted(f"state/manifest.{number}" for number in range(25))


def add_many(backend: Backend, barrier: Any, results: Any) -> None:
    store = backend.open()
    won = []
    for key in (f"state/manifest.{number}" for number in range(25)):
        barrier.wait(30)
        if store.add(key, b"x"):
            won.append(key)
    results.put(won)


@for_shared
@pytest.mark.filterwarnings("ignore:SITEMAP_STORE")
def test_another_process_finds_what_was_put(backend):
    backend.open().put(BLOB, b"x")
    backend.open().put("state/head", b"7")
    again = backend.open()
    assert again.shared
    assert again.get(BLOB) == b"x"
    assert again.get("state/head") == b"7"
    assert list(again.names("blobs/site/")) == [BLOB]


# memory:


def test_memory_is_not_shared_and_says_where_to_go_beyond_its_limit():
    store = MemoryStore(10)
    assert store.shared is False
    store.put("blobs/a", b"12345")
    store.put("blobs/a", b"1234567890")
    with pytest.raises(StoreError, match=r"11 bytes.*SITEMAP_MEMORY_LIMIT = 10.*'file:/a/directory'"):
        store.put("blobs/b", b"1")
    with pytest.raises(StoreError):
        store.add("state/b", b"1")
    assert store.get("blobs/b") is None
    store.delete("blobs/a")
    store.put("blobs/b", b"0987654321")


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # it forks, and may have threads
def test_a_forked_child_can_write_although_a_lock_was_held():
    store = MemoryStore(100)
    with store._lock:
        child = os.fork()
        if child == 0:
            store.put("state/head", b"1")
            os._exit(0 if store.get("state/head") == b"1" else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert store.get("state/head") is None


# file:


def test_a_value_that_is_half_written_is_not_to_be_seen(tmp_path, monkeypatch):
    store = DirectoryStore(tmp_path)
    store.put(BLOB, b"old")
    seen = []

    def failing(source, target):
        assert Path(source).read_bytes() == b"new"
        seen.extend([store.get(BLOB), sorted(store.names("blobs/"))])
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(StoreError, match="no space left"):
        store.put(BLOB, b"new")
    assert seen == [b"old", [BLOB]]
    assert list((tmp_path / "tmp").iterdir()) == []


def test_temporary_files_of_dead_processes_are_removed_and_others_left(tmp_path):
    DirectoryStore(tmp_path)
    old, young = tmp_path / "tmp" / "old", tmp_path / "tmp" / "young"
    old.touch()
    young.touch()
    long_ago = old.stat().st_mtime - ABANDONED_SECONDS - 60
    os.utime(old, (long_ago, long_ago))
    DirectoryStore(tmp_path)
    assert [path.name for path in (tmp_path / "tmp").iterdir()] == ["young"]


def test_a_directory_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=f"cannot use the directory {tmp_path}/file/maps"):
        DirectoryStore(tmp_path / "file" / "maps")


def test_a_directory_that_cannot_be_read_is_named(tmp_path):
    store = DirectoryStore(tmp_path)
    (tmp_path / "state" / "head").mkdir()
    with pytest.raises(StoreError, match=f"cannot read the directory {tmp_path}"):
        store.get("state/head")


def test_a_directory_that_was_removed_is_made_again(tmp_path):
    store = DirectoryStore(tmp_path / "maps")
    os.rename(tmp_path / "maps", tmp_path / "gone")
    assert store.version() is None
    assert store.get(BLOB) is None
    store.put(BLOB, b"x")
    assert store.add("state/manifest.1", b"y")
    assert (store.get(BLOB), store.get("state/manifest.1")) == (b"x", b"y")


def test_a_version_is_trusted_only_when_no_change_can_hide_behind_it(tmp_path):
    store = DirectoryStore(tmp_path)
    assert store.version() != store.version()
    before = (tmp_path / "state").stat().st_mtime - MTIME_SECONDS - 1
    os.utime(tmp_path / "state", (before, before))
    assert store.version() == store.version()


def test_files_have_the_permissions_that_the_umask_gives(tmp_path):
    store = DirectoryStore(tmp_path)
    before = os.umask(0o027)
    try:
        store.put(BLOB, b"x")
    finally:
        os.umask(before)
    assert (tmp_path / BLOB).stat().st_mode & 0o777 == 0o640


# cachelib


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("unpickled",))


@pytest.mark.parametrize("cache", [RedisCache, ValkeyCache])
def test_a_pickle_in_redis_is_bytes_like_others(valkey_port, tmp_path, cache):
    cache = cache(host="127.0.0.1", port=valkey_port, key_prefix=f"{tmp_path}:")
    store = CachelibStore(cache)
    planted = b"!" + pickle.dumps(Bomb())
    cache._write_client.set(f"{tmp_path}:{KEY_PREFIX}{BLOB}", planted)
    assert store.get(BLOB) == planted


@pytest.mark.filterwarnings("ignore:SITEMAP_STORE")
def test_a_pickle_in_a_file_is_bytes_like_others(tmp_path):
    cache = FileSystemCache(str(tmp_path), threshold=0)
    store = CachelibStore(cache)
    cache.set(KEY_PREFIX + BLOB, Bomb())
    assert store.get(BLOB) == pickle.dumps(Bomb(), pickle.HIGHEST_PROTOCOL)


@pytest.mark.parametrize("backend", ["redis", "valkey", "filesystem"], indirect=True)
@pytest.mark.filterwarnings("ignore:SITEMAP_STORE")
def test_the_application_s_own_cache_stays_as_it_was(backend):
    cache = backend.setting()
    serializer, prefix = cache.serializer, getattr(cache, "key_prefix", None)
    store = CachelibStore(cache)
    store.put("state/head", b"1")
    cache.set("state/head", {"mine": 1})
    assert (cache.serializer, getattr(cache, "key_prefix", None)) == (serializer, prefix)
    assert cache.get("state/head") == {"mine": 1}
    assert store.get("state/head") == b"1"


def test_no_value_expires(valkey_port, tmp_path):
    cache = RedisCache(host="127.0.0.1", port=valkey_port, key_prefix=f"{tmp_path}:", default_timeout=1)
    store = CachelibStore(cache)
    store.put(BLOB, b"x")
    store.add("state/manifest.1", b"x")
    client = Redis(port=valkey_port)
    assert [client.ttl(f"{tmp_path}:{KEY_PREFIX}{key}") for key in (BLOB, "state/manifest.1")] == [-1, -1]


def test_a_prefix_that_is_a_function_is_never_called(valkey_port, tmp_path):
    cache = RedisCache(host="127.0.0.1", port=valkey_port, key_prefix=lambda: pytest.fail("there is no request"))
    store = CachelibStore(cache)
    key = f"state/{tmp_path.name}.head"
    store.put(key, b"1")
    assert Redis(port=valkey_port).get(f"{KEY_PREFIX}{key}") == b"1"
    assert callable(cache.key_prefix)


def test_a_client_that_decodes_is_refused_when_it_shows(valkey_port, tmp_path):
    store = CachelibStore(RedisCache(Redis(port=valkey_port, decode_responses=True), key_prefix=f"{tmp_path}:"))
    store.put("state/head", b"1")
    with pytest.raises(StoreError, match="RedisCache gave str for 'state/head'; its client must not decode"):
        store.get("state/head")


def test_a_server_that_is_not_there_is_a_store_error():
    store = CachelibStore(RedisCache(host="127.0.0.1", port=1, retry=Retry(NoBackoff(), 0)))
    for call in (lambda: store.get(BLOB), lambda: store.put(BLOB, b""), lambda: store.add("state/x", b"")):
        with pytest.raises(StoreError, match="RedisCache: "):
            call()


@pytest.mark.filterwarnings("ignore:SITEMAP_STORE")
def test_a_value_that_was_not_kept_is_a_store_error(tmp_path, monkeypatch):
    store = CachelibStore(FileSystemCache(str(tmp_path), threshold=0))
    monkeypatch.setattr(store._cache, "set", lambda *args, **options: False)
    with pytest.raises(StoreError, match="FileSystemCache did not keep the 3 bytes of 'state/head'"):
        store.put("state/head", b"abc")


@pytest.mark.parametrize(
    ("cache", "says"),
    [
        (lambda path: SimpleCache(), "SimpleCache may drop or unpickle"),
        (lambda path: MemcachedCache(object()), "MemcachedCache may drop or unpickle"),
        (
            lambda path: FileSystemCache(path),
            "FileSystemCache drops values beyond its threshold of 500; give it thresh",
        ),
        (lambda path: type("HomeMadeCache", (SimpleCache,), {})(), "HomeMadeCache may drop"),
    ],
)
def test_caches_that_lose_values_are_refused_by_name_with_the_remedy(tmp_path, cache, says):
    with pytest.raises(ConfigurationError, match=rf"SITEMAP_STORE: {says}.*'file:/a/directory'"):
        open_store(cache(str(tmp_path)), 0)


# Opening


def test_a_setting_is_an_address_or_a_store(tmp_path):
    assert isinstance(open_store("memory:", 100), MemoryStore)
    for address in (f"file:{tmp_path}/a", f"file://{tmp_path}/a"):
        store = open_store(address, 0)
        assert isinstance(store, DirectoryStore)
        assert store.directory == tmp_path / "a"
    mine = MemoryStore(1)
    assert open_store(mine, 0) is mine


@pytest.mark.parametrize("setting", ["redis://localhost", "memory:x", "file:", "/var/maps", 7, None])
def test_other_settings_are_refused(setting):
    with pytest.raises(ConfigurationError, match="SITEMAP_STORE must be "):
        open_store(setting, 0)
