"""`Sitemap`: binds a registry to Flask applications and answers in front of them."""

from __future__ import annotations

import contextvars
import logging
import os
import weakref
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast

from flask import Blueprint, Flask, abort, current_app, has_app_context, request
from flask import Response as FlaskResponse
from werkzeug.exceptions import HTTPException
from werkzeug.routing import BaseConverter, Map, MapAdapter, RequestRedirect, Rule
from werkzeug.security import safe_join

from .binding import Binding, Front, parsed_base
from .cli import commands
from .errors import ConfigurationError
from .protocol.locs import PLACEHOLDER, BaseUrl
from .serving.publisher import PAGE_PATH, ROBOTS_PATH, SITEMAP_PATH, STYLESHEET_PATH, TEXT_PATH
from .serving.representation import TEXT
from .settings import Settings, load_settings
from .snapshots.snapshot import Snapshot
from .sources.awaiting import awaited
from .sources.defaults import NO_DEFAULTS, Defaults
from .sources.judgement import WORDS, Judge
from .sources.languages import Languages, languages_of
from .sources.parts import Source
from .sources.registry import ROUTES, Mark, Registry, Section
from .sources.routes import Explained, Routes
from .sources.sections import SectionSource
from .sources.urls import UrlBuilder
from .sources.view_code import texts_of

if TYPE_CHECKING:
    from .sources.tables import Table

logger = logging.getLogger(__name__)

KEY = "sitemapx"  # Flask-Sitemap owns "sitemap", and an application may move over gradually


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
        self._apps: list[weakref.ref[Flask]] = []  # a factory may make many, and drop them
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Serve the sitemap of *app*. Raises `ConfigurationError` if it has one already."""
        if KEY in app.extensions:
            raise ConfigurationError(
                f"the application {app.name!r} has a Sitemap already; import and use that instance instead"
            )
        binding = Binding(FlaskApplication(app, self), self)
        app.url_map.converters[Digits.name] = Digits
        app.register_blueprint(_blueprint())
        app.cli.commands.setdefault("sitemap", commands)
        app.extensions[KEY] = binding
        self._apps.append(weakref.ref(app))
        app.wsgi_app = Front(app.wsgi_app, binding)  # type: ignore[method-assign]

    @property
    def apps(self) -> list[Flask]:
        """The applications that this sitemap is bound to."""
        return [app for known in self._apps if (app := known()) is not None]

    def build(self, app: Flask | None = None) -> Snapshot:
        """Build and publish a new set now, in this thread, and return it.

        Raises `BuildFailed` if a section fails. *app* defaults to the current application, or to the only one.
        """
        # In a context of its own: url_for in a section says the same whoever asks for the build.
        return contextvars.Context().run(self._binding(app).refresher().build)

    def refresh(self, app: Flask | None = None) -> Snapshot:
        """The set that is served if it is fresh, else one that is built and published now, in this thread.

        For deployments, before the first request comes. Raises `BuildFailed` if a section fails.
        """
        return contextvars.Context().run(self._binding(app).refresher().fresh)

    def touch(self, section: str, app: Flask | None = None) -> None:
        """Say that the entries of *section* changed: the next request waits for them to be read again."""
        self._binding(app).touch(section)

    def status(self, app: Flask | None = None) -> dict[str, Any]:
        """What is served and what is wrong with it, as plain values that JSON can hold."""
        return self._binding(app).status()

    def explain_routes(self, app: Flask | None = None) -> list[Explained]:
        """What becomes of each rule of the url_map, in its order: (endpoint, url, listed, reason).

        *url* is the path, None if the rule is not listed.
        """
        binding = self._binding(app)
        services = binding.services()
        application = cast(FlaskApplication, binding.application)
        return application.explained(services.hosts.fixed or PLACEHOLDER, services.settings)

    def _binding(self, app: Flask | None) -> Binding:
        if app is None:
            apps = self.apps
            app = apps[0] if len(apps) == 1 and not has_app_context() else current_app
        binding: Binding | None = app.extensions.get(KEY)
        if binding is None or binding.registry is not self:
            raise ConfigurationError(f"this Sitemap is not bound to the application {app.name!r}; call init_app(app)")
        return binding


class FlaskApplication:
    """A Flask application as its binding sees it; *settings* go before its configuration."""

    def __init__(self, app: Flask, registry: Registry, settings: Mapping[str, Any] | None = None) -> None:
        self.name = app.name
        self.config = ChainMap(dict(settings or {}), app.config)
        self.is_wrapped = "wsgi_app" in vars(app)
        self._app = app
        self._registry = registry
        self._has_told = False

    @property
    def shows_errors(self) -> bool:
        return self._app.debug or self._app.testing

    @property
    def mount(self) -> str:
        root = (self._app.config["APPLICATION_ROOT"] or "").strip("/")
        return f"/{root}" if root else ""

    @property
    def trusted_hosts(self) -> Iterable[str]:
        return self._app.config.get("TRUSTED_HOSTS") or ()

    def base_url(self) -> BaseUrl | None:
        config = self._app.config
        if not config["SERVER_NAME"]:
            return None
        return parsed_base("SERVER_NAME", f"{config['PREFERRED_URL_SCHEME']}://{config['SERVER_NAME']}{self.mount}")

    def names(self) -> list[str]:
        return [ROUTES, *self._registry.sections]

    def sources(self, base: BaseUrl, settings: Settings) -> Sequence[Source]:
        routes = self._routes(base, settings)
        languages = self._languages(base, settings)
        urls = UrlBuilder(_adapter(self._app, base), base, self._inject(base, languages))
        sections = [Section(ROUTES, partial(routes.items)), *self._registry.sections.values()]
        sources = [self._source(section, urls, settings, languages) for section in sections]
        self._announce_open(routes, sources)
        return sources

    def _source(
        self, section: Section | Table, urls: UrlBuilder, settings: Settings, languages: Languages | None
    ) -> Source:
        if isinstance(section, Section):
            endpoint = self._endpoint(section)
            return SectionSource(section, urls, self._view_defaults, endpoint, self._ensure_sync, languages)
        from .sources.tables import TableSource

        rules = [f"{rule.rule} {rule.host} {rule.subdomain}" for rule in self._rules(section.endpoint)]
        view = self._view_defaults(section.endpoint) or NO_DEFAULTS
        return TableSource(
            section, settings.timezone, urls, self._engine, " ".join(rules), self._ensure_sync, view, languages
        )

    def _languages(self, base: BaseUrl, settings: Settings) -> Languages | None:
        """The languages of the site, if it has several."""
        argument, url_map = settings.language_argument, self._app.url_map
        if isinstance(settings.languages, Mapping):
            return languages_of(base, settings.languages)
        known = settings.languages
        if not known and any(argument in rule.arguments for rule in url_map.iter_rules()):
            known = self._translations()

        def expects(endpoint: str) -> bool:
            return endpoint in self._app.view_functions and url_map.is_endpoint_expecting(endpoint, argument)

        return Languages(base, known, argument, lru_cache(maxsize=None)(expects)) if known else None

    def _translations(self) -> tuple[str, ...]:
        """The languages that Flask-Babel has translations for, its default one first; none where it is not used."""
        babel = self._app.extensions.get("babel")
        if babel is None:
            return ()
        with self._app.app_context():
            known = {str(locale) for locale in babel.instance.list_translations()}
        default = str(babel.default_locale)
        return tuple(sorted(known, key=lambda code: (code != default, code)))

    def _rules(self, endpoint: str | None) -> Iterable[Rule]:
        return self._app.url_map.iter_rules(endpoint) if endpoint in self._app.view_functions else ()

    def _engine(self, bind_key: str | None) -> Any:
        """The engine that Flask-SQLAlchemy has under *bind_key*, if it is there."""
        database = self._app.extensions.get("sqlalchemy")
        return None if database is None else database.engines[bind_key]

    @contextmanager
    def scope(self, base: BaseUrl) -> Iterator[None]:
        """An application context in which url_for gives URLs of *base*."""
        context = self._app.app_context()
        with context:
            context.url_adapter = _adapter(self._app, base)
            yield

    def size(self) -> int:
        return len(self._app.view_functions)  # views only come, and never go

    def parts(self) -> Iterable[str]:
        for rule in self._app.url_map.iter_rules():
            mark = self._mark(rule.endpoint)
            yield f"{rule.endpoint} {rule.rule} {f'{mark.is_listed} {mark.defaults.signature}' if mark else None}"

    def owner(self, path: str, base: BaseUrl | None) -> str | None:
        return _answering(self._app, path, base)

    def rule_owner(self, path: str) -> str | None:
        rules = self._app.url_map.iter_rules()
        owners = (rule.endpoint for rule in rules if rule.rule.rstrip("/") == path and "GET" in (rule.methods or ()))
        return next((owner for owner in owners if not owner.startswith(f"{KEY}.")), None)

    def leave(self, path: str) -> None:
        """Let another rule of the same path match: a rule without methods matches nothing."""
        for rule in self._app.url_map.iter_rules():
            if rule.endpoint.startswith(f"{KEY}.") and rule.rule == path:
                rule.methods = set()

    def empty(self) -> str:
        count = sum(not rule.endpoint.startswith(f"{KEY}.") for rule in self._app.url_map.iter_rules())
        return (
            f"There is nothing to list: of {count} rules of the url_map none is listed, and no section has entries. "
            "`flask sitemap routes` says why; @sitemap.include, SITEMAP_INCLUDE and SITEMAP_ROUTES list more."
        )

    def explained(self, base: BaseUrl, settings: Settings) -> list[Explained]:
        """What becomes of each rule of the url_map."""
        filled = self._filled(self.sources(base, settings))
        return list(self._routes(base, settings).explained(filled))

    def _routes(self, base: BaseUrl, settings: Settings) -> Routes:
        app = self._app
        languages = self._languages(base, settings)
        judge = Judge(app.view_functions, app.before_request_funcs, settings.words or WORDS)
        return Routes(
            _adapter(app, base),
            self._answering_mark,
            has_view=app.view_functions.__contains__,
            own=f"{KEY}.",
            marked_only=settings.routes == "marked",
            judge=judge.verdict if settings.routes == "auto" else None,
            include=settings.include,
            exclude=settings.exclude,
            inject=self._inject(base, languages),
            languages=languages,
        )

    def _inject(self, base: BaseUrl, languages: Languages | None) -> Callable[[str, dict[str, Any]], None] | None:
        has_defaults = any(self._app.url_default_functions.values())
        return partial(_injected, self._app, base, languages) if has_defaults else None

    def _mark(self, endpoint: str | None) -> Mark | None:
        return self._registry.mark(self._app.view_functions.get(endpoint or ""))

    def _answering_mark(self, endpoint: str) -> Mark | None:
        """The mark of *endpoint*, whose *when* gives an answer even if it is a coroutine function."""
        mark = self._mark(endpoint)
        if mark is None or (when := mark.when) is None:
            return mark
        return replace(mark, when=lambda: awaited(when(), self._ensure_sync))

    def _ensure_sync(self, function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            return self._app.ensure_sync(function)
        except RuntimeError as error:  # Flask's, where asgiref is missing
            raise ConfigurationError(f"{error} To do so: pip install 'flask-sitemapx[async]'") from error

    def _view_defaults(self, endpoint: str | None) -> Defaults | None:
        mark = self._mark(endpoint)
        return mark.defaults if mark else None

    def _endpoint(self, section: Section) -> str | None:
        """What mappings of URL values belong to: as in Frozen-Flask, a function's name may be an endpoint."""
        name = getattr(section.function, "__name__", "")
        return section.endpoint or (name if name in self._app.view_functions else None)

    def _filled(self, sources: Iterable[Source]) -> dict[str | None, str]:
        """By endpoint, the section that yields its addresses: it says so, or its code names the endpoint."""
        filled: dict[str | None, str] = {source.endpoint: source.name for source in sources}
        sections = (section for section in self._registry.sections.values() if isinstance(section, Section))
        for section in sections:
            for endpoint in texts_of(section.function) & self._app.view_functions.keys():
                filled.setdefault(endpoint, section.name)
        return filled

    def _announce_open(self, routes: Routes, sources: Sequence[Source]) -> None:
        if self._has_told or not logger.isEnabledFor(logging.INFO):  # it takes a walk over the whole map
            return
        self._has_told = True
        if endpoints := routes.open_endpoints() - self._filled(sources).keys():
            text = "sitemap: %d endpoints need arguments, and no section is known to list them; see explain_routes()"
            logger.info(text, len(endpoints))


class Digits(BaseConverter):
    """ASCII digits, as they are: a number of 5,000 digits is no error."""

    name = f"{KEY}_digits"
    regex = "[0-9]+"


def _blueprint() -> Blueprint:
    blueprint = Blueprint(KEY, __name__)
    shard = f"/sitemap-<section>-<{Digits.name}:number>"
    for rule, endpoint in (
        (SITEMAP_PATH, "sitemap"),
        (f"{SITEMAP_PATH}.gz", "sitemap_gzip"),
        (TEXT_PATH, "sitemap_text"),
        (f"{shard}.xml", "shard"),
        (f"{shard}.xml.gz", "shard_gzip"),
        (f"{shard}.txt", "shard_text"),
        ("/sitemap-<section>.atom", "feed"),
        (ROBOTS_PATH, "robots"),
        (PAGE_PATH, "page"),
        (STYLESHEET_PATH, "stylesheet"),
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
    config = {key: binding.application.config.get(key)}
    try:
        is_closed = load_settings(config, {key: os.environ.get(key, "")}).disallow_all
    except ConfigurationError:
        is_closed = True
    robots = binding.registry.robots
    text = robots.closed_text() if is_closed else robots.text()
    return FlaskResponse(text, content_type=TEXT, headers={"Cache-Control": "no-store"})


def _adapter(app: Flask, base: BaseUrl) -> MapAdapter:
    scheme, _, host = base.origin.partition("://")
    subdomain = None
    server_name = app.config["SERVER_NAME"]
    if app.subdomain_matching and server_name and host.endswith(f".{server_name}"):
        subdomain, host = host.removesuffix(f".{server_name}"), server_name
    return app.url_map.bind(host, script_name=f"{base.mount}/", subdomain=subdomain, url_scheme=scheme)


def _injected(app: Flask, base: BaseUrl, languages: Languages | None, endpoint: str, values: dict[str, Any]) -> None:
    """Complete *values* by the application's `url_defaults`, in a request of their own on *base*."""

    def inject() -> None:
        with app.test_request_context("/", base_url=base.origin + base.mount):
            if languages is not None:
                _take_language(app, languages, endpoint)
            app.inject_url_defaults(endpoint, values)

    contextvars.Context().run(inject)  # an empty context: the pull's own g and teardown have no part in it


def _take_language(app: Flask, languages: Languages, endpoint: str) -> None:
    """Let `url_value_preprocessor` functions take the default language, as from the address of the endpoint's page.

    Flask, "Using URL Processors": they put it where the functions of `url_defaults` look for it.
    """
    given = {languages.argument: languages.codes[0]} if languages.expects(endpoint) else {}
    blueprints = accumulate(endpoint.split(".")[:-1], "{}.{}".format)
    for name in (None, *blueprints):
        for function in app.url_value_preprocessors.get(name, ()):
            with suppress(Exception):  # one that takes other values is not meant
                function(endpoint, given)


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
