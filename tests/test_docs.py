"""README and docs: what they show runs, and gives what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from flask_sitemapx.settings import settings_table

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def run(page: Path) -> dict[str, Any]:
    """The names that a page's Python defines, read from top to bottom."""
    names: dict[str, Any] = {"__name__": "documented"}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)  # noqa: S102
    return names


@each_page
def test_the_python_of_a_page_runs(page):
    run(page)


def test_the_smallest_program_serves_what_the_readme_shows():
    readme = ROOT / "README.md"
    names: dict[str, Any] = {"__name__": "documented"}
    exec(blocks(readme, "python")[0], names)  # noqa: S102
    client = names["app"].test_client()
    assert client.get("/sitemap.xml").text == blocks(readme, "xml")[0]
    assert client.get("/robots.txt").text == blocks(readme, "text")[0]


def test_the_program_of_the_readme_lists_what_it_says():
    client = run(ROOT / "README.md")["app"].test_client()
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
