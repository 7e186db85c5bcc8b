"""When files were last committed, asked of git once for all of them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from threading import Timer
from typing import IO, NamedTuple

from ..errors import ConfigurationError, Unreadable

MAX_SECONDS = 300.0
"""How long git may take to go through the history."""
_BLOCK = 64 * 1024


class GitDates(NamedTuple):
    """When each file of a directory was last committed, by its path in there."""

    dates: dict[str, datetime]
    """Of files that are there. Of a shallow clone only what was committed after it begins: before, nobody knows."""
    is_shallow: bool


def git_version(directory: Path) -> str:
    """A text that stands while the dates of all files in *directory* do. Raises `ConfigurationError` without git."""
    commit, shallow = _repository(directory)
    return f"{commit} {sha256(' '.join(sorted(shallow)).encode()).hexdigest()}"


def git_dates(directory: Path) -> GitDates:
    """The dates of all files in *directory*. Raises `ConfigurationError` where there is no git or no repository."""
    _, shallow = _repository(directory)
    dates: dict[str, datetime] = {}
    for commit, path in _log(directory):
        # Where the history is cut off, git takes every file for one that was added there.
        if path not in dates and commit.hash not in shallow and os.path.lexists(directory / path):
            dates[path] = commit.date
    return GitDates(dates, bool(shallow))


class _Commit(NamedTuple):
    hash: str
    date: datetime


def _repository(directory: Path) -> tuple[str, frozenset[str]]:
    """The commit that is checked out, and those at which a shallow clone begins."""
    with _git(directory, "rev-parse", "HEAD", "--git-path", "shallow") as process:
        output, errors = process.communicate()
    if process.returncode:
        told = os.fsdecode(errors).strip().partition("\n")[0]
        raise ConfigurationError(f"git has no dates of {directory}: {told}")
    commit, shallow = os.fsdecode(output).splitlines()
    with suppress(FileNotFoundError):
        return commit, frozenset((directory / shallow).read_text("ascii").split())
    return commit, frozenset()


_HEADER = re.compile(rb"\x01([0-9a-f]{40,64}) ([0-9]{1,12})")


def _log(directory: Path) -> Iterator[tuple[_Commit, str]]:
    """Each file of each commit, the last commit first."""
    arguments = ("log", "-z", "--format=%x01%H %ct", "--name-only", "--no-renames", "--no-show-signature", "--relative")
    with _git(directory, *arguments, "--", ".") as process:
        timer = Timer(MAX_SECONDS, process.kill)
        timer.start()
        try:
            assert process.stdout is not None
            yield from _changes(process.stdout)
            if process.wait():
                raise Unreadable(f"git log failed in {directory}, or took longer than {MAX_SECONDS:.0f} seconds")
        finally:
            timer.cancel()
            process.kill()


def _changes(output: IO[bytes]) -> Iterator[tuple[_Commit, str]]:
    commit = None
    for token in _tokens(output):
        if header := _HEADER.fullmatch(token):
            commit = _Commit(header[1].decode(), datetime.fromtimestamp(int(header[2]), UTC))
        elif commit is not None and (name := token.removeprefix(b"\n")):  # the first one is on a line of its own
            yield commit, os.fsdecode(name)


def _tokens(output: IO[bytes]) -> Iterator[bytes]:
    """What stands between the NULs of *output*."""
    rest = b""
    while block := output.read(_BLOCK):
        *tokens, rest = (rest + block).split(b"\0")
        yield from tokens
    yield rest


# What would lead to another repository, as a hook of git has it that deploys.
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX")


def _git(directory: Path, *arguments: str) -> subprocess.Popen[bytes]:
    environ = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    environ |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        return subprocess.Popen(
            ["git", "--no-pager", *arguments],
            cwd=directory,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if arguments[0] == "rev-parse" else subprocess.DEVNULL,
        )
    except FileNotFoundError as error:
        missing = "git is not installed" if directory.is_dir() else f"{directory} is not there"
        raise ConfigurationError(f"dates of git: {missing}") from error
