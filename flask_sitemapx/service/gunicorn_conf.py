"""How gunicorn runs the service: `gunicorn -c python:flask_sitemapx.service.gunicorn_conf`.

`flask-sitemapx serve` goes by it, too. What is on gunicorn's command line, or in ``GUNICORN_CMD_ARGS``, goes first.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from ..errors import ConfigurationError
from .application import remember

wsgi_app = "flask_sitemapx.service:create_app()"

# Given PORT, gunicorn itself binds 0.0.0.0:$PORT; else nobody but this machine needs to come in.
# https://docs.gunicorn.org/en/stable/settings.html#bind
if "PORT" not in os.environ:
    bind = "127.0.0.1:8000"

# Two, so that one answers while the other builds; Heroku sets it by the memory of the dyno: 2 for 512 MB.
# https://devcenter.heroku.com/articles/python-gunicorn
workers = int(os.environ.get("WEB_CONCURRENCY") or 2)

# The only workers of gunicorn's own that keep connections, let no slow client hold up others, and stay alive however
# long an answer takes: their heart beats in a thread that answers nothing.
# https://docs.gunicorn.org/en/stable/settings.html#worker-class
worker_class = "gthread"
threads = 8

# Heroku's router keeps idle connections for 90 s; whoever closes first must not be us, or requests are lost on the way.
# https://devcenter.heroku.com/articles/http-routing#keepalives
keepalive = 95

# Heroku kills what is still there 30 s after SIGTERM. A build under way gives its lease back as its process ends.
# https://devcenter.heroku.com/articles/dyno-shutdown-behavior
graceful_timeout = 25

# A worker whose heart stands still for so long is killed; a build runs in a thread of its own and does not stop it.
timeout = 60

# The heartbeat file belongs in memory: on a disk its update may block a worker for so long that it counts as dead.
# https://docs.gunicorn.org/en/stable/faq.html#how-do-i-avoid-gunicorn-excessively-blocking-in-os-fchmod
if os.path.isdir("/dev/shm"):
    worker_tmp_dir = "/dev/shm"

# No request decides where the service is mounted: by default gunicorn would take SCRIPT_NAME and PATH_INFO from the
# headers of whoever `forwarded_allow_ips` trusts, and on Heroku FORWARDED_ALLOW_IPS is '*'.
# https://docs.gunicorn.org/en/stable/settings.html#forwarder-headers
forwarder_headers = ""

# Nobody talks to gunicorn 25.1 or later through its socket in the home directory, which other servers use as well.
control_socket_disable = True

# The master reads the file, and workers use its copy, so that no two versions of it run at once; each worker makes its
# own application, with threads, locks and connections of its own, so nothing is lost or shared in a fork.
preload_app = False


def on_starting(server: Any) -> None:
    """Read the file before there are workers, so that what is wrong with it is said once."""
    try:
        remember()
    except ConfigurationError as error:
        print(error, file=sys.stderr)  # noqa: T201 - gunicorn's log is not open yet
        sys.exit(1)


def on_reload(server: Any) -> None:
    """On SIGHUP read it again; one that cannot be used leaves the last one in force."""
    remember()


def post_worker_init(worker: Any) -> None:
    """Keep the sets fresh though nobody asks for them."""
    if begin := getattr(worker.wsgi, "begin", None):
        begin()
