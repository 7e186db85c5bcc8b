"""The url_map as a source: which rules are listed, why, and what their addresses are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import translate
from itertools import product
from typing import Any, NamedTuple

from werkzeug.exceptions import HTTPException
from werkzeug.routing import AnyConverter, MapAdapter, RequestRedirect, Rule

from ..errors import URL_DEFAULTS, InvalidEntry
from ..protocol.entries import UrlEntry
from .defaults import NO_DEFAULTS
from .judgement import blueprints_of
from .languages import Languages
from .registry import Mark

FRONT = "/"
FILES = frozenset(("/favicon.ico", "/robots.txt"))  # asked for by name, whatever serves them
NEEDS = "it needs arguments"
STACKED = "its view is listed by another rule"
Inject = Callable[[str, dict[str, Any]], None]
Values = list[dict[str, Any]]
"""The sets of values that complete a rule, one for each of its addresses."""
Decision = tuple[Rule, str, Values | InvalidEntry | None]


class Explained(NamedTuple):
    """What became of one rule: its address if it is listed (the first, if it has several), and why it is or is not."""

    endpoint: str
    url: str | None
    listed: bool
    reason: str


class Globs:
    """Patterns over endpoints, blueprint names and, if they begin with a slash, paths; `*` stands for anything.

    Globs(["blog.*", "shop", "/docs/*"]).found(rule)   # the pattern that takes in the rule, or None
    """

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self._patterns = [(pattern, re.compile(translate(pattern)).match) for pattern in patterns]

    def found(self, rule: Rule) -> str | None:
        names = [rule.endpoint, rule.rule, *blueprints_of(rule.endpoint)]
        return next((pattern for pattern, match in self._patterns if any(map(match, names))), None)


class Routes:
    """The rules of one url_map on the host of *adapter*, and what is listed of them.

    *mark* gives what was said of an endpoint's view. What nothing was said of is decided by the patterns *exclude* and
    *include*, then by *judge*, without which all is listed, or nothing under *marked_only*. *own* is the prefix of the
    endpoints that serve the sitemap; *inject* completes values as `url_defaults` functions do. Where *languages* are
    known, a rule that lacks nothing but the language is complete: its items are spread over them later.
    """

    def __init__(
        self,
        adapter: MapAdapter,
        mark: Callable[[str], Mark | None],
        *,
        has_view: Callable[[str], bool],
        own: str,
        marked_only: bool = False,
        judge: Callable[[Rule], tuple[bool, str]] | None = None,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        inject: Inject | None = None,
        languages: Languages | None = None,
    ) -> None:
        self._adapter = adapter
        self._languages = languages
        self._argument = languages.argument if languages else None
        self._mark = mark
        self._has_view = has_view
        self._own = own
        self._marked_only = marked_only
        self._judge = judge
        self._include = Globs(include) if include else None
        self._exclude = Globs(exclude) if exclude else None
        self._inject = inject
        self._shared: set[str] = set()
        converters = adapter.map.converters.items()
        openings = [f"<{name}(" for name, kind in converters if issubclass(kind, AnyConverter)]
        self._listing = re.compile("|".join(map(re.escape, openings)) or "(?!)").search
        self._by_host = adapter.map.host_matching
        self._host = adapter.server_name if self._by_host else adapter.subdomain or ""

    def items(self) -> Iterator[Any]:
        """Items of the section ``routes``: the listed rules in the order of the map, but `/` first."""
        listed = [(rule, values) for rule, _, values in self._decisions(self._closed()) if values is not None]
        for rule, values in sorted(listed, key=lambda item: item[0].rule != FRONT):
            if isinstance(values, InvalidEntry):
                yield values
            elif rule.rule == FRONT:
                yield self._front(rule.endpoint)
            else:
                yield from ((rule.endpoint, row) for row in values)

    def explained(self, sections: Mapping[str | None, str] | None = None) -> Iterator[Explained]:
        """What became of each rule, in the order of the map.

        *sections* gives, by endpoint, the name of the section that yields its addresses.
        """
        decisions = iter(self._decisions(closed := self._closed()))
        is_closed = set(map(id, closed))
        for rule in self._adapter.map.iter_rules():
            _, reason, values = next(decisions) if id(rule) in is_closed else (rule, self._absent(rule) or NEEDS, None)
            if isinstance(values, list):
                yield self._listed(rule, reason, values)
            else:
                said = self._needs(rule, sections or {}) if reason is NEEDS else reason
                yield Explained(rule.endpoint, None, False, said)

    def open_endpoints(self) -> set[str | None]:
        """The endpoints of pages whose addresses all need arguments that are not known."""
        known = {rule.endpoint for rule in self._closed()}
        rules = [rule for rule in self._adapter.map.iter_rules() if rule.endpoint not in known]
        return {rule.endpoint for rule in rules if not self._absent(rule) and not _is_file(rule)}

    def _closed(self) -> list[Rule]:
        """The rules without arguments in their paths, and those whose arguments may turn out to be known."""
        rules = self._adapter.map.iter_rules()  # many, and most are told by their text, without a look at anything else
        if self._inject or self._argument:
            return list(rules)
        return [
            rule
            for rule in rules
            if "<" not in (path := rule.rule) or rule.defaults or ("(" in path and self._listing(path))
        ]

    def _decisions(self, rules: list[Rule]) -> list[Decision]:
        """Each rule with the reason, and the values that complete it if it is listed: one rule of each endpoint."""
        paths = [rule.rule for rule in rules]
        is_simple = len(set(paths)) == len(paths)
        self._shared = set() if is_simple else {path for path, count in Counter(paths).items() if count > 1}
        decisions: list[Decision] = []
        chosen: dict[str, int] = {}
        for rule in rules:
            reason, values = self._decision(rule)
            if values is not None:
                first = chosen.setdefault(rule.endpoint, len(decisions))
                # Of rules stacked on one view url_for takes the first, but "/" is the address of a front page.
                if rule.rule == FRONT and first < len(decisions):
                    decisions[first] = decisions[first][0], STACKED, None
                elif first < len(decisions):
                    reason, values = STACKED, None
            decisions.append((rule, reason, values))
        return decisions

    def _decision(self, rule: Rule) -> tuple[str, Values | InvalidEntry | None]:
        if reason := self._absent(rule):
            return reason, None
        said = self._mark(rule.endpoint)
        if said is None:
            is_listed, reason = self._chosen(rule)
        elif said.is_listed and said.when is not None:
            try:
                is_listed, reason = (True, "@sitemap.include") if said.when() else (False, "when= says no")
            except Exception as error:
                return _failed("when", rule, "when=", error)
        else:
            is_listed, reason = said.is_listed, "@sitemap.include" if said.is_listed else "@sitemap.exclude"
        return self._completed(rule, reason) if is_listed else (reason, None)

    def _absent(self, rule: Rule) -> str | None:
        """Why *rule* has no address here that answers a GET."""
        if rule.endpoint.startswith(self._own):
            return "it serves the sitemap"
        if rule.methods is not None and "GET" not in rule.methods:
            return "it does not answer GET"
        if rule.build_only or rule.redirect_to or rule.alias or rule.websocket:
            return "it is an alias, a redirect, a websocket or for building only"
        host = rule.host if self._by_host else rule.subdomain
        if host != self._host and not (self._argument and f"<{self._argument}>" in (host or "")):
            return "it belongs to another host"
        return None if self._has_view(rule.endpoint) else "it has no view"

    def _chosen(self, rule: Rule) -> tuple[bool, str]:
        if self._exclude and (pattern := self._exclude.found(rule)):
            return False, f"SITEMAP_EXCLUDE {pattern!r}"
        if self._include and (pattern := self._include.found(rule)):
            return True, f"SITEMAP_INCLUDE {pattern!r}"
        if self._marked_only:
            return False, "nobody marked it"
        if _is_file(rule):
            return False, "it is a file"
        return self._judge(rule) if self._judge else (True, "all are listed")

    def _completed(self, rule: Rule, reason: str) -> tuple[str, Values | InvalidEntry | None]:
        if rule.rule in self._shared and (other := self._answering(rule)) not in (rule.endpoint, None):
            return f"its path is answered by {other!r}", None
        if not rule.arguments:
            return reason, [{}]
        given = {name: value for name, value in (rule.defaults or {}).items() if name != self._argument}
        members = {name: _members(rule, name) for name in sorted(rule.arguments - {*given, self._argument})}
        choices = {name: known for name, known in members.items() if known}
        values = [{**given, **dict(zip(choices, row, strict=True))} for row in product(*choices.values())]
        if missing := members.keys() - choices.keys():
            return self._supplied(rule, reason, values, missing)
        return reason, values

    def _supplied(
        self, rule: Rule, reason: str, values: Values, missing: set[str]
    ) -> tuple[str, Values | InvalidEntry | None]:
        """*values* if url_defaults supply what is *missing* of them."""
        if self._inject is None:
            return NEEDS, None
        supplied = dict(values[0])
        try:
            self._inject(rule.endpoint, supplied)
        except Exception as error:
            # Of several it would hardly have supplied all, so that this is no fault but a rule for a section.
            return _failed(URL_DEFAULTS, rule, "url_defaults", error) if len(missing) == 1 else (NEEDS, None)
        return (reason, values) if missing <= supplied.keys() else (NEEDS, None)

    def _codes(self, rule: Rule) -> tuple[str, ...]:
        """The languages that the addresses of *rule* are spread over."""
        known = self._languages if self._argument in rule.arguments else None
        return known.codes if known else ()

    def _answering(self, rule: Rule) -> str | None:
        """The endpoint that answers a GET of the path that *rule* shares with others."""
        try:
            endpoint, _ = self._adapter.match(rule.rule, "GET")
        except (HTTPException, RequestRedirect):
            return None
        return str(endpoint)

    def _front(self, endpoint: str) -> UrlEntry:
        said = self._mark(endpoint)
        defaults = said.defaults if said else NO_DEFAULTS
        fields = (defaults.lastmod, defaults.changefreq, defaults.priority)
        entry = UrlEntry(FRONT, *(value() if callable(value) else value for value in fields))
        entry.extras = {name: value({}) if callable(value) else value for name, value in defaults.extras.items()}
        return entry

    def _listed(self, rule: Rule, reason: str, values: Values) -> Explained:
        row = dict(values[0])
        try:
            if self._inject:
                self._inject(rule.endpoint, row)
            if self._argument and (codes := self._codes(rule)):
                row[self._argument] = codes[0]
            url = self._adapter.build(rule.endpoint, row) if rule.rule != FRONT else f"{self._adapter.script_name}"
        except Exception as error:  # a converter's own, say; the build reports it too
            return Explained(rule.endpoint, None, False, f"its URL cannot be built: {error!r}")
        count = len(values) * max(1, len(self._codes(rule)))
        more = f", {count} addresses" if count > 1 else ""
        return Explained(rule.endpoint, url, True, reason + more)

    def _needs(self, rule: Rule, sections: Mapping[str | None, str]) -> str:
        names = ", ".join(sorted(rule.arguments - {*(rule.defaults or {}), self._argument}))
        section = sections.get(rule.endpoint)
        return f"it needs {names}" + (f": the section {section!r} lists it" if section else "")


def _failed(broken: str, rule: Rule, what: str, error: Exception) -> tuple[str, InvalidEntry]:
    reason = f"{what} of {rule.endpoint!r} failed: {error!r}"
    return reason, InvalidEntry(broken, rule.rule, reason)


def _is_file(rule: Rule) -> bool:
    return rule.rule in FILES or rule.endpoint == "static" or rule.endpoint.endswith(".static")


def _members(rule: Rule, argument: str) -> list[str]:
    converter = rule._converters.get(argument)
    return sorted(converter.items) if isinstance(converter, AnyConverter) else []
