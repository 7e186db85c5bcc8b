"""Which parts of a table changed, as a column tells it that says when each row did."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID

from .keys import packed, unpacked
from .rows import Rows, Span

OVERLAP = timedelta(minutes=5)
"""How long a transaction may take to commit: a row's time of change is older than the moment from which it is seen."""
ORDERED = (int, datetime, date, Decimal, UUID)


class Changes:
    """What changed since the plan that left *memo*, as seen at the time *now*, in seconds since the epoch."""

    def __init__(self, rows: Rows, memo: str | None, now: float, timezone: tzinfo) -> None:
        self._rows = rows
        self._now = now
        self._timezone = timezone
        self._memo = json.loads(memo) if memo else None
        self._is_given = rows.statements.changed_since is not None

    @property
    def is_of_this_key(self) -> bool:
        """Whether the last plan was made for the key that the table has now."""
        return self._memo is not None and self._memo.get("key") == self._rows.statements.key_signature

    def memo(self) -> str:
        """What the next plan wants to know: of which key this one is, the latest change, and when that was asked."""
        latest = self._rows.latest_change() if self._is_given else None
        told = {"latest": packed(latest), "now": self._now} if self._is_given else {}
        return json.dumps({"key": self._rows.statements.key_signature, **told})

    def among(self, spans: Sequence[Span], counts: Sequence[int | None]) -> list[tuple[int, bool]]:
        """How many rows each of the *spans* has now, and whether any changed; *counts* are those that are known."""
        looks = list(zip(spans, counts, self._changed(spans), strict=True))
        fresh = [self._rows.count(*span) if hit or count is None else count for span, count, hit in looks]
        # What is gone has no time of change: the count of the whole tells whether anything is.
        if self._rows.count(None, None) != sum(fresh):
            fresh = [self._rows.count(*span) for span in spans]
        return [(now, hit or now != count) for now, (_, count, hit) in zip(fresh, looks, strict=True)]

    def _changed(self, spans: Sequence[Span]) -> list[bool]:
        lower = self._lower(self._memo) if self._memo and "latest" in self._memo else None
        if lower is None:  # there were no rows, or the last plan did not look
            return [True] * len(spans)
        starts = [start for start, _ in spans[1:]]
        are_ordered = all(start is not None and all(type(value) in ORDERED for value in start) for start in starts)
        if are_ordered and self._rows.statements.sorts_as_python(self._rows.dialect):
            return self._located(starts, lower)
        return [self._rows.has_changed(lower, span) for span in spans]

    def _lower(self, memo: dict[str, Any]) -> Any:
        """What has a later time of change than this is looked at.

        Not the latest that was seen: a transaction that had begun by then may have committed since. And not later than
        the latest, nor than the time of asking: a clock that is ahead, or a row dated in the future, hides nothing.
        """
        latest = unpacked(memo["latest"])
        if type(latest) not in (datetime, date):
            return latest
        asked = datetime.fromtimestamp(memo["now"], UTC) - OVERLAP
        if type(latest) is date:
            return min(latest, asked.astimezone(self._timezone).date() - timedelta(days=1))
        if latest.tzinfo is None:
            # An hour less, which may be one that clocks show twice.
            asked = asked.astimezone(self._timezone).replace(tzinfo=None) - timedelta(hours=1)
        return min(latest, asked)

    def _located(self, starts: Sequence[Any], lower: Any) -> list[bool]:
        changed = [False] * (len(starts) + 1)
        left = len(changed)
        keys = self._rows.changed_keys(lower)
        for key in keys:
            place = bisect_right(starts, key)
            if not changed[place]:
                changed[place] = True
                left -= 1
            if not left:
                break
        keys.close()  # type: ignore[attr-defined]
        return changed
