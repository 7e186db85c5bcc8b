"""A store for trying out what a build would do: nothing that is written gets to the real one."""

from __future__ import annotations

from collections.abc import Iterable

from .store import Store


class Rehearsal:
    """What *real* holds, and over it what was put since into *scratch*."""

    exclusive = True

    def __init__(self, real: Store, scratch: Store) -> None:
        self.shared = real.shared
        self._real = real
        self._scratch = scratch

    def get(self, key: str) -> bytes | None:
        found = self._scratch.get(key)
        return self._real.get(key) if found is None else found

    def put(self, key: str, value: bytes) -> None:
        self._scratch.put(key, value)

    def add(self, key: str, value: bytes) -> bool:
        return self.get(key) is None and self._scratch.add(key, value)

    def delete(self, key: str) -> None:
        """What is not to be kept here may be needed there."""

    def names(self, prefix: str) -> Iterable[str]:
        return self._real.names(prefix)

    def version(self) -> None:
        return None
