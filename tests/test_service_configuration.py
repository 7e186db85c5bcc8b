"""The file and the environment: what is in force, and all that is wrong at once."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flask_sitemapx.errors import ConfigurationError
from flask_sitemapx.service.configuration import FORMS, Configuration, Site, configuration
from flask_sitemapx.service.kinds import TYPES
from flask_sitemapx.settings import Settings

PAGES = '[sections.pages]\ntype = "urls"\nurls = ["/"]\n'
BASE = 'base_url = "https://shop.example"\n'


def read(text: str, **environ: str) -> Configuration:
    return configuration(text, Path("/srv/site/sitemap.toml"), environ)


def only(text: str, **environ: str) -> Site:
    (site,) = read(text, **environ).sites.values()
    return site


def problems(text: str, **environ: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        read(text, **environ)
    return [line.removeprefix("sitemap.toml") for line in str(caught.value).split("\n")]


def test_a_file_describes_one_site():
    site = only(BASE + "max_urls = 100\n" + PAGES)
    assert (site.name, site.base.text) == ("shop.example", "https://shop.example")
    assert site.settings["max_urls"] == (100, "100", "line 2")
    assert list(site.sections) == ["pages"]


def test_everything_that_is_wrong_is_told_at_once_in_order_of_its_lines():
    text = """\
base_url = "https://shop.example"
max_url = 10
max_urls = "10"
index = "sometimes"
refresh = -1
[sections.pages]
type = "url"
[sections.articles]
type = "urls"
urls = [
    "/",
    { loc = "/a", prority = 1 },
]
limit = 3
[sections.Images]
type = "urls"
[sections.videos]
tpye = "urls"
[robots]
dissallow = ["/"]
allow = "/a"
[[robots.groups]]
user_agents = ["GPTBot"]
disallow = ["a"]
"""
    assert problems(text, SITEMAP_MAX_AGE="long") == [
        ": SITEMAP_MAX_AGE in the environment must be a number of seconds, 0 or more, not 'long'",
        ", line 2: max_url is unknown; did you mean 'max_urls'?",
        ", line 3: max_urls must be a whole number of at least 1 and at most 50000, not '10'",
        ", line 4: index must be one of 'auto', 'always', not 'sometimes'",
        ", line 5: refresh must be a number of seconds, 0 or more, not -1",
        ", line 6: sections.pages.urls is missing",
        ", line 7: sections.pages.type 'url' is unknown; did you mean 'urls'?",
        ", line 12: sections.articles.urls[1].prority is unknown; did you mean 'priority'?",
        ", line 14: sections.articles.limit is unknown; there are type, urls",
        ", line 15: section 'Images': a name is lower-case letters and digits, with single hyphens between them",
        ", line 15: sections.Images.urls is missing",
        ", line 17: sections.videos.tpye is unknown; did you mean 'type'?",
        ", line 20: robots.dissallow is unknown; did you mean 'disallow'?",
        ", line 21: robots.allow must be a list of texts, not '/a'",
    ]


def test_a_group_of_robots_is_checked_where_it_stands():
    text = f'{BASE}[[robots.groups]]\nuser_agents = ["GPT#"]\n[[robots.groups]]\n\ndisallow = ["a"]\n'
    first, second = problems(text)
    assert first.startswith(", line 3: robots.txt user agent 'GPT#' must be")
    assert second.startswith(", line 6: robots.txt disallow path 'a' must begin")


@pytest.mark.parametrize(
    ("text", "line"), [("a = 1\nb =\n", 2), ("a = 1\na = 2\n", 2), ("[b\n", 1), ("a = [\n1,\n", 3)]
)
def test_what_is_no_toml_is_told_with_its_line(text, line):
    (problem,) = problems(text)
    assert problem.startswith(f", line {line}: this is no TOML: ")


def test_the_environment_beats_the_file():
    site = only(BASE + "max_urls = 100\nrefresh = 5\n" + PAGES, SITEMAP_MAX_URLS="7", SITEMAP_REFRESH="")
    assert site.settings["max_urls"] == (7, "'7'", "environment SITEMAP_MAX_URLS")
    assert site.settings["refresh"].value == 5


def test_the_base_url_may_come_from_the_environment_alone():
    assert only(PAGES, SITEMAP_BASE_URL="https://www.example").base.text == "https://www.example"
    assert problems(PAGES) == [': base_url is missing; write base_url = "https://www.example.com" at the top']


def test_variables_stand_in_texts_of_any_depth():
    text = BASE + '[sections.pages]\ntype = "urls"\nurls = ["/${A}/$${A}", { loc = "/${B}" }]\n'
    assert only(text, A="x", B="y").sections["pages"].urls == ("/x/${A}", {"loc": "/y"})  # type: ignore[attr-defined]


def test_variables_that_are_not_there_are_told_with_their_lines():
    text = BASE + 'store = "${STORE}"\n[sections.pages]\ntype = "urls"\nurls = [\n"/${A}",\n"${ B }"]\n'
    assert problems(text) == [
        ", line 2: store needs the variable STORE, which the environment does not have",
        ", line 6: sections.pages.urls[0] needs the variable A, which the environment does not have",
        ", line 7: sections.pages.urls[1] holds '${ B }', which names no variable; for the signs write '$${'",
    ]


def test_no_error_shows_what_a_variable_holds():
    text = BASE + 'store = "${STORE}"\nindex = "${INDEX}"\n'
    told = "\n".join(problems(text, STORE="redis://user:sesame@[bad", INDEX="sesame"))
    assert "sesame" not in told
    assert ", line 3: index must be one of 'auto', 'always', not '${INDEX}'" in told


@pytest.mark.parametrize("address", ["redis://user:sesame@[bad", "redis:user:sesame@host", "disk://user:sesame@host"])
def test_no_password_of_an_address_is_told(address):
    (told,) = problems(BASE + 'store = "${STORE}"\n', STORE=address)
    assert "'${STORE}'" in told
    assert "user" not in told
    assert "sesame" not in "".join(problems(BASE, SITEMAP_STORE=address))


def test_an_address_with_a_colon_and_an_at_sign_is_no_password():
    text = BASE + '[sections.pages]\ntype = "urls"\nurls = ["https://shop.example:443/a/@b"]\n'
    assert only(text).sections


def test_secrets_belong_in_the_environment():
    text = BASE + 'admin_token = "x"\nstore = "redis://user:sesame@host"\n[databases]\nmain = "postgresql://a:b@h/d"\n'
    assert problems(text) == [
        ", line 2: admin_token is unknown here: a secret belongs in the environment",
        ", line 3: store holds a password; put that into the environment, and write ${ITS_NAME}",
        ", line 5: databases.main holds a password; put that into the environment, and write ${ITS_NAME}",
    ]
    filled = read(BASE + '[databases]\nmain = "postgresql://a:${B}@h/d"\n', B="b").databases["main"]
    assert filled == ("postgresql://a:b@h/d", "'postgresql://a:***@h/d'", "line 3")


def test_what_is_shown_of_an_address_in_the_environment_has_no_password():
    site = only(BASE, SITEMAP_STORE="redis://user:sesame@host/0")
    assert site.settings["store"].shown == "'redis://user:***@host/0'"


def test_a_site_has_what_stands_above_it_where_it_says_nothing_itself():
    text = (
        'max_urls = 100\nrobots.disallow = ["/a"]\n'
        + PAGES
        + '[site."a.example"]\n[site.b]\nbase_url = "https://b.example/shop"\nmax_urls = 5\nrobots.disallow = ["/b"]\n'
        + '[site.b.sections.news]\ntype = "urls"\nurls = []\n'
    )
    first, second = read(text).sites.values()
    assert (first.name, first.base.text) == ("a.example", "https://a.example")
    assert (second.name, second.base.text) == ("b", "https://b.example/shop")
    assert [site.settings["max_urls"].value for site in (first, second)] == [100, 5]
    assert [list(site.sections) for site in (first, second)] == [["pages"], ["news"]]
    assert [site.robots[0].disallow for site in (first, second)] == [("/a",), ("/b",)]


def test_several_sites_have_their_base_urls_to_themselves():
    sites = '[site."a.example"]\n[site."b.example"]\n'
    assert problems(BASE + sites) == [", line 1: base_url stands above the sites; each has its own"]
    assert problems(sites, SITEMAP_BASE_URL="https://c.example") == [
        ": SITEMAP_BASE_URL in the environment cannot be that of 2 sites; unset it"
    ]
    assert only('[site."a.example"]', SITEMAP_BASE_URL="https://c.example").base.text == "https://c.example"


def test_two_sites_of_one_base_url_are_refused():
    text = '[site."a.example"]\n[site.b]\nbase_url = "https://A.example/"\n'
    assert problems(text) == [", line 3: site.b.base_url is that of the site 'a.example', too"]


def test_a_site_whose_name_is_no_host_needs_a_base_url():
    assert problems('\n[site."a b"]\n')[0].startswith(', line 2: site."a b": base URL')


def test_a_base_url_is_checked_where_it_stands():
    assert problems('\nbase_url = "shop.example"')[0].startswith(", line 2: base_url: base URL 'shop.example': ")
    (problem,) = problems(BASE, SITEMAP_BASE_URL="shop.example")
    assert problem.startswith(": SITEMAP_BASE_URL in the environment: base URL")


def test_a_relative_store_is_beside_the_file():
    assert only(BASE + 'store = "file:sets"').settings["store"].value == "file:/srv/site/sets"
    assert only(BASE + 'store = "file:/sets"').settings["store"].value == "file:/sets"


def test_a_database_without_sqlalchemy_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    assert problems(BASE + '[databases]\nmain = "sqlite:///a.db"\n') == [
        ", line 3: databases.main needs SQLAlchemy: pip install 'flask-sitemapx[sql]'"
    ]


def test_a_database_that_is_not_in_the_file_is_told():
    section = '[sections.shop]\ntype = "sql"\ntable = "a"\nkey = "id"\nloc = "/{id}"\ndatabase = "stok"\n'
    told = ", line 7: sections.shop.database 'stok' is unknown; "
    assert problems(BASE + section) == [told + "there is no table 'databases'"]
    assert problems(BASE + section + '[databases]\nstock = "sqlite://"\n') == [told + "did you mean 'stock'?"]


def test_what_is_no_table_is_told():
    assert problems(BASE + 'sections = 1\nrobots = []\nsite.a = ""\ndatabases = 2\n') == [
        ", line 2: sections must be a table",
        ", line 3: robots must be a table",
        ", line 4: site.a must be a table",
        ", line 5: databases must be a table",
    ]


def test_a_store_of_no_known_kind_is_refused():
    (problem,) = problems(BASE + 'store = "disk"\n')
    assert problem.startswith(", line 2: store must be 'memory:', 'file:/a/directory'")
    assert problem.count("'disk'") == 1


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(below)}" for key, below in value.items()) + "}"
    return f"[{', '.join(map(toml, value))}]" if isinstance(value, list) else json.dumps(value)


KEYS = st.sampled_from(
    [*FORMS, *TYPES, "type", "loc", "source", "app", "pages", "sections", "site", "robots", "groups", "disallow"]
)
LEAVES = st.sampled_from([*TYPES, "", "/", "https://a.example", "memory:", "${A}", "a:b", "{a}", 0, 1.5, True, [], {}])
VALUES = st.recursive(LEAVES, lambda below: st.lists(below, max_size=2) | st.dictionaries(KEYS, below, max_size=4))


@given(st.dictionaries(KEYS, VALUES, max_size=6), st.dictionaries(KEYS, VALUES, max_size=5))
def test_whatever_is_written_is_taken_or_told(values, section):
    values["sections"] = {"pages": section}
    text = "".join(f"{json.dumps(key)} = {toml(value)}\n" for key, value in values.items())
    with suppress(ConfigurationError):
        read(text)


BAD = st.one_of(st.text(max_size=4), st.integers(), st.booleans(), st.floats(), st.none(), st.lists(st.text()))


@pytest.mark.parametrize("name", FORMS)
@given(value=BAD)
def test_the_form_of_a_setting_lets_through_only_what_the_setting_takes(name, value):
    try:
        checked = FORMS[name].read(value)
    except ValueError:
        return
    (spec,) = [spec for spec in fields(Settings) if spec.name == name]
    if name != "timezone":  # whose names no form can list
        spec.metadata["read"](checked)


def test_each_setting_is_one_of_the_file_or_of_flask():
    of_flask = {"routes", "include", "exclude", "words", "hooks", "languages", "language_argument"}
    assert FORMS.keys() == {spec.name for spec in fields(Settings)} - of_flask - {"robots"}


@pytest.mark.parametrize(("name", "least", "most"), [("max_urls", 1, 50_000), ("memory_limit", 1, None)])
def test_numbers_have_the_bounds_of_the_setting(name, least, most):
    (spec,) = [spec for spec in fields(Settings) if spec.name == name]
    for read in (FORMS[name].read, spec.metadata["read"]):
        assert read(least) == least
        with pytest.raises(ValueError, match="at least 1"):
            read(least - 1)
        if most is not None:
            with pytest.raises(ValueError, match="at most"):
                read(most + 1)
