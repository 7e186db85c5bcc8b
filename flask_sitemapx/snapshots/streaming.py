"""A shard that was only planned so far, made for a client while it is stored."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from contextvars import copy_context

from ..errors import StoreError
from ..protocol.elements import Namespaces
from ..sources.parts import Part
from .reading import Run
from .shards import Cutter, DocumentWriter
from .snapshot import Document, Shard

logger = logging.getLogger(__name__)


class Streamed(Iterator[bytes]):
    """The blocks of *planned*'s document, as *part* of *section* gives them; `is_empty` if there are no entries.

    It runs in a context of its own, inside of *scope*, so that nothing leaks to whoever iterates over it in turns. A
    document that outgrows the limits ends in `Outgrown`; what ends early is not stored.
    """

    def __init__(
        self,
        run: Run,
        section: str,
        planned: Shard,
        part: Callable[[], Part],
        scope: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self._run = run
        self._section = section
        self._planned = planned
        self._part = part
        self._scope = scope
        self._context = copy_context()
        self._blocks = self._made()
        self._first = self._context.run(next, self._blocks, None)

    @property
    def is_empty(self) -> bool:
        return self._first is None

    def __next__(self) -> bytes:
        if self._first is not None and (first := self._first):
            self._first = b""
            return first
        return self._context.run(next, self._blocks)

    def close(self) -> None:
        self._context.run(self._blocks.close)

    def _made(self) -> Generator[bytes, None, None]:
        run = self._run
        gate = run.gate(self._section)
        writer = _Written(run)
        cutter = Cutter(run.rules.limits, lambda: writer, lambda loc: None, whole=True)
        with self._scope():
            part = self._part()
            columns = part.columns()
            try:
                for batch in columns:
                    list(cutter.added(gate.rendered(batch)))  # a whole gives nothing back, but may be outgrown
                    if blocks := writer.taken():
                        yield blocks
            finally:
                if close := getattr(columns, "close", None):
                    close()
            self._finish(writer, part.version())
        if writer.count:
            yield run.rules.urlset.tail

    def _finish(self, writer: _Written, version: str | None) -> None:
        """Note what came out; a store in trouble keeps nobody from being served."""
        run, planned = self._run, self._planned
        try:
            document = writer.document(run.changed_at(is_new=True)) if writer.count else None
            number = planned.number if writer.count else 0
            if not writer.is_lost:
                finished = planned._replace(number=number, version=version, read_at=run.now, document=document)
                run.archive.finish(self._section, planned, finished)
        except StoreError as error:
            logger.error("sitemap: %s was sent, but not kept: %s", planned.path(self._section), error)


class _Written(DocumentWriter):
    """A writer that also hands out what is written."""

    def __init__(self, run: Run) -> None:
        self.is_lost = False
        self._store = run.archive.put_blob
        self._blocks: list[bytes] = []
        known: Mapping[str, Document] = {}
        super().__init__(run.rules.urlset, run.codec, self._put, known)

    def write(
        self,
        elements: bytes,
        count: int,
        lastmods: Iterable[str | None],
        namespaces: Namespaces = (),
        text_length: int = 0,
    ) -> None:
        is_first = not self.count
        super().write(elements, count, lastmods, namespaces, text_length)
        if is_first:  # and so all that is known of the namespaces
            self._blocks.append(self._release())
        self._blocks.append(elements)

    def taken(self) -> bytes:
        """All that was written since this was last asked."""
        taken = b"".join(self._blocks)
        self._blocks.clear()
        return taken

    def _put(self, digest: str, piece: bytes) -> None:
        if not self.is_lost:
            try:
                self._store(digest, piece)
            except StoreError as error:
                logger.error("sitemap: what is sent is not kept: %s", error)
                self.is_lost = True
