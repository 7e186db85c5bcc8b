"""Rules for crawlers in, the text of robots.txt out (RFC 9309)."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from urllib.parse import quote

from ..errors import ConfigurationError

logger = logging.getLogger(__name__)

MAX_BYTES = 512_000  # RFC 9309 2.5: crawlers parse at least 500 KiB (kibibytes)
MAX_BYTES_RULE = "at most 500 KiB, since crawlers may ignore the rest (RFC 9309 2.5)"
LONG_TEXT = 10_000  # characters; trafilatura ignores a longer robots.txt
MAX_CRAWL_DELAY = 86_400  # seconds: a day
LONGEST_SITEMAP = f"https://{'x' * 272}/sitemap.xml"  # a base URL has at most 280 characters
CLOSED_TEXT = "User-agent: *\nDisallow: /\n"

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_LONE_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")
_URI_CHARACTERS = "%:/?[]@!$&'()*+,;="  # RFC 3986 2.2, but for '#', which begins a comment; quote() adds the rest
_USER_AGENT = re.compile('[!"$-9;-~](?:[ !"$-9;-~]*[!"$-9;-~])?')  # printable ASCII but for '#' and ':'
_FREE_LINE = re.compile(r"([A-Za-z][A-Za-z0-9_-]*) *: *([^\s#](?:[^#]*[^\s#])?)")
_SITEMAP_URL = re.compile(r"(?:\0|https?://[^\s/?#]+)(?:[/?][^\s#]*)?", re.IGNORECASE)  # \0: an origin to be filled in
_ARGUMENTS = {
    "user-agent": "names",
    "useragent": "names",
    "allow": "allow=[...]",
    "disallow": "disallow=[...]",
    "crawl-delay": "crawl_delay=...",
}


class Robots:
    """The rules of one robots.txt; calling it adds a group.

    ::

        robots = Robots()
        robots(disallow=["/admin/"])
        robots("GPTBot", "CCBot", disallow=["/"], lines=["Content-Signal: ai-train=no"])
        robots.text(["https://example.com/sitemap.xml"])

    Calls from several threads are safe. A call that raises changes nothing.
    """

    def __init__(self) -> None:
        self._rules = _Rules()
        self._version = 0
        self._lock = threading.Lock()
        self._said_long = False

    def __call__(
        self,
        *user_agents: str,
        allow: Iterable[str] = (),
        disallow: Iterable[str] = (),
        crawl_delay: float | None = None,
        lines: Iterable[str] = (),
    ) -> None:
        """Add a group for *user_agents* (default: ``*``, every crawler without a group of its own).

        Groups of one crawler merge, as RFC 9309 2.2.1 has it, names compared without case. A crawler that has a group
        does not inherit the rules of ``*``. A group without any rule allows everything.

        A user agent is RFC 9309's product token (``A-Z a-z _ -``). Names in use go beyond it (``AI2Bot``,
        ``ChatGPT Agent``, ``iaskspider/2.0``) and crawlers read them, so all printable ASCII but ``#`` and ``:`` is
        taken.

        A path begins with ``/`` or ``*`` and may hold ``*`` (anything) and a closing ``$`` (the end); the longest
        matching one decides, *allow* on a tie. What no URI may hold, and ``#``, is percent-encoded; ``*`` and ``$``
        themselves are written ``%2A`` and ``%24``.

        *crawl_delay* is in seconds, above 0 and at most 86,400; a later one replaces an earlier one. *lines* are
        further ``Field: value`` lines of the group, such as ``Content-Signal``; a ``Sitemap`` among them must be an
        absolute URL and goes to the end of the file.

        Raises ConfigurationError, which names the value and the rule it breaks.
        """
        agents = [_user_agent(agent) for agent in user_agents or ("*",)]
        free, sitemaps = _free_lines(lines)
        group = _Group(
            allow=_paths("allow", allow),
            disallow=_paths("disallow", disallow),
            crawl_delay=_crawl_delay(crawl_delay),
            lines=free,
        )
        with self._lock:
            rules = self._rules.plus(agents, group, sitemaps)
            # With the longest line of ours, so that serving never finds it too long.
            _refuse_oversize(_text(rules.output([LONGEST_SITEMAP])))
            self._rules = rules
            self._version += 1

    @property
    def version(self) -> int:
        """A number that each call changes. Read it before the text that is to be kept under it."""
        return self._version

    def lines(self, sitemaps: Iterable[str] = ()) -> list[str]:
        """The lines of the whole file; the absolute URLs in *sitemaps* are named at its end."""
        return self._rules.output(_sitemap_url(url) for url in sitemaps)

    def text(self, sitemaps: Iterable[str] = ()) -> str:
        """The whole file. Said once in the log: that it is longer than some readers take."""
        return self._measured(_text(self.lines(sitemaps)))

    @staticmethod
    def closed_text() -> str:
        """The file of a site that no crawler should read, such as one under test: no path allowed, no sitemap named."""
        return CLOSED_TEXT

    def _measured(self, text: str) -> str:
        _refuse_oversize(text)
        if len(text) > LONG_TEXT and not self._said_long:
            self._said_long = True
            logger.warning(
                "robots.txt has %d characters; some crawlers ignore one of more than %d. Use fewer or shorter rules.",
                len(text),
                LONG_TEXT,
            )
        return text


def _refuse_oversize(text: str) -> None:
    size = len(text.encode())
    if size > MAX_BYTES:
        raise ConfigurationError(f"robots.txt would be {size:,} bytes long; it must be {MAX_BYTES_RULE}")


@dataclass(frozen=True, slots=True)
class _Group:
    """What holds for a crawler; equal groups are printed once."""

    allow: frozenset[str] = frozenset()
    disallow: frozenset[str] = frozenset()
    crawl_delay: str | None = None
    lines: tuple[str, ...] = ()

    def merged(self, later: _Group) -> _Group:
        return _Group(
            allow=self.allow | later.allow,
            disallow=self.disallow | later.disallow,
            crawl_delay=later.crawl_delay or self.crawl_delay,
            lines=_distinct((*self.lines, *later.lines)),
        )

    def output(self) -> list[str]:
        rules = [("Allow", path) for path in self.allow] + [("Disallow", path) for path in self.disallow]
        # Longest first, Allow before Disallow: for readers that stop at the first match, it is then the longest one.
        rules.sort(key=lambda rule: (-len(rule[1]), rule))
        # Without a rule, readers that know no other field would take the next group's agents for this one's.
        lines = [f"{name}: {path}" for name, path in rules] or ["Disallow:"]
        if self.crawl_delay is not None:
            lines.append(f"Crawl-delay: {self.crawl_delay}")
        return [*lines, *self.lines]


@dataclass(frozen=True, slots=True)
class _Rules:
    """All groups by the lower-case name of their crawler, each crawler in one: some readers see only its first."""

    names: dict[str, str] = field(default_factory=dict)
    groups: dict[str, _Group] = field(default_factory=dict)
    sitemaps: tuple[str, ...] = ()

    def plus(self, agents: Iterable[str], group: _Group, sitemaps: Iterable[str]) -> _Rules:
        names, groups = dict(self.names), dict(self.groups)
        for agent in agents:
            key = agent.lower()
            names.setdefault(key, agent)
            groups[key] = groups.get(key, _Group()).merged(group)
        return _Rules(names, groups, _distinct((*self.sitemaps, *sitemaps)))

    def output(self, sitemaps: Iterable[str] = ()) -> list[str]:
        lines: list[str] = []
        for group, agents in self._by_group().items():
            lines += [f"User-agent: {agent}" for agent in agents] + group.output() + [""]
        named = [f"Sitemap: {url}" for url in _distinct((*sitemaps, *self.sitemaps))]
        return lines + named if named else lines[:-1]

    def _by_group(self) -> dict[_Group, list[str]]:
        agents: dict[_Group, list[str]] = {}
        for key, group in self.groups.items():
            agents.setdefault(group, []).append(self.names[key])
        return agents or {_Group(): ["*"]}


def _text(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _user_agent(agent: str) -> str:
    if not isinstance(agent, str) or not _USER_AGENT.fullmatch(agent):
        raise ConfigurationError(
            f"robots.txt user agent {agent!r} must be printable ASCII without '#', ':' or white space at its ends; "
            "write the crawler's product token, such as 'GPTBot', or '*' (RFC 9309 2.2.1)"
        )
    return agent


def _paths(name: str, paths: Iterable[str]) -> frozenset[str]:
    return frozenset(_path(name, path) for path in _listed(name, paths, "/admin/"))


def _listed(name: str, values: Iterable[str], example: str) -> Iterable[str]:
    # A text is an iterable of its characters: disallow="/admin/" would close the whole site.
    if isinstance(values, str):
        raise ConfigurationError(
            f"robots.txt {name} must be a list, not the text {values!r}; write {name}=[{values or example!r}]"
        )
    return values


def _path(name: str, path: str) -> str:
    """*path* as a rule's value: a URI's path and query, in the characters that a URI may hold."""
    _check_path(name, path)
    encoded = quote(_LONE_PERCENT.sub("%25", path), safe=_URI_CHARACTERS)
    # RFC 9309 2.2 wants the slash that erratum 7995 leaves out; every path has it, so that both say the same.
    return "/" + encoded if encoded.startswith("*") else encoded


def _check_path(name: str, path: str) -> None:
    place = f"robots.txt {name} path {path!r}"
    if not isinstance(path, str) or not path.startswith(("/", "*")):
        raise ConfigurationError(
            f"{place} must begin with '/' or '*' (RFC 9309 2.2); write the path alone, such as '/admin/' or '*.pdf$'. "
            "To allow everything, write disallow=[]"
        )
    if _UNPRINTABLE.search(path):
        raise ConfigurationError(f"{place} holds a control character or a line break; write one path per item")
    if path != path.rstrip():
        raise ConfigurationError(f"{place} ends in white space, which no URL does; remove it, or write %20 for it")


def _crawl_delay(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not 0 < seconds <= MAX_CRAWL_DELAY:
        raise ConfigurationError(
            f"robots.txt crawl_delay {seconds!r} must be a number of seconds above 0 and at most {MAX_CRAWL_DELAY:,}"
        )
    # As few signs as possible: some readers take whole numbers only, none is known to need an exponent.
    return str(int(seconds)) if seconds == int(seconds) else format(Decimal(str(seconds)), "f")


def _free_lines(lines: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The lines that belong to the group, and the URLs of those that name a sitemap."""
    kept, sitemaps = [], []
    for line in _listed("lines", lines, "Content-Signal: ai-train=no"):
        name, value = _free_line(line)
        if name.lower() in ("sitemap", "site-map", "sitemaps"):
            sitemaps.append(_sitemap_url(value))
        else:
            kept.append(f"{name}: {value}")
    return _distinct(kept), _distinct(sitemaps)


def _free_line(line: str) -> tuple[str, str]:
    match = None if not isinstance(line, str) or _UNPRINTABLE.search(line) else _FREE_LINE.fullmatch(line)
    if match is None:
        raise ConfigurationError(
            f"robots.txt line {line!r} must be one 'Field: value' without '#' (a comment), line break or control "
            "character; write such as 'Content-Signal: ai-train=no'"
        )
    name, value = match.groups()
    if argument := _ARGUMENTS.get(name.lower()):
        raise ConfigurationError(f"robots.txt line {line!r} would change the group's own rules; give it as {argument}")
    return name, value


def _sitemap_url(url: str) -> str:
    if not isinstance(url, str) or not _SITEMAP_URL.fullmatch(url) or _UNPRINTABLE.search(url, 1):
        raise ConfigurationError(
            f"robots.txt Sitemap {url!r} must be an absolute URL without '#' or white space (sitemaps.org); "
            "write such as 'https://example.com/sitemap.xml'"
        )
    return url
