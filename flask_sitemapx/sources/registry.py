"""What an application says about its sitemap: sections, marks on views, robots rules. No framework is needed."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MethodType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from ..errors import ConfigurationError
from ..protocol.atom import Feed
from ..protocol.entries import EXTRAS, UrlEntry, known_extras
from ..protocol.robots import Robots
from .defaults import NO_DEFAULTS, Defaults, GivenExtras
from .view_code import own_attributes

if TYPE_CHECKING:
    from .tables import Table

F = TypeVar("F", bound=Callable[..., Any])
Item = str | tuple[Any, ...] | Mapping[str, Any] | UrlEntry
"""What a section yields: a path or URL; ``(endpoint, values[, lastmod[, changefreq[, priority[, extras]]]])``; a
mapping with ``loc`` or with URL values; or a `UrlEntry`."""

ROUTES = "routes"
"""The name of the section that lists the url_map."""
SECTION_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_MARKS = "__sitemapx__"


@dataclass(frozen=True, slots=True)
class Section:
    """A named source of entries."""

    name: str
    function: Callable[..., Iterable[Item]]
    """Gives all items; with *shards*, those of the key that it is called with."""
    defaults: Defaults = NO_DEFAULTS
    endpoint: str | None = None
    version: Callable[[], object] | None = None
    shards: Callable[[], Iterable[Any]] | None = None
    """Lists the keys, each alone or as ``(key, version)``."""
    feed: Feed | None = None

    @property
    def signature(self) -> str:
        """A text that is the same in every process, and another for other settings of the section."""
        return f"{self.endpoint} {self.defaults.signature}"


@dataclass(frozen=True, slots=True)
class Mark:
    """What a decorator said of a view; with *when*, a function without arguments, only as long as that agrees."""

    is_listed: bool
    defaults: Defaults = NO_DEFAULTS
    when: Callable[[], object] | None = None


class Registry:
    """Sections, marks and robots rules of one sitemap.

    registry = Registry()

    @registry.section("articles")
    def articles():
        for article in newest():
            yield "blog.article", {"slug": article.slug}, article.updated
    """

    def __init__(self) -> None:
        self.sections: dict[str, Section | Table] = {}
        self.robots = Robots()
        self._has_marks = False

    def section(
        self,
        name: str,
        *,
        lastmod: Any = None,
        changefreq: Any = None,
        priority: Any = None,
        endpoint: str | None = None,
        version: Callable[[], object] | None = None,
        shards: Callable[[], Iterable[Any]] | None = None,
        feed: Feed | None = None,
        **extras: Unpack[GivenExtras],
    ) -> Callable[[F], F]:
        """Decorate a generator function as the source of the section *name*; it is pulled once per build.

        It may be asynchronous, or a coroutine function that returns the items; so may callbacks be coroutine functions.

        *name* is lower-case letters, digits and single hyphens, and appears in ``/sitemap-<name>-<n>.xml``. *lastmod*,
        *changefreq* and *priority* hold for entries that state none: a value, or a function without arguments. So do
        the *extras* of `GivenExtras`, which may be functions of the values that an item has.
        *endpoint* is what yielded mappings of URL values belong to (default: the function's own name). While *version*,
        a function without arguments, returns a value of the same `repr`, the section is not pulled again before
        ``SITEMAP_VERIFY_AGE``.

        A section of many entries says with *shards* how it is divided: a function without arguments that lists the keys
        of its parts in order, each alone or as ``(key, version)``. The decorated function is then called with a key and
        gives the entries of that part, which is not pulled again while its version stands. Keys are told apart by
        their `str`.

        With a *feed* the newest of its pages are an Atom feed, too, at ``/sitemap-<name>.atom``.

        Raises `ConfigurationError` for a name that cannot be used or is taken.
        """
        self._check_name(name)
        if shards is not None and version is not None:
            raise ConfigurationError(f"section {name!r}: with shards, each key has its own version: (key, version)")

        def decorate(function: F) -> F:
            self._check_name(name)
            defaults = Defaults(lastmod, changefreq, priority, known_extras(extras))
            self.sections[name] = Section(name, function, defaults, endpoint, version, shards, feed)
            return function

        return decorate

    def table(
        self,
        name: str,
        *,
        key: Any,
        endpoint: str | None = None,
        values: Mapping[str, Any] | None = None,
        loc: Any = None,
        lastmod: Any = None,
        changefreq: Any = None,
        priority: Any = None,
        where: Any = None,
        changed_since: Any = None,
        select: Any = None,
        extra: Iterable[Any] = (),
        bind: Any = None,
        feed: Feed | None = None,
        **extras: Unpack[GivenExtras],
    ) -> Table:
        """Make the section *name* of the rows of an SQLAlchemy 2 table, however many, which is read where it changed.

        *key* is a column that is unique and ordered, or a tuple of columns that are so together. The URL of a row is
        that of *endpoint* with *values*, a mapping of URL values to columns or constants; or *loc* is a column with a
        path or URL. *lastmod*, *changefreq* and *priority* are columns, values, or functions without arguments. *where*
        is a condition, or several. Columns are those of tables, attributes of mapped classes, or names of what
        *select*, a Select, has. *extras* are those of `GivenExtras`: columns, values, or functions of a row, which has
        the selected columns by name. *extra* columns are for these, and for a function that `Table.batch` decorates.

        A part of the table is read again when its count of rows or its latest *lastmod* differs; with *changed_since*,
        an indexed column that tells when a row changed, only parts of such rows are. Without either all is read at each
        build. After ``SITEMAP_VERIFY_AGE`` each part is read again in any case.

        *bind* is an Engine, or a function that gives one; by default that of Flask-SQLAlchemy. With a *feed* the newest
        of its pages are an Atom feed, too. Raises `ConfigurationError` for what cannot be used.
        """
        self._check_name(name)
        try:
            from .statements import Statements
        except ImportError:
            raise ConfigurationError("a table needs SQLAlchemy: pip install 'flask-sitemapx[sql]'") from None
        from .tables import Table

        if (endpoint is None) == (loc is None):
            raise ConfigurationError(f"section {name!r}: give either an endpoint, with its values, or loc")
        given = {f"values.{value}": column for value, column in (values or {}).items()}
        fields = {"lastmod": lastmod, "changefreq": changefreq, "priority": priority, **known_extras(extras)}
        given |= {"loc": loc, "changed_since": changed_since, **fields}
        given = {use: value for use, value in given.items() if value is not None}
        statements = Statements(name, key, given, select, where, tuple(extra))
        constants = {use: statements.constants.pop(use, None) for use in fields}
        stated = {use: value for use in EXTRAS if (value := constants.pop(use, None)) is not None}
        self.sections[name] = table = Table(
            name, statements, endpoint, Defaults(**constants, extras=stated), bind, feed
        )
        return table

    @property
    def feeds(self) -> dict[str, Feed]:
        """The feeds of the sections that have one, by name."""
        return {name: section.feed for name, section in self.sections.items() if section.feed is not None}

    def include(
        self,
        view: F | None = None,
        *,
        lastmod: Any = None,
        changefreq: Any = None,
        priority: Any = None,
        when: Callable[[], object] | None = None,
        **extras: Unpack[GivenExtras],
    ) -> Any:
        """Mark a view function or class as listed, bare or with values for its entries.

        Each value may be a function without arguments; of the *extras*, those of `GivenExtras`, one of the URL's
        values. *when*, also one, is asked at each build, and if its answer is
        false, the view is not listed. The function is returned unchanged, so the order of decorators does not matter.
        """
        mark = Mark(True, Defaults(lastmod, changefreq, priority, known_extras(extras)), when)
        return self._marked(view, mark) if view is not None else functools.partial(self._marked, mark=mark)

    def exclude(self, view: F) -> F:
        """Mark a view function or class as not listed."""
        return self._marked(view, Mark(False))

    def mark(self, view: Any) -> Mark | None:
        """What `include` or `exclude` said of *view*, or of a function or class that it wraps; the outermost counts."""
        if not self._has_marks:
            return None
        return next((marks[self] for step in unwrapped(view) if (marks := _marks(step)) and self in marks), None)

    def _marked(self, view: F, mark: Mark) -> F:
        owner = getattr(view, "__func__", view)  # a bound method takes no attributes, its function does
        try:
            setattr(owner, _MARKS, {**_marks(owner), self: mark})
        except AttributeError:
            raise ConfigurationError(f"{view!r} cannot be marked; mark the function that it calls instead") from None
        self._has_marks = True
        return view

    def _check_name(self, name: str) -> None:
        if not isinstance(name, str) or not SECTION_NAME.fullmatch(name):
            raise ConfigurationError(
                f"section {name!r}: a name is lower-case letters and digits, with single hyphens between them"
            )
        if name == "index" or re.search(r"-[0-9]+\Z", name):
            raise ConfigurationError(f"section {name!r}: a name is not 'index' and does not end in a hyphen and digits")
        if name == ROUTES:
            raise ConfigurationError(f"section {name!r} is the one that lists the url_map")
        if name in self.sections:
            raise ConfigurationError(f"section {name!r} is already registered")


def unwrapped(view: Any) -> Iterator[Any]:
    """*view* and what it stands for, from the outside in: wrapped functions, partials, methods, view classes."""
    seen: set[int] = set()
    steps = [view]
    while steps:
        step = steps.pop(0)
        if step is None or id(step) in seen:
            continue
        seen.add(id(step))
        yield step
        own = own_attributes(step)
        steps += [own.get("view_class"), own.get("__wrapped__")]
        if type(step) is MethodType:
            steps.append(step.__func__)
        elif issubclass(type(step), functools.partial):
            steps.append(step.func)


def _marks(step: Any) -> dict[Registry, Mark]:
    # A class inherits attributes, but a mark on a view class is not meant for its subclasses.
    marks: dict[Registry, Mark] = own_attributes(step).get(_MARKS, {})
    return marks
