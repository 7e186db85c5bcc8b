"""What `unicodedata` tells of a character, and how it is shown."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

CATEGORIES = {
    "Lu": "Uppercase letter",
    "Ll": "Lowercase letter",
    "Lt": "Titlecase letter",
    "Lm": "Modifier letter",
    "Lo": "Other letter",
    "Mn": "Nonspacing mark",
    "Mc": "Spacing mark",
    "Me": "Enclosing mark",
    "Nd": "Decimal number",
    "Nl": "Letter number",
    "No": "Other number",
    "Pc": "Connector punctuation",
    "Pd": "Dash punctuation",
    "Ps": "Open punctuation",
    "Pe": "Close punctuation",
    "Pi": "Initial punctuation",
    "Pf": "Final punctuation",
    "Po": "Other punctuation",
    "Sm": "Math symbol",
    "Sc": "Currency symbol",
    "Sk": "Modifier symbol",
    "So": "Other symbol",
    "Zs": "Space separator",
    "Zl": "Line separator",
    "Zp": "Paragraph separator",
    "Cc": "Control",
    "Cf": "Format",
}
BIDI = {
    "L": "Left to right",
    "R": "Right to left",
    "AL": "Right to left, Arabic letter",
    "EN": "European number",
    "ES": "European number separator",
    "ET": "European number terminator",
    "AN": "Arabic number",
    "CS": "Common number separator",
    "NSM": "Nonspacing mark",
    "BN": "Boundary neutral",
    "B": "Paragraph separator",
    "S": "Segment separator",
    "WS": "White space",
    "ON": "Other neutral",
    "LRE": "Left-to-right embedding",
    "LRO": "Left-to-right override",
    "RLE": "Right-to-left embedding",
    "RLO": "Right-to-left override",
    "PDF": "Pop directional format",
    "LRI": "Left-to-right isolate",
    "RLI": "Right-to-left isolate",
    "FSI": "First strong isolate",
    "PDI": "Pop directional isolate",
}
WIDTHS = {"F": "Fullwidth", "H": "Halfwidth", "W": "Wide", "Na": "Narrow", "A": "Ambiguous", "N": "Neutral"}
# Scripts of one language; of the others only the script is known, which is what "und-" says (RFC 5646, 4.1).
LANGUAGES = {"Hira": "ja", "Kana": "ja", "Hang": "ko", "Bopo": "zh-TW"}
BLANK = frozenset({0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0})  # letters and marks without a form
BROAD = frozenset({0x2E3A, 0x2E3B, 0xFDFD, 0x12219, 0x1242B})  # several times as wide as high
DOTTED_CIRCLE = "\u25cc"


@dataclass(frozen=True, slots=True)
class Glyph:
    """How to show a character: *text*, which of a character that cannot be seen is a stand-in, language, direction."""

    text: str
    lang: str
    dir: str
    is_visible: bool = True
    is_broad: bool = False


def notation(code: int) -> str:
    return f"U+{code:04X}"


def glyph(code: int, script: str) -> Glyph:
    char = chr(code)
    if is_invisible(code):
        return Glyph(_stand_in(code), "en", "ltr", is_visible=False)
    # A mark needs something to stand on.
    text = DOTTED_CIRCLE + char if unicodedata.category(char).startswith("M") else char
    lang = "" if script == "Zyyy" else LANGUAGES.get(script, f"und-{script}")
    direction = "rtl" if unicodedata.bidirectional(char) in ("R", "AL") else "ltr"
    return Glyph(text, lang, direction, is_broad=code in BROAD)


def is_invisible(code: int) -> bool:
    category = unicodedata.category(chr(code))
    if category == "Cf":  # all but those that are written around digits
        return unicodedata.bidirectional(chr(code)) not in ("AN", "AL", "L") or code in (0x061C, 0x200E)
    is_selector = 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF or 0x180B <= code <= 0x180F
    return category in ("Cc", "Zs", "Zl", "Zp") or is_selector or code in BLANK


def facts(code: int) -> Iterator[tuple[str, str]]:
    """Names and values of properties; those that say nothing of this character are left out."""
    char = chr(code)
    category, bidi = unicodedata.category(char), unicodedata.bidirectional(char)
    yield "Category", f"{CATEGORIES[category]} ({category})"
    yield "Direction", f"{BIDI.get(bidi, 'Unknown')} ({bidi})"
    if combining := unicodedata.combining(char):
        yield "Combining class", str(combining)
    numeric = unicodedata.numeric(char, None)
    if numeric is not None:
        yield "Numeric value", f"{numeric:g}"
    if unicodedata.mirrored(char):
        yield "Mirrored", "In right-to-left text"
    width = unicodedata.east_asian_width(char)
    yield "East Asian width", f"{WIDTHS[width]} ({width})"


def encodings(code: int) -> Iterator[tuple[str, str]]:
    char = chr(code)
    yield "UTF-8", char.encode().hex(" ").upper()
    yield "UTF-16", char.encode("utf-16-be").hex(" ", 2).upper()
    yield "HTML", f"&#x{code:X};"
    yield "Python", f'"\\u{code:04x}"' if code < 0x10000 else f'"\\U{code:08x}"'


def relatives(code: int) -> Iterator[tuple[str, str, list[int]]]:
    """Other characters that this one is tied to: how, with which qualification, and which."""
    char = chr(code)
    if decomposition := unicodedata.decomposition(char):
        kind, _, rest = decomposition.rpartition("> ")
        yield "Decomposition", kind.strip("<"), [int(part, 16) for part in rest.split()]
    elif unicodedata.normalize("NFD", char) != char:
        yield "Decomposition", "", list(map(ord, unicodedata.normalize("NFD", char)))
    for label, changed in (("Uppercase", char.upper()), ("Lowercase", char.lower())):
        if changed != char:
            yield label, "", list(map(ord, changed))


def _stand_in(code: int) -> str:
    """A control picture, or the code point."""
    if code < 0x20:
        return chr(0x2400 + code)
    return {0x20: "\u2420", 0x7F: "\u2421"}.get(code, f"{code:04X}")
