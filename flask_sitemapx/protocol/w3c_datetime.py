"""Days, times and date texts in, W3C Datetime out: `YYYY-MM-DD` or `YYYY-MM-DDThh:mm:ssZ`, nothing else.

Times are converted to UTC, so that the order of the texts is the order of the times. Minutes are completed with
`:00`, fractions of a second are cut off: what is left satisfies the W3C note and the schema of sitemaps.org alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from operator import attrgetter
from typing import Any
from zoneinfo import ZoneInfo

from ..errors import WITHOUT_DAY, InvalidEntry


def w3c_datetime(value: object, timezone: tzinfo) -> str:
    """The W3C Datetime of a date, a datetime or a text; times without a zone are read in *timezone*.

    Texts are `YYYY-MM-DD` or `YYYY-MM-DDThh:mm[:ss[.f]][zone]`; a blank may stand for the `T`, as in databases, and
    the zone is `Z`, `±hh:mm` or `±hh`. Raises InvalidEntry for other texts and types, for impossible days and times,
    and outside the years 1 to 9999.
    """
    try:
        return _w3c_text(value, timezone)
    except InvalidEntry:  # a ValueError, too
        raise
    except (ValueError, OverflowError) as error:  # OverflowError: in UTC it is outside the years 1 to 9999
        raise InvalidEntry("lastmod-impossible", value, f"lastmod is an impossible day or time ({error})") from None


def w3c_column(values: Sequence[Any], timezone: tzinfo) -> list[str | None] | None:
    """What `w3c_datetime` makes of each value (None stays None), or None if they need to be looked at one by one."""
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) > 1:
        return None
    try:
        if datetime in kinds:
            return _time_column(values, timezone)
        if date in kinds:
            return [None if day is None else _DAYS[day.toordinal()] for day in values]
        if str in kinds:
            return _text_column(values, timezone)
    except (LookupError, ValueError, OverflowError):
        return None
    return None if kinds else [None] * len(values)


# One value ------------------------------------------------------------------------------------------------------------


def _w3c_text(value: object, zone: tzinfo) -> str:
    if isinstance(value, datetime):  # first, since a datetime is a date
        return _time_text(value, zone)
    if isinstance(value, date):
        return _DAYS[value.toordinal()]
    if isinstance(value, str):
        return _read(str.strip(value, " \t\r\n"), zone)
    raise InvalidEntry("lastmod-type", value, "lastmod is a date, a datetime or a text")


def _time_text(moment: datetime, zone: tzinfo) -> str:
    if moment.utcoffset() is None:
        moment = moment.replace(tzinfo=zone)
    moment = moment.astimezone(UTC)
    return f"{_DAYS[moment.toordinal()]}{_HOURS[moment.hour]}{_MINUTES[moment.minute]}{_SECONDS[moment.second]}"


_FORM = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:\.[0-9]+)?)?"
    # Hours alone (+01) are how PostgreSQL writes a zone.
    r"(?:(Z)|([+-])([0-9]{2})(?::([0-5][0-9]))?)?)?"
)
_DAYLESS = re.compile(r"[0-9]{4}(?:-[0-9]{2})?")


def _read(text: str, zone: tzinfo) -> str:
    found = _FORM.fullmatch(text)
    if found is None:
        raise _unreadable(text)
    day, clock, seconds, utc, sign, hours, minutes = found.groups()
    if clock is None:
        return date(*_numbers(day)).isoformat()
    if utc or sign:
        zone = _offset(sign or "+", hours or "00", minutes or "00")
    # Not fromisoformat(), for which 24:00 is possible from Python 3.14 on.
    hour, minute = _numbers(clock)
    return _time_text(datetime.combine(date(*_numbers(day)), time(hour, minute, int(seconds or 0))), zone)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.split("[-:]", text)]


def _offset(sign: str, hours: str, minutes: str) -> tzinfo:
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    return timezone(-offset if sign == "-" else offset)


def _unreadable(text: str) -> InvalidEntry:
    if _DAYLESS.fullmatch(text):
        return InvalidEntry(WITHOUT_DAY, text, "lastmod names no day, and the sitemap schema asks for one")
    return InvalidEntry("lastmod-form", text, "lastmod is not written YYYY-MM-DD or YYYY-MM-DDThh:mm:ssZ")


# Many values: by tables, since to format a date costs more than to write its whole <url> -----------------------------


class _Days(dict[int, str]):
    """The text of a day by its ordinal, made at its first use; at most a century, so as not to grow for ever."""

    def __missing__(self, ordinal: int) -> str:
        text = date.fromordinal(ordinal).isoformat()
        _keep(self, ordinal, text)
        return text


class _DayTexts(dict[str, str]):
    """`YYYY-MM-DD` by itself, if it is a day that exists; bounded in the same way."""

    def __missing__(self, text: str) -> str:
        if not _DAY.fullmatch(text):
            raise ValueError(text)
        date.fromisoformat(text)
        _keep(self, text, text)
        return text


def _keep(table: dict[Any, str], key: object, text: str) -> None:
    if len(table) >= 36_525:
        table.clear()
    table[key] = text


_TZINFO = attrgetter("tzinfo")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DAYS = _Days()
_DAY_TEXTS = _DayTexts()
_HOURS = tuple(f"T{hour:02}:" for hour in range(24))
_MINUTES = tuple(f"{minute:02}:" for minute in range(60))
_SECONDS = tuple(f"{second:02}Z" for second in range(60))

_HOUR_TEXTS = {separator + hour[1:]: hour for hour in _HOURS for separator in "T "}
_MINUTE_TEXTS = {minute: minute for minute in _MINUTES}
_UTC_SECOND_TEXTS = {second[:2] + zone: second for second in _SECONDS for zone in ("Z", "+00", "+00:00")}
_NAIVE_SECOND_TEXTS = _UTC_SECOND_TEXTS | {second[:2]: second for second in _SECONDS}


def _time_column(moments: Sequence[Any], zone: tzinfo) -> list[str | None] | None:
    owns = list(map(_TZINFO, moments if None not in moments else filter(None, moments)))
    zones = dict(zip(map(id, owns), owns, strict=True)).values()  # by id: a zone's hash is anybody's code
    if None in zones:
        if len(zones) > 1:
            return None
        if not _is_utc(zone):
            moments = [moment and moment.replace(tzinfo=zone).astimezone(UTC) for moment in moments]
    elif not all(map(_is_utc, zones)):
        if not all(isinstance(own, (timezone, ZoneInfo)) for own in zones):  # others may answer anything, or nothing
            return None
        moments = [moment and moment.astimezone(UTC) for moment in moments]
    return [
        None
        if moment is None
        else f"{_DAYS[moment.toordinal()]}{_HOURS[moment.hour]}{_MINUTES[moment.minute]}{_SECONDS[moment.second]}"
        for moment in moments
    ]


def _text_column(texts: Sequence[Any], zone: tzinfo) -> list[str | None] | None:
    """Ready texts, as databases make them: whole days, or times in UTC with seconds and without a fraction."""
    if all(text is None or len(text) == 10 for text in texts):
        return [None if text is None else _DAY_TEXTS[text] for text in texts]
    seconds = _NAIVE_SECOND_TEXTS if _is_utc(zone) else _UTC_SECOND_TEXTS
    return [
        None
        if text is None
        else f"{_DAY_TEXTS[text[:10]]}{_HOUR_TEXTS[text[10:14]]}{_MINUTE_TEXTS[text[14:17]]}{seconds[text[17:]]}"
        for text in texts
    ]


def _is_utc(zone: tzinfo | None) -> bool:
    return zone == UTC or (isinstance(zone, ZoneInfo) and zone.key in ("UTC", "Etc/UTC"))
