"""Log records as lines, in plain text or as JSON, as ``SITEMAP_LOG_FORMAT`` says."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from ..errors import ConfigurationError, shown

VARIABLE = "SITEMAP_LOG_FORMAT"
# What gunicorn has about a request, and how it is called here: neither headers nor a query that could hold a token.
# https://docs.gunicorn.org/en/stable/settings.html#access-log-format
ATOMS = {"h": "client", "m": "method", "U": "path", "H": "protocol", "B": "bytes", "a": "user_agent"}


def is_json(environ: Mapping[str, str]) -> bool:
    """Whether JSON is wanted; raises `ConfigurationError` for what is neither that nor text."""
    wanted = environ.get(VARIABLE) or "text"
    if wanted not in ("text", "json"):
        raise ConfigurationError(f"{VARIABLE} must be 'text' or 'json', not {shown(wanted)}")
    return wanted == "json"


def install(logger: logging.Logger, environ: Mapping[str, str]) -> None:
    """Have *logger* write to stderr, once, in the wanted form."""
    if not any(isinstance(handler, _Lines) for handler in logger.handlers):
        logger.addHandler(_Lines())
        logger.setLevel(logging.INFO)
    for handler in logger.handlers:
        if isinstance(handler, _Lines):
            handler.setFormatter(JsonFormatter() if is_json(environ) else TextFormatter())


class _Lines(logging.StreamHandler[Any]):
    """The handler of `install`."""


class TextFormatter(logging.Formatter):
    """Lines as those of gunicorn, among which they stand."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s [%(process)d] [%(levelname)s] %(message)s", "[%Y-%m-%d %H:%M:%S %z]")


class JsonFormatter(logging.Formatter):
    """A line of JSON for each record; those of gunicorn's access log have the request in fields."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
        }
        if record.name == "gunicorn.access" and isinstance(record.args, Mapping):
            fields |= _request(record.args)
        else:
            fields["message"] = record.getMessage()
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        # In ASCII, which each stream can write, and in which nothing but a line's end is taken for one.
        return json.dumps(fields, default=str)


class Redacted(logging.Formatter):
    """The lines of *formatter* without *secrets*, wherever in a request somebody put them."""

    def __init__(self, formatter: logging.Formatter, secrets: Iterable[str]) -> None:
        super().__init__()
        self._formatter = formatter
        forms = {form for secret in secrets for form in (secret, json.dumps(secret)[1:-1], quote(secret, safe=""))}
        self._secrets = sorted(forms - {""}, key=len, reverse=True)  # one may begin with another

    def format(self, record: logging.LogRecord) -> str:
        line = self._formatter.format(record)
        for secret in self._secrets:
            line = line.replace(secret, "***")
        return line


def _request(atoms: Mapping[str, Any]) -> dict[str, Any]:
    fields = {name: atoms[atom] for atom, name in ATOMS.items() if atoms[atom] not in ("", "-", None)}
    return {**fields, "status": int(atoms["s"]), "seconds": float(atoms["L"])}
