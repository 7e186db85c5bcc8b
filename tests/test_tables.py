"""Sections over tables of real databases: how they are divided, what is read again, and what is listed."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from sqlalchemy.dialects.postgresql import CITEXT
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from werkzeug.routing import Rule

from flask_sitemapx import ConfigurationError, Registry, Sitemap, SitemapMiddleware
from flask_sitemapx.snapshots.directory import DirectoryStore
from flask_sitemapx.snapshots.snapshot import Snapshot
from flask_sitemapx.sources.changes import OVERLAP
from tests.section_sources import paths

ORIGIN = "https://example.com"
DAY = 86_400.0
LONG_AGO = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
URLS = 8  # most of a document; a new part has 6
FILL = 6


MILLION = """
    INSERT INTO products (id, slug, updated)
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < 1000000)
    SELECT i, 'p' || i, '2024-05-06 07:08:09.000000' FROM n
"""


class Counting(DirectoryStore):
    """A directory that notes what is put."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.puts: list[str] = []

    def put(self, key: str, value: bytes) -> None:
        self.puts.append(key)
        super().put(key, value)

    def add(self, key: str, value: bytes) -> bool:
        self.puts.append(key)
        return super().add(key, value)


class Shop:
    """A table of products, of which each has a page."""

    def __init__(
        self,
        engine: sa.Engine,
        directory: Path,
        kind: sa.types.TypeEngine[Any] | None = None,
        urls: int = URLS,
        **given: Any,
    ) -> None:
        self.engine = engine
        self.products = sa.Table(
            "products",
            sa.MetaData(),
            sa.Column("id", kind or sa.Integer(), primary_key=True, autoincrement=False),
            sa.Column("slug", sa.Text),
            sa.Column("updated", sa.DateTime(timezone=True), index=True),
            sa.Column("released", sa.Date),
            sa.Column("public", sa.Boolean, default=True),
        )
        self.products.metadata.create_all(engine)
        self.statements: list[str] = []
        sa.event.listen(engine, "before_cursor_execute", self._note)
        self.read: list[Any] = []
        self.app = Flask("shop")
        self.app.add_url_rule("/product/<slug>", "product", lambda slug: "")
        self.store = Counting(directory)
        self.app.config.update(SITEMAP_BASE_URL=ORIGIN, SITEMAP_STORE=self.store, SITEMAP_ROUTES="marked")
        self.app.config.update(SITEMAP_INDEX="always", SITEMAP_MAX_URLS=urls, SITEMAP_BUILD_WAIT=60)
        self.sitemap = Sitemap(self.app)
        columns = self.products.c
        given = {use: columns[value[1:]] if str(value).startswith("*") else value for use, value in given.items()}
        options = {"key": columns.id, "lastmod": columns.updated, "bind": engine, **given}
        if "loc" not in options:
            options |= {"endpoint": "product", "values": {"slug": columns.slug}}
        self.table = self.sitemap.table("products", **options)
        self.table.batch(self._seen)

    def _note(self, connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        self.statements.append(statement)

    def _seen(self, rows: list[Any]) -> list[None]:
        self.read += [row.id for row in rows]
        return [None] * len(rows)

    def insert(self, *ids: Any, **values: Any) -> None:
        known = {"updated": LONG_AGO, "released": LONG_AGO.date(), "public": True}
        rows = [{"id": one, "slug": f"p{one}", **known, **values} for one in ids]
        with self.engine.begin() as connection:
            connection.execute(sa.insert(self.products), rows)

    def update(self, one: Any, **values: Any) -> None:
        with self.engine.begin() as connection:
            connection.execute(sa.update(self.products).where(self.products.c.id == one).values(**values))

    def delete(self, *ids: Any) -> None:
        with self.engine.begin() as connection:
            connection.execute(sa.delete(self.products).where(self.products.c.id.in_(ids)))

    def build(self) -> Snapshot:
        """Build; what was read, asked and put since is noted anew."""
        self.read.clear()
        self.statements.clear()
        self.store.puts.clear()
        return self.sitemap.build(self.app)

    @property
    def numbers(self) -> list[int]:
        snapshot = self.sitemap.refresh(self.app)
        return [shard.number for shard in snapshot.sections["products"].listed]

    def listed(self) -> dict[int, list[str]]:
        """The slugs in each sitemap."""
        return {number: self.sitemap_of(number) for number in self.numbers}

    def sitemap_of(self, number: int) -> list[str]:
        text = self.app.test_client().get(f"/sitemap-products-{number}.xml", base_url=ORIGIN).text
        return [path.removeprefix("/product/") for path in paths(text)]

    def all_listed(self) -> list[str]:
        return [slug for slugs in self.listed().values() for slug in slugs]

    @property
    def blobs_put(self) -> int:
        return sum(key.startswith("blobs/") for key in self.store.puts)


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request, tmp_path) -> Iterator[sa.Engine]:
    url = f"sqlite:///{tmp_path}/shop.db" if request.param == "sqlite" else request.getfixturevalue("postgresql_url")
    engine = sa.create_engine(url)
    yield engine
    engine.dispose()


@pytest.fixture
def shop(engine, tmp_path) -> Shop:
    shop = Shop(engine, tmp_path / "store")
    shop.insert(*range(0, 200, 10))
    return shop


@pytest.fixture
def watched(engine, tmp_path) -> Shop:
    """A shop whose changes are told by a column."""
    shop = Shop(engine, tmp_path / "store", changed_since="*updated")
    shop.insert(*range(0, 200, 10))
    return shop


def slugs(*ids: Any) -> list[str]:
    return [f"p{one}" for one in ids]


# How it is divided


def test_each_row_is_listed_once_in_the_order_of_the_key(shop):
    assert shop.build().count == 20
    assert shop.listed() == {
        1: slugs(0, 10, 20, 30, 40, 50),
        2: slugs(60, 70, 80, 90, 100, 110),
        3: slugs(120, 130, 140, 150, 160, 170),
        4: slugs(180, 190),
    }


def test_dates_and_urls_are_those_of_the_rows(shop):
    shop.update(0, slug="a b/ü&", updated=datetime(2024, 2, 3, 4, 5, 6, 789_000, tzinfo=UTC))
    shop.build()
    text = shop.app.test_client().get("/sitemap-products-1.xml", base_url=ORIGIN).text
    loc = "https://example.com/product/a%20b/%C3%BC&amp;"
    assert f"<url><loc>{loc}</loc><lastmod>2024-02-03T04:05:06Z</lastmod></url>" in text


def test_the_first_plan_counts_nothing_and_seeks_by_key(shop):
    shop.build()
    assert not [statement for statement in shop.statements if "count(" in statement.lower()]
    assert len([statement for statement in shop.statements if "OFFSET" in statement]) == 4
    assert max(shop.read.count(one) for one in shop.read) == 1


def test_an_insert_in_the_middle_changes_one_sitemap(shop):
    shop.build()
    before = shop.listed()
    shop.insert(75)
    shop.build()
    assert shop.listed() == before | {2: slugs(60, 70, 75, 80, 90, 100, 110)}
    assert shop.read == [60, 70, 75, 80, 90, 100, 110]
    assert shop.blobs_put == 3  # the sitemap, the page of the manifest, the index


def test_nothing_is_read_or_put_but_the_manifest_while_nothing_changes(shop):
    shop.build()
    shop.build()
    assert (shop.read, shop.blobs_put) == ([], 0)


def test_a_sitemap_that_outgrows_the_limit_gets_two_new_numbers_and_the_old_one_is_answered(shop):
    shop.build()
    old = shop.sitemap_of(2)
    shop.insert(71, 72, 73)
    shop.build()
    listed = shop.listed()
    assert list(listed) == [1, 5, 6, 3, 4]
    assert listed[5] + listed[6] == slugs(60, 70, 71, 72, 73, 80, 90, 100, 110)
    assert abs(len(listed[5]) - len(listed[6])) <= 1
    assert shop.sitemap_of(2) == old
    assert shop.read == [60, 70, 71, 72, 73, 80, 90, 100, 110]


def test_growth_at_the_end_opens_new_sitemaps_and_the_last_keeps_its_number(shop):
    shop.build()
    shop.insert(*range(200, 320, 10))
    shop.build()
    listed = shop.listed()
    assert listed[4] == slugs(180, 190, 200, 210, 220, 230)
    assert list(listed) == [1, 2, 3, 4, 5, 6]
    assert shop.all_listed() == slugs(*range(0, 320, 10))
    assert shop.read == [*range(180, 320, 10)]


def test_what_the_last_sitemap_listed_stays_in_it_when_rows_come_before_it(shop):
    shop.build()
    shop.insert(*range(181, 187))
    shop.build()
    listed = shop.listed()
    assert listed[4] == slugs(180, *range(181, 187), 190)
    shop.insert(200)
    shop.build()
    assert shop.all_listed() == slugs(*range(0, 181, 10), *range(181, 187), 190, 200)
    assert set(shop.sitemap_of(4)) >= set(listed[4])


def test_rows_before_the_first_are_in_the_first_sitemap(shop):
    shop.build()
    shop.insert(-5)
    shop.build()
    assert shop.listed()[1] == slugs(-5, 0, 10, 20, 30, 40, 50)


def test_deleted_rows_are_seen_by_the_count(shop):
    shop.build()
    shop.delete(70)
    shop.build()
    assert shop.listed()[2] == slugs(60, 80, 90, 100, 110)
    assert shop.read == [60, 80, 90, 100, 110]


def test_a_sitemap_without_rows_is_not_listed_and_its_part_is_there_when_rows_come_back(shop):
    shop.build()
    shop.delete(*range(60, 120, 10))
    shop.build()
    assert list(shop.listed()) == [1, 3, 4]
    assert shop.sitemap_of(2)  # for the grace
    shop.insert(60)
    shop.build()
    assert shop.all_listed() == slugs(*range(0, 70, 10), *range(120, 200, 10))


def test_after_mass_deletion_neighbours_are_merged_when_they_are_verified(shop):
    shop.app.config["SITEMAP_VERIFY_AGE"] = 0
    shop.build()
    shop.delete(10, 20, 30, 40, 50, 70, 80, 90, 100)
    shop.build()
    listed = shop.listed()
    assert list(listed) == [5, 3, 4]
    assert listed[5] == slugs(0, 60, 110)
    assert shop.all_listed() == slugs(0, 60, 110, *range(120, 200, 10))


def test_deletion_merges_nothing_before_that(shop):
    shop.build()
    shop.delete(10, 20, 30, 40, 50, 70, 80, 90, 100)
    shop.build()
    assert list(shop.listed()) == [1, 2, 3, 4]


def test_all_rows_may_go_and_come(shop):
    shop.build()
    shop.delete(*range(0, 200, 10))
    assert shop.build().document is None
    shop.insert(*range(0, 100, 10))
    shop.build()
    assert shop.all_listed() == slugs(*range(0, 100, 10))


def test_a_table_of_no_rows_lists_nothing(engine, tmp_path):
    assert Shop(engine, tmp_path / "store").build().document is None


# What is read again


def test_an_edit_is_seen_by_its_date(shop):
    shop.build()
    shop.update(150, slug="new", updated=LONG_AGO + timedelta(days=1))
    shop.build()
    assert shop.listed()[3] == [*slugs(120, 130, 140), "new", *slugs(160, 170)]
    assert shop.read == [*range(120, 180, 10)]


def test_an_edit_that_leaves_its_date_alone_is_seen_at_the_verify_age(shop):
    shop.build()
    shop.update(150, slug="new")
    shop.build()
    assert shop.read == []
    shop.app.config["SITEMAP_VERIFY_AGE"] = 0
    shop.build()
    assert "new" in shop.all_listed()


def test_without_a_date_every_row_is_read_each_time(engine, tmp_path):
    shop = Shop(engine, tmp_path / "store", lastmod=None)
    shop.insert(*range(0, 200, 10))
    shop.build()
    shop.update(150, slug="new")
    shop.build()
    assert len(shop.read) == 20
    assert "new" in shop.all_listed()
    assert shop.blobs_put == 3


def test_a_second_edit_on_the_latest_day_is_seen(engine, tmp_path):
    shop = Shop(engine, tmp_path / "store", lastmod="*released")
    shop.insert(*range(0, 100, 10), released=date(2024, 1, 1))
    shop.update(0, released=date(2024, 5, 5))
    shop.build()
    shop.update(10, released=date(2024, 5, 5))
    shop.build()
    assert shop.read == [*range(0, 60, 10)]
    shop.build()
    assert shop.read == []


def test_another_set_up_reads_all_again_and_keeps_the_numbers(shop, engine, tmp_path):
    shop.build()
    other = Shop(engine, tmp_path / "store", changefreq="daily")
    other.build()
    assert len(other.read) == 20
    assert list(other.listed()) == [1, 2, 3, 4]


def test_a_new_view_of_the_site_reads_nothing_again(shop, engine, tmp_path):
    shop.build()
    other = Shop(engine, tmp_path / "store")
    other.app.add_url_rule("/about", "about", lambda: "")
    other.build()
    assert other.read == []
    other = Shop(engine, tmp_path / "store")
    other.app.url_map.add(Rule("/other/<slug>", endpoint="product"))
    other.build()
    assert len(other.read) == 20


def test_a_smaller_limit_divides_what_is_larger(shop):
    shop.build()
    shop.app.config["SITEMAP_MAX_URLS"] = 4
    shop.app.extensions["sitemapx"]._services = None
    shop.app.extensions["sitemapx"]._refreshers.clear()
    shop.build()
    listed = shop.listed()
    assert max(map(len, listed.values())) <= 4
    assert shop.all_listed() == slugs(*range(0, 200, 10))


def test_one_changed_row_rewrites_one_sitemap_one_page_the_root_and_the_index(tmp_path):
    """Of a million rows, by the rows that are read and the blobs that are written."""
    engine = sa.create_engine(f"sqlite:///{tmp_path}/shop.db")
    shop = Shop(engine, tmp_path / "store", urls=10_000, changed_since="*updated")
    with engine.begin() as connection:
        connection.execute(sa.text(MILLION))
    assert shop.build().count == 1_000_000
    assert len(shop.numbers) == 134
    shop.update(500_000, slug="new", updated=LONG_AGO + timedelta(days=1))
    shop.build()
    assert len(shop.read) == 7_500
    assert 500_000 in shop.read
    blobs = [key for key in shop.store.puts if key.startswith("blobs/")]
    assert len(blobs) == len(set(blobs)) == 3
    states = {key.split(".")[1] for key in shop.store.puts if key.startswith("state/")}
    assert states == {"lease", "manifest", "head"}
    engine.dispose()


# Changes by a column


def test_changes_are_found_by_the_column_alone(watched):
    watched.build()
    watched.build()
    assert watched.read == []
    assert len([one for one in watched.statements if "count(" in one.lower()]) == 1  # of the whole
    watched.update(70, slug="new", updated=LONG_AGO + timedelta(days=2))
    watched.insert(205, updated=LONG_AGO + timedelta(days=3))
    watched.build()
    assert watched.read == [*range(60, 120, 10), 180, 190, 205]
    assert "new" in watched.all_listed()
    assert "p205" in watched.all_listed()


def test_a_deletion_is_found_by_the_count_of_the_whole(watched):
    watched.build()
    watched.delete(150)
    watched.build()
    assert watched.read == [120, 130, 140, 160, 170]


def test_a_deletion_beside_an_insert_is_found(watched):
    watched.build()
    watched.delete(150)
    watched.insert(15, updated=LONG_AGO + timedelta(days=1))
    watched.build()
    assert sorted({*watched.read}) == [*range(0, 15, 10), 15, *range(20, 60, 10), 120, 130, 140, 160, 170]
    assert watched.all_listed() == slugs(0, 10, 15, *range(20, 150, 10), *range(160, 200, 10))


def test_a_row_that_is_committed_late_is_found(watched):
    now = datetime.now(UTC)
    watched.update(190, updated=now)
    watched.build()
    watched.update(70, slug="late", updated=now - OVERLAP / 2)  # by a transaction that began before the plan
    watched.build()
    assert "late" in watched.all_listed()


def test_a_row_dated_in_the_future_hides_no_other(watched):
    watched.update(0, updated=datetime.now(UTC) + timedelta(days=3_000))
    watched.build()
    watched.update(70, slug="new", updated=datetime.now(UTC))
    watched.build()
    assert "new" in watched.all_listed()


def test_after_a_failed_build_the_changes_before_it_are_found(watched):
    watched.build()
    watched.update(70, slug="new", updated=LONG_AGO + timedelta(days=1))
    watched.app.config["SITEMAP_ON_ERROR"] = "skip"
    watched.table.hook, hook = lambda rows: 1 / 0, watched.table.hook
    watched.build()
    watched.table.hook = hook
    watched.build()
    assert "new" in watched.all_listed()


def test_a_counter_may_tell_of_changes(engine, tmp_path):
    shop = Shop(engine, tmp_path / "store", changed_since="*id")
    shop.insert(*range(0, 200, 10))
    shop.build()
    shop.insert(300)
    shop.build()
    assert shop.read == [180, 190, 300]


# Keys


UUIDS = [uuid.UUID(bytes=random.Random(number).randbytes(16), version=4) for number in range(20)]


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (sa.Uuid(), UUIDS),
        (sa.Text(), [*"aBäZz_É09Aßé", "10", "aa", "Aa", "日本", "😀", "'", '"', "\\"]),
        (
            sa.DateTime(),
            [datetime(2024, 1, 1) + number * timedelta(hours=5, microseconds=1) for number in range(20)],
        ),
        (sa.Date(), [date(2024, 1, 1) + timedelta(days=number) for number in range(20)]),
        (sa.Numeric(12, 3), [Decimal(number) / 8 for number in range(20)]),
        (sa.LargeBinary(), [bytes([number, 255 - number]) for number in range(20)]),
        (sa.BigInteger(), [-(2**62) + number * 2**58 for number in range(20)]),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.filterwarnings("ignore:Dialect sqlite.*Decimal")
def test_any_unique_ordered_key_divides_a_table(engine, tmp_path, kind, keys, changed):
    given: dict[str, Any] = {"changed_since": "*updated"} if changed else {}
    shop = Shop(engine, tmp_path / "store", kind, **given)
    for number, key in enumerate(keys):
        shop.insert(key, slug=str(number))
    shop.build()
    assert sorted(map(int, shop.all_listed())) == [*range(20)]
    assert shop.numbers == [1, 2, 3, 4]
    before = shop.listed()
    shop.update(keys[7], slug="new", updated=LONG_AGO + timedelta(days=1))
    shop.build()
    after = shop.listed()
    assert [number for number in before if before[number] != after[number]] == [
        next(number for number in before if "7" in before[number])
    ]
    assert len(shop.read) <= FILL
    shop.build()
    assert shop.read == []


def test_text_keys_are_compared_by_the_database_alone(engine, tmp_path):
    kind: Any = sa.String(collation="NOCASE")
    if engine.dialect.name == "postgresql":  # which may have been made without any order of its own but that of bytes
        kind = CITEXT()
        with engine.begin() as connection:
            connection.execute(sa.text("CREATE EXTENSION citext"))
    shop = Shop(engine, tmp_path / "store", kind, changed_since="*updated")
    keys = [letter * count for letter in "aBcDeFg" for count in (1, 2, 3)]
    random.Random(5).shuffle(keys)
    shop.insert(*keys)
    shop.build()
    assert shop.all_listed() == slugs(*sorted(keys, key=str.lower))
    shop.insert("Cx", updated=LONG_AGO + timedelta(days=1))
    shop.build()
    assert shop.all_listed() == slugs(*sorted([*keys, "Cx"], key=str.lower))
    assert len(shop.read) <= URLS


def test_another_key_makes_other_parts_under_other_numbers(engine, tmp_path):
    shop = Shop(engine, tmp_path / "store")
    for number in range(20):
        shop.insert(number, slug=f"{number * 7 % 20:02}")
    shop.build()
    assert list(shop.listed()) == [1, 2, 3, 4]
    other = Shop(engine, tmp_path / "store", key="*slug")
    other.table.hook = None
    other.build()
    assert list(other.listed()) == [5, 6, 7, 8]
    assert other.all_listed() == [f"{number:02}" for number in range(20)]
    assert other.sitemap_of(1) == [f"{number * 7 % 20:02}" for number in range(6)]  # for the grace


class Digits(sa.TypeDecorator[int]):
    """Integers, which the database has as text."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> Any:
        return None if value is None else str(value)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Any:
        return None if value is None else int(value)


def test_a_key_that_the_database_sorts_as_something_else_is_left_to_it(engine, tmp_path):
    shop = Shop(engine, tmp_path / "store", Digits(), changed_since="*updated")
    shop.insert(*range(5, 25))
    shop.build()
    for number in range(5, 25):
        shop.update(number, slug=f"new{number}", updated=LONG_AGO + timedelta(days=number))
        shop.build()
        assert f"new{number}" in shop.all_listed()


def test_an_engine_that_commits_by_itself_is_read_through_a_cursor_too(engine, tmp_path):
    shop = Shop(engine, tmp_path / "store", bind=engine.execution_options(isolation_level="AUTOCOMMIT"))
    shop.insert(*range(20))
    shop.build()
    assert shop.all_listed() == slugs(*range(20))


def test_keys_that_an_outer_join_leaves_empty_are_not_listed(engine, tmp_path):
    shop = Shop(engine, tmp_path / "store")
    shop.insert(1, 2)
    other = shop.products.alias("other")
    joined = sa.select(other.c.id, other.c.slug).select_from(
        shop.products.outerjoin(other, sa.and_(other.c.id == shop.products.c.id, other.c.id == 2))
    )
    shop.sitemap.table("joined", select=joined, key="id", endpoint="product", values={"slug": "slug"}, bind=engine)
    assert shop.build().sections["joined"].count == 1


def test_a_composite_key(engine, tmp_path):
    parts = sa.Table(
        "parts",
        sa.MetaData(),
        sa.Column("maker", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("updated", sa.DateTime),
    )
    parts.metadata.create_all(engine)
    then = datetime(2024, 1, 1)
    rows = [{"maker": maker, "number": number, "updated": then} for maker in "abc" for number in range(7)]
    with engine.begin() as connection:
        connection.execute(sa.insert(parts), rows)
    shop = Shop(
        engine, tmp_path / "store", key=(parts.c.maker, parts.c.number), lastmod=parts.c.updated,
        loc=sa.literal("/product/") + parts.c.maker + sa.cast(parts.c.number, sa.Text),
    )  # fmt: skip
    shop.table.hook = None
    shop.build()
    wanted = [f"{row['maker']}{row['number']}" for row in rows]
    assert shop.all_listed() == wanted
    with engine.begin() as connection:
        connection.execute(sa.insert(parts), [{"maker": "b", "number": 99, "updated": then}])
    shop.build()
    assert shop.all_listed() == [*wanted[:14], "b99", *wanted[14:]]


def test_a_composite_key_is_spelled_out_where_rows_have_no_order():
    from flask_sitemapx.sources.statements import Statements

    a, b = sa.column("a", sa.Integer), sa.column("b", sa.Integer)
    statements = Statements("parts", (a, b), {}, None, None, ())
    text = str(statements.count(((1, 2), (3, 4)), "mssql").compile(compile_kwargs={"literal_binds": True}))
    assert "((a > 1) OR a = 1 AND (b >= 2)) AND ((a < 3) OR a = 3 AND (b < 4))" in text


def test_rows_without_a_key_are_not_listed(engine, tmp_path):
    notes = sa.Table("notes", sa.MetaData(), sa.Column("code", sa.Text, unique=True), sa.Column("slug", sa.Text))
    notes.metadata.create_all(engine)
    with engine.begin() as connection:
        rows = [{"code": "a", "slug": "1"}, {"code": None, "slug": "2"}, {"code": "b", "slug": "3"}]
        connection.execute(sa.insert(notes), rows)
    shop = Shop(engine, tmp_path / "store", key=notes.c.code, loc=sa.literal("/product/") + notes.c.slug, lastmod=None)
    shop.table.hook = None
    shop.build()
    assert shop.all_listed() == ["1", "3"]


# What is selected


def test_a_condition_or_several(engine, tmp_path):
    shop = Shop(engine, tmp_path / "store", where=(sa.column("public").is_(sa.true()), sa.column("id") > 20))
    shop.insert(*range(0, 100, 10))
    shop.update(50, public=False)
    shop.build()
    assert shop.all_listed() == slugs(30, 40, 60, 70, 80, 90)


def test_a_select_whose_columns_are_named(engine, tmp_path):
    shop = Shop(engine, tmp_path / "store")
    other = shop.products.alias("other")
    joined = sa.select(shop.products.c.id, (shop.products.c.slug + "-x").label("name"), other.c.updated).join(
        other, other.c.id == shop.products.c.id
    )
    shop.insert(*range(0, 100, 10))
    shop.sitemap.table(
        "joined", select=joined, key="id", endpoint="product", values={"slug": "name"}, lastmod="updated", bind=engine
    )
    shop.build()
    snapshot = shop.sitemap.refresh(shop.app)
    assert snapshot.sections["joined"].count == 10
    assert "/product/p90-x" in shop.app.test_client().get("/sitemap-joined-2.xml", base_url=ORIGIN).text


class Base(DeclarativeBase):
    pass


class Article(Base):
    __tablename__ = "articles"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]


def test_attributes_of_mapped_classes_are_columns(engine, tmp_path):
    Base.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(sa.insert(Article), [{"id": one, "title": f"t{one}"} for one in range(10)])
    shop = Shop(engine, tmp_path / "store")
    shop.sitemap.table("articles", key=Article.id, endpoint="product", values={"slug": Article.title}, bind=engine)
    shop.build()
    assert shop.sitemap.refresh(shop.app).sections["articles"].count == 10


def test_constants_and_defaults(engine, tmp_path):
    shop = Shop(engine, tmp_path / "store", changefreq="daily", priority=lambda: 0.3)
    shop.insert(1)
    shop.sitemap.table(
        "variants", key=shop.products.c.id, endpoint="product", bind=engine,
        values={"slug": shop.products.c.slug, "color": "red"}, lastmod=lambda: date(2024, 1, 1),
    )  # fmt: skip
    shop.build()
    get = shop.app.test_client().get
    text = get("/sitemap-products-1.xml", base_url=ORIGIN).text
    assert "<changefreq>daily</changefreq><priority>0.3</priority>" in text
    text = get("/sitemap-variants-1.xml", base_url=ORIGIN).text
    assert "<loc>https://example.com/product/p1?color=red</loc><lastmod>2024-01-01</lastmod>" in text


def test_bad_rows_are_left_out_and_counted(shop):
    shop.update(70, slug=None)
    shop.update(80, slug=None)
    shop.app.config["SITEMAP_ON_ERROR"] = "skip"
    snapshot = shop.build()
    assert shop.all_listed() == slugs(*range(0, 70, 10), *range(90, 200, 10))
    assert sum(count for count, _ in snapshot.sections["products"].problems.values()) == 2


# A batch function


def test_a_batch_function_sees_up_to_a_thousand_rows_and_has_the_last_word(engine, tmp_path):
    shop = Shop(engine, tmp_path / "store", urls=5_000, extra=[sa.column("released", sa.Date)])
    shop.insert(*range(2_500))
    sizes: list[int] = []

    def related(rows: Sequence[Any]) -> Iterator[Mapping[str, Any] | None]:
        sizes.append(len(rows))
        for row in rows:
            if row.id == 7:
                yield {"values": {"slug": "seven"}, "lastmod": row.released, "priority": 0.9, "changefreq": "daily"}
            else:
                yield {"values": {"page": 2}} if row.id == 8 else None

    shop.table.hook = related
    shop.build()
    assert sizes == [25, 1_000, 1_000, 475]  # a few at first
    text = shop.app.test_client().get("/sitemap-products-1.xml", base_url=ORIGIN).text
    assert (
        "<loc>https://example.com/product/seven</loc><lastmod>2024-05-06</lastmod><changefreq>daily</changefreq>"
        "<priority>0.9</priority>"
    ) in text
    assert "<loc>https://example.com/product/p8?page=2</loc>" in text
    assert "<loc>https://example.com/product/p9</loc>" in text


@pytest.mark.parametrize(
    ("items", "what"),
    [
        (lambda rows: [], "the batch function gave 0 items for 6 rows"),
        (
            lambda rows: [{"url": "/x"}] * len(rows),
            "the batch function gave 'url'; there are alternates",
        ),
        (
            lambda rows: [{"loc": "/x"}] * len(rows),
            "the batch function gave 'loc'; there are alternates",
        ),
    ],
)
def test_a_batch_function_that_errs_is_told_of(shop, items, what):
    shop.table.hook = items
    with pytest.raises(Exception, match=f"section 'products': .*{what}"):
        shop.build()


def test_where_rows_have_a_loc_the_batch_function_may_give_another(engine, tmp_path):
    shop = Shop(engine, tmp_path / "store", loc="*slug")
    shop.insert(1, 2, slug="/product/x")
    shop.table.hook = lambda rows: [{"loc": f"/product/{row.id}"} for row in rows]
    shop.build()
    assert shop.all_listed() == ["1", "2"]


def test_there_is_one_batch_function(shop):
    with pytest.raises(ConfigurationError, match="section 'products' has a batch function already"):
        shop.table.batch(lambda rows: [])


# Where it is


def test_flask_sqlalchemy_gives_the_engine_of_the_table(tmp_path):
    from flask_sqlalchemy import SQLAlchemy

    app = Flask("shop")
    app.config.update(
        SQLALCHEMY_DATABASE_URI=f"sqlite:///{tmp_path}/a.db", SQLALCHEMY_BINDS={"b": f"sqlite:///{tmp_path}/b.db"}
    )
    app.config.update(SITEMAP_BASE_URL=ORIGIN, SITEMAP_ROUTES="marked")
    database = SQLAlchemy(app)
    here = database.Table("here", sa.Column("path", sa.Text, primary_key=True))
    there = database.Table("there", sa.Column("path", sa.Text, primary_key=True), bind_key="b")
    sitemap = Sitemap(app)
    for table in (here, there):
        sitemap.table(table.name, key=table.c.path, loc=table.c.path)
    with app.app_context():
        database.create_all()
        for table in (here, there):
            with database.engines[table.metadata.info.get("bind_key")].begin() as connection:
                connection.execute(sa.insert(table).values(path=f"/{table.name}"))
    assert paths(app.test_client().get("/sitemap.xml", base_url=ORIGIN).text) == ["/here", "/there"]
    with app.app_context():
        for engine in database.engines.values():
            engine.dispose()


def test_a_registry_before_any_application_lists_paths(engine, tmp_path):
    pages = sa.Table("pages", sa.MetaData(), sa.Column("path", sa.Text, primary_key=True))
    pages.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(sa.insert(pages), [{"path": "/a"}, {"path": "/b"}])
    registry = Registry()
    registry.table("pages", key=pages.c.path, loc=pages.c.path, bind=lambda: engine)
    served = SitemapMiddleware(lambda environ, start: [], registry, base_url=ORIGIN)
    assert served.build().count == 2


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"key": "id"}, "key must be a column of SQLAlchemy, not 'id'"),
        ({"key": ()}, "a table has a key"),
        ({"key": Article}, "Article is a mapped class; give the column, such as Article.id"),
        ({"loc": "/a", "endpoint": "product"}, "give either an endpoint, with its values, or loc"),
        ({"endpoint": None}, "give either an endpoint, with its values, or loc"),
        ({"changed_since": "updated"}, "changed_since is a column, not 'updated'"),
        ({"select": sa.select(Article.id), "key": "nothing"}, "the select has no column 'nothing'"),
        ({"extra": ["x"]}, "extra must be a column"),
    ],
)
def test_what_cannot_be_used_is_refused_where_it_is_written(given, what):
    with pytest.raises(ConfigurationError, match=f"section 'articles'.*{what}"):
        Registry().table("articles", **{"key": Article.id, "endpoint": "product", **given})


def test_a_table_without_an_engine_says_what_to_give(tmp_path):
    app = Flask("shop")
    app.config.update(SITEMAP_BASE_URL=ORIGIN, SITEMAP_ON_ERROR="raise")
    sitemap = Sitemap(app)
    sitemap.table("articles", key=Article.id, loc=Article.title)
    with pytest.raises(Exception, match=r"section 'articles': which database is it in\? Give the engine: bind=engine"):
        sitemap.build()


def test_an_asynchronous_engine_is_refused(tmp_path):
    app = Flask("shop")
    app.config.update(SITEMAP_BASE_URL=ORIGIN, SITEMAP_ON_ERROR="raise")
    sitemap = Sitemap(app)

    class Engine:
        sync_engine = None

    sitemap.table("articles", key=Article.id, loc=Article.title, bind=Engine())
    with pytest.raises(Exception, match=r"bind= takes an Engine, such as engine.sync_engine"):
        sitemap.build()


# Whatever happens


@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_after_any_edits_each_row_is_listed_once_and_no_number_comes_to_mean_other_rows(
    engine, tmp_path, seed, changed
):
    given: dict[str, Any] = {"changed_since": "*updated"} if changed else {}
    shop = Shop(engine, tmp_path / "store", **given)
    chance = random.Random(seed)
    rows = dict.fromkeys(chance.sample(range(1000), 40), LONG_AGO)
    shop.insert(*rows)
    shop.build()
    before = shop.listed()
    for turn in range(12):
        now = LONG_AGO + timedelta(days=turn + 1)
        new = set(chance.sample(range(1_000), chance.choice([0, 1, 3, 15]))) - rows.keys()
        gone = chance.sample(sorted(rows), min(len(rows) - 1, chance.choice([0, 0, 1, 5, 20])))
        shop.delete(*gone)
        shop.insert(*new, updated=now) if new else None
        rows = {one: date for one, date in rows.items() if one not in gone} | dict.fromkeys(new, now)
        shop.app.config["SITEMAP_VERIFY_AGE"] = 0 if chance.random() < 0.2 else 7 * DAY
        shop.build()
        after = shop.listed()
        assert [slug for slugs_of in after.values() for slug in slugs_of] == slugs(*sorted(rows))
        assert max(map(len, after.values())) <= URLS
        for number in before.keys() & after.keys():
            elsewhere = {slug for other, slugs_of in after.items() if other != number for slug in slugs_of}
            assert not elsewhere & set(before[number])
        before = after


# Extras


def test_extras_come_from_columns_callables_and_the_batch_function(engine, tmp_path):
    def alternates(row):
        return {"en": row.slug, "de": f"/de{row.slug}"}

    shop = Shop(engine, tmp_path / "store", loc="*slug", images="*slug", alternates=alternates)
    shop.insert(1, slug="/one")
    shop.insert(2, slug="/two")
    shop.table.hook = lambda rows: [{"images": ["/own.jpg"]} if row.id == 2 else None for row in rows]
    shop.build()
    text = shop.app.test_client().get("/sitemap-products-1.xml", base_url=ORIGIN).text
    assert re.findall("<image:loc>(.*?)</image:loc>", text) == [f"{ORIGIN}/one", f"{ORIGIN}/own.jpg"]
    assert re.findall('hreflang="de" href="(.*?)"', text) == [f"{ORIGIN}/de/one", f"{ORIGIN}/de/two"]


def test_what_a_view_says_holds_for_the_rows_of_its_table(shop):
    shop.app.view_functions["product"] = shop.sitemap.include(
        shop.app.view_functions["product"], priority=0.9, images=["/all.jpg"]
    )
    shop.build()
    text = shop.app.test_client().get("/sitemap-products-1.xml", base_url=ORIGIN).text
    assert text.count("<priority>0.9</priority>") == text.count("/all.jpg") == text.count("<url>")
