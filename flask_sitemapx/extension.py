"""`Sitemap`: binds a registry to Flask applications and answers in front of them."""

from __future__ import annotations

import contextvars
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from flask import Blueprint, Flask, abort, current_app, request
from flask import Response as FlaskResponse
from werkzeug.exceptions import HTTPException
from werkzeug.routing import BaseConverter, Map, MapAdapter, RequestRedirect
from werkzeug.security import safe_join
from werkzeug.wsgi import ClosingIterator

from .cli import commands
from .errors import ConfigurationError, StoreError
from .protocol.documents import MAX_BYTES
from .protocol.entries import Columns
from .protocol.locs import PLACEHOLDER, BaseUrl
from .serving.hosts import Hosts
from .serving.publisher import ROBOTS_PATH, SITEMAP_PATH, Policy, Publisher
from .serving.representation import TEXT, Response
from .settings import load_settings
from .snapshots.builder import Builder, Rules
from .snapshots.compression import fastest_codec
from .snapshots.forking import after_fork
from .snapshots.opening import open_store
from .snapshots.refresher import Refresher, Timing
from .snapshots.shards import Limits
from .snapshots.snapshot import FORMAT, Archive, Snapshot, sha256
from .snapshots.store import Store
from .sources.items import Items
from .sources.registry import ROUTES, Defaults, Mark, Registry, Section
from .sources.routes import route_items
from .sources.urls import UrlBuilder

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

logger = logging.getLogger(__name__)

KEY = "sitemapx"  # Flask-Sitemap owns "sitemap", and an application may move over gradually
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
        app.url_map.converters[Digits.name] = Digits
        app.register_blueprint(_blueprint())
        app.cli.commands.setdefault("sitemap", commands)
        app.extensions[KEY] = binding
        app.wsgi_app = Front(app.wsgi_app, binding)  # type: ignore[method-assign]

    def build(self, app: Flask | None = None) -> Snapshot:
        """Build and publish a new set now, in this thread, and return it.

        Raises `BuildFailed` if a section fails. *app* defaults to the current application.
        """
        # In a context of its own: url_for in a section says the same whoever asks for the build.
        return contextvars.Context().run(self._binding(app).refresher().build)

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
        if not environ.get("PATH_INFO", "").startswith(_PREFIXES):
            return self._app(environ, start_response)
        response = self._binding.answer_in_front(environ)
        if response is None:
            return self._app(environ, start_response)
        start_response(response.status, response.headers)
        return self._binding.closing(environ, response.body)


class Services:
    """What an application's sitemap consists of at run time, made from its settings at the first need."""

    def __init__(self, binding: Binding) -> None:
        app = binding.app
        self.settings = settings = load_settings(app.config)
        self.codec = fastest_codec()
        base, mount = _fixed_base(app, settings.base_url), _mount(app)
        self.hosts = Hosts(base, app.config.get("TRUSTED_HOSTS") or (), mount)
        # What wrapped the application before us (ProxyFix, say) corrects headers that we would see as they came.
        self.is_behind_hooks = settings.hooks or (binding.is_wrapped and base is None)
        self.sitemap_owner = _answering(app, SITEMAP_PATH, base)
        self.robots_owner = _answering(app, ROBOTS_PATH, base)
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
        self._store: Store | None = None
        with suppress(StoreError):  # may pass, and robots.txt needs no store; an address of no kind does not
            self.store()

    def store(self) -> Store:
        if self._store is None:
            self._store = open_store(self.settings.store, self.settings.memory_limit)
        return self._store

    @property
    def is_shared(self) -> bool:
        """Whether other processes see what this one builds, as far as that is known."""
        return self._store is None or self._store.shared

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
        self._warned: set[str] = set()
        self._reset()
        after_fork(self._reset)

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

    def answer_in_front(self, environ: WSGIEnvironment) -> Response | None:
        """The answer to a request that need not go through Flask, or None."""
        try:
            services = self.services()
        except ConfigurationError:
            return None  # reported through Flask, as any error of an application
        return None if services.is_behind_hooks else services.publisher.answer(environ)

    def refresher(self, base: BaseUrl | None = None) -> Refresher:
        """The keeper of the set of *base*, by default of the one that is configured."""
        known = self._refreshers.get(base) if base else None
        return known or self._kept_refresher(base or self.services().hosts.fixed or PLACEHOLDER)

    def _kept_refresher(self, base: BaseUrl) -> Refresher:
        services = self.services()
        with self._lock:
            if base not in self._refreshers:
                self._refreshers[base] = self._new_refresher(base, services)
            return self._refreshers[base]

    def refreshers(self) -> dict[BaseUrl, Refresher]:
        """Those that are needed so far, or the one that would be first."""
        if not self._refreshers:
            self.refresher()
        return dict(self._refreshers)

    def touch(self, section: str) -> None:
        for refresher in self.refreshers().values():
            refresher.touch(section)

    def closing(self, environ: WSGIEnvironment, body: Iterable[bytes]) -> Iterable[bytes]:
        """*body*, after which a build runs that found no thread."""
        if environ.get("wsgi.multiprocess") and not self.services().is_shared:
            self._warn_once(
                "sitemap: 'memory:' keeps one set per worker process; set SITEMAP_STORE='file:/a/directory'"
            )
        for refresher in tuple(self._refreshers.values()):
            if refresher.is_pending:
                return ClosingIterator(body, [refresher.run_pending])
        return body

    def status(self) -> dict[str, Any]:
        services = self.services()
        base, store = services.hosts.fixed, services.settings.store
        status: dict[str, Any] = {
            "base_url": base.text if base else None,
            "store": store if isinstance(store, str) else type(store).__name__,
            "limits": {"urls": services.settings.max_urls, "bytes": MAX_BYTES},
            "sites": [],
        }
        if not services.has_robots(base.mount if base else _mount(self.app)):
            sitemaps = [f"{base.text}{SITEMAP_PATH}"] if base else []
            status["robots_lines"] = self.registry.robots.lines(sitemaps)
        try:
            refresh = services.settings.refresh
            status["sites"] += [_site_status(*kept, refresh) for kept in self.refreshers().items()]
        except StoreError as error:
            status["error"] = str(error)
        return status

    def empty(self) -> str:
        count = sum(not rule.endpoint.startswith(f"{KEY}.") for rule in self.app.url_map.iter_rules())
        return (
            f"There is nothing to list: of {count} rules of the url_map none is listed, and no section has entries. "
            "Mark views with @sitemap.include, or look at SITEMAP_ROUTES."
        )

    # What the snapshots are made from

    def _new_refresher(self, base: BaseUrl, services: Services) -> Refresher:
        settings = services.settings
        # Two applications without a name may share a store, and each has its own pages.
        name = f"{self.app.name}{base.text}" if base.is_placeholder else base.text
        # Under the format, so that builders of two do not undo each other's work while a deployment rolls.
        archive = Archive(services.store(), sha256(f"{FORMAT} {name}".encode())[:16])
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
        return Refresher(builder, timing, self.names, self._fingerprint(base))

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

    def _fingerprint(self, base: BaseUrl) -> Callable[[], str]:
        """What gives a text that stands for all that documents are made from besides the entries."""
        sections, views = self.registry.sections, self.app.view_functions
        known = lru_cache(maxsize=1)(lambda *counts: self._new_fingerprint(base))
        return lambda: known(len(sections), len(views))  # both only grow

    def _new_fingerprint(self, base: BaseUrl) -> str:
        settings = self.services().settings
        rules = [f"{rule.endpoint} {rule.rule}" for rule in self.app.url_map.iter_rules()]
        marks = [f"{endpoint} {self._is_listed(endpoint)}" for endpoint in self.app.view_functions]
        names = [*self.registry.sections]
        parts = [FORMAT, base.text, names, settings.max_urls, settings.index, settings.routes, settings.timezone]
        return sha256("\n".join(map(str, [*parts, *rules, *marks])).encode())[:32]

    def _is_listed(self, endpoint: str) -> bool | None:
        mark = self._mark(endpoint)
        return mark.is_listed if mark else None

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
        app = self.app
        if services.hosts.is_open and not (app.debug or app.testing):
            logger.warning(
                "sitemap: the site's name is taken from each request; set SITEMAP_BASE_URL='https://www.example.com'"
            )
        if services.sitemap_owner is not None:
            logger.warning(
                "sitemap: %s is answered in place of the application's %r", SITEMAP_PATH, services.sitemap_owner
            )
        self._announce_robots(services)

    def _announce_robots(self, services: Services) -> None:
        owner, wanted = services.robots_owner, services.settings.robots
        if owner is None or wanted:
            return
        _yield_rule(self.app.url_map, ROBOTS_PATH)
        if wanted is None:
            logger.info(
                "sitemap: %s is left to the application's %r; sitemap.robots.lines() has the lines to add",
                ROBOTS_PATH,
                owner,
            )

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


class Digits(BaseConverter):
    """ASCII digits, as they are: a number of 5,000 digits is no error."""

    name = f"{KEY}_digits"
    regex = "[0-9]+"


def _blueprint() -> Blueprint:
    blueprint = Blueprint(KEY, __name__)
    shard = f"/sitemap-<section>-<{Digits.name}:number>.xml"
    for rule, endpoint in (
        (SITEMAP_PATH, "sitemap"),
        (f"{SITEMAP_PATH}.gz", "sitemap_gzip"),
        (shard, "shard"),
        (f"{shard}.gz", "shard_gzip"),
        (ROBOTS_PATH, "robots"),
    ):
        blueprint.add_url_rule(rule, endpoint, _view, provide_automatic_options=False)
    return blueprint


def _view(**values: str) -> FlaskResponse:
    binding: Binding = current_app.extensions[KEY]
    try:
        services = binding.services()
    except ConfigurationError as error:
        if request.path != ROBOTS_PATH:
            raise
        logger.error("sitemap: %s", error)
        return _robots_anyway(binding)
    answer = services.publisher.answer(request.environ) or abort(404)
    response = FlaskResponse(binding.closing(request.environ, answer.body), answer.status, direct_passthrough=True)
    response.headers.clear()
    response.headers.extend(answer.headers)
    response.automatically_set_content_length = False  # of a HEAD it would be 0
    return response


def _robots_anyway(binding: Binding) -> FlaskResponse:
    """robots.txt under settings that cannot be used: crawlers stay away from a whole site whose robots.txt fails."""
    key = "SITEMAP_DISALLOW_ALL"
    try:
        is_closed = load_settings({key: binding.app.config.get(key)}, {key: os.environ.get(key, "")}).disallow_all
    except ConfigurationError:
        is_closed = True
    robots = binding.registry.robots
    text = robots.closed_text() if is_closed else robots.text()
    return FlaskResponse(text, content_type=TEXT, headers={"Cache-Control": "no-store"})


def _fixed_base(app: Flask, base_url: str | None) -> BaseUrl | None:
    if base_url is not None:
        return _base("SITEMAP_BASE_URL", base_url)
    if name := app.config["SERVER_NAME"]:
        return _base("SERVER_NAME", f"{app.config['PREFERRED_URL_SCHEME']}://{name}{_mount(app)}")
    return None


def _base(key: str, text: str) -> BaseUrl:
    try:
        return BaseUrl.parse(text)
    except ConfigurationError as error:
        raise ConfigurationError(f"{key}: {error}") from None


def _mount(app: Flask) -> str:
    """The configured mount point: empty, or with a slash before and none behind."""
    root = (app.config["APPLICATION_ROOT"] or "").strip("/")
    return f"/{root}" if root else ""


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


def _answering(app: Flask, path: str, base: BaseUrl | None) -> str | None:
    """The endpoint by which the application answers *path* itself, if it does."""
    bare = Map(host_matching=app.url_map.host_matching)
    bare.converters = app.url_map.converters
    for rule in app.url_map.iter_rules():
        if not rule.endpoint.startswith(f"{KEY}.") and path.startswith(rule.rule.partition("<")[0]):
            bare.add(rule.empty())
    hosts = [base.origin.partition("://")[2]] if base else {rule.host or "localhost" for rule in bare.iter_rules()}
    return next((owner for host in hosts if (owner := _matching(app, bare.bind(host), path))), None)


def _matching(app: Flask, adapter: MapAdapter, path: str) -> str | None:
    try:
        endpoint, values = adapter.match(path, method="GET")
    except RequestRedirect as redirect:
        # Only the slash that a rule like /<name>/ wants: that page is not robots.txt.
        return None if redirect.new_url.endswith(f"{path}/") else redirect.new_url
    except HTTPException:
        return None
    return None if _is_absent_file(app, endpoint, values) else str(endpoint)


def _is_absent_file(app: Flask, endpoint: str, values: Mapping[str, Any]) -> bool:
    """Whether *endpoint* serves static files, of which this is none."""
    owner, _, name = endpoint.rpartition(".")
    scaffold = app.blueprints.get(owner) if owner else app
    if name != "static" or scaffold is None or scaffold.static_folder is None:
        return False
    file = safe_join(scaffold.static_folder, values.get("filename", ""))
    return file is None or not os.path.isfile(file)


def _yield_rule(url_map: Map, path: str) -> None:
    """Let another rule of the same path match: a rule without methods matches nothing."""
    for rule in url_map.iter_rules():
        if rule.endpoint.startswith(f"{KEY}.") and rule.rule == path:
            rule.methods = set()


def _site_status(base: BaseUrl, refresher: Refresher, refresh: float) -> dict[str, Any]:
    snapshot = refresher.last_good()
    status: dict[str, Any] = {
        "base_url": None if base.is_placeholder else base.text,
        "state": refresher.state(),
        "error": refresher.error,
        "store_error": refresher.store_error,
        "snapshot": None if snapshot is None or snapshot.fingerprint == "" else snapshot.summary(),
    }
    if snapshot is not None and status["snapshot"]:
        age = round(time.time() - snapshot.built_at)
        documents = [shard.document for section in snapshot.sections.values() for shard in section.shards]
        status["age"] = age
        status["due_in"] = max(0, round(refresh) - age)
        status["largest"] = {
            "urls": max((document.entries for document in documents), default=0),
            "bytes": max((document.length for document in documents), default=0),
        }
    return status
