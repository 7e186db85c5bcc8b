"""The store that a setting names."""

from __future__ import annotations

from typing import Any

from ..errors import ConfigurationError
from .store import Store


def open_store(setting: Any, memory_limit: int) -> Store:
    """The store for ``SITEMAP_STORE``: an address, a cachelib cache, or an object that is a store already.

    Raises `ConfigurationError` for an address of no known kind.
    """
    if isinstance(setting, str):
        return _addressed(setting, memory_limit)
    if all(hasattr(setting, name) for name in ("get", "put", "add", "delete", "names", "version")):
        store: Store = setting
        return store
    from cachelib import BaseCache

    if isinstance(setting, BaseCache):
        from .cachelib_store import CachelibStore

        return CachelibStore(setting)
    raise ConfigurationError(f"SITEMAP_STORE must be an address, a cachelib cache or a store, not {setting!r}")


def _addressed(address: str, memory_limit: int) -> Store:
    scheme, _, rest = address.partition(":")
    if scheme == "memory" and not rest:
        from .memory import MemoryStore

        return MemoryStore(memory_limit)
    if scheme == "file" and rest:
        from .directory import DirectoryStore

        return DirectoryStore(rest.removeprefix("//"))
    raise ConfigurationError(f"SITEMAP_STORE must be 'memory:' or 'file:/a/directory', not {address!r}")
