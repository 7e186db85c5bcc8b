"""Correct, fast, honest sitemaps and robots.txt for Flask."""

from __future__ import annotations

from .errors import BuildFailed, ConfigurationError, InvalidEntry, NotBuilt, SitemapError, StoreError
from .extension import Sitemap
from .middleware import SitemapMiddleware
from .protocol.entries import UrlEntry
from .sources.registry import Registry

__all__ = [
    "BuildFailed",
    "ConfigurationError",
    "InvalidEntry",
    "NotBuilt",
    "Registry",
    "Sitemap",
    "SitemapError",
    "SitemapMiddleware",
    "StoreError",
    "UrlEntry",
]
