"""Settings are read from the configuration, else from the environment, and refused by name."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from flask_sitemapx import ConfigurationError
from flask_sitemapx.settings import PREFIX, Settings, load_settings, settings_table


def test_nothing_set_means_the_defaults():
    assert load_settings({}, {}) == Settings()


def test_the_configuration_beats_the_environment():
    environ = {"SITEMAP_MAX_URLS": "7", "SITEMAP_BASE_URL": "https://example.org"}
    settings = load_settings({"SITEMAP_MAX_URLS": 5, "SITEMAP_BASE_URL": None}, environ)
    assert settings.max_urls == 5
    assert settings.base_url == "https://example.org"


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("BASE_URL", " https://example.com ", "https://example.com"),
        ("BASE_URL", "", None),
        ("ROUTES", "marked", "marked"),
        ("ROUTES", "all", "all"),
        ("INCLUDE", "blog.*, shop\n/docs/*", ("blog.*", "shop", "/docs/*")),
        ("EXCLUDE", "", ()),
        ("WORDS", "login /new", ("login", "/new")),
        ("INDEX", "always", "always"),
        ("MAX_URLS", "50000", 50_000),
        ("STORE", "file:/tmp/x", "file:/tmp/x"),
        ("REFRESH", "0.5", 0.5),
        ("MAX_AGE", "0", 0.0),
        ("ON_ERROR", "skip", "skip"),
        ("TIMEZONE", "utc", UTC),
        ("TIMEZONE", "Europe/Berlin", ZoneInfo("Europe/Berlin")),
        ("HOOKS", "on", True),
        ("HOOKS", "False", False),
        ("ROBOTS", "", None),
        ("ROBOTS", "no", False),
        ("DISALLOW_ALL", "1", True),
    ],
)
def test_the_environment_is_text(key, text, value):
    assert getattr(load_settings({}, {PREFIX + key: text}), key.lower()) == value


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("TIMEZONE", timezone(timedelta(hours=2))),
        ("INCLUDE", ("blog.*",)),
        ("HOOKS", True),
        ("ROBOTS", False),
        ("REFRESH", 5),
        ("STORE", object()),
    ],
)
def test_the_configuration_holds_values(key, value):
    assert getattr(load_settings({PREFIX + key: value}, {}), key.lower()) == value


def test_a_set_is_read_alike_in_every_process():
    assert load_settings({"SITEMAP_INCLUDE": {"b", "c", "a"}}, {}).include == ("a", "b", "c")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("BASE_URL", 7),
        ("ROUTES", "some"),
        ("INDEX", "never"),
        ("MAX_URLS", 0),
        ("MAX_URLS", 50_001),
        ("MAX_URLS", "many"),
        ("MAX_URLS", True),
        ("MAX_URLS", 1.5),
        ("MEMORY_LIMIT", 0),
        ("REFRESH", -1),
        ("REFRESH", "soon"),
        ("REFRESH", "nan"),
        ("REFRESH", "inf"),
        ("REFRESH", True),
        ("ON_ERROR", "ignore"),
        ("TIMEZONE", "Mars/Olympus"),
        ("TIMEZONE", ""),
        ("TIMEZONE", "../UTC"),
        ("HOOKS", "maybe"),
        ("HOOKS", 1),
        ("ROBOTS", "auto"),
        ("INCLUDE", 7),
        ("EXCLUDE", [7]),
    ],
)
def test_what_cannot_be_used_is_named(key, value):
    with pytest.raises(ConfigurationError, match=f"^SITEMAP_{key} must be ") as caught:
        load_settings({PREFIX + key: value}, {})
    assert repr(value) in str(caught.value)


def test_every_setting_has_help_that_ends_in_a_full_stop():
    assert [spec.name for spec in fields(Settings) if not spec.metadata["help"].endswith(".")] == []


def test_the_table_has_a_row_for_each_setting():
    assert settings_table().count(f"\n| `{PREFIX}") == len(fields(Settings))
