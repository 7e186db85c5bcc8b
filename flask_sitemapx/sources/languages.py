"""The languages of an application: an entry for each language of a page, and what its alternates are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import unescape
from itertools import compress
from typing import Any, cast

from ..errors import ConfigurationError, InvalidEntry
from ..protocol.entries import Columns, repeated
from ..protocol.languages import X_DEFAULT, hreflang
from ..protocol.locs import BaseUrl

ALTERNATES = "alternates"
LANGUAGES = "languages"
"""The name by which an item or a section says that only some languages are meant."""


class Languages:
    """The languages of a site at *base*; *codes* are as they stand in URLs, the first is the default.

    In the URLs of the endpoints that *expects* says so of, *argument* is the language. With *bases* each language has
    a base URL of its own, below which all paths are the same.
    """

    def __init__(
        self,
        base: BaseUrl,
        codes: Iterable[str] = (),
        argument: str = "",
        expects: Callable[[str], bool] = lambda endpoint: False,
        bases: Mapping[str, BaseUrl] | None = None,
    ) -> None:
        self.codes = tuple(bases or codes)
        self.argument = argument
        self.expects = expects
        self._base = base
        self._bases = dict(bases or {})
        self._names = {code: _code(code) for code in self.codes}
        self._default = next(iter(self._names.values()), None)

    @property
    def signature(self) -> str:
        """A text that is the same in every process, and another for other languages."""
        return f"{self.codes} {self.argument} {sorted((code, base.text) for code, base in self._bases.items())}"

    def spread(self, endpoint: str, given: Sequence[bool], wanted: Sequence[Any] | None = None) -> Spread | None:
        """How rows of *endpoint* are spread over languages, or None if they are not.

        *given* says of each row whether it has a language already, *wanted* which languages it has, or None for all.
        """
        if self._bases or not self.expects(endpoint) or all(given):
            return None
        rows = zip(given, wanted or [None] * len(given), strict=True)
        # Without any language it is left to the URL builder to say that one is missing.
        return Spread(self, [(None,) if has else self._of(one) or (None,) for has, one in rows])

    def linked(self, columns: Columns) -> Columns:
        """*columns* with the same paths below the base URLs of other languages, if there are such, as alternates."""
        extras = dict(columns.extras)
        wanted = extras.pop(LANGUAGES, None) or [None] * len(columns.locs)
        if self._base in self._bases.values():
            found = [self._below_bases(loc, one) for loc, one in zip(columns.locs, wanted, strict=True)]
            extras[ALTERNATES] = _filled(extras.get(ALTERNATES), found)
        columns.extras = extras
        return columns

    def alternates(self, codes: Sequence[str | None], hrefs: Sequence[str | None]) -> Mapping[str, str] | None:
        """The same page at *hrefs*, in the languages *codes*, as search engines read them; None if it has one only."""
        names = self._names
        found = {names[code]: href for code, href in zip(codes, hrefs, strict=True) if code and href is not None}
        if len(found) < 2:
            return None
        if self._default in found:  # who knows no language is sent to the default one
            found[X_DEFAULT] = found[self._default]
        return found

    def hrefs(self, locs: Sequence[str | InvalidEntry]) -> list[str | None]:
        """Where each of *locs* is: a path on this site, a URL on another one, or None if it has none."""
        start = len(self._base.text)
        if set(map(type, locs)) == {str}:
            paths = [loc[start:] for loc in cast("Sequence[str]", locs)]
            return list(map(unescape, paths)) if any("&" in path for path in paths) else [*paths]
        return [self._href(loc, start) for loc in locs]

    def _of(self, wanted: Any) -> tuple[str, ...]:
        """The languages of a row, in the order of all."""
        if wanted is None:
            return self.codes
        asked = {wanted} if isinstance(wanted, str) else set(wanted)
        return tuple(code for code, name in self._names.items() if code in asked or name in asked)

    def _href(self, loc: str | InvalidEntry, start: int) -> str | None:
        if isinstance(loc, InvalidEntry):
            # A page on another host is no entry of this site, but the same page all the same.
            return str(loc.value) if loc.rule == "loc-host" else None
        return unescape(loc)[start:]

    def _below_bases(self, loc: str | InvalidEntry, wanted: Any) -> Mapping[str, str] | None:
        if isinstance(loc, InvalidEntry):
            return None
        path = unescape(loc)
        path = path if path.startswith("/") else path.removeprefix(self._base.text)
        if not path.startswith("/"):
            return None
        codes = self._of(wanted)
        bases = [self._bases[code] for code in codes]
        return self.alternates(codes, [path if base == self._base else f"{base.text}{path}" for base in bases])


def languages_of(base: BaseUrl, addresses: Mapping[str, str]) -> Languages:
    """The languages of a site at *base*, each with an address of its own."""
    return Languages(base, bases={code: BaseUrl.parse(url) for code, url in addresses.items()})


def check_languages(languages: Sequence[str] | Mapping[str, str]) -> None:
    """Raise `ConfigurationError` if the setting has what is no language, or no base URL of one."""
    for code in languages:
        try:
            _code(code)
        except InvalidEntry as error:
            raise ConfigurationError(f"SITEMAP_LANGUAGES: {error}") from None
    for url in languages.values() if isinstance(languages, Mapping) else ():
        try:
            BaseUrl.parse(url)
        except ConfigurationError as error:
            raise ConfigurationError(f"SITEMAP_LANGUAGES: {error}") from None


class Spread:
    """Rows spread over languages: *codes* has for each row the languages that it is listed in."""

    def __init__(self, languages: Languages, codes: Sequence[Sequence[str | None]]) -> None:
        self._languages = languages
        self._sets = codes
        self.times = [len(some) for some in codes]
        """How many each row becomes."""
        self.codes = [code for some in codes for code in some]
        """The language of each of the rows that they become; None for one that had its own."""

    def columns(self, values: Mapping[str, Sequence[Any]]) -> Mapping[str, Sequence[Any]]:
        """Columns of values, all without a language, as those of what the rows become: with their language."""
        return {name: repeated(column, self.times) for name, column in values.items()} | {
            self._languages.argument: self.codes
        }

    def rows(self, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """What rows of values become: each with its language."""
        argument = self._languages.argument
        spread = zip(repeated(rows, self.times), self.codes, strict=True)
        return [row if code is None else {**row, argument: code} for row, code in spread]

    def linked(self, columns: Columns, rows: Sequence[Any]) -> tuple[Columns, Sequence[Any]]:
        """*columns* of what the rows become, and these *rows*: with their alternates, without those of other hosts."""
        found = self._alternates(columns.locs)
        columns.extras = {**columns.extras, ALTERNATES: _filled(columns.extras.get(ALTERNATES), found)}
        ours = [not isinstance(loc, InvalidEntry) or loc.rule != "loc-host" for loc in columns.locs]
        return (columns, rows) if all(ours) else (columns.kept(ours), list(compress(rows, ours)))

    def _alternates(self, locs: Sequence[str | InvalidEntry]) -> list[Any]:
        """For each of *locs* its alternates, shared by those of one row."""
        alternates: list[Any] = []
        hrefs = self._languages.hrefs(locs)
        at = 0
        for some in self._sets:
            shared = self._languages.alternates(some, hrefs[at : at + len(some)])
            alternates += [shared] * len(some)
            at += len(some)
        return alternates


def _filled(stated: Sequence[Any] | None, found: Sequence[Any]) -> Sequence[Any]:
    """What entries *stated* themselves, and else what was *found*."""
    return found if stated is None else [b if a is None else a for a, b in zip(stated, found, strict=True)]


def _code(code: str) -> str:
    return hreflang(code.replace("_", "-"))
