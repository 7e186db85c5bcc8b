"""The JSON Schema of `sitemap.toml` says what the service says."""

from __future__ import annotations

import json
import tomllib
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from flask_sitemapx.errors import ConfigurationError
from flask_sitemapx.service.configuration import RobotsTable, configuration
from flask_sitemapx.service.kinds import TYPES, kind_of
from flask_sitemapx.service.options import options_table
from flask_sitemapx.service.schema import schema
from flask_sitemapx.service.template import TEMPLATE

DOCS = Path(__file__).parent.parent / "docs"
BASE = 'base_url = "https://a.example"\n'
GOOD = [
    TEMPLATE,
    BASE + 'max_urls = 100\nhtml = true\nrefresh = 0.5\ntimezone = "Europe/Berlin"\non_error = "skip"\n',
    BASE
    + '[sections.pages]\ntype = "urls"\nurls = ["/", { loc = "/a", lastmod = 2026-11-30T10:00:00Z, priority = 1 }]\n',
    BASE + '[sections.code]\ntype = "python"\nsource = "shop.pages:pages"\nsection = "pages"\n',
    BASE + '[sections.shop]\ntype = "flask"\napp = "shop:create_app()"\nroutes = "all"\nexclude = ["admin.*"]\n',
    BASE + '[sections.a]\ntype = "sql"\ntable = "a"\nkey = ["x", "y"]\nloc = "/{x}/{y}"\n',
    BASE + '[sections.a]\ntype = "csv"\npath = "a.csv"\nloc = "/{x}"\ndelimiter = ";"\ncolumns = ["x"]\n',
    BASE + '[sections.a]\ntype = "jsonl"\npath = "a.jsonl.gz"\nloc = "{url}"\nlastmod = "changed"\n',
    BASE + '[sections.a]\ntype = "directory"\npath = "public"\nstrip = true\nexclude = ["*.pdf"]\n',
    BASE + '[sections.a]\ntype = "sitemap"\nurl = "https://b.example/sitemap.xml"\nprivate = true\n',
    '[site."a.example"]\nmax_age = 60\n[site."a.example".sections.pages]\ntype = "urls"\nurls = []\n',
    BASE + '[robots]\nallow = ["/a"]\ncrawl_delay = 1.5\n[[robots.groups]]\nuser_agents = ["A"]\nlines = ["A: b"]\n',
    BASE + '[databases]\nmain = "sqlite:///main.db"\n',
]
BAD = [
    BASE + "max_url = 100\n",
    BASE + "max_urls = 0\n",
    BASE + "max_urls = 50001\n",
    BASE + 'max_urls = "7"\n',
    BASE + "refresh = -1\n",
    BASE + "html = 1\n",
    BASE + 'store = ""\n',
    BASE + 'index = "sometimes"\n',
    BASE + "[sections.pages]\nurls = []\n",
    BASE + '[sections.pages]\ntype = "url"\nurls = []\n',
    BASE + '[sections.pages]\ntype = "urls"\n',
    BASE + '[sections.pages]\ntype = "urls"\nurls = [1]\n',
    BASE + '[sections.pages]\ntype = "urls"\nurls = [{ loc = "/", priority = 2 }]\n',
    BASE + '[sections.pages]\ntype = "urls"\nurls = [{ loc = "/", changefreq = "often" }]\n',
    BASE + '[sections.pages]\ntype = "urls"\nurls = [{ loc = "/", limit = 2 }]\n',
    BASE + '[sections.pages]\ntype = "urls"\nurls = []\nlimit = 1\n',
    BASE + '[sections.code]\ntype = "python"\nsource = "shop.pages"\n',
    BASE + '[sections.a]\ntype = "sql"\ntable = "a"\nkey = []\nloc = "/{x}"\n',
    BASE + '[sections.a]\ntype = "csv"\npath = "a.csv"\nloc = "/"\n',
    BASE + '[sections.a]\ntype = "directory"\npath = "public"\nlastmod = "always"\n',
    BASE + '[sections.shop]\ntype = "flask"\napp = "shop:app"\nroutes = "some"\n',
    BASE + "[robots]\ndisallow = 1\n",
    BASE + "[robots]\nuser_agents = []\n",
    BASE + "[[robots.groups]]\nagents = []\n",
    BASE + "[site]\na = 1\n",
    '[site."a.example"]\nsite = {}\n',
    BASE + "[databases]\nmain = 1\n",
]


def faults(text: str) -> list[Any]:
    plain = json.loads(json.dumps(tomllib.loads(text), default=_text))
    return [*Draft202012Validator(schema()).iter_errors(plain)]


def _text(value: date | datetime) -> str:
    return value.isoformat()


def test_the_published_schema_is_that_of_the_code():
    assert json.loads((DOCS / "sitemap.schema.json").read_text()) == schema()


def test_it_is_a_schema():
    Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("text", GOOD)
def test_it_takes_what_the_service_takes(text):
    configuration(text, Path("/srv/sitemap.toml"), {})
    assert not faults(text)


@pytest.mark.parametrize("text", BAD)
def test_it_refuses_what_the_service_refuses(text):
    with pytest.raises(ConfigurationError):
        configuration(text, Path("/srv/sitemap.toml"), {})
    assert faults(text)


def test_everything_is_described():
    properties = [found for found in _properties(schema()) if "$ref" not in found and "const" not in found]
    assert len(properties) > 40
    assert not [found for found in properties if not found.get("description")]


def _properties(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [found for one in value for found in _properties(one)]
    if not isinstance(value, dict):
        return []
    own = value.get("properties", {})
    is_url = "loc" in own and "type" not in own  # whose keys are those of sitemaps.org
    return [*([] if is_url else own.values()), *_properties([*value.values()])]


@pytest.mark.parametrize("name", [*TYPES, "robots"])
def test_the_reference_has_the_options_of_each_table(name):
    table = options_table(RobotsTable if name == "robots" else kind_of(name))
    assert f"<!-- options {name} -->\n\n{table}\n" in (DOCS / "reference-service.md").read_text()
