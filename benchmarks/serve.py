"""Benchmark `serve`: CPU of answering, under gunicorn and nginx, and inside the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from wsgiref.util import setup_testing_defaults

from . import ours, workload
from .baselines import EmptyWrapper, empty_flask, hello
from .rounds import Effort, Measurement, Timings, clocked, timings
from .servers import Server, nginx, nginx_program, serving
from .tables import Table, Target

Environ = dict[str, Any]
Application = Callable[..., Any]

HELLO = "bare WSGI hello"
FLASK = "empty Flask view"
EXTENSION = "extension"
MIDDLEWARE = "middleware"
FILES = "nginx with exported files"
EMPTY_WRAPPER = "foreign request, wrapper that does nothing"

FOREIGN = "foreign request"
NOT_MODIFIED = "304"
HEAD = "HEAD"
GZIP = "gzip shard"
RAW = "raw shard"

UNDER_SERVERS = """CPU that the one worker of a server (gunicorn, sync; or nginx) needs for a request: loopback, a
connection each. The document is stored, with {entries:,} URLs. A foreign request is for a path that is not of
the sitemap: behind the extension an empty Flask view answers it, behind the middleware the bare hello, and nginx
with a text. 304 and HEAD should cost no more than the least that gunicorn can be asked to do."""

IN_PROCESS = """CPU of calling a WSGI application without a server. A foreign request passes through ours to the bare
hello; beside it, through a wrapper that does nothing. The body of a shard is read to its end."""


def tables(effort: Effort) -> Iterator[Table]:
    """Two tables on one stored site."""
    with TemporaryDirectory() as place:
        stores = {EXTENSION: f"{place}/extension", MIDDLEWARE: f"{place}/middleware"}
        app, sitemap = ours.site(workload.first(effort.entries), f"file:{stores[EXTENSION]}", around=hello)
        sitemap.build(app)
        middleware = ours.middleware(effort.entries, f"file:{stores[MIDDLEWARE]}")
        middleware.build()
        if find_spec("gunicorn"):
            exported = app.test_cli_runner().invoke(args=["sitemap", "export", f"{place}/files"])
            if exported.exit_code:
                raise RuntimeError(exported.output)
            yield under_servers(effort, stores, Path(place, "files"))
        else:
            yield Table("serve, under gunicorn", "", ["request"], skipped=["all of it (gunicorn is not installed)"])
        yield in_process(effort, {EXTENSION: app.wsgi_app, MIDDLEWARE: middleware})


def under_servers(effort: Effort, stores: Mapping[str, str], files: Path) -> Table:
    """Bare hello, empty Flask, and a stored document by extension, middleware and nginx, all servers up at once."""
    program = nginx_program()
    with ExitStack() as stack:
        bare, flask = (stack.enter_context(serving(name)) for name in ("hello", "flask"))
        entries = str(effort.entries)
        servers = {
            EXTENSION: stack.enter_context(serving("ours", stores[EXTENSION], entries)),
            MIDDLEWARE: stack.enter_context(serving("middleware", stores[MIDDLEWARE], entries)),
        }
        if program:
            servers[FILES] = stack.enter_context(nginx(program, files))
        contenders = {
            HELLO: asking(bare, effort.requests, 200, "/"),
            FLASK: asking(flask, effort.requests, 200, "/"),
        }
        for name, server in servers.items():
            contenders |= {f"{kind}, {name}": asked for kind, asked in requests(server, effort).items()}
        measured = timings(contenders, effort.rounds)
    made = table("serve, under gunicorn and nginx", UNDER_SERVERS.format(entries=effort.entries), measured, HELLO)
    made.skipped += [] if program else [f"{FILES} (nginx is not installed)"]
    for kind in (NOT_MODIFIED, HEAD):
        name = f"{kind}, {EXTENSION}"
        made.targets.append(Target(f"{name} / {HELLO}", measured.ratio(name, HELLO), at_most=1.1))
    return made


def requests(server: Server, effort: Effort) -> dict[str, Measurement]:
    """The five kinds of requests to *server*; of those with a body, which take long, fewer."""
    shard = ours.shard_path(lambda path: server.ask(path).body)
    etag = server.ask(shard).headers["etag"]
    many, few = effort.requests, max(2, effort.requests // 25)
    return {
        FOREIGN: asking(server, many, 200, "/other"),
        NOT_MODIFIED: asking(server, many, 304, shard, headers={"If-None-Match": etag}),
        HEAD: asking(server, many, 200, shard, method="HEAD"),
        GZIP: asking(server, few, 200, shard, headers={"Accept-Encoding": "gzip"}),
        RAW: asking(server, few, 200, shard),
    }


def asking(server: Server, count: int, status: int, path: str, **request: Any) -> Measurement:
    """CPU of *server* for each of *count* equal requests; one with another status counts as not done."""

    def ask() -> int:
        return sum(server.ask(path, **request).status == status for _ in range(count))

    return clocked(ask, count, server.cpu)


def in_process(effort: Effort, apps: Mapping[str, Application]) -> Table:
    """What Flask itself needs, and the five kinds of requests to ours, which both stand around the bare hello."""
    count = effort.requests * 20
    contenders = {
        HELLO: calling(hello, environ("/other"), "200", count),
        EMPTY_WRAPPER: calling(EmptyWrapper(hello), environ("/other"), "200", count),
        FLASK: calling(empty_flask().wsgi_app, environ("/"), "200", count // 20),
    }
    for name, app in apps.items():
        contenders |= {f"{kind}, {name}": called for kind, called in calls(app, count).items()}
    measured = timings(contenders, effort.rounds)
    made = table("serve, in process", IN_PROCESS, measured, EMPTY_WRAPPER)
    for name in apps:
        ratio = measured.ratio(f"{FOREIGN}, {name}", EMPTY_WRAPPER)
        made.targets.append(Target(f"{FOREIGN}, {name} / {EMPTY_WRAPPER}", ratio, at_most=2.0))
    return made


def calls(app: Application, count: int) -> dict[str, Measurement]:
    """The five kinds of requests to *app*; of those with a body fewer."""
    shard = ours.shard_path(lambda path: answered(app, environ(path))[0])
    etag = answered(app, environ(shard))[1]["ETag"]
    few = max(2, count // 1000)
    return {
        FOREIGN: calling(app, environ("/other"), "200", count),
        NOT_MODIFIED: calling(app, environ(shard, HTTP_IF_NONE_MATCH=etag), "304", count),
        HEAD: calling(app, environ(shard, REQUEST_METHOD="HEAD"), "200", count),
        GZIP: calling(app, environ(shard, HTTP_ACCEPT_ENCODING="gzip"), "200", few),
        RAW: calling(app, environ(shard), "200", few),
    }


def calling(app: Application, request: Environ, status: str, count: int) -> Measurement:
    """CPU of each of *count* calls of *app* with *request*, all of which must be answered with *status*."""

    def start_response(line: str, headers: list[tuple[str, str]]) -> None:
        if not line.startswith(status):
            raise RuntimeError(f"{request['PATH_INFO']} was answered {line}, not {status}")

    def call() -> int:
        for _ in range(count):
            result = app(request, start_response)
            for _block in result:
                pass
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
