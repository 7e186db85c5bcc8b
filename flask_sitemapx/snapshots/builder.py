"""One pass over all sections: what changed is pulled, checked, cut and stored; the rest is carried over."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Protocol

from ..errors import BuildFailed, InvalidEntry, StoreError
from ..protocol.documents import MAX_URLS, SITEMAPINDEX, URLSET, Frame, sitemap_elements
from ..protocol.entries import Columns
from ..protocol.gate import Gate, Rendered
from ..protocol.locs import PLACEHOLDER_WEIGHT, BaseUrl
from .compression import Codec
from .shards import Cutter, DocumentWriter, Limits, entries
from .snapshot import FORMAT, Archive, Document, SectionState, Shard, Snapshot, page_hashes, sha256

logger = logging.getLogger(__name__)

REPLACED_SECONDS = 600.0
"""How long blobs that no document needs any more are kept for responses under way."""
REPLACED_SECONDS_IN_MEMORY = 30.0
"""The same where memory is what they take."""
MAX_RETIRED = 10_000
"""As many numbers of shards that were cut anew are answered at the most; the last ones."""


Progress = Callable[[str, int], None]
"""Told of each batch: the name of the section, and how many entries were read; also as a section begins and ends."""


class Source(Protocol):
    """A section as the builder sees it."""

    name: str

    def version(self) -> str | None:
        """A text that stands while the entries do, or None if that cannot be told."""
        ...

    def columns(self) -> Iterator[Columns]:
        """All entries, in order."""
        ...


@dataclass(frozen=True, slots=True)
class Rules:
    """What the builder keeps to."""

    limits: Limits
    always_index: bool = False
    verify_age: float = float("inf")
    grace: float = 0.0
    strict: bool = False
    timezone: tzinfo = UTC


class Builder:
    """Builds the snapshots of one site.

    *sources* and *rules* give the sections and the settings at the time of a build, *scope* is entered around each pull
    (an application context, say).
    """

    def __init__(
        self,
        base: BaseUrl,
        archive: Archive,
        sources: Callable[[], Sequence[Source]],
        rules: Callable[[], Rules],
        codec: Codec,
        *,
        scope: Callable[[], AbstractContextManager[object]] = nullcontext,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.base = base
        self.archive = archive
        self._sources = sources
        self._rules = rules
        self._codec = codec
        self._scope = scope
        self._clock = clock

    def build(
        self,
        previous: Snapshot,
        fingerprint: str,
        tokens: Mapping[str, str],
        *,
        checkpoint: Callable[[], None] = lambda: None,
        damaged: bool = False,
        progress: Progress = lambda section, count: None,
    ) -> Snapshot:
        """The snapshot that follows *previous*, stored but not published.

        *tokens* are the touch tokens as read before; *checkpoint* is called between batches and may raise to give up;
        after *damaged* nothing stored is trusted; *progress* is told of each batch. Raises `BuildFailed` if a section
        fails in the first build of all, or in any build under strict rules.
        """
        begun = time.monotonic()
        build = _Build(self, previous, fingerprint, tokens, checkpoint, damaged, progress)
        sections = {source.name: build.section(source) for source in self._sources()}
        document, is_index = build.front(sections)
        snapshot = Snapshot(
            number=previous.number + 1,
            built_at=self._clock(),
            fingerprint=fingerprint,
            document=document,
            is_index=is_index,
            sections=sections,
            seconds=round(time.monotonic() - begun, 3),
        )
        return replace(snapshot, garbage=self._garbage(previous, snapshot))

    def remove_leftovers(self, previous: Snapshot, may_go_on: Callable[[], bool]) -> None:
        """Delete what no response needs any more, and what builders left that died.

        Only the holder of the lease may: it is asked before each, since another may by now be storing the same again.
        """
        if previous.number and not previous.fingerprint:
            return  # its manifest was lost, but other processes may know it still
        needed = previous.blobs() | self._young(previous.garbage).keys()
        for digest in [digest for digest in self.archive.blob_names() if digest not in needed]:
            if not may_go_on():
                return
            self.archive.delete_blob(digest)
        self.archive.remove_superseded(previous.number)

    def _garbage(self, previous: Snapshot, snapshot: Snapshot) -> dict[str, float]:
        needed = snapshot.blobs()
        since = dict.fromkeys(previous.blobs(), self._clock()) | self._young(previous.garbage)
        return {digest: then for digest, then in since.items() if digest not in needed}

    def _young(self, garbage: Mapping[str, float]) -> dict[str, float]:
        now = self._clock()
        lifetime = REPLACED_SECONDS if self.archive.store.shared else REPLACED_SECONDS_IN_MEMORY
        # abs: a clock that jumped back must not keep them for ever.
        return {digest: then for digest, then in garbage.items() if abs(now - then) < lifetime}


class _Build:
    """The state of one build."""

    def __init__(
        self,
        builder: Builder,
        previous: Snapshot,
        fingerprint: str,
        tokens: Mapping[str, str],
        checkpoint: Callable[[], None],
        damaged: bool,
        progress: Progress,
    ) -> None:
        self._builder = builder
        self._rules = builder._rules()
        self._archive = builder.archive
        self._previous = previous
        self._is_first = not previous.sections
        self._fingerprint = fingerprint
        self._tokens = tokens
        self._checkpoint = checkpoint
        self._damaged = damaged
        self._progress = progress
        self._now = builder._clock()

    def section(self, source: Source) -> SectionState:
        """The state of a section: carried over while its version stands, else pulled anew."""
        self._progress(source.name, 0)
        state = self._current_or_last(source)
        self._progress(source.name, 0)
        return state

    def _current_or_last(self, source: Source) -> SectionState:
        old = self._previous.sections.get(source.name)
        # A context of its own: what a source sets in context variables does not leak to whoever asked for the build.
        try:
            return copy_context().run(self._current, source, old)
        except (StoreError, BuildFailed):
            raise
        except Exception as error:
            if self._rules.strict or (old is None and self._is_first):
                is_from_gate = isinstance(error, InvalidEntry)  # which names the section itself
                raise BuildFailed(("" if is_from_gate else f"section {source.name!r}: ") + _explained(error)) from error
            logger.exception("sitemap: section %r failed, its last good entries go on being served", source.name)
            return self._failed(old or SectionState(), self._tokens.get(source.name), _explained(error))

    def front(self, sections: Mapping[str, SectionState]) -> tuple[Document | None, bool]:
        """The document at ``/sitemap.xml`` and whether it is an index."""
        shards = [(name, shard) for name, section in sections.items() for shard in section.shards]
        documents = [shard.document for _, shard in shards]
        if not documents:
            return None, False
        if not self._is_merged(documents):
            return self._index(shards), True
        return self._alone(documents[0]) if len(documents) == 1 else self._merged(documents), False

    def _current(self, source: Source, old: SectionState | None) -> SectionState:
        with self._builder._scope():
            version = self._version(source)
            token = self._tokens.get(source.name)
            if old and version and not self._damaged and old.error is None:
                is_young = self._now - old.read_at < self._rules.verify_age
                if old.version == version and old.token == token and is_young:
                    self._progress(source.name, old.count)
                    return replace(old, retired=self._unexpired(old.retired))
            fresh = replace(old or SectionState(), version=version, token=token, error=None, failures=0)
            return self._pulled(source, fresh)

    def _failed(self, old: SectionState, token: str | None, error: str) -> SectionState:
        # With the token: it was tried since that touch, and the next one differs.
        retired = self._unexpired(old.retired)
        return replace(old, token=token, retired=retired, error=error, failures=old.failures + 1)

    def _version(self, source: Source) -> str | None:
        said = source.version()
        return sha256(f"{FORMAT} {self._fingerprint} {said}".encode()) if said is not None else None

    def _pulled(self, source: Source, old: SectionState) -> SectionState:
        gate = Gate(self._builder.base, section=source.name, timezone=self._rules.timezone, strict=self._rules.strict)
        known = {shard.document.entries_hash: shard.document for shard in old.shards}
        is_new = not old.read_at
        cutter = Cutter(
            self._rules.limits,
            lambda: self._writer(URLSET, known),
            lambda loc: gate.problems.add("duplicate", loc),
        )
        documents = []
        columns = source.columns()
        try:
            for start, writer in cutter.documents(self._rendered(source.name, gate, columns)):
                documents.append((start, writer.document(self._changed_at(is_new))))
                self._refuse_too_many(len(documents))
        finally:
            if close := getattr(columns, "close", None):
                close()
        self._log_problems(source.name, gate)
        return self._numbered(replace(old, read_at=self._now, problems=gate.problems.as_dict()), documents)

    def _rendered(self, name: str, gate: Gate, batches: Iterable[Columns]) -> Iterator[Rendered]:
        for columns in batches:
            self._checkpoint()
            self._progress(name, len(columns.locs))
            yield gate.rendered(columns)

    def _numbered(self, old: SectionState, documents: list[tuple[str, Document]]) -> SectionState:
        """*documents* under the numbers that their cuts had before, or new ones; a number never changes its cuts."""
        ends = [*(start for start, _ in documents[1:]), ""][: len(documents)]
        numbers = self._numbers(old.shards)
        following = old.next_number if self._archive.store.shared else 1
        shards = []
        for (start, document), end in zip(documents, ends, strict=True):
            if known := numbers.get((start, end)):
                number = known.pop()
            else:
                number, following = following, following + 1
            shards.append(Shard(number, start, end, document))
        kept = {shard.number for shard in shards}
        until = self._now + self._rules.grace
        retired = [(shard, until) for shard in old.shards if shard.number not in kept]
        return replace(
            old,
            shards=tuple(shards),
            pages=page_hashes(tuple(shards)),
            next_number=following,
            retired=(*self._unexpired(old.retired), *retired)[-MAX_RETIRED:],
        )

    def _numbers(self, shards: Sequence[Shard]) -> dict[tuple[str, str], list[int]]:
        """The numbers of each pair of cuts, the first last; a source that repeats itself has several."""
        numbers: dict[tuple[str, str], list[int]] = {}
        if self._archive.store.shared:  # else there is no past that all know, and numbers are positions
            for shard in reversed(shards):
                numbers.setdefault((shard.start, shard.end), []).append(shard.number)
        return numbers

    def _unexpired(self, retired: Iterable[tuple[Shard, float]]) -> tuple[tuple[Shard, float], ...]:
        return tuple((shard, until) for shard, until in retired if until > self._now)

    def _is_merged(self, documents: Sequence[Document]) -> bool:
        if self._rules.always_index:
            return False
        # Back to one document only below half the limit, so that a site at the limit does not flip to and fro.
        share = 0.5 if self._previous.is_index else 1.0
        limits = self._rules.limits
        count = sum(document.entries for document in documents)
        size = sum(document.length + document.origins * PLACEHOLDER_WEIGHT for document in documents)
        return count <= limits.urls * share and size <= limits.size * share

    def _alone(self, document: Document) -> Document:
        """The only shard as the front, where it may have come later than it changed itself."""
        last = self._last_front().get(document.entries_hash)
        changed_at = last.changed_at if last else self._changed_at(self._is_first)(document.lastmod)
        return document._replace(changed_at=changed_at)

    def _merged(self, documents: Sequence[Document]) -> Document:
        writer = self._writer(URLSET, self._last_front())
        seen: set[bytes] = set()
        for document in documents:
            for block in _whole_elements(entries(document, URLSET, self._archive.blob)):
                elements = list(_new_elements(block, seen))
                writer.write(b"".join(elements), len(elements), [document.lastmod])
        return writer.document(self._changed_at(self._is_first))

    def _index(self, shards: Sequence[tuple[str, Shard]]) -> Document:
        self._refuse_too_many(len(shards))
        locs = [f"{self._builder.base.text}{shard.path(name)}" for name, shard in shards]
        lastmods = [shard.document.changed_at for _, shard in shards]
        writer = self._writer(SITEMAPINDEX, self._last_front())
        writer.write("".join(sitemap_elements(locs, lastmods)).encode(), len(locs), lastmods)
        return writer.document(self._changed_at(self._is_first))

    def _refuse_too_many(self, documents: int) -> None:
        if documents > MAX_URLS:  # sitemaps.org: an index lists at most 50,000
            raise BuildFailed(
                f"there are more than the {MAX_URLS:,} sitemaps that an index holds; raise SITEMAP_MAX_URLS"
            )

    def _last_front(self) -> dict[str, Document]:
        last = self._previous.document
        return {last.entries_hash: last} if last else {}

    def _writer(self, frame: Frame, known: Mapping[str, Document]) -> DocumentWriter:
        return DocumentWriter(frame, self._builder._codec, self._archive.put_blob, known, reuse=not self._damaged)

    def _changed_at(self, is_new: bool) -> Callable[[str | None], str | None]:
        """When a document changed that was not there before: now, unless there is no past to compare with."""
        now = self._second()
        if is_new or not self._archive.store.shared:
            return lambda lastmod: lastmod if lastmod and lastmod <= now else None
        return lambda lastmod: now

    def _second(self) -> str:
        """Now, but later than the last change: two edits within a second are two changes to readers of the index."""
        now = datetime.fromtimestamp(int(self._now), UTC)
        last = self._previous.document.changed_at if self._previous.document else None
        if last and "T" in last:
            now = max(now, datetime.fromisoformat(last) + timedelta(seconds=1))
        return now.strftime("%Y-%m-%dT%H:%M:%SZ")

    def _log_problems(self, name: str, gate: Gate) -> None:
        for rule, (count, example) in gate.problems.as_dict().items():
            logger.warning("sitemap: section %r: %s (%d times, such as %s)", name, rule, count, example)


def _explained(error: Exception) -> str:
    return str(error) if isinstance(error, InvalidEntry) else f"{type(error).__name__}: {error}"


def _whole_elements(blocks: Iterable[bytes]) -> Iterator[list[bytes]]:
    rest = b""
    for block in blocks:
        *elements, rest = (rest + block).split(b"</url>\n")
        yield [element + b"</url>\n" for element in elements]


def _new_elements(elements: list[bytes], seen: set[bytes]) -> Iterator[bytes]:
    """The elements whose `loc` is not among the *seen*, which then has it."""
    for element in elements:
        loc = element[: element.index(b"</loc>")]
        if loc not in seen:
            seen.add(loc)
            yield element
