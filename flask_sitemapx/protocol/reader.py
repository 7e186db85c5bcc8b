"""The bytes of any sitemap in, entries out: XML, feeds and plain text, in any length, from anyone.

Nothing that a document says makes the reader open, fetch or expand anything, and each dimension in which a document
can grow has a limit.
"""

from __future__ import annotations

import re
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from itertools import chain
from typing import Any, Literal, NamedTuple, NoReturn, Protocol, TypeAlias, runtime_checkable
from xml.parsers import expat

from ..errors import InvalidEntry, Unreadable, shown
from .documents import NAMESPACE
from .entries import NO_EXTRAS, UrlEntry
from .read_extensions import NO_EXTENSIONS, Alternate, Extension, Extensions, extras_of
from .w3c_datetime import w3c_datetime

BLOCK = 64 * 1024
MAX_VALUE = 100  # Yandex, "Sitemap errors": of lastmod, changefreq and priority

Kind: TypeAlias = Literal["urlset", "sitemapindex", "text", "atom", "rss"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Where reading is given up; the defaults leave room above what sitemaps.org allows.

        Limits(size=1_000_000, entries=500)

    *size*: bytes, of the document as of what is compressed. *entries*: entries, or lines of a text. *ratio*: bytes
    that may come out of a compressed one, after the first MiB. *members*: gzip members. *entry_size*: bytes of an
    entry with its extensions. *tag*: bytes of a tag or comment. *text*: characters of a text, bytes of a line.
    *elements*: elements. *depth*: elements inside each other. *attributes*: of an element. *names*: different names
    of elements, attributes and namespaces. *problems*: problems that are reported; later ones are passed over.
    """

    size: int = 64 * 1024 * 1024
    entries: int = 100_000
    ratio: int = 200
    members: int = 10_000
    entry_size: int = 2 * 1024 * 1024
    tag: int = 256 * 1024
    text: int = 64 * 1024
    elements: int = 2_500_000
    depth: int = 32
    attributes: int = 64
    names: int = 2_000
    problems: int = 1_000


class Problem(NamedTuple):
    """What is wrong with a document that can be read all the same; *line* and *offset* as of `Unreadable`."""

    rule: str
    explanation: str
    line: int | None = None
    offset: int | None = None


@dataclass(slots=True)
class ReadEntry(UrlEntry):
    """An entry of a urlset, a text or a feed, the *line* that it begins in, and its *extensions* as they are written.

    Its *extras* are what a section may state, so that it may yield the entry as it is; the gate checks them.

    Its loc is as it was written, without the white space around it. Its lastmod is a W3C Datetime text in UTC, as
    `w3c_datetime` makes it; its changefreq one of the seven words; its priority a float.
    """

    extensions: Extensions = NO_EXTENSIONS
    line: int = 0


@dataclass(frozen=True, slots=True)
class ChildSitemap:
    """A sitemap that an index lists; *loc* and *lastmod* as of a `ReadEntry`."""

    loc: str
    lastmod: str | None = None
    line: int = 0


Report: TypeAlias = Callable[[Problem], object]


@runtime_checkable
class BinaryFile(Protocol):
    def read(self, size: int, /) -> bytes: ...


Source: TypeAlias = BinaryFile | bytes | Iterable[bytes]


class SitemapReader:
    """The entries of one document, to be iterated over once.

        problems = []
        reader = SitemapReader(file, report=problems.append)
        reader.kind     # 'urlset'; of a 'sitemapindex', entries are ChildSitemap, else ReadEntry
        for entry in reader: ...

    *source* is a binary file, bytes, or an iterable of bytes such as a response's. It is read in blocks as entries are
    asked for. Gzip is known by its first bytes, as are text and XML in UTF-8, UTF-16 or with an encoding declared.

    Values that cannot be read are None, entries without loc are left out, and both are passed to *report*. Raises
    Unreadable when there is nothing to be read, at birth if that is known before the kind is, else after all entries
    before the fault have been given out. What *source* raises is passed on.
    """

    def __init__(self, source: Source, *, limits: Limits | None = None, report: Report | None = None) -> None:
        self.limits = limits or Limits()
        self.size = 0
        """Bytes read so far, decompressed; after the last entry the size of the document."""
        self._report = report
        self._reported = 0
        self._form: _Form
        self._batches = self._read(self._measured(_decompressed(_evened(_blocks(source)), self.limits, self._problem)))
        self._first = next(self._batches)
        self.kind: Kind = self._form.kind or "text"

    def __iter__(self) -> Iterator[ReadEntry | ChildSitemap]:
        yield from self._first
        self._first = []
        for batch in self._batches:
            yield from batch

    def _read(self, blocks: Iterator[bytes]) -> Iterator[list[ReadEntry | ChildSitemap]]:
        form, blocks = _recognised(blocks, self.limits, self._problem)
        self._form = form
        try:
            for block in blocks:
                form.feed(block)
                if form.kind is not None:
                    yield form.taken()
            form.close()
        except Unreadable:
            if form.kind is not None:
                yield form.taken()
            raise
        yield form.taken()

    def _measured(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        for block in blocks:
            self.size += len(block)
            if self.size > self.limits.size:
                raise Unreadable(f"the document is larger than {self.limits.size:,} bytes")
            yield block

    def _problem(self, rule: str, explanation: str, line: int | None = None, offset: int | None = None) -> None:
        self._reported += 1
        if self._report is not None and self._reported <= self.limits.problems:
            self._report(Problem(rule, explanation, line, offset))


_Tell: TypeAlias = Callable[[str, str, int | None, int | None], None]
"""Where a rule, an explanation, a line and an offset go."""


# From the source to plain bytes ---------------------------------------------------------------------------------------


def _blocks(source: Source) -> Iterator[bytes]:
    if isinstance(source, bytes | bytearray | memoryview):
        return iter([bytes(source)])
    return _read_blocks(source) if isinstance(source, BinaryFile) else iter(source)


def _read_blocks(file: BinaryFile) -> Iterator[bytes]:
    while block := file.read(BLOCK):
        yield block


def _evened(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """*blocks* in the size that parsers are fed with: expat reads an unfinished tag again at each feed."""
    held = bytearray()
    try:
        for block in blocks:
            for start in range(0, len(block), BLOCK):
                held += block[start : start + BLOCK]
                if len(held) >= BLOCK:
                    yield bytes(held[:BLOCK])
                    del held[:BLOCK]
    except Exception:
        if held:
            yield bytes(held)
        raise
    if held:
        yield bytes(held)


def _decompressed(blocks: Iterator[bytes], limits: Limits, tell: _Tell) -> Iterator[bytes]:
    # Twice, since there are servers that compress what is a .gz file already.
    for layer in range(3):
        first = next(blocks, b"")
        blocks = chain([first], blocks)
        if not first.startswith(b"\x1f\x8b"):
            return blocks
        if layer == 1:
            tell("gzip-twice", "the document is compressed twice", None, None)
        blocks = _evened(_members(blocks, limits, tell))
    raise Unreadable("the document is compressed more than twice")


def _members(blocks: Iterator[bytes], limits: Limits, tell: _Tell) -> Iterator[bytes]:
    """The content of all gzip members of *blocks*, one after the other (RFC 1952 2.2)."""
    inflater = None
    read = written = members = 0
    for block in blocks:
        read += len(block)
        _refuse_endless(read, limits)
        data = block
        while data:
            if inflater is None:
                data = data.lstrip(b"\0")  # padding, as of tapes
                if not data:
                    break
                if data[0] != 0x1F:
                    tell("gzip-trailing", "bytes after the gzip members are left out", None, read - len(data))
                    return
                members += 1
                inflater = zlib.decompressobj(31)
            unharmed = inflater.copy()
            try:
                out = inflater.decompress(data, BLOCK)
            except zlib.error:
                yield from _until_fault(unharmed, data, read - len(data))
                raise
            written += len(out)
            _refuse_bomb(read, written, members, limits)
            yield out
            if inflater.eof:
                data, inflater = inflater.unused_data, None
            else:
                data = inflater.unconsumed_tail
    if inflater is not None:
        yield inflater.flush()
        raise Unreadable("gzip ends before its end", offset=read)


def _until_fault(inflater: Any, data: bytes, offset: int) -> Iterator[bytes]:
    """What zlib does not give out when it finds a fault in the same call."""
    for at in range(len(data)):
        try:
            yield inflater.decompress(data[at : at + 1])
        except zlib.error as error:
            raise Unreadable(f"gzip is damaged: {error}", offset=offset + at) from None


def _refuse_endless(read: int, limits: Limits) -> None:
    if read > limits.size:
        raise Unreadable(f"more than {limits.size:,} bytes are compressed", offset=read)


def _refuse_bomb(read: int, written: int, members: int, limits: Limits) -> None:
    if written > limits.ratio * read + 1024 * 1024:
        raise Unreadable(f"gzip holds more than {limits.ratio} times its size", offset=read)
    if members > limits.members:
        raise Unreadable(f"gzip has more than {limits.members:,} members", offset=read)


# What it is -----------------------------------------------------------------------------------------------------------


class _Form(Protocol):
    """A way of writing: takes blocks, holds the entries that they completed."""

    kind: Kind | None

    def feed(self, block: bytes) -> None: ...

    def close(self) -> None: ...

    def taken(self) -> list[ReadEntry | ChildSitemap]: ...


_SPACE = b" \t\r\n"
_UTF8 = re.compile(rb"""<\?xml[^>]*encoding\s*=\s*["']utf8["']""", re.IGNORECASE)  # no encoding's name, but in use


def _recognised(blocks: Iterator[bytes], limits: Limits, tell: _Tell) -> tuple[_Form, Iterator[bytes]]:
    """The form that the first characters tell, and what to feed it with."""
    lines = offset = 0
    for block in blocks:
        if block.startswith((b"<\0", b"\0<")):
            return _Xml(limits, tell, 0, 0), chain([block], blocks)
        if block.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
            is_xml = block.decode("utf-16", "replace").lstrip().startswith("<")
            blocks = chain([block], blocks)
            return (_Xml(limits, tell, 0, 0), blocks) if is_xml else (_Text(limits, tell, 0, 0), _utf8(blocks))
        content = block.removeprefix(BOM_UTF8).lstrip(_SPACE)
        before = block[: len(block) - len(content)]
        lines += before.replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n")
        offset += len(before)
        if content:
            blocks = chain([content], blocks)
            if not content.startswith(b"<"):
                return _Text(limits, tell, lines, offset), blocks
            if offset and before != BOM_UTF8:
                tell("space-before-xml", "white space stands before the XML", 1, 0)
            return _Xml(limits, tell, lines, offset, "UTF-8" if _UTF8.match(content) else None), blocks
    raise Unreadable("the document is empty")


def _utf8(blocks: Iterable[bytes]) -> Iterator[bytes]:
    decoder = getincrementaldecoder("utf-16")("replace")
    for block in blocks:
        yield decoder.decode(block).encode()
    yield decoder.decode(b"", final=True).encode()


# Text -----------------------------------------------------------------------------------------------------------------

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")


class _Text:
    """One URL a line."""

    def __init__(self, limits: Limits, tell: _Tell, lines: int, offset: int) -> None:
        self.kind: Kind | None = None
        self._limits = limits
        self._tell = tell
        self._line = lines
        self._offset = offset
        self._rest = b""
        self._entries: list[ReadEntry | ChildSitemap] = []

    def feed(self, block: bytes) -> None:
        lines = (self._rest + block).splitlines(keepends=True)
        self._rest = lines.pop() if lines else b""  # also if it has an end: LF may follow CR
        for line in lines:
            self._take(line)
        if len(self._rest) > self._limits.text:
            self._refuse_long()

    def close(self) -> None:
        if self._rest:
            self._take(self._rest)

    def taken(self) -> list[ReadEntry | ChildSitemap]:
        entries, self._entries = self._entries, []
        return entries

    def _take(self, line: bytes) -> None:
        self._line += 1
        offset, self._offset = self._offset, self._offset + len(line)
        if self._line > self._limits.entries:
            raise Unreadable(f"the document has more than {self._limits.entries:,} lines", self._line)
        if len(line) > self._limits.text:
            self._refuse_long()
        try:
            loc = line.decode().strip()
        except UnicodeDecodeError as error:
            loc = line.decode(errors="replace").strip()
            self._refuse("loc-encoding", f"not UTF-8: {shown(loc)}", offset + error.start)
            return
        if _URL.fullmatch(loc):
            self.kind = "text"
            self._entries.append(ReadEntry(loc, line=self._line))
        elif loc:
            self._refuse("loc-form", f"not one absolute URL: {shown(loc)}", offset)

    def _refuse(self, rule: str, explanation: str, offset: int) -> None:
        if self.kind is None:
            raise Unreadable(f"neither XML nor a list of URLs: {explanation}", self._line, offset)
        self._tell(rule, explanation, self._line, offset)

    def _refuse_long(self) -> NoReturn:
        raise Unreadable(f"a line has more than {self._limits.text:,} bytes", self._line, self._offset)


# XML ------------------------------------------------------------------------------------------------------------------


class _Grammar(NamedTuple):
    """Where the entries of a kind stand, and which of their children say what."""

    kind: Kind
    entry: str
    depth: int
    fields: dict[str, str]
    namespaces: tuple[str, ...]


_SITEMAPS = (NAMESPACE, "http://www.google.com/schemas/sitemap/0.84")
_ATOMS = ("http://www.w3.org/2005/Atom", "http://purl.org/atom/ns#")  # 1.0, 0.3
_SITEMAP_FIELDS = {"loc": "loc", "lastmod": "lastmod"}
_URL_FIELDS = _SITEMAP_FIELDS | {"changefreq": "changefreq", "priority": "priority"}

_GRAMMARS = {
    "urlset": _Grammar("urlset", "url", 2, _URL_FIELDS, _SITEMAPS),
    "sitemapindex": _Grammar("sitemapindex", "sitemap", 2, _SITEMAP_FIELDS, _SITEMAPS),
    "feed": _Grammar("atom", "entry", 2, {"link": "link", "updated": "lastmod", "modified": "lastmod"}, _ATOMS),
    "rss": _Grammar("rss", "item", 3, {"link": "loc", "pubDate": "lastmod"}, ("",)),
}

_SEPARATOR = "\x1f"  # of namespace and name; no XML document can hold it


def _qualified(namespace: str, name: str) -> str:
    return namespace + _SEPARATOR + name if namespace else name


_EXTENSIONS = {
    _qualified("http://www.w3.org/1999/xhtml", "link"): "alternates",
    _qualified("http://www.w3.org/TR/xhtml11/xhtml11_schema.html", "link"): "alternates",  # widely copied
    _qualified("http://www.google.com/schemas/sitemap-image/1.1", "image"): "images",
    _qualified("http://www.google.com/schemas/sitemap-video/1.1", "video"): "videos",
    _qualified("http://www.google.com/schemas/sitemap-news/0.9", "news"): "news",
}
"""The elements of a `<url>` that are kept, and the field of Extensions where."""


class _Xml:
    """What expat's events mean.

    Expat is told nothing about entities: a DOCTYPE that could declare some is refused before it does.
    """

    def __init__(self, limits: Limits, tell: _Tell, lines: int, offset: int, encoding: str | None = None) -> None:
        self.kind: Kind | None = None
        self._limits = limits
        self._tell = tell
        self._lines = lines
        self._offset = offset
        self._fed = 0
        self._names: dict[str, str] = {}
        self._parser = self._new_parser(encoding)
        self._depth = 0
        self._elements = 0
        self._count = 0
        self._entries: list[ReadEntry | ChildSitemap] = []
        self._is_open = False  # an entry is
        self._field: str | None = None  # the one whose text is read
        self._path: list[str] | None = None  # inside the extension that is read
        self._texts: list[tuple[str, str]] = []  # of that extension
        self._chunks: list[str] = []  # of a text

    def _new_parser(self, encoding: str | None) -> expat.XMLParserType:
        parser = expat.ParserCreate(encoding, _SEPARATOR, self._names)
        if hasattr(parser, "SetReparseDeferralEnabled"):  # entries before a fault would be held back
            parser.SetReparseDeferralEnabled(False)
        parser.buffer_text = True
        parser.XmlDeclHandler = self._declaration
        parser.StartDoctypeDeclHandler = self._doctype
        parser.SkippedEntityHandler = self._skipped_entity
        parser.StartNamespaceDeclHandler = lambda prefix, uri: None  # so that they count as names
        parser.StartElementHandler = self._root
        parser.EndElementHandler = self._end
        return parser

    def feed(self, block: bytes) -> None:
        self._fed += len(block)
        self._parse(block, False)
        self._refuse_growth()

    def close(self) -> None:
        self._parse(b"", True)

    def taken(self) -> list[ReadEntry | ChildSitemap]:
        entries, self._entries = self._entries, []
        return entries

    def _parse(self, block: bytes, is_final: bool) -> None:
        try:
            self._parser.Parse(block, is_final)
        except expat.ExpatError as error:
            offset = self._offset + self._parser.ErrorByteIndex
            reason = expat.errors.messages.get(error.code, str(error))
            raise Unreadable(f"not well-formed XML: {reason}", self._lines + error.lineno, offset) from None

    def _refuse_growth(self) -> None:
        """What a handler sees too late, or never: what is still unfinished."""
        limits = self._limits
        if self._fed - self._parser.CurrentByteIndex > limits.tag:
            raise self._fatal(f"a tag or comment is larger than {limits.tag:,} bytes")
        if self._is_open and self._fed - self._began > limits.entry_size:
            raise self._fatal(f"an entry is larger than {limits.entry_size:,} bytes")
        if sum(map(len, self._chunks)) > limits.text:
            raise self._long_text()
        if self._elements > limits.elements:
            raise self._fatal(f"the document has more than {limits.elements:,} elements")
        if len(self._names) > limits.names:
            raise self._fatal(f"the document has more than {limits.names:,} different names")

    def _fatal(self, message: str) -> Unreadable:
        return Unreadable(message, self._line(), self._offset + max(self._parser.CurrentByteIndex, 0))

    def _long_text(self) -> Unreadable:
        return self._fatal(f"a text has more than {self._limits.text:,} characters")

    def _line(self) -> int:
        return self._lines + self._parser.CurrentLineNumber

    def _told(self, rule: str, explanation: str) -> None:
        self._tell(rule, explanation, self._line(), self._offset + self._parser.CurrentByteIndex)

    # Before the root

    def _declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        if encoding is not None and not _is_known(encoding):
            raise self._fatal(f"unknown encoding {shown(encoding)}")

    def _doctype(self, name: str, system: str | None, public: str | None, has_internal_subset: bool) -> None:
        if has_internal_subset:
            raise self._fatal("a DOCTYPE with declarations is refused")
        self._told("doctype", "a sitemap has no DOCTYPE")

    def _skipped_entity(self, name: str, is_parameter: bool) -> None:
        raise self._fatal(f"entity {shown(name)} is not defined")

    def _root(self, qualified: str, attributes: dict[str, str]) -> None:
        namespace, _, name = qualified.rpartition(_SEPARATOR)
        grammar = _GRAMMARS.get(name)
        if grammar is None:
            raise self._fatal(f"the root element {shown(name)} is none of {', '.join(_GRAMMARS)}")
        self._refuse_attributes(attributes)
        if namespace not in grammar.namespaces:
            self._told("namespace", f"<{name}> is in namespace {shown(namespace)}, not {grammar.namespaces[0]!r}")
        # Without a namespace, too: some serializers write xmlns="" on what was made without one.
        namespaces = {namespace, "", *grammar.namespaces}
        self._entry_names = {_qualified(own, grammar.entry) for own in namespaces}
        self._fields = {_qualified(own, tag): field for own in namespaces for tag, field in grammar.fields.items()}
        self._entry_depth = grammar.depth
        self._readers = _FEED_READERS if grammar.kind == "rss" else _READERS
        self._depth = 1
        self.kind = grammar.kind
        self._parser.StartElementHandler = self._start

    # Elements

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        depth = self._depth = self._depth + 1
        self._elements += 1
        if attributes:
            self._refuse_attributes(attributes)
        if depth == self._entry_depth:
            if name in self._entry_names:
                self._open_entry()
        elif depth > self._limits.depth:
            raise self._fatal(f"elements are nested deeper than {self._limits.depth}")
        elif not self._is_open:
            return
        elif depth == self._entry_depth + 1:
            field = self._fields.get(name)
            if field is not None:
                self._open_field(field, attributes)
            elif name in _EXTENSIONS:
                self._path = []
                self._keep_attributes(attributes)
        elif self._path is not None:
            self._path.append(name.rpartition(_SEPARATOR)[2])
            self._keep_attributes(attributes)
            self._chunks.clear()
            self._parser.CharacterDataHandler = self._chunks.append

    def _end(self, name: str) -> None:
        depth = self._depth
        self._depth = depth - 1
        if not self._is_open:
            return
        if depth == self._entry_depth + 1:
            if self._field is not None:
                self._close_field(self._field)
            elif self._path is not None:
                self._close_extension(_EXTENSIONS[name])
        elif depth == self._entry_depth:
            self._close_entry()
        elif self._path is not None:
            text = self._text()
            if text:
                self._texts.append(("/".join(self._path), text))
            self._path.pop()

    def _refuse_attributes(self, attributes: dict[str, str]) -> None:
        if len(attributes) > self._limits.attributes:
            raise self._fatal(f"an element has more than {self._limits.attributes} attributes")

    def _open_entry(self) -> None:
        self._is_open = True
        self._began = self._parser.CurrentByteIndex
        self._entry_line = self._line()
        self._values: dict[str, Any] = {}
        self._extensions: dict[str, list[Any]] = {}

    def _open_field(self, field: str, attributes: dict[str, str]) -> None:
        if field != "link":
            self._field = field
            self._parser.CharacterDataHandler = self._chunks.append
        elif attributes.get("rel", "alternate") == "alternate":  # RFC 4287 4.2.7.2
            self._values.setdefault("loc", attributes.get("href", "").strip())

    def _close_field(self, field: str) -> None:
        self._field = None
        text = self._text()
        if not text:
            return
        if field in self._values:
            self._told(f"{field}-repeated", f"a second {field} is left out: {shown(text)}")
            return
        try:
            if len(text) > MAX_VALUE and field != "loc":
                raise InvalidEntry(f"{field}-length", text, f"{field} is longer than {MAX_VALUE} characters")
            self._values[field] = self._readers[field](text)
        except InvalidEntry as error:
            self._values[field] = None
            self._told(error.rule, str(error))

    def _text(self) -> str:
        self._parser.CharacterDataHandler = None  # which also empties expat's buffer
        text = "".join(self._chunks).strip()
        self._chunks.clear()
        if len(text) > self._limits.text:
            raise self._long_text()
        return text

    def _keep_attributes(self, attributes: dict[str, str]) -> None:
        for name, value in attributes.items():
            self._texts.append((f"{'/'.join(self._path or ())}@{name}", value.strip()))

    def _close_extension(self, field: str) -> None:
        extension, self._texts, self._path = Extension(self._texts), [], None
        if field != "alternates":
            self._extensions.setdefault(field, []).append(extension)
        elif extension.get("@rel") == "alternate" and (href := extension.get("@href")):
            self._extensions.setdefault(field, []).append(Alternate(extension.get("@hreflang"), href))

    def _close_entry(self) -> None:
        self._is_open = False
        self._count += 1
        if self._count > self._limits.entries:
            raise self._fatal(f"the document has more than {self._limits.entries:,} entries")
        values = self._values
        loc = values.get("loc")
        if not loc:
            self._tell("loc-missing", "an entry without loc is left out", self._entry_line, self._offset + self._began)
        elif self.kind == "sitemapindex":
            self._entries.append(ChildSitemap(loc, values.get("lastmod"), self._entry_line))
        else:
            get, found, extensions, extras = values.get, self._extensions, NO_EXTENSIONS, NO_EXTRAS
            if found:
                extensions = Extensions(**{field: tuple(found[field]) for field in found})
                extras = extras_of(extensions)
            line = self._entry_line
            entry = ReadEntry(loc, get("lastmod"), get("changefreq"), get("priority"), extras, extensions, line)
            self._entries.append(entry)


_ENCODING = re.compile(r"(?i)(ascii|iso|latin|windows|cp|koi8|mac)[-_a-z0-9]*")


def _is_known(encoding: str) -> bool:
    """Whether expat knows *encoding*, or Python as one of a byte a character, and as no codec of another kind."""
    if encoding.upper() in ("UTF8", "UTF-8", "UTF-16", "UTF-16BE", "UTF-16LE", "US-ASCII"):
        return True
    try:
        return bool(_ENCODING.fullmatch(encoding)) and len(bytes(range(256)).decode(encoding, "replace")) == 256
    except LookupError:
        return False


# Values ---------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4_096)
def _lastmod(text: str) -> str:
    return w3c_datetime(text, UTC)


@lru_cache(maxsize=4_096)
def _feed_date(text: str) -> str:
    """RSS 2.0: "All date-times in RSS conform to the Date and Time Specification of RFC 822"; not all do."""
    if text[:4].isdigit():
        return w3c_datetime(text, UTC)
    try:
        return w3c_datetime(parsedate_to_datetime(text), UTC)
    except (ValueError, TypeError, LookupError, OverflowError):
        raise InvalidEntry("lastmod-form", text, "pubDate is not written as in RFC 822") from None


_WORDS = ("always", "hourly", "daily", "weekly", "monthly", "yearly", "never")
_CHANGEFREQS = {spelling: word for word in _WORDS for spelling in (word, word.upper(), word.capitalize())}


def _changefreq(text: str) -> str:
    try:
        return _CHANGEFREQS[text]
    except KeyError:
        raise InvalidEntry("changefreq", text, f"changefreq is one of {' '.join(_WORDS)}") from None


_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)")


@lru_cache(maxsize=512)
def _priority(text: str) -> float:
    number = float(text) if _DECIMAL.fullmatch(text) else -1.0
    if not 0 <= number <= 1:
        raise InvalidEntry("priority", text, "priority is a number from 0.0 to 1.0")
    return number


_READERS: dict[str, Callable[[str], str | float]] = {
    "loc": str,
    "lastmod": _lastmod,
    "changefreq": _changefreq,
    "priority": _priority,
}
_FEED_READERS = _READERS | {"lastmod": _feed_date}
