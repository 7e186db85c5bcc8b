"""Lines of TOML: what tomllib reads stands where it is said to stand."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flask_sitemapx.service.lines import Path, lines

SIGNS = st.text("ab1#[]{}=.,\"'\\ \n\té", max_size=8)
SPACE = st.sampled_from(["", " ", "\t "])


class Writer:
    """Writes a document with everything that TOML lets one write oddly, and notes where each key begins."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw
        self.text = ""
        self.lines: dict[Path, int] = {}
        self.keys = 0

    def document(self) -> None:
        self.table_body(())
        for _ in range(self.draw(st.integers(0, 4))):
            self.draw(st.sampled_from([self.table, self.array_of_tables]))()

    def note(self, path: Path) -> None:
        self.lines.setdefault(path, self.text.count("\n") + 1)

    def table(self) -> None:
        self.blank()
        path = self.key((), "[")
        self.text += "]" + self.line_end()
        self.table_body(path)

    def array_of_tables(self) -> None:
        path: Path = ()
        (name,) = self.part()
        for position in range(self.draw(st.integers(1, 3))):
            self.blank()
            self.note((name[0],))
            path = (name[0], position)
            self.note(path)
            self.text += f"[[{self.draw(SPACE)}{name[1]}{self.draw(SPACE)}]]{self.line_end()}"
            self.table_body(path)
            if self.draw(st.booleans()):
                ((below, written),) = self.part()
                self.note((*path, below))
                self.text += f"[{name[1]} . {written}]{self.line_end()}"
                self.table_body((*path, below))

    def table_body(self, path: Path) -> None:
        for _ in range(self.draw(st.integers(0, 3))):
            self.blank()
            self.pair(path, 2)
            self.text += self.line_end()

    def pair(self, path: Path, depth: int) -> None:
        here = self.key(path, "")
        self.text += f"{self.draw(SPACE)}={self.draw(SPACE)}"
        self.value(here, depth)

    def key(self, path: Path, before: str) -> Path:
        self.text += before + self.draw(SPACE)
        for position in range(self.draw(st.integers(1, 3))):
            ((name, written),) = self.part()
            path = (*path, name)
            self.note(path)
            self.text += (f"{self.draw(SPACE)}.{self.draw(SPACE)}" if position else "") + written
        return path

    def part(self) -> list[tuple[str, str]]:
        """A key of its own, and how it is written."""
        self.keys += 1
        odd = self.draw(SIGNS).replace("\n", "") + str(self.keys)
        forms = [(f"k-{self.keys}", f"k-{self.keys}"), (str(self.keys), str(self.keys)), (odd, basic(odd))]
        if "'" not in odd:
            forms.append((odd, f"'{odd}'"))
        return [self.draw(st.sampled_from(forms))]

    def value(self, path: Path, depth: int) -> None:
        kinds = [self.scalar] * 3 + ([self.array, self.inline_table] if depth else [])
        self.draw(st.sampled_from(kinds))(path, depth)

    def scalar(self, path: Path, depth: int) -> None:
        text = self.draw(SIGNS)
        self.text += self.draw(
            st.sampled_from(
                ["1", "-1_000", "3.5e2", "inf", "true", "0xff", "1979-05-27 07:32:00.5", "1979-05-27", "07:32:00"]
                + [basic(text), f'"""\n{several_lines(text)}"""', f'"""{several_lines(text)}""""', '""""""']
                + ([] if "'" in text else [f"'''{text}'''", f"'''\n{text}''''", f"'{text}'".replace("\n", "")])
            )
        )

    def array(self, path: Path, depth: int) -> None:
        self.text += "["
        for position in range(self.draw(st.integers(0, 3))):
            self.text += ("," if position else "") + self.draw(st.sampled_from(["", " ", "\n", " # [,'\n\n\t"]))
            self.note((*path, position))
            self.value((*path, position), depth - 1)
        self.text += self.draw(st.sampled_from(["", "\n", ' # ]"\n'])) + "]"

    def inline_table(self, path: Path, depth: int) -> None:
        self.text += "{"
        for position in range(self.draw(st.integers(0, 3))):
            self.text += "," if position else ""
            self.pair(path, depth - 1)
        self.text += self.draw(SPACE) + "}"

    def blank(self) -> None:
        self.text += self.draw(st.sampled_from(["", "\n", "  # [no] = 'table\n", "\t"]))

    def line_end(self) -> str:
        return str(self.draw(st.sampled_from(["\n", ' # "\n', " \n\n"])))


def basic(text: str) -> str:
    return json.dumps(text)


def several_lines(text: str) -> str:
    """*text* inside of three quotes on each side, its lines as lines, one of them going on after a backslash."""
    return "\n".join(map(basic_inside, text.split("\n"))) + "\\\n   "


def basic_inside(text: str) -> str:
    return basic(text)[1:-1]


@st.composite
def documents(draw: Callable[[Any], Any]) -> tuple[str, dict[Path, int]]:
    writer = Writer(draw)
    writer.document()
    return writer.text, writer.lines


def paths(value: Any, path: Path = ()) -> set[Path]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {path, *(found for key, below in items for found in paths(below, (*path, key)))}


@given(documents())
def test_all_that_a_document_has_stands_where_it_was_written(document):
    text, written = document
    assert lines(text) == written
    assert {(), *lines(text)} == paths(tomllib.loads(text))


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ('a = """\n\n"""\nb = 1', ("b",), 4),
        ("a = '''\n''''\nb = 1\nc = ''", ("b",), 3),
        ('a = "\\""\n"b#" = 1', ("b#",), 2),
        ('"\\u00e9" = 1', ("é",), 1),
        ("[a]\n[a.b]\nc = 1", ("a", "b", "c"), 3),
        ("[[a]]\n[[a]]\n[[a.b]]\n[[a.b]]\nc = 1", ("a", 1, "b", 1, "c"), 5),
        ("[a.b]\n[a]\nc = 1", ("a",), 2),
        ("3.1 = 1", ("3", "1"), 1),
        ("a = [\n  # one\n  {b = 1},\n\n  { b = 2 } ]", ("a", 1, "b"), 5),
    ],
)
def test_what_is_easily_misread(text, path, line):
    assert lines(text)[path] == line
