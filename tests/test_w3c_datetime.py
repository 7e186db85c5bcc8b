from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flask_sitemapx.errors import WITHOUT_DAY, InvalidEntry
from flask_sitemapx.protocol import w3c_datetime as module
from flask_sitemapx.protocol.w3c_datetime import w3c_column, w3c_datetime

BERLIN = ZoneInfo("Europe/Berlin")
KOLKATA = timezone(timedelta(hours=5, minutes=30))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (date(2026, 11, 30), "2026-11-30"),
        (date(1, 1, 1), "0001-01-01"),
        (datetime(2026, 11, 30, 8, 15, 30, tzinfo=UTC), "2026-11-30T08:15:30Z"),
        (datetime(2026, 11, 30, 8, 15, 30, 999_999, tzinfo=UTC), "2026-11-30T08:15:30Z"),
        (datetime(2026, 11, 30, 2, 0, tzinfo=KOLKATA), "2026-11-29T20:30:00Z"),
        (datetime(2026, 7, 1, 12, 0, tzinfo=BERLIN), "2026-07-01T10:00:00Z"),
        ("2026-11-30", "2026-11-30"),
        (" 2026-11-30\n", "2026-11-30"),
        ("2026-11-30T08:15:30Z", "2026-11-30T08:15:30Z"),
        ("2026-11-30T08:15Z", "2026-11-30T08:15:00Z"),
        ("2026-11-30T08:15:30.123456+01:00", "2026-11-30T07:15:30Z"),
        ("2026-11-30T08:15:30.1-05:30", "2026-11-30T13:45:30Z"),
        ("2026-11-30 08:15:30+00", "2026-11-30T08:15:30Z"),
        ("2026-11-30 08:15:30.5+01", "2026-11-30T07:15:30Z"),
        ("2024-02-29", "2024-02-29"),
    ],
)
def test_days_and_times_are_written_in_two_forms(value, expected):
    assert w3c_datetime(value, UTC) == expected
    assert w3c_column([value, None], UTC) in ([expected, None], None)


@pytest.mark.parametrize(
    "value", [datetime(2026, 7, 1, 12, 0), "2026-07-01T12:00:00", "2026-07-01 12:00", "2026-07-01 12:00:00.25"]
)
def test_a_time_without_a_zone_is_read_in_the_given_one(value):
    assert w3c_datetime(value, UTC) == "2026-07-01T12:00:00Z"
    assert w3c_datetime(value, BERLIN) == "2026-07-01T10:00:00Z"


def test_a_time_whose_zone_knows_no_offset_is_read_in_the_given_one():
    class Silent(tzinfo):
        utcoffset = tzname = dst = lambda self, moment: None

    moment = datetime(2026, 7, 1, 12, 0, tzinfo=Silent())

    assert w3c_datetime(moment, BERLIN) == "2026-07-01T10:00:00Z"
    assert w3c_column([moment], BERLIN) is None


@pytest.mark.parametrize("value", ["2026", "2026-11", "0000", "9999-99"])
def test_a_year_or_month_alone_names_no_day(value):
    with pytest.raises(InvalidEntry) as caught:
        w3c_datetime(value, UTC)

    assert caught.value.rule == WITHOUT_DAY
    assert caught.value.value == value


@pytest.mark.parametrize(
    "value",
    [
        "2026-02-30",
        "2026-13-01",
        "0000-01-01",
        "2026-11-30T24:00:00Z",
        "2026-11-30T08:60:00Z",
        "2026-11-30T08:15:60Z",
        "2026-11-30T08:15:30+24:00",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        datetime(1, 1, 1, tzinfo=KOLKATA),
        datetime(9999, 12, 31, 23, 59, tzinfo=timezone(timedelta(hours=-1))),
    ],
)
def test_impossible_days_and_times_are_refused(value):
    with pytest.raises(InvalidEntry) as caught:
        w3c_datetime(value, UTC)

    assert caught.value.rule == "lastmod-impossible"
    assert w3c_column([value], UTC) is None


@pytest.mark.parametrize(
    "value",
    [
        "",
        "yesterday",
        "20261130",
        "2026-11-30Z",
        "2026-1-3",
        "2026-11-30T",
        "2026-11-30T08",
        "2026-11-30T08:15.5Z",
        "2026-11-30t08:15:30z",
        "2026-11-30  08:15:30",
        "2026-11-30T08:15:30+0100",
        "2026-11-30T08:15:30+01:60",
        "\uff12026-11-30",
        "2026-W48-1",
        "Mon, 30 Nov 2026 08:15:30 GMT",
        "2026-11-30\x00",
    ],
)
def test_other_texts_are_refused(value):
    with pytest.raises(InvalidEntry) as caught:
        w3c_datetime(value, UTC)

    assert caught.value.rule == "lastmod-form"
    assert w3c_column([value], UTC) is None


@pytest.mark.parametrize("value", [0, 1_764_000_000, 1.5, True, b"2026-11-30", None, object()])
def test_other_types_are_refused(value):
    with pytest.raises(InvalidEntry) as caught:
        w3c_datetime(value, UTC)

    assert caught.value.rule == "lastmod-type"


def test_the_order_of_the_texts_is_the_order_of_the_times():
    moments = [datetime(2026, 11, 30, 1, tzinfo=KOLKATA), datetime(2026, 11, 29, 23, tzinfo=UTC)]

    assert sorted(w3c_datetime(moment, UTC) for moment in moments) == ["2026-11-29T19:30:00Z", "2026-11-29T23:00:00Z"]


zones = st.sampled_from([UTC, ZoneInfo("UTC"), ZoneInfo("Etc/UTC"), BERLIN, KOLKATA, ZoneInfo("America/St_Johns")])
naive = st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 12, 31))
aware = st.builds(datetime.replace, naive, tzinfo=zones)
written = st.builds(
    lambda moment, form: moment.strftime(form).zfill(len("2026-11-30") if form == "%Y-%m-%d" else 0),
    st.datetimes(min_value=datetime(1000, 1, 1)),
    st.sampled_from(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S+00", "%Y-%m-%dT%H:%MZ"]),
)
kinds = [naive, aware, st.dates(), written, st.text(), st.integers()]
columns = st.one_of(*(st.lists(st.none() | kind, max_size=20) for kind in [*kinds, st.one_of(*kinds)]))


@given(columns, zones)
def test_a_column_gives_what_its_values_give_one_by_one(values, zone):
    column = w3c_column(values, zone)

    if column is not None:
        assert column == [None if value is None else w3c_datetime(value, zone) for value in values]


@given(st.lists(aware, min_size=1))
def test_times_agree_with_the_standard_library(moments):
    expected = [moment.astimezone(UTC).replace(tzinfo=None, microsecond=0).isoformat() + "Z" for moment in moments]

    assert w3c_column(moments, UTC) == expected
    assert [w3c_datetime(moment, UTC) for moment in moments] == expected


@pytest.mark.parametrize(
    "values",
    [
        [],
        [None, None],
        [date(2026, 11, 30), None],
        [datetime(2026, 11, 30, tzinfo=UTC), None],
        [datetime(2026, 11, 30, tzinfo=ZoneInfo("UTC")), datetime(2026, 11, 30, tzinfo=UTC)],
        [datetime(2026, 11, 30, tzinfo=BERLIN)],
        [datetime(2026, 11, 30)],
        ["2026-11-30", None],
        ["2026-11-30T08:15:30Z", "2026-11-30 08:15:30", None],
    ],
)
def test_the_usual_columns_need_no_look_at_each_value(values):
    assert w3c_column(values, UTC) is not None


def test_the_text_of_a_naive_time_is_not_taken_for_utc():
    assert w3c_column(["2026-07-01 12:00:00"], BERLIN) is None
    assert w3c_column(["2026-07-01T12:00:00Z"], BERLIN) == ["2026-07-01T12:00:00Z"]


def test_times_with_and_without_a_zone_in_one_column_are_looked_at_one_by_one():
    assert w3c_column([datetime(2026, 7, 1, 12), datetime(2026, 7, 1, 12, tzinfo=KOLKATA)], UTC) is None


def test_the_tables_of_days_do_not_grow_for_ever():
    days = [date.fromordinal(ordinal) for ordinal in range(700_000, 780_000)]

    assert w3c_column(days, UTC) == [day.isoformat() for day in days]
    assert w3c_column([str(day) for day in days], UTC) == [str(day) for day in days]
    assert max(len(module._DAYS), len(module._DAY_TEXTS)) <= 36_525
