"""Waiting for what another thread or process brings about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def until(is_so: Callable[[], Any]) -> Any:
    """The first answer that is true; AssertionError after a minute without one."""
    deadline = time.monotonic() + 60
    while not (answer := is_so()):
        assert time.monotonic() < deadline
        time.sleep(0.002)
    return answer
