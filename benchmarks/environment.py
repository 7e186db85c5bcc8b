"""The versions that a run was made with."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

OURS = "flask-sitemapx"
PACKAGES = (
    "flask",
    "werkzeug",
    "gunicorn",
    "isal",
    "flask-sitemap",
    "flask-sitemapper",
    "django",
    "sqlalchemy",
    "psycopg",
)


def environment() -> dict[str, str]:
    """Name and version of Python and of each package that takes part; 'absent' for one that is not installed."""
    python = {"Python": f"{platform.python_version()} ({platform.python_implementation()}, {platform.machine()})"}
    ours = {OURS: installed(OURS, "source tree")}
    return python | ours | {package: installed(package, "absent") for package in PACKAGES}


def installed(package: str, otherwise: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return otherwise
