"""Where a site is (`BaseUrl`), and the addresses that its sitemaps may list: absolute, percent-encoded, XML-escaped.

sitemaps.org: a loc starts with the scheme, is shorter than 2,048 characters, follows RFC 3986 and 3987, has its
entities escaped, and lies on the sitemap's own scheme, host and port, at or below the sitemap's directory.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import Any, NamedTuple
from urllib.parse import quote

from ..errors import ConfigurationError, InvalidEntry

MAX_LENGTH = 2_047  # sitemaps.org: "This value must be less than 2,048 characters"; of the URL, so before XML escaping

PLACEHOLDER_ORIGIN = "http://sitemapx.invalid"  # RFC 6761 6.4: a name that is never anyone's
PLACEHOLDER_WEIGHT = 280
"""What the placeholder counts for wherever lengths are limited: no base URL is longer."""


@dataclass(frozen=True, slots=True)
class BaseUrl:
    """The scheme, host, port and mount point of every loc of a site.

        base = BaseUrl.parse("https://example.com/shop/")
        base.loc("/cart")                             # 'https://example.com/shop/cart'
        base.loc("https://example.com/shop/a b?c&d")  # 'https://example.com/shop/a%20b?c&amp;d'

    *origin* is in lower case and punycode, without a default port; *mount* is empty or starts with a slash and does
    not end in one.
    """

    origin: str
    mount: str = ""

    @classmethod
    def parse(cls, text: str) -> BaseUrl:
        """The site at an `http` or `https` URL without user, query and fragment. Raises ConfigurationError."""
        try:
            return _parsed(text)
        except ValueError as error:
            raise ConfigurationError(f"base URL {text!r}: {error}") from None

    @property
    def text(self) -> str:
        """What stands before the path of every loc: origin and mount; one NUL for PLACEHOLDER. Safe in XML as it is."""
        return "\0" if self.is_placeholder else self.origin + self.mount

    @property
    def is_placeholder(self) -> bool:
        return self.origin == PLACEHOLDER_ORIGIN

    def loc(self, text: object) -> str:
        """The loc of a path inside the application, or of an absolute URL of the site.

        What is percent-encoded already stays as it is, a stray `%` becomes `%25`, white space around is dropped.
        Raises InvalidEntry.
        """
        tail = self._tail(_clean(text))
        if self._weight + len(tail) > MAX_LENGTH:
            raise _too_long(text)
        return escaped(self.text + tail)

    def locs(self, column: Sequence[Any]) -> list[str] | None:
        """What `loc` makes of each text, by tests of the whole column, or None if they need a look one by one."""
        if set(map(type, column)) != {str}:
            return None
        lines = "\n" + "\n".join(column)
        if lines.count("\n") != len(column) or not _is_clean(lines):
            return None
        prefix = self._common_prefix(lines, len(column))
        if prefix is None or max(map(len, column)) - len(prefix) + self._weight > MAX_LENGTH:
            return None
        if "&" in lines or "'" in lines:
            column = escaped(lines[1:]).split("\n")
        return list(column) if prefix == self.text else self._moved(column, len(prefix))

    def ready_loc(self, loc: str) -> str:
        """The finished *loc* itself. Raises InvalidEntry if it is too long or has dot segments."""
        if _DOT_SEGMENT.search(loc.partition("?")[0]):
            raise _dot_segment(loc)
        if len(loc.replace("&amp;", "&").replace("&apos;", "'")) + self._extra_weight > MAX_LENGTH:
            raise _too_long(loc)
        return loc

    def ready_locs(self, column: Sequence[Any]) -> list[str] | None:
        """The column, if `ready_loc` takes all of it, or None if they need a look one by one."""
        try:
            lines = "\n".join(column)
        except TypeError:
            return None
        if _SLASH_DOT.search(lines) or max(map(len, column), default=0) + self._extra_weight > MAX_LENGTH:
            return None
        return list(column)

    def link(self, text: object) -> str:
        """The absolute URL, as XML, of a path inside the application or of a page or file on any host.

        Raises InvalidEntry.
        """
        url = _clean(text)
        if url.startswith("/") and not url.startswith("//"):
            return self.loc(url)
        found = _ABSOLUTE.fullmatch(url)
        if found is None:
            raise InvalidEntry("loc-relative", url, "a loc is a path that starts with one slash, or an absolute URL")
        scheme, authority, path = found.groups()
        link = f"{_named_origin(url, scheme, authority)}{_encoded(path if path.startswith('/') else f'/{path}')}"
        if len(link) > MAX_LENGTH:
            raise _too_long(text)
        return escaped(link)

    def links(self, column: Sequence[Any]) -> list[str] | None:
        """What `link` makes of each text, by tests of the whole column, or None if they need a look one by one."""
        links = self.locs(column)
        if links is not None or set(map(type, column)) != {str}:
            return links
        lines = "\n" + "\n".join(column)
        origins = _ORIGINS.findall(lines)
        if len(origins) != len(column) or lines.count("\n") != len(column) or not _is_clean(lines):
            return None
        if max(map(len, column)) > MAX_LENGTH or not all(map(_is_origin, set(origins))):
            return None
        return escaped(lines[1:]).split("\n") if "&" in lines or "'" in lines else list(column)

    @property
    def _weight(self) -> int:
        return PLACEHOLDER_WEIGHT if self.is_placeholder else len(self.text)

    @property
    def _extra_weight(self) -> int:
        return self._weight - len(self.text)

    def _common_prefix(self, lines: str, count: int) -> str | None:
        if lines.startswith("\n/"):
            return None if _NO_PATH.search(lines) else ""
        prefix = self.origin + self.mount
        return prefix if lines.count(f"\n{prefix}/") == count else None

    def _moved(self, column: Sequence[str], start: int) -> list[str]:
        text = self.text
        return [f"{text}{loc[start:]}" for loc in column]

    def _tail(self, url: str) -> str:
        """The path and query of *url*, percent-encoded, from the mount on."""
        if url.startswith("/") and not url.startswith("//"):
            return _encoded(url)
        found = _ABSOLUTE.fullmatch(url)
        if found is None:
            raise InvalidEntry("loc-relative", url, "a loc is a path that starts with one slash, or an absolute URL")
        scheme, authority, path = found.groups()
        self._require_origin(url, scheme, authority)
        path = _encoded(path if path.startswith("/") else f"/{path}")
        if not _upper_percents(path).startswith(f"{self.mount}/"):
            raise InvalidEntry("loc-mount", url, f"a sitemap lists only what lies below its directory, {self.mount}/")
        return path[len(self.mount) :]

    def _require_origin(self, url: str, scheme: str, authority: str | None) -> None:
        theirs = _named_origin(url, scheme, authority)
        for part, own, other in zip(_Origin._fields, _origin(*self.origin.split("://")), theirs, strict=True):
            if own != other:
                raise self._foreign(url, part)

    def _foreign(self, url: str, part: str) -> InvalidEntry:
        if self.is_placeholder:
            return InvalidEntry("loc-no-base-url", url, "absolute URLs need the site's name: set SITEMAP_BASE_URL")
        return InvalidEntry(f"loc-{part}", url, f"a sitemap of {self.origin} does not list URLs of another {part}")


PLACEHOLDER = BaseUrl(PLACEHOLDER_ORIGIN)
"""The site whose name is not known yet: its `text` is one NUL, which no document may hold, for the name to replace."""


def escaped(text: str) -> str:
    """The percent-encoded *text* as XML: `&` and `'` are all that is left to escape, as sitemaps.org shows it."""
    text = text.replace("&", "&amp;")
    return text.replace("'", "&apos;") if "'" in text else text


# One loc --------------------------------------------------------------------------------------------------------------

_XML_SPACE = " \t\r\n"
_ABSOLUTE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/?]*))?(.*)")
_ILLEGAL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")  # XML 1.0 2.2, and the other control characters
_DOT_SEGMENT = re.compile(r"/(?:\.|%2e){1,2}(?:/|\Z)", re.IGNORECASE)
_STRAY_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")
_SAFE = "/?:@!$&'()*+,;=-._~%"  # RFC 3986: pchar, "/" and "?"; brackets belong in IPv6 hosts alone


def _clean(text: object) -> str:
    if not isinstance(text, str):
        raise InvalidEntry("loc-type", text, "a loc is a text")
    url = str.strip(text, _XML_SPACE)  # not text.strip(): a subclass may answer with something else
    if not url:
        raise InvalidEntry("loc-empty", text, "a loc is not empty")
    if _ILLEGAL.search(url):
        raise InvalidEntry("loc-control-character", text, "a loc holds no control characters, nor what XML forbids")
    if "#" in url:
        raise InvalidEntry("loc-fragment", text, "a loc has no fragment")
    return url


def _encoded(path_and_query: str) -> str:
    if _DOT_SEGMENT.search(path_and_query.partition("?")[0]):
        raise _dot_segment(path_and_query)
    return quote(_STRAY_PERCENT.sub("%25", path_and_query), safe=_SAFE)


def _named_origin(url: str, scheme: str, authority: str | None) -> _Origin:
    """The origin of *url*, which consists of *scheme*, *authority* and more. Raises InvalidEntry."""
    if authority is not None and "@" in authority:
        raise InvalidEntry("loc-user-info", url, "a loc carries no user name or password")
    if authority is None or scheme.lower() not in _DEFAULT_PORTS:
        raise InvalidEntry("loc-scheme", url, "a loc starts with http:// or https://")
    try:
        return _origin(scheme.lower(), authority)
    except ValueError as error:
        raise InvalidEntry("loc-host", url, str(error)) from None


def _dot_segment(loc: str) -> InvalidEntry:
    return InvalidEntry("loc-dot-segment", loc, "a loc has no '.' or '..' segments, which readers resolve")


def _too_long(loc: object) -> InvalidEntry:
    return InvalidEntry("loc-length", loc, f"a loc has at most {MAX_LENGTH} characters")


# Many locs ------------------------------------------------------------------------------------------------------------

_LEGAL = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789" + _SAFE.encode() + b"\n"
_NO_PATH = re.compile("\n(?!/(?!/))")
_SLASH_DOT = re.compile(r"/\.")  # twice as fast as `"/." in lines`
_PERCENT_TROUBLE = re.compile("%(?:2[Ee]|(?![0-9A-Fa-f]{2}))")
_ORIGINS = re.compile("\n(https?)://([a-z0-9.-]+)(?=/(?!/))")


def _is_origin(pair: tuple[str, str]) -> bool:
    """Whether scheme and host are an origin in its usual form."""
    try:
        return str(_origin(*pair)) == "://".join(pair)
    except ValueError:
        return False


def _is_clean(lines: str) -> bool:
    """Whether nothing in *lines* needs encoding or refusing; may say no to what is only unusual."""
    if not lines.isascii() or lines.encode().translate(None, _LEGAL):
        return False
    return not _SLASH_DOT.search(lines) and ("%" not in lines or not _PERCENT_TROUBLE.search(lines))


# The site -------------------------------------------------------------------------------------------------------------

_DEFAULT_PORTS = {"http": 80, "https": 443}
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]*)(?::([0-9]{0,5}))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")  # RFC 1123 2.1; the underscore is not, but in use
_PERCENT = re.compile("%[0-9A-Fa-f]{2}")
_CHANGED_BY_IDNA_2003 = frozenset("ßẞς\u200c\u200d")  # Unicode TR 46, "Deviations"


class _Origin(NamedTuple):
    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        port = "" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}"


def _parsed(text: object) -> BaseUrl:
    found = _ABSOLUTE.fullmatch(str.strip(text, _XML_SPACE)) if isinstance(text, str) else None
    if found is None or found[1].lower() not in _DEFAULT_PORTS or found[2] is None:
        raise ValueError("it must be written like 'https://example.com'")
    if "@" in found[2]:
        raise ValueError("it must not hold a user name or password")
    base = BaseUrl(str(_origin(found[1].lower(), found[2])), _mount(found[3]))
    if base.is_placeholder:
        raise ValueError("this name is reserved")
    if len(base.text) > PLACEHOLDER_WEIGHT:
        raise ValueError(f"it must have at most {PLACEHOLDER_WEIGHT} characters")
    return base


def _mount(path: str) -> str:
    for character in _ILLEGAL.findall(path) + [c for c in "?#&'" if c in path]:
        raise ValueError(f"its path must not hold {character!r}")
    path = path.rstrip("/")
    if "//" in path or _DOT_SEGMENT.search(path):
        raise ValueError("its path must not hold empty or dot segments")
    return _upper_percents(_encoded(path))


def _upper_percents(path: str) -> str:
    return _PERCENT.sub(lambda found: found[0].upper(), path)  # RFC 3986 6.2.2.1


@lru_cache(maxsize=64)
def _origin(scheme: str, authority: str) -> _Origin:
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        raise ValueError(f"{authority!r} is not a host name with an optional port")
    port = int(found[2] or _DEFAULT_PORTS[scheme])
    if not 0 < port < 65_536:
        raise ValueError(f"port {port} does not exist")
    return _Origin(scheme, _host(found[1]), port)


def _host(name: str) -> str:
    if name.startswith("["):
        return f"[{_ipv6(name[1:-1])}]"
    host = (name if name.isascii() else _punycode(name)).lower()
    labels = host.split(".")
    if len(host) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(f"{name!r} is not a host name")
    if labels[-1].isdigit():
        IPv4Address(host)
    return host


def _ipv6(address: str) -> str:
    if "%" in address:
        raise ValueError("an IPv6 address with a zone means something on this machine only")
    return str(IPv6Address(address))


def _punycode(name: str) -> str:
    """*name* by IDNA 2003, which the standard library has, refused where browsers by now go elsewhere."""
    changed = _CHANGED_BY_IDNA_2003.intersection(name)
    if changed:
        raise ValueError(f"IDNA 2003 would change {''.join(sorted(changed))!r} in {name!r}; write {_idna_2008(name)!r}")
    return name.encode("idna").decode("ascii")


def _idna_2008(name: str) -> str:
    labels = unicodedata.normalize("NFC", name.lower()).split(".")
    return ".".join(label if label.isascii() else f"xn--{label.encode('punycode').decode('ascii')}" for label in labels)
