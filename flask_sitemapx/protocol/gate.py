"""The one place where entries are checked: columns in, finished `<url>` elements out, what is refused counted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

from ..errors import NEVER_RAISED, InvalidEntry, shown
from .documents import changefreq_element, priority_element, url_elements
from .elements import Namespaces
from .entries import Columns
from .extensions import Extensions
from .locs import BaseUrl
from .w3c_datetime import w3c_column, w3c_datetime


class Rendered(NamedTuple):
    """What is left of a batch, in its order: three lists of equal length, and the *namespaces* that are used."""

    locs: list[str]
    lastmods: list[str | None]
    elements: list[str]
    namespaces: Namespaces = ()


class Gate:
    """Checks and renders the entries of one section.

        gate = Gate(BaseUrl.parse("https://example.com"), section="blog", timezone=UTC, strict=False)
        gate.rendered(Columns(["/a", "/b#c"])).elements  # ['<url><loc>https://example.com/a</loc></url>\\n']
        gate.problems.as_dict()                          # {'loc-fragment': [1, "'/b#c'"]}

    An entry with a bad loc is left out; a bad lastmod, changefreq or priority is left out of its entry; both are
    counted in *problems*. A *strict* gate raises InvalidEntry instead, except for dates without a day, which are
    dropped and counted always. News are dropped that are too old *now*, in seconds since the epoch.
    """

    def __init__(self, base: BaseUrl, *, section: str, timezone: tzinfo, strict: bool, now: float = 0.0) -> None:
        self.base = base
        self.timezone = timezone
        self.strict = strict
        self.problems = Problems(section)
        self._extensions = Extensions(base, timezone, now, self._refused)

    def rendered(self, columns: Columns) -> Rendered:
        """The finished entries of *columns*, without the bad ones."""
        locs, columns = self._locs(columns)
        lastmods = self._lastmods(columns)
        changefreqs = self._elements(columns, columns.changefreqs, _changefreqs, _changefreq)
        priorities = self._elements(columns, columns.priorities, _priorities, _priority)
        extensions, namespaces = self._extensions.column(locs, columns.extras) if columns.extras else (None, ())
        elements = url_elements(locs, lastmods, changefreqs, priorities, extensions)
        return Rendered(locs, [None] * len(locs) if lastmods is None else lastmods, elements, namespaces)

    def finish(self) -> None:
        """Report what shows only when all entries were seen."""
        self._extensions.finish()

    def _locs(self, columns: Columns) -> tuple[list[str], Columns]:
        """The finished locs, and the columns without the entries that have none."""
        base = self.base
        together, one = (base.ready_locs, base.ready_loc) if columns.ready else (base.locs, base.loc)
        locs = together(columns.locs)
        if locs is not None:
            return locs, columns
        checked = [self._loc(one, loc) for loc in columns.locs]
        return [loc for loc in checked if loc is not None], columns.kept([loc is not None for loc in checked])

    def _loc(self, one: Callable[[Any], str], loc: str | InvalidEntry) -> str | None:
        try:
            if isinstance(loc, InvalidEntry):
                raise loc
            return one(loc)
        except InvalidEntry as error:
            self._refused(error)
            return None

    def _lastmods(self, columns: Columns) -> list[str | None] | None:
        if columns.lastmods is None:
            return None
        lastmods = w3c_column(columns.lastmods, self.timezone)
        if lastmods is not None:
            return lastmods
        return self._one_by_one(columns, columns.lastmods, lambda value: w3c_datetime(value, self.timezone))

    def _elements(
        self,
        columns: Columns,
        values: Sequence[Any] | None,
        together: Callable[[Sequence[Any]], list[str]],
        one: Callable[[Any], str],
    ) -> list[str] | None:
        if values is None:
            return None
        try:
            return together(values)
        except (LookupError, TypeError):  # TypeError: a value without a hash
            return [element or "" for element in self._one_by_one(columns, values, one)]

    def _one_by_one(self, columns: Columns, values: Sequence[Any], one: Callable[[Any], str]) -> list[str | None]:
        return [
            None if value is None else self._field(loc, value, one)
            for loc, value in zip(columns.locs, values, strict=True)
        ]

    def _field(self, loc: object, value: object, one: Callable[[Any], str]) -> str | None:
        try:
            return one(value)
        except InvalidEntry as error:
            self._refused(error, loc)
            return None

    def _refused(self, error: InvalidEntry, loc: object = None) -> None:
        if self.strict and error.rule not in NEVER_RAISED:
            place = f"section {self.problems.section!r}" + ("" if loc is None else f", entry {shown(loc)}")
            raise InvalidEntry(error.rule, error.value, f"{place}: {error.explanation} ({error.rule})") from None
        self.problems.add(error.rule, error.value, error.reason)


@dataclass(slots=True)
class Problems:
    """How many values of a section broke which rule, with one example of each.

    problems = Problems("blog")
    problems.add("loc-fragment", "/a#b")
    problems.as_dict()  # {'loc-fragment': [1, "'/a#b'"]}
    """

    section: str
    kinds: dict[str, tuple[int, str]] = field(default_factory=dict)

    def add(self, rule: str, value: object, reason: str | None = None) -> None:
        """Count one *value* that broke *rule*; the first is kept as the example, with its *reason* if it has one."""
        count, example = self.kinds.get(rule) or (0, shown(value) + (f" ({reason[:200]})" if reason else ""))
        self.kinds[rule] = (count + 1, example)

    def as_dict(self) -> dict[str, list[Any]]:
        """`{rule: [count, example]}`, to be written as JSON."""
        return {rule: [count, example] for rule, (count, example) in self.kinds.items()}


# changefreq and priority: one look-up from value to finished element checks it, writes it and handles absence ---------


def _changefreqs(values: Iterable[Any]) -> list[str]:
    return [_CHANGEFREQ_ELEMENTS[value] for value in values]


def _changefreq(value: object) -> str:
    if not isinstance(value, str) or value not in _CHANGEFREQS:
        raise InvalidEntry("changefreq", value, f"changefreq is one of {' '.join(_CHANGEFREQS)}")
    return _CHANGEFREQ_ELEMENTS[value]


_CHANGEFREQS = ("always", "hourly", "daily", "weekly", "monthly", "yearly", "never")  # sitemaps.org, in lower case
_CHANGEFREQ_ELEMENTS: dict[str | None, str] = {None: ""} | {word: changefreq_element(word) for word in _CHANGEFREQS}


def _priorities(values: Sequence[Any]) -> list[str]:
    if not set(map(type, values)) <= _EQUAL_TO_THEIR_KEY:  # True == 1, so the table would take it
        raise LookupError
    return [_PRIORITY_ELEMENTS[value] for value in values]


def _priority(value: object) -> str:
    """The element of a number or numeric text from 0.0 to 1.0, rounded to hundredths: `0.5`, `0.25`, `1.0`."""
    number = _number(value)
    if number is None or not 0 <= number <= 1:
        raise InvalidEntry("priority", value, "priority is a number from 0.0 to 1.0")
    return priority_element(str(round(number, 2) + 0.0))  # + 0.0, or -0.0 keeps its sign; hundredths need no exponent


_EQUAL_TO_THEIR_KEY = {float, int, str, Decimal, type(None)}
_NUMERIC = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)")


def _number(value: object) -> float | None:
    try:
        if isinstance(value, str):
            return float(value) if _NUMERIC.fullmatch(value) else None
        if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
            return None
        return float(value)
    except (ValueError, OverflowError):  # a signalling NaN; a huge integer
        return None


_PRIORITY_ELEMENTS: dict[float | str | None, str] = {None: ""} | {
    value: _priority(value) for hundredths in range(101) for value in (hundredths / 100, str(hundredths / 100))
}
