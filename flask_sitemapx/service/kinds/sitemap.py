"""Sections of the type `sitemap`: the sitemap, or the index, of another site or application."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import ConfigurationError
from ...protocol.locs import BaseUrl
from ...sources.fetching import Fetcher, FetchFailed, Target
from ...sources.parts import Source
from ...sources.remote import RemoteSource
from ..options import ONE_OR_MORE, SWITCH, TEXTS, Form, option, whole_number
from .directory import AT
from .kind import Place


def _urls(value: Any) -> tuple[str, ...]:
    try:
        return tuple(Target.of(url).url for url in ONE_OR_MORE.read(value))
    except FetchFailed as error:
        raise ValueError(f"cannot be fetched: {error}") from None


def _bases(value: Any) -> tuple[str, ...]:
    return tuple(BaseUrl.parse(text).text for text in ONE_OR_MORE.read(value))


def _hosts(value: Any) -> tuple[str, ...]:
    hosts: tuple[str, ...] = TEXTS.read(value)
    Fetcher((), hosts)
    return hosts


URLS = Form(_urls, ONE_OR_MORE.schema)
BASES = Form(_bases, ONE_OR_MORE.schema)
HOSTS = Form(_hosts, TEXTS.schema)


@dataclass(frozen=True)
class SitemapKind:
    """What other sitemaps list."""

    url: tuple[str, ...] = option(URLS, "The sitemap or index, or a list of several; compressed or not, XML or text.")
    replace: tuple[str, ...] = option(
        BASES,
        "The base URL below which its addresses are, or a list of several, in place of which they get that of this "
        "site: `http://app.internal:8000`.",
        (),
    )
    at: str = option(AT, "Where in this site these addresses are.", "/")
    hosts: tuple[str, ...] = option(
        HOSTS, "Further hosts, each alone or with its port, on which an index may have its sitemaps.", ()
    )
    private: bool = option(SWITCH, "Whether hosts may be in a private network, or this machine.", False)
    timeout: int = option(whole_number(1, 600), "Seconds that one sitemap may take.", 60)

    def __post_init__(self) -> None:
        if self.at != "/" and not self.replace:
            raise ValueError("at is for addresses that get the base URL of this site: name theirs in replace")

    def sources(self, place: Place) -> Sequence[Source]:
        if f"{place.base.text}/sitemap.xml" in self.url:
            raise ConfigurationError(f"{place.base.text}/sitemap.xml is the sitemap that this section would be in")
        fetcher = Fetcher(self.url, self.hosts, private=self.private, timeout=self.timeout)
        return [RemoteSource(place.name, place.base, self.url, fetcher, self.replace, self.at)]
