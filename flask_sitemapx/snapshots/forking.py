"""Who is told in a child process that its threads are gone and its locks may be held by nobody."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable


def after_fork(reset: Callable[[], None]) -> None:
    """Have the bound method *reset* called in each child process, for as long as its object lives."""
    if not hasattr(os, "register_at_fork"):
        return
    reference = weakref.WeakMethod(reset)

    def call() -> None:
        if (method := reference()) is not None:
            method()

    os.register_at_fork(after_in_child=call)
