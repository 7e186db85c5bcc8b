"""From a representation and a request to a response: negotiation and conditions, by RFC 9110."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from time import time
from typing import Any, NamedTuple

from werkzeug.http import http_date, parse_date

Headers = list[tuple[str, str]]
TEXT = "text/plain; charset=utf-8"
VARY = ("Vary", "Accept-Encoding")


class Response(NamedTuple):
    """What a WSGI server is to send."""

    status: str
    headers: Headers
    body: Iterable[bytes] = ()


@dataclass(frozen=True)
class Representation:
    """One form of a resource.

    *etag* is the strong tag without quotes, *length* None if it is not known beforehand, *changed_at* a W3C datetime in
    UTC, and *headers* are those of 200 and 304 alike.
    """

    media_type: str
    etag: str
    body: Callable[[], Iterable[bytes]]
    length: int | None = None
    coding: str | None = None
    changed_at: str | None = None
    headers: Sequence[tuple[str, str]] = ()

    @cached_property
    def quoted_etag(self) -> str:
        return f'"{self.etag}"'

    @cached_property
    def lasting_headers(self) -> Headers:
        """RFC 9110 15.4.5: what a 304 tells as the 200 would: ETag, Vary, Cache-Control, nothing about the content."""
        return [("ETag", self.quoted_etag), *self.headers]

    @cached_property
    def all_headers(self) -> Headers:
        headers = [*self.lasting_headers, ("Content-Type", self.media_type), ("Accept-Ranges", "none")]
        if self.coding:
            headers.append(("Content-Encoding", self.coding))
        if self.length is not None:
            headers.append(("Content-Length", str(self.length)))
        return headers

    @cached_property
    def last_modified(self) -> tuple[float, str] | None:
        """The time of the change, in seconds and as a header has it."""
        moment = _time(self.changed_at) if self.changed_at else None
        return (moment.timestamp(), http_date(moment)) if moment else None


def respond(environ: Mapping[str, Any], representation: Representation) -> Response:
    """The response with *representation*, or 304 or 412. The body is opened for a GET that gets it, and not before."""
    failed = _failed_condition(environ, representation)
    if failed == 304:
        return Response("304 Not Modified", [*representation.lasting_headers])
    if failed == 412:
        return refusal("412 Precondition Failed", "This is not what it was any more.")
    headers = [*representation.all_headers]
    changed = representation.last_modified
    if changed and changed[0] <= time():  # RFC 9110 8.8.2.1: never later than the answer itself
        headers.append(("Last-Modified", changed[1]))
    return Response("200 OK", headers, representation.body() if environ["REQUEST_METHOD"] == "GET" else ())


def refusal(status: str, text: str, headers: Headers | None = None, retry_after: int | None = None) -> Response:
    """A short answer that no cache keeps."""
    body = f"{text}\n".encode(errors="backslashreplace")
    headers = [
        ("Content-Type", TEXT),
        ("Content-Length", str(len(body))),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        *(headers or ()),
    ]
    if retry_after is not None:
        headers.append(("Retry-After", str(retry_after)))
    return Response(status, headers, (body,))


# Negotiation


@lru_cache(maxsize=256)
def accepted_coding(header: str | None) -> str | None:
    """The better of ``gzip`` and ``identity`` under an Accept-Encoding *header*, gzip if it is all the same; or None.

    RFC 9110 12.5.3: absent accepts all, empty the identity only; ``*`` stands for what is not named; the identity is
    acceptable unless excluded by name, or by ``*`` without being named. A weight that is none voids its member.
    """
    if header is None:
        return "identity"  # any coding would do, and a client that says nothing is the kind that cannot unpack
    weights = _weights(header)
    gzip = weights.get("gzip", weights.get("*", 0.0))
    identity = weights.get("identity", weights.get("*"))
    if gzip > 0 and gzip >= (identity or 0.0):
        return "gzip"
    return None if identity == 0 else "identity"


_MEMBER = re.compile(r"([^\s;]+)(?:\s*;\s*q\s*=\s*(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?", re.ASCII)


def _weights(header: str) -> dict[str, float]:
    weights: dict[str, float] = {}
    for member in header.lower().split(","):
        if found := _MEMBER.fullmatch(member.strip()):
            # RFC 9110 8.4.1.3: x-gzip is the same as gzip
            coding = "gzip" if found[1] == "x-gzip" else found[1]
            weights[coding] = float(found[2] or 1)
    return weights


# Conditions


def _failed_condition(environ: Mapping[str, Any], representation: Representation) -> int | None:
    """304 or 412 if a precondition says so; in the order of RFC 9110 13.2.2."""
    if "HTTP_IF_MATCH" in environ:
        if not _matches_strongly(environ["HTTP_IF_MATCH"], representation.quoted_etag):
            return 412
    elif "HTTP_IF_UNMODIFIED_SINCE" in environ and _is_later(representation, environ["HTTP_IF_UNMODIFIED_SINCE"]):
        return 412
    if "HTTP_IF_NONE_MATCH" in environ:
        # 13.1.3: If-Modified-Since is ignored beside If-None-Match, whatever that says
        return 304 if _matches_weakly(environ["HTTP_IF_NONE_MATCH"], representation.quoted_etag) else None
    if "HTTP_IF_MODIFIED_SINCE" in environ:
        return 304 if _is_later(representation, environ["HTTP_IF_MODIFIED_SINCE"]) is False else None
    return None


def _matches_weakly(header: str, quoted_etag: str) -> bool:
    """13.1.2: weak comparison with a list of tags, or "*" alone. No tag holds a quote, so none can hide another."""
    return quoted_etag in header or header.strip() == "*"


def _matches_strongly(header: str, quoted_etag: str) -> bool:
    """13.1.1: strong comparison with a list of tags, or "*" alone. Ours hold no comma, so a split finds them."""
    return quoted_etag in map(str.strip, header.split(",")) or header.strip() == "*"


_HTTP_DATE = re.compile(  # 5.6.7; the parser reads much more, and stumbles over some of it
    r"[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT"  # IMF-fixdate
    r"|[A-Z][a-z]{5,8}, [0-9]{2}-[A-Z][a-z]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT"  # RFC 850
    r"|[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9][0-9] [0-9]{2}:[0-9]{2}:[0-9]{2} [0-9]{4}"  # asctime
)


def _is_later(representation: Representation, header: str) -> bool | None:
    """Whether the change was after the date of *header*; None if either is not known, so that the header is ignored."""
    date = parse_date(header) if _HTTP_DATE.fullmatch(header) else None
    if date is None or representation.changed_at is None:
        return None
    return _time(representation.changed_at) > date


def _time(w3c_datetime: str) -> datetime:
    text = w3c_datetime if "T" in w3c_datetime else f"{w3c_datetime}T00:00:00Z"
    return datetime.fromisoformat(text)
