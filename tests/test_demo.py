"""The atlas of Unicode in demo_app: its pages, what it lists, and what an edit changes in two workers."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path

import lxml.etree
import lxml.html
import pytest
from flask.testing import FlaskClient

import demo_app
from demo_app import DATABASE, create_app, prepare
from demo_app.languages import PHRASES
from demo_app.listing import has_name
from tests.browser import HUNG, ended

ROOT = Path(__file__).parent.parent
LAST = 0x27BF  # as far as the dingbats: all kinds of characters, and soon made
MAX_URLS = 2_000
LOC = re.compile("<loc>([^<]+)</loc>")
SNOWMAN = "/character/U+2603"

# What the database holds


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    path: Path = tmp_path_factory.mktemp("small") / DATABASE
    assert prepare.prepare(path, LAST)
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Iterator[sqlite3.Connection]:
    path = tmp_path_factory.mktemp("whole") / DATABASE
    assert prepare.prepare(path)
    with closing(sqlite3.connect(path)) as connection:
        yield connection


def test_each_assigned_character_has_a_row_and_nothing_else_has(whole):
    assigned = [c for c in range(sys.maxunicode + 1) if unicodedata.category(chr(c)) not in {"Cs", "Co", "Cn"}]
    assert [code for (code,) in whole.execute("SELECT code FROM characters ORDER BY code")] == assigned


def test_every_character_has_a_name_of_its_own(whole):
    total, names, shortest = whole.execute(
        "SELECT count(*), count(DISTINCT name), min(length(name)) FROM characters"
    ).fetchone()
    assert names == total
    assert shortest > 0


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0x07, "U+0007 (control)"),
        (0xE9, "LATIN SMALL LETTER E WITH ACUTE"),
        (0x4E00, "CJK UNIFIED IDEOGRAPH-4E00"),
        (0xAC00, "HANGUL SYLLABLE GA"),
        (0x17000, "TANGUT IDEOGRAPH-17000"),
        (0xE0041, "TAG LATIN CAPITAL LETTER A"),
    ],
)
def test_names_are_those_of_the_standard(whole, code, name):
    assert whole.execute("SELECT name FROM characters WHERE code = ?", (code,)).fetchone() == (name,)


def test_blocks_are_in_order_and_do_not_overlap():
    blocks = list(prepare.blocks())
    assert all(block.first <= block.last for block in blocks)
    assert all(one.last < other.first for one, other in pairwise(blocks))
    # The Unicode Standard, 3.4, D10b: a block begins and ends at a multiple of 16.
    assert all(block.first % 16 == 0 and block.last % 16 == 15 for block in blocks)


@pytest.mark.parametrize(
    "name",
    ["Cyrillic", "Hebrew", "Thai", "Cherokee", "Runic", "Braille Patterns", "Hiragana", "Gothic", "Cuneiform", "Tags"],
)
def test_the_names_of_most_characters_begin_with_that_of_their_block(whole, name):
    word = name.split()[0].upper().rstrip("S")
    names = whole.execute(
        "SELECT characters.name FROM characters JOIN blocks ON block = first WHERE blocks.name = ?", (name,)
    ).fetchall()
    assert sum(word in found for (found,) in names) > len(names) / 2


def test_a_database_that_is_there_is_left_alone(small):
    before = small.read_bytes()
    assert not prepare.prepare(small)
    assert small.read_bytes() == before


def test_preparing_leaves_nothing_behind_when_it_fails(tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(prepare, "sample", fail)
    with pytest.raises(KeyboardInterrupt):
        prepare.prepare(tmp_path / DATABASE, 0x100)
    assert list(tmp_path.iterdir()) == []


# Its pages


@pytest.fixture
def client(small, tmp_path) -> FlaskClient:
    shutil.copy(small, tmp_path / DATABASE)
    app = create_app(tmp_path)
    app.config.update(TESTING=True, SITEMAP_MAX_URLS=MAX_URLS)
    return app.test_client()


def page(client: FlaskClient, path: str) -> lxml.html.HtmlElement:
    answer = client.get(path)
    assert answer.status_code == 200
    return lxml.html.document_fromstring(answer.text)


PAGES = [
    "/",
    "/blocks",
    "/about",
    "/search",
    "/search?q=snow",
    "/block/arabic",
    "/block/unified-canadian-aboriginal-syllabics?page=2",
    SNOWMAN,
    f"/ar{SNOWMAN}",
    "/ar/blocks",
    "/de/block/arabic",
    "/character/U+0007",
    "/character/U+0020",
    "/character/U+0301",
    "/character/U+05D0",
    "/character/U+200D",
]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_one_heading_and_a_label_for_each_field(client, path):
    found = page(client, path)
    assert len(found.xpath("//h1")) == 1
    for field in found.xpath("//input | //textarea"):
        assert found.xpath("//label[@for=$id]", id=field.get("id"))
    ids = found.xpath("//@id")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("path", PAGES)
def test_a_page_needs_nothing_that_its_security_policy_forbids(client, path):
    answer = client.get(path)
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    found = lxml.html.document_fromstring(answer.text)
    assert not found.xpath("//script | //style | //@style | //@src")
    fetched = found.xpath("//link[not(@rel='canonical' or @rel='alternate')]/@href")
    assert fetched
    assert all(href.startswith("/static/") for href in fetched)


@pytest.mark.parametrize("path", PAGES)
def test_every_link_of_a_page_leads_somewhere(client, path):
    found = page(client, path)
    for link in set(found.xpath("//a/@href | //link[@rel!='canonical']/@href")):
        assert client.get(link.partition("#")[0] or path, buffered=True).status_code == 200, link


def test_a_character_that_cannot_be_seen_is_shown_by_a_stand_in(client):
    answer = client.get("/character/U+0007")
    assert "\x07" not in answer.text
    assert "\u2407" in answer.text


def test_a_mark_stands_on_a_dotted_circle(client):
    assert page(client, "/character/U+0301").xpath("string(//div[@class='specimen'])").strip() == "\u25cc\u0301"


@pytest.mark.parametrize(
    ("code", "lang", "direction"),
    [("05D0", "und-Hebr", "rtl"), ("0634", "und-Arab", "rtl"), ("0416", "und-Cyrl", "ltr"), ("2603", None, "ltr")],
)
def test_a_glyph_says_its_script_and_its_direction(client, code, lang, direction):
    (glyph,) = page(client, f"/character/U+{code}").xpath("//div[@class='specimen']/span")
    assert (glyph.get("lang"), glyph.get("dir")) == (lang, direction)


@pytest.mark.parametrize("loose", ["e9", "U+e9", "u+00E9", "U+000E9", "U+000000E9"])
def test_other_ways_to_write_a_code_point_lead_to_the_one_address(client, loose):
    answer = client.get(f"/character/{loose}")
    assert (answer.status_code, answer.headers["Location"]) == (301, "/character/U+00E9")


@pytest.mark.parametrize(
    "path", ["/character/U+0378", "/character/U+D800", "/character/U+110000", "/character/x", "/block/x"]
)
def test_what_is_not_assigned_has_no_page(client, path):
    answer = client.get(path, follow_redirects=True)
    assert answer.status_code == 404
    assert "No such page" in answer.text


@pytest.mark.parametrize("query", ["☃", "U+2603", "u+2603", "0x2603", "&#x2603;"])
def test_a_character_is_found_by_itself_and_by_its_code_point(client, query):
    assert client.get("/search", query_string={"q": query}).headers["Location"] == SNOWMAN


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("snowman", ["SNOWMAN", "BLACK SNOWMAN", "SNOWMAN WITHOUT SNOW"]),
        ("black snow", ["BLACK SNOWMAN"]),
        ("2603", ["SNOWMAN"]),
        ("☃é", ["SNOWMAN", "LATIN SMALL LETTER E WITH ACUTE"]),
        ("100% _", []),
        ("nosuchword", []),
    ],
)
def test_characters_are_found_by_words_of_their_names(client, query, names):
    response = client.get("/search", query_string={"q": query})
    found = lxml.html.document_fromstring(response.text)
    assert found.xpath("//ul[@class='cards found']//b/text()") == names


def test_without_a_database_a_page_says_what_to_do(tmp_path):
    answer = create_app(tmp_path).test_client().get("/")
    assert answer.status_code == 503
    assert "python -m demo_app.prepare" in answer.text


# What it lists


def listed(client: FlaskClient) -> list[str]:
    shards = LOC.findall(client.get("/sitemap.xml").text)
    return [loc for shard in shards for loc in LOC.findall(client.get(shard).text)]


def test_the_sitemap_lists_every_page_once_and_in_order(client, small):
    with closing(sqlite3.connect(small)) as connection:
        blocks = connection.execute("SELECT slug FROM blocks ORDER BY first").fetchall()
        codes = connection.execute("SELECT code FROM characters ORDER BY code").fetchall()
    prefixes = ["", "/de", "/tr", "/ar"]
    pages = ["/", *(f"{prefix}/blocks" for prefix in prefixes), "/about"]
    pages += [f"{prefix}/block/{slug}" for (slug,) in blocks for prefix in prefixes]
    for (code,) in codes:
        own = prefixes if has_name(code) else [""]  # of an ideograph no page in another language says more
        pages += [f"{prefix}/character/U+{code:04X}" for prefix in own]
    assert listed(client) == [f"http://127.0.0.1:8000{path}" for path in pages]


def test_each_entry_of_a_character_names_all_languages_and_its_image(client):
    index = LOC.findall(client.get("/sitemap.xml").text)
    document = next(text for path in index if f"{SNOWMAN}<" in (text := client.get(path).text))
    entry = re.search(f"<url><loc>[^<]*/ar{re.escape(SNOWMAN)}</loc>.*", document)
    assert entry is not None
    base = "http://127.0.0.1:8000"
    assert dict(re.findall('hreflang="(.*?)" href="(.*?)"', entry[0])) == {
        "en": f"{base}{SNOWMAN}",
        **{code: f"{base}/{code}{SNOWMAN}" for code in ("de", "tr", "ar")},
        "x-default": f"{base}{SNOWMAN}",
    }
    assert re.findall("<image:loc>(.*?)<", entry[0]) == [f"{base}{SNOWMAN}.svg"]


@pytest.mark.parametrize("path", [SNOWMAN, "/blocks", "/block/arabic"])
def test_a_page_and_the_sitemap_agree_on_its_alternates(client, path):
    for prefix in ("", "/ar"):
        found = page(client, f"{prefix}{path}")
        links = {link.get("hreflang"): link.get("href") for link in found.xpath("//link[@hreflang]")}
        assert [*links] == ["en", "de", "tr", "ar", "x-default"]
        assert links["tr"] == f"http://127.0.0.1:8000/tr{path}"
        assert links["x-default"] == links["en"] == f"http://127.0.0.1:8000{path}"


@pytest.mark.parametrize(
    ("prefix", "lang", "dir", "said"),
    [
        ("", "en", "ltr", "Category"),
        ("/de", "de", "ltr", "Kategorie"),
        ("/tr", "tr", "ltr", "Kategori"),
        ("/ar", "ar", "rtl", "الفئة"),
    ],
)
def test_a_page_speaks_its_language_and_leads_to_others_in_it(client, prefix, lang, dir, said):
    found = page(client, f"{prefix}{SNOWMAN}")
    assert (found.get("lang"), found.get("dir")) == (lang, dir)
    assert said in found.xpath("//dt/text()")
    assert found.xpath("//nav[@class='crumbs']/a/@href")[0] == f"{prefix}/blocks"
    assert found.xpath("//nav[@class='languages']/a/@lang") == ["en", "de", "tr", "ar"]
    assert client.post(f"{SNOWMAN}/note", data={"note": ""}).status_code == 303


def test_every_phrase_is_said_in_every_language_and_used():
    used = "".join(
        path.read_text() for path in (Path(demo_app.__file__).parent).rglob("*.*") if path.suffix in (".py", ".html")
    )
    for english, said in PHRASES.items():
        assert english in used, english
        assert all(said.values())


@pytest.mark.parametrize("code", ["U+2603", "U+0007", "U+0020", "U+0301", "U+05D0", "U+200D", "U+003C"])
def test_the_image_of_a_character_is_a_picture_without_anything_else(client, code):
    answer = client.get(f"/character/{code}.svg")
    assert answer.mimetype == "image/svg+xml"
    picture = lxml.etree.fromstring(answer.data)
    assert code in picture.xpath("string()")
    assert not picture.xpath("//*[local-name()='script' or local-name()='style'] | //@*[contains(name(), 'href')]")
    assert client.get("/character/U+0378.svg").status_code == 404


def test_blocks_have_a_feed_that_their_page_names(client):
    (href,) = page(client, "/blocks").xpath("//link[@type='application/atom+xml']/@href")
    feed = lxml.etree.fromstring(client.get(href).data)
    links = feed.xpath("//*[local-name()='entry']/*[local-name()='link']/@href")
    assert links
    assert all(link.startswith("http://127.0.0.1:8000/block/") for link in links)


def test_pages_that_are_listed_answer_and_call_themselves_so(client):
    for loc in listed(client)[::97]:
        assert page(client, loc).xpath("//link[@rel='canonical']/@href") == [loc]


def test_a_page_was_last_modified_when_its_data_was_published_or_its_note_edited(client):
    client.post(f"{SNOWMAN}/note", data={"note": "A friend."})
    shards = "".join(client.get(shard).text for shard in LOC.findall(client.get("/sitemap.xml").text))
    dated = dict(re.findall("<loc>[^<]+(/[^/<]+)</loc><lastmod>([^<]+)", shards))
    (edited_at,) = page(client, SNOWMAN).xpath("//section[@id='note']//time/@datetime")
    assert dated["/U+2603"] == edited_at
    assert dated["/U+2604"] == dated["/arrows"]
    if unicodedata.unidata_version in prepare.PUBLISHED:
        assert dated["/arrows"] == prepare.PUBLISHED[unicodedata.unidata_version]


def test_the_start_page_tells_what_is_served(client):
    assert page(client, "/").xpath("//span[starts-with(@class, 'state')]/text()") == ["missing"]
    pages = len(listed(client))
    found = page(client, "/")
    assert found.xpath("//span[starts-with(@class, 'state')]/text()") == ["fresh"]
    assert f"{pages:,}" in found.xpath("//dl[@class='numbers']//dd/text()")
    shards = set(found.xpath("//ol[@class='shards']//a/@href"))
    assert shards == {loc.partition(":8000")[2] for loc in LOC.findall(client.get("/sitemap.xml").text)}


# An edit


def test_a_note_is_shown_as_plain_text(client):
    answer = client.post(f"{SNOWMAN}/note", data={"note": " <b>cold</b>\r\n& white "}, follow_redirects=True)
    found = lxml.html.document_fromstring(answer.text)
    assert found.xpath("string(//p[@class='text'])") == "<b>cold</b>\n& white"
    assert not found.xpath("//p[@class='text']//b")


def test_a_receipt_names_what_an_edit_changed(client):
    answer = client.post(f"{SNOWMAN}/note", data={"note": "A friend."}, follow_redirects=True)
    changed = lxml.html.document_fromstring(answer.text).xpath("//div[@class='receipt']/a/@href")
    assert changed[0] == "/sitemap.xml"
    assert f"{SNOWMAN}<" in client.get(changed[1]).text
    assert len(changed) == 2
    assert page(client, "/").xpath("//ul[@class='edits']//p[2]/a/@href") == changed


def test_an_empty_note_removes_it(client):
    client.post(f"{SNOWMAN}/note", data={"note": "A friend."})
    assert page(client, SNOWMAN).xpath("//p[@class='text']")
    client.post(f"{SNOWMAN}/note", data={"note": ""})
    assert not page(client, SNOWMAN).xpath("//p[@class='text']")


def test_a_note_that_is_too_long_is_given_back(client):
    answer = client.post(f"{SNOWMAN}/note", data={"note": "☃" * 501})
    assert answer.status_code == 400
    assert lxml.html.document_fromstring(answer.text).xpath("string(//textarea)") == "☃" * 501
    assert not page(client, SNOWMAN).xpath("//p[@class='text']")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Origin": "http://localhost"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost"}, 303),
        ({"Sec-Fetch-Site": "same-origin"}, 303),
    ],
)
def test_only_a_page_of_this_site_edits_a_note(client, headers, status):
    assert client.post(f"{SNOWMAN}/note", data={"note": "Hi"}, headers=headers).status_code == status
    assert bool(page(client, SNOWMAN).xpath("//p[@class='text']")) == (status == 303)


# As the Procfile runs it


class Site:
    """A running atlas, and a connection to each of its workers: one that is kept open stays with one worker."""

    def __init__(self, port: int, connections: ExitStack) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self._port = port
        self._connections = connections

    def connected(self) -> http.client.HTTPConnection:
        return self._connections.enter_context(
            closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=HUNG))
        )

    def workers(self) -> dict[str, http.client.HTTPConnection]:
        found: dict[str, http.client.HTTPConnection] = {}
        for _ in range(1_000):
            connection = self.connected()
            html = asked(connection, "/about")[2]
            (pid,) = re.findall('class="worker">([0-9]+)<', html)
            found[pid] = connection
            if len(found) == 2:
                return found
        raise AssertionError(f"of two workers only {set(found)} answered")


def asked(
    connection: http.client.HTTPConnection, path: str, etag: str | None = None, form: str | None = None
) -> tuple[int, str, str]:
    """Status, ETag and text of an answer."""
    headers = {"If-None-Match": etag} if etag else {}
    if form is not None:
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
    connection.request("GET" if form is None else "POST", path, form, headers)
    with connection.getresponse() as answer:
        return answer.status, answer.headers.get("ETag", ""), answer.read().decode()


@pytest.fixture(scope="module")
def site(small, tmp_path_factory) -> Iterator[Site]:
    data = tmp_path_factory.mktemp("atlas")
    shutil.copy(small, data / DATABASE)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("SITEMAP_", "GUNICORN_"))}
    environ |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PORT": str(port),
        "WEB_CONCURRENCY": "2",
        "ATLAS_DATA": str(data),
        "SITEMAP_MAX_URLS": str(MAX_URLS),
    }
    command = (ROOT / "Procfile").read_text("utf-8").removeprefix("web: ")
    with (
        ended(["bash", "-c", command], cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True) as process,
        ExitStack() as connections,
    ):
        assert process.stdout is not None
        assert any("/robots.txt" in line for line in process.stdout), "it did not start"
        yield Site(port, connections)


def test_an_edit_changes_one_sitemap_and_the_index_in_both_workers(site):
    workers = site.workers()
    shards = [loc.removeprefix(site.address) for loc in LOC.findall(asked(site.connected(), "/sitemap.xml")[2])]
    assert len([path for path in shards if path.startswith("/sitemap-characters-")]) > 4

    def etags(connection: http.client.HTTPConnection) -> dict[str, str]:
        return {path: asked(connection, path)[1] for path in ["/sitemap.xml", *shards]}

    before = {pid: etags(connection) for pid, connection in workers.items()}
    assert len({json.dumps(tags) for tags in before.values()}) == 1
    assert asked(site.connected(), f"{SNOWMAN}/note", form="note=A+friend.")[0] == 303
    for pid, connection in workers.items():
        after = etags(connection)
        changed = [path for path in after if after[path] != before[pid][path]]
        assert len(changed) == 2
        assert changed[0] == "/sitemap.xml"
        assert f"{SNOWMAN}<" in asked(connection, changed[1])[2]
        statuses = {path: asked(connection, path, before[pid][path])[0] for path in after}
        assert [path for path, status in statuses.items() if status != 304] == changed


# In a browser


@pytest.mark.browser
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("path", PAGES)
def test_a_page_fits_the_width_of_a_phone_and_of_a_desktop(browser, site, path, width):
    browser.open(f"{site.address}{path}", width)
    assert browser.value("innerWidth") == width
    assert browser.value("document.styleSheets[0].cssRules.length") > 10
    root = "document.documentElement"
    assert browser.value(f"{root}.scrollWidth") <= browser.value(f"{root}.clientWidth") <= width
