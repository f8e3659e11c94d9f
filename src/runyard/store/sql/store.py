"""RunStore on a SQL database, in parts: one file per kind of thing it keeps."""

from __future__ import annotations

from runyard.store.base import RunStore
from runyard.store.sql.assets import SqlAssets, SqlEvents, SqlUsers
from runyard.store.sql.deletes import SqlDeletes, SqlHidden
from runyard.store.sql.files import SqlContent, SqlFiles
from runyard.store.sql.metrics import SqlMetrics
from runyard.store.sql.runs import SqlRuns
from runyard.store.sql.table import SqlTables


class SqlStore(
    SqlTables,
    SqlRuns,
    SqlHidden,
    SqlDeletes,
    SqlMetrics,
    SqlFiles,
    SqlContent,
    SqlAssets,
    SqlEvents,
    SqlUsers,
    RunStore,
):
    """Keeps everything in the tables of schema.py."""

    def close(self) -> None:
        self._database.close()
