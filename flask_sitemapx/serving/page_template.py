"""How the pages for people look: templates for Jinja2, and their style."""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #f7f8f8; --card: #fff; --ink: #17202a; --muted: #57636e; --line: #d9dfe3; --accent: #0b6e75;
  --bar: #2a8f97; --good: #1c6b3c; --bad: #a8281c; --tint: #fbeceb;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #111618; --card: #192023; --ink: #e6ecee; --muted: #9aa7ae; --line: #303a3f; --accent: #6fd0d6;
    --bar: #3fa6ae; --good: #7fcf9c; --bad: #ff9c90; --tint: #33201e;
  }
}
*, ::before, ::after { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; max-width: 72rem; padding: 1.25rem clamp(1rem, 4vw, 2.5rem) 3rem; overflow-wrap: anywhere;
  background: var(--paper); color: var(--ink); font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
h1 { font-size: clamp(1.35rem, 4.5vw, 1.9rem); line-height: 1.2; margin: .25rem 0 1rem; font-weight: 650; }
h2 { font-size: 1.1rem; margin: 2.25rem 0 .75rem; font-weight: 650; }
p { margin: 0 0 .75rem; }
a { color: var(--accent); text-underline-offset: .2em; text-decoration-thickness: 1px; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 3px; }
nav { font-size: .9rem; color: var(--muted); }
.muted, figcaption, summary, dt { color: var(--muted); font-size: .875rem; }
.number, dd { font-variant-numeric: tabular-nums; }
.number { white-space: nowrap; }
.bad { color: var(--bad); }
.trouble { background: var(--tint); border-inline-start: 3px solid var(--bad); padding: .6rem .9rem; }
.state { display: inline-block; border: 1px solid; border-radius: 1rem; padding: 0 .6rem; color: var(--bad); }
.fresh, .due { color: var(--good); }

dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .75rem; margin: 0; }
dl > div, figure { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .6rem .85rem; }
dd { margin: 0; font-size: 1.1rem; font-weight: 600; }
dd .muted { font-weight: 400; display: block; }
meter { display: block; inline-size: 100%; block-size: .6rem; margin-block: .3rem .1rem; }
meter::-webkit-meter-bar { border: 0; border-radius: 3px; background: var(--line); }
meter::-webkit-meter-optimum-value { background: var(--bar); }
meter::-moz-meter-bar { background: var(--bar); }

.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: .75rem; }
.plots { margin-block-start: 1.5rem; }
figure { margin: 0; min-width: 0; }
figcaption strong { color: var(--ink); display: block; }
svg { display: block; inline-size: 100%; block-size: 4.5rem; margin-top: .5rem; border-bottom: 1px solid var(--line); }
rect { fill: var(--bar); }
a:hover rect { fill: var(--accent); }
details { margin-top: .35rem; }
details div { max-block-size: 14rem; overflow: auto; }

table { inline-size: 100%; border-collapse: collapse; font-size: .925rem; }
th { text-align: start; font-weight: 600; color: var(--muted); font-size: .8125rem; }
th, td { padding: .45rem .75rem .45rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td meter { inline-size: 7rem; }
.loc { font-size: .9rem; }
.loc .muted { display: block; }

form { display: flex; flex-wrap: wrap; gap: .5rem; align-items: end; margin: 1.5rem 0 .75rem; }
label { flex: 1 1 14rem; font-size: .875rem; color: var(--muted); }
input, button { font: inherit; padding: .45rem .7rem; border: 1px solid var(--line); border-radius: 6px; }
input { display: block; inline-size: 100%; font-size: 1rem; background: var(--card); color: var(--ink); }
button { background: var(--accent); color: var(--paper); border-color: transparent; cursor: pointer; }
.pager { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin-top: 1rem; }
.pager a { padding: .35rem 0; }

@media (max-width: 44rem) {
  .wide thead { position: absolute; clip-path: inset(50%); inline-size: 1px; block-size: 1px; overflow: hidden; }
  .wide, .wide tbody, .wide tr, .wide td { display: block; }
  .wide tr { border-bottom: 1px solid var(--line); padding: .6rem 0; }
  .wide td { border: 0; padding: .1rem 0; }
  .wide td[data-label] { display: grid; grid-template-columns: 7rem 1fr; gap: .5rem; align-items: baseline; }
  .wide td[data-label]::before { content: attr(data-label); color: var(--muted); font-size: .8125rem; }
  .wide td:empty { display: none; }
}
"""

_LAYOUT = """
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>{% block title %}Sitemap{% endblock %} · {{ site }}</title>
<style>{{ style|safe }}</style>
</head>
<body>
<nav aria-label="Where you are">{% block way %}{% endblock %}</nav>
<main>
{% block main required %}{% endblock %}
</main>
</body>
</html>
"""

_PARTS = """
{% macro fact(name, text, note="", of=0, value=0) %}
<div><dt>{{ name }}</dt>
<dd>{{ text }}{% if note %} <span class="muted">{{ note }}</span>{% endif %}
{% if of %}<meter min="0" max="{{ of }}" value="{{ value }}" aria-label="{{ name }}"></meter>{% endif %}</dd></div>
{% endmacro %}

{% macro changed(text) %}
{%- if text %}<time datetime="{{ text }}">{{ text|replace("T", " ")|replace("Z", " UTC") }}</time>{% endif -%}
{% endmacro %}

{% macro largest(total, limits) %}
{% set urls = limits.urls|number ~ " URLs" %}
{{ fact("largest sitemap", total.most_urls|number, "of " ~ urls, limits.urls, total.most_urls) }}
{{ fact("largest sitemap", total.largest|size, "of " ~ limits.size|size, limits.size, total.largest) }}
{% endmacro %}

{% macro sitemaps(total) %}
{{ fact("sitemaps", total.sitemaps|number, (total.unbuilt|number ~ " not read so far") if total.unbuilt else "") }}
{% endmacro %}

{% macro drawn(plots) %}
{% set plots = plots|selectattr("bars")|list %}
{% if plots %}
<div class="plots">
{% for plot in plots %}
{% set slots = [plot.bars|length, 24]|max %}
<figure>
<figcaption><strong>{{ plot.title }}</strong>
{{ plot.bars[0].label }}{% if plot.bars|length > 1 %} to {{ plot.bars[-1].label }}{% endif %};
most: {{ plot.highest.label }}, {{ plot.format(plot.highest.value) }}{% if plot.note %}; {{ plot.note }}{% endif %}
</figcaption>
<svg viewBox="0 0 {{ slots * 4 }} 100" preserveAspectRatio="none" role="img" aria-label="{{ plot.title }}">
{% for bar in plot.bars %}
{% set height = plot.height(bar) %}
{% if bar.link %}<a href="{{ bar.link }}">{% endif %}
<rect x="{{ loop.index0 * 4 + 0.5 }}" y="{{ 100 - height }}" width="3" height="{{ height }}"><title>
{{- bar.label }}: {{ plot.format(bar.value) }}</title></rect>
{%- if bar.link %}</a>{% endif %}

{% endfor %}
</svg>
<details><summary>Numbers</summary><div><table>
{% for bar in plot.bars %}
<tr><td>{{ bar.label }}</td><td class="number">{{ plot.format(bar.value) }}</td></tr>
{% endfor %}
</table></div></details>
</figure>
{% endfor %}
</div>
{% endif %}
{% endmacro %}

{% macro dropped(drops) %}
{% if drops %}
<h2>Left out</h2>
<table class="wide">
<thead><tr><th>section</th><th>rule</th><th>entries</th><th>such as</th></tr></thead>
<tbody>
{% for drop in drops %}
<tr><td>{{ drop.section }}</td><td data-label="rule"><code>{{ drop.rule }}</code></td>
<td data-label="entries" class="number">{{ drop.entries|number }}</td>
<td data-label="such as"><bdi>{{ drop.example }}</bdi></td></tr>
{% endfor %}
</tbody>
</table>
{% endif %}
{% endmacro %}

{% macro pager(paging) %}
{% if paging.pages > 1 %}
{% set page = paging.wanted.page %}
<nav class="pager" aria-label="Pages">
{% if page > 1 %}<a href="{{ paging.link(1) }}">First</a> <a rel="prev" href="{{ paging.link(page - 1) }}">Previous</a>
{% endif %}
<span>page {{ page|number }} of {{ paging.pages|number }}</span>
{% if page < paging.pages %}<a rel="next" href="{{ paging.link(page + 1) }}">Next</a>
<a href="{{ paging.link(paging.pages) }}">Last</a>{% endif %}
</nav>
{% endif %}
{% endmacro %}
"""

_OVERVIEW = """
{% extends "layout" %}
{% import "parts" as parts %}
{% block main %}
<h1>Sitemap of <bdi>{{ site }}</bdi></h1>
<p><span class="state {{ state }}">{{ state }}</span>
{% if building_for is not none %}<span class="muted">a build has been under way for {{ building_for|duration }}</span>
{% endif %}</p>
{% for trouble in troubles %}
<p class="trouble" role="alert"><bdi>{{ trouble }}</bdi></p>
{% endfor %}
{% if not snapshot %}
<p>There is no sitemap yet.</p>
{% else %}
{% set age = [now - snapshot.built_at, 0]|max %}
<p>{% for path in paths %}<a href="{{ path }}">{{ path }}</a> {% else %}There is nothing to list.{% endfor %}
<span class="muted">{{ "a sitemapindex" if snapshot.is_index else "a urlset" if paths }}</span></p>
<dl>
{{ parts.fact("URLs", total.urls|number) }}
{{ parts.sitemaps(total) }}
{{ parts.largest(total, limits) }}
{{ parts.fact("set", snapshot.number|number, "built " ~ snapshot.built_at|moment ~ " in " ~ snapshot.seconds ~ " s") }}
{{ parts.fact("age", age|duration, "built anew at " ~ refresh|duration, refresh, age) }}
</dl>
{{ parts.drawn(plots) }}
<h2>Sections</h2>
<table class="wide">
<thead><tr><th>section</th><th>URLs</th><th>sitemaps</th><th>size</th><th>largest</th><th>changed</th><th>read</th>
<th>left out</th></tr></thead>
<tbody>
{% for name, section in sections.items() %}
{% set sum = totals[name] %}
<tr><td><a href="{{ link(section=name) }}">{{ name }}</a>
{% if section.error %}
<div class="bad">failed, and these are earlier entries: <bdi>{{ section.error }}</bdi></div>
{% endif %}
</td>
<td data-label="URLs" class="number">{{ sum.urls|number }}</td>
<td data-label="sitemaps" class="number">{{ sum.sitemaps|number }}</td>
<td data-label="size" class="number">{{ sum.size|size }}</td>
<td data-label="largest"><div class="number">{{ sum.most_urls|number }} of {{ limits.urls|number }}
<meter min="0" max="{{ limits.urls }}" value="{{ sum.most_urls }}" aria-label="URLs of the limit"></meter></div></td>
<td data-label="changed">{{ parts.changed(sum.changed_at) }}</td>
<td data-label="read">{{ [now - section.read_at, 0]|max|duration }} ago</td>
<td data-label="left out" class="number">{{ section.problems.values()|sum(attribute=0)|number }}</td></tr>
{% endfor %}
</tbody>
</table>
{{ parts.dropped(drops) }}
{% endif %}
{% endblock %}
"""

_SECTION = """
{% extends "layout" %}
{% import "parts" as parts %}
{% block title %}{{ name }}{% endblock %}
{% block way %}<a href="{{ link() }}">Sitemap</a> / {{ name }}{% endblock %}
{% block main %}
<h1>Section {{ name }}</h1>
{% if section.error %}
<p class="trouble" role="alert">It failed, and these are its earlier entries: <bdi>{{ section.error }}</bdi></p>
{% endif %}
<dl>
{{ parts.fact("URLs", total.urls|number) }}
{{ parts.sitemaps(total) }}
{{ parts.largest(total, limits) }}
{{ parts.fact("size", total.size|size) }}
{{ parts.fact("read", [now - section.read_at, 0]|max|duration ~ " ago", "" if section.is_complete else "in part") }}
</dl>
{{ parts.drawn(plots) }}
<h2>Sitemaps</h2>
<table class="wide">
<thead><tr><th>sitemap</th><th>URLs</th><th>size</th><th>changed</th><th>document</th></tr></thead>
<tbody>
{% for shard, length in shards %}
{% set path = shard.path(name)[1:] %}
<tr><td><a href="{{ link(section=name, shard=shard.number) }}">{{ name }}-{{ shard.number }}</a></td>
{% if shard.document %}
<td data-label="URLs"><div class="number">{{ shard.document.entries|number }}
<meter min="0" max="{{ limits.urls }}" value="{{ shard.document.entries }}" aria-label="URLs of the limit"></meter>
</div></td>
<td data-label="size"><div class="number">{{ length|size }}
<meter min="0" max="{{ limits.size }}" value="{{ length }}" aria-label="size of the limit"></meter></div></td>
<td data-label="changed">{{ parts.changed(shard.document.changed_at) }}</td>
{% else %}
<td colspan="3" class="muted">not read so far</td>
{% endif %}
<td data-label="document"><a href="{{ path }}">{{ path }}</a></td></tr>
{% endfor %}
</tbody>
</table>
{{ parts.pager(paging) }}
{{ parts.dropped(drops) }}
{% endblock %}
"""

_SHARD = """
{% extends "layout" %}
{% import "parts" as parts %}
{% block title %}{{ name }}-{{ shard.number }}{% endblock %}
{% block way %}
<a href="{{ link() }}">Sitemap</a> / <a href="{{ link(section=name) }}">{{ name }}</a> / {{ shard.number }}
{% endblock %}
{% block main %}
<h1>Sitemap {{ name }}-{{ shard.number }}</h1>
<p><a href="{{ path }}">{{ path }}</a> · <a href="{{ path }}.gz">{{ path }}.gz</a></p>
{% if not document %}
<p>It was not read so far. It is made when it is asked for, or by the next build.</p>
{% else %}
<dl>
{{ parts.fact("URLs", document.entries|number, "of " ~ limits.urls|number, limits.urls, document.entries) }}
{{ parts.fact("size", size|size, "of " ~ limits.size|size, limits.size, size) }}
{{ parts.fact("as gzip", document.gzip_length|size) }}
{{ parts.fact("changed", parts.changed(document.changed_at) or "unknown") }}
</dl>
<form method="get" action="{{ link() }}" role="search">
<input type="hidden" name="section" value="{{ name }}">
<input type="hidden" name="shard" value="{{ shard.number }}">
<label>Part of a URL
<input type="search" name="q" value="{{ q }}" maxlength="{{ max_search }}" dir="auto" autocapitalize="off"></label>
<button>Search</button>
</form>
<p role="status">{% if q %}{{ found.total|number }} of {{ document.entries|number }} URLs hold “<bdi>{{ q }}</bdi>”.
<a href="{{ link(section=name, shard=shard.number) }}">Show all</a>
{% else %}{{ found.total|number }} URLs{% endif %}</p>
{{ parts.drawn(plots) }}
{% if found.entries %}
<h2>URLs</h2>
<table class="wide">
<thead><tr><th>loc</th><th>lastmod</th><th>changefreq</th><th>priority</th></tr></thead>
<tbody>
{% for entry in found.entries %}
<tr><td class="loc"><a href="{{ entry.loc }}" rel="noreferrer"><bdi dir="ltr">{{ entry.loc }}</bdi></a>
{%- if entry.readable %}<bdi class="muted" dir="ltr">{{ entry.readable }}</bdi>{% endif %}</td>
<td data-label="lastmod">{{ parts.changed(entry.lastmod) }}</td>
<td data-label="changefreq">{{ entry.changefreq }}</td>
<td data-label="priority">{{ entry.priority }}</td></tr>
{% endfor %}
</tbody>
</table>
{{ parts.pager(paging) }}
{% endif %}
{% endif %}
{{ parts.dropped(drops) }}
{% endblock %}
"""

_REFUSED = """
{% extends "layout" %}
{% block title %}{{ refused.status }}{% endblock %}
{% block way %}<a href="{{ link() }}">Sitemap</a>{% endblock %}
{% block main %}
<h1>{{ refused.status[4:] }}</h1>
<p><bdi>{{ refused }}</bdi></p>
{% endblock %}
"""

TEMPLATES = {
    "layout": _LAYOUT.lstrip(),
    "parts": _PARTS.lstrip(),
    "overview": _OVERVIEW.lstrip(),
    "section": _SECTION.lstrip(),
    "shard": _SHARD.lstrip(),
    "refused": _REFUSED.lstrip(),
}
