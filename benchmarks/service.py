"""Benchmark `service`: requests a second of the standalone service, and how long it takes to start."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from . import workload
from .rounds import QUICK, Effort
from .servers import ROOT, Server, nginx, nginx_program
from .tables import Table, Target

HELLO = "bare WSGI hello"
SERVICE = "the service"
FILES = "nginx with exported files"
CONNECTIONS = 8
SECONDS = 2

ABOUT_LOAD = """Requests a second and the time within which 99 of 100 are answered: {workers} workers of gunicorn
({kind}), nginx with one, {connections} connections, which are kept where the server keeps them. The client is
wrk, on the same machine; medians of {rounds} interleaved rounds of {seconds} s. A shard has {entries:,} URLs."""
ABOUT_START = """Wall seconds from the start of gunicorn with two workers to its first answer of 200: an empty Flask
application, and the service with a stored set of {entries:,} URLs."""

TOML = """\
base_url = "{origin}"
store = "file:sets"
refresh = 1e6
[sections.products]
type = "csv"
path = "products.csv"
loc = "{{+path}}"
"""


class Load(NamedTuple):
    """What wrk told of one round."""

    rate: float
    p99: float
    """Milliseconds."""


def tables(effort: Effort) -> Iterator[Table]:
    """A table for each kind of worker, and one of the start."""
    missing = [name for name in ("wrk", "gunicorn") if not shutil.which(name, path=_path())]
    if missing:
        yield Table("service", "", ["what"], skipped=[f"all of it ({' and '.join(missing)} not installed)"])
        return
    with TemporaryDirectory() as place:
        directory = Path(place)
        stored(directory, effort.entries)
        for kind in ("gthread", "sync"):
            yield under_load(kind, directory, effort)
        yield starts(directory, effort)


def stored(directory: Path, entries: int) -> None:
    """A site whose set is built and exported."""
    rows = "\n".join(f"/product/{number}?ref=a" for number in range(entries))
    (directory / "products.csv").write_text(f"path\n{rows}\n")
    (directory / "sitemap.toml").write_text(TOML.format(origin=workload.ORIGIN))
    for command in (["build"], ["export", "files"]):
        run = [sys.executable, "-m", "flask_sitemapx", *command]
        subprocess.run(run, cwd=directory, check=True, capture_output=True, env=_environ())


def under_load(kind: str, directory: Path, effort: Effort) -> Table:
    workers, rounds, seconds = 2, (2 if effort is QUICK else effort.rounds), (1 if effort is QUICK else SECONDS)
    program = nginx_program()
    with ExitStack() as stack:
        servers = {
            HELLO: stack.enter_context(gunicorn("benchmarks.baselines:hello", directory, kind, workers)),
            SERVICE: stack.enter_context(gunicorn("flask_sitemapx.service:create_app()", directory, kind, workers)),
        }
        if program:
            servers[FILES] = stack.enter_context(nginx(program, directory / "files")).port
        measured = loads(requests(servers), rounds, seconds)
    about = ABOUT_LOAD.format(
        workers=workers,
        kind=kind,
        connections=CONNECTIONS,
        rounds=rounds,
        seconds=seconds,
        entries=min(effort.entries, 10_000),
    )
    made = Table(f"service, {kind}", about, ["request", "requests/s", "99 % within ms"])
    for name, some in measured.items():
        made.rows.append([name, median(load.rate for load in some), median(load.p99 for load in some)])
    made.targets.append(Target(f"304, {SERVICE} / {HELLO}", rate(measured, f"304, {SERVICE}", HELLO), at_least=0.85))
    if program and kind == "sync":
        shard = rate(measured, f"gzip shard, {SERVICE}", f"gzip shard, {FILES}")
        made.targets.append(Target(f"gzip shard, {SERVICE} / {FILES}", shard, at_least=0.3))
    made.skipped += [] if program else [f"{FILES} (nginx is not installed)"]
    return made


def requests(servers: Mapping[str, int]) -> dict[str, list[str]]:
    """Arguments of wrk by what they ask."""
    shard = "/sitemap-products-1.xml"
    asked = {HELLO: [f"http://127.0.0.1:{servers[HELLO]}/"]}
    for name in [name for name in servers if name != HELLO]:
        origin = f"http://127.0.0.1:{servers[name]}"
        etag = Server(servers[name], 0).ask(shard).headers["etag"]
        asked |= {
            f"304, {name}": ["-H", f"If-None-Match: {etag}", f"{origin}{shard}"],
            f"gzip shard, {name}": ["-H", "Accept-Encoding: gzip", f"{origin}{shard}"],
            f"index, {name}": ["-H", "Accept-Encoding: gzip", f"{origin}/sitemap.xml"],
        }
    return asked


def loads(asked: Mapping[str, Sequence[str]], rounds: int, seconds: int) -> dict[str, list[Load]]:
    measured: dict[str, list[Load]] = {name: [] for name in asked}
    for _ in range(rounds):
        for name, arguments in asked.items():
            measured[name].append(load(arguments, seconds))
    return measured


def load(arguments: Sequence[str], seconds: int) -> Load:
    """One round; what wrk counts as failed is an error."""
    fixed = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", "-H", f"Host: {workload.HOST}"]
    told = subprocess.run([*fixed, *arguments], check=True, capture_output=True, text=True).stdout
    if "Non-2xx or 3xx" in told:
        raise RuntimeError(told)
    number, unit = re.findall(r"99%\s+([\d.]+)(us|ms|s)", told)[0]
    return Load(float(re.findall(r"Requests/sec:\s+([\d.]+)", told)[0]), float(number) * _MILLISECONDS[unit])


def rate(measured: Mapping[str, Sequence[Load]], name: str, reference: str) -> float:
    """Median, over the rounds, of how many times as many requests a second *name* had as *reference*."""
    pairs = zip(measured[name], measured[reference], strict=True)
    return median(one.rate / other.rate for one, other in pairs)


def starts(directory: Path, effort: Effort) -> Table:
    apps = {
        "empty Flask application": ("benchmarks.baselines:empty_flask()", "/"),
        SERVICE: ("flask_sitemapx.service:create_app()", "/sitemap.xml"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in apps}
    for _ in range(2 if effort is QUICK else effort.rounds + 1):
        for name, (app, path) in apps.items():
            begun = time.perf_counter()
            with gunicorn(app, directory, "gthread", 2) as port:
                answer = Server(port, 0).ask(path)
                seconds[name].append(time.perf_counter() - begun)
                if answer.status != 200:
                    raise RuntimeError(f"{app} answered {answer.status}")
    warm = {name: median(some[1:]) for name, some in seconds.items()}
    made = Table("service, start", ABOUT_START.format(entries=effort.entries), ["what", "seconds", "x"])
    flask, service = warm.values()
    made.rows += [[name, value, value / flask] for name, value in warm.items()]
    made.targets.append(Target("start of the service / of an empty Flask application", service / flask, at_most=2.0))
    return made


@contextmanager
def gunicorn(app: str, directory: Path, kind: str, workers: int) -> Iterator[int]:
    """The port of gunicorn with *app* in *directory*, once it listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "gunicorn", "--bind", f"127.0.0.1:{port}", "--workers", str(workers)]
    command += ["--worker-class", kind, "--log-level", "warning", "--no-control-socket"]
    command += ["--threads", "8"] if kind == "gthread" else []
    process = subprocess.Popen([*command, app], cwd=directory, env=_environ())
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
            except ConnectionRefusedError:
                time.sleep(0.002)
            else:
                break
        yield port
    finally:
        process.terminate()
        process.wait()


_MILLISECONDS = {"us": 0.001, "ms": 1.0, "s": 1000.0}


def _environ() -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("SITEMAP_")}
    return {**kept, "PYTHONPATH": str(ROOT)}


def _path() -> str:
    return os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
