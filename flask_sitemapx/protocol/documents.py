"""Checked texts in, the XML of sitemaps.org out: `urlset` and `sitemapindex`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from .elements import Namespace

MAX_URLS = 50_000  # sitemaps.org, "Using Sitemap index files"; an index lists at most as many sitemaps
MAX_BYTES = 52_428_800  # sitemaps.org: 50 MiB, uncompressed, for a sitemap and for an index
LEGACY_MAX_BYTES = 10_485_760  # the same until November 2016, and in readers that still keep to it
MAX_NEWS = 1_000  # Google, "News sitemaps": <news:news> elements in a sitemap

NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"
LEGACY_NAMESPACE = "http://www.google.com/schemas/sitemap/0.84"


class Frame(NamedTuple):
    """The bytes before and after the elements of a document."""

    head: bytes
    tail: bytes

    def declaring(self, namespaces: Iterable[Namespace]) -> Frame:
        """The same with *namespaces* declared in its root."""
        return Frame(self.head[: -len(b">\n")] + declarations(namespaces) + b">\n", self.tail)


def framed(root: str, namespace: str = NAMESPACE, stylesheet: str | None = None) -> Frame:
    """The frame of a document whose *root* is ``urlset`` or ``sitemapindex``, shown by the *stylesheet* at that URL."""
    # xml-stylesheet, section 3: before the root; CSS, since browsers give up XSLT
    style = "" if stylesheet is None else f'<?xml-stylesheet type="text/css" href={quoteattr(stylesheet)}?>\n'
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n{style}<{root} xmlns="{namespace}">\n'
    return Frame(head.encode(), f"</{root}>\n".encode())


URLSET = framed("urlset")
SITEMAPINDEX = framed("sitemapindex")


def declarations(namespaces: Iterable[Namespace]) -> bytes:
    """The attributes that declare *namespaces*, each with a space before."""
    return "".join(namespace.declaration for namespace in namespaces).encode()


def url_elements(
    locs: Sequence[str],
    lastmods: Sequence[str | None] | None = None,
    changefreqs: Sequence[str] | None = None,
    priorities: Sequence[str] | None = None,
    extensions: Sequence[str] | None = None,
) -> list[str]:
    """One `<url>` line for each loc, its children in the order that the schema asks for.

    *locs* are absolute and escaped, *lastmods* W3C Datetimes or None, *changefreqs*, *priorities* and *extensions*
    finished elements, empty where an entry has none. A column that is None is absent from every entry.
    """
    # One f-string an entry, one comprehension a shape: this is most of what rendering costs.
    if changefreqs is None and priorities is None and extensions is None:
        if lastmods is None:
            return [f"<url><loc>{loc}</loc></url>\n" for loc in locs]
        if None not in lastmods:
            return [
                f"<url><loc>{loc}</loc><lastmod>{lastmod}</lastmod></url>\n"
                for loc, lastmod in zip(locs, lastmods, strict=True)
            ]
    absent = repeat("")
    columns = zip(
        locs,
        _lastmod_elements(lastmods),
        changefreqs or absent,
        priorities or absent,
        extensions or absent,
        strict=False,  # repeat() has no end
    )
    return [
        f"<url><loc>{loc}</loc>{lastmod}{changefreq}{priority}{extension}</url>\n"
        for loc, lastmod, changefreq, priority, extension in columns
    ]


def sitemap_elements(locs: Sequence[str], lastmods: Sequence[str | None] | None = None) -> list[str]:
    """One `<sitemap>` line of an index for each loc; *locs* and *lastmods* as for `url_elements`."""
    columns = zip(locs, _lastmod_elements(lastmods), strict=False)
    return [f"<sitemap><loc>{loc}</loc>{lastmod}</sitemap>\n" for loc, lastmod in columns]


def changefreq_element(word: str) -> str:
    """The element of one of the seven words."""
    return f"<changefreq>{word}</changefreq>"


def priority_element(decimal: str) -> str:
    """The element of a decimal from 0.0 to 1.0."""
    return f"<priority>{decimal}</priority>"


def _lastmod_elements(lastmods: Sequence[str | None] | None) -> Iterable[str]:
    if lastmods is None:
        return repeat("")
    return ["" if lastmod is None else f"<lastmod>{lastmod}</lastmod>" for lastmod in lastmods]
