"""Sections of the type `sql`, from the file to the sitemap, over SQLite and PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from werkzeug.test import Client

from flask_sitemapx.errors import BuildFailed, ConfigurationError
from flask_sitemapx.service.configuration import Configuration, configuration
from flask_sitemapx.service.sites import Sites
from flask_sitemapx.snapshots.snapshot import Shard
from flask_sitemapx.snapshots.sql_store import database_url

pytestmark = pytest.mark.usefixtures("closed_pools")

BASE = 'base_url = "https://a.example"\nindex = "always"\nmax_urls = 8\n'
LONG_AGO = datetime(2024, 5, 6, 7, 8, 9)
TABLE = 'table = "products"\nkey = "id"\nloc = "/p/{slug}"\nlastmod = "updated"\n'
QUERY = TABLE.replace('table = "products"', 'query = "SELECT id, slug, updated FROM products"')


class Shop:
    """A database with products, and a site whose section `products` lists them by the options of *text*."""

    def __init__(self, address: str, directory: Path) -> None:
        self.address = address
        self.engine = sa.create_engine(database_url(address), poolclass=sa.NullPool)
        self.text = TABLE
        self.environ = {"DATABASE_URL": address}
        self.statements: list[str] = []
        self._known: list[Shard] = []
        self._directory = directory
        metadata = sa.MetaData()
        self.products = sa.Table(
            "products",
            metadata,
            sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
            sa.Column("slug", sa.Text),
            sa.Column("updated", sa.DateTime, index=True),
            sa.Column("public", sa.Boolean),
        )
        metadata.create_all(self.engine)

    def insert(self, *ids: int, **values: Any) -> None:
        known = {"updated": LONG_AGO, "public": True}
        self.execute(
            sa.insert(self.products).values([{"id": one, "slug": f"p{one}", **known, **values} for one in ids])
        )

    def update(self, one: int, **values: Any) -> None:
        self.execute(sa.update(self.products).where(self.products.c.id == one).values(**values))

    def execute(self, statement: Any) -> None:
        with self.engine.begin() as connection:
            connection.execute(statement)

    def configuration(self) -> Configuration:
        store = f'store = "file:{self._directory}/sets"\n'
        text = f'{BASE}{store}[sections.products]\ntype = "sql"\n{self.text}'
        return configuration(text, self._directory / "sitemap.toml", self.environ)

    def sites(self) -> Sites:
        """The service, as a process has it that begins now."""
        return Sites(self.configuration(), self.environ)

    def build(self) -> list[Shard]:
        """The sitemaps of a new set; the statements since are noted anew."""
        self.statements.clear()
        sites = self.sites()
        refresher = sites["a.example"].refresher()
        section = refresher.build().sections["products"]
        assert section.error is None, section.error
        self.problems = section.problems
        return section.listed

    def listed(self) -> list[str]:
        """What stands in each `<url>`."""
        self.build()
        client = Client(self.sites())
        index = client.get("/sitemap.xml").text
        paths = re.findall("<loc>https://a.example(/sitemap-products-[^<]*)<", index)
        texts = [client.get(path).text for path in paths]
        return [url for text in texts for url in re.findall("<url>(.*)</url>", text)]

    def locs(self) -> list[str]:
        return re.findall("<loc>https://a.example([^<]*)<", "".join(self.listed()))

    def changed(self) -> int:
        """How many sitemaps differ from those of the last set when another is built."""
        before = {shard.number: shard.document for shard in self._known}
        self._known = self.build()
        return sum(before.get(shard.number) != shard.document for shard in self._known)

    def known(self) -> None:
        self._known = self.build()

    def rows_read(self) -> list[str]:
        """The statements that asked for what entries are made of."""
        return [text for text in self.statements if "ORDER BY" in text and "LIMIT" not in text]


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request, tmp_path) -> str:
    """An empty database, written as an operator, or Heroku, writes it."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shop.db"
    url: str = request.getfixturevalue("postgresql_url")
    return url.replace("postgresql+psycopg://", "postgres://")


@pytest.fixture
def shop(address, tmp_path) -> Iterator[Shop]:
    shop = Shop(address, tmp_path)
    opened: list[Any] = []

    def note(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        shop.statements.append(statement)

    def keep(connection: Any, record: Any) -> None:
        opened.append(connection)

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    sa.event.listen(sa.pool.Pool, "connect", keep)
    yield shop
    sa.event.remove(sa.Engine, "before_cursor_execute", note)
    sa.event.remove(sa.pool.Pool, "connect", keep)
    for connection in opened:
        connection.close()  # or it complains when it is collected


@pytest.mark.parametrize("text", [TABLE, QUERY])
def test_rows_are_listed_by_their_key(shop, text):
    shop.text = text
    shop.insert(2, 10, 1)
    times = "<lastmod>2024-05-06T07:08:09Z</lastmod>"
    assert shop.listed() == [f"<loc>https://a.example/p/p{one}</loc>{times}" for one in (1, 2, 10)]


def test_a_column_in_a_path_is_a_segment_and_alone_an_address(shop):
    for one, slug in enumerate(["ü", "a/b?c#d&e", "50%", "it's"]):
        shop.insert(one, slug=slug)
    assert shop.locs() == ["/p/%C3%BC", "/p/a%2Fb%3Fc%23d%26e", "/p/50%25", "/p/it%27s"]
    shop.execute(sa.text("UPDATE products SET slug = 'https://a.example/x?a=' || id || '&b=''1'''"))
    shop.text = TABLE.replace("/p/{slug}", "{slug}")
    assert shop.locs() == [f"/x?a={one}&amp;b=&apos;1&apos;" for one in range(4)]
    shop.text = TABLE.replace("/p/{slug}", "/{id}/{+slug}/{id}")
    shop.execute(sa.text("UPDATE products SET slug = 'a b/c'"))
    assert shop.locs() == [f"/{one}/a%20b/c/{one}" for one in range(4)]


def test_rows_without_an_address_are_counted(shop):
    shop.insert(1, 2)
    shop.insert(3, slug=None)
    shop.insert(4, slug="")
    shop.insert(5, slug="..")
    assert shop.locs() == ["/p/p1", "/p/p2"]
    assert {rule: count for rule, (count, _) in shop.problems.items()} == {"loc-column": 2, "loc-dot-segment": 1}


def test_where_is_a_condition_and_goes_to_the_database_as_it_is(shop):
    shop.insert(1, 2)
    shop.insert(3, slug="a:b%c")
    shop.insert(4, public=False)
    shop.text = TABLE + "where = \"public AND (slug = 'a:b%c' OR id = 1) -- :x\"\n"
    assert shop.locs() == ["/p/p1", "/p/a%3Ab%25c"]
    shop.text = TABLE + 'where = "id = 2 OR id = 4"\n'
    assert shop.locs() == ["/p/p2", "/p/p4"]


def test_a_query_may_have_what_a_query_has(shop):
    shop.insert(1, 2, 3)
    query = """
    -- of each product :its page
    WITH seen AS (SELECT id AS "Number", '::' || slug AS name, updated FROM products WHERE slug NOT LIKE '%3')
    SELECT * FROM seen ORDER BY name DESC -- the end
    ;
    """
    shop.text = f"query = '''{query}'''\nkey = 'Number'\nloc = '/p/{{name}}'\n"
    assert shop.locs() == ["/p/%3A%3Ap1", "/p/%3A%3Ap2"]


@pytest.mark.parametrize("text", [TABLE, QUERY])
@pytest.mark.parametrize("changes", ["", 'changed_since = "updated"\n'])
def test_one_row_that_changed_has_one_sitemap_read_and_written(shop, text, changes):
    shop.text = text + changes
    shop.insert(*range(60))
    shop.known()
    assert len(shop.rows_read()) == 10
    assert shop.changed() == 0
    assert shop.rows_read() == []
    shop.update(30, slug="other", updated=datetime.now(UTC).replace(tzinfo=None, microsecond=0))
    assert shop.changed() == 1
    assert len(shop.rows_read()) == 1
    assert "/p/other" in shop.locs()


def test_two_changes_within_a_second_are_both_seen(shop):
    shop.text = TABLE + 'changed_since = "updated"\n'
    shop.insert(*range(20))
    now = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
    shop.update(3, slug="first", updated=now)
    shop.known()
    shop.update(18, slug="second", updated=now)
    assert shop.changed() == 1
    assert {"/p/first", "/p/second"} <= set(shop.locs())


def test_rows_that_come_and_go_are_seen(shop):
    shop.text = TABLE + 'changed_since = "updated"\n'
    shop.insert(*range(20))
    shop.known()
    shop.execute(sa.delete(shop.products).where(shop.products.c.id == 4))
    assert shop.changed() == 1
    shop.insert(30)
    assert shop.changed() == 1
    assert shop.locs() == [f"/p/p{one}" for one in (*range(4), *range(5, 20), 30)]


def test_nothing_is_read_again_of_an_empty_table(shop):
    assert shop.build() == []
    assert shop.build() == []
    shop.insert(1)
    assert shop.locs() == ["/p/p1"]


@pytest.mark.parametrize(
    "kind", [sa.Text, sa.Uuid, sa.Numeric(20, 2, asdecimal=False), sa.DateTime(timezone=True), sa.Date]
)
def test_keys_are_of_any_type_with_an_order(shop, kind):
    column = sa.Column("key", kind, primary_key=True)
    pages = sa.Table("pages", sa.MetaData(), column, sa.Column("slug", sa.Text))
    pages.metadata.create_all(shop.engine)
    rows = [{"key": key_of(pages.c["key"].type, one), "slug": f"s{one:02}"} for one in range(20)]
    shop.execute(sa.insert(pages).values(rows))
    shop.text = 'table = "pages"\nkey = "key"\nloc = "/{slug}"\n'
    assert shop.locs() == [f"/s{one:02}" for one in range(20)]
    assert len(shop.build()) == 4


def key_of(kind: Any, one: int) -> Any:
    if isinstance(kind, sa.DateTime):
        return LONG_AGO.replace(tzinfo=UTC) + timedelta(hours=one)
    if isinstance(kind, sa.Date):
        return LONG_AGO.date() + timedelta(days=one)
    if isinstance(kind, sa.Uuid):
        return UUID(int=one << 64)
    return one / 4 if isinstance(kind, sa.Numeric) else f"k{one:02}"


def test_several_columns_are_a_key(shop):
    pages = sa.Table(
        "pages",
        sa.MetaData(),
        sa.Column("language", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    )
    pages.metadata.create_all(shop.engine)
    rows = [{"language": code, "number": one} for code in ("en", "de") for one in range(10)]
    shop.execute(sa.insert(pages).values(rows))
    shop.text = 'table = "pages"\nkey = ["language", "number"]\nloc = "/{language}/{number}"\n'
    assert shop.locs() == [f"/{code}/{one}" for code in ("de", "en") for one in range(10)]


def test_the_columns_of_an_entry_are_named(shop):
    shop.execute(sa.text("CREATE TABLE pages (id INTEGER PRIMARY KEY, day TEXT, often TEXT, weight FLOAT)"))
    shop.execute(sa.text("INSERT INTO pages VALUES (1, '2026-11-30', 'weekly', 0.3)"))
    shop.text = (
        'table = "pages"\nkey = "id"\nloc = "/{id}"\nlastmod = "day"\nchangefreq = "often"\npriority = "weight"\n'
    )
    (entry,) = shop.listed()
    times = "<lastmod>2026-11-30</lastmod><changefreq>weekly</changefreq>"
    assert entry == f"<loc>https://a.example/1</loc>{times}<priority>0.3</priority>"


def test_a_view_may_be_named_and_a_table_in_its_schema(shop):
    shop.insert(1)
    shop.execute(sa.text("CREATE VIEW shown AS SELECT * FROM products"))
    schema = "main" if "sqlite" in shop.address else "public"
    for name in ("shown", f"{schema}.products"):
        shop.text = TABLE.replace('"products"', f'"{name}"')
        assert shop.locs() == ["/p/p1"]


def test_a_database_may_have_a_name(shop):
    shop.insert(1)
    shop.environ = {"SHOP": shop.address}
    shop.text = TABLE + 'database = "shop"\n[databases]\nshop = "${SHOP}"\n'
    assert shop.locs() == ["/p/p1"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"products"', '"product"', "the database has no table 'product'; did you mean 'products'?"),
        ('"id"', '"uid"', "the table 'products' has no column 'uid'; did you mean 'id'?"),
        ('"updated"', '"updated_at"', "the table 'products' has no column 'updated_at'; did you mean 'updated'?"),
        ("{slug}", "{name}", "the table 'products' has no column 'name'; there are id, public, slug, updated"),
        ('table = "products"', 'query = "SELECT id, slug FROM products"', "the query has no column 'updated'"),
        ('table = "products"', 'query = "SELECT nothing FROM products"', "nothing"),
    ],
)
def test_what_the_database_does_not_have_is_told_when_it_is_read(shop, old, new, told):
    shop.text = TABLE.replace(old, new)
    with pytest.raises(BuildFailed, match=re.escape(told)):
        shop.build()


def test_a_column_that_went_away_leaves_the_last_entries(shop):
    shop.insert(1)
    shop.build()
    shop.execute(sa.text("ALTER TABLE products RENAME COLUMN slug TO name"))
    refresher = shop.sites()["a.example"].refresher()
    section = refresher.build().sections["products"]
    assert section.count == 1
    assert section.error == (
        "ConfigurationError: the table 'products' has no column 'slug'; there are id, name, public, updated"
    )


# Options


@pytest.fixture
def nowhere(tmp_path) -> Shop:
    """A shop whose database is down."""
    shop = Shop("sqlite://", tmp_path)
    shop.environ = {"DATABASE_URL": "postgres://shop@127.0.0.1:1/shop"}
    return shop


def test_the_database_need_not_be_there_when_the_service_starts(nowhere):
    sites = nowhere.sites()
    assert Client(sites).get("/robots.txt").status_code == 200
    with pytest.raises(BuildFailed, match="section 'products': OperationalError"):
        sites["a.example"].refresher().build()


def test_without_a_database_it_is_said_which_variable_is_not_set(nowhere):
    nowhere.environ = {}
    with pytest.raises(BuildFailed, match="section 'products': ConfigurationError: DATABASE_URL is not set"):
        nowhere.sites()["a.example"].refresher().build()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (TABLE.replace("table", "tabel"), "sections.products.tabel is unknown; did you mean 'table'?"),
        (TABLE.replace('key = "id"', ""), "sections.products.key is missing"),
        (TABLE.replace('"id"', "1"), "sections.products.key must be text, or a list of texts, not 1"),
        (TABLE.replace('"id"', "[]"), "sections.products.key must be text, or a list of texts"),
        (TABLE.replace("{slug}", "x"), "the same for each row"),
        (TABLE + 'query = "SELECT 1"', "sections.products: give either a table or a query"),
        (TABLE.replace('table = "products"', ""), "sections.products: give either a table or a query"),
        (QUERY + 'where = "public"', "sections.products: where is for a table; a query says it itself"),
        (QUERY.replace("SELECT id", "DELETE id"), "sections.products.query must begin with SELECT or WITH"),
        (TABLE + 'database = "shp"\n[databases]\nshop = "sqlite://"', "'shp' is unknown; did you mean 'shop'?"),
    ],
)
def test_what_is_wrong_with_the_options_is_told_at_the_start(nowhere, text, told):
    nowhere.text = text
    with pytest.raises(ConfigurationError, match=re.escape(told)):
        nowhere.configuration()


@pytest.mark.parametrize("query", ["select 1", "(SELECT 1)", "-- a\n/* b\n*/ With x AS (SELECT 1) SELECT 1", "SELECT*"])
def test_a_query_begins_in_any_way_that_a_query_may(nowhere, query):
    nowhere.text = QUERY.replace('"SELECT id, slug, updated FROM products"', f"'''{query};'''")
    assert nowhere.configuration().sites["a.example"].sections["products"].query == query


TIMES = ["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S+02:00", "%Y-%m-%d", "%s", "%Y week %W"]


@pytest.mark.parametrize("form", TIMES)
@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
def test_times_of_change_are_any_texts_in_sqlite(shop, form):
    pages = sa.Table(
        "pages", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("changed", sa.Text)
    )
    pages.metadata.create_all(shop.engine)
    long_ago, now = LONG_AGO.strftime(form), (LONG_AGO + timedelta(days=300)).strftime(form)
    shop.execute(sa.insert(pages).values([{"id": one, "changed": long_ago} for one in range(20)]))
    shop.text = 'table = "pages"\nkey = "id"\nloc = "/{id}"\nchanged_since = "changed"\n'
    shop.known()
    shop.execute(sa.update(pages).where(pages.c.id == 3).values(id=103, changed=now))
    assert shop.changed() == 2
    assert "/103" in shop.locs()


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
def test_times_of_change_in_a_zone_are_compared_as_they_are_written_in_sqlite(shop):
    pages = sa.Table(
        "pages", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("changed", sa.Text)
    )
    pages.metadata.create_all(shop.engine)
    now = datetime.now(timezone(timedelta(hours=-4)))
    shop.execute(sa.insert(pages).values([{"id": one, "changed": now.isoformat(" ")} for one in range(20)]))
    shop.text = 'table = "pages"\nkey = "id"\nloc = "/{id}"\nchanged_since = "changed"\n'
    shop.known()
    shop.execute(sa.update(pages).where(pages.c.id == 19).values(changed=(now + timedelta(seconds=1)).isoformat(" ")))
    shop.changed()
    assert len(shop.rows_read()) == 1


def test_many_parts_are_looked_at_by_few_statements(shop):
    shop.text = TABLE + 'changed_since = "updated"\n'
    shop.insert(*range(200))
    assert len(shop.build()) == 34
    shop.build()
    assert len(shop.statements) < 8


@pytest.mark.parametrize(
    ("images", "count"),
    [("/a.jpg", 1), ('["/a.jpg", "https://cdn.example/b.jpg"]', 2), ("", 0), ("[broken", 0)],
)
def test_images_are_a_path_or_a_list_as_json(shop, images, count):
    shop.execute(sa.text("ALTER TABLE products ADD COLUMN images TEXT"))
    shop.insert(1)
    shop.execute(sa.text("UPDATE products SET images = :images").bindparams(images=images))
    shop.text = f'{TABLE}images = "images"\n'
    (url,) = shop.listed()
    assert url.count("<image:loc>") == count
    assert (images == "[broken") == bool(shop.problems)


def test_alternates_are_an_object_as_json(shop):
    versions = {"en": "/p/p1", "de": "https://b.example/p/p1"}
    column = sa.column("versions", sa.JSON)
    shop.execute(sa.text("ALTER TABLE products ADD COLUMN versions JSON"))
    shop.insert(1)
    shop.execute(sa.update(sa.table("products", column)).values(versions=versions))
    shop.text = f'{TABLE}alternates = "versions"\n'
    (url,) = shop.listed()
    assert re.findall('hreflang="(..)" href="(.*?)"', url) == [
        ("en", "https://a.example/p/p1"),
        ("de", "https://b.example/p/p1"),
    ]
