"""What stands at ``/sitemap.xml``: one `urlset` of all sections, or an index of their sitemaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import BuildFailed
from ..protocol.documents import MAX_NEWS, Frame, sitemap_elements
from ..protocol.elements import KNOWN, unpacked
from ..protocol.locs import PLACEHOLDER_WEIGHT
from ..protocol.text import text_length
from .reading import Run
from .shards import DocumentWriter, element_lists
from .snapshot import Document, Index, SectionState, Shard, Snapshot

Named = tuple[str, Shard]
"""A shard with the name of its section."""


@dataclass(frozen=True, slots=True)
class Front:
    """*document* is None if there is nothing to list; *indexes* are all of them where one is not enough."""

    document: Document | None
    is_index: bool = False
    indexes: tuple[Index, ...] = ()


class FrontWriter:
    """Writes the front of a set, as far as it differs from that of the *previous* one."""

    def __init__(self, run: Run, previous: Snapshot) -> None:
        self._run = run
        self._previous = previous
        self._is_first = not previous.sections
        last = [previous.document, *(index.document for index in previous.indexes)]
        self._known = {document.entries_hash: document for document in last if document}

    def front(self, sections: Mapping[str, SectionState]) -> Front:
        shards = [(name, shard) for name, section in sections.items() for shard in section.listed]
        documents = [shard.document for _, shard in shards if shard.document]
        if not shards:
            return Front(None)
        if len(documents) == len(shards) and self._is_merged(documents):
            return Front(self._alone(documents[0]) if len(documents) == 1 else self._merged(documents))
        if len(shards) <= self._run.rules.limits.sitemaps:
            return Front(self._index(shards), is_index=True)
        indexes = self._indexes(shards)
        return Front(indexes[0].document, is_index=True, indexes=indexes)

    def _is_merged(self, documents: Sequence[Document]) -> bool:
        rules = self._run.rules
        if rules.always_index:
            return False
        # Back to one document only below half the limit, so that a site at the limit does not flip to and fro.
        share = 0.5 if self._previous.is_index and self._previous.is_complete else 1.0
        count = sum(document.entries for document in documents)
        size = sum(document.length + document.origins * PLACEHOLDER_WEIGHT for document in documents)
        is_small = count <= rules.limits.urls * share and size <= rules.limits.size * share
        return is_small and (len(documents) == 1 or _is_of_one_kind(documents))

    def _alone(self, document: Document) -> Document:
        """The only shard as the front, where it may have come later than it changed itself."""
        last = self._known.get(document.entries_hash)
        changed_at = last.changed_at if last else self._run.changed_at(self._is_first)(document.lastmod)
        return document._replace(changed_at=changed_at)

    def _merged(self, documents: Sequence[Document]) -> Document:
        writer = self._writer(self._run.rules.urlset)
        seen: set[str] = set()
        for document in documents:
            namespaces = unpacked(document.namespaces)
            for given in element_lists(document, self._run.archive.blob):
                locs, elements = _new_elements(given, seen)
                data = writer.declared(b"".join(elements), namespaces)
                writer.write(data, len(elements), [document.lastmod], namespaces, text_length(locs))
        return writer.document(self._run.changed_at(self._is_first))

    def _index(self, shards: Sequence[Named]) -> Document:
        locs = [f"{self._run.base.text}{shard.path(name)}" for name, shard in shards]
        lastmods = [shard.document and shard.document.changed_at for _, shard in shards]
        writer = self._writer(self._run.rules.sitemapindex)
        writer.write("".join(sitemap_elements(locs, lastmods)).encode(), len(locs), lastmods)
        if writer.size > self._run.rules.limits.size:
            raise BuildFailed(
                f"an index of {len(locs):,} sitemaps has {writer.size:,} bytes, more than the "
                f"{self._run.rules.limits.size:,} that sitemaps.org allows; raise SITEMAP_MAX_URLS"
            )
        return writer.document(self._run.changed_at(self._is_first))

    def _indexes(self, shards: Sequence[Named]) -> tuple[Index, ...]:
        """One index for each group; a group keeps the number of its index, the first being at ``/sitemap.xml``."""
        groups = self._grouped(shards)
        known = {index.group: index.number for index in self._previous.indexes if index.group in groups}
        if 1 not in known.values():
            known = {next(iter(groups)): 1}
        following = max(index.number for index in self._previous.indexes) if self._previous.indexes else 1
        numbers = {}
        for group in groups:
            following += group not in known
            numbers[group] = known.get(group, following)
        documents = (Index(numbers[group], group, self._index(members)) for group, members in groups.items())
        return tuple(sorted(documents))

    def _grouped(self, shards: Sequence[Named]) -> dict[str, list[Named]]:
        """Groups that an index can hold, by numbers: a shard never moves to another one, where a crawler missed it."""
        groups: dict[str, list[Named]] = {}
        for name, shard in shards:
            block = (shard.number - 1) // self._run.rules.limits.sitemaps
            groups.setdefault(f"{name} {block}", []).append((name, shard))
        return groups

    def _writer(self, frame: Frame) -> DocumentWriter:
        run = self._run
        return DocumentWriter(frame, run.codec, run.archive.put_blob, self._known, reuse=not run.is_damaged)


def _new_elements(elements: list[bytes], seen: set[str]) -> tuple[list[str], list[bytes]]:
    """The elements whose `loc` is not among the *seen*, which then has it, and these locs."""
    locs: list[str] = []
    kept: list[bytes] = []
    for element in elements:
        start = element.index(b"<loc>") + len(b"<loc>")
        loc = element[start : element.index(b"</loc>", start)].decode()
        if loc not in seen:
            seen.add(loc)
            locs.append(loc)
            kept.append(element)
    return locs, kept


def _is_of_one_kind(documents: Sequence[Document]) -> bool:
    """Whether they go into one: each prefix stands for one namespace, and news are surely not too many."""
    used = [unpacked(document.namespaces) for document in documents]
    namespaces = {namespace for some in used for namespace in some}
    with_news = [document for document, some in zip(documents, used, strict=True) if KNOWN["news"] in some]
    has_room = len(with_news) <= 1 or sum(document.entries for document in with_news) <= MAX_NEWS
    return has_room and len({namespace.prefix for namespace in namespaces}) == len(namespaces)
