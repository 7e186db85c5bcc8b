"""What `sitemap.toml` and the environment say, checked as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC
from difflib import get_close_matches
from inspect import getclosurevars
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ConfigurationError, StoreError, shown
from ..protocol.locs import BaseUrl
from ..protocol.robots import Robots
from ..settings import PREFIX, Settings, address_or_instance, seconds, switch, text, zone
from ..snapshots.opening import described, open_store
from ..sources.registry import Registry
from . import options
from .document import Document, meant, named, refused
from .kinds import TYPES, kind_of
from .kinds.kind import Kind
from .lines import Path as Keys
from .options import NUMBER, SWITCH, TABLES, TEXT, TEXTS, Form, option

_ELSEWHERE = {"routes", "include", "exclude", "words", "hooks", "languages", "language_argument", "robots"}
"""Settings that are about the views of an application, and `robots`, which is a table here."""


def _form(read: Any) -> Form:
    """What a file may have for a setting that *read* reads from text, too."""
    forms = {text: TEXT, address_or_instance: TEXT, zone: TEXT, seconds: options.seconds(), switch: SWITCH}
    if read in forms:
        return forms[read]
    bounds = getclosurevars(read).nonlocals  # what `one_of` or `whole_number` was called with
    return options.one_of(*bounds["words"]) if "words" in bounds else options.whole_number(**bounds)


_SPECS = {spec.name: spec for spec in fields(Settings) if spec.name not in _ELSEWHERE}
FORMS: Mapping[str, Form] = {name: _form(spec.metadata["read"]) for name, spec in _SPECS.items()}
"""The settings that a file may have, by name; `Settings` says what they mean, and what they are by default."""


@dataclass(frozen=True)
class Rules:
    """What robots.txt says to robots."""

    disallow: tuple[str, ...] = option(TEXTS, "Paths that are not to be crawled, such as `/admin/` or `*.pdf$`.", ())
    allow: tuple[str, ...] = option(TEXTS, "Paths that are, although a shorter one is not.", ())
    crawl_delay: float | None = option(NUMBER, "Seconds between two requests, for robots that read it.", None)
    lines: tuple[str, ...] = option(TEXTS, "Further lines, such as `Content-Signal: ai-train=no`.", ())


@dataclass(frozen=True)
class Group(Rules):
    """What it says to some of them."""

    user_agents: tuple[str, ...] = option(TEXTS, "The names of robots, such as `GPTBot`.", ("*",))


@dataclass(frozen=True)
class RobotsTable(Rules):
    """The table `robots`: what it says to all, and to some of them."""

    groups: tuple[dict[str, Any], ...] = option(TABLES, "Rules for some robots, by their names.", ())


class Setting(NamedTuple):
    """The value of a setting, and what may be shown of it: how it is written, and where."""

    value: Any
    shown: str
    place: str


@dataclass(frozen=True, slots=True)
class Site:
    """One site of the file. *places* are the types of its sections, and their lines."""

    name: str
    base: BaseUrl
    settings: Mapping[str, Setting]
    sections: Mapping[str, Kind]
    places: Mapping[str, tuple[str, int | None]]
    robots: Sequence[Group]


@dataclass(frozen=True, slots=True)
class Configuration:
    """All that a file says. *directory* is where it is, and where its relative paths begin."""

    sites: Mapping[str, Site]
    databases: Mapping[str, Setting]
    directory: Path


def configuration(text: str, path: Path, environ: Mapping[str, str]) -> Configuration:
    """What *text*, the content of the file at *path*, comes to in *environ*.

    Raises `ConfigurationError` with all that is wrong, each with its line.
    """
    document = Document(text, environ)
    found = _Reading(document, path.absolute().parent, environ).configuration() if document.is_read else None
    document.check(path.name)
    assert found is not None
    return found


class _Level(NamedTuple):
    """What stands at the top of the file, or in one of its sites; None for what does not."""

    settings: dict[str, Setting]
    sections: Mapping[str, Kind] | None
    places: Mapping[str, tuple[str, int | None]] | None
    robots: Sequence[Group] | None


class _Reading:
    """Reads one document."""

    def __init__(self, document: Document, directory: Path, environ: Mapping[str, str]) -> None:
        self._document = document
        self._directory = directory
        self._environment = _environment(document, environ)
        self._databases: dict[str, Setting] = {}

    def configuration(self) -> Configuration:
        document, values = self._document, self._document.values
        self._databases = self._named_databases(document.table(values, ("databases",)))
        top = self._level(values, (), ["databases", "site"])
        given = document.tables(document.table(values, ("site",)), ("site",))
        self._check_shared(top, len(given))
        sites = [self._site(name, top, self._level(table, ("site", name))) for name, table in given.items()]
        found = sites if given else [self._site("", top, top)]
        self._check_apart([site for site in found if site])
        return Configuration({site.name: site for site in found if site}, self._databases, self._directory)

    def _level(self, table: Mapping[str, Any], path: Keys, others: Sequence[str] = ()) -> _Level:
        document = self._document
        known = [*FORMS, "sections", "robots", *others]
        for key in table.keys() - {*known}:
            document.unknown((*path, key), known)
        settings = {name: self._setting(name, table[name], (*path, name)) for name in FORMS if name in table}
        is_there = "sections" in table
        here = (*path, "sections")
        sections = document.tables(document.table(table, here), here)
        return _Level(
            settings,
            self._sections(sections, here) if is_there else None,
            {name: (table.get("type", ""), document.line((*here, name))) for name, table in sections.items()},
            self._robots(document.table(table, (*path, "robots")), (*path, "robots")) if "robots" in table else None,
        )

    def _site(self, name: str, top: _Level, own: _Level) -> Site | None:
        settings = {**top.settings, **own.settings, **self._environment}
        base = self._base(name, settings)
        if base is None:
            return None
        _, _, host = base.origin.partition("://")
        source = top if own.sections is None else own
        robots = own.robots if own.robots is not None else top.robots
        return Site(name or host, base, settings, source.sections or {}, source.places or {}, robots or ())

    def _base(self, name: str, settings: dict[str, Setting]) -> BaseUrl | None:
        path: Keys = ("site", name) if name else ()
        if "base_url" not in settings:
            if not name:
                self._document.add((), 'base_url is missing; write base_url = "https://www.example.com" at the top')
                return None
            text = f"https://{name}"
            settings["base_url"] = Setting(text, text, f"line {self._document.line(path)}")
        text = settings["base_url"].value
        return None if text is None else self._document.read(BaseUrl.parse, text, path)  # None: told already

    def _check_shared(self, top: _Level, sites: int) -> None:
        if sites and "base_url" in top.settings:
            del top.settings["base_url"]
            self._document.add(("base_url",), "base_url stands above the sites; each has its own")
        if sites > 1 and "base_url" in self._environment:
            del self._environment["base_url"]
            self._document.add((), f"{PREFIX}BASE_URL in the environment cannot be that of {sites} sites; unset it")

    def _check_apart(self, sites: Sequence[Site]) -> None:
        names: dict[BaseUrl, str] = {}
        for site in sites:
            other = names.setdefault(site.base, site.name)
            if other != site.name:
                path = ("site", site.name, "base_url")
                self._document.add(path, f"{named(path)} is that of the site {other!r}, too")

    def _setting(self, name: str, value: Any, path: Keys) -> Setting:
        setting = self._as_written(lambda value: _checked(name, FORMS[name].read(value)), value, path)
        return setting._replace(value=self._placed(setting.value)) if name == "store" else setting

    def _as_written(self, read: Callable[[Any], Any], value: Any, path: Keys) -> Setting:
        document = self._document
        return Setting(document.read(read, value, path), _shown(document.at(path)), f"line {document.line(path)}")

    def _placed(self, store: Any) -> Any:
        """The address of a store; a relative directory begins where the file is."""
        directory = str(store).removeprefix("file:")
        is_relative = str(store).startswith("file:") and not directory.startswith("/")
        return f"file:{self._directory / directory}" if is_relative else store

    # Sections, databases, robots

    def _sections(self, tables: Mapping[str, dict[str, Any]], path: Keys) -> dict[str, Kind]:
        made = {name: self._section(name, table, (*path, name)) for name, table in tables.items()}
        return {name: kind for name, kind in made.items() if kind is not None}

    def _section(self, name: str, table: dict[str, Any], path: Keys) -> Kind | None:
        document = self._document
        try:
            Registry().section(name)
        except ConfigurationError as error:
            document.add(path, str(error))
        type = str(table.get("type"))
        if type not in TYPES:
            document.add((*path, "type"), _without_type(path, table))
            close = get_close_matches(type, TYPES, n=1)
            if not close:
                return None
            type = close[0]
        kind: Kind | None = document.made(kind_of(type), table, path, ["type"])
        database = getattr(kind, "database", None)
        if database and database not in self._databases:
            text = meant(database, self._databases) if self._databases else "there is no table 'databases'"
            document.add((*path, "database"), f"{named((*path, 'database'))} {database!r} is unknown; {text}")
        return kind

    def _named_databases(self, table: Mapping[str, Any]) -> dict[str, Setting]:
        return {name: self._as_written(_database, value, ("databases", name)) for name, value in table.items()}

    def _robots(self, table: dict[str, Any], path: Keys) -> list[Group]:
        document = self._document
        whole = document.made(RobotsTable, table, path)
        if whole is None:
            return []
        common = Group(whole.disallow, whole.allow, whole.crawl_delay, whole.lines)
        groups = [(common, path)] if common != Group() else []
        for position, one in enumerate(whole.groups):
            here = (*path, "groups", position)
            if (group := document.made(Group, one, here)) is not None:
                groups.append((group, here))
        for group, here in groups:
            for name, value in asdict(group).items():
                try:
                    state(Robots(), replace(Group(), **{name: value}))
                except ConfigurationError as error:
                    document.add((*here, name), str(error))
        return [group for group, _ in groups]


def state(robots: Robots, group: Group) -> None:
    """Add *group* to *robots*."""
    given = asdict(group)
    robots(*given.pop("user_agents"), **given)


def by_default(name: str) -> Setting:
    """The setting *name* where nobody says what it is."""
    default = _SPECS[name].default
    return Setting(default, "unset" if default is None else _shown(default if default is not UTC else "UTC"), "default")


def _environment(document: Document, environ: Mapping[str, str]) -> dict[str, Setting]:
    """The settings that *environ* has."""
    found = {}
    for name in FORMS:
        key = PREFIX + name.upper()
        text = environ.get(key)
        if not text:  # set to nothing is not set
            continue
        try:
            found[name] = Setting(_checked(name, text), _shown(text), f"environment {key}")
        except ValueError as error:
            document.add((), refused(f"{key} in the environment", str(error), described(text)))
    return found


def _checked(name: str, value: Any) -> Any:
    """The *value* of a setting as it is used. Raises ValueError with a text that goes on after its name."""
    checked = _SPECS[name].metadata["read"](value)
    if name == "base_url":
        BaseUrl.parse(checked)
    if name == "store" and not checked.startswith("file:"):  # which would make the directory
        _check_store(checked)
    return checked


def _check_store(address: str) -> None:
    try:
        open_store(address, memory_limit=1)
    except StoreError:  # may pass
        pass
    except ConfigurationError as error:
        told = str(error).replace(address, described(address))
        raise ConfigurationError(told.removeprefix(f"{PREFIX}STORE").lstrip(": ")) from None


def _shown(value: Any) -> str:
    """*value* as it may be printed, and could be written."""
    if isinstance(value, bool):
        return str(value).lower()
    return shown(described(value) if isinstance(value, str) else value)


def _database(value: Any) -> str:
    from ..snapshots.sql_store import database_url

    text: str = TEXT.read(value)
    try:
        database_url(text)
    except ImportError:
        raise ConfigurationError("needs SQLAlchemy: pip install 'flask-sitemapx[sql]'") from None
    return text


def _without_type(path: Keys, table: Mapping[str, Any]) -> str:
    if "type" in table:
        return f"{named((*path, 'type'))} {shown(table['type'])} is unknown; {meant(str(table['type']), TYPES)}"
    if close := get_close_matches("type", table, n=1):
        return f"{named((*path, close[0]))} is unknown; did you mean 'type'?"
    return f"{named((*path, 'type'))} is missing; there are {', '.join(TYPES)}"
