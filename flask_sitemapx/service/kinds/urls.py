"""Sections of the type `urls`: a list, in the file itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from ...errors import InvalidEntry
from ...protocol.w3c_datetime import w3c_datetime
from ...sources.parts import Source
from ...sources.registry import Section
from ...sources.sections import SectionSource
from ..document import meant
from ..options import NUMBER, TEXT, Form, InPart, one_of, option
from .kind import Place

_CHANGEFREQ = one_of("always", "hourly", "daily", "weekly", "monthly", "yearly", "never")


def _items(value: Any) -> tuple[str | Mapping[str, Any], ...]:
    if not isinstance(value, list):
        raise ValueError("must be a list")
    return tuple(_item(item, position) for position, item in enumerate(value))


def _item(item: Any, position: int) -> str | Mapping[str, Any]:
    if isinstance(item, str):
        return item
    if not isinstance(item, dict) or "loc" not in item:
        raise InPart((position,), "must be a path, a URL, or a table with loc")
    for key, value in item.items():
        if key not in _FORMS:
            raise InPart((position, key), f"is unknown; {meant(key, _FORMS)}")
        try:
            _FORMS[key].read(value)
        except ValueError as error:
            raise InPart((position, key), str(error)) from None
    return item


def _date(value: Any) -> Any:
    try:
        w3c_datetime(value, UTC)
    except InvalidEntry:
        raise ValueError("must be a day or a time, such as 2026-11-30") from None
    return value


def _priority(value: Any) -> Any:
    if not 0 <= NUMBER.read(value) <= 1:
        raise ValueError("must be a number from 0 to 1")
    return value


_FORMS = {
    "loc": TEXT,
    "lastmod": Form(_date, {"type": "string"}),
    "changefreq": _CHANGEFREQ,
    "priority": Form(_priority, {"type": "number", "minimum": 0, "maximum": 1}),
}


URLS = Form(
    _items,
    {
        "type": "array",
        "items": {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "required": ["loc"],
                    "additionalProperties": False,
                    "properties": {key: form.schema for key, form in _FORMS.items()},
                },
            ]
        },
    },
)


@dataclass(frozen=True)
class UrlsKind:
    """A list of addresses in the file."""

    urls: tuple[str | Mapping[str, Any], ...] = option(
        URLS, "Paths or URLs, or tables with `loc` and, as they are known, `lastmod`, `changefreq` and `priority`."
    )

    def sources(self, place: Place) -> Sequence[Source]:
        return [SectionSource(Section(place.name, lambda: self.urls))]
