"""The pages of the atlas, and the one thing that can be changed on them."""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from flask import Blueprint, Flask, abort, current_app, redirect, render_template, request, url_for
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response

from . import characters, database, languages, listing
from .listing import sitemap

atlas = Blueprint("atlas", __name__)

PER_PAGE = 512
FOUND = 240
LONGEST_QUERY = 100
LONGEST_NOTE = 500
SHOWN_ON_START = "AÆßЖΩאشᚠअதกက你あ한አᏣⴵᠠ༃𐎀𓂀♞☃∞∮⠿❦♫⌘"
BLOCKS_ON_START = (
    "basic-latin",
    "greek-and-coptic",
    "cyrillic",
    "hebrew",
    "arabic",
    "devanagari",
    "tamil",
    "thai",
    "georgian",
    "ethiopic",
    "cherokee",
    "runic",
    "mongolian",
    "general-punctuation",
    "arrows",
    "mathematical-operators",
    "miscellaneous-symbols",
    "braille-patterns",
    "hiragana",
    "cjk-unified-ideographs",
    "hangul-syllables",
    "cuneiform",
    "egyptian-hieroglyphs",
    "emoticons",
)
PLANES = {
    0: "Basic Multilingual Plane",
    1: "Supplementary Multilingual Plane",
    2: "Supplementary Ideographic Plane",
    3: "Tertiary Ideographic Plane",
    14: "Supplementary Special-purpose Plane",
}
# What is certainly a code point, and what is one besides being a word, such as "face".
_NOTATION = re.compile(r"(?:U\+|0x|\\u|\\U|&#x)([0-9A-F]{1,8});?", re.IGNORECASE)
_HEXADECIMAL = re.compile(r"[0-9A-F]{3,6}", re.IGNORECASE)
_CODE = re.compile(r"U\+([0-9A-F]{4,6})")
_LOOSE_CODE = re.compile(r"(?:U\+|U)?0*([0-9A-F]{1,6})", re.IGNORECASE)


atlas.url_value_preprocessor(languages.pull)
atlas.url_defaults(languages.add)
IN_ENGLISH = {"lang_code": languages.DEFAULT}
IN_OTHERS = f"/<any({', '.join(code for code in languages.LANGUAGES if code != languages.DEFAULT)}):lang_code>"


# Pages


@atlas.get("/")
def start() -> str:
    blocks = {block["slug"]: block for block in database.blocks()}
    return render_template(
        "start.html",
        wall=database.those(map(ord, SHOWN_ON_START)),
        blocks=[blocks[slug] for slug in BLOCKS_ON_START if slug in blocks],
        edits=database.edits(6),
        subject=database.character(0x2603) or database.those(range(0x41, 0x42))[0],
        **_sitemap_now(),
    )


@atlas.get("/blocks", defaults=IN_ENGLISH)
@atlas.get(f"{IN_OTHERS}/blocks")
def blocks() -> str:
    planes: dict[str, list[Any]] = {}
    for block in database.blocks():
        number = block["first"] >> 16
        planes.setdefault(PLANES.get(number, f"Plane {number}"), []).append(block)
    return render_template("blocks.html", planes=planes)


@atlas.get("/about")
def about() -> str:
    return render_template("about.html", source=inspect.getsource(listing.characters))


@atlas.get("/block/<slug>", defaults=IN_ENGLISH)
@atlas.get(f"{IN_OTHERS}/block/<slug>")
def block(slug: str) -> str:
    found = database.block(slug) or abort(404)
    pages = -(-found["count"] // PER_PAGE)
    page = request.args.get("page", 1, type=int)
    if not 1 <= page <= pages:
        abort(404)
    return render_template(
        "block.html",
        block=found,
        page=page,
        pages=pages,
        characters=database.characters_of(found["first"], (page - 1) * PER_PAGE, PER_PAGE),
        previous=database.block_beside(found["first"], after=False),
        following=database.block_beside(found["first"], after=True),
    )


@atlas.get("/character/<code>", defaults=IN_ENGLISH)
@atlas.get(f"{IN_OTHERS}/character/<code>")
def character(code: str) -> str | Response:
    if loose := _LOOSE_CODE.fullmatch(code):
        known = characters.notation(int(loose[1], 16))
        if code != known:
            return redirect(url_for(".character", code=known), 301)
    found = _character(code)
    number = request.args.get("edit", type=int)
    edit = database.edit(number) if number is not None else None
    return _character_page(found, edit=edit if edit and edit["code"] == found["code"] else None)


@atlas.get("/character/<code>.svg")
def picture(code: str) -> Response:
    """The character as an image, by the fonts of whoever looks at it."""
    svg = render_template("character.svg", character=_character(code))
    return current_app.response_class(svg, mimetype="image/svg+xml")


@atlas.get("/search")
@sitemap.exclude
def search() -> str | Response:
    query = request.args.get("q", "").strip()[:LONGEST_QUERY]
    if exact := _NOTATION.fullmatch(query):
        codes = [int(exact[1], 16)]
    elif len(query) == 1 or not query.isascii():
        codes = list(dict.fromkeys(map(ord, query)))
    else:
        codes = [int(query, 16)] if _HEXADECIMAL.fullmatch(query) else []
    found = database.those(code for code in codes if code <= 0x10FFFF)
    if len(found) == 1 and (exact or len(query) == 1):
        return redirect(url_for(".character", code=characters.notation(found[0]["code"])))
    total = len(found)
    if words := re.findall("[A-Z0-9]+", query.upper()) if query.isascii() and not exact else []:
        count, rows = database.named(words, FOUND)
        found += [row for row in rows if row["code"] not in codes]
        total = max(len(found), count)
    return render_template("search.html", query=query, found=found[:FOUND], total=total)


# The edit


@atlas.post("/character/<code>/note")
def edit_note(code: str) -> Response | tuple[str, int]:
    """Keep the note, touch the section, and look at the sitemap before and after."""
    if not is_same_origin():
        abort(403, "A note is edited from its own page.")
    found = _character(code)
    text = request.form.get("note", "").replace("\r\n", "\n").replace("\0", "").strip()
    if len(text) > LONGEST_NOTE:
        message = f"A note has at most {LONGEST_NOTE} characters; this one has {len(text)}."
        return str(_character_page(found, text=text, message=message)), 400
    app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]
    before = listing.etags(app, request.url_root)
    number = database.save_note(found["code"], text)
    sitemap.touch("characters")
    begun = time.perf_counter()
    after = listing.etags(app, request.url_root)
    seconds = time.perf_counter() - begun
    changed = [path for path, etag in after.items() if before.get(path) != etag]
    database.save_outcome(number, seconds, changed, len(after) - len(changed))
    return redirect(url_for(".character", code=code, edit=number, _anchor="note"), 303)


def is_same_origin() -> bool:
    """Whether a form comes from a page of this site; a request without any of the headers comes from no browser."""
    if site := request.headers.get("Sec-Fetch-Site"):
        return site in ("same-origin", "none")
    origin = request.headers.get("Origin")
    return origin is None or urlsplit(origin).netloc == request.host


# What all pages share


@atlas.app_errorhandler(HTTPException)
def explained(error: HTTPException) -> tuple[str, int] | HTTPException:
    if error.code is None or error.code < 400:
        return error
    return render_template("error.html", error=error), error.code


atlas.add_app_template_global(characters.notation)
atlas.add_app_template_global(os.getpid, "worker")
atlas.add_app_template_global(languages.say, "_")
atlas.add_app_template_global(languages.current, "language")
atlas.add_app_template_global(languages.direction)
atlas.add_app_template_global(languages.versions)
atlas.add_app_template_global(languages.LANGUAGES.__getitem__, "language_name")


@atlas.app_template_global()
def glyph(row: Any) -> characters.Glyph:
    return characters.glyph(row["code"], row["script"])


@atlas.app_template_global()
def sample(block: Any) -> characters.Glyph:
    return characters.glyph(block["sample"], block["script"])


@atlas.app_template_global()
def canonical() -> str:
    """The address of the page at hand, without what only says how one came here."""
    kept: dict[str, Any] = {"page": request.args["page"]} if request.args.get("page", "1") != "1" else {}
    path = url_for(request.endpoint or ".start", **(request.view_args or {}), **kept)
    return absolute(path)


@atlas.app_template_global()
def absolute(path: str) -> str:
    """*path* with the name of the site."""
    return urljoin(current_app.config["SITEMAP_BASE_URL"] or request.url_root, path)


@atlas.app_template_global()
@cache
def stylesheet_version() -> str:
    """Stands for the stylesheet as it is, so that browsers fetch a new one at once."""
    return hashlib.sha256((Path(__file__).parent / "static" / "atlas.css").read_bytes()).hexdigest()[:8]


@atlas.app_template_filter("ago")
def ago(moment: str) -> str:
    """How long ago a W3C datetime is, in words."""
    seconds = max(0, int((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()))
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if count := seconds // size:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


@atlas.app_template_filter("moment")
def moment(text: str) -> str:
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _sitemap_now() -> dict[str, Any]:
    status = sitemap.status()
    site = status["sites"][0]
    return {
        "site": site,
        "set": site["snapshot"],
        "documents": listing.documents(status),
        "base_url": status["base_url"],
        "totals": database.totals(),
        "unicode": database.fact("unicode"),
    }


def _character(code: str) -> Any:
    known = _CODE.fullmatch(code)
    number = int(known[1], 16) if known else -1
    # One address for each page: U+0041, not U+00041.
    return (database.character(number) if code == characters.notation(number) else None) or abort(404)


def _character_page(found: Any, *, edit: Any = None, text: str | None = None, message: str | None = None) -> str:
    code = found["code"]
    note = database.note(code)
    return render_template(
        "character.html",
        character=found,
        facts=[*characters.facts(code), *characters.encodings(code)],
        relatives=[(label, kind, database.those(codes)) for label, kind, codes in characters.relatives(code)],
        previous=database.character_beside(code, after=False),
        following=database.character_beside(code, after=True),
        note=note,
        text=text if text is not None else note["text"] if note else "",
        message=message,
        longest=LONGEST_NOTE,
        edit=edit,
    )
