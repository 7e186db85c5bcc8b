"""How gunicorn runs the service, with `-c python:flask_sitemapx.service.gunicorn_conf`, as `flask-sitemapx serve` does.

Whatever is on gunicorn's command line, or in ``GUNICORN_CMD_ARGS``, goes before what is here.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import sys
import tempfile
from importlib.util import find_spec
from typing import Any

from ..errors import ConfigurationError
from .access import ADMIN_BIND, ADMIN_TOKEN, TOUCH_TOKEN, Access
from .application import remember
from .json_logs import JsonFormatter, Redacted, install, is_json
from .metrics import DIRECTORY, PACKAGE

wsgi_app = "flask_sitemapx.service:create_app()"

# All addresses if PORT is set, as on Heroku; else nobody but this machine needs to come in. The second address, at
# which operators are shown more, is a listener of its own: what a request says of itself has no say in it.
# https://docs.gunicorn.org/en/stable/settings.html#bind
bind = [f"0.0.0.0:{os.environ['PORT']}" if os.environ.get("PORT") else "127.0.0.1:8000"]
bind += [os.environ[ADMIN_BIND]] if os.environ.get(ADMIN_BIND) else []

# Two, so that one answers while the other builds; Heroku sets it by the memory of the dyno: 2 for 512 MB.
# https://devcenter.heroku.com/articles/python-gunicorn
workers = int(os.environ.get("WEB_CONCURRENCY") or 2)

# The only workers of gunicorn's own that keep connections, hold no thread for one that is idle, and stay alive however
# long an answer takes: their heart beats in a thread that answers nothing.
# https://docs.gunicorn.org/en/stable/settings.html#worker-class
worker_class = "gthread"

# A thread is held by a client that reads slowly, and by a request that waits for a build; one that is not held costs
# nothing, and is not even started.
threads = 32

# Heroku's router keeps idle connections for 90 s; whoever closes first must not be us, or requests are lost on the way.
# https://devcenter.heroku.com/articles/http-routing#keepalives
keepalive = 95

# Heroku kills what is still there 30 s after SIGTERM. A build under way gives its lease back as its process ends.
# https://devcenter.heroku.com/articles/dyno-shutdown-behavior
graceful_timeout = 20

# A worker whose heart stands still for so long is killed; a build runs in a thread of its own and does not stop it.
timeout = 60

# The heartbeat file belongs in memory: on a disk its update may block a worker for so long that it counts as dead.
# https://docs.gunicorn.org/en/stable/faq.html#how-do-i-avoid-gunicorn-excessively-blocking-in-os-fchmod
worker_tmp_dir = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

# Whose X-Forwarded-Proto is believed: who is named. '*', which Heroku's buildpack sets, names nobody; nothing is lost,
# since the addresses that are listed come from the file.
# https://docs.gunicorn.org/en/stable/settings.html#forwarded-allow-ips
forwarded_allow_ips = os.environ.get("FORWARDED_ALLOW_IPS") or "127.0.0.1,::1"
if "*" in forwarded_allow_ips:
    forwarded_allow_ips = "127.0.0.1,::1"

# No request decides where the service is mounted: by default gunicorn would take SCRIPT_NAME and PATH_INFO from the
# headers of whoever is trusted, that is of clients whose headers a proxy on this machine passes on.
# https://docs.gunicorn.org/en/stable/settings.html#forwarder-headers
forwarder_headers = ""

# Nobody talks to gunicorn 25.1 or later through its socket in the home directory, which other servers use as well, and
# which a read-only file system has no place for.
control_socket_disable = True

# The master reads the file, and workers use its copy, so that no two versions of it run at once; each worker makes its
# own application, with threads, locks and connections of its own, so nothing is lost or shared in a fork.
preload_app = False


_COUNTS = "sitemapx-counts-"


def _make_place_for_counts() -> None:
    """A directory that all workers leave their counts in, unless somebody chose one; it goes with this process."""
    chosen = os.environ.get(DIRECTORY)
    # That of another master which started this one (USR2) will go with that.
    if find_spec("prometheus_client") and (not chosen or os.path.basename(chosen).startswith(_COUNTS)):
        directory = os.environ[DIRECTORY] = tempfile.mkdtemp(prefix=_COUNTS, dir=worker_tmp_dir)
        atexit.register(_remove, directory, os.getpid())


def _remove(directory: str, owner: int) -> None:
    if os.getpid() == owner:  # and not of one of its workers
        shutil.rmtree(directory, ignore_errors=True)


_make_place_for_counts()  # now, since --preload has an application before any of the functions below is called


def logger_class() -> Any:
    """Gunicorn's own logger; its lines are JSON if that is wanted, and none has a token or the query of a request."""
    from gunicorn.glogging import Logger

    class ServiceLogger(Logger):  # type: ignore[misc]
        def setup(self, cfg: Any) -> None:
            super().setup(cfg)
            install(logging.getLogger(PACKAGE), os.environ)
            if is_json(os.environ):
                self.atoms_wrapper_class = dict  # its own puts a backslash before each quote
            tokens = [os.environ.get(name, "").strip() for name in (ADMIN_TOKEN, TOUCH_TOKEN)]
            for handler in (*self.error_log.handlers, *self.access_log.handlers):
                formatter = JsonFormatter() if is_json(os.environ) else handler.formatter or logging.Formatter()
                handler.setFormatter(Redacted(formatter, tokens))

        def atoms(self, resp: Any, req: Any, environ: dict[str, Any], request_time: Any) -> Any:
            # A token belongs into no query; one that is put there all the same, if only nearly right, is not logged.
            address = str(environ.get("RAW_URI")).partition("?")[0]
            return super().atoms(resp, req, {**environ, "RAW_URI": address, "QUERY_STRING": ""}, request_time)

    return ServiceLogger


def on_starting(server: Any) -> None:
    """Read the file before there are workers, so that what is wrong with it is said once."""
    try:
        remember()
        Access.of(os.environ)
    except ConfigurationError as error:
        server.log.critical("%s", error)
        sys.exit(1)


def when_ready(server: Any) -> None:
    """Check the second address; after this there are workers."""
    if told := _wrong_with_second_address(server):
        server.log.critical("%s=%s %s", ADMIN_BIND, os.environ[ADMIN_BIND], told)
        sys.exit(1)


def _wrong_with_second_address(server: Any) -> str | None:
    place = Access.of(os.environ).place
    # With --reuse-port each worker has listeners of its own, and the master none.
    names = [listener.sock.getsockname() for listener in server.LISTENERS] or server.cfg.address
    count = [name if isinstance(name, str) else name[1] for name in names].count(place)
    if place is None or count == 1:
        return None
    return "is that of everybody, too" if count else "is not listened at: give it in a --bind of its own, too"


def on_reload(server: Any) -> None:
    """On SIGHUP read it again; one that cannot be used leaves the last one in force."""
    remember()


def post_worker_init(worker: Any) -> None:
    """Keep the sets fresh though nobody asks for them."""
    if begin := getattr(worker.wsgi, "begin", None):
        begin()
