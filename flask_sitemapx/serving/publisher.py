"""From a request to the sitemap, shard or robots.txt that answers it."""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from werkzeug.wsgi import ClosingIterator

from ..errors import BuildFailed, Damaged, InvalidEntry, NotBuilt, StoreError
from ..protocol.locs import BaseUrl
from ..protocol.robots import Robots
from ..protocol.text import lines
from ..snapshots.compression import Codec, compressed, decompressed, flushed
from ..snapshots.refresher import Refresher
from ..snapshots.shards import BLOCK
from ..snapshots.snapshot import Document, Shard, Snapshot, sha256
from .hosts import BadHost, Hosts, Site
from .representation import TEXT, VARY, Headers, Representation, Response, accepted_coding, refusal, respond
from .stylesheet import NAME, stylesheet

logger = logging.getLogger(__name__)

XML = "application/xml; charset=utf-8"
GZIP = "application/gzip"
ATOM = "application/atom+xml; charset=utf-8"  # RFC 4287 7
SITEMAP_PATH = "/sitemap.xml"
ROBOTS_PATH = "/robots.txt"
TEXT_PATH = "/sitemap.txt"
PAGE_PATH = "/sitemap"
STYLESHEET_PATH = f"/{NAME}"
INDEX = "index"
"""What stands in the place of a section's name in the addresses of the second index and those after it."""
PREPARED = 512
"""As many documents are kept with their headers; to prepare one again takes microseconds."""
# One address per shard: no sign, no leading zero, ASCII only, and no number that takes long to read.
NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_NOINDEX = ("X-Robots-Tag", "noindex")
_TYPES = {".xml": XML, ".xml.gz": GZIP, ".txt": TEXT, ".atom": ATOM}


class Address(NamedTuple):
    """What a path of ours means; *section* is empty for ``/sitemap.xml``, *number* is 0 if it is none.

    *suffix* is that of the form that is asked for: ``.xml``, ``.xml.gz`` or ``.txt``, or ``.atom`` of a section's feed.
    """

    section: str = ""
    number: int = 0
    suffix: str = ".xml"


ROBOTS = Address(section=ROBOTS_PATH)
PAGE = Address(section=PAGE_PATH)
STYLE = Address(section=STYLESHEET_PATH)
_SINGLE = {one.section: one for one in (ROBOTS, PAGE, STYLE)}
PageOf = Callable[[dict[str, Any], Site, Refresher], Response]
"""What gives the page for people."""


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
    whether ``/robots.txt`` is ours, given the mount point, *empty* is what a site with nothing to list says, *page*
    gives the page for people at ``/sitemap``, which is not ours without it, and *has_text* and
    *has_stylesheet* say whether ``/sitemap.txt`` and ``/sitemap.css`` are.
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
        page: PageOf | None = None,
        has_text: bool = True,
        has_stylesheet: bool = True,
    ) -> None:
        self._hosts = hosts
        self._refresher = refresher
        self._robots = robots
        self._sections = sections
        self._has_robots = has_robots
        self._disallow_all = policy.disallow_all
        self._codec = codec
        self._empty = empty
        self._page = page
        self._has_text = has_text
        self._has_stylesheet = has_stylesheet
        self._headers: Headers = [("Cache-Control", policy.cache_control)]
        self._forms = lru_cache(maxsize=PREPARED)(self._new_forms)
        self._kept_robots_txt = lru_cache(maxsize=16)(self._new_robots_txt)

    def answer(self, environ: dict[str, Any]) -> Response | None:
        """The answer to a request, or None if its path is not ours."""
        found = address(environ.get("PATH_INFO", ""))
        if found is None or not self._is_ours(found, environ):
            return None
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return refusal("405 Method Not Allowed", "GET and HEAD only.", [("Allow", "GET, HEAD")])
        response = self._answered(found, environ)
        if response.body and environ["REQUEST_METHOD"] == "HEAD":
            return Response(response.status, response.headers)
        return response

    def robots_txt(self, site: Site) -> Representation:
        """``/robots.txt`` of *site*: it waits for nothing, and names the sitemap unless that is known to be empty."""
        version = self._robots.version
        if self._disallow_all:
            return self._kept_robots_txt(version)
        root = site.fill.decode() or site.base.text
        return self._kept_robots_txt(version, *(f"{root}{path}" for path in self._indexes(site.base)))

    def _is_ours(self, found: Address, environ: dict[str, Any]) -> bool:
        if found is ROBOTS:
            return self._has_robots(environ.get("SCRIPT_NAME", ""))
        if found is PAGE:
            return self._page is not None
        if found is STYLE:
            return self._has_stylesheet
        if not found.section and found.suffix == ".txt":
            return self._has_text
        return not found.section or found.section == INDEX or found.section in self._sections

    def _answered(self, found: Address, environ: dict[str, Any]) -> Response:
        if found is STYLE:
            return self._style(environ)
        try:
            site = self._hosts.site(environ)
        except BadHost as error:
            return refusal("400 Bad Request", str(error).encode("ascii", "backslashreplace").decode())
        if found is ROBOTS:
            return respond(environ, self.robots_txt(site))
        if found.section and not (found.number or found is PAGE or found.suffix == ".atom"):
            return _absent()
        try:
            if found is PAGE and self._page is not None:
                return self._page(environ, site, self._refresher(site.base))
            return self._sitemap(environ, site, found)
        except NotBuilt as error:
            return refusal("503 Service Unavailable", "There is no sitemap yet.", retry_after=error.retry_after)
        except BuildFailed as error:
            return refusal("500 Internal Server Error", f"The sitemap could not be made: {error}")
        except StoreError as error:
            logger.error("sitemap: %s is not answered: %s", environ["PATH_INFO"], error)
            return refusal("503 Service Unavailable", "The sitemap cannot be read just now.", retry_after=10)

    def _style(self, environ: dict[str, Any]) -> Response:
        coding = accepted_coding(environ.get("HTTP_ACCEPT_ENCODING"))
        if coding is None:
            return _not_acceptable()
        return respond(environ, stylesheet(coding))

    # Sitemaps

    def _sitemap(self, environ: dict[str, Any], site: Site, found: Address) -> Response:
        refresher = self._refresher(site.base)
        try:
            return self._stored(environ, site, found, refresher)
        except Damaged as error:  # by now the refresher knows, and what is current is another set
            failure: StoreError = error
            with suppress(StoreError):
                return self._stored(environ, site, found, refresher)
        except StoreError as error:
            failure = error
        shard = refresher.current().shard(found.section, found.number)
        if shard is None or not shard.is_whole_part:
            raise failure
        return self._streamed(environ, shard, refresher, site, found)

    def _stored(self, environ: dict[str, Any], site: Site, found: Address, refresher: Refresher) -> Response:
        snapshot = refresher.current()
        if found.suffix == ".txt" and (found.section == INDEX or (not found.section and snapshot.is_index)):
            return _absent()  # there is no index in plain text
        if found.suffix == ".atom":
            feed = snapshot.feeds.get(found.section)
            return self._sent(environ, feed and feed.document, refresher, site, found)
        if found.section == INDEX:
            return self._sent(environ, snapshot.index(found.number), refresher, site, found)
        if found.section:
            return self._shard(environ, snapshot.shard(found.section, found.number), refresher, site, found)
        if snapshot.document is None:
            return refusal("404 Not Found", self._empty())
        return self._sent(environ, snapshot.document, refresher, site, found)

    def _shard(
        self, environ: dict[str, Any], shard: Shard | None, refresher: Refresher, site: Site, found: Address
    ) -> Response:
        if shard is not None and shard.is_unbuilt:
            planned, shard = shard, refresher.finished(found.section, shard)
            if shard is None:
                return self._streamed(environ, planned, refresher, site, found)
        return self._sent(environ, shard and shard.document, refresher, site, found)

    def _sent(
        self, environ: dict[str, Any], document: Document | None, refresher: Refresher, site: Site, found: Address
    ) -> Response:
        if document is None:
            return _absent()
        forms = self._forms(document, refresher, site.fill, ATOM if found.suffix == ".atom" else XML)
        if found.suffix == ".xml.gz":
            return respond(environ, forms.file)
        coding = accepted_coding(environ.get("HTTP_ACCEPT_ENCODING"))
        if coding is None:
            return _not_acceptable()
        if found.suffix == ".txt":
            return respond(environ, forms.text_gzip if coding == "gzip" else forms.text)
        return respond(environ, forms.gzip if coding == "gzip" else forms.identity)

    def _streamed(
        self, environ: dict[str, Any], planned: Shard, refresher: Refresher, site: Site, found: Address
    ) -> Response:
        """What is not to be had from the store, sent as it is made: of no known length, and for no cache to keep."""
        is_file = found.suffix == ".xml.gz"
        coding = "gzip" if is_file else accepted_coding(environ.get("HTTP_ACCEPT_ENCODING"))
        if coding is None:
            return _not_acceptable()
        headers = [("Content-Type", _TYPES[found.suffix]), ("Cache-Control", "no-store"), _NOINDEX]
        if not is_file:
            headers += [VARY, *([("Content-Encoding", "gzip")] if coding == "gzip" else [])]
        if environ["REQUEST_METHOD"] == "HEAD":
            return Response("200 OK", headers)
        try:
            blocks = refresher.streamed(found.section, planned)
        except (StoreError, BuildFailed, NotBuilt):
            raise
        except InvalidEntry as error:  # under strict rules, where it is to be shown
            raise BuildFailed(str(error)) from error
        except Exception:  # the source's own
            logger.exception("sitemap: %s cannot be made", environ["PATH_INFO"])
            return refusal("503 Service Unavailable", "The sitemap cannot be made just now.", retry_after=10)
        if blocks.is_empty:
            blocks.close()
            return _absent()
        xml = (block.replace(b"\0", site.fill) for block in blocks)
        filled = lines(xml) if found.suffix == ".txt" else xml
        body = flushed(filled, self._codec) if coding == "gzip" else filled
        return Response("200 OK", headers, ClosingIterator(body, [blocks.close]))

    def _new_forms(self, document: Document, refresher: Refresher, fill: bytes, kind: str) -> Forms:
        headers = [*self._headers, _NOINDEX]
        return Body(document, refresher, self._codec, fill).forms(kind, headers)

    # robots.txt

    def _new_robots_txt(self, version: int, *sitemaps: str) -> Representation:
        closed = self._robots.closed_text() if self._disallow_all else None
        text = (closed or self._robots.text(sitemaps)).encode()
        return Representation(TEXT, sha256(text)[:32], lambda: (text,), len(text), headers=self._headers)

    def _indexes(self, base: BaseUrl) -> list[str]:
        """The paths by which all sitemaps of a site are found: none if it is known to have nothing to list."""
        try:
            snapshot = self._refresher(base).known()
        except StoreError:
            snapshot = None
        if snapshot is None:
            return [SITEMAP_PATH]
        return index_paths(snapshot)


def index_paths(snapshot: Snapshot) -> list[str]:
    """``/sitemap.xml``, and the further indexes of a site with more sitemaps than one can list; none if it is empty."""
    if snapshot.document is None:
        return []
    further = [f"/sitemap-{INDEX}-{index.number}.xml" for index in snapshot.indexes if index.number > 1]
    return [SITEMAP_PATH, *further]


class Forms(NamedTuple):
    """The representations of one document: two that are negotiated, the file ``.xml.gz``, and two of plain text."""

    identity: Representation
    gzip: Representation
    file: Representation
    text: Representation
    text_gzip: Representation


class Body:
    """The bytes of a stored document; *fill* is put in for its placeholders."""

    def __init__(self, document: Document, refresher: Refresher, codec: Codec, fill: bytes) -> None:
        self._document = document
        self._refresher = refresher
        self._codec = codec
        self._fill = fill if document.origins else b""

    def forms(self, kind: str, headers: Headers) -> Forms:
        """What is sent, each with *headers*; *kind* is the type of the document itself."""
        document, varying = self._document, [VARY, *headers]
        at = document.changed_at
        tag, gzip_tag, length, gzip_length = self._identification()
        packed = self._repacked if self._fill else self._pieces
        return Forms(
            Representation(kind, tag, self._plain, length, None, at, varying),
            Representation(kind, gzip_tag, packed, gzip_length, "gzip", at, varying),
            # RFC 6713: a file without content coding, which a client stores as it is
            Representation(GZIP, f"{gzip_tag}.gz", packed, gzip_length, None, at, headers),
            Representation(TEXT, f"{tag}.txt", self._lines, self._text_length, None, at, varying),
            Representation(TEXT, f"{gzip_tag}.txt-{self._codec.name}", self._packed_lines, None, "gzip", at, varying),
        )

    @property
    def _text_length(self) -> int:
        # Each loc of a site without a name has one placeholder.
        return self._document.text_length + (self._document.entries * (len(self._fill) - 1) if self._fill else 0)

    def _lines(self) -> Iterable[bytes]:
        return lines(self._plain())

    def _packed_lines(self) -> Iterable[bytes]:
        return compressed(self._lines(), self._codec)

    def _identification(self) -> tuple[str, str, int, int | None]:
        """ETag and ETag of the gzip, length and length of the gzip if it is known."""
        document = self._document
        if not self._fill:
            return document.etag, document.gzip_etag, document.length, document.gzip_length
        # What a placeholder becomes is part of what is sent, and so are the stored bytes and who packs them again.
        filled = f"{zlib.crc32(self._fill):08x}"
        gzip_tag = f"{document.gzip_etag}-{filled}-{self._codec.name}"
        length = document.length + document.origins * (len(self._fill) - 1)
        return f"{document.etag}-{filled}", gzip_tag, length, None

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


@lru_cache(maxsize=256)
def address(path: str) -> Address | None:
    """What *path* means, if it is ours by form: robots.txt, the page, the stylesheet, or a sitemap in any form."""
    if path in _SINGLE:
        return _SINGLE[path]
    suffix = next((suffix for suffix in _TYPES if path.endswith(suffix)), None)
    if suffix is None:
        return None
    name = path.removesuffix(suffix)
    if name == PAGE_PATH:
        return Address(suffix=suffix)
    if not name.startswith("/sitemap-"):
        return None
    if suffix == ".atom":
        return Address(name[len("/sitemap-") :], suffix=suffix)
    section, _, number = name[len("/sitemap-") :].rpartition("-")
    known = section.rstrip("-")  # of /sitemap-blog--1.xml, whose number is below zero
    if not known:
        return None
    return Address(known, int(number) if known == section and NUMBER.fullmatch(number) else 0, suffix)


def _absent() -> Response:
    return refusal("404 Not Found", "There is no such sitemap.")


def _not_acceptable() -> Response:
    return refusal("406 Not Acceptable", "This is to be had as gzip or as it is.", [VARY])
