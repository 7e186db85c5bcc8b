"""What runs in a server's process: `python -m benchmarks.served APP [ARGUMENTS]` serves one application by gunicorn."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from gunicorn.app.base import BaseApplication

from . import ours, peers, workload
from .baselines import empty_flask, hello


def application(name: str, *arguments: str) -> Callable[..., Any]:
    """The WSGI application *name*: 'hello', 'flask', 'ours' and
    'middleware' (directory, entries), or that of a peer (entries)."""
    if name == "hello":
        return hello
    if name == "flask":
        return empty_flask()
    if name == "ours":
        directory, entries = arguments
        return ours.site(workload.first(int(entries)), f"file:{directory}")[0]
    if name == "middleware":
        directory, entries = arguments
        return ours.middleware(int(entries), f"file:{directory}")
    return peers.peer(name, workload.first(int(arguments[0]))).wsgi


class Gunicorn(BaseApplication):  # type: ignore[misc,unused-ignore]
    """gunicorn with one sync worker on a free port; the worker tells port and process id on standard output."""

    def __init__(self, load: Callable[[], Callable[..., Any]]) -> None:
        self.load = load
        super().__init__()

    def load_config(self) -> None:
        self.cfg.set("bind", "127.0.0.1:0")
        self.cfg.set("workers", 1)
        self.cfg.set("worker_class", "sync")
        self.cfg.set("loglevel", "warning")
        self.cfg.set("timeout", 120)
        self.cfg.set("post_worker_init", announce)


def announce(worker: Any) -> None:
    print(json.dumps({"port": worker.sockets[0].getsockname()[1], "worker": worker.pid}), flush=True)


if __name__ == "__main__":
    Gunicorn(partial(application, *sys.argv[1:])).run()
