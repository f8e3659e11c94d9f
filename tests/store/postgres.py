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


@contextmanager
def running_postgres() -> Iterator[str]:
    """Give the URL of the server's one database."""
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
        call(str(programs / "pg_ctl"), "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"postgresql:///postgres?host={folder}&user={USER}"
        finally:
            call(str(programs / "pg_ctl"), "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def new_schema(url: str) -> str:
    """Make an empty schema in the database at `url` and return the URL that sees it alone."""
    import psycopg  # only external tests come here

    name = f"test_{make_uuid().replace('-', '')}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    return f"{url}&options=-csearch_path%3D{name}"
