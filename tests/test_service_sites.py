"""Many sites in one process: each is told by its host, and none has a part in the trouble of another."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from werkzeug.test import Client, TestResponse, create_environ, run_wsgi_app

from flask_sitemapx.service.configuration import configuration
from flask_sitemapx.service.sites import Sites
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("closed_pools")


def sites(text: str, directory: Path = Path("/srv"), **environ: str) -> Sites:
    return Sites(configuration(text, directory / "sitemap.toml", environ), environ)


def get(app: Sites, host: str, path: str = "/sitemap.xml", script_name: str = "") -> TestResponse:
    scripts = {"SCRIPT_NAME": script_name} if script_name else {}
    return Client(app).get(path, headers={"Host": host}, environ_overrides=scripts)


def site(name: str, base_url: str) -> str:
    header = f'[site.{name}]\nbase_url = "{base_url}"\n'
    return f'{header}[site.{name}.sections.pages]\ntype = "urls"\nurls = ["/of-{name}"]\n'


TWO = site("a", "https://a.example") + site("b", "http://b.example:8080")


@pytest.mark.parametrize("host", ["a.example", "A.Example", "a.example:8000", "a.example.", "a.example.:443"])
def test_a_host_is_known_by_its_name_whatever_the_port(host):
    assert "https://a.example/of-a<" in get(sites(TWO), host).text


@pytest.mark.parametrize("host", ["b.example", "b.example:8080"])
def test_a_base_url_may_have_a_port(host):
    assert "http://b.example:8080/of-b<" in get(sites(TWO), host).text


@pytest.mark.parametrize("host", ["c.example", "a.example.evil", "xa.example", "", "a.example:x", "127.0.0.1"])
@pytest.mark.parametrize("path", ["/sitemap.xml", "/robots.txt", "/"])
def test_an_unknown_host_is_refused(host, path):
    answer = get(sites(TWO), host, path)
    assert answer.status_code == 400
    assert "example" not in answer.text


@pytest.mark.parametrize("host", ["a.example", "10.0.0.1:8000", "anything"])
def test_a_site_alone_answers_under_any_host_by_its_own_name(host):
    app = sites(site("a", "https://a.example"))
    assert "https://a.example/of-a<" in get(app, host).text
    assert "Sitemap: https://a.example/sitemap.xml" in get(app, host, "/robots.txt").text


def test_ports_tell_apart_sites_of_one_name():
    app = sites(site("a", "http://localhost:8001") + site("b", "http://localhost:8002"))
    assert "of-a" in get(app, "localhost:8001").text
    assert "of-b" in get(app, "localhost:8002").text
    assert get(app, "localhost").status_code == 400


def test_mount_points_tell_apart_sites_of_one_host():
    app = sites(
        site("a", "https://x.example") + site("b", "https://x.example/shop") + site("c", "https://x.example/shop/ü")
    )
    assert "https://x.example/of-a<" in get(app, "x.example").text
    assert "https://x.example/shop/of-b<" in get(app, "x.example", "/shop/sitemap.xml").text
    assert "https://x.example/shop/%C3%BC/of-c<" in get(app, "x.example", "/shop/%C3%BC/sitemap.xml").text
    assert "https://x.example/shop/of-b<" in get(app, "x.example", "/sitemap.xml", script_name="/shop").text
    assert get(app, "x.example", "/shopping/sitemap.xml").status_code == 404


def test_a_mounted_site_alone_answers_with_its_mount_point_and_without():
    app = sites(site("b", "https://x.example/shop"))
    for path in ("/shop/sitemap.xml", "/sitemap.xml"):
        assert "https://x.example/shop/of-b<" in get(app, "x.example", path).text


def test_robots_are_each_sites_own():
    app = sites(TWO + '[site.a.robots]\ndisallow = ["/a"]\n[[site.a.robots.groups]]\nuser_agents = ["GPTBot"]\n')
    assert get(app, "a.example", "/robots.txt").text == (
        "User-agent: *\nDisallow: /a\n\nUser-agent: GPTBot\nDisallow:\n\nSitemap: https://a.example/sitemap.xml\n"
    )
    assert get(app, "b.example", "/robots.txt").text == (
        "User-agent: *\nDisallow:\n\nSitemap: http://b.example:8080/sitemap.xml\n"
    )


def test_paths_that_are_not_of_sitemaps_are_not_found():
    answer = get(sites(TWO), "a.example", "/x")
    assert (answer.status_code, answer.text) == (404, "Here are /sitemap.xml and /robots.txt.\n")


@pytest.mark.parametrize(("host", "path"), [("a.example", "/x"), ("c.example", "/sitemap.xml")])
def test_a_head_gets_no_body(host, path):
    environ = create_environ(path, f"http://{host}", method="HEAD")
    assert list(run_wsgi_app(sites(TWO), environ)[0]) == []


def test_a_section_that_cannot_be_had_leaves_its_last_entries_and_all_others(tmp_path):
    store = f'store = "file:{tmp_path}/sets"\n'
    code = '[site.a.sections.code]\ntype = "python"\nsource = "{}"\n'
    (tmp_path / "yielding_pages.py").write_text("def pages():\n    yield '/from-code'\n")
    sites(store + TWO + code.format("yielding_pages:pages"), tmp_path)["a"].refresher().build()
    app = sites(store + TWO + code.format("yielding_pages:gone"), tmp_path)
    app["a"].refresher().build()
    assert "from-code" in get(app, "a.example").text
    assert "of-a" in get(app, "a.example").text
    assert "has no attribute 'gone'" in str(app["a"].refresher().error)
    assert "of-b" in get(app, "b.example").text


def test_a_site_whose_first_build_fails_is_alone_in_that(caplog):
    app = sites(TWO + '[site.a.sections.code]\ntype = "python"\nsource = "not_there:pages"\n')
    assert get(app, "a.example").status_code == 503
    assert get(app, "a.example", "/robots.txt").status_code == 200
    assert "of-b" in get(app, "b.example").text
    assert "No module named 'not_there'" in caplog.text


def test_a_site_whose_source_hangs_is_alone_in_that(tmp_path):
    (tmp_path / "hanging_pages.py").write_text(
        "from threading import Event\nover = Event()\ndef pages():\n    over.wait(60)\n    yield '/at-last'\n"
    )
    code = '[site.a.sections.code]\ntype = "python"\nsource = "hanging_pages:pages"\n'
    app = sites("build_wait = 0\n" + TWO + code, tmp_path)
    app["b"].refresher().build()
    assert get(app, "a.example").status_code == 503
    assert get(app, "a.example", "/robots.txt").status_code == 200
    assert "of-b" in get(app, "b.example").text
    until(lambda: hasattr(sys.modules.get("hanging_pages"), "over"))
    sys.modules["hanging_pages"].over.set()
    until(lambda: "at-last" in get(app, "a.example").text)


def test_a_site_whose_store_fails_is_alone_in_that():
    app = sites(TWO.replace("[site.a.s", 'store = "redis://127.0.0.1:1"\n[site.a.s'))
    assert get(app, "a.example").status_code == 503
    assert get(app, "a.example", "/robots.txt").status_code == 200
    assert "of-b" in get(app, "b.example").text


def test_the_bindings_are_there_by_name():
    app = sites(TWO)
    assert list(app) == ["a", "b"]
    assert app["a"].status()["base_url"] == "https://a.example"
    assert app["b"].names() == ["pages"]
