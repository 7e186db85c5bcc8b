"""Dates of pages: of their files, of the front matter of what they were made of, of commits."""

from __future__ import annotations

import logging
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flask_sitemapx.sources.file_tree import TreeFile
from flask_sitemapx.sources.page_dates import CommitDates, FileDates, FrontMatterDates, NoDates, source_of

NOW = 1_800_000_000.0


def page(path: str) -> TreeFile:
    return TreeFile(path, 1, int((NOW - 100.5) * 1e9))


def write(directory: Path, path: str, text: str = "---\ndate: 2026-11-30\n---\n") -> None:
    file = directory / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    os.utime(file, (NOW - 100, NOW - 100))


@pytest.mark.parametrize(
    ("built", "source"),
    [
        ("index.html", "index.md"),
        ("index.html", "_index.md"),
        ("about.html", "about.md"),
        ("about/index.html", "about.md"),
        ("about/index.html", "about/index.markdown"),
        ("blog/index.html", "blog/_index.md"),
        ("a/b.htm", "a/b.html"),
        ("2026/11/30/hello-you.html", "_posts/2026-11-30-hello-you.md"),
        ("2026/11/30/hello/index.html", "_posts/2026-11-30-hello.md"),
        ("news/2026/11/30/hello.html", "news/_posts/2026-11-30-hello.md"),
        ("news/2026/11/30/hello.html", "_posts/2026-11-30-hello.md"),
    ],
)
def test_the_source_of_a_page_is_found_by_its_name(tmp_path, built, source):
    write(tmp_path, "other.md")
    write(tmp_path, source)
    assert source_of(built, tmp_path) == source
    assert source_of("nothing.html", tmp_path) is None


def test_no_date_and_the_time_of_a_file_need_nothing_else():
    assert NoDates().opened()(page("a.html")) is None
    assert FileDates().opened()(page("a.html")) == datetime(2027, 1, 15, 7, 58, 19, tzinfo=UTC)


def test_front_matter_is_that_of_the_source(tmp_path):
    write(tmp_path, "a.md")
    write(tmp_path, "b.md", "# B\n")
    date_of = FrontMatterDates(tmp_path).opened()
    assert [date_of(page(path)) for path in ("a/index.html", "b/index.html", "c.html")] == ["2026-11-30", None, None]


def test_dates_of_front_matter_stand_while_the_sources_do(tmp_path):
    write(tmp_path, "a.md")
    dates = FrontMatterDates(tmp_path)
    first = dates.version(NOW)
    assert first is not None
    write(tmp_path, "picture.png")
    assert dates.version(NOW) == first
    write(tmp_path, "a.md", "# other\n")
    assert dates.version(NOW) != first


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    write(tmp_path, "content/a.md")
    write(tmp_path, "public/a/index.html")
    write(tmp_path, "new/b.md")
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    environ = {**os.environ, "GIT_COMMITTER_DATE": "2026-11-30T08:00:00Z"}
    commands = (("init", "--quiet"), ("add", "content", "public"), (*identity, "commit", "--quiet", "--message=m"))
    for command in commands:
        subprocess.run(["git", *command], cwd=tmp_path, env=environ, check=True)
    return tmp_path


def test_commits_are_those_of_the_source_or_of_the_page_itself(repository):
    date = datetime(2026, 11, 30, 8, tzinfo=UTC)
    for dates in (CommitDates(repository / "public"), CommitDates(repository / "built", repository / "content")):
        date_of = dates.opened()
        assert date_of(page("a/index.html")) == date
        assert date_of(page("b.html")) is None
        assert dates.version(NOW) == dates.version(NOW)


def test_it_is_told_why_there_are_no_dates(repository, caplog):
    assert CommitDates(repository / "new").opened()(page("b.md")) is None
    assert [record.getMessage() for record in caplog.records] == [
        f"sitemap: no file in {repository / 'new'} was committed to git"
    ]
    caplog.clear()
    clone = repository.parent / f"{repository.name}-clone"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", f"file://{repository}", clone], check=True)
    assert CommitDates(clone / "content").opened()(page("a.md")) is None
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "is a shallow clone" in record.getMessage()
