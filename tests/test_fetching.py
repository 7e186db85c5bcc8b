"""Fetching from real servers, good and bad: what is had, what is refused, and that it ends."""

from __future__ import annotations

import itertools
import shutil
import socket
import ssl
import subprocess
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flask_sitemapx.errors import ConfigurationError
from flask_sitemapx.sources.fetching import Fetched, Fetcher, FetchFailed, Target, Validators, is_public
from tests.remote_server import Handler, RemoteServer, raw, redirect

BODY = b"https://shop.example/\n"
HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture
def server() -> Iterator[RemoteServer]:
    with RemoteServer() as server:
        server.answers["/sitemap.xml"] = BODY
        yield server


def fetcher(server: RemoteServer, **options: Any) -> Fetcher:
    options = {"private": True, **options}
    return Fetcher([f"{server.url}/sitemap.xml"], **options)


def body(fetched: Fetched | None) -> bytes:
    assert fetched is not None
    try:
        return fetched.file.read()
    finally:
        fetched.close()


def fetch(server: RemoteServer, path: str = "/sitemap.xml", **options: Any) -> bytes:
    return body(fetcher(server, **options).fetch(server.url + path))


def ticking(step: float) -> Callable[[], float]:
    """A clock on which each look takes so many seconds."""
    return itertools.count(0.0, step).__next__


def test_a_document_comes_as_it_is_with_its_validators(server):
    server.headers = {"Last-Modified": "Tue, 01 Dec 2026 12:00:00 GMT"}
    fetched = fetcher(server).fetch(f"{server.url}/sitemap.xml")
    assert fetched is not None
    assert fetched.validators.etag
    assert fetched.validators.modified == "Tue, 01 Dec 2026 12:00:00 GMT"
    assert body(fetched) == BODY


def test_a_document_that_stands_is_not_fetched_again(server):
    fetched = fetcher(server).fetch(f"{server.url}/sitemap.xml")
    assert body(fetched) == BODY
    assert fetched is not None
    assert fetcher(server).fetch(f"{server.url}/sitemap.xml", fetched.validators) is None
    server.answers["/sitemap.xml"] = b"other"
    assert body(fetcher(server).fetch(f"{server.url}/sitemap.xml", fetched.validators)) == b"other"
    assert [status for _, status in server.requests] == [200, 304, 200]


def test_a_request_says_what_it_wants_and_nothing_that_it_was_told_falsely(server):
    validators = Validators('W/"a"', "Tue, 01 Dec 2026 12:00:00 GMT")
    body(fetcher(server).fetch(f"{server.url}/sitemap.xml", validators))
    (headers,) = server.received
    assert headers["Host"] == f"127.0.0.1:{server.server_port}"
    assert headers["If-None-Match"] == 'W/"a"'
    assert headers["If-Modified-Since"] == "Tue, 01 Dec 2026 12:00:00 GMT"
    assert headers["Accept-Encoding"] == "gzip"
    folded = HEAD + b'ETag: "a\r\n b: c"\r\nLast-Modified: x\r\n y\r\nContent-Length: 1\r\n\r\na'
    server.answers["/folded"] = raw(folded)
    fetched = fetcher(server).fetch(f"{server.url}/folded")
    assert body(fetched) == b"a"
    assert fetched is not None
    assert fetched.validators == Validators()


def test_304_to_who_has_nothing_is_a_failure(server):
    server.answers["/sitemap.xml"] = 304
    with pytest.raises(FetchFailed, match="it answers 304 Not Modified"):
        fetch(server)


@pytest.mark.parametrize("status", [204, 206, 401, 403, 404, 410, 429, 500, 503])
def test_any_other_status_is_a_failure_and_no_silence(server, status):
    server.answers["/sitemap.xml"] = status
    with pytest.raises(FetchFailed, match=f"it answers {status} ") as caught:
        fetch(server)
    assert not caught.value.is_silent


def test_chunks_and_an_end_without_a_length_are_read(server):
    server.answers["/chunked"] = raw(
        HEAD, b"Transfer-Encoding: chunked\r\n\r\n", b"2\r\nab\r\n", b"1\r\nc\r\n0\r\n\r\n"
    )
    server.answers["/until-end"] = raw(b"HTTP/1.0 200 OK\r\n\r\n", b"abc")
    assert fetch(server, "/chunked") == b"abc"
    assert fetch(server, "/until-end") == b"abc"


# Redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_within_the_host_are_followed(server, status):
    server.answers |= {"/a": redirect("/b#c", status), "/b": redirect(f"{server.url}/sitemap.xml", status)}
    assert fetch(server, "/a") == BODY


@pytest.mark.parametrize(
    "location",
    ["http://localhost:{port}/sitemap.xml", "http://127.0.0.1/x", "//127.0.0.2:{port}/", "https://127.0.0.1:1/"],
)
def test_redirects_to_elsewhere_are_not(server, location):
    server.answers["/a"] = redirect(location.format(port=server.server_port))
    with pytest.raises(FetchFailed, match="is not a place that the configuration names"):
        fetch(server, "/a")
    assert [path for path, _ in server.requests] == ["/a"]


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "ftp://127.0.0.1/", "http://user@127.0.0.1/", "/%2e%2e/a", "//[", ""]
)
def test_redirects_to_what_is_no_such_url_are_not(server, location):
    server.answers["/a"] = redirect(location)
    with pytest.raises(FetchFailed):
        fetch(server, "/a")
    assert [path for path, _ in server.requests] == ["/a"]


def test_redirects_to_a_host_that_is_named_are_followed(server):
    server.answers["/a"] = redirect(f"http://localhost:{server.server_port}/sitemap.xml")
    assert fetch(server, "/a", hosts=[f"localhost:{server.server_port}"]) == BODY


def test_redirects_that_lead_in_a_circle_end(server):
    server.answers |= {"/a": redirect("/b"), "/b": redirect("/a")}
    with pytest.raises(FetchFailed, match="it redirects more than 5 times"):
        fetch(server, "/a")
    assert len(server.requests) == 6


@pytest.mark.parametrize(
    ("named", "asked", "is_allowed"),
    [
        ("http://a.example/s.xml", "http://A.example/t.xml", True),
        ("http://a.example/s.xml", "https://a.example/s.xml", True),
        ("https://a.example/s.xml", "http://a.example/s.xml", False),
        ("https://a.example/s.xml", "https://a.example:444/s.xml", False),
        ("https://a.example/s.xml", "https://b.a.example/s.xml", False),
        ("https://ä.example/s.xml", "https://xn--4ca.example/s.xml", True),
        ("http://[::1]:80/s.xml", "http://[0::1]/s.xml", True),
        ("https://a.example/s.xml", "/s.xml", False),
    ],
)
def test_the_places_of_a_url_are_its_host_and_port_and_https_for_http(named, asked, is_allowed):
    assert Fetcher([named]).allows(asked) is is_allowed


def test_hosts_are_named_alone_or_with_a_port():
    fetcher = Fetcher([], ["a.example", "b.example:8080", "[::1]"])
    allowed = ["http://a.example/", "https://a.example/", "http://b.example:8080/", "https://[::1]/"]
    assert all(map(fetcher.allows, allowed))
    assert not any(map(fetcher.allows, ["http://b.example/", "https://a.example:8080/"]))


@pytest.mark.parametrize("host", ["a b", "http://a.example", "a.example/x", "a.example:x", "u@a.example", "", "a?b"])
def test_what_is_no_host_is_refused(host):
    with pytest.raises(ConfigurationError):
        Fetcher([], [host])


# Addresses


@pytest.mark.parametrize(
    "address",
    """
    0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 127.0.0.1 127.255.255.254 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1
    192.0.2.1 192.168.1.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255
    :: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 64:ff9b::127.0.0.1 64:ff9b::a00:1
    64:ff9b:1::1 100::1 2001:db8::1 2002:7f00:1::1 2002:808:808::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 fc00::1 fd12::1
    fe80::1 fe80::1%eth0 fec0::1 ff02::1 ff0e::1 nonsense
    """.split(),  # noqa: SIM905
)
def test_addresses_of_networks_machines_and_groups_are_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
)
def test_addresses_of_the_internet_are_public(address):
    assert is_public(address)


def test_a_private_address_is_not_connected_to(server):
    for host in ("127.0.0.1", "localhost"):
        url = f"http://{host}:{server.server_port}/sitemap.xml"
        with pytest.raises(FetchFailed, match=f"{host} is at no public address; private = true allows others"):
            Fetcher([url]).fetch(url)
    assert server.requests == []


def resolver(*answers: str) -> Any:
    """One that gives these addresses, and notes what it was asked for."""

    def resolve(host: str, port: int, type: int) -> list[Any]:
        resolve.asked.append(host)  # type: ignore[attr-defined]
        return [(socket.AF_INET, type, 0, "", (address, port)) for address in answers]

    resolve.asked = []  # type: ignore[attr-defined]
    return resolve


def test_a_name_is_resolved_once_and_what_was_looked_at_is_connected_to(server):
    resolve = resolver("127.0.0.1")
    url = f"http://shop.example:{server.server_port}/sitemap.xml"
    assert body(Fetcher([url], private=True, resolve=resolve).fetch(url)) == BODY
    assert resolve.asked == ["shop.example"]
    assert server.received[0]["Host"] == f"shop.example:{server.server_port}"


def test_a_name_that_comes_to_mean_a_private_address_is_refused_at_that_moment(server):
    url = f"http://shop.example:{server.server_port}/sitemap.xml"
    for addresses in (["127.0.0.1"], ["10.0.0.1", "127.0.0.1"], []):
        with pytest.raises(FetchFailed, match=r"shop\.example is at no public address"):
            Fetcher([url], resolve=resolver(*addresses)).fetch(url)
    assert server.requests == []


def test_of_several_addresses_only_public_ones_are_connected_to():
    fetcher = Fetcher(["http://shop.example/"], resolve=resolver("127.0.0.1", "1.1.1.1", "10.0.0.1"))
    assert [one[4][0] for one in fetcher._addresses(Target.of("http://shop.example/"))] == ["1.1.1.1"]


def test_an_address_that_does_not_answer_leaves_the_next(server):
    url = f"http://shop.example:{server.server_port}/sitemap.xml"
    assert body(Fetcher([url], private=True, resolve=resolver("127.9.9.9", "127.0.0.1")).fetch(url)) == BODY


def test_a_host_that_is_not_there_is_silent():
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/"
    with pytest.raises(FetchFailed, match="ConnectionRefusedError") as caught:
        Fetcher([url], private=True).fetch(url)
    assert caught.value.is_silent


def test_a_name_that_is_not_there_is_silent():
    def resolve(*given: Any, **options: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    url = "http://shop.example/"
    with pytest.raises(FetchFailed, match="Name or service not known") as caught:
        Fetcher([url], resolve=resolve).fetch(url)
    assert caught.value.is_silent


def test_a_label_that_no_resolver_takes_is_a_failure():
    def resolve(*given: Any, **options: Any) -> Any:
        raise UnicodeError("label too long")

    url = "http://shop.example/"
    with pytest.raises(FetchFailed, match=r"shop\.example cannot be resolved"):
        Fetcher([url], resolve=resolve).fetch(url)


# Time and size


def test_a_server_that_says_nothing_is_left(server):
    done = threading.Event()
    server.answers["/sitemap.xml"] = lambda handler: done.wait(60) and None
    try:
        with pytest.raises(FetchFailed, match=r"it takes longer than 0\.2 seconds") as caught:
            fetch(server, timeout=0.2)
        assert caught.value.is_silent
    finally:
        done.set()


@pytest.mark.parametrize(
    ("start", "drop"),
    [
        (HEAD, b"X-Header: a\r\n"),
        (HEAD + b"X: ", b"a"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (HEAD + b"\r\n", b"a"),
        (HEAD + b"Content-Length: 1000000\r\n\r\n", b"a"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: a\r\n"),
    ],
)
def test_what_comes_in_drops_has_no_more_time_than_the_rest(server, start, drop):
    def drip(handler: Handler) -> None:
        handler.wfile.write(start)
        for _ in range(100_000):
            handler.wfile.write(drop)
            handler.wfile.flush()
            threading.Event().wait(0.001)

    server.answers["/sitemap.xml"] = drip
    with pytest.raises(FetchFailed, match=r"it takes longer than 20 seconds|not answered in HTTP"):
        fetch(server, timeout=20, monotonic=ticking(1.0))


@pytest.mark.parametrize("header", [b"", b"Content-Length: 999999999\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_a_body_without_an_end_is_left_at_a_size_and_held_on_disk(server, header):
    block = b"a" * 65_536
    piece = b"10000\r\n" + block + b"\r\n" if b"chunked" in header else block
    server.answers["/sitemap.xml"] = raw(HEAD + header + b"\r\n", *itertools.repeat(piece, 1_000))
    tracemalloc.start()
    try:
        with pytest.raises(FetchFailed, match="it has more than 20,000,000 bytes"):
            fetch(server, size=20_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6_000_000


@pytest.mark.parametrize(
    "answer",
    [
        HEAD + b"Content-Length: 10\r\n\r\nabc",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"\0" * 100_000,
        HEAD + b"X: " + b"a" * 100_000,
        HEAD + b"X: a\r\n" * 1_000,
    ],
)
def test_what_ends_too_early_or_is_no_http_is_a_failure(server, answer):
    server.answers["/sitemap.xml"] = raw(answer)
    with pytest.raises(FetchFailed):
        fetch(server)


def test_nothing_that_a_server_says_gets_into_the_text_of_a_failure(server):
    for answer in (b"evil\x1b[2J", b"HTTP/1.1 404 evil\r\n\r\n", b"HTTP/1.1 200\r\n" + b"evil" * 20_000):
        server.answers["/sitemap.xml"] = raw(answer)
        with pytest.raises(FetchFailed) as caught:
            fetch(server)
        assert "evil" not in str(caught.value)


def test_more_than_the_length_that_was_said_is_not_read(server):
    server.answers["/sitemap.xml"] = raw(HEAD + b"Content-Length: 3\r\n\r\nabcdef")
    assert fetch(server) == b"abc"


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> str:
    """A certificate of shop.example that nobody but the test trusts."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl on PATH")
    directory = tmp_path_factory.mktemp("tls")
    kind = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=shop.example", "-addext", "subjectAltName=DNS:shop.example"]
    files = ["-keyout", f"{directory}/key.pem", "-out", f"{directory}/cert.pem"]
    subprocess.run(["openssl", "req", *kind, *names, *files], check=True, capture_output=True, timeout=60)
    return str(directory)


@pytest.fixture
def secure(server, certificate) -> tuple[RemoteServer, list[str | None]]:
    """The server with TLS, and the names that clients said in their greetings."""
    names: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{certificate}/cert.pem", f"{certificate}/key.pem")
    context.sni_callback = lambda connection, name, context: names.append(name)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    return server, names


def test_the_name_stands_in_the_greeting_and_the_certificate_is_checked_for_it(secure, certificate):
    server, names = secure
    trusting = ssl.create_default_context(cafile=f"{certificate}/cert.pem")
    for host in ("shop.example", "other.example"):
        url = f"https://{host}:{server.server_port}/sitemap.xml"
        fetcher = Fetcher([url], private=True, resolve=resolver("127.0.0.1"), context=trusting)
        if host == "shop.example":
            assert body(fetcher.fetch(url)) == BODY
        else:
            with pytest.raises(FetchFailed, match="CERTIFICATE_VERIFY_FAILED"):
                fetcher.fetch(url)
    assert names == ["shop.example", "other.example"]
    assert server.received[0]["Host"] == f"shop.example:{server.server_port}"


def test_a_certificate_that_nobody_trusts_is_a_failure(secure):
    server, _ = secure
    url = f"https://shop.example:{server.server_port}/sitemap.xml"
    with pytest.raises(FetchFailed, match="CERTIFICATE_VERIFY_FAILED"):
        Fetcher([url], private=True, resolve=resolver("127.0.0.1")).fetch(url)
