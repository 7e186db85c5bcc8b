"""What a section is read in: parts, each of which is carried over while it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from ..protocol.entries import Columns


@dataclass(frozen=True, slots=True)
class Known:
    """A part as the last set has it."""

    key: str
    version: str | None
    """What `Part.version` gave when it was read, or None if it has to be read again in any case."""
    count: int = 0
    """Its entries."""
    length: int = 0
    """Bytes of its documents."""


@dataclass(frozen=True, slots=True)
class Past:
    """What a section may go by when it plans what to read."""

    now: float
    """Seconds since the epoch."""
    urls: int
    """Most entries of a document."""
    size: int
    """Most bytes of a document."""
    parts: tuple[Known, ...] = ()
    """Those of the last set, in order."""
    memo: str | None = None
    """What the last `Plan` asked to be told now."""
    is_touched: bool = False
    """Whether somebody said that the section changed, or the last attempt to read it failed."""


class Part(Protocol):
    """A piece of a section that is read by itself."""

    @property
    def key(self) -> str:
        """What it is known by from one set to the next; another key means other numbers."""
        ...

    @property
    def is_unchanged(self) -> bool:
        """Whether the entries are those that the last set has."""
        ...

    @property
    def is_cut(self) -> bool:
        """Whether it is of any size, and cut where its entries say so; else it is one document as long as it fits."""
        ...

    def columns(self) -> Iterator[Columns]:
        """All entries, in order, pulled as they are asked for."""
        ...

    def version(self) -> str | None:
        """Asked after the entries were pulled: a text that stands while they do, or None if that cannot be told."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """The parts of a section in order, and a *memo* for the next plan."""

    parts: Iterable[Part]
    memo: str | None = None


@dataclass(frozen=True, slots=True)
class NamedPart:
    """A part whose *named* version is known before it is pulled."""

    key: str
    pulled: Callable[[], Iterator[Columns]]
    named: str | None = None
    known: str | None = None
    """The version by which the last set knows it."""
    is_cut: bool = False

    @property
    def is_unchanged(self) -> bool:
        return self.named is not None and self.named == self.known

    def columns(self) -> Iterator[Columns]:
        return self.pulled()

    def version(self) -> str | None:
        return self.named


class Source(Protocol):
    """A section as a build sees it."""

    @property
    def name(self) -> str: ...

    @property
    def endpoint(self) -> str | None:
        """That whose addresses it lists, if it is of one."""
        ...

    def rule(self) -> str | None:
        """A text that stands for how entries are made of what is read; None: whatever makes the whole site."""
        ...

    def plan(self, past: Past) -> Plan:
        """All parts as they are now."""
        ...

    def part(self, key: str, following: str | None) -> Part:
        """The part of this *key*, as an earlier plan had it before that of the *following* key."""
        ...
