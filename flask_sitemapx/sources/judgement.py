"""Whether a rule of a url_map leads to a page that a public sitemap would list, told without running its view."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

from werkzeug.routing import Rule

from .view_code import (
    REDIRECTS,
    TEMPLATE,
    CodeFacts,
    Parts,
    called,
    code_facts,
    is_demand,
    is_foundation,
    is_guard,
    own_attributes,
    package_of,
    parts_of,
    returned_data,
    vocabulary,
)

WORDS = vocabulary(
    # who somebody is
    "login logon logout logoff signin signout signup register registration registrations auth authenticate authorize "
    "authorized authentication authorization oauth oauth2 openid oidc saml sso password passwords passwd forgot forget "
    "reset recover recovery confirm confirmation confirmed activate activation verify verification resend unconfirmed "
    "otp totp mfa 2fa webauthn passkey passkeys captcha token tokens session sessions account accounts profile "
    "settings preferences prefs unsubscribe invite invitation invitations impersonate inbox notifications /me /my "
    # who runs the site
    "admin admins administration administrator manage management manager moderation moderator console dashboard "
    "config configure configuration setup install installation installer maintenance backup backups restore shutdown "
    "restart reboot cron debug internal private "
    # machines
    "api apis ajax rpc jsonrpc xmlrpc graphql graphiql rest odata swagger openapi apidoc apidocs apispec redoc webhook "
    "webhooks hook hooks callback callbacks websocket ws socket sse json xml csv v1 v2 v3 health healthz healthcheck "
    "heartbeat ping alive livez liveness readyz readiness metrics autocomplete suggest suggestions embed oembed "
    "iframe proxy csp "
    # what is done, and what it ends in
    "add create edit delete remove update save submit upload uploads import export /search cart basket checkout "
    "payment thanks thank success sent cancel canceled cancelled error errors unauthorized forbidden 401 403 404 500 "
    # files
    "/new static assets favicon robots sitemap sitemaps feed feeds rss atom manifest opensearch serviceworker sw"
)
"""Words of paths and endpoints that are no public pages; one with a slash in front is a whole segment of a path."""

_PACKAGES = {
    "administration": "flask_admin flask_superadmin flask_appbuilder flask_peewee",
    "an API": "flask_restx flask_restplus flask_restful flask_smorest flask_apispec flask_openapi3 flask_rebar eve "
    "flask_restless flask_rest_jsonapi flask_jsonrpc flask_graphql graphql_server apiflask connexion spectree flasgger "
    "flask_swagger_ui flask_swagger strawberry",
    "accounts": "flask_security flask_user flask_login flask_httpauth flask_dance flask_oidc flask_multipass authlib "
    "flask_jwt_extended flask_jwt flask_principal flask_allows flask_simplelogin flask_basicauth flask_oauthlib "
    "flask_openid flask_saml2 flask_cas",
    "machinery": "flask_debugtoolbar flask_profiler flask_monitoringdashboard rq_dashboard healthcheck flask_socketio "
    "prometheus_flask_exporter prometheus_client engineio dash flask_assets flask_uploads flask_reuploaded "
    "flask_ckeditor flask_dropzone flask_avatars flask_sitemap flask_sitemapper flask_autoindex pyinstrument",
}
EXTENSIONS = {package: kind for kind, packages in _PACKAGES.items() for package in packages.split()}
"""Packages whose views are no pages of the application that registers them, and what they are instead."""

_FRONT = "/"
_TEMPLATES = frozenset(("render_template", "render_template_string", "render", "get_template"))
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Judge:
    """Tells what speaks for and against listing the rules of one application.

    *views* are its views by endpoint, *gates* the functions that run before requests: those of a blueprint under its
    name, those of the application under None. *words* are what paths and endpoints of pages do not contain.

        judge = Judge(app.view_functions, app.before_request_funcs)
        is_page, reason = judge.verdict(rule)
    """

    def __init__(
        self,
        views: Mapping[str, Any],
        gates: Mapping[Any, Iterable[Any]] | None = None,
        words: Collection[str] = WORDS,
    ) -> None:
        self._views = views
        self._gates = dict(gates or {})
        self._words = frozenset(word.lower() for word in words)
        self._segments = frozenset(word[1:] for word in self._words if word.startswith("/"))
        self._listened_for = self._words | {word for segment in self._segments for word in re.split("[-_.]", segment)}
        self._facts: dict[int, tuple[CodeType, CodeFacts]] = {}
        self._shut: dict[str, str | None] = {}
        self._templates: bool | None = None

    def verdict(self, rule: Rule) -> tuple[bool, str]:
        """Whether the page of *rule* is one to list, and why, or why not."""
        is_front = rule.rule == _FRONT
        if not is_front and (reason := self._named(rule.rule, rule.endpoint)):
            return False, reason
        if self._gates and (reason := self._gate(rule.endpoint)):
            return False, reason
        try:
            return self._seen(self._views[rule.endpoint], is_front)
        except Exception as error:  # a view is any object, and some raise when they are looked at
            return False, f"its view cannot be read ({type(error).__name__})"

    # By its name

    def _named(self, path: str, endpoint: str) -> str | None:
        said = f"{path} {endpoint}"
        text = said.lower()
        if text != said:
            text = f"{text} {_CAMEL.sub(' ', said).lower()}"
        # A chain takes a third of the time of a regular expression.
        words = text.replace("/", " ").replace("-", " ").replace("_", " ").replace(".", " ").replace("+", " ").split()
        if not self._listened_for.isdisjoint(words) and (reason := self._heard(words, path)):
            return reason
        if "/_" in path or "/." in path:
            return "its path has a segment that begins with '_' or '.'"
        _, dot, extension = path.rpartition("/")[2].rpartition(".") if "." in path else ("", "", "")
        return f"it is a file (.{extension})" if dot and extension.lower() not in ("html", "htm") else None

    def _heard(self, words: list[str], path: str) -> str | None:
        if word := next(filter(self._words.__contains__, words), None):
            return f"its path or endpoint has the word {word!r}"
        segments = path.lower().replace("+", "").replace(".", "/").split("/")
        segment = next(filter(self._segments.__contains__, segments), None)
        return f"its path has the segment {segment!r}" if segment else None

    # By what runs before it

    def _gate(self, endpoint: str) -> str | None:
        owner = endpoint.rpartition(".")[0]
        if owner not in self._shut:
            gates = [gate for name in (None, *blueprints_of(endpoint)) for gate in self._gates.get(name, ())]
            found = next(filter(None, map(self._refusal, gates)), None)
            self._shut[owner] = f"before_request asks for a log-in: {found}" if found else None
        return self._shut[owner]

    def _refusal(self, gate: Any) -> str | None:
        try:
            functions = parts_of(gate).functions
            guards = (self._code(function.__code__).guard for function in functions)
            name = next((function.__name__ for function in functions if is_demand(function.__name__)), None)
            return name or next(filter(None, guards), None)
        except Exception:
            return None

    # By its view

    def _seen(self, view: Any, is_front: bool) -> tuple[bool, str]:
        if type(view) is FunctionType and (known := self._glance(view)):
            return known
        parts = parts_of(view)
        if guard := self._guard(parts):
            return False, f"its view is guarded: {guard}"
        if not is_front and (package := _extension(parts)):
            return False, f"it comes with {package}: {EXTENSIONS[package]}"
        facts = [self._code(function.__code__) for function in parts.functions]
        if shows := _most_telling(facts):
            return True, f"its view {shows}"
        inner = [self._code(function.__code__) for outer in parts.functions for function in called(outer)]
        if shows := _most_telling(inner):
            return True, f"a function that its view calls {shows}"
        if answer := self._other_answer(parts, facts, is_front):
            return False, f"its view {answer}"
        if is_front:
            return True, "it is the front page"
        if self._uses_templates():
            return False, "its view uses no template, as others do"
        return True, "nothing speaks against it"

    def _glance(self, function: FunctionType) -> tuple[bool, str] | None:
        """What is told by the outermost code alone: the most, and in a fifth of the time."""
        facts = self._code(function.__code__)
        if facts.guard:
            return False, f"its view is guarded: {facts.guard}"
        is_plain = function.__closure__ is None and not function.__dict__
        if facts.shows and is_plain and package_of(function.__module__) not in EXTENSIONS:
            return True, f"its view {facts.shows}"
        return None

    def _guard(self, parts: Parts) -> str | None:
        for function in parts.functions:
            if found := self._code(function.__code__).guard:
                return found
            if EXTENSIONS.get(package_of(function.__globals__.get("__name__"))) == "accounts":
                return str(function.__globals__["__name__"])
        return next((found for cls in parts.classes + parts.owners if (found := self._class_guard(cls))), None)

    def _class_guard(self, view_class: type) -> str | None:
        for owner in view_class.__mro__:
            if not is_foundation(owner):
                if is_guard(owner.__name__):
                    return owner.__name__
                if found := next(filter(None, map(self._decorator, _decorators(owner))), None):
                    return found
                if package_of(owner.__module__) not in EXTENSIONS and (found := next(_checks(owner), None)):
                    return f"{owner.__name__}.{found}"
        return None

    def _decorator(self, decorator: Any) -> str | None:
        """The name of *decorator* if it keeps people out."""
        name = getattr(decorator, "__qualname__", type(decorator).__qualname__)
        return str(name) if is_guard(name) else self._guard(parts_of(decorator))

    def _other_answer(self, parts: Parts, facts: list[CodeFacts], is_front: bool) -> str | None:
        """What the view does instead of showing a page, if that can be told."""
        answer = next((fact.answers for fact in reversed(facts) if fact.answers), None)
        if answer == REDIRECTS and is_front:
            views = set(map(id, self._views.values()))
            if any(id(inner) in views for function in parts.functions for inner in called(function)):
                return None  # it may redirect, but leaves the page to another view
        return answer or next(filter(None, map(returned_data, parts.functions)), None)

    def _uses_templates(self) -> bool:
        if self._templates is None:
            self._templates = any(map(_names_template, self._views.values()))
        return self._templates

    def _code(self, code: CodeType) -> CodeFacts:
        known = self._facts.get(id(code))
        if known is None:
            known = self._facts[id(code)] = code, code_facts(code)  # the code is kept, so that its id stays its own
        return known[1]


def blueprints_of(endpoint: str) -> list[str]:
    """The names of the blueprint of *endpoint* and of those around it."""
    names = endpoint.split(".")
    return [".".join(names[:end]) for end in range(1, len(names))]


def _most_telling(facts: Iterable[CodeFacts]) -> str | None:
    """How a page is shown, if it is at all; by a template if any of *facts* has one."""
    ways = {fact.shows for fact in facts if fact.shows}
    return TEMPLATE if TEMPLATE in ways else next(iter(ways), None)


def _extension(parts: Parts) -> str | None:
    """The extension that *parts* come from."""
    for function in parts.functions:
        if (package := package_of(function.__globals__.get("__name__"))) in EXTENSIONS:
            return package
    for view_class in parts.classes + parts.owners:
        for owner in view_class.__mro__:
            package = package_of(owner.__module__)
            if package in EXTENSIONS and package != "flask_appbuilder":  # which is the base of any page
                return package
    return None


def _decorators(owner: type) -> Iterator[Any]:
    for name in ("decorators", "method_decorators"):
        listed = vars(owner).get(name) or ()
        for entry in listed.values() if isinstance(listed, dict) else listed:
            yield from entry if isinstance(entry, list | tuple) else (entry,)


def _checks(owner: type) -> Iterator[str]:
    """The names of methods of *owner* that frameworks call to ask whether somebody may see a view."""
    for name, value in vars(owner).items():
        if isinstance(value, FunctionType):
            verb = name.lower().strip("_").partition("_")[0]
            if verb in ("is", "can", "check") and is_guard(name):
                yield name


def _names_template(view: Any) -> bool:
    own = own_attributes(view)
    view_class = own.get("view_class")
    candidates = (
        own.get("__wrapped__", view),
        *(getattr(view_class, name, None) for name in ("get", "dispatch_request")),
    )
    codes = (getattr(candidate, "__code__", None) for candidate in candidates)
    return any(type(code) is CodeType and not _TEMPLATES.isdisjoint(code.co_names) for code in codes)
