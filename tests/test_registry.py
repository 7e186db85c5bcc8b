"""Sections and marks, without any framework."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from flask_sitemapx import ConfigurationError, Registry
from flask_sitemapx.sources.defaults import Defaults
from flask_sitemapx.sources.registry import Mark


@pytest.fixture
def registry():
    return Registry()


def test_a_section_is_its_function_under_a_name(registry):
    @registry.section("articles", changefreq="daily")
    def articles():
        yield "/a"

    assert list(articles()) == ["/a"]
    section = registry.sections["articles"]
    assert section.function is articles
    assert section.defaults == Defaults(changefreq="daily")


@pytest.mark.parametrize(
    "name", ["", "Articles", "a_b", "a--b", "-a", "a-", "a.b", "ä", "index", "page-2", "routes", "a\n", None, 7]
)
def test_a_name_that_cannot_be_part_of_an_address_is_refused(registry, name):
    with pytest.raises(ConfigurationError, match="section"):
        registry.section(name)


@pytest.mark.parametrize("name", ["a", "2024", "a-b", "page-2x", "index-a", "x1-y2-z"])
def test_other_names_are_taken(registry, name):
    registry.section(name)(lambda: ())
    assert name in registry.sections


def test_a_name_is_taken_once(registry):
    registry.section("a")(lambda: ())
    with pytest.raises(ConfigurationError, match="already registered"):
        registry.section("a")


def test_one_decorator_registers_one_function(registry):
    decorate = registry.section("a")
    decorate(lambda: ())
    with pytest.raises(ConfigurationError, match="already registered"):
        decorate(lambda: ())


def test_a_mark_is_taken_bare_and_with_values(registry):
    @registry.include
    def bare(): ...

    @registry.include(priority=0.8)
    def valued(): ...

    @registry.exclude
    def hidden(): ...

    assert registry.mark(bare) == Mark(True)
    assert registry.mark(valued) == Mark(True, Defaults(priority=0.8))
    assert registry.mark(hidden) == Mark(False)
    assert registry.mark(lambda: ()) is None
    assert registry.mark(None) is None


def test_a_mark_may_depend_on_a_function(registry):
    @registry.include(when=bool)
    def view(): ...

    assert registry.mark(view) == Mark(True, when=bool)


def test_what_cannot_be_asked_has_no_mark(registry):
    class Proxy:
        def __getattribute__(self, name):
            raise RuntimeError("outside")

    registry.include(lambda: ...)
    assert registry.mark(Proxy()) is None


def test_the_outermost_mark_counts(registry):
    @registry.exclude
    @registry.include
    def view(): ...

    assert registry.mark(view) == Mark(False)


def test_a_mark_is_found_below_other_decorators(registry):
    def decorated(view):
        @functools.wraps(view)
        def wrapper():
            return view()

        return wrapper

    def view(): ...

    registry.include(view)
    assert registry.mark(decorated(decorated(view))) == Mark(True)


def test_a_mark_put_on_a_wrapped_function_afterwards_is_found(registry):
    def view(): ...

    wrapper = functools.wraps(view)(lambda: view())
    registry.include(view)
    assert registry.mark(wrapper) == Mark(True)


def test_a_mark_of_one_registry_means_nothing_to_another(registry):
    other = Registry()

    @registry.include
    @other.exclude
    def view(): ...

    assert registry.mark(view) == Mark(True)
    assert other.mark(view) == Mark(False)


def test_partials_and_bound_methods_carry_marks(registry):
    class Views:
        def page(self): ...

    views = Views()
    registry.include(views.page)
    assert registry.mark(views.page) == Mark(True)
    part = functools.partial(print, "x")
    registry.exclude(part)
    assert registry.mark(part) == Mark(False)
    assert registry.mark(functools.partial(views.page)) == Mark(True)


def test_a_mark_on_a_class_is_found_from_its_view_and_not_inherited(registry):
    @registry.include
    class Page:
        pass

    class Special(Page):
        pass

    view: Any = lambda: Page()  # noqa: E731
    view.view_class = Page
    assert registry.mark(view) == Mark(True)
    view.view_class = Special
    assert registry.mark(view) is None


def test_what_takes_no_attributes_is_refused_with_the_remedy(registry):
    with pytest.raises(ConfigurationError, match="mark the function"):
        registry.include(len)


def test_functions_that_wrap_each_other_do_not_hang(registry):
    one: Any = lambda: ...  # noqa: E731
    two: Any = lambda: ...  # noqa: E731
    one.__wrapped__, two.__wrapped__ = two, one
    assert registry.mark(one) is None
