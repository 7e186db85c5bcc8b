"""What every store keeps to, and what each backend adds."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import re
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cachelib import FileSystemCache, MemcachedCache, RedisCache, SimpleCache, ValkeyCache
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from flask_sitemapx.errors import ConfigurationError, Damaged, StoreError
from flask_sitemapx.snapshots.cachelib_store import KEY_PREFIX, CachelibStore
from flask_sitemapx.snapshots.compression import decompressed, zlib_codec
from flask_sitemapx.snapshots.directory import ABANDONED_SECONDS, MTIME_SECONDS, DirectoryStore
from flask_sitemapx.snapshots.lease import Lease, Watch
from flask_sitemapx.snapshots.memory import MemoryStore
from flask_sitemapx.snapshots.opening import described, open_store
from flask_sitemapx.snapshots.redis_store import RedisStore
from flask_sitemapx.snapshots.shards import Pieces
from flask_sitemapx.snapshots.snapshot import Archive
from flask_sitemapx.snapshots.sql_store import SqlStore
from flask_sitemapx.snapshots.view import touch

CACHES = {"RedisCache": RedisCache, "ValkeyCache": ValkeyCache}
SHARED = ["directory", *CACHES, "FileSystemCache", "redis", "sqlite", "postgresql"]
EXCLUSIVE = ["memory", *(kind for kind in SHARED if kind != "FileSystemCache")]
LISTING_STATE = [kind for kind in EXCLUSIVE if kind not in CACHES]
BLOB = "blobs/site/ab/abcd"
DATABASE = 15  # of the tests that need the whole of one


class Backend:
    """Opens the same store again and again."""

    def __init__(self, kind: str, setting: Callable[[], Any]) -> None:
        self.kind = kind
        self.setting = setting
        self._memory = MemoryStore(10_000_000)

    def open(self) -> Any:
        return self._memory if self.kind == "memory" else open_store(self.setting(), 0)


def backend_of(kind: str, path: Path, request: pytest.FixtureRequest) -> Backend:
    if kind == "postgresql":
        url = request.getfixturevalue("postgresql_url")
        return Backend(kind, lambda: url)
    if kind == "redis":
        port = request.getfixturevalue("valkey_port")
        Redis(port=port, db=DATABASE).flushdb()
        return Backend(kind, lambda: f"redis://127.0.0.1:{port}/{DATABASE}")
    if cache := CACHES.get(kind):
        port = request.getfixturevalue("valkey_port")
        return Backend(kind, lambda: cache(host="127.0.0.1", port=port, key_prefix=f"{path}/"))
    settings = {
        "memory": lambda: "memory:",
        "directory": lambda: f"file:{path}",
        "sqlite": lambda: f"sqlite:///{path}/maps.db",
        "FileSystemCache": lambda: FileSystemCache(str(path), threshold=0),
    }
    return Backend(kind, settings[kind])


@pytest.fixture(params=["memory", *SHARED])
def backend(request, tmp_path) -> Backend:
    return backend_of(request.param, tmp_path, request)


@pytest.fixture
def store(backend) -> Any:
    if backend.kind == "FileSystemCache":
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


@pytest.mark.parametrize("backend", LISTING_STATE, indirect=True)
def test_the_names_below_a_prefix_are_those_that_begin_with_it(store):
    keys = ["state/a.head", "state/Z.head", "state/b_c", "state0", "states/x", "State/y", "blobs/state/x"]
    for key in keys:
        assert store.add(key, b"x")
    assert sorted(store.names("state/")) == ["state/Z.head", "state/a.head", "state/b_c"]
    store.delete("state/a.head")
    assert sorted(store.names("state/")) == ["state/Z.head", "state/b_c"]


@pytest.mark.parametrize("backend", LISTING_STATE, indirect=True)
def test_no_character_of_a_prefix_stands_for_others(store):
    prefixes = ["blobs/s_te/", "blobs/s%te/"] + [f"blobs/{text}/" for text in ("s*te", "s?te", "s[i]te", "s[^x]te")]
    for prefix in ["blobs/site/", *prefixes]:
        store.put(f"{prefix}x", b"x")
    assert [list(store.names(prefix)) for prefix in prefixes] == [[f"{prefix}x"] for prefix in prefixes]


def test_many_names_are_listed_each_once_while_some_are_deleted(store):
    keys = {f"blobs/site/{number:02x}/abcd" for number in range(150)}
    for key in keys:
        store.put(key, b"x")
    listed = []
    for key in store.names("blobs/site/"):
        listed.append(key)
        store.delete(key)
    assert sorted(listed) == sorted(keys)
    assert list(store.names("blobs/site/")) == []


def test_a_document_comes_back_from_its_pieces_and_damage_is_noticed(store):
    archive = Archive(store, "site")
    document = os.urandom(1_200_000)
    pieces = Pieces(zlib_codec(), archive.put_blob)
    pieces.compress(document)
    digests = [digest for digest, _ in pieces.finished()]
    assert len(digests) == 3
    assert b"".join(decompressed(map(archive.blob, digests), 65_536)) == document
    assert sorted(archive.blob_names()) == sorted(digests)
    key = next(key for key in store.names("blobs/site/") if key.endswith(digests[1]))
    store.put(key, b"something else")
    with pytest.raises(Damaged, match=f"{digests[1]} is damaged"):
        archive.blob(digests[1])
    archive.delete_blob(digests[1])
    with pytest.raises(Damaged, match=f"{digests[1]} is missing"):
        archive.blob(digests[1])


def test_a_lease_has_one_holder_and_shows_when_it_stands_still(store):
    now = 0.0
    lease = Lease.acquired(store, "state/site.lease.1", 15, lambda: now)
    watch = Watch(15, lambda: now)
    assert lease is not None
    assert Lease.acquired(store, "state/site.lease.1", 15, lambda: now) is None
    assert not watch.is_still("lease", store.get("state/site.lease.1"))
    now = 14.0
    lease.renew()
    now = 15.0
    assert not watch.is_still("lease", store.get("state/site.lease.1"))
    now = 30.0
    assert watch.is_still("lease", store.get("state/site.lease.1"))
    assert not lease.is_held()
    lease.release()
    assert Lease.acquired(store, "state/site.lease.1", 15, lambda: now) is not None


def test_each_touch_leaves_another_token(store):
    tokens = set()
    for _ in range(3):
        touch(store, "blog")
        tokens.add(store.get("state/touch.blog"))
    assert len(tokens) == 3
    assert None not in tokens


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


@pytest.mark.parametrize("backend", EXCLUSIVE[1:], indirect=True)
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


@for_shared
@pytest.mark.filterwarnings("ignore:SITEMAP_STORE")
def test_two_that_put_at_once_leave_one_of_two_whole_values(backend):
    values = [bytes([number]) * 100_000 for number in range(4)]
    barrier = threading.Barrier(len(values))

    def put(value):
        store = backend.open()
        barrier.wait(30)
        for number in range(20):
            store.put(f"state/head.{number}", value)
            assert store.get(f"state/head.{number}") in values

    with ThreadPoolExecutor(len(values)) as threads:
        list(threads.map(put, values))
    store = backend.open()
    assert all(store.get(f"state/head.{number}") in values for number in range(20))


@pytest.mark.parametrize("backend", ["directory", *CACHES, "redis", "sqlite", "postgresql"], indirect=True)
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # it forks, and has threads
def test_a_forked_child_and_its_parent_do_not_hear_each_other_s_answers(backend):
    store = backend.open()
    store.put(BLOB, b"parent")
    child = os.fork()
    if child == 0:
        answers = set()
        for number in range(200):
            store.put("state/child", b"%d" % number)
            answers.add(store.get("state/child") == b"%d" % number)
        os._exit(0 if answers == {True} else 1)
    for number in range(200):
        store.put("state/parent", b"%d" % number)
        assert store.get("state/parent") == b"%d" % number
    assert os.waitpid(child, 0)[1] == 0
    assert store.get(BLOB) == b"parent"


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


@pytest.mark.parametrize("backend", [*CACHES, "FileSystemCache"], indirect=True)
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


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("redis://127.0.0.1:1/0", RedisStore),
        ("rediss://:secret@127.0.0.1:1?ssl_cert_reqs=none", RedisStore),
        ("unix:///nowhere/redis.sock?db=1", RedisStore),
        ("postgresql://me:secret@127.0.0.1:1/maps", SqlStore),
        ("postgres://me:secret@127.0.0.1:1/maps", SqlStore),
        ("postgresql+psycopg://127.0.0.1:1/maps", SqlStore),
        ("sqlite:////nowhere/maps.db", SqlStore),
    ],
)
def test_a_server_that_is_down_is_opened_and_answers_with_store_errors(address, kind):
    store = open_store(address, 0)
    assert isinstance(store, kind)
    calls = [
        lambda: store.get(BLOB),
        lambda: store.put(BLOB, b"x"),
        lambda: store.add("state/x", b"x"),
        lambda: store.delete(BLOB),
        lambda: list(store.names("blobs/")),
    ]
    for call in calls:
        with pytest.raises(StoreError) as caught:
            call()
        assert "\n" not in str(caught.value)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("setting", ["redis:localhost", "memory:x", "file:", "/var/maps", 7, None, ["redis://"]])
def test_other_settings_are_refused(setting):
    with pytest.raises(ConfigurationError, match=r"SITEMAP_STORE must be .*, not "):
        open_store(setting, 0)


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("s3://me:***@bucket/maps", "is of no kind that is known here or to SQLAlchemy"),
        ("redis://:***@host:port/0", "is no address that redis-py can read"),
        ("redis://:***@host/0?socket_timeout=long", "is no address that redis-py can read"),
        ("redis://host/0?colour=blue", "has parameters that redis-py does not take: .*colour"),
        ("postgresql://me:***@host:port/maps", "is no address that SQLAlchemy can read"),
        ("sqlite:///maps.db?timeout=long", "has parameters that cannot be used: .*long"),
        ("sqlite://", "names no file, and processes do not share memory: write 'memory:'"),
        ("sqlite:///:memory:", "names no file"),
        ("redis://host?decode_responses=1", "decodes responses; give a client"),
    ],
)
def test_an_address_that_cannot_be_used_is_named_without_its_password(address, says):
    with pytest.raises(ConfigurationError, match=says) as caught:
        open_store(address.replace("***", "se:cr#et"), 0)
    assert str(caught.value).startswith(f"SITEMAP_STORE: {address!r} ")
    assert "cr#et" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "missing", "command"),
    [
        ("redis://host", "redis", "pip install 'flask-sitemapx[redis]'"),
        ("postgresql://host/maps", "sqlalchemy", "pip install 'flask-sitemapx[postgresql]'"),
        ("postgres://host/maps", "psycopg", "pip install 'flask-sitemapx[postgresql]'"),
        ("sqlite:///maps.db", "sqlalchemy", "pip install 'flask-sitemapx[sql]'"),
        ("mysql+nothing://host/maps", "sqlalchemy", "pip install 'flask-sitemapx[sql]'"),
        ("mysql+pymysql://host/maps", "pymysql", "the driver pymysql, which is not installed"),
    ],
)
def test_a_library_that_is_not_installed_is_named_with_the_command(monkeypatch, address, missing, command):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigurationError) as caught:
        open_store(address, 0)
    assert re.fullmatch(rf"SITEMAP_STORE: {re.escape(repr(address))} needs .*{missing}.*", str(caught.value))
    assert str(caught.value).endswith(command)


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        ("memory:", "memory:"),
        ("file:/srv/a:b/maps", "file:/srv/a:b/maps"),
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://:secret@host", "redis://:***@host"),
        ("rediss://me:se@c:r/e?t@host:1/0?db=2", "rediss://me:***@host:1/0?db=2"),
        ("redis://host?password=secret&db=2", "redis://host?password=***&db=2"),
        (
            "postgresql+psycopg://me:secret@host/maps?sslpassword=x",
            "postgresql+psycopg://me:***@host/maps?sslpassword=***",
        ),
        ("postgresql://me@host/maps", "postgresql://me@host/maps"),
        (MemoryStore(1), "MemoryStore"),
    ],
)
def test_a_setting_is_described_without_its_passwords(setting, shown):
    assert described(setting) == shown
