"""Sections of the types `urls`, `python` and `flask`, from the file to the sitemap."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from werkzeug.test import Client

from flask_sitemapx.errors import BuildFailed, ConfigurationError
from flask_sitemapx.service.configuration import configuration
from flask_sitemapx.service.sites import Sites

pytestmark = pytest.mark.usefixtures("closed_pools")

BASE = 'base_url = "https://a.example"\n'
CODE = """
from flask import Flask, g, url_for
from flask_sitemapx import Registry, Sitemap

registry, single, made = Registry(), Registry(), []

@registry.section("pages", lastmod="2026-11-30")
def pages():
    yield "/a"

@registry.section("news")
@single.section("news")
def news():
    yield {"loc": "/n", "priority": 0.5}

def entries():
    yield from ("/1", "/2")

async def later():
    yield "/later"

def create_app():
    app = Flask("shop")
    made.append(app)
    app.add_url_rule("/about", "about", lambda: "")
    app.add_url_rule("/login", "login", lambda: "")
    app.add_url_rule("/p/<slug>", "product", lambda slug: "")
    sitemap = Sitemap(app)

    @sitemap.section("products")
    def products():
        g.seen = True
        yield "product", {"slug": "\\N{LATIN SMALL LETTER U WITH DIAERESIS}"}
        yield url_for("product", slug="b")

    made.append(sitemap)
    return app

app = Flask("bare")
app.add_url_rule("/here", "here", lambda: "")
"""


@pytest.fixture(autouse=True)
def directory(tmp_path):
    """That of the file, with a module of the operator's."""
    (tmp_path / "shop_code.py").write_text(CODE)
    yield tmp_path
    sys.modules.pop("shop_code", None)
    sys.path[:] = [entry for entry in sys.path if entry != str(tmp_path)]


def sites(directory: Path, text: str) -> Sites:
    return Sites(configuration(BASE + text, directory / "sitemap.toml", {}), {})


def listed(directory: Path, text: str) -> list[str]:
    """The elements of each URL, without the site's name."""
    app = sites(directory, text)
    app["a.example"].refresher().build()
    found = re.findall(r"<url><loc>https://a\.example(.*)</url>", Client(app).get("/sitemap.xml").text)
    return [elements.replace("</loc>", "", 1) for elements in found]


def refused(directory: Path, text: str) -> str:
    """What a build of the section fails with."""
    with pytest.raises(BuildFailed) as caught:
        sites(directory, text)["a.example"].refresher().build()
    return str(caught.value)


def python(source: str, more: str = "", name: str = "code") -> str:
    return f'[sections.{name}]\ntype = "python"\nsource = "shop_code:{source}"\n{more}\n'


def flask(app: str, more: str = "") -> str:
    return f'[sections.shop]\ntype = "flask"\napp = "shop_code:{app}"\n{more}\n'


def test_urls_are_paths_urls_and_tables(directory):
    text = """[sections.pages]
type = "urls"
urls = ["/", "https://a.example/ü", { loc = "/x&y", lastmod = 2026-11-30, changefreq = "daily", priority = 0.3 },
  { loc = "/t", lastmod = 2026-11-30T10:00:00+01:00 }]
"""
    assert listed(directory, text) == [
        "/",
        "/%C3%BC",
        "/x&amp;y<lastmod>2026-11-30</lastmod><changefreq>daily</changefreq><priority>0.3</priority>",
        "/t<lastmod>2026-11-30T09:00:00Z</lastmod>",
    ]


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ("1", "[0] must be a path, a URL, or a table with loc, not 1"),
        ('{ lastmod = "2026" }', "[0] must be a path, a URL, or a table with loc"),
        ("{ loc = 1 }", "[0].loc must be text, not 1"),
        (
            '{ loc = "/", lastmod = "yesterday" }',
            "[0].lastmod must be a day or a time, such as 2026-11-30, not 'yesterday'",
        ),
        ('{ loc = "/", priority = 1.5 }', "[0].priority must be a number from 0 to 1, not 1.5"),
        ('{ loc = "/", changefreq = "often" }', "[0].changefreq must be one of 'always', 'hourly',"),
    ],
)
def test_urls_are_checked_one_by_one(directory, item, problem):
    with pytest.raises(ConfigurationError) as caught:
        sites(directory, f'[sections.pages]\ntype = "urls"\nurls = [\n{item}]\n')
    assert str(caught.value).startswith(f"sitemap.toml, line 5: sections.pages.urls{problem}")


def test_a_function_yields_entries(directory):
    assert listed(directory, python("entries")) == ["/1", "/2"]
    assert listed(directory, python("later")) == ["/later"]


def test_a_section_of_a_registry_is_that_of_the_same_name_or_the_named_or_the_only_one(directory):
    assert listed(directory, python("registry", name="pages")) == ["/a<lastmod>2026-11-30</lastmod>"]
    assert listed(directory, python("registry", 'section = "news"')) == ["/n<priority>0.5</priority>"]
    assert listed(directory, python("single")) == ["/n<priority>0.5</priority>"]


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        (python("registry"), "shop_code:registry has no section 'code'; there are pages, news"),
        (python("registry", 'section = "old"'), "shop_code:registry has no section 'old'; there are pages, news"),
        (python("made"), "shop_code:made is []; what is wanted is a function, or a Registry or Sitemap"),
        (python("entries", 'section = "a"'), "what is wanted is a function, or a Registry or Sitemap with its section"),
        (python("gone"), "module 'shop_code' has no attribute 'gone'"),
        (flask("entries"), "not a Flask application"),
        (flask("app", 'section = "products"'), "shop_code:app has no section 'products'; there are routes"),
    ],
)
def test_what_cannot_be_had_is_told_when_it_is_built(directory, section, problem):
    assert problem in refused(directory, section)


@pytest.mark.parametrize(
    "source", ["shop_code", "shop_code:", ":a", "shop code:a", "shop_code:a(1)", "shop_code:a()()"]
)
def test_what_is_no_import_string_is_told_at_the_start(directory, source):
    with pytest.raises(ConfigurationError, match=r"line 4: sections\.code\.source must be an import string"):
        sites(directory, python("x").replace("shop_code:x", source))


def test_the_url_map_of_an_application_is_a_section(directory):
    assert listed(directory, flask("app")) == ["/here"]
    assert listed(directory, flask("create_app()")) == ["/about"]


def test_which_views_are_listed_is_said_in_the_section(directory):
    assert listed(directory, flask("create_app()", 'routes = "all"')) == ["/about", "/login"]
    assert listed(directory, flask("create_app()", 'routes = "all"\nexclude = ["about"]')) == ["/login"]
    assert listed(directory, flask("create_app()", 'include = ["login"]\nwords = ["about"]')) == ["/login"]


def test_a_section_of_its_sitemap_is_read_in_the_context_of_the_application(directory):
    assert listed(directory, flask("create_app()", 'section = "products"')) == ["/p/%C3%BC", "/p/b"]


def test_a_sitemap_that_is_bound_to_an_application_is_read_in_its_context(directory):
    (directory / "shop_sitemap.py").write_text(
        "import shop_code\nshop_code.create_app()\nsitemap = shop_code.made[-1]\n"
    )
    text = python("x", 'section = "products"').replace("shop_code:x", "shop_sitemap:sitemap")
    assert listed(directory, text) == ["/p/%C3%BC", "/p/b"]
    del sys.modules["shop_sitemap"]


def test_an_application_is_made_once(directory):
    app = sites(directory, flask("create_app()"))
    for _ in range(3):
        app["a.example"].refresher().build()
    assert len(sys.modules["shop_code"].made) == 2
