"""`flask-sitemapx ...`: the service from the command line."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from flask import Flask

from ..binding import Binding
from ..cli import Failed, SitemapGroup, commands, ending
from ..errors import ConfigurationError, SitemapError
from ..extension import KEY
from .access import ADMIN_BIND
from .application import NAME, VARIABLE, File, configured, read
from .configuration import FORMS, Configuration, by_default
from .json_logs import install
from .keeping import Keeper
from .metrics import PACKAGE
from .sites import Sites
from .template import TEMPLATE


@click.group("flask-sitemapx", cls=SitemapGroup)
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help=f"The file, in place of {VARIABLE} and of {NAME} in this directory.",
)
def main(config: str | None) -> None:
    """Serve and build the sitemaps of the sites in a file.

    Exit codes: 0 done, 1 something failed or is wrong, 2 it cannot be done like this, 3 somebody else is building.
    """
    if config is not None:
        os.environ[VARIABLE] = os.path.abspath(config)  # which what `serve` starts goes by, too


@main.command(with_appcontext=False)
def init() -> None:
    """Write a file with comments, to begin with."""
    path = Path(os.environ.get(VARIABLE) or NAME)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE)
    except FileExistsError:
        raise ConfigurationError(f"{path} is there already, and stays as it is") from None
    except OSError as error:
        raise Failed(f"{path}: {error.strerror}") from error
    click.echo(f"{path} is written: put your site's address and sections into it, then run `flask-sitemapx serve`")


@main.command(with_appcontext=False)
@click.option("--host", metavar="ADDRESS", help="Where to listen. Default: 127.0.0.1, or everywhere if PORT is set.")
@click.option("--port", type=click.IntRange(0, 65_535), help="Default: PORT of the environment, or 8000.")
def serve(host: str | None, port: int | None) -> None:
    """Serve the sitemaps by gunicorn, whose own variables count, too: WEB_CONCURRENCY, GUNICORN_CMD_ARGS.

    On SIGHUP the file is read again; one that cannot be used leaves the last one in force.
    """
    if find_spec("gunicorn") is None:
        raise ConfigurationError("serving needs gunicorn: pip install 'flask-sitemapx[service]'")
    if (file := read(None)) is not None:
        configured(file)
    command = [sys.executable, "-m", "gunicorn", "--config", f"python:{__package__}.gunicorn_conf"]
    if host is not None or port is not None:
        address = f"[{host}]" if host and ":" in host else host or "127.0.0.1"
        command += ["--bind", f"{address}:{os.environ.get('PORT') or 8000 if port is None else port}"]
        command += ["--bind", os.environ[ADMIN_BIND]] if os.environ.get(ADMIN_BIND) else []
    sys.stdout.flush()
    os.execv(sys.executable, [*command, f"{__package__}:create_app()"])


@main.command(with_appcontext=False)
def config() -> None:
    """Print what is in force, and where it stands; secrets are left out."""
    file = _file()
    click.echo(f"# {file.path}")
    click.echo("\n".join(_in_force(configured(file))))


@main.command(with_appcontext=False)
def worker() -> None:
    """Keep the sets fresh until it is stopped, and serve nothing."""
    sites = _sites()
    if not all(binding.services().is_shared for binding in sites.values()):
        raise ConfigurationError("the store is 'memory:', which no other process can look into; set SITEMAP_STORE")
    install(logging.getLogger(PACKAGE), os.environ)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that a build under way is ended cleanly
    keeper = Keeper(sites)
    keeper.begin()
    threading.Event().wait()


def _in_force(found: Configuration) -> Iterator[str]:
    for name, database in found.databases.items():
        yield f"databases.{name} = {database.shown}  # {database.place}"
    for site in found.sites.values():
        yield f'\n[site."{site.name}"]'
        for name in FORMS:
            _, shown, place = site.settings.get(name) or by_default(name)
            yield f"{name} = {shown}  # {place}"
        for name, (type, line) in site.places.items():
            yield f"sections.{name} = {type}  # line {line}"


# Commands of `flask sitemap`, for each site


def _sites() -> Mapping[str, Binding]:
    return Sites(configured(_file()), os.environ)


def _file() -> File:
    file = read(None)
    if file is None:
        raise ConfigurationError(f"there is no {NAME} here; `flask-sitemapx init` writes one")
    return file


def _for_sites(command: click.Command) -> click.Command:
    """*command* of `flask sitemap`, for one site of the file or all."""

    def run(site: str | None, **given: Any) -> None:
        _give_up_on_sigterm()
        chosen = _chosen(_sites(), site)
        if len(chosen) == 1:
            _invoke(command, next(iter(chosen.values())), given)
        elif given.get("as_json") or "directory" in given:
            raise ConfigurationError(f"this is for one site at a time: --site {next(iter(chosen))}")
        else:
            _invoke_each(command, chosen, given)

    params = [param for param in command.params if param.name != "base_url"]
    return click.Command(command.name, params=[_site, *params], callback=run, help=command.help)


_site = click.Option(["--site"], metavar="NAME", help="Which site of the file; by default all.")


def _chosen(sites: Mapping[str, Binding], site: str | None) -> Mapping[str, Binding]:
    if site is None:
        return sites
    if site not in sites:
        raise ConfigurationError(f"there is no site {site!r}; there are {', '.join(sites)}")
    return {site: sites[site]}


def _give_up_on_sigterm() -> None:
    """Have SIGTERM end this command as an exception does, so that a build gives its lease back."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    click.get_current_context().call_on_close(lambda: signal.signal(signal.SIGTERM, before))


def _invoke_each(command: click.Command, sites: Mapping[str, Binding], given: dict[str, Any]) -> None:
    """Run *command* for all *sites*; ends with the greatest of the exit codes."""
    codes = [0]
    for name, binding in sites.items():
        click.echo(f"[{name}]")
        try:
            _invoke(command, binding, given)
        except SitemapError as error:
            failure = ending(error)
        except click.ClickException as error:
            failure = error
        else:
            continue
        failure.show()
        codes.append(failure.exit_code)
    click.get_current_context().exit(max(codes))


def _invoke(command: click.Command, binding: Binding, given: dict[str, Any]) -> None:
    app = Flask(NAME)  # stands for the one whose binding the command asks for
    app.extensions[KEY] = binding
    with app.app_context():
        click.get_current_context().invoke(command, **given)


for _name in ("build", "refresh", "status", "list", "export", "robots"):
    main.add_command(_for_sites(commands.commands[_name]))
