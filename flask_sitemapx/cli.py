"""`flask sitemap ...`: the sitemap from the command line."""

from __future__ import annotations

import contextvars
import html
import itertools
import json
import logging
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import click
from flask import current_app
from flask.cli import AppGroup

from .binding import Binding
from .errors import Busy, ConfigurationError, Damaged, InvalidEntry, NotBuilt, SitemapError, StoreError
from .protocol.locs import BaseUrl
from .serving.hosts import Site
from .snapshots.refresher import IN_FULL, Order, Refresher
from .snapshots.shards import element_lists
from .snapshots.snapshot import Document, SectionState, Snapshot

F = TypeVar("F", bound=Callable[..., Any])


class Failed(click.ClickException):
    """Ends a command with a line on stderr: something failed, or is wrong."""

    exit_code = 1


class Unusable(click.ClickException):
    """It cannot be done like this."""

    exit_code = 2


class SomebodyBuilds(click.ClickException):
    """Somebody else is building."""

    exit_code = 3


class SitemapGroup(AppGroup):
    """Commands whose errors are lines, not tracebacks."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _shown_log():
                return super().invoke(ctx)
        except SitemapError as error:
            raise ending(error) from error


@click.group("sitemap", cls=SitemapGroup)
def commands() -> None:
    """List, build, check and export the sitemap.

    Exit codes: 0 done, 1 something failed or is wrong, 2 it cannot be done like this, 3 somebody else is building.
    """


def _options(*options: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_base_url = click.option(
    "--base-url", metavar="URL", help="Scheme, host and mount point of the site, in place of SITEMAP_BASE_URL."
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_wait = click.option(
    "--wait",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long to wait while somebody else is building. Default: twice SITEMAP_LEASE.",
)


@commands.command("list")
@click.option("--section", metavar="NAME", help="List the entries of this section only.")
@_options(_base_url, _json)
def list_command(section: str | None, base_url: str | None, as_json: bool) -> None:
    """List all URLs, one a line.

    With --json, each line is an object with loc, lastmod, changefreq, priority and section.
    """
    binding = _binding()
    _check_sections(binding, [section] if section is not None else [])
    refresher = binding.refresher(_base(binding, base_url))
    snapshot = _listed(binding, refresher)
    names = [section] if section is not None else snapshot.sections
    for name in names:
        for rows in _rows(snapshot.sections.get(name, SectionState()), refresher):
            lines = (json.dumps({**row, "section": name}) if as_json else row["loc"] for row in rows)
            click.echo("\n".join(lines))


@commands.command()
@_json
def routes(as_json: bool) -> None:
    """Say which rules are listed, and why."""
    told = [
        {"endpoint": route.endpoint, "url": route.url, "listed": route.listed, "reason": route.reason}
        for route in current_app.extensions["sitemapx"].registry.explain_routes()
    ]
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    _echo_table(
        ("listed", "endpoint", "url", "reason"),
        [("yes" if row["listed"] else "no", row["endpoint"], row["url"] or "", row["reason"]) for row in told],
    )


@commands.command()
@click.option("--section", "sections", multiple=True, metavar="NAME", help="Read only this section; may be repeated.")
@click.option(
    "--budget",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Publish after about so long, and leave to the next build what was not read by then.",
)
@click.option("--dry-run", is_flag=True, help="Read and check all, and say what would change, but publish nothing.")
@_options(_base_url, _wait, _json)
def build(
    sections: tuple[str, ...],
    budget: float | None,
    dry_run: bool,
    base_url: str | None,
    wait: float | None,
    as_json: bool,
) -> None:
    """Build a new set now, and publish it."""
    binding = _binding()
    _check_sections(binding, sections)
    order = Order(float("inf") if budget is None else budget, sections or None)
    if dry_run:
        _echo_build(_rehearsed(binding, binding.refresher(_base(binding, base_url)), order), as_json)
    else:
        _echo_build(_built(binding, _shared_refresher(binding, base_url), wait, order), as_json)


@commands.command()
@_options(_base_url, _wait, _json)
def refresh(base_url: str | None, wait: float | None, as_json: bool) -> None:
    """Build a new set if the last one is not fresh."""
    binding = _binding()
    refresher = _shared_refresher(binding, base_url)
    _echo_build(_refreshed(binding, refresher, wait), as_json)


@commands.command()
@_options(_base_url, _json)
def status(base_url: str | None, as_json: bool) -> None:
    """Say what is served and what is wrong with it.

    Exit code 1: there is no set, it is out of date, or something failed when it was built.
    """
    binding = _binding()
    hosts = binding.services().hosts
    if base_url is not None or not (hosts.fixed or hosts.is_open):
        binding.refresher(_base(binding, base_url))
    told = binding.status()
    if as_json:
        click.echo(json.dumps(told, indent=2))
    else:
        _echo_status(told)
    if not binding.services().is_shared:
        raise Unusable("the store is 'memory:', which only the processes that serve can look into")
    if faults := [*_faults(told)]:
        raise Failed("; ".join(faults))


@commands.command()
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--robots", is_flag=True, help="Write robots.txt, too.")
@_options(_base_url, _wait, _json)
def export(directory: Path, robots: bool, base_url: str | None, wait: float | None, as_json: bool) -> None:
    """Write the sitemap into DIR, as files.

    It is built before, unless it is fresh. Files that did not change are left alone, and only what an export wrote is
    removed.
    """
    binding = _binding()
    base = _base(binding, base_url)
    refresher = binding.refresher(base)
    done = _refreshed(binding, refresher, wait)
    try:
        files = _exported(binding, base, done.snapshot, directory, robots)
    except Damaged:  # by now the refresher knows, and builds anew what was damaged
        done = _built(binding, refresher, wait)
        files = _exported(binding, base, done.snapshot, directory, robots)
    if as_json:
        click.echo(json.dumps({"directory": str(directory), **files, **_summary(done)}, indent=2))
    else:
        if done.seconds:
            _echo_problems(done.snapshot.summary(), err=True)
        counts = ", ".join(f"{len(names)} {what}" for what, names in files.items())
        click.echo(f"{directory}: {_counted(done.snapshot.count, 'URL')}; files: {counts}")
    _check(done.snapshot)


@commands.command()
@_base_url
def robots(base_url: str | None) -> None:
    """Print robots.txt."""
    binding = _binding()
    base = _base(binding, base_url)
    click.echo(_robots_txt(binding, base), nl=False)
    if not binding.services().has_robots(base.mount):
        click.echo("This is not served from here: add it to the robots.txt at the root of the host.", err=True)


# The sitemap of the application


def _binding() -> Binding:
    binding: Binding = current_app.extensions["sitemapx"]
    return binding


def _base(binding: Binding, base_url: str | None) -> BaseUrl:
    base = BaseUrl.parse(base_url) if base_url is not None else binding.services().hosts.fixed
    if base is None:
        raise ConfigurationError(
            "the site's name is not known here: give --base-url https://www.example.com, or set SITEMAP_BASE_URL"
        )
    return base


def _check_sections(binding: Binding, sections: Iterable[str]) -> None:
    for section in sections:
        if section not in binding:
            raise ConfigurationError(f"there is no section {section!r}; there are {', '.join(binding.names())}")


def _shared_refresher(binding: Binding, base_url: str | None) -> Refresher:
    if not binding.services().is_shared:
        raise ConfigurationError(
            "the store is 'memory:', and what is built here would be gone with this process; "
            "set SITEMAP_STORE to 'file:/a/directory' or a cachelib cache that the serving processes share"
        )
    return binding.refresher(_base(binding, base_url))


def _listed(binding: Binding, refresher: Refresher) -> Snapshot:
    """The set as it is; on a store of this process only, one that is built for the purpose."""
    if not binding.services().is_shared:
        done = _built(binding, refresher, None)
        _echo_problems(done.snapshot.summary(), err=True)
        return done.snapshot
    last = _last_good(refresher)
    if last is None:
        raise NotBuilt("there is no set yet; `flask sitemap build` makes one", retry_after=0)
    return last


def _last_good(refresher: Refresher) -> Snapshot | None:
    snapshot = refresher.last_good()
    if refresher.store_error is not None:
        raise StoreError(refresher.store_error)
    return None if refresher.state() == "missing" else snapshot


class Done(NamedTuple):
    """What a build came to: the *seconds* of each section that was looked at, what the set was *before*."""

    snapshot: Snapshot
    seconds: Mapping[str, float]
    before: Snapshot | None
    is_rehearsed: bool = False

    def changed(self, section: str) -> list[str]:
        """The paths of the section's sitemaps that are new or have other entries than before."""
        old = self.before.sections.get(section, SectionState()) if self.before else SectionState()
        known = {shard.number: shard.document for shard in old.listed}
        listed = self.snapshot.sections[section].listed
        return [shard.path(section) for shard in listed if _etag(known.get(shard.number)) != _etag(shard.document)]


def _etag(document: Document | None) -> str | None:
    return document and document.etag


def _refreshed(binding: Binding, refresher: Refresher, wait: float | None) -> Done:
    """The fresh set, built now if it had to be."""
    snapshot = _last_good(refresher)
    if snapshot is not None and refresher.state() == "fresh":
        return Done(snapshot, {}, snapshot)
    return _built(binding, refresher, wait)


def _built(binding: Binding, refresher: Refresher, wait: float | None, order: Order = IN_FULL) -> Done:
    patience = 2 * binding.services().settings.lease if wait is None else wait
    return _done(binding, refresher, order, partial(refresher.build, patience=patience))


def _rehearsed(binding: Binding, refresher: Refresher, order: Order) -> Done:
    return _done(binding, refresher, order, refresher.rehearsed)._replace(is_rehearsed=True)


def _done(binding: Binding, refresher: Refresher, order: Order, build: Callable[[Order], Snapshot]) -> Done:
    last = _last_good(refresher)
    with Watcher(last.count if last else None) as watcher:
        # In a context of its own: url_for in a section says the same whoever asks for the build.
        snapshot = contextvars.Context().run(build, replace(order, progress=watcher))
    if not snapshot.count:
        click.echo(binding.application.empty(), err=True)
    return Done(snapshot, watcher.seconds, last)


def _exported(
    binding: Binding, base: BaseUrl, snapshot: Snapshot, directory: Path, robots: bool
) -> dict[str, list[str]]:
    from .tools.export import export as exported

    text = _robots_txt(binding, base) if robots else None
    try:
        return exported(snapshot, directory, binding.refresher(base).blob, robots=text)._asdict()
    except OSError as error:
        raise Failed(f"{error.filename or directory}: {error.strerror or error}") from error


def _robots_txt(binding: Binding, base: BaseUrl) -> bytes:
    return b"".join(binding.services().publisher.robots_txt(Site(base, b"")).body())


_ELEMENT = re.compile(r"<(loc|lastmod|changefreq|priority)>([^<]*)<")


def _rows(section: SectionState, refresher: Refresher) -> Iterator[list[dict[str, Any]]]:
    """The stored entries of a section as mappings, by the block."""
    for document in [shard.document for shard in section.shards if shard.document]:
        for elements in element_lists(document, refresher.blob):
            yield [_row(element.decode()) for element in elements]


def _row(element: str) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(("loc", "lastmod", "changefreq", "priority"))
    row |= {name: html.unescape(text) for name, text in _ELEMENT.findall(element)}
    if row["priority"] is not None:
        row["priority"] = float(row["priority"])
    return row


# What is wrong


def ending(error: SitemapError) -> click.ClickException:
    if isinstance(error, Busy):
        return SomebodyBuilds(str(error))
    if isinstance(error, ConfigurationError):
        return Unusable(str(error))
    broken = error.__cause__
    return Failed(f"{error} (rule {broken.rule})" if isinstance(broken, InvalidEntry) else str(error))


def _check(snapshot: Snapshot) -> None:
    """End with an exit code if a section failed, so that its entries are those of an earlier build."""
    failed = [f"section {name!r}: {section.error}" for name, section in snapshot.sections.items() if section.error]
    if failed:
        raise Failed(f"{'; '.join(failed)} (its last good entries are served)")


def _faults(told: Mapping[str, Any]) -> Iterator[str]:
    if "error" in told:
        yield told["error"]
    for site in told["sites"]:
        name = site["base_url"] or "the site"
        if site["state"] in ("missing", "stale"):
            yield f"the set of {name} is {site['state']}"
        yield from (f"{name}: {site[key]}" for key in ("error", "store_error") if site[key])
        sections = site["snapshot"]["sections"] if site["snapshot"] else {}
        yield from (f"section {section!r}: {state['error']}" for section, state in sections.items() if state["error"])


# What is printed


class Watcher(AbstractContextManager["Watcher"]):
    """Takes notes of a build under way, and shows a progress bar on stderr if that is a terminal.

    *expected* is how many entries there will be, if that can be guessed.
    """

    def __init__(self, expected: int | None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.seconds: dict[str, float] = {}
        self._monotonic = monotonic
        self._last = 0.0
        self._section: str | None = None
        self._bar = _bar(expected) if sys.stderr.isatty() else None

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.__exit__(*exc)

    def __call__(self, section: str, count: int) -> None:
        """*count* entries of *section* were read; it is told also as a section begins and ends."""
        now = self._monotonic()
        if section == self._section:
            self.seconds[section] += now - self._last
        else:
            self.seconds[section] = 0.0
        self._section, self._last = section, now
        if self._bar is not None:
            self._bar.label = section
            self._bar.update(count)


def _bar(expected: int | None) -> Any:
    unknown = itertools.count()  # of no length: click then shows that it goes on, not how far
    return click.progressbar(unknown, length=expected or None, label="building", show_pos=True, file=sys.stderr)


@contextmanager
def _shown_log() -> Iterator[None]:
    """The package's log as lines on stderr, where the application does not say what becomes of it."""
    logger = logging.getLogger(__package__)
    if logger.hasHandlers():
        yield
        return
    handler = _Lines(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.endswith((".builder", ".reading")):  # what that says is in the command's own report
            click.echo(record.getMessage(), err=True)


def _summary(done: Done) -> dict[str, Any]:
    summary = done.snapshot.summary()
    for name, section in summary["sections"].items():
        section["seconds"] = round(done.seconds[name], 3) if name in done.seconds else None
        section["changed"] = done.changed(name)
    return {"built": bool(done.seconds) and not done.is_rehearsed, **summary}


def _echo_build(done: Done, as_json: bool) -> None:
    summary = _summary(done)
    if as_json:
        click.echo(json.dumps(summary, indent=2))
    else:
        click.echo(f"{_outcome(done)}: {_counted(done.snapshot.count, 'URL')}")
        _echo_sections(summary)
        _echo_problems(summary)
        if not done.snapshot.is_complete:
            click.echo("the time was up: what is left is read by the next build")
    _check(done.snapshot)


def _outcome(done: Done) -> str:
    snapshot = done.snapshot
    if done.is_rehearsed:
        return f"set {snapshot.number} would be built in {snapshot.seconds} s"
    if done.seconds:
        return f"set {snapshot.number} built in {snapshot.seconds} s"
    return f"set {snapshot.number} is fresh, built at {snapshot.summary()['built_at']}"


def _echo_status(told: Mapping[str, Any]) -> None:
    click.echo(f"store: {told['store']}")
    for site in told["sites"]:
        click.echo(f"site: {site['base_url'] or 'named by each request'}")
        click.echo(f"state: {site['state']}")
        if summary := site["snapshot"]:
            click.echo(
                f"set {summary['number']}, built at {summary['built_at']} in {summary['seconds']} s, "
                f"{summary['kind']} of {_counted(summary['count'], 'URL')}"
            )
            if largest := site.get("largest"):
                parts = (f"{largest[unit]:,} of {limit:,} {unit}" for unit, limit in told["limits"].items())
                click.echo(f"largest sitemap: {', '.join(parts)}")
            _echo_sections(summary)
            _echo_problems(summary)
    if lines := told.get("robots_lines"):
        click.echo("robots.txt is not served from here; its lines are:")
        click.echo("".join(f"  {line}\n" for line in lines), nl=False)


def _echo_sections(summary: Mapping[str, Any]) -> None:
    sections = summary["sections"].items()
    changed = [len(section["changed"]) if "changed" in section else "" for _, section in sections]
    _echo_table(
        ("section", "URLs", "sitemaps", "changed", "seconds"),
        [
            (name, f"{section['count']:,}", len(section["shards"]), count, _or_blank(section.get("seconds")))
            for (name, section), count in zip(sections, changed, strict=True)
        ],
    )


def _or_blank(value: object) -> object:
    return "" if value is None else value


def _echo_problems(summary: Mapping[str, Any], *, err: bool = False) -> None:
    for name, section in summary["sections"].items():
        for rule, (count, example) in section["problems"].items():
            what = f"{_counted(count, 'entry', 'entries')} ({rule}), such as {example}"
            click.echo(f"left out of {name}: {what}", err=err)


def _echo_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    table = [head, *(tuple(map(str, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _counted(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
