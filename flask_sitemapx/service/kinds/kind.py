"""What a kind of section is: a dataclass of options that gives sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ...protocol.locs import BaseUrl
from ...settings import Settings
from ...sources.parts import Source

if TYPE_CHECKING:
    from sqlalchemy import Engine


@dataclass(frozen=True, slots=True)
class Place:
    """Where a section of the file stands, and what it may use."""

    name: str
    """The section's name."""
    base: BaseUrl
    settings: Settings
    directory: Path
    """That of the file: where relative paths begin."""
    environ: Mapping[str, str]
    engine: Callable[[str], Engine]
    """The database of a name in the file; the empty name is that of `DATABASE_URL`."""


class Kind(Protocol):
    """A section of the file. A new kind is one frozen dataclass of `option` fields with this method."""

    def sources(self, place: Place) -> Sequence[Source]:
        """Its one source, under the section's name, asked for at each build; nothing is read before it is planned."""
        ...
