"""The store that a setting names."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import ConfigurationError
from .store import Store

KINDS = "'memory:', 'file:/a/directory', 'redis://host', 'postgresql://host/database' or another URL of SQLAlchemy"


def open_store(setting: Any, memory_limit: int) -> Store:
    """The store for ``SITEMAP_STORE``: an address, an instance of a known class, or an object that is a store already.

    Raises `ConfigurationError` for what is of no known kind or needs a library that is not installed. A server is not
    asked before the first use.
    """
    if isinstance(setting, str):
        return _addressed(setting, memory_limit)
    if all(hasattr(setting, name) for name in ("get", "put", "add", "delete", "names", "version")):
        store: Store = setting
        return store
    if _is_a(setting, "redis", "Redis"):
        from .redis_store import RedisStore

        with _naming(setting):
            return RedisStore(setting)
    if _is_a(setting, "sqlalchemy", "Engine"):
        from .sql_store import SqlStore

        with _naming(setting):
            return SqlStore(setting)
    from cachelib import BaseCache

    if isinstance(setting, BaseCache):
        from .cachelib_store import CachelibStore

        return CachelibStore(setting)
    raise ConfigurationError(
        "SITEMAP_STORE must be an address, a redis.Redis, an Engine of SQLAlchemy, a cachelib cache or a store, "
        f"not {described(setting)}"
    )


def described(setting: Any) -> str:
    """The setting as it may be printed: an address without its passwords, or the name of a class."""
    if not isinstance(setting, str):
        return type(setting).__name__
    # Up to the last "@", since a password may hold one that should have been percent-encoded.
    shown = re.sub(r"^([\w+.-]+:/*[^:]*):.*@", r"\1:***@", setting, flags=re.DOTALL)
    return re.sub(r"([?&][^=&]*(?:pass|pwd|secret|token)[^=&]*=)[^&]*", r"\1***", shown, flags=re.IGNORECASE)


def _addressed(address: str, memory_limit: int) -> Store:
    scheme, _, rest = address.partition(":")
    if scheme == "memory" and not rest:
        from .memory import MemoryStore

        return MemoryStore(memory_limit)
    if scheme == "file" and rest:
        from .directory import DirectoryStore

        return DirectoryStore(rest.removeprefix("//"))
    if not rest.startswith("//"):
        raise ConfigurationError(f"SITEMAP_STORE must be {KINDS}, not {address!r}")
    with _naming(address):
        if scheme in ("redis", "rediss", "unix"):
            from .redis_store import RedisStore

            return RedisStore.at(address)
        from .sql_store import SqlStore

        return SqlStore.at(address)


def _is_a(setting: Any, module: str, name: str) -> bool:
    """Whether *setting* is an instance of an optional library's class: then the library has been imported."""
    cls = getattr(sys.modules.get(module), name, None)
    return cls is not None and isinstance(setting, cls)


@contextmanager
def _naming(setting: Any) -> Iterator[None]:
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"SITEMAP_STORE: {described(setting)!r} {error}") from None
