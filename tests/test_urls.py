"""UrlBuilder gives what Werkzeug and Flask give, row for row, whatever the rule and the values are."""

from __future__ import annotations

import random
import re
from decimal import Decimal
from enum import Enum
from typing import Any
from unittest.mock import Mock
from urllib.parse import quote
from uuid import UUID

import pytest
from flask import Blueprint, Flask, url_for
from hypothesis import given, settings
from hypothesis import strategies as st
from werkzeug.datastructures import MultiDict
from werkzeug.routing import BaseConverter, BuildError, Map, Rule, ValidationError
from werkzeug.routing.converters import IntegerConverter

from flask_sitemapx.errors import InvalidEntry
from flask_sitemapx.protocol.locs import PLACEHOLDER, BaseUrl
from flask_sitemapx.sources import urls
from flask_sitemapx.sources.urls import UrlBuilder

LEGAL = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,/:;=@?]|%[0-9A-F]{2})*")


class ListConverter(BaseConverter):
    """Quotes by itself."""

    def to_url(self, value):
        return "+".join(super(ListConverter, self).to_url(item) for item in value)


class SlugConverter(BaseConverter):
    """Lets Werkzeug try the next rule."""

    def to_url(self, value):
        if not re.fullmatch("[a-z0-9-]+", value):
            raise ValidationError
        return value


class RawConverter(BaseConverter):
    """Does not quote."""

    def to_url(self, value):
        return str(value)


class NumberedConverter(BaseConverter):
    """Gives no text; Werkzeug cannot join it."""

    def to_url(self, value):
        return 5


class HexConverter(IntegerConverter):
    """Inherits to_url, and changes what it does."""

    num_convert = staticmethod(lambda value: hex(int(value)))


CONVERTERS = {
    "list": ListConverter,
    "slug": SlugConverter,
    "raw": RawConverter,
    "numbered": NumberedConverter,
    "hex": HexConverter,
}


Colour = Enum("Colour", {"RED": "red"}, type=str)  # str() of it is not what it holds


class Shouting(str):
    def __str__(self):
        return "NOT WHAT IT HOLDS &"


CLEAN = ["a", "abc", "some-slug-1", "x_y.z~", "de", "en", "2", "12", "1.5", 0, 1, 7, 1234, 99999]
ODD = [
    "", ".", "..", "/", "/x", "//x/", "a/b", "a b", " a", "a\n", "é", "日本", "😀", "%", "%41", "100%", "a+b", "&", "'",
    '"', "<b>", "a&b=c", "it's", "?", "#", "a?b#c", "{x}", "%s", "\x00", "\x7f", "\ud800", "[1]", "a:b", "a;b", "a,b",
    "!$()*@", "x" * 3000, "é" * 700, -1, -70, 10**30, 10**5000, True, False, 0.5, 2.0, -0.0, 1e30, float("nan"),
    float("inf"), None, [], ["a"], ["a", "b c"], ("a", "&"), [None], [["x"]], {"a"}, set(), frozenset({"a"}), {},
    {"k": "v"}, b"bytes", b"\xff", bytearray(b"x"), UUID(int=5), UUID(int=2**127), Decimal("1.10"), Colour.RED,
    Shouting("quiet"), object,
]  # fmt: skip

PATHS = [
    "/", "/about", "/a b/é/", "/<a>", "/<a>/", "/<a>/<b>", "/<a>-<b>.html", "//<a>", "/x/<string(minlength=2):a>",
    "/<string(length=3):a>/y", "/x/<string(maxlength=4):a>", "/docs/<path:a>", "/<path:a>", "/<path:a>/edit",
    "/<path:a>/<path:b>", "/<any(de, en):a>/<b>", "/x/<any('a b', 'é', 'x&y', \"it's\", '<b>'):a>", "/<int:a>",
    "/x/<int:a>/<int:b>", "/x/<int(signed=True):a>", "/x/<int(fixed_digits=4):a>", "/x/<int(min=2, max=9):a>",
    "/x/<float:a>", "/<float(signed=True):a>/<b>", "/x/<uuid:a>", "/<uuid:a>/<b>", "/x/<list:a>", "/<list:a>/<b>",
    "/x/<slug:a>", "/<raw:a>", "/x/<raw:a>/<b>", "/x/<numbered:a>", "/<numbered:a>", "/x/<hex:a>", "/{x}/%s/100%/<a>",
    "/a b/<a>'s&\"<b>", "/%7Bx%7D/<a>?<b>#", "/日本/<a>",
]  # fmt: skip


def one(path, **options):
    return [Rule(path, endpoint="e", **options)]


# Several rules for one endpoint, or rules with something special about them.
SETS = {
    "a default": lambda: [Rule("/all", endpoint="e", defaults={"a": 1}), Rule("/all/<int:a>", endpoint="e")],
    "a default of a text": lambda: [Rule("/<a>", endpoint="e", defaults={"b": "x"}), Rule("/<a>/<b>", endpoint="e")],
    "a default in the rule": lambda: one("/p/<a>/<b>", defaults={"b": "a b"}),
    "stacked rules": lambda: [*one("/one"), *one("/one/<a>"), *one("/one/<a>/<b>"), *one("/two/<a>")],
    "a rule that gives way": lambda: [*one("/slug/<slug:a>"), *one("/any/<a>")],
    "rules of two types": lambda: [*one("/n/<int:a>"), *one("/s/<a>")],
    "an alias": lambda: [*one("/old/<a>", alias=True), *one("/new/<a>")],
    "a redirect": lambda: [*one("/old/<a>", redirect_to="new/<a>"), *one("/new/<a>")],
    "build only": lambda: one("/b/<a>", build_only=True),
    "POST first": lambda: [*one("/post/<a>/<b>", methods=["POST"]), *one("/get/<a>")],
    "POST only": lambda: one("/post/<a>", methods=["POST"]),
    "a websocket": lambda: one("/ws/<a>", websocket=True),
    "a websocket first": lambda: [*one("/ws/<a>/<b>", websocket=True), *one("/<a>")],
    "another subdomain": lambda: one("/<a>", subdomain="api"),
    "a variable subdomain": lambda: one("/<a>", subdomain="<b>"),
    "no rule": list,
}
HOSTS = {
    "this host": lambda: one("/<a>", host="example.com"),
    "another host": lambda: one("/<a>", host="example.org"),
    "a variable host": lambda: one("/<a>", host="<b>"),
    "two hosts": lambda: [*one("/one/<a>", host="example.org"), *one("/two/<a>", host="example.com")],
    "two hosts, this one first": lambda: [*one("/two/<a>", host="example.com"), *one("/one/<a>", host="example.org")],
}
SITES = ["https://example.com", "http://example.com/sub", "https://example.com:8443/sub/dir~x"]


def built(rules, site="https://example.com", inject=None, **options):
    """A builder for *rules* on *site*, and the adapter that it works with."""
    base = site if isinstance(site, BaseUrl) else BaseUrl.parse(site)
    url_map = Map(rules, converters=CONVERTERS, **options)
    scheme, host = base.origin.split("://")
    adapter = url_map.bind(host, script_name=base.mount or "/", url_scheme=scheme)
    return UrlBuilder(adapter, base, inject), adapter


def by_werkzeug(adapter, base, values):
    """The same by the shortest way, or None if there is no such URL on the site."""
    try:
        url = adapter.build("e", values, force_external=True)
    except Exception:
        return None
    root = base.origin + base.mount + "/"
    if not url.startswith(root):
        return None
    if LEGAL.fullmatch(url):
        return url.replace(root, base.text + "/", 1).replace("&", "&amp;").replace("'", "&apos;")
    try:
        return base.loc(url)
    except InvalidEntry:
        return None


def shown(locs):
    return [None if isinstance(loc, InvalidEntry) else loc for loc in locs]


def random_rows(chance, keys):
    """Rows of mostly one shape, in which the values are mostly, half or seldom ordinary."""
    odd = chance.choice([0, 0.02, 0.5])
    ordinary = chance.choice([CLEAN, CLEAN[:9], CLEAN[9:]])
    rows = []
    for _ in range(chance.choice([1, 5, 40])):
        chosen = keys if chance.random() < 0.95 else chance.sample("abqr&", chance.randrange(5))
        rows.append({key: chance.choice(ODD if chance.random() < odd else ordinary) for key in chosen})
    return rows


def compare(rules, chance, cases, site="https://example.com", **options):
    """Compares batches of random rows with Werkzeug's answers until there were *cases* of them."""
    base = site if isinstance(site, BaseUrl) else BaseUrl.parse(site)
    builder, adapter = built(rules, base, **options)
    while cases > 0:
        keys = chance.choice(["a", "ab", "ba", "abq", "aqr", "raq", "abq&", "", "q"])
        rows = random_rows(chance, list(keys))
        assert shown(builder.locs("e", rows)) == [by_werkzeug(adapter, base, row) for row in rows], rows
        cases -= len(rows)


@pytest.mark.parametrize("path", PATHS)
def test_a_rule_gives_what_werkzeug_gives(path, caplog):
    chance = random.Random(path)
    compare(one(path), chance, 1300)
    for site in SITES[1:]:
        compare(one(path), chance, 400, site)
    compare(one(path), chance, 200, PLACEHOLDER)
    assert not caplog.records


@pytest.mark.parametrize("name", SETS)
def test_several_and_special_rules_give_what_werkzeug_gives(name, caplog):
    compare(SETS[name](), random.Random(name), 1000)
    assert not caplog.records


@pytest.mark.parametrize("name", HOSTS)
def test_rules_with_hosts_give_what_werkzeug_gives(name, caplog):
    compare(HOSTS[name](), random.Random(name), 1000, host_matching=True)
    assert not caplog.records


def test_a_variable_host_that_is_named_like_this_host_is_a_variable(caplog):
    compare(one("/<a>", host="<b>"), random.Random(1), 200, "https://b", host_matching=True)
    assert not caplog.records


@pytest.mark.parametrize(
    "options",
    [
        {"sort_parameters": True},
        {"sort_parameters": True, "sort_key": lambda item: str(item[1])},
        {"merge_slashes": False},
        {"default_subdomain": "www"},
    ],
    ids=str,
)
def test_options_of_the_map_are_kept(options, caplog):
    for path in ["/<a>", "//<a>//<b>", "/x"]:
        compare(one(path), random.Random(path), 500, **options)
    assert not caplog.records


texts = st.text(max_size=8) | st.sampled_from(["a", "b-1"])
numbers = st.integers() | st.floats() | st.booleans() | st.none() | st.uuids()
values = texts | numbers | st.lists(texts, max_size=2) | st.binary(max_size=4)


@given(
    path=st.sampled_from(PATHS),
    rows=st.lists(st.dictionaries(st.sampled_from("abqr"), values, max_size=4), max_size=4),
    like_first=st.booleans(),
)
@settings(deadline=None)
def test_any_values_give_what_werkzeug_gives(path, rows, like_first):
    if like_first:
        rows = [{key: row.get(key, "x") for key in rows[0]} for row in rows]
    builder, adapter = built(one(path))
    expected = [by_werkzeug(adapter, BaseUrl.parse("https://example.com"), row) for row in rows]
    assert shown(builder.locs("e", rows)) == expected


@pytest.fixture
def app():
    app = Flask("shop", static_folder=None)
    app.config.update(SERVER_NAME="example.com", APPLICATION_ROOT="/shop", PREFERRED_URL_SCHEME="https")
    blog = Blueprint("blog", "blog", url_prefix="/<lang>")
    blog.add_url_rule("/<slug>", "article", lambda lang, slug: slug)
    app.register_blueprint(blog)
    app.add_url_rule("/files/<path:name>", "file", lambda name: name)
    return app


def of_flask(app, endpoint, rows):
    """What the builder gives on *app*, after it was seen to be what url_for gives or refuses."""
    base = BaseUrl.parse("https://example.com/shop")
    adapter = app.url_map.bind("example.com", script_name="/shop", url_scheme="https")
    locs = UrlBuilder(adapter, base, app.inject_url_defaults).locs(endpoint, rows)
    assert shown(locs) == [flask_url(app, endpoint, row) for row in rows]
    return locs


def flask_url(app, endpoint, row):
    with app.app_context():
        try:
            return url_for(endpoint, _external=True, **row).replace("&", "&amp;").replace("'", "&apos;")
        except Exception:
            return None


def test_locs_are_those_of_url_for(app):
    rows = [{"lang": "de", "slug": slug, "page": 2, "q": "a&b c"} for slug in ("a", "b c", "it's")]
    assert of_flask(app, "blog.article", rows) == [
        "https://example.com/shop/de/a?page=2&amp;q=a%26b+c",
        "https://example.com/shop/de/b%20c?page=2&amp;q=a%26b+c",
        "https://example.com/shop/de/it&apos;s?page=2&amp;q=a%26b+c",
    ]


def test_url_defaults_that_add_values_are_asked_once_per_set_of_keys(app):
    asked = []

    @app.url_defaults
    def add_language(endpoint, values):
        asked.append(endpoint)
        if "lang" not in values:
            values["lang"] = "fr"
        values["nothing"] = None

    rows = [{"slug": f"s{number}"} for number in range(30)]
    assert of_flask(app, "blog.article", rows)[-1] == "https://example.com/shop/fr/s29"
    assert len(asked) == 1 + len(rows)  # the latter by url_for
    given = [{"slug": "a", "lang": "de"}, {"slug": "b", "lang": "en"}, {"slug": "c"}]
    assert of_flask(app, "blog.article", given)[1] == "https://example.com/shop/en/b"


def change(values):
    values["name"] = values["name"].upper()


def replace(values):
    values["name"] = "same"


def remove(values):
    values.pop("q", None)


def delete(values):
    del values["q"]


def clear(values):
    values.clear()
    values["name"] = "new"


def reorder(values):
    values["name"] = values.pop("name")
    values["q"] = values.pop("q")


def derive(values):
    values["h"] = len(values.get("name", ""))


def derive_by_loop(values):
    values["h"] = "".join(str(value) for value in list(values.values()))


def derive_from_copy(values):
    values["h"] = {**values}["name"]


def ask_for_a_dict(values):
    if type(values) is dict:
        values["h"] = "dict"
    else:
        raise TypeError


def refuse_some(values):
    values["h"] = {"/a": 1, "b": 2}[values["name"]]


@pytest.mark.parametrize(
    "touch",
    [
        change,
        replace,
        remove,
        delete,
        clear,
        reorder,
        derive,
        derive_by_loop,
        derive_from_copy,
        ask_for_a_dict,
        refuse_some,
    ],
)
def test_url_defaults_that_depend_on_the_row_are_asked_for_each(app, touch):
    app.url_defaults(lambda endpoint, values: touch(values))
    of_flask(app, "file", [{"name": name, "q": q} for name, q in [("/a", 1), ("b", "x y"), ("ccc", None)]])


def test_url_defaults_that_fail_drop_the_row_with_the_reason(app):
    @app.url_defaults
    def fail(endpoint, values):
        raise LookupError("no language")

    for refused in of_flask(app, "file", [{"name": "a"}, {"name": "b"}]):
        assert refused.rule == "url-defaults"
        assert "LookupError: no language" in str(refused)
    assert refused.value == ("file", {"name": "b"})


def test_rows_are_left_as_they_were(app):
    app.url_defaults(lambda endpoint, values: values.clear())
    row = {"name": "a", "q": None}
    of_flask(app, "file", [row])
    assert row == {"name": "a", "q": None}


def test_one_bad_row_does_not_spoil_its_batch():
    builder, _ = built(one("/<int:a>"))
    rows: list[Any] = [{"a": number} for number in range(40)]
    rows[3] = {"a": "x"}
    rows[17] = {"b": 1}
    rows[30] = {"a": 10**5000}
    rows[33] = 5
    locs = builder.locs("e", rows)
    assert [place for place, loc in enumerate(locs) if isinstance(loc, InvalidEntry)] == [3, 17, 30, 33]
    assert locs[39] == "https://example.com/39"
    assert "invalid literal for int" in str(locs[3])
    assert "Did you forget to specify values ['a']" in str(locs[17])
    assert locs[33].rule == "url-values"


def test_only_the_neighbours_of_an_odd_row_are_left_to_werkzeug(monkeypatch):
    builder, adapter = built(one("/<a>"))
    builder.locs("e", [{"a": "x", "q": "y"}])
    monkeypatch.setattr(adapter, "build", Mock(wraps=adapter.build))
    rows = [{"a": "x", "q": ["y", "z"] if number == 100 else "y"} for number in range(512)]
    assert builder.locs("e", rows)[99:102] == [
        "https://example.com/x?q=y",
        "https://example.com/x?q=y&amp;q=z",
        "https://example.com/x?q=y",
    ]
    assert adapter.build.call_count == 16


def test_werkzeug_is_not_asked_for_what_is_compiled(monkeypatch):
    builder, adapter = built(one("/<a>/<int:b>"))
    rows = [{"a": "x y", "b": number, "q": "&"} for number in range(100)]
    first = builder.locs("e", rows)
    monkeypatch.delattr(type(adapter), "build")
    assert builder.locs("e", rows) == first
    assert builder.locs("e", [{**row, "z": None} for row in rows[:1]])[0].rule == "url-build"


def test_a_missing_value_and_none_are_the_same_thing():
    builder, _ = built(one("/<a>"))
    locs = builder.locs("e", [{"a": "x", "q": None}, {"a": "y", "q": 1}, {"a": None, "q": 1}])
    assert locs[:2] == ["https://example.com/x", "https://example.com/y?q=1"]
    assert locs[2].rule == "url-build"


def test_rows_with_and_without_a_value_are_compiled_alike(monkeypatch):
    builder, adapter = built(one("/<a>"))
    rows = [{"a": number, "q": None if number % 2 else "x"} for number in range(50)]
    first = builder.locs("e", rows)
    monkeypatch.delattr(type(adapter), "build")
    assert builder.locs("e", rows) == first


def test_mappings_of_every_kind_are_rows():
    builder, adapter = built(one("/<a>"))
    multiple = MultiDict([("a", "x"), ("q", "1"), ("q", "2")])
    assert builder.locs("e", (multiple, Colours())) == [
        adapter.build("e", multiple, force_external=True).replace("&", "&amp;"),
        "https://example.com/red",
    ]
    assert builder.locs("e", []) == []


class Colours(dict[str, str]):
    def __init__(self):
        super().__init__(a="red")


@pytest.mark.parametrize("name", ["_anchor", "_external", "_method", "_scheme"])
def test_parameters_of_url_for_are_refused_as_values(name):
    builder, _ = built(one("/<a>"))
    rows: list[dict[str, Any]] = [{"a": "x"}, {"a": "x", name: None}]
    good, bad = builder.locs("e", rows)
    assert good == "https://example.com/x"
    assert bad.rule == "url-build"
    assert f"{name} is no value" in str(bad)


def test_keys_that_are_no_texts_are_refused(caplog):
    builder, _ = built(one("/<a>"))
    good, bad = builder.locs("e", [{"a": "x"}, {"a": "x", 5: 1}])
    assert good == "https://example.com/x"
    assert bad.rule == "url-build"
    assert not caplog.records


def test_urls_of_other_hosts_are_refused():
    builder, _ = built([*one("/<a>", subdomain="api"), Rule("/ws", endpoint="ws", websocket=True)])
    assert [(loc.rule, loc.value) for loc in builder.locs("e", [{"a": "x"}])] == [
        ("loc-host", "https://api.example.com/x")
    ]
    assert [(loc.rule, loc.value) for loc in builder.locs("ws", [{}])] == [("loc-host", "wss://example.com/ws")]


def test_urls_of_a_site_without_a_name_begin_with_the_placeholder():
    builder, _ = built([*one("/<path:a>"), *one("/", subdomain="api")], PLACEHOLDER)
    locs = builder.locs("e", [{"a": "x", "q": "&"}, {"a": "//y"}, {}])
    assert locs[:2] == ["\0/x?q=%26", "\0/y"]
    assert locs[2].rule == "loc-host"


def test_what_a_converter_leaves_unquoted_is_encoded_or_refused():
    builder, _ = built(one("/<raw:a>"))
    locs = builder.locs("e", [{"a": text} for text in ("a b", "<é>", "50%", "a#b", "\0", "%41")])
    assert locs[:3] == ["https://example.com/a%20b", "https://example.com/%3C%C3%A9%3E", "https://example.com/50%25"]
    assert [loc.rule for loc in locs[3:5]] == ["loc-fragment", "loc-control-character"]
    assert locs[5] == "https://example.com/%41"


def test_werkzeugs_guess_at_what_was_meant_is_made_once_per_set_of_keys(monkeypatch):
    builder, _ = built(one("/<a>"))
    guess = Mock(return_value=None)
    monkeypatch.setattr(BuildError, "closest_rule", guess)
    refused = builder.locs("e", [{"b": number} for number in range(50)])
    assert {loc.rule for loc in refused} == {"url-build"}
    assert guess.call_count == 1


def rebound(**changes):
    """A builder over a rule whose internals are not what they were, and what Werkzeug makes of its rows."""
    builder, adapter = built(one("/<a>/<b>"))
    for name, value in changes.items():
        setattr(next(adapter.map.iter_rules()), name, value)
    rows = [{"a": "x", "b": "y", "q": number} for number in range(20)]
    expected = [adapter.build("e", row, force_external=True) for row in rows]
    return builder, rows, expected


OTHER_TRACES = {
    "other constants": [(False, "|"), (False, "/x/"), (True, "a"), (False, "/"), (True, "b")],
    "other variables": [(False, "|"), (False, "/"), (True, "b"), (False, "/"), (True, "a")],
    "unknown variables": [(False, "|"), (False, "/"), (True, "c")],
    "no bar": [(False, "/"), (True, "a"), (False, "/"), (True, "b")],
    "another form": [("|",), ("/",)],
    "nothing": None,
}


@pytest.mark.parametrize("name", OTHER_TRACES)
def test_a_compiled_rule_that_is_wrong_is_left_to_werkzeug_and_logged_once(name, caplog):
    builder, rows, expected = rebound(_trace=OTHER_TRACES[name])
    assert builder.locs("e", rows) == expected
    assert builder.locs("e", rows) == expected
    assert [record.name for record in caplog.records] == [urls.__name__]
    assert "URLs of endpoint 'e' with values ('a', 'b', 'q') are left to Werkzeug" in caplog.text


def test_canaries_notice_another_quoting_of_paths(monkeypatch, caplog):
    monkeypatch.setattr(BaseConverter, "to_url", lambda self, value: quote(str(value), safe=""))
    builder, _ = built(one("/<a>"))
    assert builder.locs("e", [{"a": "x"}]) == ["https://example.com/x"]
    assert builder.locs("e", [{"a": "x/y"}]) == ["https://example.com/x%2Fy"]
    assert "'https://example.com/a/b//c' of {'a': 'a/b//c'}, not 'https://example.com/a%2Fb%2F%2Fc'" in caplog.text


def test_canaries_notice_another_quoting_of_queries(monkeypatch, caplog):
    encode = Rule._encode_query_vars
    monkeypatch.setattr(Rule, "_encode_query_vars", lambda self, values: encode(self, values).replace("+", "%20"))
    builder, _ = built(one("/"))
    assert builder.locs("e", [{"q": "x"}]) == ["https://example.com/?q=x"]
    assert builder.locs("e", [{"q": "x y"}]) == ["https://example.com/?q=x%20y"]
    assert len(caplog.records) == 1


def test_canaries_notice_that_werkzeug_refuses_what_is_compiled(monkeypatch, caplog):
    monkeypatch.setattr(Rule, "suitable_for", lambda self, values, method=None: "x" in values.get("a", ""))
    builder, _ = built(one("/<a>"))
    assert builder.locs("e", [{"a": "x"}]) == ["https://example.com/x"]
    assert shown(builder.locs("e", [{"a": "y"}])) == [None]
    assert len(caplog.records) == 1


def test_at_least_eight_canaries_are_tried_for_every_default_converter():
    for name in ("string", "path", "any(de)", "int", "float", "uuid"):
        _, adapter = built(one(f"/<{name}:a>"))
        plan = urls._compiled(adapter, "e", ("a",), "https://example.com/", adapter.server_name)
        assert plan
        assert len(list(plan.canaries([{"a": "de"}]))) - 1 >= 8


def test_foreign_converters_are_tried_with_the_callers_values_only():
    seen = []

    class Converter(BaseConverter):
        def to_url(self, value):
            seen.append(value)
            return value

    adapter = Map(one("/<mine:a>"), converters={"mine": Converter}).bind("example.com", url_scheme="https")
    builder = UrlBuilder(adapter, BaseUrl.parse("https://example.com"))
    locs = builder.locs("e", [{"a": "x", "q": 1}, {"a": "y", "q": 2}])
    assert locs == ["https://example.com/x?q=1", "https://example.com/y?q=2"]
    assert set(seen) == {"x", "y"}


def test_more_shapes_than_are_kept_are_built_all_the_same(monkeypatch):
    monkeypatch.setattr(urls, "MAX_SHAPES", 2)
    asked = []
    builder, _ = built(one("/<a>"), inject=lambda endpoint, values: asked.append(values))
    good: list[dict[str, Any]] = [{"a": "x", f"k{number % 5}": number} for number in range(20)]
    locs = builder.locs("e", good + [{f"k{number}": 1} for number in range(5)])
    assert locs[:20] == [f"https://example.com/x?k{number % 5}={number}" for number in range(20)]
    assert {loc.rule for loc in locs[20:]} == {"url-build"}
    assert len(builder._plans) == len(builder._reasons) == 2
    assert len(asked) == 2 + 12 + 5
