"""Which rules of a url_map are pages with complete addresses."""

from __future__ import annotations

import pytest
from werkzeug.routing import Map, Rule

from flask_sitemapx.errors import InvalidEntry
from flask_sitemapx.protocol.entries import UrlEntry
from flask_sitemapx.sources.registry import Defaults, Mark
from flask_sitemapx.sources.routes import route_items


def items(
    rules, *, marks=None, host="example.com", subdomain=None, views=None, inject=None, marked_only=False, **options
):
    adapter = Map(rules, **options).bind(host, subdomain=subdomain)
    found = route_items(
        adapter,
        (marks or {}).get,
        has_view=lambda endpoint: views is None or endpoint in views,
        own="sitemapx.",
        marked_only=marked_only,
        inject=inject,
    )
    return list(found)


def endpoints(*args, **options):
    return [item[0] for item in items(*args, **options)]


def test_a_rule_without_arguments_is_listed():
    assert items([Rule("/about", endpoint="about")]) == [("about", {})]


@pytest.mark.parametrize(
    "rule",
    [
        Rule("/x", endpoint="x", methods=["POST"]),
        Rule("/x", endpoint="x", build_only=True),
        Rule("/x", endpoint="x", redirect_to="/y"),
        Rule("/x", endpoint="x", websocket=True),
        Rule("/x", endpoint="static"),
        Rule("/x", endpoint="admin.static"),
        Rule("/x", endpoint="sitemapx.sitemap"),
        Rule("/favicon.ico", endpoint="icon"),
        Rule("/robots.txt", endpoint="robots"),
        Rule("/x/<name>", endpoint="x"),
        Rule("/x/<int:number>", endpoint="x"),
        Rule("/x/<path:name>", endpoint="x"),
        Rule("/x", endpoint="x", subdomain="shop"),
        Rule("/x", endpoint="x", subdomain="<name>"),
    ],
)
def test_what_is_no_page_with_a_complete_address_is_not_listed(rule):
    assert endpoints([rule, Rule("/about", endpoint="about")]) == ["about"]


def test_an_alias_is_not_listed_but_its_rule_is():
    assert items([Rule("/b", endpoint="x", alias=True), Rule("/a", endpoint="x")]) == [("x", {})]


def test_an_endpoint_without_a_view_is_not_listed():
    assert endpoints([Rule("/a", endpoint="a"), Rule("/b", endpoint="b")], views={"b"}) == ["b"]


def test_a_rule_of_any_method_is_read_with_get():
    assert endpoints([Rule("/a", endpoint="a", methods=None)]) == ["a"]


def test_rules_of_the_subdomain_that_is_served_are_listed():
    rules = [Rule("/a", endpoint="a", subdomain="shop"), Rule("/b", endpoint="b")]
    assert endpoints(rules, subdomain="shop") == ["a"]


def test_rules_of_the_host_that_is_served_are_listed():
    rules = [Rule("/a", endpoint="a", host="example.com"), Rule("/b", endpoint="b", host="example.org")]
    assert endpoints(rules, host_matching=True) == ["a"]


def test_defaults_complete_a_rule():
    rules = [Rule("/list/", endpoint="list", defaults={"page": 1}), Rule("/list/<int:page>", endpoint="list")]
    assert items(rules) == [("list", {"page": 1})]


def test_members_of_an_any_converter_are_listed_one_by_one():
    rules = [Rule("/<any(b, a):kind>/<any(x, y):size>", endpoint="k")]
    assert items(rules) == [("k", {"kind": kind, "size": size}) for kind in "ab" for size in "xy"]


def test_values_that_url_defaults_supply_complete_a_rule():
    def inject(endpoint, values):
        values.setdefault("lang", "en")

    assert items([Rule("/<lang>/about", endpoint="about")], inject=inject) == [("about", {})]


def test_url_defaults_that_fail_cost_that_rule_only():
    def inject(endpoint, values):
        raise AttributeError("lang")

    rules = [Rule("/<lang>/about", endpoint="about"), Rule("/plain", endpoint="plain")]
    failed, listed = items(rules, inject=inject)
    assert isinstance(failed, InvalidEntry)
    assert "about" in str(failed)
    assert "AttributeError('lang')" in str(failed)
    assert listed == ("plain", {})


def test_an_endpoint_is_listed_once():
    rules = [Rule("/a", endpoint="x"), Rule("/b", endpoint="x"), Rule("/c", endpoint="y")]
    assert endpoints(rules) == ["x", "y"]


def test_the_front_page_comes_first_and_under_its_own_address():
    rules = [Rule("/about", endpoint="about"), Rule("/", endpoint="home"), Rule("/index", endpoint="home")]
    marks = {"home": Mark(True, Defaults(lastmod=lambda: "2026-11-30", priority=1.0))}
    assert items(rules, marks=marks) == [UrlEntry("/", "2026-11-30", None, 1.0), ("about", {})]


def test_the_front_page_needs_no_mark_when_all_are_listed():
    assert items([Rule("/", endpoint="home")]) == [UrlEntry("/")]


def test_marks_decide():
    def rules():
        return [Rule(f"/{name}", endpoint=name) for name in ("in", "out", "unmarked")]

    marks = {"in": Mark(True), "out": Mark(False)}
    assert endpoints(rules(), marks=marks) == ["in", "unmarked"]
    assert endpoints(rules(), marks=marks, marked_only=True) == ["in"]


def test_a_mark_does_not_complete_an_address():
    assert endpoints([Rule("/<name>", endpoint="x")], marks={"x": Mark(True)}, marked_only=True) == []
