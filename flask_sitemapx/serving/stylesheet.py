"""How XML sitemaps look in a browser: a stylesheet, and how it is sent."""

from __future__ import annotations

import gzip
from functools import lru_cache
from hashlib import sha256

from .representation import VARY, Representation

STYLESHEET = """\
/* An XML sitemap, as people see it. Names alone tell its elements apart, whatever their namespace. */
:root {
  color-scheme: light dark;
  --paper: #f7f8f8; --ink: #17202a; --muted: #57636e; --line: #d9dfe3; --margin: 3.5rem; --label: 9rem;
  display: block; position: relative; max-width: 72rem; margin: 0 auto; padding: 1.25rem clamp(1rem, 4vw, 2.5rem) 3rem;
  overflow-wrap: anywhere; background: var(--paper); color: var(--ink); line-height: 1.5;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; font-variant-numeric: tabular-nums;
  -webkit-text-size-adjust: 100%; text-size-adjust: 100%;
}
*, ::before, ::after { box-sizing: border-box; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #111618; --ink: #e6ecee; --muted: #9aa7ae; --line: #303a3f; }
}

/* The title, and in the room below it what is known at the end only: how many there are. */
:root::before {
  content: "Sitemap"; display: block; padding-bottom: 3.25rem; font-size: 1.75rem; font-weight: 650; line-height: 1.2;
}
sitemapindex:root::before { content: "Sitemap index"; }
:root::after { position: absolute; top: 3.75rem; color: var(--muted); }
sitemapindex::after { content: "Sitemaps: " counter(entry); }
urlset::after {
  content: "URLs: " counter(entry) counter(image, images) counter(image, some) counter(link, links) counter(link, some)
    counter(video, videos) counter(video, some) counter(news, news) counter(news, some);
}
/* Of what there is none, they say nothing. */
@counter-style nothing { system: cyclic; symbols: ""; }
@counter-style some { system: extends decimal; range: 1 infinite; fallback: nothing; }
@counter-style images { system: cyclic; symbols: ", with images: "; range: 1 infinite; fallback: nothing; }
@counter-style links { system: cyclic; symbols: ", with alternates: "; range: 1 infinite; fallback: nothing; }
@counter-style videos { system: cyclic; symbols: ", with videos: "; range: 1 infinite; fallback: nothing; }
@counter-style news { system: cyclic; symbols: ", with news: "; range: 1 infinite; fallback: nothing; }

/* An entry is laid out when it comes into sight, or 50,000 would take long; what is in it cannot count outside. */
url, sitemap {
  content-visibility: auto; contain-intrinsic-height: auto 2.4rem;
  counter-increment: entry image var(--image, 0) link var(--link, 0) video var(--video, 0) news var(--news, 0);
  display: flex; flex-wrap: wrap; gap: .1rem 1rem; padding: .45rem 0; border-bottom: 1px solid var(--line);
  font-size: .925rem;
}
url:has(> image) { --image: 1; }
url:has(> link) { --link: 1; }
url:has(> video) { --video: 1; }
url:has(> news) { --news: 1; }

/* Two columns, whose heads are in the first entry, and the rest below; numbers and labels stand in the margins. */
:root > * > *, :root > * > * > *, name, language { display: block; position: relative; }
:root > * > * { flex: 0 0 100%; padding-left: calc(var(--margin) + var(--label)); }
:root > * > loc, :root > :first-child::before { flex-basis: calc(100% - 16rem); padding-left: var(--margin); }
:root > * > lastmod, :root > :first-child::after { flex-basis: 15rem; padding: 0; }
:root > :first-child::before { content: "URL"; order: -1; }
:root > :first-child::after { content: "Last modified"; order: -1; }
:root > * > * > *, name, language { width: fit-content; padding-left: var(--label); }
:root > * > * > :is(loc, publication) { padding: 0; }
:root > * ::before { position: absolute; left: 0; }
:root > * > ::before { left: var(--margin); }
:root > * > loc::before { content: counter(entry); left: 0; }
:root > *::before, :root > *::after, :root > * ::before { color: var(--muted); font-size: .8125rem; line-height: 1.7; }
loc, lastmod, link::after { unicode-bidi: isolate; }
title, description, name, tag, uploader { unicode-bidi: plaintext; }

changefreq::before { content: "changefreq"; }
priority::before { content: "priority"; }
link::before { content: "alternate " attr(hreflang); }
link::after { content: attr(href); }
image::before { content: "image"; }
news::before { content: "news"; }
name::before { content: "publication"; }
language::before { content: "language"; }
video::before { content: "video"; }
thumbnail_loc::before { content: "thumbnail"; }
title::before { content: "title"; }
description::before { content: "description"; }
content_loc::before { content: "file"; }
player_loc::before { content: "player"; }
duration::before { content: "seconds"; }
expiration_date::before { content: "expires"; }
rating::before { content: "rating"; }
view_count::before { content: "views"; }
publication_date::before { content: "published"; }
tag::before { content: "tag"; }
family_friendly::before { content: "family friendly"; }
restriction::before { content: attr(relationship) " in"; }
requires_subscription::before { content: "subscription"; }
uploader::before { content: "uploader"; }
uploader[info]::after { content: " " attr(info); }
platform::before { content: attr(relationship) " on"; }
live::before { content: "live"; }

/* Stacked. A phone lays out a document that states no viewport as if it were wide, and shows it small. */
@media (max-width: 44rem), (max-device-width: 44rem) {
  :root { --margin: 0rem; --label: 7rem; }
  :root::before { padding-bottom: 4.75rem; }
  :root > * > loc, :root > * > lastmod { flex-basis: 100%; }
  :root > * > lastmod { padding-left: var(--label); }
  :root > :first-child::before, :root > :first-child::after { content: none; }
  lastmod::before { content: "last modified"; }
  :root > * > loc::before { position: static; margin-right: .75em; }
  :root > * > :is(image, link, news, video) { padding: 0; }
  :root > * > :is(image, link, news, video)::before { display: block; position: static; }
}
@media (max-device-width: 44rem) {
  :root { font-size: 4.25vw; }
}
@media print {
  :root { color-scheme: light; --paper: #fff; --ink: #000; --muted: #444; --line: #aaa; max-width: none; padding: 0; }
  url, sitemap { content-visibility: visible; break-inside: avoid; }
}
"""
NAME = "sitemap.css"
_TYPE = "text/css; charset=utf-8"
# A week, and no version in the address: documents name it, and another stylesheet does not make them other documents.
_CACHING = ("Cache-Control", "public, max-age=604800, stale-while-revalidate=604800")


@lru_cache(maxsize=2)
def stylesheet(coding: str) -> Representation:
    """What is sent in *coding*."""
    body = STYLESHEET.encode()
    if coding == "gzip":
        body = gzip.compress(body, mtime=0)  # two workers must send the same bytes
    return Representation(
        _TYPE,
        sha256(body).hexdigest()[:32],
        lambda: (body,),
        len(body),
        coding if coding == "gzip" else None,
        headers=[VARY, _CACHING],
    )
