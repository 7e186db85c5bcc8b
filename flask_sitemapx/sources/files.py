"""Files by path or address: what tells that they stand, and their bytes, decompressed."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO, Protocol

from ..errors import ConfigurationError, Unreadable

SETTLED = 2.0
"""Seconds after which a change of a file is sure to show in its times, which file systems note in steps."""
MAX_RATIO = 500
"""Bytes that one compressed byte may become, after the first `FREE`; xz makes 200 of regular addresses."""
FREE = 16 * 1024 * 1024


class File(Protocol):
    """A file that is there, or may come."""

    @property
    def address(self) -> str:
        """Where it is, to be told to anyone."""
        ...

    def version(self, now: float) -> str | None:
        """A text that stands while the file does, or None if that cannot be told *now*. Raises as `opened`."""
        ...

    def opened(self) -> BinaryIO:
        """Its bytes, decompressed. Raises OSError or `Unreadable`, also at the place where they are damaged."""
        ...


def file_at(address: str, directory: Path) -> File:
    """The file at a path, which begins in *directory*, or at an address of fsspec, such as ``s3://bucket/a.csv``."""
    return FsspecFile(address) if "://" in address or "::" in address else LocalFile(address, directory)


class LocalFile:
    """A file of this machine."""

    def __init__(self, address: str, directory: Path) -> None:
        self.address = address
        self._path = directory / address

    def version(self, now: float) -> str | None:
        found = self._stat()
        is_settled = found.st_mtime < now - SETTLED
        return f"{found.st_size} {found.st_mtime_ns} {found.st_ino}" if is_settled else None

    def opened(self) -> BinaryIO:
        self._stat()
        return decompressed(open(self._path, "rb"), self.address)

    def _stat(self) -> os.stat_result:
        found = os.stat(self._path)
        if not S_ISREG(found.st_mode):  # a pipe would be waited for
            raise OSError(f"{self._path} is no file")
        return found


class FsspecFile:
    """A file in whatever fsspec opens. What it needs for that is asked of the environment, by fsspec itself."""

    def __init__(self, url: str) -> None:
        self.address = _told(url)
        self._url = url
        self._is_http = url.startswith(("http://", "https://"))

    def version(self, now: float) -> str | None:
        with self._telling():
            system, path = self._found()
            system.invalidate_cache()
            info = {name.lower().replace("-", "").replace("_", ""): value for name, value in system.info(path).items()}
        tags = {name: str(info[name]) for name in _TAGS if info.get(name)}
        return f"{info.get('size')} {tags}" if tags else None

    def opened(self) -> BinaryIO:
        options = {"block_size": 0} if self._is_http else {}  # in one piece: not every server knows ranges
        with self._telling():
            system, path = self._found()
            file = system.open(path, "rb", **options)
        return decompressed(io.BufferedReader(_ToItsEnd(file)), self.address)

    def _found(self) -> tuple[Any, str]:
        """The file system, and the path in it."""
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            text = f"{self.address} is opened by fsspec: pip install 'flask-sitemapx[files]'"
            raise ConfigurationError(text) from None
        try:
            system, path = url_to_fs(self._url, **(_http_options() if self._is_http else {}))
        except (ImportError, ValueError) as error:  # the library for it is missing; the protocol is unknown
            raise ConfigurationError(f"{self.address} cannot be opened: {_told(str(error))}") from None
        return system, str(path)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except ConfigurationError:
            raise
        except Exception as error:  # of any library, and with the whole address in its text
            text = f"{self.address} cannot be opened: {type(error).__name__}: {_told(str(error))}"
            raise Unreadable(text) from None


_SECRET = re.compile(r"(?<=://)[^/@\s]*@|(?<=\?)[^\s'\",)]+")


def _told(text: str) -> str:
    """*text* without what gives access in the URLs in it: names and passwords, and queries, which may be signed."""
    return _SECRET.sub("…", text)


def _http_options() -> dict[str, Any]:
    """To wait a minute for bytes, and not, as by default, five for all of them."""
    from aiohttp import ClientTimeout

    return {"client_kwargs": {"timeout": ClientTimeout(total=None, sock_connect=30, sock_read=60)}}


class _ToItsEnd(io.RawIOBase):
    """A *file* that is not read any more after its end, as gzip does, and aiohttp complains of."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._has_ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = 0 if self._has_ended else int(self._file.readinto(buffer))
        self._has_ended = count == 0
        return count

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        self._file.close()
        super().close()


# What file systems call what changes with a file; not `ukey`, which is made of the address alone for HTTP.
_TAGS = ("etag", "contentmd5", "md5hash", "digest", "lastmodified", "mtime", "updated")


# Decompression --------------------------------------------------------------------------------------------------------

_OPENERS = {b"\x1f\x8b": gzip.GzipFile, b"BZh": bz2.BZ2File, b"\xfd7zXZ\x00": lzma.LZMAFile}
_REFUSED = {
    b"\x28\xb5\x2f\xfd": "zstd; what is read is gzip, bzip2 and xz",
    b"PK\x03\x04": "a zip archive; what is read is gzip, bzip2 and xz",
    b"\xff\xfe": "UTF-16; save it as UTF-8",
    b"\xfe\xff": "UTF-16; save it as UTF-8",
}


def decompressed(file: BinaryIO, address: str) -> BinaryIO:
    """The bytes of *file*, which is closed with it, as its first ones tell that they are to be read."""
    start = file.peek(8)  # type: ignore[attr-defined]
    for magic, kind in _REFUSED.items():
        if start.startswith(magic):
            file.close()
            raise Unreadable(f"{address} is {kind}")
    opener: Any = next((opener for magic, opener in _OPENERS.items() if start.startswith(magic)), None)
    if opener is None:
        return file
    plain = opener(fileobj=file) if opener is gzip.GzipFile else opener(file)
    return io.BufferedReader(_Bounded(plain, file, address))


class _Bounded(io.RawIOBase):
    """What *plain* makes of *compressed*, as long as it does not grow out of all proportion."""

    def __init__(self, plain: Any, compressed: BinaryIO, address: str) -> None:
        self._plain = plain
        self._compressed = compressed
        self._address = address
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            count: int = self._plain.readinto(buffer)
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            raise Unreadable(f"{self._address} cannot be decompressed: {error}") from error
        self._count += count
        if self._count > FREE + MAX_RATIO * self._compressed.tell():
            raise Unreadable(f"{self._address} grows more than {MAX_RATIO} times as it is decompressed")
        return count

    def close(self) -> None:
        if not self.closed:
            self._plain.close()
            self._compressed.close()
        super().close()
