"""Benchmark `serve`: CPU of answering, under gunicorn and inside the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Any
from wsgiref.util import setup_testing_defaults

from . import ours, workload
from .baselines import EmptyWrapper, empty_flask, hello
from .rounds import Effort, Measurement, Timings, clocked, timings
from .servers import Server, serving
from .tables import Table, Target

Environ = dict[str, Any]
Application = Callable[..., Any]

HELLO = "bare WSGI hello"
NOT_MODIFIED = "ours, 304"
HEAD = "ours, HEAD"
EMPTY_WRAPPER = "foreign request, wrapper that does nothing"
FOREIGN = "foreign request, ours"

UNDER_GUNICORN = """CPU that one sync worker of gunicorn needs for a request: loopback, a connection each. The
document is stored, with {entries:,} URLs. 304 and HEAD should cost no more than the least that this
server can be asked to do."""

IN_PROCESS = """CPU of calling a WSGI application without a server. A foreign request is for a path that is not ours,
and passes through our wrapper to the bare hello; beside it, through a wrapper that does nothing."""


def tables(effort: Effort) -> Iterator[Table]:
    """Two tables on one stored site."""
    with TemporaryDirectory() as directory:
        app, sitemap = ours.site(workload.first(effort.entries), f"file:{directory}", around=hello)
        sitemap.build(app)
        if find_spec("gunicorn"):
            yield under_gunicorn(effort, directory)
        else:
            yield Table("serve, under gunicorn", "", ["request"], skipped=["all of it (gunicorn is not installed)"])
        yield in_process(effort, app.wsgi_app)


def under_gunicorn(effort: Effort, directory: str) -> Table:
    """Bare hello, empty Flask, and ours in four ways, all servers up at once."""
    with ExitStack() as stack:
        bare, flask = (stack.enter_context(serving(name)) for name in ("hello", "flask"))
        mine = stack.enter_context(serving("ours", directory, str(effort.entries)))
        shard = ours.shard_path(lambda path: mine.ask(path).body)
        etag = mine.ask(shard).headers["etag"]
        many, few = effort.requests, max(2, effort.requests // 25)
        contenders = {
            HELLO: asking(bare, many, 200, "/"),
            "empty Flask view": asking(flask, many, 200, "/"),
            NOT_MODIFIED: asking(mine, many, 304, shard, headers={"If-None-Match": etag}),
            HEAD: asking(mine, many, 200, shard, method="HEAD"),
            "ours, gzip shard": asking(mine, few, 200, shard, headers={"Accept-Encoding": "gzip"}),
            "ours, raw shard": asking(mine, few, 200, shard),
        }
        measured = timings(contenders, effort.rounds)
    made = table("serve, under gunicorn", UNDER_GUNICORN.format(entries=effort.entries), measured, HELLO)
    for name in (NOT_MODIFIED, HEAD):
        made.targets.append(Target(f"{name} / {HELLO}", measured.ratio(name, HELLO), at_most=1.1))
    return made


def asking(server: Server, count: int, status: int, path: str, **request: Any) -> Measurement:
    """CPU of *server* for each of *count* equal requests; one with another status counts as not done."""

    def ask() -> int:
        return sum(server.ask(path, **request).status == status for _ in range(count))

    return clocked(ask, count, server.cpu)


def in_process(effort: Effort, mine: Application) -> Table:
    """Foreign requests through each wrapper around the bare hello, then our own 304, and what Flask itself needs."""
    shard = ours.shard_path(lambda path: answered(mine, environ(path))[0])
    etag = answered(mine, environ(shard))[1]["ETag"]
    count = effort.requests * 20
    contenders = {
        "foreign request, bare hello alone": calling(hello, environ("/other"), "200", count),
        EMPTY_WRAPPER: calling(EmptyWrapper(hello), environ("/other"), "200", count),
        FOREIGN: calling(mine, environ("/other"), "200", count),
        NOT_MODIFIED: calling(mine, environ(shard, HTTP_IF_NONE_MATCH=etag), "304", count),
        "empty Flask view": calling(empty_flask().wsgi_app, environ("/"), "200", count // 20),
    }
    measured = timings(contenders, effort.rounds)
    made = table("serve, in process", IN_PROCESS, measured, EMPTY_WRAPPER)
    made.targets.append(Target(f"{FOREIGN} / {EMPTY_WRAPPER}", measured.ratio(FOREIGN, EMPTY_WRAPPER), at_most=2.0))
    return made


def calling(app: Application, request: Environ, status: str, count: int) -> Measurement:
    """CPU of each of *count* calls of *app* with *request*, all of which must be answered with *status*."""

    def start_response(line: str, headers: list[tuple[str, str]]) -> None:
        if not line.startswith(status):
            raise RuntimeError(f"{request['PATH_INFO']} was answered {line}, not {status}")

    def call() -> int:
        for _ in range(count):
            result = app(request, start_response)
            if hasattr(result, "close"):
                result.close()
        return count

    return clocked(call, count)


def environ(path: str, **more: str) -> Environ:
    made: Environ = {"PATH_INFO": path, "HTTP_HOST": workload.HOST, **more}
    setup_testing_defaults(made)
    return made


def answered(app: Application, request: Environ) -> tuple[bytes, Mapping[str, str]]:
    """Body and headers of one answer."""
    sent: dict[str, str] = {}
    result = app(request, lambda line, headers: sent.update(headers))
    content = b"".join(result)
    if hasattr(result, "close"):
        result.close()
    return content, sent


def table(title: str, about: str, measured: Timings, reference: str) -> Table:
    made = Table(title, about, ["request", "us CPU", f"x {reference}"])
    for name in measured:
        made.rows.append([name, measured.median(name) * 1e6, measured.ratio(name, reference)])
    return made
