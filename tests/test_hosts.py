from __future__ import annotations

import gzip
import random
import socket
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
from flask import Flask
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.middleware.proxy_fix import ProxyFix
from werkzeug.test import Client, EnvironBuilder

from flask_sitemapx import ConfigurationError, Sitemap
from flask_sitemapx.protocol.locs import PLACEHOLDER, BaseUrl
from flask_sitemapx.serving.hosts import MAX_NAMES, BadHost, Hosts, Site
from flask_sitemapx.serving.publisher import address
from tests.served_shop import Gunicorn, gunicorn

EXAMPLE = BaseUrl.parse("https://www.example.com")


def environ(
    host: str | None = "example.com", scheme: str = "http", script_name: str = "", **more: str
) -> dict[str, Any]:
    given_host = {} if host is None else {"HTTP_HOST": host}
    server = {"SERVER_NAME": "127.0.0.1", "SERVER_PORT": "8000"}
    return {"wsgi.url_scheme": scheme, "SCRIPT_NAME": script_name, **server, **given_host, **more}


def filled(text: str) -> Site:
    return Site(PLACEHOLDER, text.encode())


# What a request says --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_environ", "url"),
    [
        (environ("example.com"), "http://example.com"),
        (environ("EXAMPLE.com:80"), "http://example.com"),
        (environ("example.com:443", "https"), "https://example.com"),
        (environ("example.com:443"), "http://example.com:443"),
        (environ("[::1]:8000"), "http://[::1]:8000"),
        (environ("[0:0:0:0:0:0:0:1]"), "http://[::1]"),
        (environ("xn--bcher-kva.example"), "http://xn--bcher-kva.example"),
        (environ(None), "http://127.0.0.1:8000"),
        (environ("", SERVER_NAME="::1"), "http://[::1]:8000"),
        (environ(script_name="/shop"), "http://example.com/shop"),
        (environ(script_name="/shop/"), "http://example.com/shop"),
        (environ(script_name="/a b?c#d&e'f%g"), "http://example.com/a%20b%3Fc%23d%26e%27f%25g"),
        (environ(script_name="/über".encode().decode("latin-1")), "http://example.com/%C3%BCber"),
        (environ("example.com:"), "http://example.com"),
        (environ("example.com."), "http://example.com"),
        (environ("example.com.:8080"), "http://example.com:8080"),
    ],
)
def test_an_open_site_is_filled_in_from_the_request(request_environ, url):
    assert Hosts(None).site(request_environ) == filled(url)


@pytest.mark.parametrize(
    "host",
    [
        "exa mple.com",
        "example.com:port",
        "example.com:80:80",
        "example.com:99999",
        "example.com:0",
        "user@example.com",
        "example.com/path",
        "example.com?",
        "example.com#",
        "bücher.example",
        "<script>",
        "[::1",
        "[::g]",
        "::1",
        "a..b",
        "-",
        "999.1.1.1",
        "sitemapx.invalid",
        "a\0b",
        "a" * 300,
        "\n",
    ],
)
def test_a_malformed_host_is_refused(host):
    with pytest.raises(BadHost):
        Hosts(None).site(environ(host))


@pytest.mark.parametrize(
    "script_name", ["evil", "@evil.example", ".evil.example", ":80", "//a", "/../a", "/" + "a" * 300, "/\u20ac"]
)
def test_a_mount_point_that_makes_no_url_is_refused(script_name):
    with pytest.raises(BadHost):
        Hosts(None).site(environ(script_name=script_name))


@given(host=st.text(max_size=30), script_name=st.text(max_size=30), scheme=st.sampled_from(["http", "https"]))
def test_whatever_a_request_says_the_url_is_on_its_host_or_refused(host, script_name, scheme):
    try:
        site = Hosts(None).site(environ(host, scheme, script_name))
    except BadHost:
        return
    name = host or "127.0.0.1:8000"
    rest = site.fill.decode().removeprefix(f"{scheme}://{name.lower().removesuffix(':80')}")
    assert site.base == PLACEHOLDER
    assert rest == "" or rest.startswith("/") or name.startswith("[") or ":" in name


# What is configured ---------------------------------------------------------------------------------------------------


def test_a_fixed_site_takes_nothing_from_the_request():
    hosts = Hosts(EXAMPLE)
    assert hosts.site(environ("other.example:81", "http", "/mount")) == Site(EXAMPLE, b"")
    assert hosts.site(environ(None, SERVER_NAME="/run/app.sock", SERVER_PORT="")) == Site(EXAMPLE, b"")
    assert hosts.fixed == EXAMPLE
    assert not hosts.is_open


def test_a_fixed_site_checks_the_host_all_the_same():
    with pytest.raises(BadHost):
        Hosts(EXAMPLE).site(environ("a b"))
    with pytest.raises(BadHost):
        Hosts(EXAMPLE, ["www.example.com"]).site(environ("evil.example"))


@pytest.mark.parametrize(
    ("entry", "host", "is_trusted"),
    [
        ("example.com", "example.com", True),
        ("example.com", "EXAMPLE.COM:8000", True),
        ("Example.Com", "example.com", True),
        ("example.com:8443", "example.com", True),
        ("example.com", "www.example.com", False),
        ("example.com", "example.com.evil.example", False),
        ("example.com", "badexample.com", False),
        (".example.com", "example.com", True),
        (".example.com", "a.b.example.com:81", True),
        (".example.com", "badexample.com", False),
        (".example.com:8000", "a.example.com", True),
        ("bücher.example", "xn--bcher-kva.example", True),
        (".bücher.example", "www.xn--bcher-kva.example", True),
        ("[::1]", "[::1]:8000", True),
        ("[::1]:8000", "[::2]:8000", False),
        ("127.0.0.1", "127.0.0.1:5000", True),
    ],
)
def test_a_host_is_trusted_by_name_whatever_its_port(entry, host, is_trusted):
    hosts = Hosts(None, [entry])
    assert not hosts.is_open
    if is_trusted:
        assert hosts.site(environ(host))
    else:
        with pytest.raises(BadHost, match="trusted"):
            hosts.site(environ(host))


def test_an_exact_name_has_a_set_of_its_own_for_each_scheme():
    hosts = Hosts(None, ["example.com", "example.org:8443", ".example.net"])
    assert hosts.site(environ("example.com")) == Site(BaseUrl.parse("http://example.com"), b"")
    assert hosts.site(environ("example.com", "https")) == Site(BaseUrl.parse("https://example.com"), b"")
    assert hosts.site(environ("Example.org:8443", "https")) == Site(BaseUrl.parse("https://example.org:8443"), b"")


def test_an_exact_name_on_another_port_or_mount_is_filled_in():
    hosts = Hosts(None, ["example.com"], mount="/shop")
    assert hosts.site(environ("example.com", script_name="/shop")) == Site(
        BaseUrl.parse("http://example.com/shop"), b""
    )
    assert hosts.site(environ("example.com")) == filled("http://example.com")
    assert hosts.site(environ("example.com:81", script_name="/shop")) == filled("http://example.com:81/shop")


def test_names_below_a_dotted_one_are_filled_in():
    assert Hosts(None, [".example.com"]).site(environ("a.example.com")) == filled("http://a.example.com")


def test_more_exact_names_than_sets_may_be_stored_are_filled_in():
    names = [f"host{number}.example" for number in range(MAX_NAMES + 1)]
    assert Hosts(None, names[1:]).site(environ("host1.example")).fill == b""
    assert Hosts(None, names).site(environ("host1.example")) == filled("http://host1.example")


def test_one_name_need_not_be_a_list():
    assert Hosts(None, "example.com").site(environ("example.com")).base == BaseUrl.parse("http://example.com")


@pytest.mark.parametrize("entry", ["*.example.com", "", "https://example.com", "example.com/path", "a b", "::1"])
def test_a_trusted_name_that_is_none_is_named(entry):
    with pytest.raises(ConfigurationError, match=r"TRUSTED_HOSTS") as raised:
        Hosts(None, [entry])
    assert repr(entry) in str(raised.value)


# Whole applications ---------------------------------------------------------------------------------------------------


def shop(**config: Any) -> Flask:
    app = Flask("shop")
    app.config.update(SITEMAP_BUILD_WAIT=60, **config)
    app.add_url_rule("/", "home", lambda: "home")
    app.add_url_rule("/about", "about", lambda: "about")
    return app


def listed(client: Client, **request: Any) -> str:
    """The sitemap, which must be there."""
    response = client.get("/sitemap.xml", **request)
    assert response.status_code == 200, response.text
    return response.text


@pytest.mark.parametrize(
    ("config", "request_host", "loc"),
    [
        ({"SITEMAP_BASE_URL": "https://shop.example/mount/"}, "evil.example", "https://shop.example/mount/about"),
        ({"SITEMAP_BASE_URL": "https://bücher.example"}, "evil.example", "https://xn--bcher-kva.example/about"),
        ({"SERVER_NAME": "shop.example"}, "shop.example", "http://shop.example/about"),
        (
            {"SERVER_NAME": "shop.example:8443", "APPLICATION_ROOT": "/mount/", "PREFERRED_URL_SCHEME": "https"},
            "shop.example:8443",
            "https://shop.example:8443/mount/about",
        ),
        ({"SITEMAP_BASE_URL": "https://a.example", "SERVER_NAME": "b.example"}, "b.example", "https://a.example/about"),
        ({"TRUSTED_HOSTS": ["shop.example"]}, "SHOP.example", "http://shop.example/about"),
        ({"TRUSTED_HOSTS": [".shop.example"]}, "www.shop.example", "http://www.shop.example/about"),
        ({}, "any.example:81", "http://any.example:81/about"),
    ],
)
def test_locs_are_on_the_site_that_is_configured(config, request_host, loc):
    app = shop(**config)
    Sitemap(app)
    text = listed(app.test_client(), headers={"Host": request_host})
    assert f"<loc>{loc}</loc>" in text
    assert text.count("<loc>") == 2


@pytest.mark.parametrize("host", ["a b", "a/b", "a@b", "[", "evil.example"])
def test_a_malformed_or_untrusted_host_is_answered_400(host):
    app = shop(TRUSTED_HOSTS=["shop.example"])
    Sitemap(app)
    for path in ("/sitemap.xml", "/robots.txt", "/sitemap-routes-1.xml.gz"):
        response = app.test_client().get(path, headers={"Host": host})
        assert (response.status_code, response.content_type) == (400, "text/plain; charset=utf-8")
        assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_behind_a_proxy_that_is_trusted_the_forwarded_host_counts():
    app = shop()
    app.wsgi_app = ProxyFix(app.wsgi_app, x_host=1, x_proto=1, x_prefix=1)  # type: ignore[method-assign]
    Sitemap(app)
    forwarded = {"X-Forwarded-Host": "shop.example", "X-Forwarded-Proto": "https", "X-Forwarded-Prefix": "/mount"}
    assert "<loc>https://shop.example/mount/about</loc>" in listed(app.test_client(), headers=forwarded)


def test_a_proxy_fix_around_us_counts_as_well():
    app = shop()
    Sitemap(app)
    app.wsgi_app = ProxyFix(app.wsgi_app, x_host=1, x_proto=1)  # type: ignore[method-assign]
    forwarded = {"X-Forwarded-Host": "shop.example", "X-Forwarded-Proto": "https"}
    assert "<loc>https://shop.example/about</loc>" in listed(app.test_client(), headers=forwarded)


def test_behind_a_proxy_a_fixed_name_is_answered_in_front():
    app = shop(SITEMAP_BASE_URL="https://shop.example")
    app.before_request(lambda: ("closed", 403))
    app.wsgi_app = ProxyFix(app.wsgi_app)  # type: ignore[method-assign]
    Sitemap(app)
    assert "<loc>https://shop.example/about</loc>" in listed(app.test_client())


def test_without_a_proxy_nothing_that_is_forwarded_counts():
    app = shop()
    Sitemap(app)
    forwarded = {"X-Forwarded-Host": "evil.example", "Forwarded": "host=evil.example", "X-Original-URL": "/evil"}
    assert "evil" not in listed(app.test_client(), headers=forwarded)


def test_a_mounted_application_lists_addresses_below_its_mount():
    app = shop()
    Sitemap(app)
    client = Client(DispatcherMiddleware(Flask("outer"), {"/a b": app}))
    assert "<loc>http://localhost/a%20b/about</loc>" in client.get("/a%20b/sitemap.xml").text


def forgeries(count: int) -> Iterator[dict[str, str]]:
    """What requests may say that lie about where they were sent to, as in a WSGI environment."""
    numbers = random.Random(7)
    for _ in range(count):
        name = f"{numbers.randrange(10**9):x}.evil.example"
        yield {
            "HTTP_HOST": numbers.choice([name, f"{name}:{numbers.randrange(1, 65_536)}", f"<{name}>"]),
            "HTTP_X_FORWARDED_HOST": name,
            "HTTP_X_FORWARDED_PROTO": numbers.choice(["https", "gopher"]),
            "HTTP_X_FORWARDED_PORT": str(numbers.randrange(70_000)),
            "HTTP_X_FORWARDED_PREFIX": f"/{name}",
            "SCRIPT_NAME": f"/{name}" * numbers.randrange(3),
        }


class Asker:
    """Asks an application without any client in between."""

    def __init__(self, app: Flask) -> None:
        self._app = app
        self._environ = EnvironBuilder("/").get_environ()

    def __call__(self, path: str, **environ: str) -> tuple[str, str | None, bytes]:
        """Status, ETag and body."""
        sent: list[tuple[str, str | None]] = []

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[..., Any]:
            sent.append((status, dict(headers).get("ETag")))
            return print

        body = self._app.wsgi_app({**self._environ, "PATH_INFO": path, **environ}, start_response)
        return *sent[0], b"".join(body)


@pytest.mark.parametrize(
    ("config", "loc"),
    [
        ({}, "http://honest.example/about"),
        ({"SITEMAP_BASE_URL": "https://honest.example"}, "https://honest.example/about"),
        ({"TRUSTED_HOSTS": ["honest.example"]}, "http://honest.example/about"),
        ({"TRUSTED_HOSTS": [".example"]}, "http://honest.example/about"),
    ],
)
def test_ten_thousand_forged_requests_grow_nothing_and_poison_nobody(config, loc):
    app = shop(**config)
    Sitemap(app)
    ask, honest = Asker(app), {"HTTP_HOST": "honest.example"}
    paths = ("/sitemap.xml", "/sitemap-routes-1.xml.gz", "/robots.txt")
    first = [ask(path, **honest) for path in paths]
    before = kept_by(app)
    for number, forged in enumerate(forgeries(10_000)):
        ask(paths[number % 3], **forged)
    assert kept_by(app) == before
    assert [ask(path, **honest) for path in paths] == first
    assert f"<loc>{loc}</loc>".encode() in first[0][2]
    assert b"evil" not in gzip.decompress(first[1][2]) + first[0][2] + first[2][2]


def kept_by(app: Flask) -> tuple[set[str], int]:
    """The keys of the store and the number of refreshers; what is only prepared must keep within its bounds."""
    binding = app.extensions["sitemapx"]
    services = binding.services()
    for prepared in (services.hosts._site, services.publisher._forms, services.publisher._kept_robots_txt, address):
        assert prepared.cache_info().currsize <= (prepared.cache_info().maxsize or 0) <= 512
    return set(services.store().names("")), len(binding.refreshers())


def test_forged_headers_do_nothing_to_a_server_with_two_workers(tmp_path):
    with gunicorn(tmp_path) as server:
        first = told(server, "honest.example")
        before = {path for path in tmp_path.rglob("*") if path.is_file()}
        for forged in islice(forgeries(300), 300):
            headers = {"Host": forged["HTTP_HOST"], "Script-Name": forged["SCRIPT_NAME"]}
            for name in ("Host", "Proto", "Port", "Prefix"):
                headers[f"X-Forwarded-{name}"] = forged[f"HTTP_X_FORWARDED_{name.upper()}"]
            assert server.ask("/sitemap.xml", headers=headers).status in (200, 400)
        assert told(server, "honest.example") == first
        assert {path for path in tmp_path.rglob("*") if path.is_file()} == before
    assert b"<loc>http://honest.example/sitemap-products-1.xml</loc>" in first[0]
    assert b"evil" not in b"".join(first)


def told(server: Gunicorn, host: str) -> list[bytes]:
    return [server.ask(path, headers={"Host": host}).body for path in ("/sitemap.xml", "/robots.txt") for _ in range(4)]


def test_a_request_of_http_1_0_needs_no_host(tmp_path):
    with gunicorn(tmp_path, "https://shop.example", workers=1) as server:
        assert b"200 OK" in raw(server, b"GET /sitemap.xml HTTP/1.0\r\n\r\n")
        assert b"200 OK" in raw(server, b"GET /robots.txt HTTP/1.0\r\n\r\n")


def raw(server: Gunicorn, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        connection.sendall(request)
        return connection.recv(1_000)
