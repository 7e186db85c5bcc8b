"""A registry bound to an application: its services at run time, and the front that answers for it. No framework."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol

from werkzeug.wsgi import ClosingIterator

from .errors import ConfigurationError, StoreError
from .protocol.documents import LEGACY_MAX_BYTES, LEGACY_NAMESPACE, MAX_BYTES, NAMESPACE, framed
from .protocol.locs import PLACEHOLDER, BaseUrl
from .serving.hosts import Hosts
from .serving.page import Pages
from .serving.publisher import PAGE_PATH, ROBOTS_PATH, SITEMAP_PATH, STYLESHEET_PATH, TEXT_PATH, Policy, Publisher
from .serving.representation import Response
from .serving.stylesheet import NAME as STYLESHEET
from .settings import Settings, load_settings
from .snapshots.builder import Builder
from .snapshots.compression import fastest_codec
from .snapshots.forking import after_fork
from .snapshots.opening import described, open_store
from .snapshots.reading import Rules
from .snapshots.refresher import Refresher, Timing
from .snapshots.shards import Limits
from .snapshots.snapshot import FORMAT, Archive, Snapshot, sha256
from .snapshots.store import Store
from .sources.languages import check_languages
from .sources.parts import Source
from .sources.registry import Registry

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

logger = logging.getLogger(__name__)

_PREFIXES = ("/sitemap", ROBOTS_PATH)
_LEGACY = (LEGACY_NAMESPACE, LEGACY_MAX_BYTES)


class Application(Protocol):
    """What a binding asks of the application that it answers for. A new framework is one class with these members."""

    @property
    def name(self) -> str: ...

    @property
    def config(self) -> Mapping[str, Any]: ...

    @property
    def is_wrapped(self) -> bool:
        """Whether something outside of the application corrects the headers of requests before it sees them."""
        ...

    @property
    def shows_errors(self) -> bool:
        """Whether a developer sees the answers, as in debug and testing."""
        ...

    @property
    def mount(self) -> str:
        """The configured mount point: empty, or with a slash before and none behind."""
        ...

    @property
    def trusted_hosts(self) -> Iterable[str]: ...

    def base_url(self) -> BaseUrl | None:
        """The base URL that the application's own configuration gives."""
        ...

    def names(self) -> list[str]:
        """The names of all sections."""
        ...

    def sources(self, base: BaseUrl, settings: Settings) -> Sequence[Source]: ...

    def scope(self, base: BaseUrl) -> AbstractContextManager[object]:
        """What is entered around each pull."""
        ...

    def size(self) -> object:
        """A value that differs whenever `parts` may."""
        ...

    def parts(self) -> Iterable[object]:
        """What documents are made from, besides the entries, settings and sections."""
        ...

    def owner(self, path: str, base: BaseUrl | None) -> str | None:
        """The name of what answers *path* in the application itself, if anything does."""
        ...

    def rule_owner(self, path: str) -> str | None:
        """The same, of what answers *path* and no other."""
        ...

    def leave(self, path: str) -> None:
        """Let the application's own answer to *path* be heard."""
        ...

    def empty(self) -> str:
        """What to say and do when there is nothing to list."""
        ...


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
    """What a sitemap consists of at run time, made from the settings at the first need."""

    def __init__(self, binding: Binding) -> None:
        app = binding.application
        self.settings = settings = load_settings(app.config)
        self.codec = fastest_codec()
        base = parsed_base("SITEMAP_BASE_URL", settings.base_url) if settings.base_url else app.base_url()
        check_languages(settings.languages)
        self.hosts = Hosts(base, app.trusted_hosts, app.mount)
        # What wrapped the application before us (ProxyFix, say) corrects headers that we would see as they came.
        self.is_behind_hooks = settings.hooks or (app.is_wrapped and base is None)
        self.sitemap_owner = app.owner(SITEMAP_PATH, base)
        self.robots_owner = app.owner(ROBOTS_PATH, base)
        self.page_owner = app.rule_owner(PAGE_PATH)
        self.has_stylesheet = settings.stylesheet == STYLESHEET and app.rule_owner(STYLESHEET_PATH) is None
        self.is_page_wanted = settings.html or bool(app.config.get("DEBUG"))
        self.publisher = Publisher(
            self.hosts,
            binding.refresher,
            binding.registry.robots,
            binding,
            self.has_robots,
            Policy(int(settings.max_age), int(settings.refresh), settings.disallow_all),
            self.codec,
            app.empty,
            Pages(settings).answer if self.has_page else None,
            has_text=app.rule_owner(TEXT_PATH) is None,
            has_stylesheet=self.has_stylesheet,
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

    @property
    def has_page(self) -> bool:
        """Whether ``/sitemap`` is ours."""
        return self.is_page_wanted and self.page_owner is None

    def has_robots(self, mount: str) -> bool:
        """Whether ``/robots.txt`` below *mount* is ours: robots are asked about at the root of a host only."""
        if self.settings.robots is not None:
            return self.settings.robots
        base = self.hosts.fixed
        return self.robots_owner is None and not (mount if base is None else base.mount)


class Binding:
    """A registry bound to one application."""

    def __init__(self, application: Application, registry: Registry) -> None:
        self.application = application
        self.registry = registry
        self._services: Services | None = None
        self._refreshers: dict[BaseUrl, Refresher] = {}
        self._warned: set[str] = set()
        self._reset()
        after_fork(self._reset)

    def _reset(self) -> None:
        self._lock = threading.RLock()

    def __contains__(self, section: object) -> bool:
        return section in self.names()

    def names(self) -> list[str]:
        return self.application.names()

    def services(self) -> Services:
        if self._services is None:
            with self._lock:
                if self._services is None:
                    services = Services(self)
                    self._announce(services)
                    self._services = services
        return self._services

    def answer_in_front(self, environ: WSGIEnvironment) -> Response | None:
        """The answer to a request, or None if the application is to be asked."""
        try:
            services = self.services()
        except ConfigurationError:
            return None  # reported by the application, as any error of its own
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
        """Say that *section* changed; `ConfigurationError` if there is none of this name."""
        if section not in self:
            raise ConfigurationError(f"there is no section {section!r}; there are {', '.join(self.names())}")
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
        """What is served and what is wrong with it, as plain values. It only looks: nothing is built for it."""
        services = self.services()
        base, store = services.hosts.fixed, services.settings.store
        status: dict[str, Any] = {
            "base_url": base.text if base else None,
            "store": described(store),
            "limits": {"urls": services.settings.max_urls, "bytes": MAX_BYTES},
            "sites": [],
        }
        if not services.has_robots(base.mount if base else self.application.mount):
            sitemaps = [f"{base.text}{SITEMAP_PATH}"] if base else []
            status["robots_lines"] = self.registry.robots.lines(sitemaps)
        try:
            refresh = services.settings.refresh
            status["sites"] += [_site_status(*kept, refresh) for kept in self.refreshers().items()]
        except StoreError as error:
            status["error"] = str(error)
        return status

    # What the snapshots are made from

    def _new_refresher(self, base: BaseUrl, services: Services) -> Refresher:
        settings, application = services.settings, self.application
        # Two applications without a name may share a store, and each has its own pages.
        name = f"{application.name}{base.text}" if base.is_placeholder else base.text
        # Under the format, so that builders of two do not undo each other's work while a deployment rolls.
        archive = Archive(services.store(), sha256(f"{FORMAT} {name}".encode())[:16])
        builder = Builder(
            base,
            archive,
            partial(application.sources, base, settings),
            self._rules,
            services.codec,
            scope=partial(application.scope, base),
        )
        retry = not application.shows_errors
        timing = Timing(settings.refresh, settings.build_wait, settings.lease, retry=retry)
        return Refresher(builder, timing, self.names, self._fingerprint(base))

    def _rules(self) -> Rules:
        settings = load_settings(self.application.config)
        shows_errors = self.application.shows_errors
        namespace, size = _LEGACY if settings.namespace == "0.84" else (NAMESPACE, MAX_BYTES)
        stylesheet = None if settings.stylesheet == "none" else settings.stylesheet
        return Rules(
            Limits(settings.max_urls, size),
            always_index=settings.index == "always",
            verify_age=settings.verify_age,
            grace=settings.grace,
            strict=shows_errors if settings.on_error is None else settings.on_error == "raise",
            timezone=settings.timezone,
            urlset=framed("urlset", namespace, stylesheet),
            sitemapindex=framed("sitemapindex", namespace, stylesheet),
            feeds=self.registry.feeds,
        )

    def _fingerprint(self, base: BaseUrl) -> Callable[[], str]:
        """What gives a text that stands for all that documents are made from besides the entries."""
        sections, size = self.registry.sections, self.application.size
        known = lru_cache(maxsize=1)(lambda *sizes: self._new_fingerprint(base))
        return lambda: known(len(sections), size())  # sections only come, and never go

    def _new_fingerprint(self, base: BaseUrl) -> str:
        settings = self.services().settings
        parts = [FORMAT, base.text, self.names(), settings.max_urls, settings.index, settings.timezone]
        parts += [settings.namespace, settings.stylesheet, settings.languages, settings.language_argument]
        parts += [settings.routes, settings.include, settings.exclude, settings.words, *self.application.parts()]
        parts += [f"{one.name} {one.signature}" for one in self.registry.sections.values()]
        return sha256("\n".join(map(str, parts)).encode())[:32]

    # What is said once

    def _announce(self, services: Services) -> None:
        if services.hosts.is_open and not self.application.shows_errors:
            logger.warning(
                "sitemap: the site's name is taken from each request; set SITEMAP_BASE_URL='https://www.example.com'"
            )
        if services.sitemap_owner is not None:
            logger.warning(
                "sitemap: %s is answered in place of the application's %r", SITEMAP_PATH, services.sitemap_owner
            )
        if self.application.rule_owner(TEXT_PATH) is not None:
            self.application.leave(TEXT_PATH)
        if not services.has_stylesheet:
            self.application.leave(STYLESHEET_PATH)
        self._announce_robots(services)
        self._announce_page(services)

    def _announce_robots(self, services: Services) -> None:
        owner, wanted = services.robots_owner, services.settings.robots
        if owner is None or wanted:
            return
        self.application.leave(ROBOTS_PATH)
        if wanted is None:
            logger.info(
                "sitemap: %s is left to the application's %r; sitemap.robots.lines() has the lines to add",
                ROBOTS_PATH,
                owner,
            )

    def _announce_page(self, services: Services) -> None:
        if services.has_page:
            return
        self.application.leave(PAGE_PATH)
        if services.is_page_wanted:
            level = logging.WARNING if services.settings.html else logging.INFO
            logger.log(level, "sitemap: %s is left to the application's %r", PAGE_PATH, services.page_owner)

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            logger.warning(text)


def parsed_base(key: str, text: str) -> BaseUrl:
    """The base URL in the setting *key*, which an error names."""
    try:
        return BaseUrl.parse(text)
    except ConfigurationError as error:
        raise ConfigurationError(f"{key}: {error}") from None


def _site_status(base: BaseUrl, refresher: Refresher, refresh: float) -> dict[str, Any]:
    snapshot = refresher.last_good()
    is_there = snapshot is not None and snapshot.fingerprint != ""
    return {
        "base_url": None if base.is_placeholder else base.text,
        "state": refresher.state(),
        "building_for": None if (seconds := refresher.building_for()) is None else round(seconds, 1),
        "error": refresher.error,
        "store_error": refresher.store_error,
        **(_age(snapshot, refresh) if snapshot and is_there else {"snapshot": None}),
    }


def _age(snapshot: Snapshot, refresh: float) -> dict[str, Any]:
    age = round(time.time() - snapshot.built_at)
    shards = [shard for section in snapshot.sections.values() for shard in section.shards]
    documents = [shard.document for shard in shards if shard.document]
    return {
        "snapshot": snapshot.summary(),
        "age": age,
        "due_in": max(0, round(refresh) - age),
        "largest": {
            "urls": max((document.entries for document in documents), default=0),
            "bytes": max((document.length for document in documents), default=0),
        },
    }
