"""Export: the documents of a snapshot as files that any web server can serve."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ..errors import ConfigurationError
from ..serving import stylesheet
from ..snapshots.compression import decompressed
from ..snapshots.shards import BLOCK
from ..snapshots.snapshot import Document, Snapshot

MANIFEST = ".sitemapx-export.json"
"""The file in which an export lists what it wrote, so that the next one knows what it may remove."""
ROBOTS = "robots.txt"
FORMAT = 1
# The only names that are ever written or removed: none leads out of the directory.
_OURS = re.compile(
    r"sitemap(?:-[a-z0-9-]+-[1-9][0-9]*)?\.xml(?:\.gz)?|sitemap-[a-z0-9-]+\.atom|sitemap\.css|robots\.txt", re.ASCII
)
_TEMPORARY = re.compile(r"\.sitemapx-[0-9a-f]{16}\.tmp", re.ASCII)


class Exported(NamedTuple):
    """What an export did, by name of file."""

    written: list[str]
    unchanged: list[str]
    removed: list[str]


def export(
    snapshot: Snapshot, directory: Path, blob: Callable[[str], bytes], *, robots: bytes | None = None
) -> Exported:
    """Make *directory* hold the documents of *snapshot*, each also as gzip file, and *robots* as robots.txt.

    The stylesheet that they name is put beside them if it is ours.

    *blob* gives the stored bytes under a hash. Each file is written beside its place and then put there, shards
    first and ``sitemap.xml`` last, so that a server never finds half a file or an index of files that are not there.
    Files that did not change stay as they are; those that are not needed any more are removed if an export wrote them.
    The time of a file that is written is that of its latest change, where it is known and later than that of the file
    it replaces. Without *robots*, robots.txt is left alone.

    The documents must hold their own origin. Raises `ConfigurationError` if *directory* is a file, `OSError` if it
    cannot be written to, and `Damaged` if stored bytes are; then the last index still stands.
    """
    target = _Directory(directory)
    files = [*_files(snapshot, blob), *([_robots(robots)] if robots is not None else [])]
    names = {file.name for file in files} | ({ROBOTS} if robots is None else set())
    changed = [file for file in files if not target.has(file)]
    obsolete = [name for name in target.records if name not in names]
    if changed or obsolete:
        target.announce(file.name for file in changed)
        for file in changed:
            target.write(file)
        for name in obsolete:
            target.remove(name)
        target.save()
    written = [file.name for file in changed]
    return Exported(written, [file.name for file in files if file.name not in set(written)], obsolete)


@dataclass(frozen=True, slots=True)
class _File:
    """A file to be there; *changed_at* is a W3C datetime in UTC."""

    name: str
    etag: str
    size: int
    changed_at: str | None
    blocks: Callable[[], Iterable[bytes]]

    @property
    def mtime_ns(self) -> int | None:
        if self.changed_at is None:
            return None
        at = datetime.fromisoformat(self.changed_at)
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()) * 1_000_000_000


def _files(snapshot: Snapshot, blob: Callable[[str], bytes]) -> Iterator[_File]:
    """All files in the order in which they may appear."""
    if snapshot.document is not None and _is_in_our_style(snapshot.document, blob):
        yield _style()
    for name, section in snapshot.sections.items():
        # Those that were cut anew stay for SITEMAP_GRACE, as the application answers them, too.
        retired = (shard for shard, until in section.retired if until > snapshot.built_at)
        for shard in (*retired, *section.shards):
            if shard.document is not None:
                yield from _forms(f"sitemap-{name}-{shard.number}.xml", shard.document, blob)
    for name, feed in snapshot.feeds.items():
        yield _plain(f"sitemap-{name}.atom", feed.document, blob)
    for index in snapshot.indexes[1:]:
        yield from _forms(f"sitemap-index-{index.number}.xml", index.document, blob)
    if snapshot.document is not None:
        yield from _forms("sitemap.xml", snapshot.document, blob)


def _is_in_our_style(document: Document, blob: Callable[[str], bytes]) -> bool:
    head = next(iter(decompressed(_pieces(document, blob), 1024)))
    return f' href="{stylesheet.NAME}'.encode() in head.partition(b"?>")[2].partition(b"?>")[0]


def _style() -> _File:
    text = stylesheet.STYLESHEET.encode()
    return _File(stylesheet.NAME, hashlib.sha256(text).hexdigest(), len(text), None, lambda: (text,))


def _forms(name: str, document: Document, blob: Callable[[str], bytes]) -> Iterator[_File]:
    yield _File(
        f"{name}.gz",
        document.gzip_etag,
        document.gzip_length,
        document.changed_at,
        lambda: _pieces(document, blob),
    )
    yield _plain(name, document, blob)


def _plain(name: str, document: Document, blob: Callable[[str], bytes]) -> _File:
    def blocks() -> Iterable[bytes]:
        return decompressed(_pieces(document, blob), BLOCK)

    return _File(name, document.etag, document.length, document.changed_at, blocks)


def _pieces(document: Document, blob: Callable[[str], bytes]) -> Iterator[bytes]:
    return (blob(digest) for digest, _ in document.pieces)


def _robots(text: bytes) -> _File:
    return _File(ROBOTS, hashlib.sha256(text).hexdigest(), len(text), None, lambda: (text,))


class _Record(NamedTuple):
    """What is known of a file that was written: it is untouched while size and time are these."""

    etag: str
    size: int
    mtime_ns: int


class _Directory:
    """The directory that is written to. *records* are the files of earlier exports; None for one that is not sure."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise ConfigurationError(f"{str(path)!r} is no directory, nor can it be made one") from None
        manifest = self._manifest()
        self.records = _records(manifest.get("files"))
        self._left = manifest.get("temporary")
        self._temporary = f".sitemapx-{secrets.token_hex(8)}.tmp"

    def has(self, file: _File) -> bool:
        """Whether *file* is there as an export wrote it."""
        record = self.records.get(file.name)
        if record is None or record[:2] != (file.etag, file.size):
            return False
        return self._state(file.name) == record[1:]

    def announce(self, names: Iterable[str]) -> None:
        """Note down what is about to be written, so that the next export can clear up after one that was cut short."""
        if isinstance(self._left, str) and _TEMPORARY.fullmatch(self._left):
            (self.path / self._left).unlink(missing_ok=True)
        self.records |= dict.fromkeys(names)
        self._save(self._temporary)

    def write(self, file: _File) -> None:
        earlier = self._state(file.name)
        mtime_ns = file.mtime_ns
        if earlier and mtime_ns is not None and mtime_ns <= earlier[1]:
            mtime_ns = None  # now: of two files of one size and time, a server thinks that they are the same
        self._put(file.name, file.blocks(), mtime_ns)
        state = self._state(file.name)
        self.records[file.name] = _Record(file.etag, *state) if state else None

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)  # of a link, the link
        del self.records[name]

    def save(self) -> None:
        self._save(None)

    def _put(self, name: str, blocks: Iterable[bytes], mtime_ns: int | None = None) -> None:
        temporary = self.path / self._temporary
        try:
            with temporary.open("xb") as file:  # exclusive: it follows no link
                file.writelines(blocks)
            if mtime_ns is not None:
                os.utime(temporary, ns=(mtime_ns, mtime_ns))
            temporary.replace(self.path / name)  # of a link, the link itself
        finally:
            temporary.unlink(missing_ok=True)

    def _state(self, name: str) -> tuple[int, int] | None:
        """Size and time of a file; None if it is not there or is none."""
        path = self.path / name
        if path.is_symlink() or not path.is_file():
            return None
        stat = path.stat()
        return stat.st_size, stat.st_mtime_ns

    def _manifest(self) -> Mapping[str, object]:
        path = self.path / MANIFEST
        if path.is_symlink() or not path.is_file():
            return {}
        try:
            manifest = json.loads(path.read_bytes())
        except ValueError:
            return {}
        return manifest if isinstance(manifest, dict) and manifest.get("format") == FORMAT else {}

    def _save(self, temporary: str | None) -> None:
        manifest = {"format": FORMAT, "temporary": temporary, "files": dict(sorted(self.records.items()))}
        self._put(MANIFEST, [json.dumps(manifest, indent=0).encode()])


def _records(files: object) -> dict[str, _Record | None]:
    """The records in a manifest, which anybody may have written to: only names and values of the right form."""
    if not isinstance(files, dict):
        return {}
    return {name: _record(value) for name, value in files.items() if _OURS.fullmatch(name)}


def _record(value: object) -> _Record | None:
    match value:
        case [str(etag), int(size), int(mtime_ns)]:
            return _Record(etag, size, mtime_ns)
    return None
