"""What entries get that do not say it themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Defaults:
    """What entries get that do not say it themselves; each a value, or a callback without arguments."""

    lastmod: Any = None
    changefreq: Any = None
    priority: Any = None

    @property
    def signature(self) -> str:
        """A text that is the same in every process, and another for other values; callbacks go by their names."""
        values = (self.lastmod, self.changefreq, self.priority)
        return " ".join(getattr(value, "__qualname__", "?") if callable(value) else repr(value) for value in values)


NO_DEFAULTS = Defaults()
