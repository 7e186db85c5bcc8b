"""How gunicorn runs the atlas, on a laptop and on Heroku."""  # noqa: N999 - the name by which gunicorn looks for it

from __future__ import annotations

import os
from typing import Any

# Given PORT, as on Heroku, gunicorn itself binds 0.0.0.0:$PORT; otherwise nobody but this machine needs to come in.
# https://docs.gunicorn.org/en/stable/settings.html#bind
if "PORT" not in os.environ:
    bind = "127.0.0.1:8000"

# Heroku sets WEB_CONCURRENCY by the memory of the dyno: 2 for 512 MB.
# https://devcenter.heroku.com/articles/python-gunicorn
workers = int(os.environ.get("WEB_CONCURRENCY") or 2)

# The only workers of gunicorn itself that keep connections, and that stay alive however long an answer takes.
# https://docs.gunicorn.org/en/stable/settings.html#worker-class
worker_class = "gthread"
threads = 4

# Heroku's router keeps idle connections for 90 s; whoever closes first must not be us, or requests are lost on the way.
# https://devcenter.heroku.com/articles/http-routing#keepalives
keepalive = 95

# The heartbeat file belongs in memory: on a disk its update may block a worker for so long that it counts as dead.
# https://docs.gunicorn.org/en/stable/faq.html#how-do-i-avoid-gunicorn-excessively-blocking-in-os-fchmod
if os.path.isdir("/dev/shm"):
    worker_tmp_dir = "/dev/shm"

# Nobody talks to gunicorn 25.1 or later through its socket in the home directory, which other servers use as well.
control_socket_disable = True


def when_ready(server: Any) -> None:
    """Say where to look."""
    host, port = server.address[0][:2]
    site = f"http://{'127.0.0.1' if host in ('0.0.0.0', '::') else host}:{port}"
    print(
        f"\n  An atlas of Unicode, on {server.cfg.workers} workers"
        f"\n    {site}/                           the start page: what the sitemap is doing right now"
        f"\n    {site}/sitemap.xml                the index of all sitemaps"
        f"\n    {site}/sitemap-characters-1.xml   one of them"
        f"\n    {site}/robots.txt"
        f"\n    {site}/character/U+2603#note      edit a note: one sitemap and the index change\n",
        flush=True,
    )
