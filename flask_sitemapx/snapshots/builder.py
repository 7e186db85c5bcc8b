"""One pass over all sections, which makes the set that follows the last one."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from ..errors import BuildFailed, InvalidEntry, StoreError
from ..protocol.locs import BaseUrl
from ..sources.parts import Part, Source
from .compression import Codec
from .feeds import FeedWriter
from .front import FrontWriter
from .reading import Progress, Rules, Run, SectionReader, unexpired
from .snapshot import FORMAT, Archive, SectionState, Shard, Snapshot, sha256
from .store import Store
from .streaming import Streamed

logger = logging.getLogger(__name__)

REPLACED_SECONDS = 600.0
"""How long blobs that no document needs any more are kept for responses under way."""
REPLACED_SECONDS_IN_MEMORY = 30.0
"""The same where memory is what they take."""


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
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.base = base
        self.archive = archive
        self._sources = sources
        self._rules = rules
        self._codec = codec
        self._scope = scope
        self._clock = clock
        self._monotonic = monotonic
        self._kept: Mapping[str, Source] = {}

    def build(
        self,
        previous: Snapshot,
        fingerprint: str,
        tokens: Mapping[str, str],
        *,
        checkpoint: Callable[[], None] = lambda: None,
        damaged: bool = False,
        progress: Progress = lambda section, count: None,
        budget: float = float("inf"),
        completing: bool = False,
        only: Collection[str] | None = None,
    ) -> Snapshot:
        """The snapshot that follows *previous*, stored but not published.

        *tokens* are the touch tokens as read before; *checkpoint* is called between batches and may raise to give up;
        after *damaged* nothing stored is trusted; *progress* is told of each batch. After *budget* seconds parts that
        were not reached are left for another build: *completing* reads those that were only planned, and looks at
        nothing else. Sections that are not among the *only* ones are carried over. Raises `BuildFailed` if a section
        fails in the first build of all, or in any build under strict rules.
        """
        begun = self._monotonic()
        run = replace(
            self._run(previous),
            is_damaged=damaged,
            checkpoint=checkpoint,
            progress=progress,
            is_late=lambda: self._monotonic() - begun >= budget,
        )
        sections = _Sections(run, previous, fingerprint, tokens, self._scope, completing, only)
        states = {source.name: sections.state(source) for source in self._new_sources()}
        front = FrontWriter(run, previous).front(states)
        writer = FeedWriter(run, previous, self._scope)
        feeds = {
            name: writer.feed(name, feed, states[name]) for name, feed in run.rules.feeds.items() if name in states
        }
        snapshot = Snapshot(
            number=previous.number + 1,
            built_at=previous.built_at if completing else self._clock(),
            fingerprint=fingerprint,
            document=front.document,
            is_index=front.is_index,
            sections=states,
            indexes=front.indexes,
            feeds={name: feed for name, feed in feeds.items() if feed},
            seconds=round(self._monotonic() - begun + (previous.seconds if completing else 0), 3),
        )
        return replace(snapshot, garbage=self._garbage(previous, snapshot))

    def on(self, store: Store) -> Builder:
        """This builder on another *store*."""
        other = copy.copy(self)
        other.archive = Archive(store, self.archive.site)
        return other

    def streamed(self, snapshot: Snapshot, section: str, planned: Shard) -> Streamed:
        """The document of a shard that was only planned, made now and stored as it goes."""
        keys = list(dict.fromkeys(shard.part for shard in snapshot.sections[section].shards))
        following = dict(zip(keys, [*keys[1:], None], strict=True))[planned.part]

        def part() -> Part:
            if section not in self._kept:
                self._new_sources()
            return self._kept[section].part(planned.part, following)

        return Streamed(self._run(snapshot), section, planned, part, self._scope)

    def remove_leftovers(self, previous: Snapshot, may_go_on: Callable[[], bool]) -> None:
        """Delete what no response needs any more, and what builders left that died.

        Only the holder of the lease may: it is asked before each, since another may by now be storing the same again.
        """
        if previous.number and not previous.fingerprint:
            return  # its manifest was lost, but other processes may know it still
        needed = previous.blobs() | self._young(previous.garbage).keys() | self._finished_blobs(previous)
        for digest in [digest for digest in self.archive.blob_names() if digest not in needed]:
            if not may_go_on():
                return
            self.archive.delete_blob(digest)
        self.archive.remove_superseded(previous.number)

    def _new_sources(self) -> Sequence[Source]:
        """The sections as they are now, kept for what is made between builds: that has to begin at once."""
        sources = self._sources()
        self._kept = {source.name: source for source in sources}
        return sources

    def _run(self, previous: Snapshot) -> Run:
        return Run(self.base, self.archive, self._codec, self._rules(), self._clock(), self._second(previous))

    def _finished_blobs(self, previous: Snapshot) -> set[str]:
        finished = [self.archive.finished(name, shard) for name, shard in previous.unbuilt]
        documents = [shard.document for shard in finished if shard and shard.document]
        return {digest for document in documents for digest, _ in document.pieces}

    def _second(self, previous: Snapshot) -> str:
        """Now, but later than the last change: two edits within a second are two changes to readers of the index."""
        now = datetime.fromtimestamp(int(self._clock()), UTC)
        fronts = [previous.document, *(index.document for index in previous.indexes)]
        changes = [front.changed_at for front in fronts if front and front.changed_at and "T" in front.changed_at]
        if changes:
            now = max(now, datetime.fromisoformat(max(changes)) + timedelta(seconds=1))
        return now.strftime("%Y-%m-%dT%H:%M:%SZ")

    def _garbage(self, previous: Snapshot, snapshot: Snapshot) -> dict[str, float]:
        needed = snapshot.blobs()
        since = dict.fromkeys(previous.blobs(), self._clock()) | self._young(previous.garbage)
        return {digest: then for digest, then in since.items() if digest not in needed}

    def _young(self, garbage: Mapping[str, float]) -> dict[str, float]:
        now = self._clock()
        lifetime = REPLACED_SECONDS if self.archive.store.shared else REPLACED_SECONDS_IN_MEMORY
        # abs: a clock that jumped back must not keep them for ever.
        return {digest: then for digest, then in garbage.items() if abs(now - then) < lifetime}


class _Sections:
    """The sections of one build; one that fails keeps its last good entries."""

    def __init__(
        self,
        run: Run,
        previous: Snapshot,
        fingerprint: str,
        tokens: Mapping[str, str],
        scope: Callable[[], AbstractContextManager[object]],
        completing: bool,
        only: Collection[str] | None,
    ) -> None:
        self._run = run
        self._known = previous.sections
        self._fingerprint = fingerprint
        self._tokens = tokens
        self._scope = scope
        self._completing = completing
        self._only = only

    def state(self, source: Source) -> SectionState:
        """The state of a section: what changed of it is read."""
        self._run.progress(source.name, 0)
        state = self._current_or_last(source, self._known.get(source.name))
        self._run.progress(source.name, 0)
        return state

    def _current_or_last(self, source: Source, old: SectionState | None) -> SectionState:
        if old is not None and not self._is_wanted(source.name, old):
            self._run.progress(source.name, old.count)
            return replace(old, retired=unexpired(old, self._run.now))
        # A context of its own: what a source sets in context variables does not leak to whoever asked for the build.
        try:
            return copy_context().run(self._current, source, old or SectionState())
        except (StoreError, BuildFailed):
            raise
        except Exception as error:
            if self._run.rules.strict or not self._known:
                is_from_gate = isinstance(error, InvalidEntry)  # which names the section itself
                raise BuildFailed(("" if is_from_gate else f"section {source.name!r}: ") + _explained(error)) from error
            logger.exception("sitemap: section %r failed, its last good entries go on being served", source.name)
            return self._failed(old or SectionState(), self._tokens.get(source.name), _explained(error))

    def _is_wanted(self, name: str, old: SectionState) -> bool:
        if self._completing:
            return any(shard.is_unbuilt for shard in old.shards)
        return self._only is None or name in self._only

    def _current(self, source: Source, old: SectionState) -> SectionState:
        with self._scope():
            reader = SectionReader(self._run, source, old, self._rule(source))
            return reader.completed() if self._completing else reader.state(self._tokens.get(source.name))

    def _rule(self, source: Source) -> str:
        own = source.rule()
        if own is None:
            return self._fingerprint
        return sha256(f"{FORMAT} {self._run.base.text} {self._run.rules.urlset.head!r} {own}".encode())

    def _failed(self, old: SectionState, token: str | None, error: str) -> SectionState:
        # With the token: it was tried since that touch, and the next one differs.
        retired = unexpired(old, self._run.now)
        return replace(old, token=token, retired=retired, error=error, failures=old.failures + 1)


def _explained(error: Exception) -> str:
    return str(error) if isinstance(error, InvalidEntry) else f"{type(error).__name__}: {error}"
