"""What is read from the code of views, none of which runs."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from flask_sitemapx.sources import view_code
from flask_sitemapx.sources.view_code import called, code_facts, is_demand, is_guard, parts_of, returned_data, texts_of

abort: Any = None
jsonify: Any = None
redirect: Any = None
render_template: Any = None
send_file: Any = None
url_for: Any = None
response: Any = None
g: Any = None


def test_every_word_of_a_demand_has_one_of_the_pieces_that_are_looked_for_first():
    words = view_code._DEMANDS | view_code._TESTS
    assert [word for word in words if not any(piece in word for piece in view_code.DEMANDING)] == []


def facts(function):
    return code_facts(function.__code__)


@pytest.mark.parametrize(
    "name",
    [
        "login_required",
        "LoginRequiredMixin",
        "RHProtected",
        "authed_only",
        "admins_only",
        "user_login_required",
        "has_access",
        "auth_required_if_enabled",
        "roles_accepted",
        "requires_scope",
        "jwt_required",
        "is_accessible",
        "api_key_required",
    ],
)
def test_a_name_that_speaks_of_permission_is_one_of_a_guard(name):
    assert is_guard(name)


@pytest.mark.parametrize(
    "name",
    ["cached", "csrf_protect", "auth_optional", "anonymous_user_required", "RequestScope", "templated", "wrapper"],
)
def test_other_names_are_not(name):
    assert not is_guard(name)


def test_loading_a_user_is_no_demand_and_asking_for_one_is():
    assert not is_demand("load_logged_in_user")
    assert not is_demand("check_user_active")
    assert is_demand("require_login")
    assert is_demand("check_permission")
    assert not is_demand("check_csrf_token")


def test_refusals_are_guards():
    def unauthorized():
        return g.manager.unauthorized()

    def aborts():
        abort(401)

    def aborts_for_some():
        if g.user is None:
            abort(403)

    def answers():
        return "no", 401

    def nested():
        return [abort(401) for _ in g]

    def redirects():
        return redirect(url_for("auth.login"))

    def demands():
        g.require_login()

    for function in (unauthorized, aborts, aborts_for_some, answers, nested, redirects, demands):
        assert facts(function).guard, function


def test_a_page_that_is_missing_or_moved_is_not_guarded():
    def view():
        """Redirects to the log-in page, with a 401: a docstring is no code."""
        if not g.page:
            abort(404)
        return redirect(url_for("index"))

    assert facts(view).guard is None
    assert facts(view).answers == "redirects"


def test_arguments_of_a_decorator_are_guards_by_their_names():
    def shop_decorator(permission):
        def decorate(function):
            def wrapper():
                return permission and function()

            return wrapper

        return decorate

    wrapper = shop_decorator("user")(lambda: "")
    # The test's own name stands around it, and counts as that of a factory would not.
    assert facts(wrapper).guard == "permission"


def test_views_inside_an_application_factory_are_not_guarded_by_what_they_close_over():
    def create_app(permission):
        def index():
            return permission

        return index

    assert facts(create_app(1)).guard is None


def test_templates_and_html_show_a_page():
    def template():
        return render_template("about.html")

    def method():
        return g.theme.render("about")

    def text():
        return "<h1>About</h1>"

    def file():
        return g.send_static_file("about.html")

    def typed():
        return response(g.text, mimetype="text/html")

    for function in (template, method, text, file, typed):
        assert facts(function).shows, function


@pytest.mark.parametrize(
    ("function", "answers"),
    [
        (lambda: render_template("feed.xml"), "answers feed.xml"),
        (lambda: response(render_template(g.t), mimetype="application/rss+xml"), "answers application/rss+xml"),
        (lambda: g.render_json(g.x), "answers JSON"),
        (lambda: jsonify(g.x), "answers JSON"),
        (lambda: g.dumps(g.x, links={"type": "text/html"}) + g.json, "answers JSON"),
        (lambda: send_file(g.path), "sends a file"),
        (lambda: redirect(g.url), "redirects"),
        (lambda: "about", None),
    ],
)
def test_other_answers_show_none(function, answers):
    assert not facts(function).shows
    assert facts(function).answers == answers


def as_json() -> JSONResponse:  # type: ignore[name-defined]  # noqa: F821
    return g.x


def as_mapping() -> dict[str, int]:
    return dict(g.x)


def as_page() -> str:
    return str(g.x)


def a_dict(x):
    return {"x": x}


def a_dict_with_status(x):
    return {"x": x, "y": 1}, 201


def a_list(x):
    return [x]


def test_annotations_and_displays_tell_that_data_is_returned():
    data: list[Any] = [as_json, as_mapping, a_dict, a_dict_with_status, a_list]
    others: list[Any] = [as_page, lambda x: x, lambda x: str({"x": x})]
    assert [function for function in data if not returned_data(function)] == []
    assert [function for function in others if returned_data(function)] == []


def test_annotations_that_raise_tell_nothing():
    class Annotated:
        __code__ = as_page.__code__

        def __getattr__(self, name):
            raise NameError(name)

    annotated: Any = Annotated()
    assert returned_data(annotated) is None


def wrapped(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


def test_parts_are_followed_down_wrappers_closures_partials_and_methods():
    def view(): ...

    class Views:
        def page(self): ...

        def __call__(self): ...

    views = Views()
    assert view in parts_of(wrapped(wrapped(view))).functions
    assert view in parts_of(lambda: view()).functions
    assert view in parts_of(functools.partial(wrapped(view), 1)).functions
    assert view in parts_of(functools.partial(wrapped, view)).functions
    assert Views.page in parts_of(views.page).functions
    assert parts_of(views.page).owners == [Views]
    assert Views.__call__ in parts_of(views).functions


def test_parts_of_a_view_class_are_its_methods_but_those_that_write():
    class Base:
        def helper(self): ...

    class Page(Base):
        def get(self): ...

        def post(self): ...

    def view(): ...

    view.view_class = Page  # type: ignore[attr-defined]
    parts = parts_of(view)
    assert {Page.get, Base.helper} < set(parts.functions)
    assert Page.post not in parts.functions
    assert parts.classes == [Page]


def test_wrappers_in_a_circle_come_to_an_end():
    one: Any = lambda: two  # noqa: E731
    two: Any = lambda: one  # noqa: E731
    one.__wrapped__, two.__wrapped__ = two, one
    assert parts_of(one).functions == [one, two]


def test_a_closure_that_holds_half_the_program_is_not_followed_to_its_end():
    functions: list[Any] = [lambda: None]
    for _ in range(200):
        functions.append(wrapped(functions[-1]))
    assert len(parts_of(functions[-1]).functions) <= view_code.MOST_PARTS + 1


def test_a_cell_that_is_not_filled_is_passed_over():
    def outer():
        def view():
            return later

        parts = parts_of(view)
        later = 1
        return parts, later

    assert len(outer()[0].functions) == 1


class Proxy:
    """Raises whatever it is asked, as a proxy outside its context does."""

    def __getattribute__(self, name):
        raise RuntimeError("outside")


def test_parts_of_anything_are_found_without_an_error():
    for view in (len, None, 3, "text", Proxy(), object(), type, print, {}.get, functools.partial(len)):
        assert parts_of(view).functions == []


def page(title):
    return layout(title)


def layout(title):
    return render_template("layout.html", title=title)


def test_called_functions_are_followed_through_modules():
    view: Any = lambda: page("x")  # noqa: E731
    by_module: Any = lambda: view_code.parts_of(1)  # noqa: E731
    assert [function.__name__ for function in called(view)] == ["page", "layout"]
    assert "parts_of" in [function.__name__ for function in called(by_module)]


def test_the_texts_of_a_program_are_those_of_all_its_functions_without_docstrings():
    def section():
        """Not this."""
        return [("one", {"slug": text}) for text in ("two", "three")]

    assert {"one", "slug", "two", "three"} <= texts_of(functools.partial(section))
    assert "Not this." not in texts_of(section)
    assert texts_of(functools.partial(print)) == set()
