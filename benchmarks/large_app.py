"""A made-up application of 1,400 rules, mixed as those of large real applications are; its views never run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from itertools import cycle, islice, product
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from flask import Blueprint, Flask, abort, flash, g, jsonify, redirect, render_template, request, url_for
from flask.views import MethodView

RULES = 1_400
View = Callable[..., Any]
store: Any = None  # stands for a data base, forms and models

KINDS = """annual archived atlantic botanical central coastal comparative daily early eastern experimental federal
general historical industrial inner joint late literary local maritime medieval modern municipal musical national
northern open organic outer"""
THINGS = """archive atlas bridges catalogue chapters charts collection essays exhibits festivals figures gardens
harbours journals languages lectures libraries maps materials museums orders people places plants projects reports
reviews rivers seasons stories"""


# What views are written like


def page(**values: Any) -> Any:
    """A page."""
    number = request.args.get("page", 1, type=int)
    things = store.Thing.query.filter_by(is_public=True).order_by(store.Thing.name).paginate(page=number, per_page=20)
    return render_template("things/list.html", things=things.items, pagination=things, title="All the things")


def page_with_form(**values: Any) -> Any:
    form = store.ThingForm()
    if form.validate_on_submit():
        thing = store.Thing(name=form.name.data, text=form.text.data, place=form.place.data)
        store.session.add(thing)
        store.session.commit()
        flash("The thing is kept now.", "info")
        return redirect(url_for("site.things", number=thing.id))
    return render_template("things/form.html", form=form, places=store.Place.query.all())


def data(**values: Any) -> Any:
    """Data for scripts."""
    since = request.args.get("since")
    query = store.Thing.query if since is None else store.Thing.query.filter(store.Thing.changed > since)
    if not query.count():
        abort(404)
    return jsonify(things=[{"id": thing.id, "name": thing.name, "url": thing.url()} for thing in query.limit(100)])


def action(**values: Any) -> Any:
    thing = store.Thing.query.get_or_404(request.form["id"])
    thing.state = request.form["state"]
    store.session.commit()
    flash("That was done.")
    return redirect(url_for("site.things"))


def moved(**values: Any) -> Any:
    return redirect(url_for("site.things"), code=301)


def text(**values: Any) -> Any:
    return store.respond("\n".join(thing.name for thing in store.Thing.query), mimetype="text/plain")


class Resource(MethodView):
    def get(self, **values: Any) -> Any:
        return jsonify(store.Thing.query.get_or_404(request.args["id"]).as_dict())

    def put(self, **values: Any) -> Any:
        return jsonify(store.Thing.query.get_or_404(request.args["id"]).changed_by(request.get_json()))


# What stands around them


def login_required(view: View) -> View:
    @wraps(view)
    def wrapped(**values: Any) -> Any:
        if g.user is None:
            return redirect(url_for("auth.login", next=request.url))
        return view(**values)

    return wrapped


def permission_required(name: str) -> Callable[[View], View]:
    def decorate(view: View) -> View:
        @wraps(view)
        def wrapped(**values: Any) -> Any:
            if not g.user.can(name):
                abort(403)
            return view(**values)

        return wrapped

    return decorate


def cached(seconds: int) -> Callable[[View], View]:
    def decorate(view: View) -> View:
        @wraps(view)
        def wrapped(**values: Any) -> Any:
            found = store.cache.get(request.path)
            return found if found is not None else store.cache.put(request.path, view(**values), seconds)

        return wrapped

    return decorate


def staff_only() -> Any:
    if not g.user or not g.user.is_staff:
        abort(403)


def plain(view: View) -> View:
    return view


# The mixture: that of 40 open-source applications. Two thirds of their rules need arguments; of what a GET reaches
# without any, a half has a name such as /admin or /api, a sixth asks for a log-in, and a tenth is pages for all.


class Group(NamedTuple):
    """So many *rules* of one kind: how their view is written and decorated, in which blueprint and under which path."""

    rules: int
    blueprint: str
    path: str
    view: View | type[MethodView]
    decorator: Callable[[View], View] = plain
    methods: tuple[str, ...] = ("GET",)


BOTH = ("GET", "POST")
POST = ("POST",)

GROUPS = (
    Group(25, "site", "/{thing}/{kind}", page),
    Group(9, "site", "/offers/{kind}-{thing}/", page, cached(300)),
    Group(7, "site", "/ask/{kind}-{thing}", page_with_form, plain, BOTH),
    Group(14, "site", "/old/{kind}-{thing}", moved),
    Group(16, "site", "/state/{kind}-{thing}", data),
    Group(16, "site", "/things/{kind}-{thing}", Resource, plain, ("GET", "PUT")),
    Group(32, "site", "/lists/{kind}-{thing}.txt", text),
    Group(44, "auth", "/auth/{kind}-{thing}", page_with_form, plain, BOTH),
    Group(44, "desk", "/desk/{kind}/{thing}", page, login_required),
    Group(20, "desk", "/desk/{kind}-{thing}/start", page_with_form, permission_required("write"), BOTH),
    Group(60, "desk", "/desk/{kind}-{thing}/done", action, login_required, POST),
    Group(50, "admin", "/admin/{kind}/{thing}", page),
    Group(60, "api", "/api/v1/{kind}/{thing}", data),
    Group(42, "api", "/api/v1/all/{kind}-{thing}", Resource, plain, ("GET", "PUT")),
    Group(180, "site", "/{kind}/{thing}/<slug>", page),
    Group(60, "site", "/{kind}/{thing}/<int:year>/<int:month>/", page, cached(300)),
    Group(120, "desk", "/desk/{kind}/{thing}/<int:number>/edit", page_with_form, login_required, BOTH),
    Group(140, "desk", "/desk/{kind}/{thing}/<int:number>/delete", action, permission_required("write"), POST),
    Group(80, "admin", "/admin/{kind}/{thing}/<int:number>", page_with_form, plain, BOTH),
    Group(140, "admin", "/admin/{kind}/{thing}/<int:number>/state", action, plain, POST),
    Group(139, "api", "/api/v1/{kind}/{thing}/<uuid:key>", data),
    Group(100, "api", "/api/v1/{kind}/{thing}/<int:number>", Resource, plain, ("GET", "PUT", "DELETE")),
)  # and two: the front page and the static files


def large_app() -> Flask:
    """The application, made anew: no code object of its views is that of another one's, as in a new process."""
    app = Flask(__name__)
    app.add_url_rule("/", "home", fresh(page, "home"))
    blueprints = {group.blueprint: Blueprint(group.blueprint, __name__) for group in GROUPS}
    blueprints["admin"].before_request(staff_only)
    names = cycle(product(KINDS.split(), THINGS.split()))
    for group in GROUPS:
        for kind, thing in islice(names, group.rules):
            add(blueprints[group.blueprint], group, kind, thing)
    for blueprint in blueprints.values():
        app.register_blueprint(blueprint)
    app.url_map.update()  # sorted, as any earlier request would have left it
    return app


def add(blueprint: Blueprint, group: Group, kind: str, thing: str) -> None:
    path = group.path.format(kind=kind, thing=thing)
    endpoint = f"{kind}_{thing}_{GROUPS.index(group)}"
    made = resource(group.view, endpoint) if isinstance(group.view, type) else fresh(group.view, endpoint)
    blueprint.add_url_rule(path, endpoint, group.decorator(made), methods=group.methods)


def fresh(view: View, name: str) -> View:
    """A function that is written as *view* is, as if it stood in the source once more under its own *name*."""
    code: CodeType = view.__code__
    texts = tuple(f"{name}/{text}" if str(text).endswith(".html") else text for text in code.co_consts)
    return FunctionType(code.replace(co_name=name, co_qualname=name, co_consts=texts), view.__globals__, name)


def resource(kind: type[MethodView], name: str) -> View:
    methods = {method: fresh(vars(kind)[method], method) for method in ("get", "put")}
    view_class: type[MethodView] = type(name.title(), (kind,), methods)
    return view_class.as_view(name)


def addresses(app: Flask, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """*count* endpoints from all over the map of *app*, with values for their arguments."""
    values = {"slug": "a-thing", "year": 2026, "month": 11, "number": 7, "key": "8b5d4f36-6f0c-4c8e-9d3e-0a2a5e4c1b7f"}
    rules = [rule for rule in app.url_map.iter_rules() if rule.endpoint != "static"]
    for rule in rules[:: len(rules) // count][:count]:
        yield rule.endpoint, {name: values[name] for name in rule.arguments}
