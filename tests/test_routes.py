"""Which rules of a url_map are pages with complete addresses."""

from __future__ import annotations

import pytest
from werkzeug.routing import AnyConverter, BaseConverter, Map, Rule

from flask_sitemapx.errors import InvalidEntry
from flask_sitemapx.protocol.entries import UrlEntry
from flask_sitemapx.sources.defaults import Defaults
from flask_sitemapx.sources.registry import Mark
from flask_sitemapx.sources.routes import Routes

MAP_OPTIONS = ("host_matching", "converters", "strict_slashes", "redirect_defaults")


def routes(rules, *, marks=None, host="example.com", subdomain=None, views=None, mount="/", **options):
    url_map = Map(rules, **{name: options.pop(name) for name in MAP_OPTIONS if name in options})
    return Routes(
        url_map.bind(host, mount, subdomain=subdomain),
        (marks or {}).get,
        has_view=lambda endpoint: views is None or endpoint in views,
        own="sitemapx.",
        **options,
    )


def items(rules, **options):
    return list(routes(rules, **options).items())


def endpoints(rules, **options):
    return [item[0] for item in items(rules, **options)]


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


def test_an_any_converter_is_known_under_another_name():
    rules = [Rule("/<kind(b, a):kind>", endpoint="k")]
    assert items(rules, converters={"kind": AnyConverter}) == [("k", {"kind": "a"}), ("k", {"kind": "b"})]


def test_an_any_converter_beside_an_open_argument_completes_nothing():
    assert items([Rule("/<any(b, a):kind>/<name>", endpoint="k")]) == []


def test_values_that_url_defaults_supply_complete_a_rule():
    def inject(endpoint, values):
        values.setdefault("lang", "en")

    assert items([Rule("/<lang>/about", endpoint="about")], inject=inject) == [("about", {})]


def test_languages_that_a_rule_names_are_all_listed_whatever_url_defaults_would_supply():
    def inject(endpoint, values):
        if "lang" not in values:
            raise AttributeError("lang")

    rules = [Rule("/<any(de, en):lang>/start", endpoint="start")]
    assert items(rules, inject=inject) == [("start", {"lang": "de"}), ("start", {"lang": "en"})]


def test_url_defaults_that_fail_are_no_fault_of_a_rule_that_needs_more():
    def inject(endpoint, values):
        raise AttributeError("lang")

    assert items([Rule("/<lang>/products/<slug>", endpoint="product")], inject=inject) == []


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


# Why


def judge(rule):
    return rule.endpoint != "private", "as it should be" if rule.endpoint != "private" else "it is private"


def test_every_rule_is_explained_in_the_order_of_the_map():
    rules = [
        Rule("/", endpoint="home"),
        Rule("/about", endpoint="about"),
        Rule("/private", endpoint="private"),
        Rule("/post/<slug>", endpoint="post"),
        Rule("/save", endpoint="save", methods=["POST"]),
        Rule("/built", endpoint="built", build_only=True),
        Rule("/sitemap.xml", endpoint="sitemapx.sitemap"),
        Rule("/empty", endpoint="empty"),
        Rule("/static/<path:filename>", endpoint="static", defaults={"filename": "x"}),
    ]
    found = list(routes(rules, judge=judge, views={rule.endpoint for rule in rules} - {"empty"}).explained())
    assert found == [
        ("home", "/", True, "as it should be"),
        ("about", "/about", True, "as it should be"),
        ("private", None, False, "it is private"),
        ("post", None, False, "it needs slug"),
        ("save", None, False, "it does not answer GET"),
        ("built", None, False, "it is an alias, a redirect, a websocket or for building only"),
        ("sitemapx.sitemap", None, False, "it serves the sitemap"),
        ("empty", None, False, "it has no view"),
        ("static", None, False, "it is a file"),
    ]


@pytest.mark.parametrize("marked_only", [True, False])
@pytest.mark.parametrize("judge", [None, judge])
def test_what_is_explained_as_listed_is_what_is_listed(judge, marked_only):
    names = ["home", "about", "private", "kept", "dropped"]
    rules = [Rule(f"/{name}", endpoint=name) for name in names] + [Rule("/<x>", endpoint="open")]
    marks = {"kept": Mark(True), "dropped": Mark(False)}
    found = routes(rules, judge=judge, marks=marks, marked_only=marked_only, include=["home"], exclude=["about"])
    assert [endpoint for endpoint, _ in found.items()] == [e.endpoint for e in found.explained() if e.listed]


def test_a_section_is_named_that_lists_what_needs_an_argument():
    rules = [Rule("/<year>/<slug>", endpoint="post"), Rule("/u/<name>", endpoint="user")]
    reasons = [answer.reason for answer in routes(rules).explained({"post": "posts"})]
    assert reasons == ["it needs slug, year: the section 'posts' lists it", "it needs name"]


def test_addresses_are_below_the_mount():
    rules = [Rule("/", endpoint="home"), Rule("/about", endpoint="about")]
    assert [answer.url for answer in routes(rules, mount="/sub").explained()] == ["/sub/", "/sub/about"]


def test_several_addresses_are_counted():
    (answer,) = routes([Rule("/<any(a, b):kind>", endpoint="kind")]).explained()
    assert answer == ("kind", "/a", True, "all are listed, 2 addresses")


# Marks, patterns and the judgement


def one(name="shop.cart", path="/cart", **options):
    (answer,) = routes([Rule(path, endpoint=name)], judge=lambda rule: (False, "judged"), **options).explained()
    return answer.listed, answer.reason


def test_the_judgement_decides_what_nothing_was_said_of():
    assert one() == (False, "judged")


@pytest.mark.parametrize("pattern", ["shop.cart", "shop.*", "*.cart", "shop", "sh?p", "/cart", "/c*", "*"])
def test_a_pattern_is_over_endpoint_blueprint_and_path(pattern):
    assert one(include=[pattern]) == (True, f"SITEMAP_INCLUDE {pattern!r}")
    assert one(exclude=[pattern], include=[pattern]) == (False, f"SITEMAP_EXCLUDE {pattern!r}")


@pytest.mark.parametrize("pattern", ["cart", "shop.", "Shop", "/car", "/CART", "hop"])
def test_a_pattern_matches_as_a_whole(pattern):
    assert one(include=[pattern]) == (False, "judged")


def test_a_pattern_names_outer_blueprints_too():
    assert one("site.shop.cart", include=["site"])[0]
    assert one("site.shop.cart", include=["site.shop"])[0]
    assert not one("site.shop.cart", include=["shop"])[0]


def test_marks_beat_patterns_and_patterns_beat_what_marked_only_leaves_out():
    assert one(marks={"shop.cart": Mark(True)}, exclude=["shop"]) == (True, "@sitemap.include")
    assert one(marks={"shop.cart": Mark(False)}, include=["shop"]) == (False, "@sitemap.exclude")
    assert one(marked_only=True, include=["shop"])[0]
    assert one(marked_only=True) == (False, "nobody marked it")


def test_including_beats_every_test_but_that_of_an_argument():
    assert one("static", "/favicon.ico", include=["static"])[0]
    assert one("x", "/favicon.ico", marks={"x": Mark(True)})[0]
    assert one("x", "/<x>", marks={"x": Mark(True)}) == (False, "it needs x")
    assert one("x", "/<x>", include=["*"]) == (False, "it needs x")


def test_a_mark_may_be_taken_back_at_each_build():
    answers = iter([True, False, True])
    found = routes([Rule("/terms", endpoint="terms")], marks={"terms": Mark(True, when=lambda: next(answers))})
    assert list(found.items()) == [("terms", {})]
    assert list(found.items()) == []
    assert list(found.items()) == [("terms", {})]


def test_a_when_that_fails_is_reported_and_costs_that_rule_only():
    def fails():
        raise LookupError("terms")

    found = routes(
        [Rule("/terms", endpoint="terms"), Rule("/a", endpoint="a")], marks={"terms": Mark(True, when=fails)}
    )
    failed, listed = found.items()
    assert isinstance(failed, InvalidEntry)
    assert failed.rule == "when"
    assert "LookupError('terms')" in str(failed)
    assert listed == ("a", {})
    assert [answer.listed for answer in found.explained()] == [False, True]


# One address an endpoint, one endpoint an address


def test_of_rules_stacked_on_one_view_that_of_url_for_is_listed():
    found = routes([Rule("/first", endpoint="x"), Rule("/second", endpoint="x")])
    assert [(answer.url, answer.reason) for answer in found.explained()] == [
        ("/first", "all are listed"),
        (None, "its view is listed by another rule"),
    ]


def test_the_front_page_is_the_one_of_stacked_rules_wherever_it_stands():
    for paths in (["/", "/home", "/index"], ["/index", "/", "/home"], ["/index", "/home", "/"]):
        found = routes([Rule(path, endpoint="home") for path in paths])
        assert list(found.items()) == [UrlEntry("/")]
        assert [answer.url for answer in found.explained()] == ["/" if path == "/" else None for path in paths]


def test_the_rule_that_the_judgement_leaves_is_listed_of_stacked_ones():
    rules = [Rule("/api/x", endpoint="x"), Rule("/x", endpoint="x")]
    found = routes(rules, judge=lambda rule: ("api" not in rule.rule, "judged"))
    assert [answer.listed for answer in found.explained()] == [False, True]


def test_a_path_with_and_without_slash_is_one_address_of_its_view():
    rules = [Rule("/projects", endpoint="projects"), Rule("/projects/", endpoint="projects")]
    assert [answer.url for answer in routes(rules).explained()] == ["/projects", None]


def test_a_default_and_the_rule_that_it_redirects_to_are_one_address():
    rules = [
        Rule("/list/", endpoint="list", defaults={"page": 1}),
        Rule("/list/page/<int:page>", endpoint="list"),
        Rule("/list/page/1", endpoint="list", defaults={"page": 1}),
    ]
    found = routes(rules)
    assert [answer.url for answer in found.explained() if answer.listed] == ["/list/"]
    assert list(found.items()) == [("list", {"page": 1})]


def test_the_endpoint_that_answers_an_address_is_listed_for_it():
    rules = [Rule("/store", endpoint="first"), Rule("/store", endpoint="second")]
    assert explained_reasons(rules) == ["all are listed", "its path is answered by 'first'"]


def test_a_second_endpoint_does_not_stand_in_for_a_private_first_one():
    rules = [Rule("/store", endpoint="private"), Rule("/store", endpoint="second")]
    assert explained_reasons(rules, judge=judge) == ["it is private", "its path is answered by 'private'"]


def test_a_second_endpoint_of_another_method_is_none_of_that_address():
    rules = [Rule("/store", endpoint="post", methods=["POST"]), Rule("/store", endpoint="get", methods=["GET"])]
    assert endpoints(rules) == ["get"]


def explained_reasons(rules, **options):
    return [answer.reason for answer in routes(rules, **options).explained()]


def test_a_catch_all_is_listed_once_where_a_default_completes_it():
    rules = [Rule("/", endpoint="page", defaults={"path": ""}), Rule("/<path:path>", endpoint="page")]
    found = routes(rules)
    assert list(found.items()) == [UrlEntry("/")]
    assert [answer.reason for answer in found.explained()] == ["all are listed", "it needs path"]


def test_hosts_are_told_apart_and_said():
    rules = [Rule("/a", endpoint="a", host="example.com"), Rule("/a", endpoint="b", host="example.org")]
    found = routes(rules, host_matching=True)
    assert [(answer.url, answer.reason) for answer in found.explained()] == [
        ("/a", "all are listed"),
        (None, "it belongs to another host"),
    ]


def test_url_defaults_that_fail_are_the_reason():
    def inject(endpoint, values):
        raise AttributeError("lang")

    (answer,) = routes([Rule("/<lang>/about", endpoint="about")], inject=inject).explained()
    assert answer == ("about", None, False, "url_defaults of 'about' failed: AttributeError('lang')")


def test_url_defaults_are_not_asked_for_rules_that_are_not_listed():
    def inject(endpoint, values):
        raise AssertionError(endpoint)

    found = routes([Rule("/<lang>/private", endpoint="private")], inject=inject, judge=judge)
    assert [answer.reason for answer in found.explained()] == ["it is private"]


def test_url_defaults_complete_the_address_that_is_explained():
    def inject(endpoint, values):
        values.setdefault("lang", "en")

    (answer,) = routes([Rule("/<lang>/about", endpoint="about")], inject=inject).explained()
    assert answer.url == "/en/about"


def test_a_converter_that_fails_is_the_reason():
    class Failing(BaseConverter):
        def to_url(self, value):
            raise ValueError("no")

    def inject(endpoint, values):
        values.setdefault("x", 1)

    rule = Rule("/<failing:x>", endpoint="x")
    (answer,) = routes([rule], converters={"failing": Failing}, inject=inject).explained()
    assert answer == ("x", None, False, "its URL cannot be built: ValueError('no')")


def test_endpoints_of_pages_without_a_known_address_are_open():
    rules = [
        Rule("/about", endpoint="about"),
        Rule("/post/<slug>", endpoint="post"),
        Rule("/", endpoint="page", defaults={"path": ""}),
        Rule("/<path:path>", endpoint="page"),
        Rule("/save/<slug>", endpoint="save", methods=["POST"]),
        Rule("/static/<path:filename>", endpoint="static"),
        Rule("/sitemap-<number>.xml", endpoint="sitemapx.shard"),
    ]
    assert routes(rules).open_endpoints() == {"post"}
