"""Tables of results, with the targets they are held against, as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Cell = str | float | None


@dataclass(frozen=True, slots=True)
class Target:
    """A figure that was measured, and the bound it should keep: at least, or else at most."""

    claim: str
    measured: float
    at_least: float | None = None
    at_most: float | None = None

    @property
    def is_met(self) -> bool:
        if self.at_least is not None and self.measured < self.at_least:
            return False
        return self.at_most is None or self.measured <= self.at_most

    def __str__(self) -> str:
        bound = f">= {self.at_least:g}" if self.at_least is not None else f"<= {self.at_most:g}"
        return f"{'met   ' if self.is_met else 'MISSED'}  {self.claim}: {shown(self.measured)} (target {bound})"


@dataclass(slots=True)
class Table:
    """What was measured (*title*), how to read it (*about*), the rows, then targets and rows that were skipped."""

    title: str
    about: str
    columns: Sequence[str]
    rows: list[list[Cell]] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"## {self.title}", "", self.about, "", *markdown(self.columns, self.rows)]
        lines += ["", *map(str, self.targets)] if self.targets else []
        lines += ["", *(f"skipped: {reason}" for reason in self.skipped)] if self.skipped else []
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """The table as JSON can hold it, figures unrounded."""
        return {
            "title": self.title,
            "about": self.about,
            "rows": [dict(zip(self.columns, row, strict=True)) for row in self.rows],
            "targets": [
                {
                    "claim": target.claim,
                    "measured": target.measured,
                    "at_least": target.at_least,
                    "at_most": target.at_most,
                    "is_met": target.is_met,
                }
                for target in self.targets
            ],
            "skipped": self.skipped,
        }


def markdown(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """Lines of a Markdown table: the first column to the left, figures to the right."""
    texts = [list(columns), *([shown(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = ["| " + " | ".join(padded(texts, widths)) + " |" for texts in texts]
    rule = (
        "|" + "|".join("-" * (width + 1) + ("-" if number == 0 else ":") for number, width in enumerate(widths)) + "|"
    )
    return [lines[0], rule, *lines[1:]]


def padded(texts: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *others = zip(texts, widths, strict=True)
    return [first[0].ljust(first[1]), *(text.rjust(width) for text, width in others)]


def shown(cell: Cell) -> str:
    """The cell as text: three significant digits, and a dash where there is no figure."""
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return cell
    return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}"
