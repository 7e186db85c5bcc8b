"""One section, read: what changed is pulled, checked, cut and stored; the rest is carried over."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from itertools import groupby
from operator import attrgetter

from ..errors import NEWS_EXPIRED
from ..protocol.atom import Feed
from ..protocol.documents import SITEMAPINDEX, URLSET, Frame
from ..protocol.entries import Columns
from ..protocol.gate import Gate, Rendered
from ..protocol.locs import BaseUrl
from ..sources.parts import Known, Part, Past, Plan, Source
from .compression import Codec
from .shards import Cutter, DocumentWriter, Limits, Outgrown
from .snapshot import Archive, Document, SectionState, Shard, page_hashes

logger = logging.getLogger(__name__)

MAX_RETIRED = 10_000
"""As many numbers of shards that were cut anew are answered at the most; the last ones."""

Progress = Callable[[str, int], None]
"""Told of each batch: the name of the section, and how many entries were read; also as a section begins and ends."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the builder keeps to."""

    limits: Limits
    always_index: bool = False
    verify_age: float = float("inf")
    grace: float = 0.0
    strict: bool = False
    timezone: tzinfo = UTC
    urlset: Frame = URLSET
    sitemapindex: Frame = SITEMAPINDEX
    feeds: Mapping[str, Feed] = field(default_factory=dict)
    """Those of the sections that have one, by name."""


@dataclass(frozen=True, slots=True)
class Run:
    """What all that is read in one build has in common."""

    base: BaseUrl
    archive: Archive
    codec: Codec
    rules: Rules
    now: float
    """Seconds since the epoch, when the build began."""
    second: str
    """The same as a W3C datetime: when what is found changed is said to have changed."""
    is_damaged: bool = False
    """Whether something that was stored is lost: then all is looked at, and all that is made is stored again."""
    checkpoint: Callable[[], None] = lambda: None
    """Called between batches; may raise to give up."""
    progress: Progress = lambda section, count: None
    is_late: Callable[[], bool] = lambda: False
    """Whether to leave the rest for another time."""

    def gate(self, section: str) -> Gate:
        rules = self.rules
        return Gate(self.base, section=section, timezone=rules.timezone, strict=rules.strict, now=self.now)

    def changed_at(self, is_new: bool) -> Callable[[str | None], str | None]:
        """When a document changed that was not there before: now, unless there is no past to compare with."""
        if is_new or not self.archive.store.shared:
            return lambda lastmod: lastmod if lastmod and lastmod <= self.second else None
        return lambda lastmod: self.second


class SectionReader:
    """Reads the section *source*, of which the last set has *old*, made by *rule*."""

    def __init__(self, run: Run, source: Source, old: SectionState, rule: str) -> None:
        self._run = run
        self._source = source
        self._old = old
        self._rule = rule
        self._known = {key: [*shards] for key, shards in groupby(old.shards, attrgetter("part"))}
        self._documents = {shard.document.entries_hash: shard.document for shard in old.shards if shard.document}
        self._faults = dict(old.faults)
        self._following = old.next_number
        self._has_read = False

    def state(self, token: str | None) -> SectionState:
        """The section as it is now, *token* being the touch token that was noted before."""
        old = self._old
        is_touched = old.token != token or old.error is not None
        plan = self._source.plan(self._past(is_touched))
        shards, is_complete = self._planned(plan)
        return replace(
            self._with(shards),
            rule=self._rule,
            memo=plan.memo if is_complete else old.memo,
            token=token,
            read_at=self._run.now,
            is_complete=is_complete,
            error=None,
            failures=0,
        )

    def completed(self) -> SectionState:
        """The section with those parts read that were only planned so far, and nothing else looked at."""
        keys = [*self._known]
        following = dict(zip(keys, [*keys[1:], None], strict=True))
        shards: list[Shard] = []
        for key, known in self._known.items():
            if known[0].is_unbuilt and not self._is_late():
                shards += self._pulled(self._source.part(key, following[key]), known)
            else:
                shards += known
                self._run.progress(self._source.name, sum(shard.document.entries for shard in known if shard.document))
        return self._with(shards)

    def _past(self, is_touched: bool) -> Past:
        limits = self._run.rules.limits
        parts = tuple(self._known_part(key, shards) for key, shards in self._known.items())
        return Past(self._run.now, limits.urls, limits.size, parts, self._old.memo, is_touched)

    def _known_part(self, key: str, shards: Sequence[Shard]) -> Known:
        documents = [shard.document for shard in shards if shard.document]
        is_young = self._run.now - shards[0].read_at < self._run.rules.verify_age
        stands = is_young and self._old.rule == self._rule and not shards[0].is_unbuilt
        stands = stands and all(
            document.expires_at is None or document.expires_at > self._run.now for document in documents
        )
        if stands and self._run.is_damaged:
            stands = all(map(self._run.archive.is_whole, documents))
        return Known(
            key,
            shards[0].version if stands else None,
            sum(document.entries for document in documents),
            sum(document.length for document in documents),
        )

    def _planned(self, plan: Plan) -> tuple[list[Shard], bool]:
        """The shards of all parts, and whether all that changed could be read in time."""
        shards: list[Shard] = []
        is_complete = True
        for part in plan.parts:
            known = self._known.get(part.key, [])
            if part.is_unchanged and known:
                shards += known
                self._run.progress(self._source.name, sum(shard.document.entries for shard in known if shard.document))
            elif not self._is_late():
                shards += self._pulled(part, known)
            elif known:
                shards += known
                is_complete &= known[0].is_unbuilt
            else:
                shards.append(Shard(self._next_number(), part.key, "", "", None, 0.0, None))
        return shards, is_complete

    def _is_late(self) -> bool:
        return self._has_read and self._run.is_late()  # each build gets on by a part at least

    def _pulled(self, part: Part, known: Sequence[Shard]) -> list[Shard]:
        self._has_read = True
        if known and known[0].is_unbuilt:
            finished = self._run.archive.finished(self._source.name, known[0])
            if finished is not None:
                return [finished]
        try:
            documents = self._read(part, whole=not part.is_cut and len(known) < 2)
        except Outgrown:
            documents = self._read(part, whole=False)
        return self._numbered(part, documents, known)

    def _read(self, part: Part, *, whole: bool) -> list[tuple[str, Document]]:
        """The documents of *part* and the cuts at which they begin."""
        run = self._run
        gate = run.gate(self._source.name)
        cutter = Cutter(run.rules.limits, self._writer, lambda loc: gate.problems.add("duplicate", loc), whole=whole)
        changed_at = run.changed_at(is_new=not self._old.read_at)
        columns = part.columns()
        try:
            cut = cutter.documents(self._rendered(gate, columns))
            documents = [(start, writer.document(changed_at)) for start, writer in cut]
            gate.finish()
        finally:
            if close := getattr(columns, "close", None):
                close()
        self._note(part.key, gate)
        return documents

    def _rendered(self, gate: Gate, batches: Iterable[Columns]) -> Iterator[Rendered]:
        for columns in batches:
            self._run.checkpoint()
            self._run.progress(self._source.name, len(columns.locs))
            yield gate.rendered(columns)

    def _writer(self) -> DocumentWriter:
        run = self._run
        return DocumentWriter(
            run.rules.urlset, run.codec, run.archive.put_blob, self._documents, reuse=not run.is_damaged
        )

    def _note(self, key: str, gate: Gate) -> None:
        self._faults.pop(key, None)
        if problems := gate.problems.as_dict():
            self._faults[key] = problems
        for rule, (count, example) in problems.items():
            level = logging.DEBUG if rule == NEWS_EXPIRED else logging.WARNING
            logger.log(level, "sitemap: section %r: %s (%d times, such as %s)", self._source.name, rule, count, example)

    def _numbered(self, part: Part, documents: list[tuple[str, Document]], known: Sequence[Shard]) -> list[Shard]:
        """*documents* under the numbers that their cuts had before, or new ones; a number never changes its cuts."""
        version = part.version()
        # Without a version it is read each time, and that is no reason to write its page anew.
        read_at = self._run.now if version is not None else 0.0
        if not documents:
            return [Shard(0, part.key, "", "", version, read_at, None)]
        ends = [*(start for start, _ in documents[1:]), ""]
        numbers: dict[tuple[str, str], list[int]] = {}
        for shard in reversed(known):  # a part that repeats itself has several of the same cuts
            if shard.number:
                numbers.setdefault((shard.start, shard.end), []).append(shard.number)
        return [
            Shard(
                numbers[start, end].pop() if numbers.get((start, end)) else self._next_number(),
                part.key,
                start,
                end,
                version,
                read_at,
                document,
            )
            for (start, document), end in zip(documents, ends, strict=True)
        ]

    def _next_number(self) -> int:
        self._following += 1
        return self._following - 1

    def _with(self, shards: list[Shard]) -> SectionState:
        """The section with *shards*, and those that it had before retired."""
        run, old = self._run, self._old
        if not run.archive.store.shared:  # there is no past that all know, and numbers are positions
            shards = [*_by_position(shards)]
            self._following = 1 + sum(shard.is_listed for shard in shards)
        kept = {shard.number for shard in shards}
        until = run.now + run.rules.grace
        retired = [(shard, until) for shard in old.shards if shard.document and shard.number not in kept]
        keys = {shard.part for shard in shards}
        return replace(
            old,
            shards=tuple(shards),
            pages=page_hashes(tuple(shards)),
            next_number=self._following,
            retired=(*unexpired(old, run.now), *retired)[-MAX_RETIRED:],
            faults={key: faults for key, faults in self._faults.items() if key in keys},
        )


def unexpired(section: SectionState, now: float) -> tuple[tuple[Shard, float], ...]:
    """The retired shards of *section* that are still answered."""
    return tuple((shard, until) for shard, until in section.retired if until > now)


def _by_position(shards: Iterable[Shard]) -> Iterator[Shard]:
    number = 0
    for shard in shards:
        number += shard.is_listed
        yield shard._replace(number=number) if shard.is_listed else shard
