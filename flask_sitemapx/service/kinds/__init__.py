"""Kinds of sections, by the name that `type` has for each; a kind is imported when a file uses it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

TYPES = {
    "urls": ("urls", "UrlsKind"),
    "sql": ("sql", "SqlKind"),
    "csv": ("tabular", "CsvKind"),
    "jsonl": ("tabular", "JsonlKind"),
    "directory": ("directory", "DirectoryKind"),
    "sitemap": ("sitemap", "SitemapKind"),
    "python": ("python", "PythonKind"),
    "flask": ("flask", "FlaskKind"),
}


def kind_of(type: str) -> Any:
    """The dataclass for sections of *type*, one of `TYPES`."""
    module, name = TYPES[type]
    return getattr(import_module(f".{module}", __name__), name)
