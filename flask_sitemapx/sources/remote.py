"""Sitemaps of other sites and applications as a section: what they list is listed, and read again where it changed."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from typing import Any

from ..errors import InvalidEntry, Unreadable
from ..protocol.entries import Columns
from ..protocol.locs import BaseUrl
from ..protocol.reader import ChildSitemap, Problem, SitemapReader
from .fetching import Fetched, Fetcher, FetchFailed, Target, Validators, joined
from .parts import Known, Part, Past, Plan
from .remote_entries import Moves, below, columns_of, problems_of

SETTLED = 2 * 86_400.0
"""Seconds after its date at which an indexed sitemap is surely no longer the one of before the change: a date may be a
day only, in any time zone, and clocks differ."""
SILENCE = 3
"""How often in a row a host may not answer before it is not asked any more in the same build."""
PATIENCE = 1_800.0
"""Seconds that all sitemaps of a section may take in one build."""
REPORT = ""
"""The key of the part that has no entries, and tells which sitemaps could not be had."""


class RemoteSource:
    """The sitemaps at *urls* as a section, and those that are in them where they are indexes.

    Their addresses below one of the base URLs *replace* are ours, below the path *at*. Each sitemap is a part by
    itself: the server is asked whether it changed, and one that cannot be had keeps its last good entries.
    """

    endpoint = None

    def __init__(
        self,
        name: str,
        base: BaseUrl,
        urls: Sequence[str],
        fetcher: Fetcher,
        replace: Sequence[str] = (),
        at: str = "/",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.fetcher = fetcher
        self.monotonic = monotonic
        self.moved = Moves(replace, at)
        self._urls = urls
        self._replace = replace
        self._ours = base.text + at.rstrip("/")

    def rule(self) -> str:
        return f"{self._urls} {self._replace} {self._ours}"

    def plan(self, past: Past) -> Plan:
        """A part for each sitemap, asked for as it is come to; the roots are asked for now."""
        visit = _Visit(self, past)
        roots = [visit.root(url) for url in self._urls]
        if all(root.failure is not None and not root.children for root in roots):
            raise FetchFailed(f"{_shown(roots[0].url)}: {roots[0].failure}")
        memo = {root.url: root.memo for root in roots if root.memo is not None}
        return Plan(visit.parts(roots), json.dumps({"rule": self.rule(), "roots": memo}))

    def part(self, key: str, following: str | None) -> Part:
        visit = _Visit(self, Past(0.0, 0, 0))
        return visit.report() if key == REPORT else _RemotePart(visit, key, None)

    def address(self, root: str, loc: str) -> str:
        """Where the sitemap *loc* is had that the index *root* lists.

        An application behind a proxy lists its sitemaps under our name; they are beside the index all the same.
        """
        url = joined(root, loc)
        rest = below(url, self._ours)
        if rest is None or self.fetcher.allows(url):
            return url
        return (self._replace[0] if self._replace else Target.of(root).origin) + rest


@dataclass(frozen=True, slots=True)
class _Version:
    """What a part knows of the document that it was read from."""

    validators: Validators
    digest: str
    lastmod: str | None
    """What the index said of it."""
    read: float
    """When that was, in seconds since the epoch."""

    @classmethod
    def of(cls, text: str | None) -> _Version | None:
        if text is None:
            return None
        told = json.loads(text)
        return cls(Validators(told["etag"], told["modified"]), told["digest"], told["lastmod"], told["read"])

    def __str__(self) -> str:
        told = {"etag": self.validators.etag, "modified": self.validators.modified}
        return json.dumps({**told, "digest": self.digest, "lastmod": self.lastmod, "read": self.read})


@dataclass(slots=True)
class _Root:
    """One of the addresses of a section, which was asked for."""

    url: str
    children: Mapping[str, str | None]
    """Keys of its parts, and what the index says of when each changed."""
    memo: dict[str, Any] | None = None
    """What the next plan goes by; None for a sitemap that is no index."""
    is_index: bool = True
    fetched: Fetched | None = None
    """The document, of one that is no index and changed."""
    failure: FetchFailed | None = None


class _Visit:
    """All that is asked for in one build of *source*."""

    def __init__(self, source: RemoteSource, past: Past) -> None:
        self.source = source
        self.past = past
        self.known = {part.key: part for part in past.parts}
        memo = json.loads(past.memo) if past.memo else {}
        # Under another rule it may be one of another kind of section.
        self._memos: Mapping[str, Any] = memo["roots"] if memo.get("rule") == source.rule() else {}
        self._end = source.monotonic() + PATIENCE
        self._silent: Counter[str] = Counter()
        self._failures: dict[str, tuple[str, FetchFailed]] = {}

    def parts(self, roots: Sequence[_Root]) -> Iterator[Part]:
        """The parts of all *roots*; of each the document is closed when the next part is asked for."""
        # At first nothing is known that could fail later, and what comes last may be left for another build.
        if not self.known:
            yield self.report()
        seen: set[str] = set()
        with ExitStack() as stack:
            for root in roots:
                if root.fetched is not None:
                    stack.callback(root.fetched.close)
            for root in roots:
                for part in self._parts_of(root):
                    if part.url not in seen:
                        seen.add(part.url)
                        with closing(part):
                            yield part
        if self.known:
            yield self.report()

    def report(self) -> _Report:
        return _Report(self._failures, self.known.get(REPORT), self.past.now)

    def _parts_of(self, root: _Root) -> Iterator[_RemotePart]:
        is_asked = root.failure is not None or not root.is_index
        for key, lastmod in root.children.items():
            yield _RemotePart(self, key, lastmod, is_asked, root.fetched)

    # Roots

    def root(self, url: str) -> _Root:
        """What is at *url*, or, if that cannot be had, what was there before."""
        known = dict.fromkeys(key for key in self.known if key == url or key.startswith(f"{url} "))
        memo = self._memos.get(url)
        try:
            if memo is not None and memo["keys"] == _hash(known):
                return self._known_index(url, known, memo)
            return self._read(url, self.changed(url, self.version_of(url)))
        except FetchFailed as failure:
            self.fail(url, failure, is_known=bool(known))
            return _Root(url, known, memo, failure=failure)

    def _known_index(self, url: str, known: Mapping[str, None], memo: dict[str, Any]) -> _Root:
        fetched = self.fetched(url, Validators(memo["etag"], memo["modified"]))
        if fetched is None:
            return _Root(url, dict(zip(known, memo["lastmods"], strict=True)), memo)
        return self._read(url, fetched)

    def _read(self, url: str, fetched: Fetched | None) -> _Root:
        listed = None if fetched is None else _listed(fetched)
        if fetched is None or listed is None:
            return _Root(url, {url: None}, is_index=False, fetched=fetched)
        fetched.close()
        children = {f"{url} {self.source.address(url, one.loc)}": one.lastmod for one in listed}
        validators, lastmods = fetched.validators, [*children.values()]
        memo = {"etag": validators.etag, "modified": validators.modified, "keys": _hash(children), "lastmods": lastmods}
        return _Root(url, children, memo)

    # Asking

    def version_of(self, key: str) -> _Version | None:
        """By what the part *key* is known, if it stands."""
        return _Version.of(self.known[key].version) if key in self.known else None

    def changed(self, url: str, version: _Version | None) -> Fetched | None:
        """What is at *url*, or None if it is what *version* was made of. Raises `FetchFailed`."""
        fetched = self.fetched(url, None if version is None else version.validators)
        if fetched is not None and version is not None and fetched.digest == version.digest:
            fetched.close()
            return None
        return fetched

    def fetched(self, url: str, validators: Validators | None) -> Fetched | None:
        """What is at *url*, or None if it is what *validators* are of. Raises `FetchFailed`."""
        host = Target.of(url).origin
        if self._silent[host] >= SILENCE:
            raise FetchFailed("its host did not answer before, and is not asked any more")
        if self.source.monotonic() >= self._end:
            raise FetchFailed("it is not asked for, since all before it took too long")
        try:
            fetched = self.source.fetcher.fetch(url, validators)
        except FetchFailed as failure:
            self._silent[host] = self._silent[host] + 1 if failure.is_silent else 0
            raise
        self._silent[host] = 0
        return fetched

    def fail(self, url: str, failure: FetchFailed, *, is_known: bool) -> None:
        """Note that *url* could not be had; if it *is_known*, its last good entries go on being listed."""
        self._failures[url] = "remote-stale" if is_known else "remote-missing", failure


class _RemotePart:
    """One sitemap. Its server is asked whether it changed when somebody wants to know that, unless it *is_asked*."""

    is_cut = False

    def __init__(
        self, visit: _Visit, key: str, lastmod: str | None, is_asked: bool = False, fetched: Fetched | None = None
    ) -> None:
        self.key = key
        self.url = key.partition(" ")[2] or key
        self._visit = visit
        self._lastmod = lastmod
        self._is_asked = is_asked
        self._fetched = fetched
        self._failure: FetchFailed | None = None
        self._read_version: _Version | None = None

    @cached_property
    def is_unchanged(self) -> bool:
        known = self._visit.known.get(self.key)
        if known is None:
            return False
        version = _Version.of(known.version)
        if not self._is_asked and not (version is not None and self._is_settled(version)):
            self._ask(version)
        # What was fetched from a place that is no longer named is not kept.
        if self._failure is not None and known.count and self._visit.source.fetcher.allows(self.url):
            self._visit.fail(self.url, self._failure, is_known=True)
            return True
        return self._fetched is None and self._failure is None

    def columns(self) -> Iterator[Columns]:
        """All entries; of a sitemap that cannot be had, the reason in their place."""
        if self._fetched is None and self._failure is None:
            self._ask(None)
        if self._failure is not None:
            yield Columns([_problem("remote-missing", self.url, str(self._failure))])
            return
        assert self._fetched is not None
        self._fetched.file.seek(0)
        problems: list[Problem] = []
        yield from columns_of(SitemapReader(self._fetched.file, report=problems.append), self._visit.source.moved)
        if found := problems_of(problems, _shown(self.url)):
            yield Columns(found)
        fetched, now = self._fetched, self._visit.past.now
        self._read_version = _Version(fetched.validators, fetched.digest, self._lastmod, now)

    def version(self) -> str | None:
        return None if self._read_version is None else str(self._read_version)

    def close(self) -> None:
        if self._fetched is not None:
            self._fetched.close()

    def _is_settled(self, version: _Version) -> bool:
        """Whether the index names the date of what was read, and did so long after that date."""
        if self._visit.past.is_touched or self._lastmod is None or self._lastmod != version.lastmod:
            return False
        changed = datetime.fromisoformat(self._lastmod)
        changed = changed if changed.tzinfo else changed.replace(tzinfo=UTC)
        return version.read > changed.timestamp() + SETTLED

    def _ask(self, version: _Version | None) -> None:
        """Have the document, unless it is that of *version*; or the reason why it cannot be had."""
        try:
            self._fetched = self._visit.changed(self.url, version)
            if self._fetched is not None and _listed(self._fetched) is not None:
                raise FetchFailed("it is an index, and stands in one")
        except FetchFailed as failure:
            self.close()
            self._failure = failure


class _Report:
    """The part without entries that tells what could not be had, and since when."""

    key = REPORT
    is_cut = False
    is_unchanged = False

    def __init__(self, failures: dict[str, tuple[str, FetchFailed]], known: Known | None, now: float) -> None:
        self._failures = failures
        self._before: dict[str, str] = json.loads(known.version) if known is not None and known.version else {}
        self._now = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._since: dict[str, str] = {}

    def columns(self) -> Iterator[Columns]:
        self._since = {url: self._before.get(url, self._now) for url in self._failures}
        found = [
            _problem(rule, url, f"since {self._since[url]}: {failure}")
            for url, (rule, failure) in self._failures.items()
        ]
        if found:
            yield Columns(found)

    def version(self) -> str | None:
        return json.dumps(self._since) if self._since else None


def _problem(rule: str, url: str, reason: str) -> InvalidEntry:
    return InvalidEntry(rule, _shown(url), "a sitemap could not be fetched", reason)


def _shown(url: str) -> str:
    """*url* without its query, in which there may be a key that nobody should read."""
    address, mark, _ = url.partition("?")
    return f"{address}{mark}…" if mark else address


def _listed(fetched: Fetched) -> list[ChildSitemap] | None:
    """What an index lists; None of any other sitemap.

    All of it is read, so that nothing is listed of a damaged one. Then *fetched* is closed, and `FetchFailed` raised.
    """
    try:
        reader = SitemapReader(fetched.file)
        children = [one for one in reader if isinstance(one, ChildSitemap)]
    except Unreadable as error:
        fetched.close()
        raise FetchFailed(f"it cannot be read: {error}") from None
    return children if reader.kind == "sitemapindex" else None


def _hash(keys: Iterable[str]) -> str:
    return sha256("\n".join(keys).encode()).hexdigest()
