"""Sections of CSV and JSON Lines: what rows become, what is wrong with them, when they are read."""

from __future__ import annotations

import gzip
import io
import os
import re
import tracemalloc
from datetime import UTC
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from werkzeug.test import Client

from flask_sitemapx.errors import BuildFailed, ConfigurationError
from flask_sitemapx.protocol.gate import Gate
from flask_sitemapx.protocol.locs import BaseUrl
from flask_sitemapx.service.application import File as ServiceFile
from flask_sitemapx.service.application import configured
from flask_sitemapx.service.sites import Sites
from flask_sitemapx.snapshots.directory import DirectoryStore
from flask_sitemapx.sources import tabular
from flask_sitemapx.sources.files import file_at
from flask_sitemapx.sources.loc_template import LocTemplate
from flask_sitemapx.sources.parts import Past
from flask_sitemapx.sources.tabular import FIELDS, Csv, Form, JsonLines, TabularSource
from tests.section_sources import NOW, Site

BASE = BaseUrl.parse("https://example.com")


class Content:
    """A file of bytes."""

    address = "pages"

    def __init__(self, content: bytes) -> None:
        self._content = content

    def version(self, now: float) -> str | None:
        return None

    def opened(self) -> BinaryIO:
        return io.BytesIO(self._content)


def rendered(form: Form, content: bytes, loc: str = "{loc}", *fields: str) -> tuple[list[str], dict[str, list[Any]]]:
    """The elements of the rows of *content*, shortened, and what is wrong with it."""
    source = TabularSource("pages", Content(content), form, LocTemplate(loc), {name: name for name in fields}, UTC)
    gate = Gate(BASE, section="pages", timezone=UTC, strict=False)
    elements = [element for columns in source.part("", None).columns() for element in gate.rendered(columns).elements]
    short = [element.strip().replace("<url><loc>https://example.com", "").replace("</url>", "") for element in elements]
    return [element.replace("</loc>", "") for element in short], gate.problems.as_dict()


def csv(content: bytes, loc: str = "{loc}", *fields: str, form: Form | None = None) -> Any:
    return rendered(form or Csv(), content, loc, *fields)


def jsonl(content: bytes, loc: str = "{loc}", *fields: str) -> Any:
    return rendered(JsonLines(), content, loc, *fields)


# CSV


def test_the_first_row_names_the_columns():
    content = b"loc, lastmod ,changefreq,priority\n/a,2026-11-30,weekly,0.8\n/b,,,\n"
    assert csv(content, "{loc}", *FIELDS) == (
        ["/a<lastmod>2026-11-30</lastmod><changefreq>weekly</changefreq><priority>0.8</priority>", "/b"],
        {},
    )


@pytest.mark.parametrize(
    "content",
    [
        b"loc,x\n/a,1\n/b,2",
        b"\xef\xbb\xbfloc,x\r\n/a,1\r\n/b,2\r\n",
        b'x,loc\n\n"1,\n""2","/a"\n\n3,/b\n\n',
        b'\xef\xbb\xbf"loc",x\n/a,1\n/b,\xc3\xa9\n',
    ],
    ids=["plain", "from Excel", "quoted", "quoted names"],
)
def test_csv_is_read_as_it_is_written_everywhere(content):
    assert csv(content) == (["/a", "/b"], {})


def test_a_delimiter_may_be_another_and_columns_be_named_elsewhere():
    assert csv(b"/a;1\n/b;2\n", form=Csv(";", ("loc", "x"))) == (["/a", "/b"], {})
    assert csv(b"loc\tx\n/a\t1,2\n", form=Csv("\t")) == (["/a"], {})


@pytest.mark.parametrize(
    ("bad", "rule", "line", "reason"),
    [
        (b"/x", "row-length", 3, "1, not 2"),
        (b"/x,1,2", "row-length", 3, "3, not 2"),
        (b'/x,"1"2', "row-form", 3, "expected after"),
        (b"/x\r,1", "row-form", 3, "new-line character"),
        (b'/x,"open\n"1', "row-form", 4, "expected after"),
        (b"/x,\xff", "row-encoding", 3, "invalid start byte"),
        (b",1", "loc-column", 3, "column 'loc': ''"),
        (b"/x,1" + b"1" * tabular.MAX_LINE, "row-size", 3, "more than 1048576 bytes"),
        (b"/x," + b"1" * 200_000, "row-form", 3, "field larger than field limit"),
    ],
)
def test_a_bad_row_is_left_out_and_told_by_its_line(bad, rule, line, reason):
    locs, problems = csv(b"loc,x\n/a,1\n" + bad + b"\n/b,2\n/c,3\n")
    assert locs[0] == "/a"
    assert locs[-1] == "/c"
    assert "/x" not in locs
    example = problems[rule][1]
    assert example.startswith(f"'pages, line {line}' (")
    assert reason in example


def test_a_row_that_does_not_end_is_given_up_in_time():
    endless = b'"' + b'\n","' * (tabular.MAX_LINE // 4)
    locs, problems = csv(b"loc,x\n/a,1\n" + endless + b"\n/b,2\n")
    assert locs[0] == "/a"
    assert "row-size" in problems
    assert locs[-1] == "/b"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "pages is empty"),
        (b"url,x\n", "pages has the column 'loc' not; there are 'url, x'"),
        (b"loc,loc\n", "pages has the column 'loc' twice"),
        (b"loc,\xff\n", "names of its columns cannot be read"),
        (b'"loc"x\n', "names of its columns cannot be read"),
    ],
)
def test_columns_that_cannot_be_told_fail_the_section(content, told):
    with pytest.raises(ConfigurationError, match=told):
        csv(content)


# JSON Lines


def test_each_line_is_an_object():
    content = b'\xef\xbb\xbf{"loc": "/a", "lastmod": "2026-11-30", "x": [1]}\r\n\n'
    content += b'{"loc": "/b", "lastmod": null}\n{"loc": "/c"}'
    assert jsonl(content, "{loc}", "lastmod") == (["/a<lastmod>2026-11-30</lastmod>", "/b", "/c"], {})


def test_numbers_may_be_columns():
    assert jsonl(b'{"id": 17, "priority": 0}', "/p/{id}", "priority") == (["/p/17<priority>0.0</priority>"], {})


@pytest.mark.parametrize(
    ("bad", "rule", "reason"),
    [
        (b'{"loc": "/x"', "row-form", "Expecting ',' delimiter"),
        (b'["/x"]', "row-form", "of type list"),
        (b"null", "row-form", "of type NoneType"),
        (b"[" * 100_000, "row-form", "recursion"),
        (b'{"loc": ' + b"1" * 5_000 + b"}", "row-form", "Exceeds the limit"),
        (b'{"loc": "\xff"}', "row-encoding", "invalid start byte"),
        (b'{"url": "/x"}', "loc-column", "column 'loc': None"),
        (b'{"loc": {"x": 1}}', "loc-column", "column 'loc': {'x': 1}"),
        (b'"' + b"x" * tabular.MAX_LINE + b'"', "row-size", "more than"),
    ],
)
def test_a_bad_line_is_left_out_and_told_by_its_number(bad, rule, reason):
    locs, problems = jsonl(b'{"loc": "/a"}\n' + bad + b'\n{"loc": "/b"}\n')
    assert locs == ["/a", "/b"]
    assert list(problems) == [rule]
    assert problems[rule][0] == 1
    assert problems[rule][1].startswith("'pages, line 2' (")
    assert reason in problems[rule][1]


def test_all_bad_rows_are_counted():
    locs, problems = jsonl(b"x\n" * 1_000 + b'{"loc": "/a"}')
    assert locs == ["/a"]
    assert problems["row-form"][0] == 1_000


# Builds


class Counted:
    """A file, and how often it was opened."""

    def __init__(self, path: Path) -> None:
        self._file = file_at(path.name, path.parent)
        self.address = self._file.address
        self.opens = 0

    def version(self, now: float) -> str | None:
        return self._file.version(now)

    def opened(self) -> BinaryIO:
        self.opens += 1
        return self._file.opened()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pages.csv"


@pytest.fixture
def file(path) -> Counted:
    write(path, "/a", "/b")
    return Counted(path)


def write(path: Path, *locs: str, age: float = 100.0) -> None:
    path.write_text("loc\n" + "".join(f"{loc}\n" for loc in locs))
    os.utime(path, (NOW - age, NOW - age))


def source(file: Any, loc: str = "{loc}") -> TabularSource:
    return TabularSource("pages", file, Csv(), LocTemplate(loc), {}, UTC)


@pytest.fixture
def site(tmp_path, file) -> Site:
    return Site(DirectoryStore(tmp_path / "store"), source(file))


def test_a_file_that_nobody_touched_is_not_read_again(site, file, path):
    site.build()
    site.build()
    assert file.opens == 1
    write(path, "/a", "/c", age=50)
    site.build()
    assert file.opens == 2
    assert site.listed("pages") == ["/a", "/c"]


def test_a_file_is_read_each_time_while_it_is_too_new_to_tell(site, file, path):
    write(path, "/a", age=1)
    site.build()
    site.build()
    assert file.opens == 2


def test_a_touched_section_is_read_again(site, file):
    site.build()
    site.tokens["pages"] = "now"
    site.build()
    assert file.opens == 2


def test_another_template_reads_the_file_again(site, file):
    site.build()
    site.sources = [source(file, "/p/{loc}")]
    site.build()
    assert file.opens == 2
    assert site.listed("pages") == ["/p/%2Fa", "/p/%2Fb"]


@pytest.mark.parametrize("trouble", ["missing", "damaged", "another header"])
def test_a_file_in_trouble_leaves_its_last_good_entries(site, path, trouble):
    site.build()
    if trouble == "missing":
        path.unlink()
    elif trouble == "damaged":
        path.write_bytes(gzip.compress(b"loc\n/new\n")[:-9])
    else:
        path.write_text("url\n/new\n")
    snapshot = site.build()
    assert site.listed("pages") == ["/a", "/b"]
    assert "pages.csv" in str(snapshot.sections["pages"].error)
    write(path, "/c")
    site.build()
    assert site.listed("pages") == ["/c"]


def test_a_bad_row_breaks_a_strict_build(tmp_path, path, file):
    write(path, "/a", '"/b"x')
    strict = Site(DirectoryStore(tmp_path / "store"), source(file), strict=True)
    with pytest.raises(BuildFailed, match=r"section 'pages': a row of CSV .*: 'pages.csv, line 3'"):
        strict.build()


def test_a_row_more_leaves_the_other_documents_alone(site, path):
    write(path, *(f"/{number}" for number in range(200)))
    before = {shard.number: shard.document for shard in site.build().sections["pages"].listed}
    write(path, *(f"/{number}" for number in range(100)), "/new", *(f"/{n}" for n in range(100, 200)), age=50)
    after = {shard.number: shard.document for shard in site.build().sections["pages"].listed}
    same = {number for number in before if after.get(number) == before[number]}
    assert len(before) > 10
    assert len(same) >= len(before) - 2


def test_memory_does_not_grow_with_the_file(tmp_path):
    path = tmp_path / "pages.csv.gz"
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write("id,slug,title\n")
        file.writelines(f'{number},page-{number},"A title, {number}"\n' for number in range(100_000))
    big = TabularSource("pages", file_at(path.name, tmp_path), Csv(), LocTemplate("/p/{slug}"), {}, UTC)
    (part,) = big.plan(Past(NOW, 1, 1)).parts
    tracemalloc.start()
    try:
        count = sum(len(columns.locs) for columns in part.columns())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 100_000
    assert peak < 3_000_000


# In sitemap.toml


def sites(directory: Path, sections: str) -> Sites:
    text = f'base_url = "https://example.com"\n{sections}'
    return Sites(configured(ServiceFile(directory / "sitemap.toml", text), {}), {})


def test_the_file_of_a_site_has_both(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("slug;day;weight\na b;2026-11-30;1\n")
    (tmp_path / "b.jsonl").write_text('{"url": "https://example.com/b"}\n')
    found = sites(
        tmp_path,
        """
        [sections.a]
        type = "csv"
        path = "data/a.csv"
        delimiter = ";"
        loc = "/p/{slug}"
        lastmod = "day"
        priority = "weight"
        [sections.b]
        type = "jsonl"
        path = "b.jsonl"
        loc = "{url}"
        """,
    )
    assert urlset(found) == [
        "<loc>https://example.com/p/a%20b</loc><lastmod>2026-11-30</lastmod><priority>1.0</priority>",
        "<loc>https://example.com/b</loc>",
    ]


def urlset(found: Sites) -> list[str]:
    return re.findall("^<url>(.*)</url>$", Client(found).get("/sitemap.xml").text, re.MULTILINE)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ('path = "a.csv"', "line 2: sections.a.loc is missing"),
        ('path = "a.csv"\nloc = "/p"', "line 5: sections.a.loc must have a column, as in '/p/{slug}', not '/p'"),
        ('path = "a.csv"\nloc = "/{p}"\ndelimiter = ";;"', "line 6: sections.a.delimiter must be one character"),
        ('path = "a.csv"\nloc = "/{p}"\nlastmd = "x"', "line 6: sections.a.lastmd is unknown; did you mean 'lastmod'"),
    ],
)
def test_what_is_wrong_with_its_options_is_told_with_its_line(tmp_path, options, told):
    with pytest.raises(ConfigurationError, match=told):
        sites(tmp_path, f'[sections.a]\ntype = "csv"\n{options}\n')
