from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from werkzeug.datastructures import Accept
from werkzeug.http import http_date, is_resource_modified, parse_accept_header, parse_etags

from flask_sitemapx.serving.representation import Representation, Response, accepted_coding, refusal, respond

CHANGED = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
BEFORE, AT, AFTER, FUTURE = (http_date(CHANGED.replace(year=year)) for year in (2023, 2024, 2025, 2999))

# What a WSGI server hands over: text in latin-1, without line breaks.
header_text = st.text(st.characters(max_codepoint=255, exclude_characters="\r\n\0"), max_size=80)


def representation(**changes: Any) -> Representation:
    values = {
        "media_type": "application/xml",
        "etag": "1-abc",
        "body": lambda: [b"<urlset/>"],
        "length": 9,
        "changed_at": "2024-05-06T07:08:09Z",
        "headers": [("Vary", "Accept-Encoding")],
    }
    return Representation(**{**values, **changes})


def answered(method: str = "GET", of: Representation | None = None, **headers: str) -> Response:
    environ = {"REQUEST_METHOD": method, **{f"HTTP_{name.upper()}": value for name, value in headers.items()}}
    return respond(environ, of or representation())


def status(**headers: str) -> int:
    return int(answered("GET", None, **headers).status[:3])


# Conditions -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('"1-abc"', 304),
        ('W/"1-abc"', 304),
        ('"other", "1-abc"', 304),
        ('"other",W/"1-abc" , "x"', 304),
        ('"a,b", "1-abc"', 304),
        ("*", 304),
        (" * ", 304),
        ('"other", *', 200),
        ('*, "other"', 200),
        ('"other"', 200),
        ('"1-abcd"', 200),
        ("1-abc", 200),
        ("", 200),
        ('"', 200),
    ],
)
def test_if_none_match_compares_weakly_with_each_tag_and_takes_a_star_alone(header, expected):
    assert status(if_none_match=header) == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('"1-abc"', 200),
        ('"other", "1-abc"', 200),
        ("*", 200),
        ('W/"1-abc"', 412),
        ('"other", *', 412),
        ('"other"', 412),
        ("", 412),
    ],
)
def test_if_match_compares_strongly(header, expected):
    assert status(if_match=header) == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (BEFORE, 200),
        (AT, 304),
        (AFTER, 304),
        (FUTURE, 304),
        ("Monday, 06-May-24 07:08:09 GMT", 304),
        ("Mon May  6 07:08:09 2024", 304),
        ("Mon May  6 07:08:08 2024", 200),
        ("Mon, 06 May 2024 07:08:09", 200),
        ("Mon, 06 May 2024 07:08:09 +0000", 200),
        ("Mon, 66 May 2024 07:08:09 GMT", 200),
        (f"Mon, 06 May {'9' * 20} 07:08:09 GMT", 200),
        (f"{AFTER}, {AFTER}", 200),
        ("", 200),
        ("0", 200),
    ],
)
def test_if_modified_since_takes_the_three_forms_of_a_date_and_ignores_all_else(header, expected):
    assert status(if_modified_since=header) == expected


@pytest.mark.parametrize(("header", "expected"), [(BEFORE, 412), (AT, 200), (FUTURE, 200), ("yesterday", 200)])
def test_if_unmodified_since_refuses_what_changed_later(header, expected):
    assert status(if_unmodified_since=header) == expected


def test_what_has_no_date_of_change_ignores_the_conditions_on_it():
    undated = representation(changed_at=None)
    assert answered(of=undated, if_modified_since=FUTURE).status == "200 OK"
    assert answered(of=undated, if_unmodified_since=BEFORE).status == "200 OK"
    assert "Last-Modified" not in dict(answered(of=undated).headers)


def test_a_date_alone_means_its_first_second():
    dated = representation(changed_at="2024-05-06")
    assert dict(answered(of=dated).headers)["Last-Modified"] == "Mon, 06 May 2024 00:00:00 GMT"
    assert answered(of=dated, if_modified_since="Mon, 06 May 2024 00:00:00 GMT").status.startswith("304")


def test_a_change_ahead_of_the_clock_is_not_told():
    assert "Last-Modified" not in dict(answered(of=representation(changed_at="9999-01-01")).headers)


def test_tags_come_before_dates():
    assert status(if_none_match='"other"', if_modified_since=FUTURE) == 200
    assert status(if_none_match='"1-abc"', if_modified_since=BEFORE) == 304
    assert status(if_match='"1-abc"', if_unmodified_since=BEFORE) == 200
    assert status(if_match='"other"', if_none_match='"1-abc"') == 412
    assert status(if_match="*", if_none_match="*") == 304


@st.composite
def tag_lists(draw: st.DrawFn) -> str:
    tags = draw(st.lists(st.sampled_from(['"1-abc"', 'W/"1-abc"', '"x"', 'W/"y,z"', '"1-ab"', '""']), min_size=1))
    return draw(st.sampled_from([", ", ",", " , "])).join(tags)


dates = st.datetimes(datetime(1970, 1, 1), datetime(2999, 1, 1)).map(
    lambda date: http_date(date.replace(microsecond=0))
)


@given(
    none_match=st.none() | tag_lists() | st.just("*"),
    modified=st.none() | dates | st.sampled_from([BEFORE, AT, AFTER, "x"]),
    method=st.sampled_from(["GET", "HEAD"]),
)
def test_werkzeug_agrees_when_something_is_modified(none_match, modified, method):
    headers = {"if_none_match": none_match, "if_modified_since": modified}
    given_headers = {name: value for name, value in headers.items() if value is not None}
    environ = {"REQUEST_METHOD": method, **{f"HTTP_{name.upper()}": value for name, value in given_headers.items()}}
    # Werkzeug goes on to the date when no tag matches; RFC 9110 13.1.3 has the date ignored beside any If-None-Match.
    if none_match is not None:
        environ.pop("HTTP_IF_MODIFIED_SINCE", None)
    is_modified = is_resource_modified(environ, etag='"1-abc"', last_modified=CHANGED)
    assert answered(method, **given_headers).status == ("200 OK" if is_modified else "304 Not Modified")


@given(tag_lists() | st.just("*"))
def test_werkzeug_agrees_what_matches_strongly(header):
    tags = parse_etags(header)
    matches = tags.star_tag or tags.is_strong("1-abc")
    assert answered(if_match=header).status[:3] == ("200" if matches else "412")


@given(
    st.dictionaries(
        st.sampled_from(["if_match", "if_none_match", "if_modified_since", "if_unmodified_since", "range"]), header_text
    )
)
@example({"if_modified_since": f"Fri, 04 Sep {'9' * 20} 19:15:56 GMT"})
@example({"if_unmodified_since": "Sun, 30 Feb 2024 00:00:00 GMT"})
def test_any_text_in_a_condition_is_answered(headers):
    assert answered(**headers).status[:3] in ("200", "304", "412")


# What is sent ---------------------------------------------------------------------------------------------------------


def test_head_has_the_headers_of_get_and_opens_no_body():
    def opened() -> list[bytes]:
        raise AssertionError

    get, head = answered(), answered("HEAD", representation(body=opened))
    assert (get.status, get.headers) == (head.status, head.headers)
    assert (list(get.body), list(head.body)) == ([b"<urlset/>"], [])


def test_not_modified_tells_what_caches_need_and_nothing_of_the_content():
    assert answered(if_none_match="*").headers == [("ETag", '"1-abc"'), ("Vary", "Accept-Encoding")]


def test_an_unknown_length_is_not_stated():
    assert "Content-Length" not in dict(answered(of=representation(length=None)).headers)


def test_who_changes_the_headers_of_an_answer_changes_no_other():
    subject = representation()
    for conditions in ({}, {"if_none_match": "*"}):
        before = list(answered(of=subject, **conditions).headers)
        answered(of=subject, **conditions).headers.append(("Set-Cookie", "a=b"))
        assert answered(of=subject, **conditions).headers == before


def test_a_refusal_is_kept_by_nobody_and_says_its_length():
    status, headers, body = refusal("503 Service Unavailable", "später \ud800", retry_after=7)
    sent = b"".join(body)
    assert sent == "später \\ud800\n".encode()
    assert status == "503 Service Unavailable"
    assert dict(headers) == {
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Length": str(len(sent)),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Retry-After": "7",
    }


# Negotiation ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "coding"),
    [
        (None, "identity"),
        ("", "identity"),
        ("gzip", "gzip"),
        ("GZIP", "gzip"),
        ("x-gzip", "gzip"),
        ("x-gzip;q=0", "identity"),
        ("gzip, deflate, br, zstd", "gzip"),
        ("br", "identity"),
        ("*", "gzip"),
        ("*;q=0.1", "gzip"),
        ("gzip;q=0", "identity"),
        ("gzip;q=0.000", "identity"),
        ("gzip;q=0, *", "identity"),
        ("gzip;q=0.001", "gzip"),
        ("gzip ; q=0.5 , identity ; q=0.4", "gzip"),
        ("gzip;q=0.5, identity;q=0.5", "gzip"),
        ("gzip;q=0.5, identity", "identity"),
        ("gzip;q=0.5, *;q=0.8", "identity"),
        ("identity", "identity"),
        ("identity;q=0", None),
        ("identity;q=0, gzip;q=0", None),
        ("*;q=0", None),
        ("br, *;q=0", None),
        ("*;q=0, identity;q=0.1", "identity"),
        ("*;q=0, gzip", "gzip"),
        ("identity;q=0, gzip", "gzip"),
        ("identity;q=0, *;q=0.5", "gzip"),
        ("identity;q=nonsense", "identity"),
        ("gzip;q=1.5", "identity"),
        ("gzip;q=nan", "identity"),
        ("*;q=-0", "identity"),
        (";q=0", "identity"),
        (", ,", "identity"),
    ],
)
def test_the_coding_is_the_best_that_is_accepted(header, coding):
    assert accepted_coding(header) == coding


weights = st.sampled_from(["", ";q=0", ";q=0.5", ";q=0.7", ";q=1", "; q=1.000", ";Q=0"])
members = st.tuples(st.sampled_from(["gzip", "identity", "*", "br"]), weights)
accept_encodings = st.lists(members, max_size=4, unique_by=lambda member: member[0])


def by_the_letter(stated: dict[str, float], coding: str) -> float | None:
    """RFC 9110 12.5.3, rule by rule: the weight of *coding*, None if the header says nothing of it."""
    if coding in stated:
        return stated[coding]
    return stated.get("*")


@given(accept_encodings)
def test_the_coding_is_what_rfc_9110_says_read_by_the_letter(given_members):
    stated = {name: float(weight.lower().partition("q=")[2] or 1) for name, weight in given_members}
    gzip, identity = by_the_letter(stated, "gzip"), by_the_letter(stated, "identity")
    acceptable = {}
    if gzip:
        acceptable["gzip"] = gzip
    if identity != 0:  # "acceptable by default unless specifically excluded"
        acceptable["identity"] = identity or 0.0
    expected = max(acceptable, key=lambda coding: (acceptable[coding], coding == "gzip"), default=None)
    assert accepted_coding(",".join(map("".join, given_members))) == expected


@given(accept_encodings)
def test_werkzeug_agrees_that_gzip_is_accepted(given_members):
    # Only that: Werkzeug's best_match knows neither the identity that is acceptable unasked nor its exclusion, and its
    # Accept does not compare "*" with less weight than a named coding that is excluded.
    header = ",".join(map("".join, given_members))
    accept = parse_accept_header(header.lower(), Accept)
    named = dict(accept)
    is_accepted = named.get("gzip", named.get("*", 0)) > 0
    coding = accepted_coding(header)
    if coding == "gzip":
        assert is_accepted
        assert accept.quality("gzip") > 0
    if is_accepted and "identity" not in named:
        assert coding == "gzip" or named.get("*", 0) > named["gzip"]


@given(header_text)
def test_any_text_in_accept_encoding_is_read(header):
    assert accepted_coding(header) in ("gzip", "identity", None)
