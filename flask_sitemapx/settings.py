"""Every setting once: its key, default, meaning, and how its text in the environment is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, tzinfo
from typing import Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from .errors import ConfigurationError

T = TypeVar("T")

PREFIX = "SITEMAP_"
_UTC: tzinfo = UTC
_NONE: tuple[str, ...] | dict[str, str] = ()


def setting(default: T, help: str, read: Callable[[Any], T]) -> T:
    """A dataclass field that carries its help and the function that checks and converts its value."""
    metadata = {"help": help, "read": read}
    return field(default=default, metadata=metadata)


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text")
    return value.strip()


def listed(value: Any) -> tuple[str, ...]:
    """Text is split at commas and white space."""
    entries = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(entries, list | tuple | set | frozenset) or not all(isinstance(entry, str) for entry in entries):
        raise ValueError("must be a list of text")
    return tuple(sorted(entries) if isinstance(entries, set | frozenset) else entries)  # the same in every process


def switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    try:
        return words[text(value).lower()]
    except KeyError:
        raise ValueError("must be true or false") from None


def whole_number(least: int, most: int | None = None) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
        if type(number) is not int or not least <= number <= (most or number):
            raise ValueError(f"must be a whole number of at least {least}" + (f" and at most {most}" if most else ""))
        return number

    return read


def seconds(value: Any) -> float:
    try:
        number = -1.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ValueError("must be a number of seconds, 0 or more")
    return number


def one_of(*words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in words:
            raise ValueError(f"must be one of {', '.join(map(repr, words))}")
        return str(value)

    return read


def zone(value: Any) -> tzinfo:
    if isinstance(value, tzinfo):
        return value
    name = text(value)
    if name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise ValueError("must be the name of a time zone such as 'Europe/Berlin'") from None


def address_or_instance(value: Any) -> Any:
    return text(value) if isinstance(value, str) else value


def codes_or_bases(value: Any) -> tuple[str, ...] | dict[str, str]:
    """Codes of languages, or a mapping from them to URLs; as text ``en, de`` or ``en=https://..., de=https://...``."""
    given = [pair.partition("=") for pair in listed(value)] if isinstance(value, str) else []
    if given and all(sign for _, sign, _ in given):
        value = {code: url for code, _, url in given}
    if isinstance(value, Mapping):
        return {text(code): text(url) for code, url in value.items()}
    if isinstance(value, set | frozenset):
        raise ValueError("must be in order, the default language first")
    return listed(value)


@dataclass(frozen=True, slots=True)
class Settings:
    """What an operator can set, each as ``SITEMAP_<NAME>`` in ``app.config`` or, failing that, in the environment.

    Durations are in seconds, sizes in bytes. ``None`` in the configuration means "not set".
    """

    base_url: str | None = setting(
        None,
        "Scheme, host, port and mount point of every `loc`, such as `https://www.example.com`. Set it in production.",
        text,
    )
    routes: str = setting(
        "auto",
        "Which views the section `routes` lists: `auto`, those that look like public pages; `all` whose address is "
        "complete; or only those `marked` by `@sitemap.include` or `SITEMAP_INCLUDE`.",
        one_of("auto", "all", "marked"),
    )
    include: tuple[str, ...] = setting(
        (), "Views that are listed: patterns such as `blog.*` over endpoints, blueprints' names and paths.", listed
    )
    exclude: tuple[str, ...] = setting(
        (), "Views that are not listed, likewise; beats `SITEMAP_INCLUDE`, and decorators beat both.", listed
    )
    words: tuple[str, ...] | None = setting(
        None,
        "Words in paths and endpoints that `auto` takes for no public page, in place of its own `login`, `api`, `edit` "
        "and so on; `/new` is a whole segment of a path.",
        listed,
    )
    index: str = setting(
        "auto",
        "`auto`: `/sitemap.xml` is one `urlset` while everything fits into one document, a `sitemapindex` beyond. "
        "`always`: it is a `sitemapindex`.",
        one_of("auto", "always"),
    )
    max_urls: int = setting(10_000, "Most URLs in one sitemap; the protocol allows 50,000.", whole_number(1, 50_000))
    store: Any = setting(
        "memory:",
        "Where sitemaps are kept: `memory:`; `file:/a/directory`, for the processes of one machine; `redis://host`, "
        "`postgresql://host/database` or another URL of SQLAlchemy; or an instance: a `redis.Redis`, an `Engine`, a "
        "cachelib cache.",
        address_or_instance,
    )
    memory_limit: int = setting(64_000_000, "Most bytes that the store `memory:` holds.", whole_number(1))
    refresh: float = setting(3600.0, "Age at which a set is built anew, in the background.", seconds)
    max_age: float = setting(3600.0, "`max-age` of `Cache-Control`: how long clients may keep a document.", seconds)
    build_wait: float = setting(
        10.0, "Longest wait of a request for a build when the set is stale or there is none yet.", seconds
    )
    verify_age: float = setting(
        604_800.0, "Age at which a section is read again although its `version` stands.", seconds
    )
    grace: float = setting(86_400.0, "How long the number of a shard that was cut anew is still answered.", seconds)
    lease: float = setting(
        15.0, "How long a builder that gave no sign of life keeps others from building in its place.", seconds
    )
    on_error: str | None = setting(
        None,
        "What a bad entry does: `skip` counts and leaves it out, `raise` fails the build. Default: `raise` in debug "
        "and testing, else `skip`.",
        one_of("skip", "raise"),
    )
    languages: tuple[str, ...] | dict[str, str] = setting(
        _NONE,
        "Languages of the site, the default one first: codes as they stand in its URLs, or a mapping from code to the "
        "base URL of that language. Unset: those of Flask-Babel, where it is used.",
        codes_or_bases,
    )
    language_argument: str = setting("lang_code", "Name of the value in URLs that is their language.", text)
    timezone: tzinfo = setting(_UTC, "Zone in which dates without one are read.", zone)
    hooks: bool = setting(
        False, "Answer through Flask, with the application's hooks and sessions, instead of in front of it.", switch
    )
    namespace: str = setting(
        "0.9",
        "`0.84`: documents are of the namespace that Google had before sitemaps.org and of at most 10 MiB, for readers "
        "that know no other.",
        one_of("0.9", "0.84"),
    )
    stylesheet: str = setting(
        "sitemap.css",
        "URL of the CSS by which browsers show sitemaps to people; the default is served beside them. `none`: none.",
        text,
    )
    robots: bool | None = setting(
        None,
        "Serve `/robots.txt`: `true`, `false`, or unset: at the root of the host, unless the application has its own.",
        switch,
    )
    disallow_all: bool = setting(
        False, "`/robots.txt` asks every robot to stay away: for sites that are not in production.", switch
    )
    html: bool = setting(
        False, "Serve pages for people at `/sitemap`, which show what is served and what is wrong; on in debug.", switch
    )


def load_settings(config: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings in *config*, else in *environ*, else by default; `ConfigurationError` names what cannot be used."""
    given = {}
    for spec in fields(Settings):
        key = PREFIX + spec.name.upper()
        value = config.get(key)
        if value is None:
            value = environ.get(key) or None  # set to nothing is not set
        if value is not None:
            given[spec.name] = _checked(key, value, spec.metadata["read"])
    return Settings(**given)


def settings_table() -> str:
    """The settings as a Markdown table, for the documentation."""
    rows = ["| setting | default | meaning |", "|---|---|---|"]
    for spec in fields(Settings):
        default = "UTC" if spec.default is UTC else spec.default
        shown = "unset" if default is None else f"`{default}`"
        rows.append(f"| `{PREFIX}{spec.name.upper()}` | {shown} | {spec.metadata['help']} |")
    return "\n".join(rows)


def _checked(key: str, value: Any, read: Callable[[Any], T]) -> T:
    try:
        return read(value)
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"{key} {error}, not {value!r}") from None
