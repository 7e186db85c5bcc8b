"""A headless Chromium for tests, and processes that are sure to end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

HUNG = 300.0  # seconds after which a process that a test waits for is ended


class Browser:
    """Chromium, spoken to in its DevTools protocol over two pipes."""

    def __init__(self, chromium: str, profile: Path, resources: ExitStack) -> None:
        their_in, our_out = os.pipe()
        our_in, their_out = os.pipe()
        self._out = resources.enter_context(os.fdopen(our_out, "wb", 0))
        self._in = resources.enter_context(os.fdopen(our_in, "rb"))
        # Without XSLT, as Chromium is from version 158 on
        flags = (
            "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
            "--disable-component-update --disable-sync --disable-features=XSLT --remote-debugging-pipe"
        )
        command = f'exec "$0" {flags} --user-data-dir="$1" about:blank 3<&{their_in} 4>&{their_out}'
        run = ["bash", "-c", command, chromium, str(profile)]
        try:
            resources.enter_context(ended(run, pass_fds=(their_in, their_out), stderr=subprocess.DEVNULL))
        finally:
            os.close(their_in)
            os.close(their_out)
        self._count = 0
        self._session: dict[str, str] = {}
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        self.call("Page.enable")

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        number = self._sent(method, parameters)
        answer = self._received(lambda message: message.get("id") == number)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, url: str, width: int, **emulated: object) -> None:
        """Open *url* in a window of *width*, *emulated* as ``Emulation.setDeviceMetricsOverride`` takes it."""
        device = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False, **emulated}
        self.call("Emulation.setDeviceMetricsOverride", **device)
        self.loading("Page.navigate", url=url)

    def loading(self, method: str, **parameters: object) -> None:
        """Call *method*, which loads a page, and wait for that: the answer to the call may come after the event."""
        self._sent(method, parameters)
        self._received(lambda message: message.get("method") == "Page.loadEventFired")

    def prefers(self, scheme: str) -> None:
        """Show pages as to somebody who prefers the color *scheme*."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def value(self, expression: str) -> Any:
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"]["value"]

    def painted(self) -> None:
        """Wait until the page is shown as it is by now."""
        frames = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        self.call("Runtime.evaluate", expression=frames, awaitPromise=True)

    def screenshot(self) -> bytes:
        """What is to be seen, as PNG."""
        return b64decode(self.call("Page.captureScreenshot")["data"])

    def _sent(self, method: str, parameters: dict[str, object]) -> int:
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters, **self._session}
        self._out.write(json.dumps(message).encode() + b"\0")
        return self._count

    def _received(self, is_wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            characters = iter(lambda: self._in.read(1), b"\0")
            message: dict[str, Any] = json.loads(b"".join(characters))
            if is_wanted(message):
                return message


@contextmanager
def ended(command: list[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process with all its children, ended after use, or when a test hangs."""
    with subprocess.Popen(command, start_new_session=True, **options) as process:
        timer = threading.Timer(HUNG, os.killpg, (process.pid, signal.SIGKILL))
        timer.daemon = True
        timer.start()
        try:
            yield process
        finally:
            timer.cancel()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
