"""A Flask application for gunicorn, whose section writes down each time that it is pulled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from flask import Flask

from flask_sitemapx import Sitemap

app = Flask(__name__)
sitemap = Sitemap(app)


@sitemap.section("counted")
def counted() -> Iterator[str]:
    with Path(os.environ["COUNTED_PULLS"]).open("a") as file:
        file.write(f"{os.getpid()}\n")
    yield from (f"/page/{number}" for number in range(100_000))
