"""`create_app`: where the file is looked for, what there is without one, and what lasts when it breaks."""

from __future__ import annotations

import pytest
from werkzeug.test import Client, create_environ, run_wsgi_app

from flask_sitemapx.errors import ConfigurationError
from flask_sitemapx.service import application, create_app
from flask_sitemapx.service.application import remember

pytestmark = pytest.mark.usefixtures("closed_pools")

PAGES = 'base_url = "https://{}.example"\n[sections.pages]\ntype = "urls"\nurls = ["/"]\n'


@pytest.fixture(autouse=True)
def nothing_remembered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    application._remembered.clear()


def listed(app) -> str:
    return Client(app).get("/sitemap.xml").text


def test_the_file_is_that_of_the_argument_else_of_the_environment_else_of_the_directory(tmp_path):
    for name in ("sitemap.toml", "b.toml", "c.toml"):
        (tmp_path / name).write_text(PAGES.format(name[0]))
    assert "https://s.example/<" in listed(create_app(environ={}))
    assert "https://b.example/<" in listed(create_app(environ={"SITEMAP_CONFIG": "b.toml"}))
    assert "https://c.example/<" in listed(create_app(tmp_path / "c.toml", environ={"SITEMAP_CONFIG": "b.toml"}))


def test_without_a_file_it_is_said_what_to_write(caplog):
    client = Client(create_app(environ={}))
    assert 'base_url = "https://www.example.com"' in client.get("/").text
    assert client.get("/robots.txt").text == "User-agent: *\nDisallow:\n"
    answer = client.get("/sitemap.xml")
    assert (answer.status_code, answer.text) == (404, "There is no sitemap.toml yet; / says what to write.\n")
    assert "`flask-sitemapx init` writes one" in caplog.text


def test_without_a_file_too_a_head_gets_no_body():
    for path in ("/", "/robots.txt", "/sitemap.xml"):
        assert list(run_wsgi_app(create_app(environ={}), create_environ(path, method="HEAD"))[0]) == []


def test_what_is_said_to_be_written_can_be_used(tmp_path):
    text = Client(create_app(environ={})).get("/").text
    lines = [line.removeprefix("    ") for line in text.split("\n") if line.startswith("    ")]
    (tmp_path / "sitemap.toml").write_text("\n".join(lines))
    assert "https://www.example.com/about<" in listed(create_app(environ={}))


def test_a_file_that_is_named_has_to_be_there(tmp_path):
    with pytest.raises(ConfigurationError, match=r"b\.toml cannot be read: No such file"):
        create_app("b.toml", environ={})
    (tmp_path / "b.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match=r"b\.toml cannot be read: 'utf-8' codec"):
        create_app("b.toml", environ={})


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "sitemap.toml").write_text(PAGES.format("a"), "utf-8-sig")
    assert "https://a.example/<" in listed(create_app(environ={}))


def test_a_file_that_cannot_be_used_is_no_service(tmp_path):
    (tmp_path / "sitemap.toml").write_text("base_ur = 1\n")
    with pytest.raises(ConfigurationError, match=r"sitemap\.toml, line 1: base_ur is unknown"):
        create_app(environ={})
    with pytest.raises(ConfigurationError, match="line 1"):
        remember({})


@pytest.mark.parametrize("broken", ["base_url = 1", None], ids=["broken", "gone"])
def test_a_remembered_file_lasts_until_another_can_be_used(tmp_path, caplog, broken):
    file = tmp_path / "sitemap.toml"
    file.write_text(PAGES.format("old"))
    remember({})
    if broken is None:
        file.unlink()
    else:
        file.write_text(broken)
    remember({})
    assert "the last file goes on being served" in caplog.text
    assert "https://old.example/<" in listed(create_app(environ={}))
    file.write_text(PAGES.format("new"))
    assert "https://old.example/<" in listed(create_app(environ={}))  # as all workers have it, until they are told
    remember({})
    assert "https://new.example/<" in listed(create_app(environ={}))


def test_a_file_may_come_after_the_start(tmp_path):
    remember({})
    assert not create_app(environ={}).sites
    (tmp_path / "sitemap.toml").write_text(PAGES.format("new"))
    remember({})
    assert "https://new.example/<" in listed(create_app(environ={}))


def test_the_sites_are_there_by_name(tmp_path):
    (tmp_path / "sitemap.toml").write_text(PAGES.format("a"))
    assert list(create_app(environ={}).sites) == ["a.example"]
