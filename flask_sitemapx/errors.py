"""What can go wrong, each with the evidence in its text."""

from __future__ import annotations

WITHOUT_DAY = "lastmod-without-day"
"""The rule that `2026` and `2026-11` break: good for the W3C, but not for the schema, and no day may be made up."""
URL_DEFAULTS = "url-defaults"
"""The rule that an entry breaks whose URL a url_defaults function did not complete but raised."""
NEWS_EXPIRED = "news-expired"
"""The rule that news break by growing old, which is nobody's fault."""
NEVER_RAISED = frozenset({WITHOUT_DAY, URL_DEFAULTS, NEWS_EXPIRED})
"""Rules of entries that are left out and reported under every policy."""


class SitemapError(Exception):
    """The parent of every error that this package raises on purpose."""


class ConfigurationError(SitemapError, ValueError):
    """A setting, a name or a base URL that cannot be used; the text says what to write instead."""


class InvalidEntry(SitemapError, ValueError):
    """An entry that no sitemap may carry.

    *rule* is the short, stable name of the broken rule, by which problems are counted; *value* is the offending value;
    *reason* is what this value broke it by, where the rule alone does not tell.
    """

    def __init__(self, rule: str, value: object, explanation: str | None = None, reason: str | None = None) -> None:
        self.rule = rule
        self.value = value
        self.reason = reason
        self.explanation = (explanation or rule) + (f" ({reason})" if reason else "")
        super().__init__(f"{self.explanation}: {shown(value)}")


class BuildFailed(SitemapError):
    """A build that was given up; the last good set goes on being served."""


class Busy(SitemapError):
    """Somebody else builds, and went on building for longer than was to be waited."""


class StoreError(SitemapError):
    """A store that did not keep, or could not give back, what it was asked to."""


class Damaged(StoreError):
    """Stored bytes that are missing or not what they were; what they held is built anew."""


class NotBuilt(SitemapError):
    """There is no set to serve yet; *retry_after* is the number of seconds after which asking again makes sense."""

    def __init__(self, message: str, retry_after: int) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class Unreadable(SitemapError, ValueError):
    """A sitemap of which no more can be read; what stood before the fault has been given out.

    *line* counts from 1; *offset* is the number of bytes before the fault, of a fault in gzip in what is compressed;
    each is None where it says nothing.
    """

    def __init__(self, message: str, line: int | None = None, offset: int | None = None) -> None:
        self.line = line
        self.offset = offset
        places = [f"{name} {number}" for name, number in (("line", line), ("byte", offset)) if number is not None]
        super().__init__(message + (f" ({', '.join(places)})" if places else ""))


def shown(value: object) -> str:
    """The repr of *value* in at most 200 characters, whatever *value* is."""
    try:
        text = repr(value[:200] if isinstance(value, str) else value)
    except Exception:  # the repr is the application's code, and may do anything
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 200 else f"{text[:199]}…"
