"""The command line: `python -m benchmarks [names] [--quick] [--json FILE]`, from the root of the repository."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from . import bigtable, build, extensions, first_byte, manifest, memory, routes, serve, service, urls
from .environment import environment
from .rounds import FULL, QUICK, Effort
from .tables import Table

BENCHMARKS: dict[str, Callable[[Effort], Iterable[Table]]] = {
    "build": build.tables,
    "serve": serve.tables,
    "service": service.tables,
    "extensions": extensions.tables,
    "first_byte": first_byte.tables,
    "memory": memory.tables,
    "urls": urls.tables,
    "routes": routes.tables,
    "manifest": manifest.tables,
    "bigtable": bigtable.tables,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables of the benchmarks named in *arguments* (default: the command line's; none named: all)."""
    wanted = parser().parse_args(arguments)
    effort = QUICK if wanted.quick else FULL
    about = environment()
    print(" | ".join(f"{name} {version}" for name, version in about.items()), flush=True)
    print(f"load {os.getloadavg()[0]:.1f}; {effort}", flush=True)
    tables = []
    for name in wanted.names or BENCHMARKS:
        for table in BENCHMARKS[name](effort):
            if effort is QUICK:
                table.targets.clear()  # they are for sites of full size
            print(f"\n{table}", flush=True)
            tables.append(table)
    if wanted.json:
        result = {"environment": about, "effort": effort.name, "tables": [table.as_dict() for table in tables]}
        wanted.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0


def parser() -> argparse.ArgumentParser:
    what = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, epilog="A full run of all takes some minutes."
    )
    what.add_argument("names", nargs="*", type=known, metavar="name", help=f"of {', '.join(BENCHMARKS)}; default: all")
    what.add_argument("--quick", action="store_true", help="few entries and rounds: does it run? Not to be quoted")
    what.add_argument("--json", type=Path, metavar="FILE", help="write the tables and the versions there as well")
    return what


def known(name: str) -> str:
    if name not in BENCHMARKS:
        raise argparse.ArgumentTypeError(f"no benchmark is called {name!r}; there are {', '.join(BENCHMARKS)}")
    return name


if __name__ == "__main__":
    sys.exit(main())
