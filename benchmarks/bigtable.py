"""Benchmark `bigtable`: a section over a table of a database, from a row to a stored document, and from set to set."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sqlalchemy as sa
from flask import Flask

from flask_sitemapx import Sitemap
from flask_sitemapx.snapshots.refresher import Refresher
from flask_sitemapx.snapshots.snapshot import Shard

from .databases import PRODUCTS, available, filled
from .memory import largest_rss
from .rounds import Effort, clocked, timings
from .servers import ROOT
from .tables import Table, Target
from .workload import ORIGIN

ROWS = 10  # times the entries of a site, for the comparison with plain iteration
BIG = 200  # the same, for the large table
ROWS_IN_ORDER = sa.select(*PRODUCTS.c).order_by(PRODUCTS.c.id)

ABOUT_ROWS = """Wall time a row, from the row to a stored gzip document, beside SQLAlchemy Core iterating over the same
columns of the same rows (`yield_per(1000)`), of {rows:,} rows on {database}."""
ABOUT_BIG = """A section over {rows:,} rows on {database}, in a process of its own, documents of at most 10,000 URLs:
wall seconds of builds. By counts: each part is found unchanged by its count and latest change. By changes:
`changed_since=` is given. A part: all entries of one part, read and stored. RSS: growth of the peak since before the
first build."""


def tables(effort: Effort) -> Iterator[Table]:
    """For each database a table of rows, and one of a large table."""
    for database, reason in available().items():
        if reason is not None:
            yield Table(f"bigtable, {database}", "", ["what"], skipped=[reason])
            continue
        with filled(database, effort.entries * ROWS) as url:
            yield by_row(database, url, effort)
        with filled(database, effort.entries) as small, filled(database, effort.entries * BIG) as large:
            yield by_set(database, effort.entries * BIG, apart(small), apart(large))


def by_row(database: str, url: str, effort: Effort) -> Table:
    rows = effort.entries * ROWS
    engine = sa.create_engine(url)
    with TemporaryDirectory() as directory:
        build = Build(url, Path(directory))
        measured = timings(
            {
                "SQLAlchemy Core": clocked(partial(iterate, engine), rows, time.perf_counter),
                "ours": clocked(build, rows, time.perf_counter, before=build.prepare),
            },
            effort.rounds,
        )
        build.close()
    engine.dispose()
    made = Table(
        f"bigtable, rows of {database}", ABOUT_ROWS.format(rows=rows, database=database), ["what", "us/row", "x"]
    )
    for name in measured:
        made.rows.append([name, measured.median(name) * 1e6, measured.ratio(name, "SQLAlchemy Core")])
    claim = f"{database}: row to stored document / Core iteration"
    made.targets.append(Target(claim, measured.ratio("ours", "SQLAlchemy Core"), at_most=2.5))
    return made


def by_set(database: str, rows: int, small: dict[str, float], large: dict[str, float]) -> Table:
    about = ABOUT_BIG.format(rows=rows, database=database)
    made = Table(f"bigtable, sets of {database}", about, ["what", "seconds, or MB"])
    made.rows += [[name, value] for name, value in large.items()]
    full, counts, changes = (
        large["full build"],
        large["nothing changed, by counts"],
        large["nothing changed, by changes"],
    )
    part = full / large["parts"]
    parts = [large[f"{place} part"] for place in ("first", "middle", "last but one")]
    made.targets += [
        Target(f"{database}: full build / refresh by counts", full / counts, at_least=10),
        Target(f"{database}: full build / refresh by changes", full / changes, at_least=50),
        Target(f"{database}: (one row changed - nothing changed) / one part's share of the full build",
               (large["one row changed, by changes"] - changes) / part, at_most=5),
        Target(f"{database}: slowest / fastest part", max(parts) / min(parts), at_most=1.2),
        Target(f"{database}: first bytes of a part / first row of its query",
               large["first bytes of the middle part"] / large["first row of its query"], at_most=3),
        Target(f"{database}: peak RSS of the large build minus that of 50 thousand rows, MB",
               large["growth of RSS, MB"] - small["growth of RSS, MB"], at_most=40),
    ]  # fmt: skip
    return made


def apart(url: str) -> dict[str, float]:
    """What a process of its own measures of the table at *url*."""
    command = [sys.executable, "-m", __name__, url]
    printed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    result: dict[str, float] = json.loads(printed)
    return result


def iterate(engine: sa.Engine) -> int:
    """How many rows there are, each looked at."""
    statement = ROWS_IN_ORDER
    count = 0
    with engine.connect() as connection:
        for _ in connection.execution_options(yield_per=1_000).execute(statement):
            count += 1
    return count


def site(engine: sa.Engine, store: str, **options: Any) -> tuple[Flask, Sitemap]:
    """A shop whose section is the table."""
    app = Flask(__name__)
    app.add_url_rule("/catalogue/<category>/<slug>", "product", lambda category, slug: "")
    app.config.update(SITEMAP_BASE_URL=ORIGIN, SITEMAP_STORE=store, SITEMAP_ROUTES="marked", SITEMAP_INDEX="always")
    sitemap = Sitemap(app)
    values = {"category": PRODUCTS.c.category, "slug": PRODUCTS.c.slug}
    sitemap.table(
        "products",
        key=PRODUCTS.c.id,
        endpoint="product",
        values=values,
        lastmod=PRODUCTS.c.updated,
        bind=engine,
        **options,
    )
    return app, sitemap


class Build:
    """A build of the table at *url* into an empty directory."""

    def __init__(self, url: str, directory: Path) -> None:
        self.engine = sa.create_engine(url)
        self.directory = directory
        self.number = 0

    def prepare(self) -> None:
        self.number += 1
        self.app, self.sitemap = site(self.engine, f"file:{self.directory}/{self.number}")

    def __call__(self) -> int:
        return int(self.sitemap.build(self.app).count)

    def close(self) -> None:
        self.engine.dispose()


def measured(url: str) -> Iterator[tuple[str, float]]:
    """All that `by_set` shows of the table at *url*."""
    engine = sa.create_engine(url)
    with TemporaryDirectory() as directory:
        app, sitemap = site(engine, f"file:{directory}/counts")
        before = largest_rss()
        yield "full build", seconds(lambda: sitemap.build(app))
        yield "growth of RSS, MB", (largest_rss() or 0) - (before or 0)
        yield "nothing changed, by counts", seconds(lambda: sitemap.build(app))
        change(engine)
        yield "one row changed, by counts", seconds(lambda: sitemap.build(app))
        app, sitemap = site(engine, f"file:{directory}/changes", changed_since=PRODUCTS.c.updated)
        snapshot = sitemap.build(app)
        yield "nothing changed, by changes", seconds(lambda: sitemap.build(app))
        change(engine)
        yield "one row changed, by changes", seconds(lambda: sitemap.build(app))
        shards = snapshot.sections["products"].shards
        yield "parts", len(shards)
        refresher = app.extensions["sitemapx"].refresher()
        middle = shards[len(shards) // 2]
        for place, shard in {"first": shards[0], "middle": middle, "last but one": shards[-2:][0]}.items():
            yield f"{place} part", least(partial(drained, refresher, shard))
        yield "first bytes of the middle part", least(lambda: refresher.streamed("products", middle).close())
        yield "first row of its query", least(partial(first_row, engine, json.loads(middle.part)[1]))
    engine.dispose()


def change(engine: sa.Engine) -> None:
    """Change one row in the middle of the table, now."""
    with engine.begin() as connection:
        middle = sa.select(sa.func.max(PRODUCTS.c.id) / 2).scalar_subquery()
        moved = sa.update(PRODUCTS).where(PRODUCTS.c.id == sa.cast(middle, sa.Integer))
        connection.execute(moved.values(updated=sa.func.now()))


def first_row(engine: sa.Engine, start: list[int] | None) -> None:
    statement = ROWS_IN_ORDER
    if start is not None:
        statement = statement.where(PRODUCTS.c.id >= start[0], PRODUCTS.c.id < start[0] + 7_500)
    with engine.connect() as connection:
        rows = connection.execution_options(yield_per=1_000).execute(statement)
        next(iter(rows))
        rows.close()


def drained(refresher: Refresher, shard: Shard) -> None:
    blocks = refresher.streamed("products", shard)
    for _ in blocks:
        pass
    blocks.close()


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def least(work: Callable[[], object]) -> float:
    """The least of some goes: what is wanted is what it takes, not what else the machine did."""
    return min(seconds(work) for _ in range(7))


if __name__ == "__main__":
    print(json.dumps(dict(measured(sys.argv[1]))))
