"""Languages of an application: an entry for each, and the whole set of alternates in each entry."""

from __future__ import annotations

import re
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Blueprint, Flask, g
from flask_babel import Babel
from sqlalchemy.pool import StaticPool
from werkzeug.test import Client

from flask_sitemapx import Registry, Sitemap, SitemapMiddleware
from flask_sitemapx.errors import ConfigurationError

BASE = "https://example.com"


def site(base: str | None = BASE, **config: Any) -> Flask:
    app = Flask(__name__, subdomain_matching="SERVER_NAME" in config)
    app.config.update(SITEMAP_BASE_URL=base, SITEMAP_ROUTES="all", SITEMAP_ON_ERROR="raise", SITEMAP_BUILD_WAIT=60)
    app.config.update({"SITEMAP_LANGUAGES": ["en", "de-AT"], **config})
    return app


def entries(app: Flask, path: str = "/sitemap.xml", base: str = BASE) -> dict[str, dict[str, str]]:
    """The alternates of each path that is listed, both without the name of the site."""
    answer = app.test_client().get(path, base_url=base)
    assert answer.status_code == 200, answer.text
    found = re.findall(r"<url><loc>(.*?)</loc>(.*?)</url>", answer.text)
    links = re.compile(r'hreflang="(.*?)" href="(.*?)"')
    return {
        loc.removeprefix(base): {code: href.removeprefix(base) for code, href in links.findall(rest)}
        for loc, rest in found
    }


def view(**values: Any) -> str:
    return "a page"


ABOUT = {"en": "/en/about", "de-AT": "/de-AT/about", "x-default": "/en/about"}


def test_a_route_that_lacks_only_the_language_is_listed_in_each():
    app = site()
    app.add_url_rule("/<lang_code>/about", "about", view)
    app.add_url_rule("/imprint", "imprint", view)
    app.add_url_rule("/<lang_code>/<slug>", "article", view)
    sitemap = Sitemap(app)
    assert entries(app) == {"/en/about": ABOUT, "/de-AT/about": ABOUT, "/imprint": {}}
    explained = {one.endpoint: one for one in sitemap.explain_routes()}
    assert explained["about"][1:] == ("/en/about", True, "all are listed, 2 addresses")
    assert explained["article"].reason == "it needs slug"


def test_a_short_address_of_the_default_language_is_taken():
    app = site()
    app.add_url_rule("/about", "about", view, defaults={"lang_code": "en"})
    app.add_url_rule("/<lang_code>/about", "about", view)
    Sitemap(app)
    about = {"en": "/about", "de-AT": "/de-AT/about", "x-default": "/about"}
    assert entries(app) == {"/about": about, "/de-AT/about": about}


def test_the_pattern_of_flask_s_documentation_works():
    app = site(SITEMAP_LANGUAGES=["en", "de"])

    @app.url_defaults
    def add_language(endpoint: str, values: dict[str, Any]) -> None:
        if "lang_code" in values or not g.lang_code:
            return
        if app.url_map.is_endpoint_expecting(endpoint, "lang_code"):
            values["lang_code"] = g.lang_code

    @app.url_value_preprocessor
    def pull_language(endpoint: str | None, values: dict[str, Any] | None) -> None:
        g.lang_code = (values or {}).pop("lang_code", None)

    app.add_url_rule("/<lang_code>/about", "about", view)
    app.add_url_rule("/imprint", "imprint", view)
    sitemap = Sitemap(app)
    sitemap.section("articles")(lambda: [("about", {"part": 1})])
    about = {"en": "/en/about", "de": "/de/about", "x-default": "/en/about"}
    found = entries(app)
    assert found["/de/about"] == about
    assert found["/imprint"] == {}
    assert "/en/about?part=1" in found
    assert [one.url for one in sitemap.explain_routes() if one.listed] == ["/en/about", "/imprint"]


def test_the_blueprint_of_flask_s_documentation_works():
    app = site(SITEMAP_LANGUAGES=["en", "de"])
    outer, inner = Blueprint("outer", __name__, url_prefix="/<lang_code>"), Blueprint("inner", __name__)

    @outer.url_defaults
    def add_language(endpoint: str, values: dict[str, Any]) -> None:
        values.setdefault("lang_code", g.lang_code)

    @outer.url_value_preprocessor
    def pull_language(endpoint: str | None, values: dict[str, Any] | None) -> None:
        g.lang_code = (values or {}).pop("lang_code")

    inner.add_url_rule("/about", "about", view)
    outer.register_blueprint(inner)
    app.register_blueprint(outer)
    Sitemap(app)
    about = {"en": "/en/about", "de": "/de/about", "x-default": "/en/about"}
    assert entries(app) == {"/en/about": about, "/de/about": about}


def test_what_takes_more_from_an_address_than_its_language_does_no_harm():
    app = site(SITEMAP_LANGUAGES=["en", "de"])
    app.url_defaults(lambda endpoint, values: None)
    app.url_value_preprocessor(lambda endpoint, values: values.pop("slug"))
    app.add_url_rule("/<lang_code>/<slug>", "article", view)
    Sitemap(app).section("articles")(lambda: [("article", {"slug": "one"})])
    assert [*entries(app)] == ["/en/one", "/de/one"]


@pytest.mark.parametrize("base", [BASE, "https://example.com/shop", None])
def test_entries_of_a_section_are_spread_wherever_the_site_is(base):
    app = site(base)
    app.add_url_rule("/<lang_code>/<path:slug>", "article", view)
    Sitemap(app).section("articles")(lambda: [("article", {"slug": "a b&c"}, None, None, 0.5)])
    found = entries(app, base=base or "http://localhost")
    prefixed = {code: f"/{language}/a%20b&amp;c" for code, language in (("en", "en"), ("de-AT", "de-AT"))}
    assert found == dict.fromkeys(prefixed.values(), prefixed | {"x-default": prefixed["en"]})


def test_an_item_may_be_in_some_languages_only():
    app = site(SITEMAP_LANGUAGES=["en", "de", "tr"])
    app.add_url_rule("/<lang_code>/<slug>", "article", view)

    @Sitemap(app).section("articles", languages=lambda values: ["en"] if values["slug"] == "one" else None)
    def articles():
        yield "article", {"slug": "one"}
        yield "article", {"slug": "two"}, None, None, None, {"languages": ["tr", "de"]}
        yield "article", {"slug": "three"}
        yield "article", {"slug": "four", "lang_code": "tr"}

    found = entries(app)
    assert found["/en/one"] == found["/tr/four"] == {}
    assert found["/de/two"] == found["/tr/two"] == {"de": "/de/two", "tr": "/tr/two"}
    assert len(found["/tr/three"]) == 4
    assert len(found) == 1 + 2 + 3 + 1


def test_an_item_in_no_language_of_the_site_is_counted():
    app = site(SITEMAP_LANGUAGES=["en", "pt_BR"], SITEMAP_ON_ERROR="skip")
    app.add_url_rule("/<lang_code>/<slug>", "article", view)
    items = [("article", {"slug": code}, None, None, None, {"languages": [code]}) for code in ("pt-BR", "fr")]
    sitemap = Sitemap(app)
    sitemap.section("articles")(lambda: items)
    assert [*entries(app)] == ["/pt_BR/pt-BR"]
    assert sitemap.build().sections["articles"].problems["url-build"][0] == 1


def test_an_entry_s_own_alternates_stay():
    app = site()
    app.add_url_rule("/<lang_code>/<slug>", "article", view)
    own = {"en": "/en/one", "fr": "https://example.fr/un"}
    item = ("article", {"slug": "one"}, None, None, None, {"alternates": own, "languages": "en"})
    Sitemap(app).section("articles")(lambda: [item])
    assert entries(app) == {"/en/one": own}


def test_rows_of_a_table_are_spread_too():
    engine = sa.create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    table = sa.Table(
        "article", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("only", sa.Text)
    )
    table.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(sa.insert(table), [{"id": 1, "only": None}, {"id": 2, "only": "de-AT"}])
    app = site()
    app.add_url_rule("/<lang_code>/<int:number>", "article", view)
    values = {"number": table.c.id}
    Sitemap(app).table(
        "articles", key=table.c.id, endpoint="article", values=values, languages=table.c.only, bind=engine
    )
    one = {"en": "/en/1", "de-AT": "/de-AT/1", "x-default": "/en/1"}
    assert entries(app) == {"/en/1": one, "/de-AT/1": one, "/de-AT/2": {}}
    engine.dispose()


def test_a_language_on_another_host_is_an_alternate_and_no_entry():
    app = site(None, SERVER_NAME="example.com", PREFERRED_URL_SCHEME="https", SITEMAP_BASE_URL="https://en.example.com")
    app.add_url_rule("/about", "about", view, subdomain="<lang_code>")
    app.config["SITEMAP_LANGUAGES"] = ["en", "de"]
    Sitemap(app)
    found = entries(app, base="https://en.example.com")
    assert found == {"/about": {"en": "/about", "de": "https://de.example.com/about", "x-default": "/about"}}


def test_each_language_may_have_a_base_url_of_its_own():
    bases = {"en": "https://example.com", "de": "https://beispiel.example/shop"}
    app = site(SITEMAP_LANGUAGES=bases)
    app.add_url_rule("/about", "about", view)

    @Sitemap(app).section("more")
    def more():
        yield "/path?a&b"
        yield {"loc": "https://example.com/only", "languages": ["en"]}

    found = entries(app)
    assert found["/about"] == {"en": "/about", "de": f"{bases['de']}/about", "x-default": "/about"}
    assert found["/path?a&amp;b"]["de"] == f"{bases['de']}/path?a&amp;b"
    assert found["/only"] == {}


def test_a_middleware_has_languages_with_addresses_of_their_own():
    registry = Registry()
    registry.section("pages")(lambda: ["/about"])
    bases = {"en": BASE, "de": "https://beispiel.example"}
    middleware = SitemapMiddleware(lambda *_: [], registry, base_url=BASE, languages=bases, build_wait=60)
    text = Client(middleware).get("/sitemap.xml").text
    assert 'hreflang="de" href="https://beispiel.example/about"' in text


def test_the_languages_of_flask_babel_are_taken(tmp_path):
    for language in ("tr", "pt_BR"):
        (tmp_path / language / "LC_MESSAGES").mkdir(parents=True)
        (tmp_path / language / "LC_MESSAGES" / "messages.mo").write_bytes(b"")
    app = site(SITEMAP_LANGUAGES=None)
    Babel(app, default_locale="en", default_translation_directories=str(tmp_path))
    app.add_url_rule("/<lang_code>/about", "about", view)
    Sitemap(app)
    about = {"en": "/en/about", "pt-BR": "/pt_BR/about", "tr": "/tr/about", "x-default": "/en/about"}
    assert entries(app)["/pt_BR/about"] == about


def test_another_name_of_the_argument_may_be_set():
    app = site(SITEMAP_LANGUAGE_ARGUMENT="locale")
    app.add_url_rule("/<locale>/about", "about", view)
    app.add_url_rule("/<lang_code>/other", "other", view)
    Sitemap(app)
    assert [*entries(app)] == ["/en/about", "/de-AT/about"]


@pytest.mark.parametrize("languages", [["en", "xx"], ["en_"], {"en": "example.com"}, {"en", "de"}, 7])
def test_what_are_no_languages_is_told_at_once(languages):
    app = site(SITEMAP_LANGUAGES=languages)
    with pytest.raises(ConfigurationError, match="SITEMAP_LANGUAGES"):
        Sitemap(app).build()


def test_other_languages_make_another_set(tmp_path):
    app = site(SITEMAP_STORE=f"file:{tmp_path}")
    app.add_url_rule("/<lang_code>/about", "about", view)
    Sitemap(app).build()
    other = site(SITEMAP_STORE=f"file:{tmp_path}", SITEMAP_LANGUAGES=["en", "tr"])
    other.add_url_rule("/<lang_code>/about", "about", view)
    Sitemap(other)
    assert [*entries(other)] == ["/en/about", "/tr/about"]


def test_the_environment_may_name_languages_and_their_addresses(monkeypatch):
    monkeypatch.setenv("SITEMAP_LANGUAGES", "en=https://example.com, de=https://example.de")
    app = site(SITEMAP_LANGUAGES=None)
    app.add_url_rule("/about", "about", view)
    Sitemap(app)
    assert entries(app)["/about"]["de"] == "https://example.de/about"
