"""The HTTP contract of what is served, the same through every serving.

RFC 9110
     8.6      Content-Length is exact
     8.8.1    ETags are strong: another for other bytes, the same for the same
     8.8.2    Last-Modified is when the entries changed, and absent when that is not known
     8.8.3.3  identity and gzip have different tags
     9.1      an unknown method, and any that is neither GET nor HEAD, is refused with Allow (15.5.6)
     9.3.2    HEAD has the headers of GET
    12.5.3    Accept-Encoding: absent, empty, weights, x-gzip, "*", exclusion (15.5.7: 406)
    12.5.5    Vary on 200, 304 and 406
    13.1.1    If-Match
    13.1.2    If-None-Match: one, a list, weak, "*" alone
    13.1.3    If-Modified-Since, ignored beside If-None-Match and when it is no date
    13.1.4    If-Unmodified-Since
    14.2      Range is ignored; 14.3: Accept-Ranges says so
    15.4.5    304 carries what caches need and no content
RFC 9111  5.2.2   Cache-Control; RFC 5861 3: stale-while-revalidate; refusals are not kept
RFC 6713          the gzip file has a type of its own and no coding
RFC 9309  2.3     robots.txt at the root of a host
sitemaps.org      documents are valid, are read back whole by other people's readers, and have one address each
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from datetime import datetime
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from lxml import etree
from protego import Protego
from usp.fetch_parse import SitemapFetcher
from usp.tree import sitemap_tree_for_homepage
from usp.web_client.abstract_client import (
    AbstractWebClient,
    AbstractWebClientResponse,
    AbstractWebClientSuccessResponse,
    WebClientErrorResponse,
)

from flask_sitemapx.snapshots.shards import BLOCK
from tests.served_shop import (
    FILES,
    LASTMOD,
    ORIGIN,
    PRODUCTS,
    Answer,
    InProcess,
    Serving,
    create_app,
    create_foreign,
    gunicorn,
)

SCHEMAS = {
    "ours": Path(__file__).parent / "schema" / "sitemap.xsd",
    "official": Path(__file__).parents[2] / "shared" / "xsd" / "all.xsd",
}
INDEX, SHARD = "/sitemap.xml", "/sitemap-products-1.xml"
TEXT = "/sitemap-products-1.txt"
DOCUMENTS = [INDEX, SHARD, f"{INDEX}.gz", f"{SHARD}.gz", TEXT]
CHANGED = "Mon, 06 May 2024 07:08:09 GMT"
BEFORE, AFTER, FUTURE = (CHANGED.replace("2024", year) for year in ("2023", "2025", "2999"))

each_document = pytest.mark.parametrize("path", DOCUMENTS)


SERVINGS = ["flask", "mounted", "middleware", "middleware, mounted", "gunicorn", "gunicorn without a name"]


@pytest.fixture(scope="module", params=SERVINGS)
def serving(request, tmp_path_factory) -> Iterator[Serving]:
    directory = tmp_path_factory.mktemp("store")
    if request.param == "flask":
        yield InProcess(create_app(SITEMAP_BASE_URL=ORIGIN), base_url=ORIGIN)
    elif request.param == "mounted":
        yield InProcess(create_app(SITEMAP_STORE=f"file:{directory}"), "/sub")
    elif request.param == "middleware":
        yield InProcess(create_foreign(base_url=ORIGIN), base_url=ORIGIN)
    elif request.param == "middleware, mounted":
        yield InProcess(create_foreign(store=f"file:{directory}"), "/sub")
    else:
        with gunicorn(directory, ORIGIN if request.param == "gunicorn" else None) as server:
            yield server


def test_the_shop_itself_is_closed(serving):
    """So that a sitemap that is answered was not answered by way of the application."""
    assert serving.ask("/").status == 403
    assert serving.ask("/sitemap-other-1.xml").body == b"the door is closed"


# Methods --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("headers", [{}, {"Accept-Encoding": "gzip"}, {"Accept-Encoding": "*;q=0"}], ids=str)
@pytest.mark.parametrize("path", [*DOCUMENTS, "/sitemap-products-99.xml", "/sitemap-products-0.xml"])
def test_head_has_the_headers_of_get_without_the_body(serving, path, headers):
    get, head = serving.ask(path, headers=headers), serving.ask(path, "HEAD", headers)
    assert (head.status, without_date(head)) == (get.status, without_date(get))
    assert (head.body, get.body != b"") == (b"", True)


@pytest.mark.parametrize("method", ["OPTIONS", "POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND"])
@each_document
def test_other_methods_are_refused_and_told_what_is_allowed(serving, path, method):
    refused = serving.ask(path, method)
    assert (refused.status, refused.header("Allow")) == (405, "GET, HEAD")
    assert refused.header("Cache-Control") == "no-store"


# Headers --------------------------------------------------------------------------------------------------------------


@each_document
def test_an_answer_says_how_long_it_may_be_kept_and_that_it_is_no_page(serving, path):
    answer = serving.ask(path)
    assert answer.status == 200
    assert answer.header("Cache-Control") == "public, max-age=3600, stale-while-revalidate=3600"
    assert answer.header("X-Robots-Tag") == "noindex"
    assert answer.header("Set-Cookie") is None


@each_document
def test_ranges_are_not_offered_and_ignored(serving, path):
    whole = serving.ask(path)
    part = serving.ask(path, headers={"Range": "bytes=0-9", "If-Range": whole.header("ETag") or ""})
    assert (part.status, part.body) == (200, whole.body)
    assert (part.header("Accept-Ranges"), part.header("Content-Range")) == ("none", None)


def test_the_length_is_exact(serving):
    for path in DOCUMENTS:
        for headers in ({}, {"Accept-Encoding": "gzip"}):
            answer = serving.ask(path, headers=headers)
            length = answer.header("Content-Length")
            is_packed = answer.body[:2] == b"\x1f\x8b"
            is_repacked = is_packed and (path == TEXT or b"http://shop.example" in gzip.decompress(answer.body))
            assert length == (None if is_repacked else str(len(answer.body)))


def test_last_modified_is_when_the_entries_changed_if_that_is_known(serving):
    assert serving.ask(SHARD).header("Last-Modified") == CHANGED
    assert serving.ask("/sitemap-files-1.xml").header("Last-Modified") is None


def test_the_xml_has_its_type(serving):
    for path in (INDEX, SHARD):
        answer = serving.ask(path, headers={"Accept-Encoding": "gzip"})
        assert answer.header("Content-Type") == "application/xml; charset=utf-8"
        assert answer.header("Content-Encoding") == "gzip"
        assert gzip.decompress(answer.body) == serving.ask(path).body


def test_the_gzip_file_has_a_type_of_its_own_and_no_coding(serving):
    for path in (INDEX, SHARD):
        for headers in ({}, {"Accept-Encoding": "gzip"}, {"Accept-Encoding": "*;q=0"}):
            answer = serving.ask(f"{path}.gz", headers=headers)
            assert (answer.status, answer.header("Content-Type")) == (200, "application/gzip")
            assert (answer.header("Content-Encoding"), answer.header("Vary")) == (None, None)
            assert gzip.decompress(answer.body) == serving.ask(path).body
            assert answer.body[4:8] == bytes(4), "two workers must send the same bytes, so no time is in them"


# ETags ----------------------------------------------------------------------------------------------------------------


def test_each_form_has_a_strong_tag_of_its_own(serving):
    plain = {"Accept-Encoding": "identity"}
    forms = [(path, headers) for path in (INDEX, SHARD) for headers in (plain, {"Accept-Encoding": "gzip"})]
    forms += [(f"{path}.gz", plain) for path in (INDEX, SHARD)]
    tags = [etag(serving, path, headers) for path, headers in forms]
    assert len(set(tags)) == len(forms)
    assert all(re.fullmatch(r'"[!#-~]+"', tag) for tag in tags)


def test_the_tag_stays_while_the_bytes_do(serving):
    for path in DOCUMENTS:
        answers = {(answer.header("ETag"), answer.body) for answer in (serving.ask(path) for _ in range(8))}
        assert len(answers) == 1


def test_answers_to_different_hosts_are_told_apart_by_their_tags(serving):
    for path in DOCUMENTS:
        for headers in ({}, {"Accept-Encoding": "gzip"}):
            one, other = (serving.ask(path, headers={**headers, "Host": host}) for host in ("a.example", "b.example"))
            assert (one.header("ETag") == other.header("ETag")) == (one.body == other.body)
            assert (one.body == other.body) == (serving.base == ORIGIN)


# Conditions -----------------------------------------------------------------------------------------------------------

CONDITIONS = [
    ({"If-None-Match": "{tag}"}, 304),
    ({"If-None-Match": "W/{tag}"}, 304),
    ({"If-None-Match": '"other", {tag}'}, 304),
    ({"If-None-Match": '"other",W/{tag},"x"'}, 304),
    ({"If-None-Match": "*"}, 304),
    ({"If-None-Match": '"other", *'}, 200),
    ({"If-None-Match": '"other"'}, 200),
    ({"If-None-Match": "unquoted"}, 200),
    ({"If-None-Match": '"other"', "If-Modified-Since": FUTURE}, 200),
    ({"If-None-Match": "{tag}", "If-Modified-Since": BEFORE}, 304),
    ({"If-Modified-Since": CHANGED}, 304),
    ({"If-Modified-Since": AFTER}, 304),
    ({"If-Modified-Since": FUTURE}, 304),
    ({"If-Modified-Since": "Monday, 06-May-24 07:08:09 GMT"}, 304),
    ({"If-Modified-Since": "Mon May  6 07:08:09 2024"}, 304),
    ({"If-Modified-Since": BEFORE}, 200),
    ({"If-Modified-Since": "yesterday"}, 200),
    ({"If-Modified-Since": f"Mon, 06 May {'9' * 30} 07:08:09 GMT"}, 200),
    ({"If-Match": "{tag}"}, 200),
    ({"If-Match": '"other", {tag}'}, 200),
    ({"If-Match": "*"}, 200),
    ({"If-Match": '"other"'}, 412),
    ({"If-Match": "W/{tag}"}, 412),
    ({"If-Match": '"other"', "If-None-Match": "{tag}"}, 412),
    ({"If-Match": "{tag}", "If-None-Match": "{tag}"}, 304),
    ({"If-Match": "{tag}", "If-Unmodified-Since": BEFORE}, 200),
    ({"If-Unmodified-Since": BEFORE}, 412),
    ({"If-Unmodified-Since": CHANGED}, 200),
    ({"If-Unmodified-Since": "yesterday"}, 200),
]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(("conditions", "status"), CONDITIONS, ids=str)
def test_conditions_are_tested_in_their_order(serving, conditions, status, method):
    for path, headers in ((SHARD, {}), (SHARD, {"Accept-Encoding": "gzip"}), (f"{SHARD}.gz", {})):
        tag = etag(serving, path, headers)
        given = {name: value.replace("{tag}", tag) for name, value in conditions.items()}
        answer = serving.ask(path, method, {**headers, **given})
        assert answer.status == status
        assert (answer.body != b"") == (method == "GET" and status != 304)


@each_document
@pytest.mark.parametrize("headers", [{}, {"Accept-Encoding": "gzip"}], ids=str)
def test_not_modified_says_what_caches_need_and_nothing_of_the_content(serving, path, headers):
    full = serving.ask(path, headers=headers)
    answer = serving.ask(path, headers={**headers, "If-None-Match": full.header("ETag") or ""})
    assert (answer.status, answer.body) == (304, b"")
    for name in ("ETag", "Vary", "Cache-Control"):
        assert answer.header(name) == full.header(name)
    for name in ("Content-Type", "Content-Encoding", "Content-Length", "Last-Modified", "Transfer-Encoding"):
        assert answer.header(name) is None


def test_the_tag_of_one_form_does_not_stand_for_another(serving):
    tag = etag(serving, SHARD, {"Accept-Encoding": "gzip"})
    assert serving.ask(SHARD, headers={"If-None-Match": tag}).status == 200
    assert serving.ask(f"{SHARD}.gz", headers={"If-None-Match": tag}).status == 200


# Negotiation ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        (None, None),
        ("", None),
        ("gzip", "gzip"),
        ("x-gzip", "gzip"),
        ("GZip;Q=0.5", "gzip"),
        ("deflate, gzip;q=0.2", "gzip"),
        ("gzip;q=0.2, identity;q=0.5", None),
        ("gzip;q=0, *", None),
        ("br", None),
        ("*", "gzip"),
        ("*;q=0, identity;q=0.1", None),
        ("identity;q=0, gzip;q=0.1", "gzip"),
        (";;q=,=,", None),
    ],
)
def test_the_coding_is_one_that_is_accepted(serving, accepted, coding):
    for path in (INDEX, SHARD):
        answer = serving.ask(path, headers={} if accepted is None else {"Accept-Encoding": accepted})
        assert (answer.status, answer.header("Content-Encoding")) == (200, coding)
        assert answer.header("Vary") == "Accept-Encoding"


@pytest.mark.parametrize("accepted", ["identity;q=0", "*;q=0", "gzip;q=0, identity;q=0.0", "br, *;q=0"])
def test_what_accepts_neither_coding_is_told_so(serving, accepted):
    answer = serving.ask(SHARD, headers={"Accept-Encoding": accepted})
    assert (answer.status, answer.header("Vary")) == (406, "Accept-Encoding")
    assert answer.header("Cache-Control") == "no-store"


# Addresses ------------------------------------------------------------------------------------------------------------


NO_NUMBERS = ["2", "0", "01", "-1", "--1", "+1", "%201", "1%20", "1_0", "1.0", "1e0", "0x1", "x", "", "1%00", "1%0A"]
LONG = ["9" * length for length in (9, 10, 3_900)]
NOT_ASCII = ["%D9%A1", "%EF%BC%91", "%C2%B9"]


@pytest.mark.parametrize("number", [*NO_NUMBERS, *LONG, *NOT_ASCII], ids=lambda number: number[:12])
@pytest.mark.parametrize("ending", [".xml", ".xml.gz", ".txt"])
def test_a_number_that_is_none_of_ours_is_not_found_without_asking_the_shop(serving, number, ending):
    answer = serving.ask(f"/sitemap-products-{number}{ending}")
    assert (answer.status, answer.body) == (404, b"There is no such sitemap.\n")
    assert answer.header("Content-Type") == "text/plain; charset=utf-8"
    assert answer.header("Cache-Control") == "no-store"


FOREIGN = ["/sitemap.xml/", "/Sitemap.xml", "/sitemap", "/sitemap.xml.gz.gz", "/sitemap---1.xml", "/sitemap-a.xml"]


@pytest.mark.parametrize("path", FOREIGN)
def test_what_is_not_ours_is_left_to_the_shop(serving, path):
    assert serving.ask(path).body == b"the door is closed"


def test_the_index_lists_each_sitemap_at_its_one_address(serving):
    paths = [loc.removeprefix(serving.base) for loc in locs(serving.ask(INDEX).body)]
    assert {"/sitemap-products-1.xml", "/sitemap-files-1.xml"} < set(paths)
    assert {serving.ask(path).status for path in paths} == {200}


# Documents ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", SCHEMAS)
def test_documents_are_valid(serving, schema):
    if not SCHEMAS[schema].exists():
        pytest.skip(f"there is no {SCHEMAS[schema]}")
    parsed = etree.XMLSchema(etree.parse(SCHEMAS[schema]))
    for path in [INDEX, *(loc.removeprefix(serving.base) for loc in locs(serving.ask(INDEX).body))]:
        parsed.assertValid(etree.fromstring(serving.ask(path).body))


@pytest.mark.parametrize("section", ["products", "files"])
def test_the_text_has_the_urls_of_the_document_a_line_each(serving, section):
    urls = [unescape(loc) for loc in locs(serving.ask(f"/sitemap-{section}-1.xml").body)]
    for headers in ({}, {"Accept-Encoding": "gzip"}):
        answer = serving.ask(f"/sitemap-{section}-1.txt", headers=headers)
        assert answer.header("Content-Type") == "text/plain; charset=utf-8"
        text = gzip.decompress(answer.body) if headers else answer.body
        assert text.decode() == "".join(f"{url}\n" for url in urls)


def test_there_is_no_index_in_plain_text(serving):
    assert serving.ask("/sitemap.txt").status == serving.ask("/sitemap-index-1.txt").status == 404


def test_another_reader_finds_all_entries(serving):
    sitemap = SitemapFetcher(f"{serving.base}{INDEX}", 0, UspClient(serving)).sitemap()
    pages = {page.url: page for page in sitemap.all_pages()}
    assert set(pages) == {serving.base + path for path in ["/", *PRODUCTS, *FILES]}
    assert {pages[serving.base + path].last_modified for path in PRODUCTS} == {datetime.fromisoformat(LASTMOD)}


def test_another_reader_finds_all_entries_in_the_gzip_files(serving):
    found = set()
    for loc in locs(gzip.decompress(serving.ask(f"{INDEX}.gz").body)):
        found |= {page.url for page in SitemapFetcher(f"{loc}.gz", 0, UspClient(serving)).sitemap().all_pages()}
    assert found == {serving.base + path for path in ["/", *PRODUCTS, *FILES]}


# robots.txt -----------------------------------------------------------------------------------------------------------


def test_robots_txt_names_the_sitemap_and_is_ours_at_the_root_only(serving):
    answer = serving.ask("/robots.txt")
    if serving.base.endswith("/sub"):
        assert (answer.status, answer.body) == (403, b"the door is closed")
        return
    assert (answer.status, answer.header("Content-Type")) == (200, "text/plain; charset=utf-8")
    rules = Protego.parse(answer.body.decode())
    assert list(rules.sitemaps) == [f"{serving.base}{INDEX}"]
    assert not rules.can_fetch(f"{serving.base}/admin/x", "anybot")
    assert rules.can_fetch(f"{serving.base}/products/1", "anybot")
    pages = sitemap_tree_for_homepage(f"{serving.base}/", UspClient(serving), use_known_paths=False).all_pages()
    assert len(list(pages)) == 1 + len(PRODUCTS) + len(FILES)


def test_robots_txt_is_conditional_and_read_only(serving):
    answer = serving.ask("/robots.txt")
    if serving.base.endswith("/sub"):
        assert answer.status == 403
        return
    assert answer.header("Content-Length") == str(len(answer.body))
    assert answer.header("Cache-Control") == "public, max-age=3600, stale-while-revalidate=3600"
    assert serving.ask("/robots.txt", headers={"If-None-Match": answer.header("ETag") or ""}).status == 304
    assert without_date(serving.ask("/robots.txt", "HEAD")) == without_date(answer)
    assert serving.ask("/robots.txt", "POST").header("Allow") == "GET, HEAD"


# Blocks ---------------------------------------------------------------------------------------------------------------


APPLICATIONS = {
    "named": lambda: create_app(SITEMAP_BASE_URL=ORIGIN),
    "without a name": create_app,
    "middleware": lambda: create_foreign(base_url=ORIGIN),
    "middleware without a name": create_foreign,
}


@pytest.mark.parametrize("application", APPLICATIONS)
@pytest.mark.parametrize("accepted", ["identity", "gzip"])
def test_a_large_body_leaves_in_blocks(application, accepted):
    app = APPLICATIONS[application]()
    blocks = list(chunks(app, "/sitemap-files-1.xml", HTTP_ACCEPT_ENCODING=accepted))
    whole = b"".join(blocks)
    assert len(whole if accepted == "identity" else gzip.decompress(whole)) > 3 * BLOCK
    assert max(map(len, blocks)) < 1.5 * BLOCK
    assert len(blocks) > 1


# What the tests ask with ----------------------------------------------------------------------------------------------


def chunks(app: Any, path: str, **environ: str) -> Iterator[bytes]:
    request = {"REQUEST_METHOD": "GET", "PATH_INFO": path, "HTTP_HOST": "shop.example", "wsgi.url_scheme": "http"}
    return iter(app({**request, **environ}, lambda status, headers: None))


def etag(serving: Serving, path: str, headers: dict[str, str]) -> str:
    tag = serving.ask(path, headers=headers).header("ETag")
    assert tag is not None
    return tag


def locs(document: bytes) -> list[str]:
    return [unescape(loc) for loc in re.findall(r"<loc>([^<]*)</loc>", document.decode())]


def without_date(answer: Answer) -> list[tuple[str, str]]:
    """The headers but those of the connection."""
    return sorted(header for header in answer.headers if header[0] not in ("Date", "Connection", "Transfer-Encoding"))


class UspAnswer(AbstractWebClientSuccessResponse):
    def __init__(self, url: str, answer: Answer) -> None:
        self._url = url
        self._answer = answer

    def status_code(self) -> int:
        return self._answer.status

    def status_message(self) -> str:
        return "OK"

    def header(self, case_insensitive_name: str) -> str | None:
        return self._answer.header(case_insensitive_name)

    def raw_data(self) -> bytes:
        return self._answer.body

    def url(self) -> str:
        return self._url


class UspClient(AbstractWebClient):
    """Lets ultimate-sitemap-parser read from a serving."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    def set_max_response_data_length(self, max_response_data_length: int | None) -> None:
        pass

    def get(self, url: str) -> AbstractWebClientResponse:
        base = urlsplit(self._serving.base)
        path = urlsplit(url).path.removeprefix(base.path)
        answer = self._serving.ask(path, headers={"Host": urlsplit(url).netloc})
        return UspAnswer(url, answer) if answer.status == 200 else WebClientErrorResponse(str(answer.status), False)
