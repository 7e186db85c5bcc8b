"""What a store must do: keep bytes under keys, and create a key exclusively."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Protocol


class Store(Protocol):
    """Bytes under short ASCII keys. A new backend is one class with these members.

    ``get`` gives None for what is absent; every method raises `StoreError` when the backend fails or did not keep what
    it was given. No value ever expires, and none is unpickled.
    """

    shared: bool
    """Whether other processes see what this one puts."""

    exclusive: bool
    """Whether `add` is exclusive among all that share the store. Without it only one process may build."""

    def get(self, key: str) -> bytes | None: ...

    def put(self, key: str, value: bytes) -> None: ...

    def add(self, key: str, value: bytes) -> bool:
        """Create *key*; False, and nothing changed, if it exists. Never half a value under the key."""
        ...

    def delete(self, key: str) -> None:
        """Remove *key* if it is there."""
        ...

    def names(self, prefix: str) -> Iterable[str]:
        """The keys that begin with *prefix*, a path that ends in a slash."""
        ...

    def version(self) -> Hashable | None:
        """A value that stays equal only while no key under ``state/`` changed, or None if that is costly to tell.

        With None the state is looked at again every `POLL_SECONDS`.
        """
        ...


POLL_SECONDS = 1.0
STATE = "state/"  # manifests, leases, touch tokens: small, looked at often
BLOBS = "blobs/"  # pieces of documents and pages of manifests, each under the hash of its bytes
