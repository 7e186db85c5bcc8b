"""The package's floors: what may import what, and what importing it costs."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType

import pytest

import flask_sitemapx

PACKAGE = Path(flask_sitemapx.__file__).parent
FLOORS = {
    "errors": 0,
    "settings": 0,
    "protocol": 1,
    "sources": 2,
    "snapshots": 3,
    "serving": 4,
    "tools": 4,
    "cli": 5,
    "binding": 5,
    "extension": 5,
    "middleware": 5,
    "service": 6,
    "__init__": 7,
    "__main__": 7,
}
REQUIRED = {"flask", "werkzeug", "cachelib", "click"}  # click comes with Flask, whose command line it is
BROUGHT_BY_REQUIRED = {"blinker", "colorama", "itsdangerous", "jinja2", "markupsafe"}
VAGUE = {"utils", "util", "helpers", "helper", "common", "base", "misc", "http", "xml"}


def module_name(path: Path) -> str:
    """`protocol.robots` for its file, and `protocol.__init__` for the package's own."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


SOURCES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text("utf-8"), path.name) for name, path in SOURCES.items()}

each_module = pytest.mark.parametrize("module", SOURCES)


def floor(module: str) -> int:
    return FLOORS[module.partition(".")[0]]


def own_imports(module: str) -> set[str]:
    """The modules of the package that *module* imports, also those imported inside functions."""
    nodes = [node for node in ast.walk(TREES[module]) if isinstance(node, ast.ImportFrom) and node.level]
    return {name for node in nodes for name in resolved(module, node)} - {module}


def resolved(module: str, node: ast.ImportFrom) -> Iterator[str]:
    package = module.split(".")[: -node.level] if node.level else []
    target = [*package, *(node.module.split(".") if node.module else [])]
    for alias in node.names:
        for candidate in ([*target, alias.name], [*target, alias.name, "__init__"], target, [*target, "__init__"]):
            if ".".join(candidate) in SOURCES:
                yield ".".join(candidate)
                break
        else:
            raise AssertionError(f"{module} has an import that leads nowhere: {ast.unparse(node)}")


def foreign_imports(tree: ast.AST, *, at_import_time: bool = False) -> set[str]:
    """The top-level packages that are imported from elsewhere."""
    names: set[str] = set()
    for node in executed_on_import(tree) if at_import_time else ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.partition(".")[0])
    return names


def executed_on_import(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        typing_only = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        if not typing_only and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from executed_on_import(child)


def on_floor_of(*packages: str) -> list[str]:
    return [module for module in SOURCES if module.partition(".")[0] in packages]


@each_module
def test_each_module_stands_on_a_floor(module):
    assert module.partition(".")[0] in FLOORS


@each_module
def test_imports_point_down(module):
    upwards = {name for name in own_imports(module) if floor(name) > floor(module)}
    assert not upwards


def test_no_two_modules_want_each_other():
    TopologicalSorter({module: own_imports(module) for module in SOURCES}).prepare()


@each_module
def test_own_modules_are_imported_relatively(module):
    assert "flask_sitemapx" not in foreign_imports(TREES[module])


@pytest.mark.parametrize("module", on_floor_of("errors", "settings", "protocol"))
def test_the_lowest_floors_import_the_standard_library_only(module):
    assert foreign_imports(TREES[module]) <= sys.stdlib_module_names


@pytest.mark.parametrize("module", on_floor_of("sources", "snapshots", "serving"))
def test_the_middle_floors_know_no_flask(module):
    assert "flask" not in foreign_imports(TREES[module])


# Modules that are imported themselves when they are used, and are in the terms of an optional library.
LATE = {"sources.statements": {"sqlalchemy"}, "service.sql_text": {"sqlalchemy"}}


@each_module
def test_optional_libraries_are_imported_when_they_are_used(module):
    allowed = sys.stdlib_module_names | REQUIRED | LATE.get(module, set())
    assert foreign_imports(TREES[module], at_import_time=True) <= allowed


def test_importing_the_package_loads_no_more_than_it_requires():
    script = "import json, sys; old = {*sys.modules}; import flask_sitemapx; print(json.dumps([*{*sys.modules} - old]))"
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=PACKAGE.parent, capture_output=True, text=True, check=True, timeout=60
    )
    loaded = {name.partition(".")[0] for name in json.loads(ran.stdout) if not name.startswith("_sysconfigdata_")}
    assert "flask_sitemapx" in loaded
    assert loaded - sys.stdlib_module_names - REQUIRED - BROUGHT_BY_REQUIRED == {"flask_sitemapx"}


def test_all_lists_the_public_names_in_order():
    public = {name for name, value in vars(flask_sitemapx).items() if is_public(name, value)}
    assert flask_sitemapx.__all__ == sorted(public)


def is_public(name: str, value: object) -> bool:
    return not name.startswith("_") and not isinstance(value, ModuleType) and name != "annotations"


@each_module
def test_a_module_is_named_for_what_is_in_it(module):
    assert not VAGUE & set(module.split("."))


@each_module
def test_a_module_opens_with_its_job(module):
    docstring = ast.get_docstring(TREES[module])
    assert docstring
    assert docstring.split("\n\n")[0].endswith(".")
