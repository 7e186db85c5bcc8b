"""Objects of an operator's own code, by the text that names them."""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

from .options import TEXT, Form

_IMPORT = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_][\w.]*)(\(\))?")


def _import_string(value: Any) -> str:
    text: str = TEXT.read(value)
    if not _IMPORT.fullmatch(text):
        raise ValueError("must be an import string, such as 'shop.pages:pages' or 'shop:create_app()'")
    return text


IMPORT = Form(_import_string, {"type": "string", "pattern": rf"^{_IMPORT.pattern}$"})


@cache  # what is called is called once in a process
def imported(text: str, directory: Path) -> Any:
    """What the import string *text* names, or gives when it is called; modules may be in *directory*, too."""
    found = _IMPORT.fullmatch(text)
    assert found is not None
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    module, name, is_called = found.groups()
    named = attrgetter(name)(import_module(module))
    return named() if is_called else named
