"""The store `file:`, a directory that all processes of a machine share."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from ..errors import StoreError
from .store import STATE

# The clock of a file system may lag: two changes within this time may leave the same mtime.
MTIME_SECONDS = 2.0
# A temporary file this old belongs to a process that died while writing it.
ABANDONED_SECONDS = 3600.0


class DirectoryStore:
    """Files below *directory*, each written whole under a temporary name and then moved or linked into place."""

    shared = True
    exclusive = True

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory).absolute()
        self._state = os.path.join(self.directory, STATE)
        self._temporary = self.directory / "tmp"
        with self._explained("use"):
            os.makedirs(self._state, exist_ok=True)
            self._temporary.mkdir(exist_ok=True)
            self._remove_abandoned()

    def get(self, key: str) -> bytes | None:
        with self._explained("read"):
            try:
                with open(f"{self.directory}/{key}", "rb") as file:
                    return file.read()
            except FileNotFoundError:
                return None

    def put(self, key: str, value: bytes) -> None:
        with self._explained("write to"):
            self._place(key, value, os.replace)

    def add(self, key: str, value: bytes) -> bool:
        with self._explained("write to"):
            try:
                # link() is the one call that gives a whole file a name only if the name is free.
                self._place(key, value, os.link)
            except FileExistsError:
                return False
        return True

    def delete(self, key: str) -> None:
        with self._explained("write to"):
            (self.directory / key).unlink(missing_ok=True)

    def names(self, prefix: str) -> Iterable[str]:
        for folder, _, files in os.walk(self.directory / prefix):
            inside = Path(folder).relative_to(self.directory).as_posix()
            yield from (f"{inside}/{name}" for name in files)

    def version(self) -> Hashable | None:
        try:  # asked by every request: a context manager would cost more than the question
            changed = os.stat(self._state).st_mtime_ns
        except FileNotFoundError:  # somebody emptied the directory
            return None
        except OSError as error:
            raise self._error("read", error) from error
        now = time.time_ns()
        # Too recent to be told from a change to come: equal to no later answer.
        return changed if now - changed > MTIME_SECONDS * 1e9 else (changed, now)

    def _place(self, key: str, value: bytes, move: Callable[[Path, Path], None]) -> None:
        target = self.directory / key
        temporary = self._temporary / secrets.token_hex(16)
        try:
            with self._created(temporary) as file:
                file.write(value)
            try:
                move(temporary, target)
            except FileNotFoundError:
                target.parent.mkdir(parents=True, exist_ok=True)
                move(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)

    def _created(self, path: Path) -> IO[bytes]:
        """A new file, with the permissions that the umask gives: another user's process may have to read it."""
        try:
            return open(path, "xb")
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            return open(path, "xb")

    def _remove_abandoned(self) -> None:
        for path in self._temporary.iterdir():
            with suppress(FileNotFoundError):  # another process may be first
                if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                    path.unlink()

    @contextmanager
    def _explained(self, verb: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._error(verb, error) from error

    def _error(self, verb: str, error: OSError) -> StoreError:
        return StoreError(f"cannot {verb} the directory {self.directory}: {error}")
