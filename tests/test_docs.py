"""README and docs: what they show runs, and gives what they say."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from flask import Flask
from werkzeug.test import Client

from flask_sitemapx.service import create_app as create_service
from flask_sitemapx.service.application import NAME
from flask_sitemapx.service.commands import main
from flask_sitemapx.service.configuration import configuration
from flask_sitemapx.settings import settings_table

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
KINDS = "GET|flask|flask-sitemapx|file|piece"
BLOCK = re.compile(rf"(?:^<!-- ({KINDS}) ([^\n]+) -->\n+)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = re.compile(rf"^<!-- (?:{KINDS}) ", re.MULTILINE)
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


class Shown(NamedTuple):
    """What a page shows of the program that it has come to: the answer to a GET, or what a command prints.

    The block stands below a comment: `<!-- GET /sitemap.xml -->`, `<!-- flask sitemap routes -->`, or, of the service,
    `<!-- flask-sitemapx build -->`. `<!-- file pages.csv -->` shows a file that is there from then on. Each block of
    TOML is a `sitemap.toml`, or, as `<!-- piece sitemap.toml -->`, stands below the last one.
    """

    program: list[str]
    files: dict[str, str]
    kind: str
    what: str
    text: str


def blocks(page: Path, language: str) -> list[str]:
    return [text for _, _, kind, text in BLOCK.findall(page.read_text()) if kind == language]


def run(program: list[str], name: str) -> dict[str, Any]:
    """The names that the blocks of *program* define, read from top to bottom."""
    names: dict[str, Any] = {"__name__": "documented"}
    for block in program:
        exec(compile(block, name, "exec", dont_inherit=True), names)  # noqa: S102
    return names


def shown(page: Path) -> Iterator[Shown]:
    program: list[str] = []
    files: dict[str, str] = {}
    for kind, what, language, text in BLOCK.findall(page.read_text()):
        if language == "python":
            program.append(text)
        elif language == "toml":
            files[NAME] = f"{files[NAME]}\n{text}" if kind == "piece" else text
            yield Shown([*program], {**files}, "toml", NAME, text)
        elif kind == "file":
            files[what] = text
        elif kind:
            yield Shown([*program], {**files}, kind, what, text)


def served(names: dict[str, Any], url: str) -> str:
    app = names.get("app")
    parts = urlsplit(url)
    client = app.test_client() if app else Client(create_service())
    answer = client.get(parts.path, base_url=f"{parts.scheme}://{parts.netloc}" if parts.netloc else None)
    assert answer.status_code == 200, answer.text
    return answer.text


def printed(names: dict[str, Any], arguments: str) -> str:
    app: Flask = names["app"]
    return app.test_cli_runner().invoke(args=shlex.split(arguments)).stdout


def printed_by_service(arguments: str) -> str:
    return CliRunner().invoke(main, shlex.split(arguments)).output


def check_toml(text: str) -> None:
    """Any variable is there, and so is a base URL."""
    names = re.findall(r"\$\{(\w+)\}", text)
    environ = {name: "rediss://documented" if name == "REDIS_URL" else "sqlite:///documented.db" for name in names}
    configuration(
        text, Path(NAME), environ if "[site." in text else environ | {"SITEMAP_BASE_URL": "https://a.example"}
    )


def pattern(text: str) -> str:
    """*text* as a regular expression, in which '…' stands for anything, such as a time or lines left out."""
    return "(?s:.*)".join(map(re.escape, text.split("…")))


@pytest.fixture(autouse=True)
def in_a_directory_of_its_own(tmp_path, monkeypatch, closed_pools):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SITEMAP_CONFIG", "")


@each_page
def test_the_python_of_a_page_runs_and_its_tests_pass(page):
    names = run(blocks(page, "python"), page.name)
    for test in [value for name, value in names.items() if name.startswith("test_")]:
        test()


@pytest.mark.parametrize(
    "example",
    [pytest.param(example, id=f"{page.name} {example.what}") for page in PAGES for example in shown(page)],
)
def test_what_a_page_shows_is_what_the_program_so_far_gives(example):
    names = run(example.program, "documented")
    for name, content in example.files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(content)
    if example.kind == "toml":
        check_toml(example.files[NAME])
        return
    if example.kind == "flask-sitemapx":
        text = printed_by_service(example.what)
    else:
        text = (served if example.kind == "GET" else printed)(names, example.what)
    assert re.fullmatch(pattern(example.text), text), text


@each_page
def test_each_mark_stands_before_what_it_shows(page):
    marked = [kind for kind, _, _, _ in BLOCK.findall(page.read_text()) if kind]
    assert len(MARK.findall(page.read_text())) == len(marked)


def test_the_smallest_program_serves_what_the_readme_shows():
    readme = ROOT / "README.md"
    client = run(blocks(readme, "python")[:1], "README.md")["app"].test_client()
    assert client.get("/sitemap.xml").text == blocks(readme, "xml")[0]
    assert client.get("/robots.txt").text == blocks(readme, "text")[0]


def test_the_program_of_the_readme_lists_what_it_says():
    client = run(blocks(ROOT / "README.md", "python"), "README.md")["app"].test_client()
    document = client.get("/sitemap.xml").text
    for expected in (
        "<loc>https://example.com/prices</loc><lastmod>2026-11-30</lastmod><priority>0.8</priority>",
        "<loc>https://example.com/blog/hello</loc><lastmod>2026-11-29</lastmod><changefreq>weekly</changefreq>",
        "<loc>https://example.com/blog/%C3%BCber%20uns</loc>",
        "<loc>https://example.com/blog/archive</loc>",
        "<loc>https://example.com/shop</loc><changefreq>weekly</changefreq><priority>0.3</priority>",
    ):
        assert expected in document
    assert "login" not in document
    assert "User-agent: CCBot" in client.get("/robots.txt").text


def test_the_settings_of_the_readme_are_those_of_the_code():
    assert (ROOT / "README.md").read_text().partition("<!-- settings -->\n")[2].strip() == settings_table()


@each_page
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_commands_of_the_readme_are_targets():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    commands = re.findall(r"^    make (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert commands == ["demo", "test"]
    assert set(commands) <= set(targets)
