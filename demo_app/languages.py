"""The languages in which the pages of characters and blocks exist, and what is said in them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from flask import current_app, g, request, url_for

DEFAULT = "en"
LANGUAGES = {"en": "English", "de": "Deutsch", "tr": "Türkçe", "ar": "العربية"}
FROM_RIGHT = frozenset({"ar"})

with (Path(__file__).parent / "phrases.tsv").open(encoding="utf-8", newline="") as _table:
    PHRASES = {row["en"]: row for row in csv.DictReader(_table, delimiter="\t")}
"""What is said on these pages, by its English."""


def current() -> str:
    """The language of the page that is asked for."""
    return str(g.get("lang_code") or DEFAULT)


def say(english: str, **values: Any) -> str:
    """What is said in *english*, in the language of the page."""
    return PHRASES.get(english, {}).get(current(), english).format(**values)


def direction() -> str:
    """The direction in which the language of the page is written."""
    return "rtl" if current() in FROM_RIGHT else "ltr"


def versions() -> dict[str, str]:
    """Where the page is in each language; empty for one that is in English only."""
    endpoint = request.endpoint or ""
    if not current_app.url_map.is_endpoint_expecting(endpoint, "lang_code"):
        return {}
    kept = {"page": request.args["page"]} if request.args.get("page", "1") != "1" else {}
    values = {**(request.view_args or {}), **kept}
    return {code: url_for(endpoint, **{**values, "lang_code": code}) for code in LANGUAGES}


def pull(endpoint: str | None, values: dict[str, Any] | None) -> None:
    """Take the language out of the values of an address; views ask `current` for it."""
    g.lang_code = (values or {}).pop("lang_code", DEFAULT)


def add(endpoint: str, values: dict[str, Any]) -> None:
    """Links lead to pages in the language of the page that they are on."""
    if "lang_code" not in values and current_app.url_map.is_endpoint_expecting(endpoint, "lang_code"):
        values["lang_code"] = current()
