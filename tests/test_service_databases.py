"""Databases by their names in the file."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from flask_sitemapx.errors import ConfigurationError
from flask_sitemapx.service.databases import Databases

pytestmark = pytest.mark.usefixtures("closed_pools")


def test_a_database_is_known_by_its_name_or_has_none(tmp_path):
    databases = Databases({"main": f"sqlite:///{tmp_path}/a.db"}, {"DATABASE_URL": f"sqlite:///{tmp_path}/b.db"})
    assert [databases.engine(name).url.database for name in ("main", "")] == [f"{tmp_path}/a.db", f"{tmp_path}/b.db"]
    assert databases.engine("main") is databases.engine("main")


def test_what_is_not_there_is_told():
    with pytest.raises(ConfigurationError, match="DATABASE_URL is not set"):
        Databases({}, {}).engine("")
    with pytest.raises(ConfigurationError, match="there is no database 'main'"):
        Databases({}, {}).engine("main")


def test_a_driver_that_is_missing_is_named():
    with pytest.raises(ConfigurationError, match="the database 'main' needs the driver MySQLdb"):
        Databases({"main": "mysql://host/a"}, {}).engine("main")


def test_postgres_is_spoken_to_by_psycopg_and_asked_only_when_it_is_used(postgresql_url):
    written = sa.make_url(postgresql_url).set(drivername="postgres").render_as_string(hide_password=False)
    engine = Databases({}, {"DATABASE_URL": written}).engine("")
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar() == 1
    engine.dispose()


def test_a_forked_process_has_connections_of_its_own(tmp_path):
    databases = Databases({"main": f"sqlite:///{tmp_path}/a.db"}, {})
    before = databases.engine("main")
    databases._reset()  # as in the child
    assert databases.engine("main") is not before
