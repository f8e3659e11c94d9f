"""Makes a SQLite database consistent after rows of it were lost.

What refers to nothing goes, counts are those of what is there, and what a run can tell of its workspace and experiment
is written anew.
"""

from __future__ import annotations

import sqlite3
from datetime import datetime, timezone

from runyard.core.names import make_uuid
from runyard.core.records import Experiment, Run, Workspace
from runyard.store.metrics import arrivals
from runyard.store.metrics.arrivals import ARTIFACT
from runyard.store.sql.rows import document_of, record_of
from runyard.store.sql.schema import CHUNKS_PER_SERIES, REVISION


def mend(connection: sqlite3.Connection) -> None:
    """Inside the caller's transaction, with foreign keys off."""
    if connection.execute("SELECT count(*) FROM alembic_version").fetchone()[0] == 0:
        connection.execute("INSERT INTO alembic_version VALUES (?)", (REVISION,))
    _restore_parents(connection)
    connection.execute(
        "UPDATE runs SET parent_serial = NULL WHERE parent_serial NOT IN (SELECT serial FROM runs)"
    )  # the run's document still names the run above
    _drop_unshipped(connection)
    _drop_orphans(connection)
    _count_points(connection)


def _restore_parents(connection: sqlite3.Connection) -> None:
    """Write the rows of workspaces and experiments anew that runs name."""
    rows = connection.execute(
        "SELECT workspace_id, experiment_id, max(number), min(document) FROM runs GROUP BY workspace_id, experiment_id"
    ).fetchall()
    now = datetime.now(timezone.utc)
    for workspace_id, experiment_id, number, document in rows:
        run = record_of(Run, document)
        workspace = Workspace(make_uuid(), run.workspace, now)
        connection.execute(
            "INSERT OR IGNORE INTO workspaces (id, name, document) VALUES (?, ?, ?)",
            (workspace_id, run.workspace, document_of(workspace)),
        )
        experiment = Experiment(make_uuid(), run.experiment, run.workspace, now)
        connection.execute(
            "INSERT OR IGNORE INTO experiments (id, workspace_id, name, archived, last_number, document) "
            "VALUES (?, ?, ?, 0, ?, ?)",
            (experiment_id, workspace_id, run.experiment, number or 0, document_of(experiment)),
        )
        connection.execute(
            "UPDATE experiments SET last_number = max(last_number, ?) WHERE id = ?", (number or 0, experiment_id)
        )


def _drop_unshipped(connection: sqlite3.Connection) -> None:
    """Drop points of live runs whose marks are lost: their supervisors send them again, all of them."""
    columns = {row[1] for row in connection.execute("PRAGMA table_info(segments)").fetchall()}
    key = ("external_writer", "attempt", "writer", "segment")  # a file from before revision 0009 lacks the first
    same = " AND ".join(f"g.{name} = s.{name}" for name in key if name in columns)
    connection.execute(
        "DELETE FROM series WHERE id IN (SELECT s.id FROM series s JOIN run_metrics m ON m.id = s.metric_id "
        "JOIN runs r ON r.serial = m.run_serial WHERE r.finished = 0 AND NOT EXISTS (SELECT 1 FROM segments g WHERE "
        f"g.run_serial = r.serial AND {same}))"
    )


def _drop_orphans(connection: sqlite3.Connection) -> None:
    """Delete rows whose parents are gone, until none is left."""
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()]
    keys = [
        (table, row[3], row[2], row[4])
        for table in tables
        for row in connection.execute(f'PRAGMA foreign_key_list("{table}")').fetchall()
    ]
    gone = 1
    while gone:
        gone = sum(
            connection.execute(
                f'DELETE FROM "{table}" WHERE "{column}" IS NOT NULL '
                f'AND "{column}" NOT IN (SELECT "{of_column}" FROM "{of}")'
            ).rowcount
            for table, column, of, of_column in keys
        )
    connection.execute(f"DELETE FROM metric_chunks WHERE id / {CHUNKS_PER_SERIES} NOT IN (SELECT id FROM series)")
    connection.execute(
        "DELETE FROM run_metrics WHERE kind != ? AND id NOT IN (SELECT metric_id FROM series)", (ARTIFACT,)
    )


def _count_points(connection: sqlite3.Connection) -> None:
    """Let each series, and its metric, count the points that are there."""
    counts = dict(
        connection.execute(f"SELECT id / {CHUNKS_PER_SERIES}, sum(count) FROM metric_chunks GROUP BY 1").fetchall()
    )
    for id, metric, server, rank, count, chunks, tail in connection.execute(
        "SELECT id, metric_id, server, rank, count, chunks, tail FROM series"
    ).fetchall():
        there = counts.get(id, 0) + (0 if tail is None else len(arrivals.unpack(tail)))
        if there == count:
            continue
        open_row = id * CHUNKS_PER_SERIES + chunks - 1
        has_open = connection.execute("SELECT count(*) FROM metric_chunks WHERE id = ?", (open_row,)).fetchone()[0]
        connection.execute(
            "UPDATE series SET count = ?, open_count = CASE WHEN ? THEN open_count ELSE 0 END WHERE id = ?",
            (there, has_open, id),
        )
        connection.execute(
            "UPDATE run_metrics SET count = max(0, count - ?) WHERE id = ? AND server = ? AND rank = ?",
            (count - there, metric, server, rank),
        )
