"""The JSON Schema of `sitemap.toml`, by which editors complete and check it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any

from ..settings import Settings
from .configuration import FORMS, Group, RobotsTable
from .kinds import TYPES, kind_of

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string"}


def schema() -> Schema:
    """The schema, in the draft 2020-12."""
    level = {
        **_settings(),
        "sections": _tables({"$ref": "#/$defs/section"}, "Sources of addresses, by the names of their sections."),
        "robots": {"$ref": "#/$defs/robots"},
    }
    whole = {
        **level,
        "databases": _tables(_TEXT, "Addresses of databases by name; that without a name is `DATABASE_URL`."),
        "site": _tables({"$ref": "#/$defs/site"}, "Several sites, by name, or by host if they have no `base_url`."),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "sitemap.toml",
        "description": "What the standalone service of flask_sitemapx serves.",
        **_table(whole),
        "$defs": {
            "site": _table(level),
            "robots": _robots(),
            "section": {"type": "object", "oneOf": [{"$ref": f"#/$defs/{type}"} for type in TYPES]},
            **{type: _section(type) for type in TYPES},
        },
    }


def _settings() -> Schema:
    specs = {spec.name: spec for spec in fields(Settings)}
    return {
        name: {**form.schema, "description": specs[name].metadata["help"], **_default(specs[name].default)}
        for name, form in FORMS.items()
    }


def _section(type: str) -> Schema:
    cls = kind_of(type)
    options = _options(cls)
    return {
        "description": (cls.__doc__ or "").partition("\n")[0],
        **_table({"type": {"const": type}, **options}, ["type", *_required(cls)]),
    }


def _robots() -> Schema:
    options = _options(RobotsTable)
    options["groups"] = {**options["groups"], "items": _table(_options(Group))}
    return {"description": (RobotsTable.__doc__ or "").partition("\n")[0], **_table(options)}


def _options(cls: Any) -> Schema:
    return {
        spec.name: {**spec.metadata["form"].schema, "description": spec.metadata["help"], **_default(spec.default)}
        for spec in fields(cls)
    }


def _required(cls: Any) -> list[str]:
    return [spec.name for spec in fields(cls) if spec.default is MISSING]


def _default(value: Any) -> Schema:
    """The default, where there is one that a file could hold."""
    if isinstance(value, tuple) and value:
        return {"default": list(value)}
    return {"default": value} if isinstance(value, str | int | float) else {}


def _table(properties: Mapping[str, Any], required: Iterable[str] = ()) -> Schema:
    table: Schema = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    return {**table, "required": list(required)} if required else table


def _tables(of: Schema, description: str) -> Schema:
    return {"type": "object", "description": description, "additionalProperties": of}
