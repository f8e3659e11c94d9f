"""A PostgreSQL server of the tests' own: on a unix socket in a temporary folder, gone with them."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runyard.core.names import make_uuid
from tests import debian

USER = "postgres"  # the server refuses to run as root


def find_programs() -> Path:
    """Return the folder of PostgreSQL's programs; they are installed from Debian when they are missing.

    Raises:
        AssertionError: there is none, and none can be installed.
    """
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found and shutil.which("initdb") is None and shutil.which("apt-get"):
        debian.install("postgresql")
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    program = shutil.which("initdb")
    assert program, "PostgreSQL is not installed: apt-get install postgresql"
    return Path(program).parent


class Postgres:
    """One server that can be stopped, killed and started again."""

    def __init__(self) -> None:
        self._programs = find_programs()
        self.folder = Path(tempfile.mkdtemp(prefix="pg"))
        self._owner = pwd.getpwnam(USER) if os.geteuid() == 0 else None
        if self._owner is not None:
            os.chown(self.folder, self._owner.pw_uid, self._owner.pw_gid)
        self.url = f"postgresql:///postgres?host={self.folder}&user={USER}"
        self.make_volume()

    def make_volume(self) -> None:
        """Make an empty database where there is none, as a container with a new volume does."""
        self._call("initdb", "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync")

    def start(self) -> None:
        places = f"-c listen_addresses='' -c unix_socket_directories='{self.folder}'"
        options = f"{places} -c fsync=off -c max_connections=200"
        self._call("pg_ctl", "-w", "-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        self._call("pg_ctl", "-m", mode, "-w", "stop")

    def pids(self) -> list[int]:
        """Return the postmaster and all of its processes."""
        first = int((self.folder / "data/postmaster.pid").read_text().split()[0])
        words = ["ps", "-o", "pid=", "--ppid", str(first)]
        return [first, *map(int, subprocess.run(words, capture_output=True, text=True, check=False).stdout.split())]

    def signal_all(self, number: int) -> None:
        """Send a signal to the server and to the process of each connection."""
        for pid in self.pids():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _call(self, program: str, *words: str) -> None:
        subprocess.run(
            [str(self._programs / program), "-D", str(self.folder / "data"), *words],
            check=True,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            user=None if self._owner is None else USER,
            group=None if self._owner is None else self._owner.pw_gid,
            extra_groups=None if self._owner is None else [],
        )


@contextmanager
def controlled_postgres() -> Iterator[Postgres]:
    """Give a server that is up; it is stopped at the end, wherever the test left it."""
    postgres = Postgres()
    try:
        postgres.start()
        try:
            yield postgres
        finally:
            if (postgres.folder / "data/postmaster.pid").exists():
                postgres.stop()
    finally:
        postgres.close()


@contextmanager
def running_postgres() -> Iterator[str]:
    """Give the URL of the server's one database."""
    with controlled_postgres() as postgres:
        yield postgres.url


def new_schema(url: str) -> str:
    """Make an empty schema in the database at `url` and return the URL that sees it alone."""
    import psycopg  # only external tests come here

    name = f"test_{make_uuid().replace('-', '')}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    return f"{url}&options=-csearch_path%3D{name}"
