"""`flask-sitemapx ...`: what its commands do, print and end with."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tomllib

import pytest
from click.testing import CliRunner, Result

from flask_sitemapx.service.commands import main
from flask_sitemapx.service.template import TEMPLATE
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("closed_pools")

PAGES = 'type = "urls"\nurls = ["/", "/about"]\n'
ONE = f'base_url = "https://a.example"\nstore = "file:sets"\n[sections.pages]\n{PAGES}'
TWO = f'store = "file:sets"\n[sections.pages]\n{PAGES}[site."a.example"]\n[site."b.example"]\n'


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SITEMAP_CONFIG", "")
    return tmp_path


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == code, result.output
    return result


def test_init_writes_a_file_that_can_be_used(directory):
    assert "sitemap.toml is written" in run("init").stdout
    run("build")
    assert run("list").stdout == "https://www.example.com/\nhttps://www.example.com/about\n"


def test_what_the_first_file_has_in_comments_can_be_used(directory):
    above, below = re.sub(r"^# (?=[\[\w]+.* = |\[)", "", TEMPLATE, flags=re.MULTILINE).split("[site.", 1)
    assert len(tomllib.loads(above)["sections"]) >= 4
    (directory / "sitemap.toml").write_text(above)
    run("config")
    (directory / "sitemap.toml").write_text("[site." + below)
    run("config")


def test_init_overwrites_nothing(directory):
    (directory / "sitemap.toml").write_text("mine")
    assert "is there already" in run("init", code=2).stderr
    assert (directory / "sitemap.toml").read_text() == "mine"


def test_init_says_what_is_in_the_way():
    assert "No such file or directory" in run("--config", "not/there.toml", "init", code=1).stderr


def test_build_prints_what_flask_sitemap_build_prints(directory):
    (directory / "sitemap.toml").write_text(ONE)
    head, *rows = run("build").stdout.splitlines()
    assert re.fullmatch(r"set 1 built in [\d.]+ s: 2 URLs", head)
    assert rows[0].split() == ["section", "URLs", "sitemaps", "changed", "seconds"]
    built = json.loads(run("build", "--json").stdout)
    assert (built["built"], built["count"]) == (True, 2)


def test_build_takes_a_section_and_a_budget(directory):
    (directory / "sitemap.toml").write_text(ONE + f"[sections.more]\n{PAGES}")
    run("build")
    (directory / "sitemap.toml").write_text((ONE + f"[sections.more]\n{PAGES}").replace("about", "us"))
    run("build", "--section", "more", "--budget", "60")
    assert run("list", "--section", "pages").stdout.endswith("/about\n")
    assert run("list", "--section", "more").stdout.endswith("/us\n")
    assert "there is no section 'less'" in run("build", "--section", "less", code=2).stderr


def test_a_section_that_fails_ends_a_build_with_1(directory):
    (directory / "sitemap.toml").write_text(ONE + '[sections.code]\ntype = "python"\nsource = "not_there:pages"\n')
    assert "section 'code': ModuleNotFoundError" in run("build", code=1).stderr


def test_all_sites_are_built_and_each_says_how_it_went(directory):
    broken = '[site."a.example".sections.code]\ntype = "python"\nsource = "not_there:pages"\n'
    (directory / "sitemap.toml").write_text(TWO + broken)
    result = run("build", code=1)
    assert re.fullmatch(r"\[a.example\]\n\[b.example\]\nset 1 built in [\d.]+ s: 2 URLs\n(?s:.*)", result.stdout)
    assert "not_there" in result.stderr
    assert run("list", "--site", "b.example").stdout == "https://b.example/\nhttps://b.example/about\n"


def test_one_site_is_built_by_its_name(directory):
    (directory / "sitemap.toml").write_text(TWO)
    assert json.loads(run("build", "--site", "b.example", "--json").stdout)["count"] == 2
    assert "the set of https://a.example is missing" in run("status", code=1).stderr
    assert (
        "there is no site 'c.example'; there are a.example, b.example"
        in run("build", "--site", "c.example", code=2).stderr
    )


@pytest.mark.parametrize("arguments", [["build", "--json"], ["export", "public"]])
def test_what_is_of_one_site_asks_for_its_name(directory, arguments):
    (directory / "sitemap.toml").write_text(TWO)
    assert "this is for one site at a time: --site a.example" in run(*arguments, code=2).stderr


def test_status_says_what_is_served(directory):
    (directory / "sitemap.toml").write_text(ONE)
    run("build")
    status = json.loads(run("status", "--json").stdout)
    assert [site["state"] for site in status["sites"]] == ["fresh"]


def test_a_set_in_memory_cannot_be_built_for_others(directory):
    (directory / "sitemap.toml").write_text(ONE.replace("file:sets", "memory:"))
    assert "the store is 'memory:'" in run("build", code=2).stderr
    assert "the store is 'memory:'" in run("worker", code=2).stderr


def test_config_says_what_is_in_force_and_where_it_stands(directory, monkeypatch):
    monkeypatch.setenv("SITEMAP_MAX_URLS", "7")
    monkeypatch.setenv("SITEMAP_STORE", "redis://user:sesame@host")
    monkeypatch.setenv("MAIN", "postgresql://user:sesame@host/main")
    (directory / "sitemap.toml").write_text(ONE + '[databases]\nmain = "${MAIN}"\n')
    lines = run("config").stdout.splitlines()
    assert lines[0] == f"# {directory}/sitemap.toml"
    for line in (
        "databases.main = '${MAIN}'  # line 7",
        '[site."a.example"]',
        "base_url = 'https://a.example'  # line 1",
        "max_urls = '7'  # environment SITEMAP_MAX_URLS",
        "store = 'redis://user:***@host'  # environment SITEMAP_STORE",
        "refresh = 3600.0  # default",
        "html = false  # default",
        "sections.pages = urls  # line 3",
    ):
        assert line in lines
    assert "sesame" not in "".join(lines)


@pytest.mark.parametrize("command", ["build", "serve", "config"])
def test_a_broken_file_ends_a_command_with_2_and_all_that_is_wrong(directory, command):
    (directory / "sitemap.toml").write_text("base_ur = 1\nstor = 2\n")
    assert run(command, code=2).stderr.splitlines()[:3] == [
        'Error: sitemap.toml: base_url is missing; write base_url = "https://www.example.com" at the top',
        "sitemap.toml, line 1: base_ur is unknown; did you mean 'base_url'?",
        "sitemap.toml, line 2: stor is unknown; did you mean 'store'?",
    ]


def test_without_a_file_commands_say_how_to_get_one():
    assert "`flask-sitemapx init` writes one" in run("build", code=2).stderr


def test_the_file_may_be_named(directory):
    (directory / "a.toml").write_text(ONE)
    assert "User-agent: *" in run("--config", "a.toml", "robots").stdout


@pytest.mark.parametrize("command", [[sys.executable, "-m", "flask_sitemapx"], ["flask-sitemapx"]])
def test_it_is_a_command_of_its_own_and_a_module(directory, command):
    beside = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))
    ran = subprocess.run(
        [*command, "--help"], capture_output=True, text=True, timeout=60, env={**os.environ, "PATH": beside}
    )
    assert ran.stdout.startswith("Usage: flask-sitemapx [OPTIONS] COMMAND")


def test_a_worker_keeps_sets_fresh_until_it_is_stopped(directory):
    (directory / "sitemap.toml").write_text("refresh = 1\n" + ONE)
    worker = subprocess.Popen([sys.executable, "-m", "flask_sitemapx", "worker"], stderr=subprocess.PIPE, text=True)
    try:
        until(lambda: [*(directory / "sets" / "state").glob("*.manifest.3")])
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    finally:
        worker.kill()
        assert worker.communicate()[1] == ""
