"""Log records as lines of JSON, and a handler that is there once."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from flask_sitemapx.errors import ConfigurationError
from flask_sitemapx.service.json_logs import JsonFormatter, Redacted, TextFormatter, install, is_json

ACCESS = {
    "h": "10.0.0.1",
    "m": "GET",
    "U": "/a",
    "q": "token=secret",
    "H": "HTTP/1.1",
    "B": 5,
    "a": "-",
    "s": "304",
    "L": "0.000250",
}


def formatted(name: str, message: str, *args: Any, **more: Any) -> dict[str, Any]:
    given = args[0] if args and isinstance(args[0], dict) else args  # as Logger has it
    line = JsonFormatter().format(logging.makeLogRecord({"name": name, "msg": message, "args": given, **more}))
    assert (line.isascii(), len(line.splitlines())) == (True, 1)
    fields: dict[str, Any] = json.loads(line)
    return fields


def test_a_record_is_a_line_with_time_level_logger_process_and_message():
    fields = formatted("a.b", "one\n%s \u00fc", "two", created=0.25, levelname="WARNING", process=7)
    assert fields == {
        "time": "1970-01-01T00:00:00.250+00:00",
        "level": "warning",
        "logger": "a.b",
        "process": 7,
        "message": "one\ntwo \u00fc",
    }


@pytest.mark.parametrize("text", ["\ud800", "\u2028\x85\x0b", '"\\"', "\r\n\0\x1b[31m", "\xff\U0001f600"])
def test_whatever_a_path_holds_is_a_line_that_each_stream_can_write(text):
    assert formatted("gunicorn.access", "", {**ACCESS, "U": text})["path"] == text
    assert formatted("a", "%s", text)["message"] == text


def test_an_exception_is_a_field():
    try:
        raise ValueError("why")
    except ValueError:
        assert formatted("a", "m", exc_info=sys.exc_info())["exception"].endswith("ValueError: why")


def test_a_request_is_fields_and_neither_headers_nor_the_query_are_any_of_them():
    atoms = {**ACCESS, "{authorization}i": "Bearer secret"}
    fields = formatted("gunicorn.access", "%(h)s %({authorization}i)s", atoms)
    assert {name: fields[name] for name in fields if name not in ("time", "level", "logger", "process")} == {
        "client": "10.0.0.1",
        "method": "GET",
        "path": "/a",
        "protocol": "HTTP/1.1",
        "bytes": 5,
        "status": 304,
        "seconds": 0.00025,
    }


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_secrets_are_left_out_in_each_form_that_they_may_have(formatter):
    secrets = ["a-secret", "a-secret-that-is-longer", 'with"quote', "with/slash", ""]
    text = " ".join([*secrets, "with%2Fslash", "with%22quote", "plain"])
    line = Redacted(formatter, secrets).format(logging.makeLogRecord({"msg": text}))
    assert "*** *** *** ***  *** *** plain" in line


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("tests.json_logs")
    yield logger
    logger.handlers.clear()
    logger.setLevel(logging.NOTSET)


def test_who_installs_twice_has_one_handler_and_the_last_form(logger, capsys):
    install(logger, {})
    install(logger, {"SITEMAP_LOG_FORMAT": "json"})
    logger.propagate = False
    logger.info("heard")
    assert json.loads(capsys.readouterr().err)["message"] == "heard"


def test_text_has_time_process_and_level(logger, capsys):
    install(logger, {"SITEMAP_LOG_FORMAT": "text"})
    logger.propagate = False
    logger.warning("heard")
    assert capsys.readouterr().err.endswith("] [WARNING] heard\n")


def test_there_are_two_forms():
    assert [is_json({}), is_json({"SITEMAP_LOG_FORMAT": ""}), is_json({"SITEMAP_LOG_FORMAT": "json"})] == [0, 0, 1]
    with pytest.raises(ConfigurationError, match="must be 'text' or 'json', not 'JSON'"):
        is_json({"SITEMAP_LOG_FORMAT": "JSON"})
