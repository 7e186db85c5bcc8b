"""Correct, fast, honest sitemaps and robots.txt for Flask."""

from __future__ import annotations

from .errors import BuildFailed, ConfigurationError, InvalidEntry, NotBuilt, SitemapError, StoreError
from .extension import Sitemap
from .middleware import SitemapMiddleware
from .protocol.atom import Feed
from .protocol.elements import Namespace
from .protocol.entries import UrlEntry
from .protocol.media import News, Video
from .sources.registry import Registry

__all__ = [
    "BuildFailed",
    "ConfigurationError",
    "Feed",
    "InvalidEntry",
    "Namespace",
    "News",
    "NotBuilt",
    "Registry",
    "Sitemap",
    "SitemapError",
    "SitemapMiddleware",
    "StoreError",
    "UrlEntry",
    "Video",
]
