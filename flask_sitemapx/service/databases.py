"""The databases that a file names, each connected to when a section first asks for it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import ConfigurationError
from ..snapshots.forking import after_fork
from ..snapshots.sql_store import database_url

if TYPE_CHECKING:
    from sqlalchemy import Engine

UNNAMED = "DATABASE_URL"


class Databases:
    """Engines by the names of *addresses*; that of the empty name is at ``DATABASE_URL`` in *environ*."""

    def __init__(self, addresses: Mapping[str, str], environ: Mapping[str, str]) -> None:
        self._addresses = addresses
        self._environ = environ
        self._engines: dict[str, Engine] = {}
        self._foreign: list[Engine] = []
        self._lock = threading.Lock()
        after_fork(self._reset)

    def engine(self, name: str) -> Engine:
        """The engine of a database, the same each time. Raises `ConfigurationError`."""
        with self._lock:
            if name not in self._engines:
                self._engines[name] = self._new_engine(name)
            return self._engines[name]

    def _new_engine(self, name: str) -> Engine:
        try:
            import sqlalchemy as sa
        except ImportError:
            raise ConfigurationError("a database needs SQLAlchemy: pip install 'flask-sitemapx[sql]'") from None
        try:
            return sa.create_engine(database_url(self._address(name)), pool_pre_ping=True, hide_parameters=True)
        except ImportError as error:
            raise ConfigurationError(
                f"the database {name or UNNAMED!r} needs the driver {error.name}, which is not installed; for "
                "PostgreSQL: pip install 'flask-sitemapx[postgresql]'"
            ) from None

    def _address(self, name: str) -> str:
        address = self._addresses.get(name) if name else self._environ.get(UNNAMED)
        if not address:
            raise ConfigurationError(f"there is no database {name!r}" if name else f"{UNNAMED} is not set")
        return address

    def _reset(self) -> None:
        # Kept, since collecting a connection of the parent could close it.
        self._foreign += self._engines.values()
        self._engines = {}
        self._lock = threading.Lock()
