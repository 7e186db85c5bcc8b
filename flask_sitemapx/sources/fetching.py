"""Documents of other hosts, fetched from where an operator allows it, within bounds of time and size."""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from html import unescape
from http.client import HTTPException, HTTPResponse, responses
from io import BufferedReader, RawIOBase
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from tempfile import SpooledTemporaryFile
from typing import IO, Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from ..errors import ConfigurationError, InvalidEntry, SitemapError
from ..protocol.locs import BaseUrl

MAX_SIZE = 64 * 1024 * 1024
"""Bytes as they come over the wire: what `SitemapReader` reads at the most."""
MAX_REDIRECTS = 5
CONNECT_SECONDS = 10.0
IN_MEMORY = 1024 * 1024
"""Bytes of a document that are held in memory; a longer one is in a temporary file."""
BLOCK = 64 * 1024
PORTS = {"http": 80, "https": 443}


class FetchFailed(SitemapError):
    """A document that could not be had; *is_silent* if its host did not answer, or not in time."""

    def __init__(self, reason: str, is_silent: bool = False) -> None:
        self.is_silent = is_silent
        super().__init__(reason)


class Target(NamedTuple):
    """Where a URL leads to."""

    scheme: str
    host: str
    port: int
    path: str
    """With the query."""

    @classmethod
    def of(cls, url: str) -> Target:
        """That of an absolute URL of http or https. Raises `FetchFailed`."""
        try:
            parts = urlsplit(unescape(_ANY.link(url)))
        except InvalidEntry as error:
            raise FetchFailed(error.explanation) from None
        if parts.hostname is None or not url.strip().lower().startswith("http"):
            raise FetchFailed("a URL starts with http:// or https://")
        query = f"?{parts.query}" if parts.query else ""
        return cls(parts.scheme, parts.hostname, parts.port or PORTS[parts.scheme], parts.path + query)

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == PORTS[self.scheme] else f":{self.port}")

    @property
    def url(self) -> str:
        return self.origin + self.path


def joined(url: str, reference: str) -> str:
    """Where *reference* leads to in the document at *url*; itself if that cannot be told."""
    try:
        return urljoin(url, reference)
    except ValueError:
        return reference


_ANY = BaseUrl("http://any.invalid")  # whose links are of any host


@dataclass(frozen=True, slots=True)
class Validators:
    """What a server said by which it knows a document again."""

    etag: str | None = None
    modified: str | None = None


@dataclass(slots=True)
class Fetched:
    """A document as it came: its *file*, to be closed, the hash of its bytes, and its *validators*."""

    file: IO[bytes]
    digest: str
    validators: Validators

    def close(self) -> None:
        self.file.close()


class Fetcher:
    """Fetches documents from the hosts and ports of *urls*, and from further *hosts*, each alone or with a port.

        fetcher = Fetcher(["https://www.example.com/sitemap.xml"])
        fetched = fetcher.fetch("https://www.example.com/sitemap.xml", Validators('"5f3a"'))    # None if it stands

    Redirects are followed to these places only. What a name resolves to must be a public address, unless *private*,
    and it is that very address which is connected to. All of it takes *timeout* seconds at the most, besides the
    resolver, and *size* bytes. Proxies of the environment are not used.
    """

    def __init__(
        self,
        urls: Collection[str],
        hosts: Collection[str] = (),
        *,
        private: bool = False,
        timeout: float = 60.0,
        size: int = MAX_SIZE,
        resolve: Callable[..., Any] = socket.getaddrinfo,
        monotonic: Callable[[], float] = time.monotonic,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._places = {place for url in urls for place in _places_of_url(url)}
        self._places |= {place for host in hosts for place in _places_of_host(host)}
        self._private = private
        self._timeout = timeout
        self._size = size
        self._resolve = resolve
        self._monotonic = monotonic
        self._context = context

    def allows(self, url: str) -> bool:
        """Whether *url* is on a host from which documents are fetched."""
        try:
            target = Target.of(url)
        except FetchFailed:
            return False
        return (target.host, target.port) in self._places

    def fetch(self, url: str, validators: Validators | None = None) -> Fetched | None:
        """The document at *url*, or None if it is the one that *validators* are of. Raises `FetchFailed`."""
        deadline = _Deadline(self._timeout, self._monotonic)
        for _ in range(MAX_REDIRECTS + 1):
            target = Target.of(url)
            if (target.host, target.port) not in self._places:
                raise FetchFailed(f"{target.origin} is not a place that the configuration names")
            try:
                with self._response(target, validators, deadline) as response:
                    if response.status in _REDIRECTS and (location := response.headers["Location"]):
                        url = joined(target.url, location).partition("#")[0]
                        continue
                    return self._received(response, validators)
            except TimeoutError:
                raise FetchFailed(f"it takes longer than {self._timeout:g} seconds", is_silent=True) from None
            except OSError as error:
                raise FetchFailed(f"{type(error).__name__}: {error}", is_silent=True) from error
            except HTTPException as error:  # whose text is the server's, of any length
                raise FetchFailed(f"it is not answered in HTTP: {type(error).__name__}") from error
        raise FetchFailed(f"it redirects more than {MAX_REDIRECTS} times")

    @contextmanager
    def _response(self, target: Target, validators: Validators | None, deadline: _Deadline) -> Iterator[HTTPResponse]:
        with self._connected(target, deadline) as connection:
            connection.sendall(_request(target, validators or Validators()))
            response = HTTPResponse(_Readable(connection, deadline), method="GET")  # type: ignore[arg-type]
            try:
                response.begin()
                yield response
            finally:
                response.close()

    def _received(self, response: HTTPResponse, validators: Validators | None) -> Fetched | None:
        if response.status == 304 and validators is not None:
            return None
        if response.status != 200:
            raise FetchFailed(f"it answers {response.status} {responses.get(response.status, '')}".rstrip())
        file = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115
        try:
            digest = self._copied(response, file)
        except BaseException:
            file.close()
            raise
        file.seek(0)
        etag, modified = response.headers["ETag"], response.headers["Last-Modified"]
        return Fetched(file, digest, Validators(_matching(_ETAG, etag), _matching(_DATE, modified)))

    def _copied(self, response: HTTPResponse, file: IO[bytes]) -> str:
        """Hash of all that *response* has, which goes to *file*."""
        digest = sha256()
        size = 0
        while block := response.read(BLOCK):
            size += len(block)
            if size > self._size:
                raise FetchFailed(f"it has more than {self._size:,} bytes")
            digest.update(block)
            file.write(block)
        if response.length:
            raise FetchFailed(f"{response.length:,} bytes of it are missing")
        return digest.hexdigest()

    # The connection

    @contextmanager
    def _connected(self, target: Target, deadline: _Deadline) -> Iterator[socket.socket]:
        with self._plain(target, deadline) as plain:
            if target.scheme == "http":
                yield plain
                return
            self._context = self._context or ssl.create_default_context()
            plain.settimeout(deadline.left())
            with self._context.wrap_socket(plain, server_hostname=target.host) as connection:
                connection.settimeout(deadline.left())
                yield connection

    def _plain(self, target: Target, deadline: _Deadline) -> socket.socket:
        """A connection to the first address of the target's host that may be connected to, and can be."""
        failure: OSError | None = None
        for family, kind, protocol, _, address in self._addresses(target):
            connection = socket.socket(family, kind, protocol)
            try:
                connection.settimeout(min(CONNECT_SECONDS, deadline.left()))
                connection.connect(address)
                connection.settimeout(deadline.left())
                return connection
            except OSError as error:
                connection.close()
                failure = error
        assert failure is not None
        if isinstance(failure, TimeoutError):
            raise FetchFailed(f"{target.origin} cannot be connected to in time", is_silent=True)
        raise failure

    def _addresses(self, target: Target) -> list[Any]:
        try:
            found = self._resolve(target.host, target.port, type=socket.SOCK_STREAM)
        except UnicodeError as error:  # a label that is too long for the resolver
            raise FetchFailed(f"{target.host} cannot be resolved: {error}") from None
        allowed = [one for one in found if self._private or is_public(one[4][0])]
        if not allowed:
            # Which address it is, is nothing that everybody should read.
            raise FetchFailed(f"{target.host} is at no public address; private = true allows others")
        return allowed


# What may be connected to ---------------------------------------------------------------------------------------------

_UNICAST = IPv6Network("2000::/3")  # RFC 4291 2.4
_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052 2.1


def is_public(address: str) -> bool:
    """Whether an IP address is one of the Internet's, and not one of a network, a machine or a group."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, IPv6Address):
        if found in _NAT64:
            found = IPv4Address(int(found) & 0xFFFF_FFFF)
        elif found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        # 6to4 leads on to an address of IPv4; only newer Pythons know that it is not global.
        elif found not in _UNICAST or found.sixtofour:
            return False
    return found.is_global and not found.is_multicast


def _places_of_url(url: str) -> list[tuple[str, int]]:
    target = Target.of(url)
    # To https is where http is sent to.
    ports = [80, 443] if (target.scheme, target.port) == ("http", 80) else [target.port]
    return [(target.host, port) for port in ports]


def _places_of_host(text: str) -> list[tuple[str, int]]:
    """The places that *text* names: a host with its port, or with those of http and https."""
    try:
        http, https = (Target.of(f"{scheme}://{text}/") for scheme in PORTS)
    except FetchFailed as error:
        raise ConfigurationError(f"{text!r} is no host: {error}") from None
    if http.path != "/":
        raise ConfigurationError(f"{text!r} is no host, or has more than a host and a port")
    return [(http.host, http.port), (https.host, https.port)]


# The protocol ---------------------------------------------------------------------------------------------------------

_REDIRECTS = (301, 302, 303, 307, 308)
_ETAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]{0,200}"')  # RFC 9110 8.8.3
_DATE = re.compile(r"[A-Za-z0-9 ,:+-]{1,40}")


def _matching(form: re.Pattern[str], value: str | None) -> str | None:
    return value if value is not None and form.fullmatch(value) else None


def _request(target: Target, validators: Validators) -> bytes:
    headers = {
        "Host": target.origin.partition("://")[2],
        "User-Agent": "flask-sitemapx",
        "Accept": "application/xml, text/xml, text/plain;q=0.8, */*;q=0.5",
        "Accept-Encoding": "gzip",
        "If-None-Match": validators.etag,
        "If-Modified-Since": validators.modified,
        "Connection": "close",
    }
    lines = [f"{name}: {value}\r\n" for name, value in headers.items() if value is not None]
    return f"GET {target.path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode("latin-1")


class _Deadline:
    def __init__(self, seconds: float, monotonic: Callable[[], float]) -> None:
        self._end = monotonic() + seconds
        self._monotonic = monotonic

    def left(self) -> float:
        """How many seconds there are still. Raises TimeoutError if there are none."""
        left = self._end - self._monotonic()
        if left <= 0:
            raise TimeoutError
        return left


class _Readable(RawIOBase):
    """What comes over a connection until the *deadline*, however small the pieces are in which it comes."""

    def __init__(self, connection: socket.socket, deadline: _Deadline) -> None:
        self._connection = connection
        self._deadline = deadline

    def makefile(self, mode: str) -> BufferedReader:
        return BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(self._deadline.left())
        return self._connection.recv_into(buffer)
