"""robots.txt: what is written, and what other people's readers make of it."""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import quote
from urllib.robotparser import RobotFileParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protego import Protego
from usp.fetch_parse import IndexRobotsTxtSitemapParser
from usp.web_client.abstract_client import AbstractWebClient, AbstractWebClientResponse

from flask_sitemapx.errors import ConfigurationError
from flask_sitemapx.protocol.robots import CLOSED_TEXT, LONG_TEXT, LONGEST_SITEMAP, MAX_BYTES, Robots

SITE = "https://example.com"


@pytest.fixture
def robots() -> Robots:
    return Robots()


# What is written


def test_without_any_call_everything_is_allowed(robots):
    assert robots.text() == "User-agent: *\nDisallow:\n"


def test_sitemaps_stand_at_the_end_once_each(robots):
    text = robots.text([f"{SITE}/sitemap.xml", f"{SITE}/other.xml", f"{SITE}/sitemap.xml"])
    assert text == f"User-agent: *\nDisallow:\n\nSitemap: {SITE}/sitemap.xml\nSitemap: {SITE}/other.xml\n"


def test_lines_are_the_text_without_its_line_ends(robots):
    robots("GPTBot", disallow=["/"])
    robots(disallow=["/admin/"])
    assert robots.lines([f"{SITE}/sitemap.xml"]) == robots.text([f"{SITE}/sitemap.xml"]).splitlines()


def test_no_user_agent_means_every_crawler(robots):
    robots(disallow=["/admin/"])
    assert robots.lines() == ["User-agent: *", "Disallow: /admin/"]


def test_a_call_with_everything(robots):
    robots("GPTBot", "CCBot", allow=["/open/"], disallow=["/"], crawl_delay=10, lines=["Content-Signal: ai-train=no"])
    assert robots.lines() == [
        "User-agent: GPTBot",
        "User-agent: CCBot",
        "Allow: /open/",
        "Disallow: /",
        "Crawl-delay: 10",
        "Content-Signal: ai-train=no",
    ]


def test_calls_for_one_crawler_merge_whatever_the_case_of_its_name(robots):
    robots("GPTBot", disallow=["/a"], crawl_delay=5, lines=["Content-Signal: ai-train=no"])
    robots("gptbot", disallow=["/a", "/b"], crawl_delay=7, lines=["Content-Signal: ai-train=no", "X-Note: 1"])
    assert robots.lines() == [
        "User-agent: GPTBot",
        "Disallow: /a",
        "Disallow: /b",
        "Crawl-delay: 7",
        "Content-Signal: ai-train=no",
        "X-Note: 1",
    ]


def test_each_crawler_stands_in_one_group_though_calls_overlap(robots):
    robots("A", "B", disallow=["/x"])
    robots("B", disallow=["/y"])
    assert robots.lines() == ["User-agent: A", "Disallow: /x", "", "User-agent: B", "Disallow: /x", "Disallow: /y"]


def test_crawlers_with_equal_rules_share_a_group(robots):
    robots("A", disallow=["/x", "/y"])
    robots("B", disallow=["/z"])
    robots("C", disallow=["/y", "/x"])
    assert robots.lines()[:4] == ["User-agent: A", "User-agent: C", "Disallow: /x", "Disallow: /y"]


def test_rules_go_from_long_to_short_and_allow_first_on_a_tie(robots):
    robots(disallow=["/a/", "/a/b/c/"], allow=["/a/b/", "/d/"])
    assert robots.lines()[1:] == ["Disallow: /a/b/c/", "Allow: /a/b/", "Allow: /d/", "Disallow: /a/"]


@pytest.mark.parametrize("extra", [{}, {"crawl_delay": 3}, {"lines": ["Content-Signal: search=yes"]}])
def test_a_group_without_rules_allows_everything_and_does_not_run_into_the_next(robots, extra):
    robots("A", **extra)
    robots("B", disallow=["/"])
    lines = robots.lines()
    assert lines[:2] == ["User-agent: A", "Disallow:"]
    # Google knows four fields and skips the rest, so that agents with only other lines between them share rules.
    known = "\n".join(line for line in lines if line.startswith(("User-agent", "Allow", "Disallow")))
    assert Protego.parse(known).can_fetch(f"{SITE}/page", "A")


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("/caf\u00e9/", "/caf%C3%A9/"),
        ("/\u0646\u06cc\u200c\u0634", "/%D9%86%DB%8C%E2%80%8C%D8%B4"),
        ("/my folder/", "/my%20folder/"),
        ("/a#b", "/a%23b"),
        ("/100%", "/100%25"),
        ("/50%zz", "/50%25zz"),
        ("/done%20before%2A", "/done%20before%2A"),
        ("/q?a=1&b=[2];c,d", "/q?a=1&b=[2];c,d"),
        ('/<"|\\', "/%3C%22%7C%5C"),
        ("*.pdf$", "/*.pdf$"),
        ("/*/x$", "/*/x$"),
    ],
)
def test_paths_are_written_in_the_characters_of_a_uri(robots, written, printed):
    robots(disallow=[written])
    assert robots.lines()[1:] == [f"Disallow: {printed}"]


@pytest.mark.parametrize(
    ("seconds", "printed"), [(10, "10"), (10.0, "10"), (0.5, "0.5"), (0.00001, "0.00001"), (86_400, "86400")]
)
def test_a_crawl_delay_is_written_with_as_few_signs_as_possible(robots, seconds, printed):
    robots(crawl_delay=seconds)
    assert robots.lines()[-1] == f"Crawl-delay: {printed}"


@pytest.mark.parametrize("name", ["AI2Bot", "ChatGPT Agent", "iaskspider/2.0", "bigsur.ai", "x", "*"])
def test_names_in_use_beyond_the_product_token_are_taken(robots, name):
    robots(name, disallow=["/"])
    assert robots.lines()[0] == f"User-agent: {name}"


def test_a_free_line_is_written_with_one_space_after_the_colon(robots):
    robots(lines=["Clean-param:ref /shop/", "License :  https://example.com/license.xml"])
    assert robots.lines()[2:] == ["Clean-param: ref /shop/", "License: https://example.com/license.xml"]


@pytest.mark.parametrize("name", ["Sitemap", "sitemap", "Site-map", "Sitemaps"])
def test_a_free_line_for_a_sitemap_goes_to_the_end_of_the_file(robots, name):
    robots("A", lines=[f"{name}: https://blog.example.com/sitemap.xml"])
    robots("B", disallow=["/"])
    assert robots.lines([f"{SITE}/sitemap.xml"])[-3:] == [
        "",
        f"Sitemap: {SITE}/sitemap.xml",
        "Sitemap: https://blog.example.com/sitemap.xml",
    ]


def test_the_closed_text_allows_nothing_and_names_no_sitemap(robots):
    robots(allow=["/open/"], lines=[f"Sitemap: {SITE}/sitemap.xml"])
    assert robots.closed_text() == CLOSED_TEXT == "User-agent: *\nDisallow: /\n"
    read = Protego.parse(robots.closed_text())
    assert not read.can_fetch(f"{SITE}/open/", "GPTBot")
    assert not list(read.sitemaps)


def test_an_origin_that_is_filled_in_later_is_taken_for_a_sitemap(robots):
    assert robots.lines(["\0/sitemap.xml"])[-1] == "Sitemap: \0/sitemap.xml"


def test_each_call_changes_the_version_and_a_refused_one_changes_nothing(robots):
    versions = [robots.version]
    robots(disallow=["/a"])
    versions.append(robots.version)
    robots(disallow=["/b"])
    versions.append(robots.version)
    before = robots.text()
    with pytest.raises(ConfigurationError):
        robots(disallow=["/c", "no slash"])
    assert len(set(versions)) == 3
    assert (robots.version, robots.text()) == (versions[-1], before)


@pytest.fixture
def many_thread_switches():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("many_thread_switches")
def test_calls_from_many_threads_are_all_kept(robots):
    def add(worker: int) -> None:
        for number in range(20):
            robots(disallow=[f"/{worker}/{number}"])

    threads = [threading.Thread(target=add, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(robots.lines()) == 1 + 8 * 20
    assert robots.version == 8 * 20


# What is refused


def refuses(call: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        call(*args, **kwargs)
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


BREAKS = ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\0", "\t", "\x7f", "\ud800"]


@pytest.mark.parametrize("character", BREAKS)
def test_no_line_break_or_control_character_gets_in_anywhere(robots, character):
    injected = f"x{character}Disallow: /"
    assert repr(injected) in refuses(robots, injected)
    assert repr("/" + injected) in refuses(robots, disallow=["/" + injected])
    assert repr("/" + injected) in refuses(robots, allow=["/" + injected])
    assert repr("A: " + injected) in refuses(robots, lines=["A: " + injected])
    url = f"{SITE}/x{character}y"
    assert repr(url) in refuses(robots.lines, [url])
    assert repr(f"Sitemap: {url}") in refuses(robots, lines=[f"Sitemap: {url}"])
    assert robots.text() == "User-agent: *\nDisallow:\n"


@pytest.mark.parametrize(
    "name", ["", " ", "GPT#Bot", "User-agent: x", " GPTBot", "GPTBot ", "b\u00f6t", "GPT\u2011Bot", 7]
)
def test_a_user_agent_that_crawlers_would_not_read_is_refused(robots, name):
    message = refuses(robots, name)
    assert repr(name) in message
    assert "RFC 9309 2.2.1" in message
    assert "write" in message


@pytest.mark.parametrize("path", ["", "admin/", " /admin/", "https://example.com/admin/", "$", None, b"/"])
def test_a_path_must_begin_with_a_slash_or_a_star(robots, path):
    message = refuses(robots, disallow=[path])
    assert repr(path) in message
    assert "must begin with '/' or '*'" in message
    assert "disallow=[]" in message


def test_a_path_that_ends_in_white_space_is_refused(robots):
    assert "write %20" in refuses(robots, allow=["/admin/ "])


@pytest.mark.parametrize("name", ["allow", "disallow", "lines"])
def test_a_text_instead_of_a_list_is_refused_since_its_characters_would_be_taken(robots, name):
    assert f"write {name}=['/admin/']" in refuses(robots, **{name: "/admin/"})


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 86_401, True, "10", 10**400])
def test_a_crawl_delay_must_be_a_positive_number_of_at_most_a_day(robots, seconds):
    message = refuses(robots, crawl_delay=seconds)
    assert repr(seconds) in message
    assert "number of seconds above 0" in message


@pytest.mark.parametrize(
    "line", ["", "# note", "Content-Signal", "Content-Signal:", ": x", "A b: c", "A: x # y", "A: #", 1]
)
def test_a_free_line_must_be_one_field_and_one_value(robots, line):
    message = refuses(robots, lines=[line])
    assert repr(line) in message
    assert "'Field: value'" in message


@pytest.mark.parametrize(
    ("line", "argument"),
    [
        ("User-agent: evil", "names"),
        ("useragent: evil", "names"),
        ("ALLOW : /", "allow=[...]"),
        ("Disallow: /", "disallow=[...]"),
        ("crawl-delay: 1", "crawl_delay=..."),
    ],
)
def test_a_free_line_cannot_stand_for_an_argument(robots, line, argument):
    assert refuses(robots, lines=[line]).endswith(f"give it as {argument}")


@pytest.mark.parametrize(
    "url", ["/sitemap.xml", "sitemap.xml", "ftp://example.com/s.xml", f"{SITE}/a b", "https:///s.xml"]
)
def test_a_sitemap_must_be_an_absolute_url(robots, url):
    assert repr(url) in refuses(robots.lines, [url])
    assert repr(url) in refuses(robots, lines=[f"Sitemap: {url}"])


def test_a_fragment_in_a_sitemap_url_is_refused(robots):
    assert "without '#'" in refuses(robots.text, [f"{SITE}/sitemap.xml#top"])


def test_a_file_over_500_kibibytes_is_refused_at_the_call_that_makes_it_so(robots):
    long_path = "/" + "x" * (MAX_BYTES // 2)
    robots(disallow=[long_path])
    before = robots.version
    message = refuses(robots, disallow=[long_path + "y"])
    assert "500 KiB" in message
    assert "512," in message
    assert robots.version == before
    assert len(robots.text()) < MAX_BYTES


def test_a_file_of_exactly_500_kibibytes_is_written_with_room_for_a_sitemap(robots):
    frame = len(f"User-agent: *\nDisallow: /\n\nSitemap: {LONGEST_SITEMAP}\n")
    assert "500 KiB" in refuses(robots, disallow=["/" + "x" * (MAX_BYTES - frame + 1)])
    robots(disallow=["/" + "x" * (MAX_BYTES - frame)])
    assert len(robots.text([LONGEST_SITEMAP])) == MAX_BYTES
    assert "500 KiB" in refuses(robots.text, [f"{LONGEST_SITEMAP}?"])


def test_a_file_longer_than_some_readers_take_is_warned_of_once(robots, caplog):
    frame = len("User-agent: *\nDisallow: /\n")
    robots(disallow=["/" + "x" * (LONG_TEXT - frame)])
    robots.text()
    assert not caplog.records
    robots.text([f"{SITE}/sitemap.xml"])
    robots.text([f"{SITE}/sitemap.xml"])
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert "10000" in record.getMessage()


# What readers make of it

AGENTS = ["*", "alpha", "Beta", "gamma"]
plain_paths = st.text("ab/\u00e9", max_size=5).map("/".__add__)
patterns = st.builds("/{}{}".format, st.text("ab/*\u00e9", max_size=5), st.sampled_from(["", "$"]))
addresses = st.text("ab/\u00e9", max_size=6).map("/".__add__)


def without_host(paths: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return paths.filter(lambda path: not path.startswith("//"))  # the standard library takes what follows for a host


def calls(paths: st.SearchStrategy[str]) -> st.SearchStrategy[list[dict[str, Any]]]:
    rules = st.lists(paths, max_size=4)
    agents = st.lists(st.sampled_from([*AGENTS, "ALPHA"]), max_size=3)
    return st.lists(st.fixed_dictionaries({"agents": agents, "allow": rules, "disallow": rules}), max_size=5)


def called(groups: list[dict[str, Any]]) -> Robots:
    robots = Robots()
    for group in groups:
        robots(*group["agents"], allow=group["allow"], disallow=group["disallow"])
    return robots


def may_fetch(groups: list[dict[str, Any]], agent: str, path: str) -> bool:
    """RFC 9309 2.2.1 and 2.2.2, read off the calls themselves."""
    for name in (agent, "*"):
        own = [group for group in groups if name in {listed.lower() for listed in group["agents"] or ["*"]}]
        if own:
            verdicts = [(length(rule), True) for group in own for rule in group["allow"] if matches(rule, path)]
            verdicts += [(length(rule), False) for group in own for rule in group["disallow"] if matches(rule, path)]
            return max(verdicts, default=(0, True))[1]
    return True


def length(rule: str) -> int:
    return len(quote(rule, safe="/*$"))


def matches(rule: str, path: str) -> bool:
    regex = re.escape(rule).replace(r"\*", ".*")
    return re.match(regex.removesuffix(r"\$") + ("$" if rule.endswith("$") else ""), path) is not None


@given(calls(patterns), st.lists(addresses, min_size=1, max_size=5))
def test_protego_reads_what_the_calls_said(groups, paths):
    read = Protego.parse(called(groups).text())
    for agent in ("alpha", "beta", "gamma", "delta"):
        for path in paths:
            assert read.can_fetch(SITE + path, agent) == may_fetch(groups, agent, path), (agent, path)


@given(calls(without_host(plain_paths)), st.lists(without_host(addresses), min_size=1, max_size=5))
def test_the_standard_library_agrees_on_rules_without_wildcards(groups, paths):
    read = RobotFileParser()
    read.parse(called(groups).lines([f"{SITE}/sitemap.xml"]))
    for agent in ("alpha", "beta", "gamma", "delta"):
        for path in paths:
            assert read.can_fetch(agent, SITE + path) == may_fetch(groups, agent, path), (agent, path)
    assert read.site_maps() == [f"{SITE}/sitemap.xml"]


@given(calls(patterns))
def test_no_crawler_is_named_twice_and_no_line_is_malformed(groups):
    lines = called(groups).lines()
    agents = [line.lower() for line in lines if line.startswith("User-agent: ")]
    assert len(agents) == len(set(agents))
    assert all(re.fullmatch(r"(User-agent: \S+|(Allow|Disallow): /\S*|Disallow:|)", line) for line in lines)


@given(st.text(max_size=12), st.text(max_size=12), st.text(max_size=12))
def test_whatever_is_taken_stays_on_its_own_line(agent, path, line):
    robots = Robots()
    expected = ["User-agent", "Disallow", "X"]
    try:
        robots(agent, disallow=["/" + path], lines=["X: " + line])
    except ConfigurationError:
        expected = ["User-agent", "Disallow"]
    lines = robots.text().splitlines()  # splits at more characters than any crawler does
    assert [name for name, _, _ in (line.partition(":") for line in lines)] == expected
    assert not any("#" in line for line in lines)


def test_a_leading_star_means_the_same_with_a_slash_before_it(robots):
    robots(disallow=["*.gif$"])
    read = Protego.parse(robots.text())
    assert not read.can_fetch(f"{SITE}/a.gif", "x")
    assert not read.can_fetch(f"{SITE}/deep/down/a.gif", "x")
    assert read.can_fetch(f"{SITE}/a.gif?size=1", "x")


def test_escaped_paths_are_matched_by_readers(robots):
    robots(disallow=["/caf\u00e9", "/my folder/", "/100%", "/q?a=b"])
    read = Protego.parse(robots.text())
    for path in ("/caf\u00e9", "/caf%C3%A9", "/my%20folder/x", "/100%25", "/q?a=b&c=d"):
        assert not read.can_fetch(SITE + path, "x"), path
    assert read.can_fetch(f"{SITE}/q", "x")


def test_protego_reads_the_crawl_delay_and_the_sitemaps_back(robots):
    robots("A", crawl_delay=2.5, disallow=["/x"])
    robots(disallow=["/y"], lines=["Sitemap: https://blog.example.com/sitemap.xml?a=1&b=2"])
    read = Protego.parse(robots.text([f"{SITE}/sitemap.xml"]))
    assert read.crawl_delay("A") == 2.5
    assert read.crawl_delay("other") is None
    assert list(read.sitemaps) == [f"{SITE}/sitemap.xml", "https://blog.example.com/sitemap.xml?a=1&b=2"]


class RefusingClient(AbstractWebClient):
    """A web client without a web: what the reader would fetch next is all that is asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def set_max_response_data_length(self, max_response_data_length: int | None) -> None:
        pass

    def get(self, url: str) -> AbstractWebClientResponse:
        self.asked.append(url)
        raise ConnectionError(url)


def test_ultimate_sitemap_parser_goes_on_to_the_sitemaps(robots):
    robots("A", disallow=["/"])
    client = RefusingClient()
    named = [f"{SITE}/sitemap.xml", f"{SITE}/sitemap-news-1.xml"]
    IndexRobotsTxtSitemapParser(f"{SITE}/robots.txt", robots.text(named), 0, client, set()).sitemap()
    assert client.asked == named
