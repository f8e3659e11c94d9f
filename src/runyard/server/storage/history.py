"""Before a home gets another database: which runs would be out of sight then."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from runyard.core.config.paths import database_file
from runyard.core.config.server_settings import ServerSettings
from runyard.core.config.urls import hide_database_password
from runyard.core.errors import Conflict


def refuse_hidden_runs(home: Path, old: ServerSettings, new: ServerSettings) -> None:
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
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM runs").fetchone()[0])
        except sqlite3.OperationalError:
            return 0  # cut off before its tables were made
