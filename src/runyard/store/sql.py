"""RunStore on a SQL database, in parts: one file per kind of thing it keeps."""

from __future__ import annotations

from runyard.store.base import RunStore
from runyard.store.sql_assets import SqlAssets
from runyard.store.sql_content import SqlContent
from runyard.store.sql_deletes import SqlDeletes
from runyard.store.sql_events import SqlEvents
from runyard.store.sql_files import SqlFiles
from runyard.store.sql_hidden import SqlHidden
from runyard.store.sql_metrics import SqlMetrics
from runyard.store.sql_runs import SqlRuns
from runyard.store.sql_table import SqlTables
from runyard.store.sql_users import SqlUsers


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
