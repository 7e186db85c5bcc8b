"""The files of a directory, in order, and what tells that none of them changed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from .files import SETTLED


class TreeFile(NamedTuple):
    """A file by its *path* from the directory on, with slashes."""

    path: str
    size: int
    mtime_ns: int


def files_in(directory: Path) -> Iterator[TreeFile]:
    """All files in *directory* and below, without hidden ones. Raises OSError where it cannot be read.

    Symbolic links are followed only inside *directory*, not to what they are in themselves, and not one below another.
    """
    root = os.path.realpath(directory)
    return _below(root, root, "", is_linked=False)


def _below(root: str, directory: str, path: str, *, is_linked: bool) -> Iterator[TreeFile]:
    with os.scandir(directory) as entries:
        found = sorted((entry for entry in entries if not entry.name.startswith(".")), key=attrgetter("name"))
    for entry in found:
        is_link = entry.is_symlink()
        if is_link and (is_linked or not _leads_inside(root, entry.path)):
            continue
        own = path + entry.name
        if entry.is_dir():
            yield from _below(root, entry.path, f"{own}/", is_linked=is_linked or is_link)
        elif entry.is_file():
            stat = entry.stat()
            yield TreeFile(own, stat.st_size, stat.st_mtime_ns)


def _leads_inside(root: str, link: str) -> bool:
    target = os.path.realpath(link)
    return target.startswith(f"{root}/") and not link.startswith(f"{target}/")


def tree_version(files: Iterable[TreeFile], now: float) -> str | None:
    """A text that stands while *files* do, or None if one is so new that it may change unseen."""
    found = sha256()
    latest = 0
    for file in files:
        found.update(f"{file.path}\0{file.size} {file.mtime_ns}\0".encode("utf-8", "surrogateescape"))
        latest = max(latest, file.mtime_ns)
    return found.hexdigest() if latest / 1e9 < now - SETTLED else None
