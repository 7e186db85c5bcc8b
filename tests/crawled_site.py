"""A site that changes with each build, but for the pages that are always there; several processes share its store."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from flask import Flask

from flask_sitemapx import Sitemap
from flask_sitemapx.snapshots.refresher import Refresher
from flask_sitemapx.snapshots.snapshot import Snapshot

ORIGIN = "https://example.com"
SECTIONS = ("articles", "products")
ENTRIES = 100
ALWAYS = {f"/always/{section}/{number}" for section in SECTIONS for number in range(0, ENTRIES, 2)}


class CrawledSite:
    """What one process has of the site: half of the paths begin with the name of the *generation*."""

    def __init__(self, store: str, generation: str = "none", lease: float = 0.1) -> None:
        self.generation = generation
        self.before_batch: Callable[[], object] = lambda: None
        self.app = Flask("crawled")
        self.app.config.update(SITEMAP_BASE_URL=ORIGIN, SITEMAP_STORE=store, SITEMAP_LEASE=lease)
        self.app.config.update(SITEMAP_MAX_URLS=24, SITEMAP_INDEX="always", SITEMAP_ROUTES="marked")
        self.sitemap = Sitemap(self.app)
        for section in SECTIONS:
            self.sitemap.section(section)(lambda section=section: self.entries(section))

    def entries(self, section: str) -> Iterator[str]:
        for number in range(ENTRIES):
            if number % 20 == 0:
                self.before_batch()
            yield f"/{self.generation if number % 2 else 'always'}/{section}/{number}"

    def build(self, generation: str) -> Snapshot:
        self.generation = generation
        return self.sitemap.build(self.app)

    @property
    def refresher(self) -> Refresher:
        refresher: Refresher = self.app.extensions["sitemapx"].refresher()
        return refresher
