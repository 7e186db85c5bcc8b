"""Dates of git: what commits and clones of several kinds say of their files."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flask_sitemapx.errors import ConfigurationError, Unreadable
from flask_sitemapx.sources import git_dates as module
from flask_sitemapx.sources.git_dates import git_dates, git_version

JANUARY, FEBRUARY, MARCH = (datetime(2026, month, 1, tzinfo=UTC) for month in (1, 2, 3))


class Repository:
    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str, date: datetime = JANUARY) -> str:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
        environ = {**os.environ, "GIT_COMMITTER_DATE": date.isoformat(), "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z"}
        command = ["git", *identity, *arguments]
        return subprocess.run(command, cwd=self.path, env=environ, check=True, capture_output=True, text=True).stdout

    def commit(self, date: datetime, **files: str) -> None:
        """Commit *files* by name, with a slash for two underscores."""
        for name, text in files.items():
            path = self.path / name.replace("__", "/")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=m", "--allow-empty", date=date)


@pytest.fixture
def repository(tmp_path) -> Repository:
    return Repository(tmp_path / "repository")


def test_a_file_has_the_date_of_its_last_commit(repository):
    repository.commit(JANUARY, a="1", b="1", site__c="1")
    repository.commit(FEBRUARY, b="2")
    repository.commit(MARCH)
    (repository.path / "new").touch()
    assert git_dates(repository.path) == ({"a": JANUARY, "b": FEBRUARY, "site/c": JANUARY}, False)


def test_paths_begin_in_the_directory(repository):
    repository.commit(JANUARY, a="1", site__b="1", site2__c="1")
    assert git_dates(repository.path / "site").dates == {"b": JANUARY}


def test_names_may_be_anything(repository):
    names = ["ü b", "a\nb", '"q"', "-x", "\x01" + "0" * 40, os.fsdecode(b"\xff")]
    for name in names:
        (repository.path / name).touch()
    repository.commit(JANUARY)
    assert set(git_dates(repository.path).dates) == set(names)


def test_files_that_are_gone_have_none(repository):
    repository.commit(JANUARY, a="1", b="1")
    (repository.path / "a").rename(repository.path / "c")
    repository.commit(FEBRUARY)
    assert git_dates(repository.path).dates == {"c": FEBRUARY, "b": JANUARY}


def test_branches_that_were_merged_count(repository):
    repository.commit(JANUARY, a="1", b="1")
    repository.git("checkout", "--quiet", "-b", "other")
    repository.commit(FEBRUARY, a="2")
    repository.git("checkout", "--quiet", "main")
    repository.git("merge", "--quiet", "--no-ff", "--message=m", "other", date=MARCH)
    assert git_dates(repository.path).dates == {"a": FEBRUARY, "b": JANUARY}


def clone(repository: Repository, depth: int) -> Path:
    path = repository.path.parent / f"clone-{depth}"
    repository.git("clone", "--quiet", f"--depth={depth}", f"file://{repository.path}", str(path))
    return path


def test_a_shallow_clone_does_not_know_what_is_older_than_itself(repository):
    repository.commit(JANUARY, a="1", b="1")
    repository.commit(FEBRUARY, b="2", c="2")
    repository.commit(MARCH, c="3")
    assert git_dates(clone(repository, 1)) == ({}, True)
    assert git_dates(clone(repository, 2)) == ({"c": MARCH}, True)
    assert git_dates(clone(repository, 9)) == ({"a": JANUARY, "b": FEBRUARY, "c": MARCH}, False)


def test_the_version_stands_until_more_is_known(repository):
    repository.commit(JANUARY, a="1")
    first = git_version(repository.path)
    (repository.path / "a").write_text("2")
    assert git_version(repository.path) == first
    repository.commit(FEBRUARY)
    assert git_version(repository.path) != first
    shallow = clone(repository, 1)
    before = git_version(shallow)
    subprocess.run(["git", "fetch", "--quiet", "--unshallow"], cwd=shallow, check=True)
    assert git_version(shallow) != before


def test_variables_of_a_hook_do_not_lead_elsewhere(repository, tmp_path, monkeypatch):
    repository.commit(JANUARY, a="1")
    other = Repository(tmp_path / "other")
    other.commit(FEBRUARY, b="1")
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    assert git_dates(repository.path).dates == {"a": JANUARY}


def test_where_git_has_nothing_to_say_the_error_is_its_own(repository, tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "plain").mkdir()
    with pytest.raises(ConfigurationError, match="plain: fatal: not a git repository"):
        git_dates(tmp_path / "plain")
    with pytest.raises(ConfigurationError, match=r"git has no dates of .*repository: fatal: "):
        git_version(repository.path)  # without a commit
    with pytest.raises(ConfigurationError, match="nothing is not there"):
        git_dates(tmp_path / "nothing")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="git is not installed"):
        git_dates(tmp_path)


def test_git_that_takes_too_long_is_stopped(repository, tmp_path, monkeypatch):
    repository.commit(JANUARY, a="1")
    monkeypatch.setattr(module, "MAX_SECONDS", 0.0)
    slow = tmp_path / "git"
    slow.write_text(f'#!/bin/sh\n[ "$2" = log ] && exec sleep 60\nexec {shutil.which("git")} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(Unreadable, match=r"git log failed in .*repository"):
        git_dates(repository.path)
