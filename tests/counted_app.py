"""A Flask application for gunicorn, whose section writes down each time that it is pulled, and may be held up."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from flask import Flask

from flask_sitemapx import Sitemap

app = Flask(__name__)
sitemap = Sitemap(app)


@sitemap.section("counted")
def counted() -> Iterator[str]:
    pulls = Path(os.environ["COUNTED_PULLS"])
    with pulls.open("a") as file:
        file.write(f"{os.getpid()}\n")
    while pulls.with_name("hold").exists():
        time.sleep(0.01)
    yield from (f"/page/{number}" for number in range(100_000))
