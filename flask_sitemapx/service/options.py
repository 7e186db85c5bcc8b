"""Options of the file `sitemap.toml`: how each value is checked, and what the JSON Schema and the docs say of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Form:
    """What a value may be: *read* gives it checked, or raises ValueError with a text that goes on after its key.

    *schema* is the same as JSON Schema.
    """

    read: Callable[[Any], Any]
    schema: Mapping[str, Any]


class InPart(ValueError):
    """What is wrong with a part of a value: *path* leads to it, such as ``(2, "loc")``."""

    def __init__(self, path: tuple[str | int, ...], text: str) -> None:
        self.path = path
        super().__init__(text)


def option(form: Form, help: str, default: Any = MISSING) -> Any:
    """A dataclass field for a key of the file; without a *default* the key must be there."""
    return field(default=default, metadata={"form": form, "help": help})


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be text")
    return value.strip()


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one.strip() for one in value):
        raise ValueError("must be a list of texts")
    return tuple(one.strip() for one in value)


def _one_or_more(value: Any) -> tuple[str, ...]:
    if not isinstance(value, str | list) or not value:
        raise ValueError("must be text, or a list of texts")
    return (_text(value),) if isinstance(value, str) else _texts(value)


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("must be a number")
    return value


def _tables(value: Any) -> tuple[dict[str, Any], ...]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise ValueError("must be a list of tables")
    return tuple(value)


TEXT = Form(_text, {"type": "string", "minLength": 1})
TEXTS = Form(_texts, {"type": "array", "items": {"type": "string", "minLength": 1}})
ONE_OR_MORE = Form(_one_or_more, {"anyOf": [TEXT.schema, {**TEXTS.schema, "minItems": 1}]})
SWITCH = Form(_switch, {"type": "boolean"})
NUMBER = Form(_number, {"type": "number"})
TABLES = Form(_tables, {"type": "array", "items": {"type": "object"}})


def whole_number(least: int, most: int | None = None) -> Form:
    """A whole number within bounds, both of which it may be."""

    def read(value: Any) -> int:
        if type(value) is not int or not least <= value <= (value if most is None else most):
            raise ValueError(f"must be a whole number of at least {least}" + (f" and at most {most}" if most else ""))
        return value

    return Form(read, {"type": "integer", "minimum": least} | ({} if most is None else {"maximum": most}))


def seconds() -> Form:
    """A duration: a number of seconds, 0 or more."""

    def read(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise ValueError("must be a number of seconds, 0 or more")
        return float(value)

    return Form(read, {"type": "number", "minimum": 0})


def one_of(*words: str) -> Form:
    def read(value: Any) -> str:
        if value not in words:
            raise ValueError(f"must be one of {', '.join(map(repr, words))}")
        return str(value)

    return Form(read, {"enum": list(words)})


def options_table(cls: Any) -> str:
    """The options of the dataclass *cls* as a Markdown table, for the documentation."""
    rows = [f"| `{spec.name}` | {_default(spec.default)} | {spec.metadata['help']} |" for spec in fields(cls)]
    return "\n".join(["| option | default | meaning |", "|---|---|---|", *rows])


def _default(value: Any) -> str:
    if value is MISSING:
        return "needed"
    return "" if value in (None, (), "") else f"`{json.dumps(value)}`"
