"""The store `memory:`, for one process and small sites."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable

from ..errors import StoreError
from .forking import after_fork


class MemoryStore:
    """A dictionary of at most *limit* bytes, shared by the threads of this process only."""

    shared = False
    exclusive = True

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: dict[str, bytes] = {}
        self._size = 0
        self._changes = 0
        self._reset()
        after_fork(self._reset)

    def get(self, key: str) -> bytes | None:
        return self._values.get(key)

    def put(self, key: str, value: bytes) -> None:
        with self._lock:
            self._set(key, value)

    def add(self, key: str, value: bytes) -> bool:
        with self._lock:
            if key in self._values:
                return False
            self._set(key, value)
            return True

    def delete(self, key: str) -> None:
        with self._lock:
            self._size -= len(self._values.pop(key, b""))
            self._changes += 1

    def names(self, prefix: str) -> Iterable[str]:
        with self._lock:
            return [key for key in self._values if key.startswith(prefix)]

    def version(self) -> Hashable:
        return self._changes

    def _set(self, key: str, value: bytes) -> None:
        size = self._size + len(value) - len(self._values.get(key, b""))
        if size > self._limit:
            raise StoreError(
                f"the store memory: would hold {size:,} bytes, more than SITEMAP_MEMORY_LIMIT = {self._limit:,}; "
                "set SITEMAP_STORE to 'file:/a/directory'"
            )
        self._values[key] = value
        self._size = size
        self._changes += 1

    def _reset(self) -> None:
        self._lock = threading.Lock()
