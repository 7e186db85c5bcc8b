"""Which views of an application are pages for a sitemap."""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any

import pytest
from flask import Blueprint, Flask, abort, jsonify, redirect, render_template, render_template_string, request, url_for
from flask.views import MethodView, View

from flask_sitemapx.sources.judgement import EXTENSIONS, WORDS, Judge


@pytest.fixture
def app():
    app = Flask("site", static_folder=None)
    app.add_url_rule("/about", "about", page)
    return app


def page():
    return render_template("page.html")


def plain():
    return "text"


def verdict(app, endpoint, **options):
    judge = Judge(app.view_functions, app.before_request_funcs, **options)
    return judge.verdict(next(app.url_map.iter_rules(endpoint)))


def is_listed(app, view, path="/page", endpoint="page"):
    app.add_url_rule(path, endpoint, view)
    return verdict(app, endpoint)[0]


def login_required(view):
    @functools.wraps(view)
    def wrapper(*args, **values):
        return view(*args, **values)

    return wrapper


def undisguised_login_required(view):
    return lambda: view()


def test_a_view_that_uses_a_template_is_listed(app):
    assert verdict(app, "about") == (True, "its view uses a template")


@pytest.mark.parametrize(
    "path",
    [
        "/login",
        "/sign-in/login.html",
        "/forgot-password",
        "/ajax-api",
        "/api/v1/pages",
        "/user_settings",
        "/users/me",
        "/post/new",
        "/+search",
        "/search.html",
        "/Admin",
        "/_internal",
        "/.well-known/pages",
        "/pages.pdf",
    ],
)
def test_words_segments_and_extensions_of_a_path_speak_against_it(app, path):
    assert not is_listed(app, page, path)


@pytest.mark.parametrize(
    "path", ["/whats-new", "/research", "/administrative-law", "/meadow", "/team.html", "/a/b.HTM"]
)
def test_what_only_contains_such_a_word_does_not(app, path):
    assert is_listed(app, page, path)


@pytest.mark.parametrize("endpoint", ["auth.start", "UserLogin", "shop_cart", "pages.edit_page"])
def test_words_of_the_endpoint_count(app, endpoint):
    app.url_map.add(app.url_rule_class("/page", endpoint=endpoint))
    app.view_functions[endpoint] = page
    assert not verdict(app, endpoint)[0]


def test_the_words_can_be_replaced(app):
    app.add_url_rule("/login", "login", page)
    app.add_url_rule("/intranet", "intranet", page)
    assert verdict(app, "login", words=["Intranet"])[0]
    assert not verdict(app, "intranet", words=["Intranet"])[0]
    assert not verdict(app, "intranet", words=["/intranet"])[0]


def test_the_words_are_lower_case_and_of_one_piece():
    assert all(word == word.lower() and word.removeprefix("/").isalnum() for word in WORDS)


def test_decorators_that_demand_a_log_in_are_found_with_and_without_wraps(app):
    assert not is_listed(app, login_required(page), endpoint="one")
    assert not is_listed(app, undisguised_login_required(page), endpoint="two")
    assert not is_listed(app, functools.partial(login_required(page)), endpoint="three")


def test_other_decorators_are_seen_through(app):
    def cached(view):
        return lambda: view()

    assert is_listed(app, cached(cached(page)), endpoint="one")
    assert not is_listed(app, cached(login_required(cached(page))), endpoint="two")


def test_a_class_that_is_a_decorator_is_found(app):
    class RequiresLogin:
        def __init__(self, view):
            functools.update_wrapper(self, view)

        def __call__(self):
            return page()

    assert not is_listed(app, RequiresLogin(page))


def test_view_classes_are_judged_by_get_and_not_by_post(app):
    class Page(MethodView):
        def get(self):
            return render_template("page.html")

        def post(self):
            abort(401)

    class Refusing(MethodView):
        def get(self):
            abort(401)

    class Dispatching(View):
        def dispatch_request(self):
            return render_template("page.html")

    assert is_listed(app, Page.as_view("page"), endpoint="one")
    assert not is_listed(app, Refusing.as_view("page"), endpoint="two")
    assert is_listed(app, Dispatching.as_view("page"), endpoint="three")


def test_decorators_of_view_classes_are_found(app):
    class Page(MethodView):
        def get(self):
            return render_template("page.html")

    class Decorated(Page):
        decorators = [login_required]  # noqa: RUF012

    class ByMethod(Page):
        method_decorators = {"get": [login_required]}  # noqa: RUF012

    class Harmless(Page):
        decorators = [functools.lru_cache]  # noqa: RUF012

    assert not is_listed(app, Decorated.as_view("page"), endpoint="one")
    assert not is_listed(app, ByMethod.as_view("page"), endpoint="two")
    assert is_listed(app, Harmless.as_view("page"), endpoint="three")


def test_guards_are_inherited(app):
    class LoginRequiredMixin: ...

    class Checked:
        def is_accessible(self): ...

    class Page(MethodView):
        def get(self):
            return render_template("page.html")

    class ByName(LoginRequiredMixin, Page): ...

    class ByMethod(Checked, Page): ...

    assert is_listed(app, Page.as_view("page"), endpoint="one")
    assert not is_listed(app, ByName.as_view("page"), endpoint="two")
    assert not is_listed(app, ByMethod.as_view("page"), endpoint="three")


def test_bound_methods_are_judged_by_themselves_and_by_their_class(app):
    class Pages:
        def show(self):
            return render_template("page.html")

        def other(self):
            abort(401)

    class ProtectedPages(Pages): ...

    assert is_listed(app, Pages().show, endpoint="one")
    assert not is_listed(app, Pages().other, endpoint="two")
    assert not is_listed(app, ProtectedPages().show, endpoint="three")


def blueprint(app, gate, name="members"):
    pages = Blueprint(name, __name__, url_prefix=f"/{name}")
    pages.before_request(gate)
    pages.add_url_rule("/", "start", page)
    app.register_blueprint(pages)
    return f"{name}.start"


def refuse():
    if "user" not in request.cookies:
        return redirect(url_for("auth.login"))
    return None


def require_login(): ...


def load_logged_in_user(): ...


def test_a_gate_of_a_blueprint_shuts_its_pages_and_no_others(app):
    endpoint = blueprint(app, refuse)
    assert verdict(app, endpoint) == (False, "before_request asks for a log-in: a redirect to log in")
    assert verdict(app, "about")[0]


def test_a_gate_is_known_by_its_name_too(app):
    assert not verdict(app, blueprint(app, require_login))[0]
    assert not verdict(app, blueprint(app, login_required(lambda: None), "others"))[0]
    assert verdict(app, blueprint(app, load_logged_in_user, "third"))[0]
    assert verdict(app, blueprint(app, len, "fourth"))[0]


def test_a_gate_around_nested_blueprints_shuts_them(app):
    outer = Blueprint("outer", __name__)
    inner = Blueprint("inner", __name__)
    inner.add_url_rule("/inner", "start", page)
    outer.before_request(require_login)
    outer.register_blueprint(inner)
    app.register_blueprint(outer)
    assert not verdict(app, "outer.inner.start")[0]


def test_a_gate_of_the_application_shuts_all(app):
    app.before_request(require_login)
    assert not verdict(app, "about")[0]


def made_by(package, view):
    """*view* as if it were defined in *package*."""
    module = ModuleType(package)
    copy = type(view)(view.__code__, {**view.__globals__, "__name__": package}, view.__name__, None, view.__closure__)
    copy.__module__ = module.__name__
    return copy


@pytest.mark.parametrize(
    "module", ["flask_admin.base", "flask_security.views", "flask_debugtoolbar", "flask_restx.api"]
)
def test_views_of_known_extensions_are_not_listed(app, module):
    assert not is_listed(app, made_by(module, page))


def test_views_of_classes_that_an_api_framework_provides_are_not_listed(app):
    resource = type("Resource", (MethodView,), {"__module__": "flask_restful"})

    class Things(resource):  # type: ignore[valid-type,misc]
        def get(self):
            return render_template("things.html")

    assert not is_listed(app, Things.as_view("things"))


def test_the_front_page_may_come_with_an_extension(app):
    assert is_listed(app, made_by("dash.dash", page), "/")


def test_every_known_extension_says_what_it_is_instead():
    assert set(EXTENSIONS.values()) == {"administration", "an API", "accounts", "machinery"}


@pytest.mark.parametrize("answer", [lambda: jsonify(1), lambda: redirect("/x"), lambda: {"x": 1}])
def test_other_answers_are_not_listed_even_where_no_view_uses_a_template(answer):
    app = Flask("site", static_folder=None)
    assert not is_listed(app, answer)
    assert not is_listed(app, answer, "/", "front")


def test_a_view_without_a_template_is_listed_only_where_none_uses_one(app):
    assert not is_listed(app, plain)
    bare = Flask("bare", static_folder=None)
    assert is_listed(bare, plain)


def test_an_application_that_uses_templates_in_classes_or_wrapped_views_uses_templates():
    class Page(MethodView):
        def get(self):
            return render_template("page.html")

    for view in (Page.as_view("page"), login_required(page)):
        app = Flask("site", static_folder=None)
        app.add_url_rule("/<x>", "templated", view)
        assert not is_listed(app, plain)


def layout(text):
    return render_template("layout.html", text=text)


def test_templates_are_found_in_what_a_view_calls(app):
    assert is_listed(app, lambda: layout("x"))


def test_the_front_page_is_listed_without_a_template_but_not_when_guarded_or_elsewhere(app):
    assert is_listed(app, plain, "/", "one")
    assert not is_listed(app, login_required(plain), "/", "two")
    assert not is_listed(app, lambda: redirect("/x"), "/", "three")


def test_a_front_page_that_may_redirect_but_calls_another_view_is_listed(app):
    def index():
        return redirect("/x") if request.args else plain()

    assert not is_listed(app, index, "/")
    app.add_url_rule("/plain", "plain", plain)
    assert verdict(app, "page")[0]


class Proxy:
    def __getattribute__(self, name):
        raise RuntimeError("outside")

    def __call__(self):
        raise AssertionError("a view ran")


class Slotted:
    __slots__ = ()

    def __call__(self):
        raise AssertionError("a view ran")


class Metaclass(type):
    def __getattribute__(cls, name):
        raise RuntimeError(name)


class Odd(metaclass=Metaclass):
    decorators = 3

    def get(self): ...


def never() -> str:
    raise AssertionError("a view ran")


def odd_view():
    view: Any = lambda: never()  # noqa: E731
    view.view_class = Odd
    return view


ODD = {
    "builtin": lambda: len,
    "proxy": Proxy,
    "slotted instance": Slotted,
    "nothing": lambda: None,
    "number": lambda: 7,
    "method of a builtin": lambda: "".join,
    "partial": lambda: functools.partial(functools.partial(never), 1),
    "partial of a builtin": lambda: functools.partial(len),
    "class": lambda: Odd,
    "view of a class": odd_view,
    "module": lambda: sys,
    "metaclass": lambda: type,
    "function": lambda: never,
    "classmethod": lambda: vars(dict)["fromkeys"],
}


@pytest.mark.parametrize("kind", ODD)
def test_any_object_is_judged_without_an_error_and_without_a_call(kind):
    app = Flask("site", static_folder=None)
    app.url_map.add(app.url_rule_class("/page", endpoint="page"))
    app.view_functions["page"] = ODD[kind]()
    listed, reason = verdict(app, "page")
    assert isinstance(listed, bool)
    assert reason


def test_a_view_of_html_that_it_writes_or_sends_itself_uses_no_template(app):
    app.add_url_rule("/written", "written", lambda: "<h1>Written</h1>")
    app.add_url_rule("/ready", "ready", lambda: app.send_static_file("ready.html"))
    app.add_url_rule("/called", "called", lambda: written())
    app.add_url_rule("/filled", "filled", lambda: render_template_string("<h1>{{ title }}</h1>"))
    assert verdict(app, "written") == (True, "its view returns HTML")
    assert verdict(app, "ready") == (True, "its view returns HTML")
    assert verdict(app, "called") == (True, "a function that its view calls returns HTML")
    assert verdict(app, "filled") == (True, "its view uses a template")


def written():
    return "<h1>Written</h1>"
