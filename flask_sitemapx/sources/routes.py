"""The url_map as a source: which rules have complete addresses, and what they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from werkzeug.routing import AnyConverter, MapAdapter, Rule

from ..errors import URL_DEFAULTS, InvalidEntry
from ..protocol.entries import UrlEntry
from .registry import Defaults, Mark

FILES = frozenset({"/favicon.ico", "/robots.txt"})  # asked for by name, whatever serves them
Inject = Callable[[str, dict[str, Any]], None]


def route_items(
    adapter: MapAdapter,
    mark: Callable[[str], Mark | None],
    *,
    has_view: Callable[[str], bool],
    own: str,
    marked_only: bool,
    inject: Inject | None = None,
) -> Iterator[Any]:
    """Items of the section ``routes``: one rule of each endpoint, in the order of the map, but `/` first.

    *mark* gives what was said of an endpoint's view, *own* is the prefix of the endpoints that serve the sitemap,
    *inject* completes values as `url_defaults` functions do, and *marked_only* leaves out views that nobody marked.
    """
    rules: dict[str, Rule] = {}
    for rule in adapter.map.iter_rules():
        if rule.endpoint.startswith(own) or not has_view(rule.endpoint) or not is_page(rule, adapter):
            continue
        # Of rules stacked on one view url_for takes the last, but "/" is the address of a front page.
        if rule.endpoint not in rules or rule.rule == "/":
            rules[rule.endpoint] = rule
    for endpoint, rule in sorted(rules.items(), key=lambda item: item[1].rule != "/"):
        said = mark(endpoint)
        if not (said.is_listed if said else not marked_only):
            continue
        if rule.rule == "/":
            yield _front(said.defaults if said else Defaults())
        else:
            yield from _addresses(rule, inject)


def is_page(rule: Rule, adapter: MapAdapter) -> bool:
    """Whether *rule* answers a GET for a page on the host of *adapter*."""
    if adapter.map.host_matching:
        is_here = rule.host == adapter.server_name
    else:
        is_here = rule.subdomain == (adapter.subdomain or "")
    is_read = rule.methods is None or "GET" in rule.methods
    is_other = rule.build_only or rule.redirect_to or rule.alias or rule.websocket
    is_file = rule.endpoint.rpartition(".")[2] == "static" or rule.rule in FILES
    return is_here and is_read and not is_other and not is_file


def _addresses(rule: Rule, inject: Inject | None) -> Iterator[Any]:
    """An item for each set of values that completes *rule*; none if an argument can be anything."""
    given = dict(rule.defaults or {})
    open_arguments = rule.arguments - given.keys()
    if open_arguments and inject:
        supplied: dict[str, Any] = {}
        try:
            inject(rule.endpoint, supplied)
        except Exception as error:
            yield InvalidEntry(URL_DEFAULTS, rule.rule, f"url_defaults of {rule.endpoint!r} failed: {error!r}")
            return
        open_arguments -= supplied.keys()
    choices = {name: _members(rule, name) for name in sorted(open_arguments)}
    for values in product(*choices.values()):
        yield rule.endpoint, {**given, **dict(zip(choices, values, strict=True))}


def _members(rule: Rule, argument: str) -> list[str]:
    converter = rule._converters.get(argument)
    return sorted(converter.items) if isinstance(converter, AnyConverter) else []


def _front(said: Defaults) -> UrlEntry:
    lastmod, changefreq, priority = (
        value() if callable(value) else value for value in (said.lastmod, said.changefreq, said.priority)
    )
    return UrlEntry("/", lastmod, changefreq, priority)
