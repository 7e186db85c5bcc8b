"""Redis and Valkey as a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..errors import ConfigurationError, StoreError

if TYPE_CHECKING:
    from redis import Redis

T = TypeVar("T")

KEY_PREFIX = "sitemapx/"
NAMES = f"{KEY_PREFIX}names"
"""The set of our keys, since looking for them would mean to scan a whole database that is others' too."""
TIMEOUT = 5.0
"""Seconds to wait for a connection and for an answer, unless the address says otherwise."""


class RedisStore:
    """Our keys among others' in the database of *client*, which must not decode responses."""

    shared = True
    exclusive = True

    def __init__(self, client: Redis) -> None:
        if client.get_connection_kwargs().get("decode_responses"):
            raise ConfigurationError("decodes responses; give a client of its own with decode_responses=False")
        self._client = client

    @classmethod
    def at(cls, address: str) -> RedisStore:
        """The store at ``redis://``, ``rediss://`` or ``unix://``, with the query parameters of `Redis.from_url`.

        The server is asked at the first use only.
        """
        try:
            from redis import Redis, RedisError
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        except ImportError:
            raise ConfigurationError("needs redis-py: pip install 'flask-sitemapx[redis]'") from None
        manners = {"socket_timeout": TIMEOUT, "socket_connect_timeout": TIMEOUT, "retry": Retry(NoBackoff(), 0)}
        try:
            client = Redis.from_url(address, **manners)
            pool = client.connection_pool
            pool.connection_class(**pool.connection_kwargs)  # else wrong parameters would show at the first use only
        except ValueError:  # its text may hold parts of a password with characters that end it
            raise ConfigurationError("is no address that redis-py can read; percent-encode the password") from None
        except (TypeError, RedisError) as error:
            raise ConfigurationError(f"has parameters that redis-py does not take: {error}") from None
        return cls(client)

    def get(self, key: str) -> bytes | None:
        value: Any = self._asked(lambda: self._client.get(KEY_PREFIX + key))
        return cast("bytes | None", value)

    def put(self, key: str, value: bytes) -> None:
        if not self._asked(lambda: self._set(key, value, nx=False)):
            raise StoreError(f"Redis did not keep the {len(value):,} bytes of {key!r}")

    def add(self, key: str, value: bytes) -> bool:
        with _explained():  # not tried twice: a first try that succeeded unheard would make the second one fail
            return self._set(key, value, nx=True)

    def delete(self, key: str) -> None:
        self._asked(lambda: self._transaction().delete(KEY_PREFIX + key).srem(NAMES, key).execute())

    def names(self, prefix: str) -> list[str]:
        pattern = _literally(prefix) + "*"
        # A set that grows or shrinks while it is scanned may give a member twice.
        members = self._asked(lambda: set(self._client.sscan_iter(NAMES, pattern, count=1000)))
        return [str(member, "ascii", "replace") for member in members]

    def version(self) -> None:
        return None

    def _set(self, key: str, value: bytes, *, nx: bool) -> bool:
        was_set, _ = self._transaction().set(KEY_PREFIX + key, value, nx=nx).sadd(NAMES, key).execute()
        return bool(was_set)

    def _transaction(self) -> Any:
        return self._client.pipeline(transaction=True)

    def _asked(self, command: Callable[[], T]) -> T:
        """What *command* gives, tried again on a new connection if the server closed an idle one."""
        import redis

        with _explained():
            try:
                return command()
            except redis.ConnectionError:
                return command()


def _literally(prefix: str) -> str:
    """*prefix* as a pattern of Redis that matches only itself."""
    return "".join(f"\\{character}" if character in "*?[]^\\" else character for character in prefix)


@contextmanager
def _explained() -> Iterator[None]:
    from redis import RedisError

    try:
        yield
    except (RedisError, OSError) as error:
        raise StoreError(f"Redis: {' '.join(str(error).split())}") from error
