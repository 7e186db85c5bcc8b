"""Elements of other namespaces inside of a `<url>`: how they are stated, and written as XML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias
from xml.sax.saxutils import escape, quoteattr

from ..errors import ConfigurationError, InvalidEntry

# XML 1.0 2.3, as far as it is ASCII; "xml" is reserved there.
_NAME = re.compile(r"(?!xml)[A-Za-z_][A-Za-z0-9_.-]*", re.IGNORECASE | re.ASCII)
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")  # XML 1.0 2.2
_LINE_ENDS = {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}

Namespaces: TypeAlias = tuple["Namespace", ...]


@dataclass(frozen=True, slots=True, order=True)
class Namespace:
    """A namespace and the *prefix* that stands for it; made once, it makes the elements that are in it.

        PAGEMAP = Namespace("pagemap", "http://www.google.com/schemas/sitemap-pagemap/1.0")
        PAGEMAP.element("PageMap", [PAGEMAP.element("DataObject", {"type": "document"})])

    Raises `ConfigurationError` for a prefix that is no name, or stands for another namespace in every sitemap.
    """

    prefix: str
    uri: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.prefix):
            raise ConfigurationError(f"the prefix {self.prefix!r} is no name of XML")
        if not self.uri or _ILLEGAL.search(self.uri) or any(character.isspace() for character in self.uri):
            raise ConfigurationError(f"the namespace {self.uri!r} is no URI")
        known = KNOWN.get(self.prefix)
        if known is not None and known.uri != self.uri:
            raise ConfigurationError(f"the prefix {self.prefix!r} stands for {known.uri} in a sitemap")

    def element(
        self,
        name: str,
        attributes: Mapping[str, str] | None = None,
        content: str | Sequence[Element] = "",
    ) -> Element:
        """An element of this namespace; its *content* is text or other elements."""
        return Element(self, name, attributes or {}, content)

    @property
    def declaration(self) -> str:
        """The attribute that declares it, with a space before."""
        return f" xmlns:{self.prefix}={quoteattr(self.uri)}"


KNOWN: dict[str, Namespace] = {}
"""Those that have a meaning to search engines, by prefix."""
KNOWN |= {
    namespace.prefix: namespace
    for namespace in (
        # Google, "Combine sitemap extensions", and the schemas that it names
        Namespace("image", "http://www.google.com/schemas/sitemap-image/1.1"),
        Namespace("news", "http://www.google.com/schemas/sitemap-news/0.9"),
        Namespace("video", "http://www.google.com/schemas/sitemap-video/1.1"),
        Namespace("xhtml", "http://www.w3.org/1999/xhtml"),
    )
}


@dataclass(frozen=True, slots=True)
class Element:
    """An element as `Namespace.element` makes it; checked when it is written."""

    namespace: Namespace
    name: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    content: str | Sequence[Element] = ""

    def xml(self) -> str:
        """The element on one line. Raises `InvalidEntry` for what XML does not allow."""
        attributes = "".join(f" {_name(name)}={quoteattr(_legal(text))}" for name, text in self.attributes.items())
        tag = f"{self.namespace.prefix}:{_name(self.name)}"
        if isinstance(self.content, str):
            content = xml_text(self.content)
        else:
            content = "".join(child.xml() for child in self.content)
        return f"<{tag}{attributes}>{content}</{tag}>" if content else f"<{tag}{attributes}/>"

    def namespaces(self) -> Iterator[Namespace]:
        """Those of the element and of all that is in it."""
        yield self.namespace
        if not isinstance(self.content, str):
            for child in self.content:
                yield from child.namespaces()


def xml_text(text: str) -> str:
    """*text* as XML on one line. Raises `InvalidEntry` for characters that XML does not allow."""
    return escape(_legal(text), _LINE_ENDS)


def packed(namespaces: Iterable[Namespace]) -> str:
    """*namespaces* as one text that holds no more than it must: those that are known by their prefix alone."""
    return " ".join(one.prefix if one == KNOWN.get(one.prefix) else f"{one.prefix}={one.uri}" for one in namespaces)


@lru_cache(maxsize=64)
def unpacked(text: str) -> Namespaces:
    """What `packed` made *text* of."""
    pairs = (one.partition("=") for one in text.split())
    return tuple(Namespace(prefix, uri) if uri else KNOWN[prefix] for prefix, _, uri in pairs)


def _name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidEntry("element-name", name, "an element or attribute has a name that XML allows")
    return name


def _legal(text: object) -> str:
    if not isinstance(text, str):
        raise InvalidEntry("element-text", text, "the text of an element is text")
    if _ILLEGAL.search(text):
        raise InvalidEntry("element-character", text, "a text holds no characters that XML does not allow")
    return text
