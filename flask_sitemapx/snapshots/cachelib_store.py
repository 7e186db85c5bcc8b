"""cachelib's caches as a store: bytes in, bytes out, nothing pickled, nothing that expires."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

from cachelib import BaseCache, FileSystemCache, RedisCache

from ..errors import ConfigurationError, StoreError
from .store import BLOBS

KEY_PREFIX = "sitemapx/"
_FOREVER = 0  # cachelib: a timeout of 0 never expires


class CachelibStore:
    """Wraps a copy of *cache*; the cache itself keeps its serializer and its prefix.

    Takes Redis, Valkey and FileSystem caches; raises `ConfigurationError` for those that drop values when they hold
    many, that unpickle, or that are not known not to.
    """

    shared = True

    def __init__(self, cache: BaseCache) -> None:
        _refuse_unfit(cache)
        self._name = type(cache).__name__
        self._cache: Any = copy.copy(cache)
        vars(self._cache).update(_own_manners(cache))
        self.exclusive = not isinstance(cache, FileSystemCache)
        if not self.exclusive:
            warnings.warn(
                f"SITEMAP_STORE: add() of {self._name} is not exclusive, so let one process build; "
                "'file:/a/directory' has no such limit",
                stacklevel=2,
            )

    def get(self, key: str) -> bytes | None:
        value = self._asked(self._cache.get, KEY_PREFIX + key)
        if value is not None and not isinstance(value, bytes):
            raise StoreError(
                f"{self._name} gave {type(value).__name__} for {key!r}; its client must not decode responses"
            )
        return value

    def put(self, key: str, value: bytes) -> None:
        if key.startswith(BLOBS):
            self._list(key, set.add)
        self._put(key, value)

    def add(self, key: str, value: bytes) -> bool:
        return bool(self._asked(self._cache.add, KEY_PREFIX + key, value, timeout=_FOREVER))

    def delete(self, key: str) -> None:
        self._asked(self._cache.delete, KEY_PREFIX + key)
        if key.startswith(BLOBS):
            self._list(key, set.discard)

    def names(self, prefix: str) -> Iterator[str]:
        """The blobs below *prefix*: caches cannot list their keys, so lists are kept, one for each folder of blobs."""
        for number in range(256):
            folder = f"{prefix}{number:02x}"
            yield from (f"{folder}/{name}" for name in self._listed(folder))

    def version(self) -> None:
        return None

    def _put(self, key: str, value: bytes) -> None:
        if not self._asked(self._cache.set, KEY_PREFIX + key, value, timeout=_FOREVER):
            raise StoreError(f"{self._name} did not keep the {len(value):,} bytes of {key!r}")

    def _list(self, key: str, change: Callable[[set[str], str], None]) -> None:
        folder, _, name = key.rpartition("/")
        listed = set(self._listed(folder))
        before = len(listed)
        change(listed, name)
        if len(listed) != before:
            self._put(f"{folder}/list", json.dumps(sorted(listed)).encode())

    def _listed(self, folder: str) -> Iterable[str]:
        names: list[str] = json.loads(self.get(f"{folder}/list") or b"[]")
        return names

    def _asked(self, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        try:
            return method(*args, **options)
        except Exception as error:  # each backend raises errors of its own client
            raise StoreError(f"{self._name}: {error}") from error


class _Bytes:
    """A serializer that leaves bytes as they are."""

    def dumps(self, value: bytes) -> bytes:
        return value

    def loads(self, value: bytes | None) -> bytes | None:
        return value

    def dump(self, value: bytes, file: IO[bytes]) -> None:
        file.write(value)

    def load(self, file: IO[bytes]) -> bytes:
        return file.read()


def _own_manners(cache: BaseCache) -> dict[str, Any]:
    """The attributes in which the copy differs from the application's *cache*."""
    manners: dict[str, Any] = {"serializer": _Bytes()}
    if callable(getattr(cache, "key_prefix", None)):
        manners["key_prefix"] = ""  # a function may want a request, and a build has none
    if writer := getattr(cache, "_write_client", None):
        manners["_read_client"] = writer  # a replica lags behind, and would not show what was just put
    return manners


def _refuse_unfit(cache: BaseCache) -> None:
    name = type(cache).__name__
    if isinstance(cache, FileSystemCache):
        if cache._threshold != 0:
            raise ConfigurationError(
                f"SITEMAP_STORE: {name} drops values beyond its threshold of {cache._threshold}; "
                "give it threshold=0, or set 'file:/a/directory'"
            )
    elif not isinstance(cache, (RedisCache, *_valkey())):
        raise ConfigurationError(
            f"SITEMAP_STORE: {name} may drop or unpickle what it holds; use RedisCache, ValkeyCache, "
            "FileSystemCache(threshold=0), 'file:/a/directory' or 'memory:'"
        )


def _valkey() -> tuple[type, ...]:
    import cachelib

    valkey = getattr(cachelib, "ValkeyCache", None)
    return (valkey,) if valkey else ()
