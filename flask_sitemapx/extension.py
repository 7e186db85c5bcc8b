"""`Sitemap`: binds a registry to Flask applications and answers in front of them."""

from __future__ import annotations

import contextvars
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from flask import Blueprint, Flask, abort, current_app, request
from flask import Response as FlaskResponse
from werkzeug.exceptions import HTTPException
from werkzeug.routing import Map, MapAdapter, RequestRedirect
from werkzeug.security import safe_join
from werkzeug.wsgi import ClosingIterator

from .errors import ConfigurationError
from .protocol.entries import Columns
from .protocol.locs import PLACEHOLDER, BaseUrl
from .serving.hosts import Hosts
from .serving.publisher import ROBOTS_PATH, Policy, Publisher
from .settings import load_settings
from .snapshots.builder import Builder, Rules
from .snapshots.compression import fastest_codec
from .snapshots.opening import open_store
from .snapshots.refresher import Refresher, Timing
from .snapshots.shards import Limits
from .snapshots.snapshot import FORMAT, Archive, Snapshot, sha256
from .sources.items import Items
from .sources.registry import ROUTES, Defaults, Mark, Registry, Section
from .sources.routes import route_items
from .sources.urls import UrlBuilder

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

logger = logging.getLogger(__name__)

KEY = "sitemapx"  # Flask-Sitemap owns "sitemap", and an application may move over gradually
SITEMAP_PATH = "/sitemap.xml"
_PREFIXES = ("/sitemap", ROBOTS_PATH)


class Sitemap(Registry):
    """The sitemap of a Flask application, or of several.

        sitemap = Sitemap(app)                   # or Sitemap(), and init_app(app) later

        @sitemap.section("articles")
        def articles():
            for article in newest_articles():
                yield "article", {"slug": article.slug}, article.updated

    serves ``/sitemap.xml``, ``/sitemap-<section>-<n>.xml``, each also as ``.xml.gz``, and ``/robots.txt``. Sections,
    views and settings may come before or after; all is read when the sitemap is first needed.
    """

    def __init__(self, app: Flask | None = None) -> None:
        super().__init__()
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Serve the sitemap of *app*. Raises `ConfigurationError` if it has one already."""
        if KEY in app.extensions:
            raise ConfigurationError(
                f"the application {app.name!r} has a Sitemap already; import and use that instance instead"
            )
        binding = Binding(app, self)
        app.extensions[KEY] = binding
        app.register_blueprint(_blueprint())
        app.wsgi_app = Front(app.wsgi_app, binding)  # type: ignore[method-assign]

    def build(self, app: Flask | None = None) -> Snapshot:
        """Build and publish a new set now, in this thread, and return it.

        Raises `BuildFailed` if a section fails. *app* defaults to the current application.
        """
        return self._binding(app).refresher().build()

    def touch(self, section: str, app: Flask | None = None) -> None:
        """Say that the entries of *section* changed: the next request waits for them to be read again."""
        binding = self._binding(app)
        if section not in binding.names():
            raise ConfigurationError(f"there is no section {section!r}; there are {', '.join(binding.names())}")
        binding.touch(section)

    def status(self, app: Flask | None = None) -> dict[str, Any]:
        """What is served and what is wrong with it, as plain values that JSON can hold."""
        return self._binding(app).status()

    def _binding(self, app: Flask | None) -> Binding:
        app = app or current_app
        binding: Binding | None = app.extensions.get(KEY)
        if binding is None or binding.registry is not self:
            raise ConfigurationError(f"this Sitemap is not bound to the application {app.name!r}; call init_app(app)")
        return binding


class Front:
    """The WSGI application that answers our paths and passes on all others."""

    def __init__(self, app: WSGIApplication, binding: Binding) -> None:
        self._app = app
        self._binding = binding

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if not environ["PATH_INFO"].startswith(_PREFIXES):
            return self._app(environ, start_response)
        services = self._binding.services()
        if services.is_behind_hooks or not services.publisher.claims(environ):
            return self._app(environ, start_response)
        status, headers, body = services.publisher.respond(environ)
        start_response(status, headers)
        return self._binding.closing(environ, body)


class Services:
    """What an application's sitemap consists of at run time, made from its settings at the first need."""

    def __init__(self, binding: Binding) -> None:
        app = binding.app
        self.settings = settings = load_settings(app.config)
        self.codec = fastest_codec()
        self.store = open_store(settings.store, settings.memory_limit)
        self.hosts = Hosts(
            _fixed_base(app, settings.base_url),
            app.config.get("TRUSTED_HOSTS") or (),
            (app.config["APPLICATION_ROOT"] or "").rstrip("/"),
        )
        # What wrapped the application before us (ProxyFix, say) corrects headers that we would see as they came.
        self.is_behind_hooks = settings.hooks or (binding.is_wrapped and not self.hosts.is_fixed)
        self.robots_owner = _answering(app, ROBOTS_PATH)
        self.publisher = Publisher(
            self.hosts,
            binding.refresher,
            binding.registry.robots,
            binding,
            self.has_robots,
            Policy(int(settings.max_age), int(settings.refresh), settings.disallow_all),
            self.codec,
            binding.empty,
        )

    def has_robots(self, mount: str) -> bool:
        """Whether ``/robots.txt`` below *mount* is ours: robots are asked about at the root of a host only."""
        if self.settings.robots is not None:
            return self.settings.robots
        base = self.hosts.fixed
        return self.robots_owner is None and not (mount if base is None else base.mount)


class Binding:
    """A registry bound to one application."""

    def __init__(self, app: Flask, registry: Sitemap) -> None:
        self.app = app
        self.registry = registry
        self.is_wrapped = "wsgi_app" in vars(app)
        self._services: Services | None = None
        self._refreshers: dict[BaseUrl, Refresher] = {}
        self._fingerprints: dict[object, str] = {}
        self._warned: set[str] = set()
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._lock = threading.RLock()

    def __contains__(self, section: object) -> bool:
        return section == ROUTES or section in self.registry.sections

    def names(self) -> list[str]:
        return [ROUTES, *self.registry.sections]

    def services(self) -> Services:
        if self._services is None:
            with self._lock:
                if self._services is None:
                    services = Services(self)
                    self._announce(services)
                    self._services = services
        return self._services

    def refresher(self, base: BaseUrl | None = None) -> Refresher:
        """The keeper of the set of *base*, by default of the one that is configured."""
        services = self.services()
        base = base or services.hosts.fixed or PLACEHOLDER
        if base not in self._refreshers:
            with self._lock:
                if base not in self._refreshers:
                    self._refreshers[base] = self._new_refresher(base, services)
        return self._refreshers[base]

    def touch(self, section: str) -> None:
        for refresher in [*self._refreshers.values()] or [self.refresher()]:
            refresher.touch(section)

    def closing(self, environ: WSGIEnvironment, body: Iterable[bytes]) -> Iterable[bytes]:
        """*body*, after which a build runs that found no thread."""
        if environ.get("wsgi.multiprocess") and not self.services().store.shared:
            self._warn_once(
                "sitemap: 'memory:' keeps one set per worker process; set SITEMAP_STORE='file:/a/directory'"
            )
        pending = [refresher for refresher in self._refreshers.values() if refresher.is_pending]
        return ClosingIterator(body, [refresher.run_pending for refresher in pending]) if pending else body

    def status(self) -> dict[str, Any]:
        services = self.services()
        self.refresher()
        base = services.hosts.fixed
        status: dict[str, Any] = {
            "base_url": base.text if base else None,
            "store": type(services.store).__name__,
            "sites": [_site_status(base, refresher) for base, refresher in self._refreshers.items()],
        }
        if not services.has_robots(base.mount if base else ""):
            status["robots_lines"] = self.registry.robots.lines([f"{base.text if base else ''}{SITEMAP_PATH}"])
        return status

    def empty(self) -> str:
        count = sum(1 for _ in self.app.url_map.iter_rules())
        return (
            f"There is nothing to list: of {count} rules of the url_map none is listed, and no section has entries. "
            "Mark views with @sitemap.include, or look at SITEMAP_ROUTES."
        )

    # What the snapshots are made from

    def _new_refresher(self, base: BaseUrl, services: Services) -> Refresher:
        settings = services.settings
        archive = Archive(services.store, sha256(base.text.encode())[:16])
        builder = Builder(
            base,
            archive,
            partial(self._sources, base),
            self._rules,
            services.codec,
            scope=partial(self._scope, base),
        )
        shows_errors = self.app.debug or self.app.testing
        timing = Timing(settings.refresh, settings.build_wait, settings.lease, retry=not shows_errors)
        return Refresher(builder, timing, self.names, partial(self._fingerprint, base))

    def _rules(self) -> Rules:
        settings = load_settings(self.app.config)
        is_strict = self.app.debug or self.app.testing if settings.on_error is None else settings.on_error == "raise"
        return Rules(
            Limits(settings.max_urls),
            always_index=settings.index == "always",
            verify_age=settings.verify_age,
            grace=settings.grace,
            strict=is_strict,
            timezone=settings.timezone,
        )

    def _fingerprint(self, base: BaseUrl) -> str:
        """Stands for what documents are made from, besides the entries."""
        names = tuple(self.registry.sections)
        key = (base, names, len(self.app.view_functions))
        if key not in self._fingerprints:
            settings = self.services().settings
            rules = [f"{rule.endpoint} {rule.rule}" for rule in self.app.url_map.iter_rules()]
            parts = [FORMAT, base.text, names, settings.max_urls, settings.index, settings.routes, settings.timezone]
            self._fingerprints[key] = sha256("\n".join(map(str, [*parts, *rules])).encode())[:32]
        return self._fingerprints[key]

    def _sources(self, base: BaseUrl) -> Sequence[SectionSource]:
        adapter = _adapter(self.app, base)
        inject = partial(_injected, self.app, base) if any(self.app.url_default_functions.values()) else None
        urls = UrlBuilder(adapter, base, inject)
        routes = partial(
            route_items,
            adapter,
            self._mark,
            has_view=self.app.view_functions.__contains__,
            own=f"{KEY}.",
            marked_only=self.services().settings.routes == "marked",
            inject=inject,
        )
        sections = [Section(ROUTES, routes), *self.registry.sections.values()]
        return [SectionSource(section, urls, self._view_defaults, self.app) for section in sections]

    def _mark(self, endpoint: str) -> Mark | None:
        return self.registry.mark(self.app.view_functions.get(endpoint))

    def _view_defaults(self, endpoint: str) -> Defaults | None:
        mark = self._mark(endpoint)
        return mark.defaults if mark else None

    @contextmanager
    def _scope(self, base: BaseUrl) -> Iterator[None]:
        """An application context in which url_for gives URLs of *base*."""
        context = self.app.app_context()
        with context:
            context.url_adapter = _adapter(self.app, base)
            yield

    # What is said once

    def _announce(self, services: Services) -> None:
        app, settings = self.app, services.settings
        if not services.hosts.is_fixed and not (app.debug or app.testing):
            logger.warning(
                "sitemap: the site's name is taken from each request; set SITEMAP_BASE_URL='https://www.example.com'"
            )
        if owner := _answering(app, SITEMAP_PATH):
            logger.warning("sitemap: %s is answered in place of the application's %r", SITEMAP_PATH, owner)
        if services.robots_owner is not None and settings.robots is None:
            logger.info(
                "sitemap: %s is left to the application's %r; sitemap.robots.lines() has the lines to add",
                ROBOTS_PATH,
                services.robots_owner,
            )
            _yield_rule(app.url_map, ROBOTS_PATH)

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            logger.warning(text)


class SectionSource:
    """A registered section as the builder pulls it."""

    def __init__(
        self, section: Section, urls: UrlBuilder, view_defaults: Callable[[str], Defaults | None], app: Flask
    ) -> None:
        self.name = section.name
        self._section = section
        self._urls = urls
        self._view_defaults = view_defaults
        self._app = app

    def version(self) -> str | None:
        value = self._section.version() if self._section.version else None
        return None if value is None else repr(value)

    def columns(self) -> Iterator[Columns]:
        items = Items(self._urls, self._section.defaults, self._view_defaults, self._endpoint())
        pulled = self._section.function()
        try:
            yield from items.columns(pulled)
        finally:
            if close := getattr(pulled, "close", None):
                close()

    def _endpoint(self) -> str | None:
        """What mappings of URL values belong to: as in Frozen-Flask, a function's name may be an endpoint."""
        name = self._section.endpoint or getattr(self._section.function, "__name__", "")
        return name if self._section.endpoint or name in self._app.view_functions else None


# Flask's side


def _blueprint() -> Blueprint:
    blueprint = Blueprint(KEY, __name__)
    for rule, endpoint in (
        (SITEMAP_PATH, "sitemap"),
        (f"{SITEMAP_PATH}.gz", "sitemap_gzip"),
        ("/sitemap-<section>-<number>.xml", "shard"),
        ("/sitemap-<section>-<number>.xml.gz", "shard_gzip"),
        (ROBOTS_PATH, "robots"),
    ):
        blueprint.add_url_rule(rule, endpoint, _view)
    return blueprint


def _view(**values: str) -> FlaskResponse:
    binding: Binding = current_app.extensions[KEY]
    services = binding.services()
    if request.path == ROBOTS_PATH and not services.has_robots(request.script_root):
        abort(404)
    status, headers, body = services.publisher.respond(request.environ)
    response = FlaskResponse(binding.closing(request.environ, body), status, direct_passthrough=True)
    response.headers.clear()
    response.headers.extend(headers)
    return response


def _fixed_base(app: Flask, base_url: str | None) -> BaseUrl | None:
    if base_url is not None:
        return BaseUrl.parse(base_url)
    if name := app.config["SERVER_NAME"]:
        root = (app.config["APPLICATION_ROOT"] or "").rstrip("/")
        return BaseUrl.parse(f"{app.config['PREFERRED_URL_SCHEME']}://{name}{root}")
    return None


def _adapter(app: Flask, base: BaseUrl) -> MapAdapter:
    scheme, _, host = base.origin.partition("://")
    subdomain = None
    server_name = app.config["SERVER_NAME"]
    if app.subdomain_matching and server_name and host.endswith(f".{server_name}"):
        subdomain, host = host.removesuffix(f".{server_name}"), server_name
    return app.url_map.bind(host, script_name=f"{base.mount}/", subdomain=subdomain, url_scheme=scheme)


def _injected(app: Flask, base: BaseUrl, endpoint: str, values: dict[str, Any]) -> None:
    """Complete *values* by the application's `url_defaults`, in a request of their own on *base*."""

    def inject() -> None:
        with app.test_request_context("/", base_url=base.origin + base.mount):
            app.inject_url_defaults(endpoint, values)

    contextvars.Context().run(inject)  # an empty context: the pull's own g and teardown have no part in it


def _answering(app: Flask, path: str) -> str | None:
    """The endpoint by which the application answers *path* itself, if it does."""
    bare = Map(host_matching=app.url_map.host_matching)
    bare.converters = app.url_map.converters
    for rule in app.url_map.iter_rules():
        if not rule.endpoint.startswith(f"{KEY}.") and path.startswith(rule.rule.partition("<")[0]):
            bare.add(rule.empty())
    base = _fixed_base(app, load_settings(app.config).base_url)
    host = base.origin.partition("://")[2] if base else "localhost"
    try:
        endpoint, values = bare.bind(host).match(path, method="GET")
    except RequestRedirect as redirect:
        # Only the slash that a rule like /<name>/ wants: that page is not robots.txt.
        return None if redirect.new_url.endswith(f"{path}/") else redirect.new_url
    except HTTPException:
        return None
    return None if _is_absent_file(app, endpoint, values) else str(endpoint)


def _is_absent_file(app: Flask, endpoint: str, values: Any) -> bool:
    """Whether *endpoint* serves static files, of which this is none."""
    if endpoint != "static" or app.static_folder is None:
        return False
    file = safe_join(app.static_folder, values.get("filename", ""))
    return file is None or not os.path.isfile(file)


def _yield_rule(url_map: Map, path: str) -> None:
    """Let another rule of the same path match: a rule without methods matches nothing."""
    for rule in url_map.iter_rules():
        if rule.endpoint.startswith(f"{KEY}.") and rule.rule == path:
            rule.methods = set()


def _site_status(base: BaseUrl, refresher: Refresher) -> dict[str, Any]:
    snapshot = refresher.last_good()
    return {
        "base_url": None if base.is_placeholder else base.text,
        "state": refresher.state(),
        "error": refresher.error,
        "store_error": refresher.store_error,
        "snapshot": None if snapshot is None else snapshot.summary(),
    }
