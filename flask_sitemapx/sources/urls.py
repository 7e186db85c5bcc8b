"""Endpoints and rows of values in, the URLs that Flask's url_for would give out, a batch at a time."""

from __future__ import annotations

import logging
import re
from collections import UserDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus
from uuid import UUID

from werkzeug.datastructures import MultiDict
from werkzeug.routing import BaseConverter, BuildError
from werkzeug.routing.converters import AnyConverter, NumberConverter, UUIDConverter

from ..errors import URL_DEFAULTS, InvalidEntry
from ..protocol.locs import BaseUrl, escaped

if TYPE_CHECKING:
    from werkzeug.routing import Map, MapAdapter, Rule

logger = logging.getLogger(__name__)

MAX_SHAPES = 256  # (endpoint, keys) pairs that are compiled; what comes after them is built by Werkzeug
PIECE = 16  # a batch that cannot be built as a whole is tried again in pieces of this many rows

RESERVED = frozenset({"_anchor", "_external", "_method", "_scheme"})  # parameters of flask.url_for, not values

PATH_SAFE = "!$&'()*+,/:;=@"  # what Werkzeug does not quote in a path (BaseConverter.to_url)
QUERY_SAFE = "!$'()*,/:;?@"  # and in a query (werkzeug.urls._urlencode)
UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"  # RFC 3986 2.3
URL_CHARACTERS = (UNRESERVED + "!$&'()*+,/:;=?@%").encode()
PATH_ASIS = (UNRESERVED + PATH_SAFE.translate({ord("&"): None, ord("'"): None})).encode()
QUERY_ASIS = (UNRESERVED + QUERY_SAFE.translate({ord("'"): None})).encode()
STRAY_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")

# Values that a compiled rule is tried with.
TEXTS = ("a-b_c.d~1", "", "a b", "é中😀", "5% %41", "a/b//c", "//a", "&'\"<>", ".", "..", "?=#;+:@,$!*()[]{}|\\^`")
NUMBERS = (7, 0, -3, 10**20, True, 1.5, -0.0, 1e30, Decimal("1.10"))
UUIDS = (UUID(int=1), UUID(int=2**127))

Values = dict[str, Any]
Keys = tuple[str, ...]
Loc = str | InvalidEntry


class UrlBuilder:
    """The absolute URLs of a Flask application's endpoints on one base URL, ready to stand in a `<loc>`.

        builder = UrlBuilder(adapter, base, app.inject_url_defaults)
        builder.locs("article", [{"slug": "a"}, {"slug": "b"}])

    *adapter* is the url_map bound to the base URL's host, mount and scheme (for PLACEHOLDER, to PLACEHOLDER_ORIGIN);
    what it builds below its own root is given below that of *base*. *inject* adds the url_defaults to a mapping of
    values, as `Flask.inject_url_defaults` does.

    The rule of an endpoint is compiled once per set of keys; a batch of rows is then checked and joined column by
    column. A compiled rule must first prove, on trial values, that it gives what Werkzeug gives. If it does not, and
    for all that is out of the ordinary, Werkzeug builds the URLs.
    """

    def __init__(self, adapter: MapAdapter, base: BaseUrl, inject: Callable[[str, Any], None] | None = None) -> None:
        self._adapter = adapter
        self._base = base
        self._url_defaults = _UrlDefaults(inject) if inject else None
        self._host = base.origin.partition("://")[2]
        self._adapter_root = f"{adapter.url_scheme}://{self._host}{adapter.script_name}"
        self._root = base.text + "/"
        self._plans: dict[tuple[str, Keys], _Plan | None] = {}
        self._reasons: dict[tuple[str, Keys], str] = {}

    def locs(self, endpoint: str, rows: Sequence[Mapping[str, Any]]) -> list[Loc]:
        """For each row the URL of *endpoint* with these values, percent-encoded and XML-escaped.

        In place of a row that has no URL on this site stands the InvalidEntry that says why. url_defaults are asked
        once per set of keys if they only add values and look at none of the row's own, else once per row.
        """
        batch: list[Any] = list(rows)
        if _is_uniform(batch):
            return self._given(endpoint, tuple(batch[0]), batch)
        return _by_shape(endpoint, map(_plain, batch), self._given)

    def column_locs(self, endpoint: str, columns: Mapping[str, Sequence[Any]], length: int) -> list[Loc]:
        """What `locs` gives for so many rows, of which each key has a column."""
        keys = tuple(columns)
        first = {key: column[0] for key, column in columns.items()}
        added = self._url_defaults.added(endpoint, keys, first) if self._url_defaults else {}
        if added is not None and RESERVED.isdisjoint(keys):
            given = {**columns, **{key: [value] * length for key, value in added.items()}}
            plan = self._plan(endpoint, tuple(given), [{**first, **added}])
            if plan and (locs := plan.joined(given, length)):
                return [*locs]
        rows = zip(*columns.values(), strict=True) if columns else [()] * length
        return self.locs(endpoint, [dict(zip(keys, row, strict=True)) for row in rows])

    def _given(self, endpoint: str, keys: Keys, rows: list[Values]) -> list[Loc]:
        if not RESERVED.isdisjoint(keys):
            names = ", ".join(sorted(RESERVED.intersection(keys)))
            return [_refused("url-build", endpoint, row, f"{names} is no value") for row in rows]
        if self._url_defaults is None:
            return self._built(endpoint, keys, rows)
        added = self._url_defaults.added(endpoint, keys, rows[0])
        if added is None:
            return _by_shape(endpoint, (self._url_defaults.asked(endpoint, row) for row in rows), self._built)
        if not added:
            return self._built(endpoint, keys, rows)
        return self._built(endpoint, (*keys, *added), [{**row, **added} for row in rows])

    def _built(self, endpoint: str, keys: Keys, rows: list[Values]) -> list[Loc]:
        plan = self._plan(endpoint, keys, rows)
        if plan is None:
            return [self._by_werkzeug(endpoint, row) for row in rows]
        locs = plan.locs(rows)
        if locs is not None:
            return [*locs]
        if any(value is None for row in rows for value in row.values()):
            return _by_shape(endpoint, map(_without_none, rows), self._built)
        if len(rows) <= PIECE:
            return [self._by_werkzeug(endpoint, row) for row in rows]
        pieces = (rows[start : start + PIECE] for start in range(0, len(rows), PIECE))
        return [loc for piece in pieces for loc in self._built(endpoint, keys, piece)]

    def _by_werkzeug(self, endpoint: str, values: Values) -> Loc:
        try:
            url = self._adapter.build(endpoint, values, force_external=True)
        except BuildError as error:
            return _refused("url-build", endpoint, values, self._reason(endpoint, values, error))
        except Exception as error:  # a converter may raise anything
            return _refused("url-build", endpoint, values, _text(error))
        if not url.startswith(self._adapter_root):
            return InvalidEntry("loc-host", url, "the endpoint is on another host")
        below = url.removeprefix(self._adapter_root)
        return self._root + escaped(below) if _is_encoded(below) else self._encoded(url)

    def _reason(self, endpoint: str, values: Values, error: BuildError) -> str:
        """The error's text, made once per set of keys: to guess what was meant, Werkzeug compares all rules."""
        shape = endpoint, tuple(values)
        if shape not in self._reasons and len(self._reasons) < MAX_SHAPES:
            self._reasons[shape] = str(error)
        return self._reasons.get(shape, "no rule of this endpoint takes these values")

    def _encoded(self, url: str) -> Loc:
        try:
            return self._base.loc(url)
        except InvalidEntry as error:
            return error

    def _plan(self, endpoint: str, keys: Keys, rows: list[Values]) -> _Plan | None:
        shape = endpoint, keys
        if shape not in self._plans and len(self._plans) < MAX_SHAPES:
            self._plans[shape] = self._proven_plan(endpoint, keys, rows)
        return self._plans.get(shape)

    def _proven_plan(self, endpoint: str, keys: Keys, rows: list[Values]) -> _Plan | None:
        """The compiled rule, or None: silently for what is not compiled, and with a line in the log if it is wrong."""
        try:
            plan = _compiled(self._adapter, endpoint, keys, self._root, self._host)
            fault = plan and self._fault(endpoint, plan, rows)
        except Exception as error:  # what Werkzeug keeps to itself may change
            plan, fault = None, _text(error)
        if not fault:
            return plan
        logger.warning("URLs of endpoint %r with values %r are left to Werkzeug: %s", endpoint, keys, fault)
        return None

    def _fault(self, endpoint: str, plan: _Plan, rows: list[Values]) -> str | None:
        for values in plan.canaries(rows[:8]):
            ours = plan.locs([values])
            if ours is not None and ours != [theirs := self._by_werkzeug(endpoint, values)]:
                return f"the compiled rule makes {ours[0]!r} of {values!r}, not {theirs!r}"
        return None


class _UrlDefaults:
    """An application's url_defaults, asked as seldom as can be."""

    def __init__(self, inject: Callable[[str, Any], None]) -> None:
        self._inject = inject
        self._added: dict[tuple[str, Keys], Values | None] = {}

    def added(self, endpoint: str, keys: Keys, first: Values) -> Values | None:
        """What is added to any row with these keys, or None if each row must be asked for."""
        shape = endpoint, keys
        if shape not in self._added and len(self._added) < MAX_SHAPES:
            self._added[shape] = self._addition(endpoint, first)
        return self._added.get(shape)

    def _addition(self, endpoint: str, row: Values) -> Values | None:
        watched = _Watched(row)
        try:
            self._inject(endpoint, watched)
        except Exception:  # told row by row, with its reason, and perhaps not by every row
            return None
        items = list(watched.data.items())
        is_untouched = all(key == old and value is row[old] for (key, value), old in zip(items, row, strict=False))
        if watched.was_read or len(items) < len(row) or not is_untouched:
            return None
        return dict(items[len(row) :])

    def asked(self, endpoint: str, row: Values) -> Values | InvalidEntry:
        """*row* as url_defaults leave it."""
        values = dict(row)
        try:
            self._inject(endpoint, values)
        except Exception as error:  # the application's code
            return _refused(URL_DEFAULTS, endpoint, row, _text(error))
        return values


class _Watched(UserDict[str, Any]):
    """A mapping that notes when one of the values it was born with is looked at."""

    def __init__(self, values: Values) -> None:
        super().__init__(values)
        self.given = frozenset(values)
        self.was_read = False

    def __getitem__(self, key: str) -> Any:
        self.was_read |= key in self.given
        return self.data[key]


@dataclass(frozen=True, slots=True)
class _Column:
    """The values of one key, and how they come to stand in the URL."""

    key: str
    encode: Callable[[Any], str]
    samples: tuple[Any, ...]  # trial values; empty: a foreign converter, which sees only the caller's own
    asis: bytes = b""  # *encode* and XML leave strings of these characters as they are
    takes_int: bool = False  # *encode* is str for ints
    is_query: bool = False

    def texts(self, values: Sequence[Any]) -> Sequence[str] | None:
        """The column as it stands in the URL, or None if Werkzeug must look at these rows."""
        types = set(map(type, values))
        if types == {str} and self.asis and _consists_of("".join(values), self.asis):
            return values
        if type(None) in types or (self.is_query and any(issubclass(kind, list | tuple | set) for kind in types)):
            return None
        try:
            return list(map(str, values)) if types == {int} and self.takes_int else _ready(map(self.encode, values))
        except Exception:  # Werkzeug will say which row it is, and why
            return None


@dataclass(frozen=True, slots=True)
class _Plan:
    """A rule compiled for rows of certain keys: constant texts, already escaped, and columns between them."""

    parts: tuple[str | _Column, ...]
    root: str = ""  # in front of a URL that begins with a value

    def locs(self, rows: list[Values]) -> list[str] | None:
        """The URLs of *rows*, or None if Werkzeug must look at them."""
        keys = [part.key for part in self.parts if isinstance(part, _Column)]
        return self.joined({key: list(map(itemgetter(key), rows)) for key in keys}, len(rows))

    def joined(self, values: Mapping[str, Sequence[Any]], length: int) -> list[str] | None:
        """The URLs of so many rows, whose *values* are given by column; None if Werkzeug must look at them."""
        columns: list[Iterable[str]] = []
        for part in self.parts:
            column = repeat(part, length) if isinstance(part, str) else part.texts(values[part.key])
            if column is None:
                return None
            columns.append(column)
        urls = map("".join, zip(*columns, strict=True))
        # MapAdapter.build: a value in front brings no second slash.
        return [self.root + url.lstrip("/") for url in urls] if self.root else list(urls)

    def canaries(self, rows: list[Values]) -> Iterator[Values]:
        """Rows to try this plan with: *rows*, and at least eight with odd values of each kind that its columns know."""
        columns = [part for part in self.parts if isinstance(part, _Column) and part.samples]
        yield from rows
        for turn in range(max((len(column.samples) for column in columns), default=0)):
            yield rows[turn % len(rows)] | {c.key: c.samples[turn % len(c.samples)] for c in columns}


def _compiled(adapter: MapAdapter, endpoint: str, keys: Keys, root: str, host: str) -> _Plan | None:
    rule = _rule(adapter, endpoint, keys, host)
    if rule is None:
        return None
    query = [key for key in keys if key not in rule.arguments]
    if query and rule.map.sort_parameters and rule.map.sort_key:
        return None  # it may look at the values
    first, *parts = _merged([*_path_parts(rule), *_query_parts(rule.map, query)])
    constant = str(first).lstrip("/")
    return _Plan((root + constant, *parts)) if constant or not parts else _Plan(tuple(parts), root)


def _rule(adapter: MapAdapter, endpoint: str, keys: Keys, host: str) -> Rule | None:
    """The rule that Werkzeug takes for these keys whatever the values, if it is an ordinary one on *host*."""
    adapter.map.update()
    for rule in adapter.map._rules_by_endpoint.get(endpoint, ()):
        takes_method = rule.methods is None or adapter.default_method in rule.methods
        if takes_method and rule.arguments <= {*keys, *(rule.defaults or ())}:
            is_plain = not rule.defaults and not rule.websocket and all(type(key) is str for key in keys)
            return rule if is_plain and _is_on_host(rule, adapter, host) else None
    return None


def _is_on_host(rule: Rule, adapter: MapAdapter, host: str) -> bool:
    domain = rule._trace[: rule._trace.index((False, "|"))]
    is_fixed = not any(is_variable for is_variable, _ in domain)
    return is_fixed and adapter.get_host("".join(text for _, text in domain)) == host


def _path_parts(rule: Rule) -> Iterator[str | _Column]:
    for is_variable, text in rule._trace[rule._trace.index((False, "|")) + 1 :]:
        yield _path_column(text, rule._converters[text]) if is_variable else escaped(quote(text, safe=PATH_SAFE))


def _path_column(key: str, converter: BaseConverter) -> _Column:
    to_url = getattr(type(converter), "to_url", None)
    if to_url is BaseConverter.to_url:
        return _Column(key, converter.to_url, TEXTS + NUMBERS, asis=PATH_ASIS, takes_int=True)
    if isinstance(converter, NumberConverter) and to_url is NumberConverter.to_url:
        is_str = converter.num_convert is int and not converter.fixed_digits
        return _Column(key, converter.to_url, (*NUMBERS, "12", "1.5", "x"), takes_int=is_str)
    if isinstance(converter, AnyConverter) and to_url is AnyConverter.to_url:
        return _Column(key, converter.to_url, (*converter.items, *TEXTS[:8]))
    if to_url is UUIDConverter.to_url:
        return _Column(key, converter.to_url, (*UUIDS, *TEXTS[:8]))
    return _Column(key, converter.to_url, ())


def _query_parts(url_map: Map, keys: list[str]) -> Iterator[str | _Column]:
    for number, key in enumerate(sorted(keys) if url_map.sort_parameters else keys):
        yield ("&amp;" if number else "?") + escaped(quote_plus(key, safe=QUERY_SAFE)) + "="
        yield _Column(key, _query_value, TEXTS + NUMBERS, asis=QUERY_ASIS, takes_int=True, is_query=True)


def _query_value(value: Any) -> str:
    return quote_plus(value if isinstance(value, bytes) else str(value), safe=QUERY_SAFE)


def _merged(parts: Iterable[str | _Column]) -> list[str | _Column]:
    """*parts* with neighbouring constants made one."""
    merged: list[str | _Column] = [""]
    for part in parts:
        if isinstance(part, str) and isinstance(merged[-1], str):
            merged[-1] += part
        else:
            merged.append(part)
    return merged


def _by_shape(
    endpoint: str,
    rows: Iterable[Values | InvalidEntry],
    build: Callable[[str, Keys, list[Values]], list[Loc]],
) -> list[Loc]:
    """What *build* makes of *rows*; it sees at once all that have the same keys in the same order."""
    locs: list[Any] = list(rows)
    places = defaultdict(list)
    for place, row in enumerate(locs):
        if not isinstance(row, InvalidEntry):
            places[tuple(row)].append(place)
    for keys, group in places.items():
        for place, loc in zip(group, build(endpoint, keys, [locs[place] for place in group]), strict=True):
            locs[place] = loc
    return locs


def _is_uniform(rows: list[Any]) -> bool:
    """Whether all rows are plain dicts with the same keys in the same order."""
    return set(map(type, rows)) == {dict} and list(chain.from_iterable(rows)) == [*rows[0]] * len(rows)


def _plain(row: Any) -> Values | InvalidEntry:
    if isinstance(row, MultiDict):  # as MapAdapter.build reads one
        return {key: values[0] if len(values) == 1 else values for key, values in row.lists() if values}
    try:
        return dict(row)
    except (TypeError, ValueError):
        return InvalidEntry("url-values", row, "URL values are not a mapping")


def _without_none(row: Values) -> Values:
    """To Werkzeug a value of None is a missing one."""
    return {key: value for key, value in row.items() if value is not None}


def _ready(texts: Iterable[str]) -> list[str] | None:
    """A converter's *texts* escaped, or None if one is not what may stand in a URL."""
    column = list(texts)
    text = "/".join(column)
    if set(map(type, column)) != {str} or not _is_encoded(text):
        return None
    return list(map(escaped, column)) if "&" in text or "'" in text else column


def _is_encoded(text: str) -> bool:
    return _consists_of(text, URL_CHARACTERS) and not ("%" in text and STRAY_PERCENT.search(text))


def _consists_of(text: str, characters: bytes) -> bool:
    return text.isascii() and not text.encode().translate(None, characters)


_FAULTS = {"url-build": "no URL can be built", URL_DEFAULTS: "url_defaults failed"}


def _refused(rule: str, endpoint: str, values: Values, reason: str) -> InvalidEntry:
    try:
        repr(values)
    except Exception:  # an int of 5,000 digits, for one
        return InvalidEntry(rule, (endpoint, list(values)), _FAULTS[rule], reason)
    return InvalidEntry(rule, (endpoint, values), _FAULTS[rule], reason)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
