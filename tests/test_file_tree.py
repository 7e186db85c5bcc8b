"""The files of a directory: which are listed, and what tells that they stand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flask_sitemapx.sources.file_tree import files_in, tree_version

NOW = 1_800_000_000.0


def write(directory: Path, *paths: str) -> None:
    for path in paths:
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("1")
        os.utime(file, (NOW - 100, NOW - 100))


def paths(directory: Path) -> list[str]:
    return [file.path for file in files_in(directory)]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    write(tmp_path / "site", "index.html", "a/b.html", "a/c/d.html", "e.html")
    return tmp_path / "site"


def test_all_files_come_in_the_same_order(site):
    assert paths(site) == ["a/b.html", "a/c/d.html", "e.html", "index.html"]


def test_hidden_ones_and_what_is_no_file_are_left_out(site):
    write(site, ".hidden.html", ".git/a.html", "a/.well-known/b.html")
    os.mkfifo(site / "pipe.html")
    (site / "empty").mkdir()
    (site / "broken.html").symlink_to("nothing")
    assert paths(site) == ["a/b.html", "a/c/d.html", "e.html", "index.html"]


def test_links_are_followed_inside_the_directory_only(site, tmp_path):
    write(tmp_path / "private", "secret.html")
    write(tmp_path / "site-2", "other.html")
    (site / "out").symlink_to(tmp_path / "private")
    (site / "out2").symlink_to("../site-2")
    (site / "out.html").symlink_to("/etc/passwd")
    (site / "e2.html").symlink_to("e.html")
    (site / "latest").symlink_to("a")
    found = ["a/b.html", "a/c/d.html", "e.html", "e2.html", "index.html", "latest/b.html", "latest/c/d.html"]
    assert paths(site) == found


def test_links_in_a_circle_end(site):
    (site / "a" / "up").symlink_to("..")
    (site / "a" / "self").symlink_to(".")
    (site / "x").mkdir()
    (site / "x" / "a").symlink_to("../a")
    (site / "a" / "x").symlink_to("../x")
    assert paths(site) == ["a/b.html", "a/c/d.html", "e.html", "index.html", "x/a/b.html", "x/a/c/d.html"]


def test_the_directory_itself_may_be_a_link(site, tmp_path):
    (tmp_path / "current").symlink_to("site")
    assert paths(tmp_path / "current") == paths(site)


def test_a_directory_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        paths(tmp_path / "nothing")


@pytest.mark.parametrize("change", ["content", "time", "name", "new", "gone"])
def test_the_version_stands_until_a_file_changes(site, change):
    first = tree_version(files_in(site), NOW)
    assert first is not None
    assert tree_version(files_in(site), NOW) == first
    file = site / "e.html"
    if change == "content":
        file.write_text("12")
        os.utime(file, (NOW - 100, NOW - 100))
    elif change == "time":
        os.utime(file, (NOW - 90, NOW - 90))
    elif change == "name":
        file.rename(site / "f.html")
    elif change == "new":
        write(site, os.fsdecode(b"\xff.html"))
    else:
        file.unlink()
    assert tree_version(files_in(site), NOW) not in (first, None)


def test_a_file_that_changed_just_now_leaves_no_version(site):
    os.utime(site / "e.html", (NOW - 1, NOW - 1))
    assert tree_version(files_in(site), NOW) is None
