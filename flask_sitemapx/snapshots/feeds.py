"""The feeds of a set: the newest pages of the sections that ask for one."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain

from ..errors import StoreError
from ..protocol.atom import FEED, Dated, Feed, dated, feed_elements
from .reading import Run
from .shards import DocumentWriter, element_lists
from .snapshot import Document, FeedState, SectionState, Snapshot, sha256

logger = logging.getLogger(__name__)


class FeedWriter:
    """Writes the feeds of a set, as far as they differ from those of the *previous* one.

    *scope* is entered where the titles of pages are asked for.
    """

    def __init__(self, run: Run, previous: Snapshot, scope: Callable[[], AbstractContextManager[object]]) -> None:
        self._run = run
        self._previous = previous
        self._scope = scope

    def feed(self, name: str, feed: Feed, section: SectionState) -> FeedState | None:
        """That of the section *name*; None if it has no pages with a date, or failed and there was none."""
        last = self._previous.feeds.get(name)
        documents = [shard.document for shard in section.shards if shard.document]
        key = sha256(" ".join([feed.signature, *(document.entries_hash for document in documents)]).encode())
        if last is not None and last.key == key and not self._run.is_damaged:
            return last
        try:
            with self._scope():
                pages = self._newest(documents, feed)
            return FeedState(key, self._document(name, feed, pages, last and last.document)) if pages else None
        except StoreError:
            raise
        except Exception:  # the application's own, which gives the titles
            logger.exception("sitemap: the feed of section %r failed, the last one goes on being served", name)
            return last

    def _newest(self, documents: Sequence[Document], feed: Feed) -> list[Dated]:
        """The newest of all pages; documents are only read as far as one of these may be in them."""
        root, count = self._run.base.text, feed.count
        newest: list[Dated] = []
        unknown = "~"  # later than all dates
        for document in sorted(documents, key=lambda document: document.lastmod or unknown, reverse=True):
            if len(newest) == count and (document.lastmod or unknown) < newest[-1].lastmod:
                break
            pages = (page for page in self._pages(document) if feed.where is None or feed.where(page.path(root)))
            newest = heapq.nlargest(count, chain(newest, pages))
        return newest

    def _pages(self, document: Document) -> Iterator[Dated]:
        for elements in element_lists(document, self._run.archive.blob):
            yield from dated(elements)

    def _document(self, name: str, feed: Feed, pages: Sequence[Dated], last: Document | None) -> Document:
        run = self._run
        root = run.base.text
        with self._scope():
            elements = feed_elements(feed, f"{root}/sitemap-{name}.atom", root, pages).encode()
        known = {last.entries_hash: last} if last else {}
        writer = DocumentWriter(FEED, run.codec, run.archive.put_blob, known, reuse=not run.is_damaged)
        writer.write(elements, len(pages), [page.lastmod for page in pages])
        return writer.document(run.changed_at(last is None))
