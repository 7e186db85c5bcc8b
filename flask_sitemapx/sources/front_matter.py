"""The date in the front matter of a source page, read without a library that could do more than that."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from datetime import date
from typing import BinaryIO

from ..protocol.entries import Lastmod

MAX_FRONT_MATTER = 64 * 1024
NAMES = ("lastmod", "last_modified_at", "updated", "date")
"""By what names generators know when a page changed; the first that is there counts."""


def front_matter_date(file: BinaryIO) -> Lastmod:
    """When the page of *file* changed, as its YAML (``---``) or TOML (``+++``) says; None if it does not."""
    found = _FRONT_MATTER.match(file.read(MAX_FRONT_MATTER))
    if found is None:
        return None
    fence, text = found.groups()
    dates = _toml if fence == b"+++" else _yaml
    return next(dates(text.decode("utf-8", "replace").replace("\r\n", "\n")), None)


_FRONT_MATTER = re.compile(
    rb"(?:\xef\xbb\xbf)?(---|\+\+\+)[ \t]*\r?\n(.*?^)(?:\1|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE
)
# What stands at the margin: the value of a key within another is further in.
_YAML = re.compile(rf"^(['\"]?)({'|'.join(NAMES)})\1[ \t]*:[ \t]+(.*)$", re.MULTILINE)
_SCALAR = re.compile(r"'([^']*)'|\"([^\"]*)\"|([^'\"#\s](?:[^#]|(?<! )#)*)")
# YAML 1.1, "Timestamp": blanks may stand before the zone; Jekyll writes ±hhmm
_ZONE = re.compile(r"(:[0-9.]+)[ \t]*([+-][0-9]{2}):?([0-9]{2})")
_UTC = re.compile(r"(:[0-9.]+)[ \t]*(?:Z|UTC|GMT)")


def _yaml(text: str) -> Iterator[str]:
    values = {name: value for _, name, value in _YAML.findall(text)}
    for name in NAMES:
        found = _SCALAR.match(values.get(name, ""))
        value = "".join(found.groups("")).strip() if found else ""
        if value not in ("", "null", "~"):
            yield _UTC.sub(r"\1Z", _ZONE.sub(r"\1\2:\3", value))


def _toml(text: str) -> Iterator[Lastmod]:
    try:
        values = tomllib.loads(text)
    except ValueError:
        return
    yield from (value for name in NAMES if isinstance(value := values.get(name), str | date))
