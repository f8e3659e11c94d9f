"""A PostgreSQL server of the tests' own: on a unix socket in a temporary folder, gone with them."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

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


@contextmanager
def running_postgres() -> Iterator[str]:
    """Give the URL of the server's one database."""
    with controlled_postgres() as postgres:
        yield postgres.url


class Postgres(NamedTuple):
    """A server that a test may stop, start, kill and freeze."""

    url: str
    data: Path
    control: Callable[..., None]  # runs pg_ctl with these words

    @property
    def pid(self) -> int:
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def stop(self) -> None:
        self.control("-m", "fast", "stop")

    def start(self) -> None:
        self.control("start")

    def signal_all(self, number: int) -> None:
        """Send a signal to the server and to the process of each connection."""
        for pid in [self.pid, *children_of(self.pid)]:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def controlled_postgres() -> Iterator[Postgres]:
    programs = find_programs()
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    owner = pwd.getpwnam(USER) if os.geteuid() == 0 else None
    if owner is not None:
        os.chown(folder, owner.pw_uid, owner.pw_gid)

    def call(*words: str) -> None:
        subprocess.run(
            words,
            check=True,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            user=None if owner is None else USER,
            group=None if owner is None else owner.pw_gid,
            extra_groups=None if owner is None else [],
        )

    data = str(folder / "data")
    try:
        call(str(programs / "initdb"), "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off -c max_connections=200"

        def control(*words: str) -> None:
            call(str(programs / "pg_ctl"), "-D", data, "-w", "-l", str(folder / "log"), "-o", options, *words)

        control("start")
        try:
            yield Postgres(f"postgresql:///postgres?host={folder}&user={USER}", Path(data), control)
        finally:
            control("-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def new_schema(url: str) -> str:
    """Make an empty schema in the database at `url` and return the URL that sees it alone."""
    import psycopg  # only external tests come here

    name = f"test_{make_uuid().replace('-', '')}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    return f"{url}&options=-csearch_path%3D{name}"
