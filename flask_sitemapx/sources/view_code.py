"""What the code of a view says of the page that it makes, read without running any of it."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from opcode import opmap, opname
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple


def vocabulary(text: str) -> frozenset[str]:
    """The words of *text*."""
    return frozenset(text.split())


REDIRECTS = "redirects"
MOST_PARTS = 64
"""Functions and classes of one view that are looked at; a closure may hold half the program."""

_AUTHORITY = vocabulary(
    "login logged signed auth authed authenticated authenticate authentication authorized authorize authorise "
    "authorised authorization unauthorized permission permissions perm perms role roles staff superuser privilege "
    "privileges privileged protected protect acl rbac jwt oauth oidc sso saml secured credentials guarded "
    "moderator"
)
_SUBJECTS = vocabulary("access accessible admin admins scope scopes token tokens")
_PERSONS = vocabulary("user users session member account owner key team subscription")
_DEMANDS = vocabulary("required require requires requiring only need needs")
_TESTS = vocabulary("must check ensure enforce verify")
DEMANDING = ("requir", "only", "need", "must", "check", "ensure", "enforce", "verify")
"""Each name of a demand has one of these in it: codes without any, which are the most, need no look at single names."""
_QUESTIONS = vocabulary("has is can")
_WAIVERS = vocabulary("csrf xsrf optional optionally exempt public anonymous skip no not without un bypass")
_FACTORIES = vocabulary("create init register make build setup configure routes views blueprint bp app")
_REFUSALS = vocabulary("Unauthorized Forbidden UNAUTHORIZED FORBIDDEN unauthorized NotAuthorized PermissionDenied")
_PROGRAM_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LOGIN = re.compile(r"log_?in\b|sign_?in\b|logon\b|\b(?:auth|oauth|sso)\b")  # in lower case, as the next
_HTML_FILE = re.compile(r"\.(?:html?|j2|jinja2?)\b")
_MARKUP = re.compile(r"<(?:!doctype|html|body|head|h[1-6]|div|p)\b")
_OTHER_MEDIA = re.compile(
    r"^(?:(?:application/(?!xhtml|x-www)|text/(?!html)|image/)[\w.+-]+|[\w/-]+\.(?:xml|txt|rss|js|css))$", re.MULTILINE
)
_DATA = re.compile(r"(?:typing\.)?(?:dict|list|mapping|sequence)\b|.*json", re.IGNORECASE)
_FOUNDATIONS = frozenset(("abc", "builtins", "flask", "functools", "jinja2", "typing", "werkzeug"))
_WRITES = frozenset(("post", "put", "patch", "delete"))
_DISPLAYS = vocabulary("BUILD_MAP BUILD_CONST_KEY_MAP BUILD_LIST DICT_UPDATE DICT_MERGE LIST_EXTEND LIST_APPEND")
_DISPLAY_NUMBERS = frozenset(opmap[name] for name in _DISPLAYS if name in opmap)
_HAS_DOCSTRING = 0x4000000  # CO_HAS_DOCSTRING, since Python 3.14; before, the first constant is the docstring or None


class CodeFacts(NamedTuple):
    """What one code object tells: who may not see its page, how it shows HTML, and what it answers if it does not."""

    guard: str | None
    shows: str | None
    answers: str | None


TEMPLATE = "uses a template"
_USES_TEMPLATE = CodeFacts(None, TEMPLATE, None)
_RETURNS_HTML = CodeFacts(None, "returns HTML", None)


def code_facts(code: CodeType) -> CodeFacts:
    """What *code* and the functions inside it tell."""
    names, texts, numbers = _vocabulary_of(code)
    said, text = " ".join(names).lower(), "\n".join(texts)
    if guard := _guard(code, names, numbers, said, text):
        return CodeFacts(guard, None, None)
    may_tell = "." in text or "<" in text or "/" in text  # what HTML, types and names of files have
    if may_tell and (".html" in text or _HTML_FILE.search(text.lower())):
        return _RETURNS_HTML if "send_" in said and not _renders(names, said) else _USES_TEMPLATE
    if may_tell and (_MARKUP.search(text.lower()) or ("text/html" in text and "json" not in said)):
        return _USES_TEMPLATE if _renders(names, said) else _RETURNS_HTML
    media = _OTHER_MEDIA.search(text) if may_tell else None
    if media is None and _renders(names, said):
        return _USES_TEMPLATE
    return CodeFacts(None, None, _answers(said, media.group() if media else None))


def texts_of(program: Any) -> set[str]:
    """The texts in the code of *program*, which is not run, and of what it wraps or closes over."""
    return {text for function in parts_of(program).functions for text in _vocabulary_of(function.__code__)[1]}


@dataclass(slots=True)
class Parts:
    """What a view consists of: functions from the outside in, classes that it makes, the class it is a method of."""

    functions: list[FunctionType]
    classes: list[type]
    owners: list[type]


def parts_of(view: Any) -> Parts:
    """*view* and what it wraps or closes over: functions, partials, methods, view classes, callable objects."""
    if type(view) is FunctionType and view.__closure__ is None and not view.__dict__:
        return Parts([view], [], [])
    parts = Parts([], [], [])
    queue, seen = [view], {id(view)}
    for step in queue:
        if len(queue) < MOST_PARTS:
            for inner in _inside(step, parts):
                if id(inner) not in seen:
                    seen.add(id(inner))
                    queue.append(inner)
    return parts


def _inside(step: Any, parts: Parts) -> Iterator[Any]:
    """Files *step* under its kind in *parts*, and gives what else is to be looked at."""
    kind = type(step)
    if kind is FunctionType:
        parts.functions.append(step)
        yield from filter(_is_program, _cell_contents(step))
    elif kind is MethodType:
        parts.owners.append(step.__self__ if isinstance(step.__self__, type) else type(step.__self__))
        yield step.__func__
    elif issubclass(kind, partial):
        yield from filter(_is_program, (step.func, *step.args))
    elif issubclass(kind, type):
        parts.classes.append(step)
        yield from _methods(step)
    else:
        parts.owners.append(kind)
        yield from filter(_is_program, [vars(kind).get("__call__")])
    if not issubclass(kind, type) and (own := step.__dict__ if kind is FunctionType else own_attributes(step)):
        yield from (own[name] for name in ("view_class", "__wrapped__") if own.get(name) is not None)


def own_attributes(step: Any) -> dict[str, Any]:
    """The attributes of *step* itself; none of what cannot be asked, such as a proxy outside its context."""
    try:
        return dict(vars(step))
    except Exception:  # TypeError without attributes, and whatever a proxy raises
        return {}


def _cell_contents(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue


def _is_program(value: Any) -> bool:
    kind = type(value)
    if issubclass(kind, type):
        return not is_foundation(value)
    return kind is FunctionType or kind is MethodType or issubclass(kind, partial)


def _methods(view_class: type) -> Iterator[FunctionType]:
    """The functions of *view_class* that may have a part in answering a GET."""
    for owner in view_class.__mro__:
        if not is_foundation(owner):
            for name, value in vars(owner).items():
                if type(value) is FunctionType and name not in _WRITES and not name.startswith("__"):
                    yield value


def is_foundation(owner: type) -> bool:
    """Whether *owner* belongs to Python or to Flask, so that it tells nothing of a view."""
    return _is_of_foundation(owner.__module__)


@lru_cache(4096)
def _is_of_foundation(module: object) -> bool:
    package = package_of(module)
    return package in _FOUNDATIONS or package in sys.stdlib_module_names


@lru_cache(4096)
def package_of(module: object) -> str:
    return module.partition(".")[0] if isinstance(module, str) else ""


# Guards


@lru_cache(4096)
def is_guard(name: str) -> bool:
    """Whether *name* is one of a decorator or class that lets only some people through."""
    words = _words(name)
    is_question = words & _QUESTIONS and words & _SUBJECTS
    return not words & _WAIVERS and bool(words & _AUTHORITY or is_question or _demands(words))


@lru_cache(4096)
def is_demand(name: str) -> bool:
    """Whether *name* is one of a function that is called to turn people away, such as `require_login`."""
    words = _words(name)
    return not words & _WAIVERS and _demands(words)


def _demands(words: set[str]) -> bool:
    whom = words & (_AUTHORITY | _SUBJECTS)
    return bool((words & _TESTS and whom) or (words & _DEMANDS and (whom or words & _PERSONS)))


def _words(name: str) -> set[str]:
    return {word.lower() for word in _PROGRAM_WORDS.findall(name)}


def _guard(code: CodeType, names: Collection[str], numbers: Collection[int], said: str, text: str) -> str | None:
    """What in *code* keeps people out; None if nothing does."""
    if "<locals>" in code.co_qualname and (found := _guard_around(code)):
        return found
    if not _REFUSALS.isdisjoint(names):
        return next(filter(_REFUSALS.__contains__, names))
    if 401 in numbers:
        return "401"
    if 403 in numbers and "abort" in names:
        return "abort(403)"
    if "redirect" in said and _speaks_of_login(f"{said.replace('_', ' ')}\n{text.lower()}"):
        return "a redirect to log in"
    return next(filter(is_demand, names), None) if any(map(said.__contains__, DEMANDING)) else None


def _speaks_of_login(text: str) -> bool:
    # Most texts hold none of these, which is told in a tenth of the time of a search.
    return any(map(text.__contains__, ("log", "sign", "auth", "sso"))) and _LOGIN.search(text) is not None


def _guard_around(code: CodeType) -> str | None:
    """The decorator that *code* was made in, if its name or its arguments speak of permissions."""
    outer, _, _ = code.co_qualname.rpartition(".<locals>.")
    if _words(outer) & _FACTORIES:  # of applications and blueprints, say, inside which views are defined
        return None
    return outer.partition(".<locals>")[0] if is_guard(outer) else next(filter(is_guard, code.co_freevars), None)


# Pages and other answers


def _vocabulary_of(code: CodeType) -> tuple[list[str], list[str], list[int]]:
    """Global names and attributes, texts and numbers in *code* and in the functions inside it; no docstrings."""
    names: list[str] = []
    texts: list[str] = []
    numbers: list[int] = []
    _collect(code, names, texts, numbers)
    return names, texts, numbers


def _collect(code: CodeType, names: list[str], texts: list[str], numbers: list[int]) -> None:
    names += code.co_names + code.co_freevars
    for constant in code.co_consts[1:] if _has_docstring(code) else code.co_consts:
        kind = type(constant)
        if kind is str:
            texts.append(constant)
        elif kind is tuple:
            for member in constant:
                if type(member) is str:
                    texts.append(member)
                elif type(member) is int:
                    numbers.append(member)
        elif kind is int:
            numbers.append(constant)
        elif kind is CodeType:
            _collect(constant, names, texts, numbers)


def _has_docstring(code: CodeType) -> bool:
    if sys.version_info >= (3, 14):
        return bool(code.co_flags & _HAS_DOCSTRING)
    return not code.co_name.startswith("<")  # the first constant of named functions is a docstring, or None


def _renders(names: Iterable[str], said: str) -> bool:
    if "render" not in said and "template" not in said:
        return False
    found = [name for name in map(str.lower, names) if "render" in name or "template" in name]
    return any("json" not in name and "xml" not in name for name in found)


def _answers(said: str, media: str | None) -> str | None:
    if media:
        return f"answers {media}"
    if "json" in said or " dumps" in said:
        return "answers JSON"
    if "send_" in said:
        return "sends a file"
    return REDIRECTS if "redirect" in said else None


def returned_data(function: FunctionType) -> str | None:
    """What *function* returns, if its annotation or its code says that it is data rather than a page."""
    try:
        annotation = function.__annotations__.get("return")
    except Exception:  # computed when asked for, since Python 3.14
        annotation = None
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", None) or repr(annotation)
    if _DATA.match(text):
        return f"returns {text}"
    return "returns a dict or a list" if _builds_data(function.__code__) else None


def _builds_data(code: CodeType) -> bool:
    """Whether what *code* returns is written as a dict or a list, alone or first in a tuple with a status."""
    numbers = code.co_code[::2]
    if _DISPLAY_NUMBERS.isdisjoint(numbers):
        return False
    operations = [opname[number] for number in numbers if opname[number] != "CACHE"]
    ends = [index for index, name in enumerate(operations) if name == "RETURN_VALUE"]
    made = [operations[end - (3 if operations[end - 1] == "BUILD_TUPLE" else 1)] for end in ends]
    return not _DISPLAYS.isdisjoint(made)


def called(function: FunctionType) -> Iterator[FunctionType]:
    """The functions that *function* names, and those that they name: of their modules and of modules they import."""
    queue, seen = [function], {function.__code__}
    for outer in queue:
        for inner in _named_functions(outer) if len(queue) < MOST_PARTS else ():
            if inner.__code__ not in seen:
                seen.add(inner.__code__)
                yield inner
                if outer is function:
                    queue.append(inner)


def _named_functions(function: FunctionType) -> Iterator[FunctionType]:
    names = function.__code__.co_names
    values = [value for value in map(function.__globals__.get, names) if value is not None]
    for module in [value for value in values if type(value) is ModuleType]:
        values += map(vars(module).get, names)
    for value in values:
        if type(value) is FunctionType and not _is_of_foundation(value.__module__):
            yield value
