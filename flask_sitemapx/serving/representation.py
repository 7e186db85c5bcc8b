"""From a representation and a request to a response: negotiation and conditions, by RFC 9110."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from werkzeug.http import http_date, parse_date, parse_etags

Headers = list[tuple[str, str]]
TEXT = "text/plain; charset=utf-8"


class Response(NamedTuple):
    """What a WSGI server is to send."""

    status: str
    headers: Headers
    body: Iterable[bytes] = ()


@dataclass(frozen=True, slots=True)
class Representation:
    """One form of a resource. *etag* is the strong tag without quotes, *length* None if it is not known beforehand."""

    media_type: str
    etag: str
    body: Callable[[], Iterable[bytes]]
    length: int | None = None
    coding: str | None = None
    changed_at: str | None = None


def respond(
    environ: Mapping[str, Any], representations: Sequence[Representation], headers: Headers, *, negotiated: bool
) -> Response:
    """The response with the representation that the request accepts, or 304, 406 or 412.

    *headers* go with it in any case but 412. Of *negotiated* representations the first is the gzip coding and the last
    the identity; ``Vary`` then goes with every answer. The body is opened for a GET that gets it, and not before.
    """
    headers = [("Vary", "Accept-Encoding"), *headers] if negotiated else headers
    representation = _selected(environ, representations) if negotiated else representations[0]
    if representation is None:
        return refusal("406 Not Acceptable", "This is to be had as gzip or as it is.", [("Vary", "Accept-Encoding")])
    etag = f'"{representation.etag}"'
    headers = [("ETag", etag), *headers]
    failed = _failed_condition(environ, representation.etag, etag, representation.changed_at)
    if failed == 412:
        return refusal("412 Precondition Failed", "This has another ETag by now.")
    if failed == 304:
        # RFC 9110 15.4.5: ETag, Vary and Cache-Control as the 200 would have them, and nothing else about the content.
        return Response("304 Not Modified", headers)
    headers += _content_headers(representation)
    return Response("200 OK", headers, representation.body() if environ["REQUEST_METHOD"] == "GET" else ())


def refusal(status: str, text: str, headers: Headers | None = None, retry_after: int | None = None) -> Response:
    """A short answer that no cache keeps."""
    body = f"{text}\n".encode()
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


def accepted_coding(header: str | None) -> str | None:
    """The better of ``gzip`` and ``identity`` under an Accept-Encoding *header*, gzip if it is all the same; or None.

    RFC 9110 12.5.3: absent accepts all, empty the identity only; ``*`` stands for what is not named; the identity is
    acceptable unless excluded by name, or by ``*`` without being named.
    """
    if header is None:
        return "identity"  # any coding would do, and a client that says nothing is the kind that cannot unpack
    weights = _weights(header)
    gzip = weights.get("gzip", weights.get("*", 0.0))
    identity = weights.get("identity")
    if gzip > 0 and gzip >= (identity or 0.0):
        return "gzip"
    excluded = identity == 0 or (identity is None and weights.get("*") == 0)
    return None if excluded else "identity"


@lru_cache(maxsize=256)
def _weights(header: str) -> Mapping[str, float]:
    weights: dict[str, float] = {}
    for member in header.split(","):
        coding, *parameters = (part.strip().lower() for part in member.split(";"))
        if coding:
            # RFC 9110 8.4.1.3: x-gzip is the same as gzip
            weights["gzip" if coding == "x-gzip" else coding] = _weight(parameters)
    return weights


_QUALITY = re.compile(r"q\s*=\s*(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q"):
            found = _QUALITY.fullmatch(parameter)
            return float(found[1]) if found else 0.0  # what cannot be understood is not to be counted on
    return 1.0


def _selected(environ: Mapping[str, Any], representations: Sequence[Representation]) -> Representation | None:
    coding = accepted_coding(environ.get("HTTP_ACCEPT_ENCODING"))
    if coding is None:
        return None
    return representations[0] if coding == "gzip" else representations[-1]


def _failed_condition(environ: Mapping[str, Any], etag: str, quoted: str, changed_at: str | None) -> int | None:
    """304 or 412 if a precondition says so; in the order of RFC 9110 13.2.2."""
    if "HTTP_IF_MATCH" in environ:
        # 13.1.1: strong comparison
        tags = parse_etags(environ["HTTP_IF_MATCH"])
        if not (tags.star_tag or tags.is_strong(etag)):
            return 412
    elif "HTTP_IF_UNMODIFIED_SINCE" in environ and _is_later(changed_at, environ["HTTP_IF_UNMODIFIED_SINCE"]):
        return 412
    if "HTTP_IF_NONE_MATCH" in environ:
        # 13.1.3: If-Modified-Since is ignored beside If-None-Match, whatever that says
        header = environ["HTTP_IF_NONE_MATCH"]
        return 304 if header == quoted or _matches_weakly(header, etag) else None
    since = environ.get("HTTP_IF_MODIFIED_SINCE")
    return 304 if since and _is_later(changed_at, since) is False else None


def _matches_weakly(header: str, etag: str) -> bool:
    """13.1.2: weak comparison with a list of tags, or "*" alone."""
    tags = parse_etags(header)
    return header.strip() == "*" or tags.contains_weak(etag)


def _is_later(changed_at: str | None, header: str) -> bool | None:
    """Whether the change was after the date of *header*; None if either is not known, so that the header is ignored."""
    date = parse_date(header)
    if date is None or changed_at is None:
        return None
    return _time(changed_at) > date


def _content_headers(representation: Representation) -> Headers:
    headers = [("Content-Type", representation.media_type), ("Accept-Ranges", "none")]
    if representation.coding:
        headers.append(("Content-Encoding", representation.coding))
    if representation.length is not None:
        headers.append(("Content-Length", str(representation.length)))
    if representation.changed_at:
        headers.append(("Last-Modified", _http_date(representation.changed_at)))
    return headers


@lru_cache(maxsize=256)
def _http_date(w3c_datetime: str) -> str:
    return http_date(_time(w3c_datetime))


@lru_cache(maxsize=256)
def _time(w3c_datetime: str) -> datetime:
    text = w3c_datetime if "T" in w3c_datetime else f"{w3c_datetime}T00:00:00Z"
    return datetime.fromisoformat(text)
