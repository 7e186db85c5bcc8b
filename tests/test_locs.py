from __future__ import annotations

import re
from html import unescape
from urllib.parse import unquote, unquote_to_bytes

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flask_sitemapx.errors import ConfigurationError, InvalidEntry
from flask_sitemapx.protocol.locs import (
    MAX_LENGTH,
    PLACEHOLDER,
    PLACEHOLDER_ORIGIN,
    PLACEHOLDER_WEIGHT,
    BaseUrl,
    escaped,
)

ROOT = BaseUrl.parse("https://example.com")
SHOP = BaseUrl.parse("https://example.com/shop")


def broken_rule(base: BaseUrl, text: object) -> str:
    with pytest.raises(InvalidEntry) as caught:
        base.loc(text)
    return caught.value.rule


# The site


@pytest.mark.parametrize(
    ("text", "origin", "mount"),
    [
        ("https://example.com", "https://example.com", ""),
        ("https://example.com/", "https://example.com", ""),
        (" HTTPS://Example.COM:443/ ", "https://example.com", ""),
        ("http://example.com:80", "http://example.com", ""),
        ("http://example.com:443", "http://example.com:443", ""),
        ("https://example.com:", "https://example.com", ""),
        ("https://example.com:08443", "https://example.com:8443", ""),
        ("https://example.com/shop/", "https://example.com", "/shop"),
        ("https://example.com/a/b", "https://example.com", "/a/b"),
        ("https://example.com/a b%c3%a9é", "https://example.com", "/a%20b%C3%A9%C3%A9"),
        ("https://bücher.example", "https://xn--bcher-kva.example", ""),
        ("https://BÜCHER.example", "https://xn--bcher-kva.example", ""),
        ("https://ΔΟΚΙΜΉ.example", "https://xn--jxalpdlp.example", ""),
        ("https://xn--strae-oqa.example", "https://xn--strae-oqa.example", ""),
        ("http://localhost:5000", "http://localhost:5000", ""),
        ("http://my_service", "http://my_service", ""),
        ("http://127.0.0.1:8000/x", "http://127.0.0.1:8000", "/x"),
        ("http://[::1]:8000", "http://[::1]:8000", ""),
        ("http://[2001:DB8:0:0:0:0:0:1]", "http://[2001:db8::1]", ""),
    ],
)
def test_a_base_url_is_an_origin_and_a_mount(text, origin, mount):
    base = BaseUrl.parse(text)

    assert (base.origin, base.mount, base.text) == (origin, mount, origin + mount)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "https://example.com"),
        ("example.com", "https://example.com"),
        ("//example.com", "https://example.com"),
        ("ftp://example.com", "https://example.com"),
        ("https:example.com", "https://example.com"),
        (None, "https://example.com"),
        (b"https://example.com", "https://example.com"),
        ("https://", "not a host name"),
        ("https:///path", "not a host name"),
        ("https://user:secret@example.com", "user name"),
        ("https://example.com/?q=1", r"'\?'"),
        ("https://example.com?q=1", r"'\?'"),
        ("https://example.com/#top", "'#'"),
        ("https://example.com#top", "not a host name"),
        ("https://example.com/a\x00b", r"x00"),
        ("https://example.com/a&b", "'&'"),
        ("https://example.com/a'b", '"\'"'),
        ("https://example.com/a/../b", "dot segments"),
        ("https://example.com/%2E%2e/b", "dot segments"),
        ("https://example.com/a//b", "empty"),
        ("https://exa mple.com", "not a host name"),
        ("https://-example.com", "not a host name"),
        ("https://example..com", "not a host name"),
        ("https://example.com.", "not a host name"),
        ("https://" + "a" * 64 + ".com", "not a host name"),
        ("https://" + "a." * 127 + "com", "not a host name"),
        ("https://exa%6Dple.com", "not a host name"),
        ("https://example.com\\@evil.com", "user name"),
        ("https://bücher\uff0fx.example", "not a host name"),
        ("https://example.com:0", "port 0"),
        ("https://example.com:65536", "port 65536"),
        ("https://example.com:http", "optional port"),
        ("https://example.com:٨٠", "optional port"),
        ("https://::1", "optional port"),
        ("https://1.2.3.999", "1.2.3.999"),
        ("https://[::g]", "::g"),
        ("https://[fe80::1%eth0]", "zone"),
        ("https://[]", "base URL"),
        (PLACEHOLDER_ORIGIN, "reserved"),
        (f"https://example.com/{'x' * 261}", "280 characters"),
    ],
)
def test_a_base_url_that_cannot_be_used_is_refused_with_the_reason(text, said):
    with pytest.raises(ConfigurationError, match=said) as caught:
        BaseUrl.parse(text)

    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("host", "punycode"),
    [
        ("straße.example", "xn--strae-oqa.example"),
        ("STRAẞE.example", "xn--strae-oqa.example"),
        ("βόλος.example", "xn--nxasmm1c.example"),
        ("ශ්\u200dරී.example", "xn--10cl1a0b660p.example"),
        ("\u0646\u0627\u0645\u0647\u200c\u0627\u06cc.example", "xn--mgba3gch31f060k.example"),
    ],
)
def test_a_host_that_idna_2003_would_change_is_refused_with_the_punycode_to_write(host, punycode):
    with pytest.raises(ConfigurationError, match=re.escape(repr(punycode))):
        BaseUrl.parse(f"https://{host}")

    assert BaseUrl.parse(f"https://{punycode}").origin == f"https://{punycode}"


def test_a_base_url_is_a_value():
    assert BaseUrl.parse("https://EXAMPLE.com/shop/") == SHOP
    assert {SHOP: 1}[BaseUrl.parse("https://example.com:443/shop")] == 1
    with pytest.raises(AttributeError):
        SHOP.mount = "/other"  # type: ignore[misc]


def test_the_longest_base_url_weighs_as_much_as_the_placeholder():
    assert len(BaseUrl.parse(f"https://example.com/{'x' * 260}").text) == PLACEHOLDER_WEIGHT


# One loc


@pytest.mark.parametrize(
    ("text", "loc"),
    [
        ("/", "https://example.com/shop/"),
        ("/about", "https://example.com/shop/about"),
        (" \t/about\r\n", "https://example.com/shop/about"),
        ("/a//b", "https://example.com/shop/a//b"),
        ("/shop/about", "https://example.com/shop/shop/about"),
        ("/.well-known/x", "https://example.com/shop/.well-known/x"),
        ("/...", "https://example.com/shop/..."),
        ("/?next=/../x", "https://example.com/shop/?next=/../x"),
        ("/?", "https://example.com/shop/?"),
        ("/ümlat.php?q=name&x=1", "https://example.com/shop/%C3%BCmlat.php?q=name&amp;x=1"),
        ("/it's", "https://example.com/shop/it&apos;s"),
        ("/a b", "https://example.com/shop/a%20b"),
        ('/<>"{}|\\^`', "https://example.com/shop/%3C%3E%22%7B%7D%7C%5C%5E%60"),
        ("/a[1]?b[]=2", "https://example.com/shop/a%5B1%5D?b%5B%5D=2"),
        ("/100%", "https://example.com/shop/100%25"),
        ("/%zz%4", "https://example.com/shop/%25zz%254"),
        ("/%C3%BC%2f%c3", "https://example.com/shop/%C3%BC%2f%c3"),
        ("/%%41", "https://example.com/shop/%25%41"),
        ("/!$()*+,;=:@-._~", "https://example.com/shop/!$()*+,;=:@-._~"),
        ("/\U0001f600", "https://example.com/shop/%F0%9F%98%80"),
        ("/&amp;", "https://example.com/shop/&amp;amp;"),
        ("https://example.com/shop/", "https://example.com/shop/"),
        ("https://example.com/shop/a b", "https://example.com/shop/a%20b"),
        ("HTTPS://Example.Com:443/shop/a", "https://example.com/shop/a"),
        ("https://example.com:/shop/a", "https://example.com/shop/a"),
        ("https://example.com/shop//a", "https://example.com/shop//a"),
    ],
)
def test_a_loc_is_absolute_percent_encoded_and_escaped(text, loc):
    assert SHOP.loc(text) == loc


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (None, "loc-type"),
        (b"/about", "loc-type"),
        (7, "loc-type"),
        ("", "loc-empty"),
        (" \n", "loc-empty"),
        ("about", "loc-relative"),
        ("./about", "loc-relative"),
        ("?page=2", "loc-relative"),
        ("//example.com/shop/x", "loc-relative"),
        ("\\about", "loc-relative"),
        ("/a#b", "loc-fragment"),
        ("/a#", "loc-fragment"),
        ("#", "loc-fragment"),
        *(
            (f"/a{character}b", "loc-control-character")
            for character in "\x00\t\n\r\x1f\x7f\x85\x9f\ud800\udfff\ufffe\uffff"
        ),
        ("/a/../b", "loc-dot-segment"),
        ("/a/./b", "loc-dot-segment"),
        ("/..", "loc-dot-segment"),
        ("/.?x", "loc-dot-segment"),
        ("/%2e%2E/b", "loc-dot-segment"),
        ("/.%2e", "loc-dot-segment"),
        ("https://example.com/shop/../x", "loc-dot-segment"),
        ("https://user@example.com/shop/", "loc-user-info"),
        ("https://user:secret@example.com/shop/", "loc-user-info"),
        ("https://example.com\\@evil.example/shop/", "loc-user-info"),
        ("http://example.com/shop/", "loc-scheme"),
        ("ftp://example.com/shop/", "loc-scheme"),
        ("mailto:someone", "loc-scheme"),
        ("javascript:alert(1)", "loc-scheme"),
        ("https:/shop/", "loc-scheme"),
        ("https://www.example.com/shop/", "loc-host"),
        ("https://example.com.evil.example/shop/", "loc-host"),
        ("https://example.com\\.evil.example/shop/", "loc-host"),
        ("https:///shop/", "loc-host"),
        ("https://exa mple.com/shop/", "loc-host"),
        ("https://straße.example/shop/", "loc-host"),
        ("https://example.com:8443/shop/", "loc-port"),
        ("https://example.com:80/shop/", "loc-port"),
        ("https://example.com", "loc-mount"),
        ("https://example.com/shop", "loc-mount"),
        ("https://example.com/shop?x", "loc-mount"),
        ("https://example.com/shopping", "loc-mount"),
        ("https://example.com/Shop/", "loc-mount"),
        ("/" + "x" * MAX_LENGTH, "loc-length"),
    ],
)
def test_what_no_sitemap_may_list_is_refused_by_name(text, rule):
    assert broken_rule(SHOP, text) == rule
    assert SHOP.locs([text]) is None


def test_the_root_needs_no_slash_where_nothing_is_mounted():
    assert ROOT.loc("https://example.com") == "https://example.com/"
    assert ROOT.loc("https://example.com?q") == "https://example.com/?q"


def test_a_loc_on_another_spelling_of_the_host_is_the_site_s_own():
    base = BaseUrl.parse("http://xn--bcher-kva.example:8080/%C3%A9")

    assert base.loc("http://Bücher.example:8080/é/x") == "http://xn--bcher-kva.example:8080/%C3%A9/x"
    assert base.loc("http://bücher.example:8080/%c3%a9/x") == "http://xn--bcher-kva.example:8080/%C3%A9/x"


def test_an_ipv6_site_lists_its_pages():
    base = BaseUrl.parse("http://[::1]:5000")

    assert base.loc("http://[0:0::1]:5000/a") == base.loc("/a") == "http://[::1]:5000/a"


def test_a_loc_is_shorter_than_2048_characters_before_escaping():
    room = MAX_LENGTH - len("https://example.com/")

    assert len(ROOT.loc("/" + "x" * room)) == MAX_LENGTH == 2047
    assert len(ROOT.loc("/" + "&" * room)) > MAX_LENGTH
    assert broken_rule(ROOT, "/" + "x" * (room + 1)) == "loc-length"
    assert broken_rule(ROOT, "/" + "ü" * (room // 6 + 1)) == "loc-length"


def test_a_text_that_pretends_to_be_another_is_read_as_what_it_holds():
    class Odd(str):
        def strip(self, chars=None):
            return "javascript:alert(1)"

        def __str__(self):
            return "\0"

    assert ROOT.loc(Odd("/a")) == "https://example.com/a"
    assert type(ROOT.loc(Odd("/a"))) is str
    assert ROOT.locs([Odd("/a")]) is None


# The placeholder


def test_the_placeholder_stands_for_origin_and_mount():
    assert PLACEHOLDER.text == "\0"
    assert PLACEHOLDER.loc("/a b") == "\0/a%20b"
    assert PLACEHOLDER.loc(f"{PLACEHOLDER_ORIGIN}/a?b&c") == "\0/a?b&amp;c"
    assert PLACEHOLDER.locs(["/a", "/b"]) == ["\0/a", "\0/b"]
    assert PLACEHOLDER.locs([f"{PLACEHOLDER_ORIGIN}/a"]) == ["\0/a"]


def test_the_placeholder_lists_no_site_s_absolute_urls_and_says_what_to_set():
    with pytest.raises(InvalidEntry, match="SITEMAP_BASE_URL") as caught:
        PLACEHOLDER.loc("https://example.com/a")

    assert caught.value.rule == "loc-no-base-url"
    assert PLACEHOLDER.locs(["https://example.com/a"]) is None


def test_a_nul_from_outside_is_no_placeholder():
    assert broken_rule(PLACEHOLDER, "\0/a") == "loc-control-character"
    assert PLACEHOLDER.locs(["\0/a"]) is None


def test_the_placeholder_counts_as_the_longest_base_url():
    longest = "/" + "x" * (MAX_LENGTH - PLACEHOLDER_WEIGHT - 1)

    for base in (PLACEHOLDER, BaseUrl.parse(f"https://example.com/{'x' * 260}")):
        assert base.loc(longest) == base.text + longest
        assert base.locs([base.origin + base.mount + longest]) == [base.text + longest]
        assert base.locs([longest]) == base.ready_locs([base.text + longest]) == [base.text + longest]
        assert broken_rule(base, longest + "x") == "loc-length"
        assert base.locs([longest + "x"]) is None
        assert base.ready_locs([base.text + longest + "x"]) is None
        with pytest.raises(InvalidEntry):
            base.ready_loc(base.text + longest + "x")


# Many locs


@pytest.mark.parametrize(
    "column",
    [
        ["/", "/a?b=1&c=2", "/it's"],
        ["/%C3%BC", "/100%25"],
        ["/a.html", "/a//b"],
        ["https://example.com/shop/", "https://example.com/shop/a?b&c"],
    ],
)
def test_usual_columns_need_no_look_at_each_loc(column):
    assert SHOP.locs(column) == [SHOP.loc(text) for text in column]


def test_a_column_of_locs_is_a_new_list():
    column = ["https://example.com/a"]

    assert ROOT.locs(column) is not column
    assert ROOT.ready_locs(column) is not column


tricky = st.text(st.sampled_from("/.%2eE?&='#@:[]ab \n\t\0\\é日\ud800\ufffe"), max_size=12)
starts = st.sampled_from(
    [
        "",
        "/",
        "/a",
        "//",
        f"{PLACEHOLDER_ORIGIN}/",
        "https://example.com/",
        "https://example.com/shop",
        "https://example.com/shop/",
        "HTTPS://EXAMPLE.com:443/shop/",
        "http://example.com/shop/",
        "https://x@example.com/shop/",
    ]
)
texts = st.builds(str.__add__, starts, tricky | st.text(max_size=12))
bases = st.sampled_from([ROOT, SHOP, PLACEHOLDER])
legal_paths = st.builds(str.__add__, st.just("/"), st.from_regex(r"[a-z0-9&'%?=/.-]{0,8}", fullmatch=True))


@given(bases, st.lists(texts | legal_paths, min_size=1, max_size=5) | st.lists(legal_paths, min_size=1, max_size=5))
@example(SHOP, ["/a\n/b"])
@example(SHOP, ["/a", "https://example.com/shop/b"])
@example(SHOP, ["/a", "b/../c", "//d"])
def test_a_column_gives_what_its_locs_give_one_by_one(base, column):
    together = base.locs(column)

    if together is not None:
        assert together == [base.loc(text) for text in column]


@given(texts)
def test_a_loc_decodes_to_the_same_url(text):
    try:
        loc = unescape(SHOP.loc(text))
    except InvalidEntry:
        return
    url = text.strip(" \t\r\n")
    url = "https://example.com/shop" + (url if url.startswith("/") else url[url.index("/shop") + len("/shop") :])

    assert unquote_to_bytes(loc) == unquote_to_bytes(url)
    assert re.sub("[^/?&=;:@]", "", loc) == re.sub("[^/?&=;:@]", "", url)
    assert re.fullmatch(r"https://example\.com/shop/(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*", loc)


@given(st.sampled_from([ROOT, SHOP]), texts)
def test_a_loc_is_not_encoded_twice(base, text):
    try:
        loc = base.loc(text)
    except InvalidEntry:
        return

    assert base.loc(unescape(loc)) == loc


@given(tricky | st.text(max_size=12))
def test_nothing_else_is_refused_of_a_path(text):
    path = f"/{text}".strip(" \t\r\n")
    segments = path.partition("?")[0].split("/")
    is_fine = (
        not path.startswith("//")
        and "#" not in path
        and not any(unquote(segment) in (".", "..") for segment in segments)
        and all(ord(c) > 0x1F and not 0x7F <= ord(c) <= 0x9F and not 0xD800 <= ord(c) <= 0xDFFF for c in path)
        and not re.search("[\ufffe\uffff]", path)
    )

    try:
        ROOT.loc(path)
    except InvalidEntry:
        assert not is_fine
    else:
        assert is_fine


# Ready locs


def test_ready_locs_are_checked_for_length_and_dot_segments_only():
    ready = ["https://example.com/a&amp;b", "https://example.com/x"]

    assert ROOT.ready_locs(ready) == ready
    assert ROOT.ready_locs([]) == []
    assert ROOT.ready_locs(["https://example.com/../a"]) is None
    assert ROOT.ready_locs(["https://example.com/" + "x" * MAX_LENGTH]) is None


def test_a_column_with_the_error_of_a_loc_that_could_not_be_made_is_looked_at_one_by_one():
    column = ["/a", InvalidEntry("url-values", {})]

    assert ROOT.locs(column) is None
    assert ROOT.ready_locs(column) is None


def test_a_ready_loc_is_measured_without_its_escapes():
    fine = "https://example.com/" + "&amp;&apos;" * 1000

    assert ROOT.ready_loc(fine) == fine
    assert ROOT.ready_locs([fine]) is None
    with pytest.raises(InvalidEntry) as caught:
        ROOT.ready_loc(fine + "x" * 28)
    assert caught.value.rule == "loc-length"


def test_a_ready_loc_may_have_dots_but_no_dot_segments():
    for fine in ("https://example.com/.well-known/x", "https://example.com/?x=/../y", "\0/.a"):
        assert ROOT.ready_loc(fine) == fine
    for bad in ("https://example.com/a/..", "https://example.com/./a", "\0/..?x"):
        with pytest.raises(InvalidEntry) as caught:
            ROOT.ready_loc(bad)
        assert caught.value.rule == "loc-dot-segment"


def test_escaping_uses_the_forms_that_sitemaps_org_shows():
    assert escaped("a&b'c&amp;") == "a&amp;b&apos;c&amp;amp;"
