"""From a request to the sitemap, shard or robots.txt that answers it."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from ..errors import BuildFailed, Damaged, NotBuilt, StoreError
from ..protocol.locs import BaseUrl
from ..protocol.robots import Robots
from ..snapshots.compression import Codec, compressed, decompressed
from ..snapshots.refresher import Refresher
from ..snapshots.shards import BLOCK
from ..snapshots.snapshot import Document, Snapshot, sha256
from .hosts import BadHost, Hosts, Site
from .representation import TEXT, Headers, Representation, Response, refusal, respond

XML = "application/xml; charset=utf-8"
GZIP = "application/gzip"
ROBOTS_PATH = "/robots.txt"
# One address per shard: no sign, no leading zero, ASCII only, and no number that takes long to read.
_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


class Address(NamedTuple):
    """What a path of ours means; *section* is empty for ``/sitemap.xml``, *number* is 0 if it is none."""

    section: str = ""
    number: int = 0
    is_gzip: bool = False


@dataclass(frozen=True, slots=True)
class Policy:
    """How answers are labelled. *max_age* and *stale* are seconds of ``Cache-Control``."""

    max_age: int
    stale: int
    disallow_all: bool = False

    @property
    def cache_control(self) -> str:
        return f"public, max-age={self.max_age}, stale-while-revalidate={self.stale}"


class Publisher:
    """Answers for all sites of one application.

    *refresher* gives the keeper of a site's snapshot, *sections* are the names that are registered, *has_robots* says
    whether ``/robots.txt`` is ours, given the mount point, and *empty* is what a site with nothing to list says.
    """

    def __init__(
        self,
        hosts: Hosts,
        refresher: Callable[[BaseUrl], Refresher],
        robots: Robots,
        sections: Container[str],
        has_robots: Callable[[str], bool],
        policy: Policy,
        codec: Codec,
        empty: Callable[[], str],
    ) -> None:
        self._hosts = hosts
        self._refresher = refresher
        self._robots = robots
        self._sections = sections
        self._has_robots = has_robots
        self._policy = policy
        self._codec = codec
        self._empty = empty
        self._cache_control = ("Cache-Control", policy.cache_control)
        self._sitemap_headers: Headers = [self._cache_control, ("X-Robots-Tag", "noindex")]

    def claims(self, environ: dict[str, Any]) -> bool:
        """Whether the path is ours without a doubt, so that nobody else needs to be asked."""
        path = environ["PATH_INFO"]
        if path == ROBOTS_PATH:
            return self._has_robots(environ.get("SCRIPT_NAME", ""))
        found = address(path)
        return found is not None and (not found.section or found.section in self._sections)

    def respond(self, environ: dict[str, Any]) -> Response:
        """The answer to a request for one of our paths."""
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return refusal("405 Method Not Allowed", "GET and HEAD only.", [("Allow", "GET, HEAD")])
        try:
            site = self._hosts.site(environ)
        except BadHost as error:
            return refusal("400 Bad Request", str(error).encode("ascii", "backslashreplace").decode())
        if environ["PATH_INFO"] == ROBOTS_PATH:
            return self._robots_txt(environ, site)
        found = address(environ["PATH_INFO"])
        if found is None or (found.section and not found.number):
            return refusal("404 Not Found", "There is no such sitemap.")
        try:
            return self._sitemap(environ, site, found)
        except NotBuilt as error:
            return refusal("503 Service Unavailable", "The sitemap is being made.", retry_after=error.retry_after)
        except BuildFailed as error:
            return refusal("500 Internal Server Error", f"The sitemap could not be made: {error}")
        except StoreError:
            return refusal("503 Service Unavailable", "The sitemap cannot be read just now.", retry_after=10)

    def _sitemap(self, environ: dict[str, Any], site: Site, found: Address) -> Response:
        refresher = self._refresher(site.base)
        try:
            return self._stored(environ, site, found, refresher)
        except Damaged:  # by now the refresher knows, and what is current is another set
            return self._stored(environ, site, found, refresher)

    def _stored(self, environ: dict[str, Any], site: Site, found: Address, refresher: Refresher) -> Response:
        snapshot = refresher.current()
        document = snapshot.shard(found.section, found.number) if found.section else snapshot.document
        if document is None:
            text = "There is no such sitemap." if found.section else self._empty()
            return refusal("404 Not Found", text)
        body = Body(document, refresher, self._codec, site.fill)
        if found.is_gzip:
            return respond(environ, (body.file(),), self._sitemap_headers, negotiated=False)
        return respond(environ, (body.gzip(), body.identity()), self._sitemap_headers, negotiated=True)

    def _robots_txt(self, environ: dict[str, Any], site: Site) -> Response:
        text = self.robots_text(site)
        representation = Representation(TEXT, sha256(text)[:32], lambda: (text,), len(text))
        return respond(environ, (representation,), [self._cache_control], negotiated=False)

    def robots_text(self, site: Site) -> bytes:
        """``/robots.txt`` of *site*: it waits for nothing, and names the sitemap unless the site is known to be empty."""
        if self._policy.disallow_all:
            return self._robots.closed_text().encode()
        try:
            snapshot = self._refresher(site.base).last_good()
        except StoreError:
            snapshot = None
        base = site.fill.decode() or site.base.text
        return self._robots.text([] if _is_empty(snapshot) else [f"{base}/sitemap.xml"]).encode()


class Body:
    """The forms of a stored document; *fill* is put in for its placeholders."""

    def __init__(self, document: Document, refresher: Refresher, codec: Codec, fill: bytes) -> None:
        self._document = document
        self._refresher = refresher
        self._codec = codec
        self._fill = fill if document.origins else b""
        # The tag of what a placeholder becomes is part of the tag of what is sent.
        self._tag = f"-{zlib.crc32(self._fill):08x}" if self._fill else ""

    def identity(self) -> Representation:
        document = self._document
        length = document.length + document.origins * (len(self._fill) - 1) if self._fill else document.length
        return Representation(XML, document.etag + self._tag, self._plain, length, changed_at=document.changed_at)

    def gzip(self) -> Representation:
        return self._packed(XML, "gzip")

    def file(self) -> Representation:
        """The gzip file: no content coding, so that a client stores it as it is (RFC 6713)."""
        return self._packed(GZIP, None)

    def _packed(self, media_type: str, coding: str | None) -> Representation:
        document = self._document
        if not self._fill:
            etag, length, body = document.gzip_etag, document.gzip_length, self._pieces
            return Representation(media_type, etag, body, length, coding, document.changed_at)
        etag = f"{document.etag}{self._tag}-{self._codec.name}"
        return Representation(media_type, etag, self._repacked, None, coding, document.changed_at)

    def _pieces(self) -> Iterable[bytes]:
        return (piece[at : at + BLOCK] for piece in self._stored() for at in range(0, len(piece), BLOCK))

    def _plain(self) -> Iterable[bytes]:
        blocks = decompressed(self._stored(), BLOCK)
        return (block.replace(b"\0", self._fill) for block in blocks) if self._fill else blocks

    def _repacked(self) -> Iterable[bytes]:
        return compressed(self._plain(), self._codec)

    def _stored(self) -> Iterator[bytes]:
        """The stored pieces, each checked before it is sent; the first now, while the status can still be chosen."""
        digests = iter(self._document.pieces)
        first = self._refresher.blob(next(digests)[0])
        return chain([first], (self._refresher.blob(digest) for digest, _ in digests))


def address(path: str) -> Address | None:
    """What *path* means, if it is ``/sitemap.xml`` or ``/sitemap-<section>-<n>.xml`` by form, maybe with ``.gz``."""
    name, is_gzip = (path[:-3], True) if path.endswith(".xml.gz") else (path, False)
    if name == "/sitemap.xml":
        return Address(is_gzip=is_gzip)
    if not (name.startswith("/sitemap-") and name.endswith(".xml")):
        return None
    section, _, number = name[len("/sitemap-") : -len(".xml")].rpartition("-")
    if not section:
        return None
    return Address(section, int(number) if _NUMBER.fullmatch(number) else 0, is_gzip)


def _is_empty(snapshot: Snapshot | None) -> bool:
    return snapshot is not None and snapshot.fingerprint != "" and snapshot.document is None
