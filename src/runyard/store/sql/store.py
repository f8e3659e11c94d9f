"""RunStore on a SQL database: the union of its parts, one for each part of the interface."""

from __future__ import annotations

from sqlalchemy import bindparam, select

from runyard.store.base import RunStore
from runyard.store.sql.assets import SqlAssets, SqlUsers
from runyard.store.sql.database import Statement, Upsert
from runyard.store.sql.files import SqlFiles
from runyard.store.sql.metrics import SqlMetricSeries
from runyard.store.sql.runs import SqlRunRecords
from runyard.store.sql.schema import server_values
from runyard.store.sql.table import SqlQueries
from runyard.store.sql.workspaces import SqlWorkspaces
from runyard.store.text import clean

_VALUE = Statement(select(server_values.c.value).where(server_values.c.key == bindparam("value_key")))
_SET_VALUE = Upsert(server_values, "key", "value", keys=("key",), change=("value",))


class SqlStore(
    SqlQueries,
    SqlWorkspaces,
    SqlRunRecords,
    SqlMetricSeries,
    SqlFiles,
    SqlAssets,
    SqlUsers,
    RunStore,
):
    """Keeps everything in the tables of schema.py. A read is one transaction; writes share theirs (`writes.py`)."""

    def close(self) -> None:
        self._database.close()

    def find_value(self, key: str) -> str | None:
        with self._database.reading() as session:
            row = session.one(_VALUE, value_key=key)
        return None if row is None else str(row[0])

    def set_value(self, key: str, value: str) -> None:
        self._database.write(lambda session: session.run(_SET_VALUE, key=key, value=clean(value)))
