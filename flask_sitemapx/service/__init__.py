"""The standalone service: a sitemap for any site, from one file."""

from __future__ import annotations

from .application import Service, create_app

__all__ = ["Service", "create_app"]
