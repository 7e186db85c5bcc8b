"""What sections yield, turned into columns for the gate, a batch at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import groupby, islice
from operator import itemgetter
from types import NoneType
from typing import Any, Protocol

from ..errors import InvalidEntry
from ..protocol.entries import EXTRAS, NO_EXTRAS, Columns, UrlEntry, known_extras
from ..protocol.media import News
from .awaiting import Awaiting
from .defaults import NO_DEFAULTS, Defaults
from .languages import LANGUAGES, Languages, Spread

BATCH = 512
"""Entries that are checked and rendered at a time; 64 to 2,048 cost the same."""
_PLAIN = frozenset((NoneType, str, date, datetime, int, float))
"""Types of values that are neither called nor awaited, so that one look at most columns does."""
_STATED = _PLAIN | {dict, list, tuple, News}
"""The same of extras."""
_EXTRAS = frozenset(EXTRAS)


class Urls(Protocol):
    """Where the URLs of ``(endpoint, values)`` come from."""

    def locs(self, endpoint: str, rows: Sequence[Mapping[str, Any]]) -> Sequence[str | InvalidEntry]: ...


class Items:
    """Reads the items of one section.

    *urls* is None where there is no application, *view_defaults* gives what `Registry.include` said of an endpoint's
    view, *endpoint* is what mappings of URL values belong to. *awaiting* waits for what callbacks leave to await.
    *languages* are those of the site, if it has several.
    """

    def __init__(
        self,
        urls: Urls | None,
        defaults: Defaults,
        view_defaults: Callable[[str], Defaults | None] = lambda endpoint: None,
        endpoint: str | None = None,
        awaiting: Awaiting | None = None,
        languages: Languages | None = None,
    ) -> None:
        self._urls = urls
        self._languages = languages
        self._awaiting = awaiting or Awaiting()
        self._defaults = self._evaluated(defaults)
        self._view_defaults = view_defaults
        self._endpoint = endpoint
        self._known: dict[str, Defaults] = {}

    def columns(self, items: Iterable[Any]) -> Iterator[Columns]:
        """*items* in columns, in order."""
        iterator = iter(items)
        while batch := list(islice(iterator, BATCH)):
            if _is_uniform(batch):
                yield self._read(_kind(batch[0]), batch)
            else:
                yield from (self._read(kind, list(run)) for kind, run in groupby(batch, _kind))

    def _read(self, kind: Any, run: list[Any]) -> Columns:
        if kind is str:
            return self._filled(Columns(run), None)
        if kind is UrlEntry:
            return self._entries(run)
        if kind is _Located:
            return self._located(run)
        if kind is Mapping and self._endpoint is not None:
            return self._endpoints(self._endpoint, [(self._endpoint, item) for item in run])
        if isinstance(kind, str):
            return self._endpoints(kind, run)
        return Columns([item if kind is InvalidEntry else _refused(kind, item) for item in run])

    def _entries(self, run: list[UrlEntry]) -> Columns:
        given = [entry.extras for entry in run]
        columns = Columns(
            [entry.loc for entry in run],
            [entry.lastmod for entry in run],
            [entry.changefreq for entry in run],
            [entry.priority for entry in run],
            extras={} if given.count(NO_EXTRAS) == len(given) else _extras(given),
        )
        return self._filled(columns, run)

    def _located(self, run: list[Mapping[str, Any]]) -> Columns:
        return self._filled(
            Columns(
                [item["loc"] for item in run],
                [item.get("lastmod") for item in run],
                [item.get("changefreq") for item in run],
                [item.get("priority") for item in run],
                extras={} if _EXTRAS.isdisjoint(set().union(*run)) else _extras(run),
            ),
            run,
        )

    def _endpoints(self, endpoint: str, run: list[tuple[Any, ...]]) -> Columns:
        if self._urls is None:
            reason = "endpoints of this application are not known; yield a path, or a mapping with a loc"
            return Columns([InvalidEntry("item-endpoint", endpoint, "no URL can be built", reason)] * len(run))
        if len(set(map(len, run))) > 1:
            run = [item + (None,) * (6 - len(item)) for item in run]
        _, values, *rest = zip(*run, strict=True)
        rows: Sequence[Any] = [row or {} for row in values] if None in values else values
        lastmods, changefreqs, priorities, given = (*rest, None, None, None, None)[:4]
        extras = _extras([known_extras(extra or {}) for extra in given]) if given else {}
        columns = Columns([""] * len(rows), lastmods, changefreqs, priorities, True, extras)
        spread = self._spread(endpoint, rows, extras) if self._languages is not None else None
        if spread is not None:
            rows, columns = spread.rows(rows), columns.repeated(spread.times)
        columns.locs = self._urls.locs(endpoint, rows)
        if spread is not None:
            columns, rows = spread.linked(columns, rows)
        return self._filled(columns, rows, endpoint)

    def _spread(
        self, endpoint: str, rows: Sequence[Mapping[str, Any]], extras: Mapping[str, Sequence[Any]]
    ) -> Spread | None:
        """How *rows* are spread over languages, if they are."""
        assert self._languages is not None
        default = self._of_view(endpoint).extras.get(LANGUAGES)
        wanted = extras.get(LANGUAGES)
        if wanted is None and default is not None:
            wanted = [None] * len(rows)
        if wanted is not None:
            wanted = self._answered([default if one is None else one for one in wanted], rows)
        return self._languages.spread(endpoint, [self._languages.argument in row for row in rows], wanted)

    def _filled(self, columns: Columns, rows: Sequence[Any] | None, endpoint: str | None = None) -> Columns:
        """*columns* with callbacks answered from their *rows*, and holes filled by view, then by section."""
        defaults = self._of_view(endpoint) if endpoint else self._defaults
        columns.lastmods = self._column(columns.lastmods, defaults.lastmod, rows, len(columns.locs))
        columns.changefreqs = self._column(columns.changefreqs, defaults.changefreq, rows, len(columns.locs))
        columns.priorities = self._column(columns.priorities, defaults.priority, rows, len(columns.locs))
        if columns.extras or defaults.extras:
            columns.extras = self._with_defaults(
                columns.extras, defaults.extras, columns.locs if rows is None else rows
            )
        return columns if self._languages is None else self._languages.linked(columns)

    def _with_defaults(
        self, extras: Mapping[str, Sequence[Any]], defaults: Mapping[str, Any], rows: Sequence[Any]
    ) -> Mapping[str, Sequence[Any]]:
        """The columns of *extras*, with callbacks answered from *rows*, and holes filled by *defaults*."""
        filled: dict[str, Sequence[Any]] = {}
        for name in extras.keys() | defaults.keys():
            default = defaults.get(name)
            column = [default if value is None else value for value in extras.get(name, [None] * len(rows))]
            filled[name] = column if _STATED.issuperset(map(type, column)) else self._answered(column, rows)
        return filled

    def _of_view(self, endpoint: str) -> Defaults:
        if endpoint not in self._known:
            view = self._view_defaults(endpoint) or NO_DEFAULTS
            self._known[endpoint] = self._evaluated(view).over(self._defaults)
        return self._known[endpoint]

    def _column(
        self, values: Sequence[Any] | None, default: Any, rows: Sequence[Any] | None, length: int
    ) -> Sequence[Any] | None:
        if values is None:
            return None if default is None else [default] * length
        if not _PLAIN.issuperset(map(type, values)):
            values = self._answered(values, rows)
        if default is not None and None in values:
            values = [default if value is None else value for value in values]
        return values

    def _answered(self, values: Sequence[Any], rows: Sequence[Any] | None) -> Sequence[Any]:
        if rows is not None:
            values = [value(row) if callable(value) else value for value, row in zip(values, rows, strict=True)]
        return self._awaiting.values(values) if any(isinstance(value, Awaitable) for value in values) else values

    def _evaluated(self, defaults: Defaults) -> Defaults:
        """Callbacks of a view or a section take no argument and are asked once a pull."""
        given = (defaults.lastmod, defaults.changefreq, defaults.priority)
        fields = (self._awaiting.value(value() if callable(value) else value) for value in given)
        lastmod, changefreq, priority = fields
        return Defaults(lastmod, changefreq, priority, defaults.extras)


def _extras(given: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The extras of entries that state *given*, by column."""
    return {name: [one.get(name) for one in given] for name in _EXTRAS & set().union(*given)}


class _Located:
    """The kind of a mapping that has its ``loc``."""


def _is_uniform(batch: list[Any]) -> bool:
    """Whether `_kind` gives the same for all items, as far as that can be told quickly."""
    kind, *others = set(map(type, batch))
    if others:
        return False
    if issubclass(kind, tuple):
        return _is_of_one_endpoint(batch)
    return not issubclass(kind, Mapping) or len({"loc" in item for item in batch}) == 1


def _is_of_one_endpoint(batch: list[tuple[Any, ...]]) -> bool:
    try:
        endpoints, values = set(map(itemgetter(0), batch)), set(map(type, map(itemgetter(1), batch)))
    except (IndexError, TypeError):  # a tuple that is too short, or an endpoint without a hash
        return False
    return len(endpoints) == len(values) == len(set(map(len, batch))) == 1


def _kind(item: Any) -> Any:
    """The form of an item; of a tuple its endpoint, since a batch of one endpoint is made by one compiled rule."""
    if isinstance(item, tuple):
        is_endpoint = 2 <= len(item) <= 6 and type(item[0]) is str and isinstance(item[1], Mapping | NoneType)
        is_endpoint = is_endpoint and (len(item) < 6 or isinstance(item[5], Mapping | NoneType))
        return item[0] if is_endpoint else tuple
    if isinstance(item, Mapping):
        return _Located if "loc" in item else Mapping
    return next((form for form in (str, UrlEntry, InvalidEntry) if isinstance(item, form)), None)


def _refused(kind: Any, item: Any) -> InvalidEntry:
    if kind is Mapping:
        return InvalidEntry("item-mapping", item, "a mapping has a 'loc', or is of a section with an endpoint")
    return InvalidEntry("item-form", item, "an item is a URL, (endpoint, values, ...), a mapping or a UrlEntry")
