from __future__ import annotations

from datetime import date

import pytest

from flask_sitemapx.protocol.entries import Columns, UrlEntry


def test_an_entry_needs_a_loc_only():
    entry = UrlEntry("/about")

    assert (entry.loc, entry.lastmod, entry.changefreq, entry.priority) == ("/about", None, None, None)


def test_an_entry_takes_its_fields_by_position_in_the_order_of_the_schema():
    entry = UrlEntry("/about", date(2026, 11, 30), "daily", 0.8)

    assert entry == UrlEntry(loc="/about", lastmod=date(2026, 11, 30), changefreq="daily", priority=0.8)


def test_an_entry_is_not_checked_at_birth():
    assert UrlEntry("no loc at all", "no date", "sometimes", 7).priority == 7


def test_an_entry_has_no_other_fields():
    with pytest.raises(AttributeError):
        UrlEntry("/about").last_mod = date(2026, 11, 30)  # type: ignore[attr-defined]


def test_columns_are_absent_unless_given_and_not_ready():
    columns = Columns(["/a", "/b"])

    assert (columns.lastmods, columns.changefreqs, columns.priorities, columns.ready) == (None, None, None, False)


@pytest.mark.parametrize("field", ["lastmods", "changefreqs", "priorities"])
def test_a_column_of_another_length_than_the_locs_is_refused(field):
    with pytest.raises(ValueError, match="1 values beside 2 locs"):
        Columns(["/a", "/b"], **{field: [None]})  # type: ignore[arg-type]
