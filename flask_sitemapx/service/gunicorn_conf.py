"""How gunicorn runs the service, with `-c python:flask_sitemapx.service.gunicorn_conf`, as `flask-sitemapx serve` does.

Whatever is on gunicorn's command line, or in ``GUNICORN_CMD_ARGS``, goes before what is here.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
from importlib.util import find_spec
from typing import Any

from ..errors import ConfigurationError
from .access import ADMIN_BIND, Access
from .application import remember
from .json_logs import install, is_json
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


def logger_class() -> Any:
    """Gunicorn's own logger; its lines are JSON if that is wanted."""
    from gunicorn.glogging import Logger

    class ServiceLogger(Logger):  # type: ignore[misc]
        def setup(self, cfg: Any) -> None:
            super().setup(cfg)
            if is_json(os.environ):
                self._write_json()
            install(logging.getLogger(PACKAGE), os.environ)

        def _write_json(self) -> None:
            from .json_logs import JsonFormatter

            for handler in (*self.error_log.handlers, *self.access_log.handlers):
                handler.setFormatter(JsonFormatter())

    return ServiceLogger


def on_starting(server: Any) -> None:
    """Read the file before there are workers, so that what is wrong with it is said once."""
    try:
        remember()
        Access.of(os.environ)
    except ConfigurationError as error:
        server.log.critical("%s", error)
        sys.exit(1)
    if find_spec("prometheus_client") and not os.environ.get(DIRECTORY):
        server.metrics = os.environ[DIRECTORY] = tempfile.mkdtemp(prefix="sitemapx-metrics-", dir=worker_tmp_dir)


def when_ready(server: Any) -> None:
    """End a service of which operators would think that it has a second address, or one that gives it to everybody."""
    place = Access.of(os.environ).place
    if place is None:
        return
    names = [listener.sock.getsockname() for listener in server.LISTENERS]
    count = [name if isinstance(name, str) else name[1] for name in names].count(place)
    if count != 1:
        told = "is not listened at: give it in a --bind of its own, too" if not count else "is that of everybody, too"
        server.log.critical("%s=%s %s", ADMIN_BIND, os.environ[ADMIN_BIND], told)
        sys.exit(1)


def on_reload(server: Any) -> None:
    """On SIGHUP read it again; one that cannot be used leaves the last one in force."""
    remember()


def post_worker_init(worker: Any) -> None:
    """Keep the sets fresh though nobody asks for them."""
    if begin := getattr(worker.wsgi, "begin", None):
        begin()


def on_exit(server: Any) -> None:
    """Leave nothing behind, unless another master took over."""
    if getattr(server, "metrics", None) and not server.reexec_pid:
        shutil.rmtree(server.metrics, ignore_errors=True)
