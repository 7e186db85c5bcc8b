"""Front matter: which date it has, in the forms that generators write."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from flask_sitemapx.protocol.w3c_datetime import w3c_datetime
from flask_sitemapx.sources.front_matter import MAX_FRONT_MATTER, front_matter_date


def found(text: str | bytes) -> object:
    return front_matter_date(io.BytesIO(text.encode() if isinstance(text, str) else text))


@pytest.mark.parametrize(
    ("line", "lastmod"),
    [
        ("lastmod: 2026-11-30", "2026-11-30"),
        ("last_modified_at: 2026-11-30T10:00:00+02:00", "2026-11-30T08:00:00Z"),
        ("updated: 2026-11-30 10:00:00 +0200", "2026-11-30T08:00:00Z"),
        ("date: 2026-11-30 10:00:00 -05:00  # Monday", "2026-11-30T15:00:00Z"),
        ("date: '2026-11-30 10:00'", "2026-11-30T10:00:00Z"),
        ('"date" : "2026-11-30T10:00:00.123Z" # a', "2026-11-30T10:00:00Z"),
        ("date: 2026-11-30 10:00:00 UTC", "2026-11-30T10:00:00Z"),
        ("date: 2026-11-30 10:00:00 Z", "2026-11-30T10:00:00Z"),
    ],
)
def test_yaml_has_a_date_in_the_forms_of_generators(line, lastmod):
    for text in (
        f"---\ntitle: A\n{line}\n---\n# A",
        f"\ufeff---\r\n{line}\r\ntitle: A\r\n---\r\n",
        f"---\n{line}\n...\n",
    ):
        value = found(text)
        assert w3c_datetime(value, UTC) == lastmod


@pytest.mark.parametrize(
    "text",
    [
        "# A\n\ndate: 2026-11-30\n",
        "\n---\ndate: 2026-11-30\n---\n",
        "---\ntitle: A\n---\ndate: 2026-11-30\n",
        "---\ndate: 2026-11-30\n",
        "---\nmeta:\n  date: 2026-11-30\n---\n",
        "---\ntitle: |\n  date: 2026-11-30\n---\n",
        "---\ndate:\nlastmod: null\nupdated: ~\n---\n",
        "---\ndate: # later\n---\n",
        "---\n# date: 2026-11-30\nupdate: 2026-11-30\n---\n",
        "----\ndate: 2026-11-30\n----\n",
        "---\ndate: 2026-11-30\n+++\n",
        "",
    ],
)
def test_where_there_is_no_date_there_is_none(text):
    assert found(text) is None


def test_the_name_that_says_most_counts():
    assert found("---\ndate: 2020-01-01\nupdated: 2021-01-01\nlastmod: 2022-01-01\n---\n") == "2022-01-01"
    assert found("---\nlastmod:\nupdated: 2021-01-01\ndate: 2020-01-01\n---\n") == "2021-01-01"


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("date = 2026-11-30", date(2026, 11, 30)),
        ("lastmod = 2026-11-30T10:00:00+02:00", datetime(2026, 11, 30, 10, tzinfo=timezone(timedelta(hours=2)))),
        ('updated = "2026-11-30"', "2026-11-30"),
        ("date = 10:00:00", None),
        ("date = 2020-01-01\nlastmod = 2026-11-30", date(2026, 11, 30)),
        ("[a]\ndate = 2026-11-30", None),
        ("date = yesterday", None),
    ],
)
def test_toml_has_dates_of_its_own(line, value):
    assert found(f'+++\ntitle = "A"\n{line}\n+++\n# A\n') == value


def test_nothing_in_it_is_run_or_built():
    text = (
        "---\nbomb: &a [x,x]\nother: [*a,*a]\ncall: !!python/object/apply:os.getcwd []\ndate: !!str 2026-11-30\n---\n"
    )
    assert found(text) == "!!str 2026-11-30"


def test_front_matter_that_does_not_end_is_given_up():
    source = io.BytesIO(b"---\n" + b"a: b\n" * 1_000_000 + b"date: 2026-11-30\n---\n")
    assert front_matter_date(source) is None
    assert source.tell() == MAX_FRONT_MATTER
    assert found(b"---\ndate: \xff\n---\n") == "\ufffd"
