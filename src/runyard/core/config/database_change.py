"""A change of a home's database: refused where runs would get out of sight, unless the user says otherwise.

The consent is a file that the server's next start takes. Also for clients that cannot run a server themselves.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from runyard.core.config.logins import hide_database_password
from runyard.core.config.paths import database_file, server_folder
from runyard.core.config.server_settings import ServerSettings
from runyard.core.errors import Conflict
from runyard.core.machine.files import replace_private

_CONSENT = "new-database-allowed"


def allow_new_database(home: Path) -> None:
    """Let the next start take a database that does not belong to the content of this home."""
    server_folder(home).mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_private(server_folder(home) / _CONSENT, b"")


def is_new_database_allowed(home: Path) -> bool:
    return (server_folder(home) / _CONSENT).exists()


def forbid_new_database(home: Path) -> None:
    """Take the consent back; twice is fine."""
    if is_new_database_allowed(home):
        (server_folder(home) / _CONSENT).unlink()


def refuse_database_change(home: Path, old: ServerSettings, new: ServerSettings) -> None:
    """Raise Conflict when the change would leave a history with runs behind: nothing is copied."""
    if old.database == new.database:
        return
    if old.database:
        raise Conflict(
            f"The runs of this home are in {hide_database_password(old.database)}.",
            why="With another database they would be out of sight; nothing is copied.",
            hint="`--force` does it all the same. Naming the same database again brings them back.",
        )
    count = count_runs(database_file(home))
    if count:
        raise Conflict(
            f"This home has {count} run(s) in its SQLite database.",
            why="With another database they would be out of sight; nothing is copied.",
            hint="Give the team server a home of its own (`export RUNYARD_HOME=/srv/runyard`), or say `--force`: the "
            "file stays, and `runyard server set server.database '' --force` brings them back.",
        )


def count_runs(path: Path) -> int:
    """Return how many runs a SQLite file holds; 0 when there is none."""
    if not path.exists():
        return 0
    import sqlite3  # only when a server changes its database

    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM runs").fetchone()[0])
        except sqlite3.OperationalError:
            return 0  # cut off before its tables were made
