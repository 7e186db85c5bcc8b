"""Other libraries, each behind the same few lines, so that a table can list them or say that one is absent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ..workload import Row


@dataclass(frozen=True, slots=True)
class Peer:
    """A library ready to work: `document()` is one sitemap of all rows, `wsgi` serves it at `path`."""

    document: Callable[[], str]
    wsgi: Callable[..., Any]
    path: str


MODULES = {
    "flask-sitemap": "flask_sitemap_peer",
    "flask-sitemapper": "flask_sitemapper_peer",
    "django.contrib.sitemaps": "django_peer",
}


def peer(name: str, rows: Sequence[Row]) -> Peer:
    """The peer called *name*, loaded with *rows*; ImportError if it is not installed."""
    made: Peer = import_module(f".{MODULES[name]}", __name__).peer(rows)
    return made


def installed(names: Sequence[str], rows: Sequence[Row]) -> tuple[dict[str, Peer], list[str]]:
    """The peers of *names* that are here, and for each of the others a line saying that it is not."""
    found, absent = {}, []
    for name in names:
        try:
            found[name] = peer(name, rows)
        except ImportError as error:
            absent.append(f"{name} ({error}); pip install flask-sitemapx[peers]")
    return found, absent
