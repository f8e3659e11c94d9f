"""The tables. Only integers, floats, text and bytes, so that rows need no conversion on any driver.

Times are microseconds since 1970 (`_us`) unless they are a journal's nanoseconds. JSON is ASCII text. A change here
needs a migration in `migrations/versions` and a new REVISION; a test compares the two.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

REVISION = "0010"  # of this schema: the newest migration
KNOWN_REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010")

# An INTEGER PRIMARY KEY is SQLite's row id; PostgreSQL needs 64 bits spelt out.
Id = BigInteger().with_variant(Integer, "sqlite")

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
# A deleted run has `purge_us`, when its rows and bytes go for good; until then it is as if gone. The last two columns
# are in the indexes that pages are read along, so that runs which are not shown cost no look at their row.
_IS_DELETED = text("purge_us IS NOT NULL")
# kind: "tag", "property" or "parameter". The exact text is in the run's document, this is for searching; `number` is
# what the text is as a number.
_IS_NUMBER = text("number IS NOT NULL")
SEGMENT_KEY = ("run_serial", "external_writer", "attempt", "writer", "segment")
# `id` is the series' id times CHUNKS_PER_SERIES plus the sequence: one tree holds the rows in reading order.
CHUNKS_PER_SERIES = 1 << 24


def _external_writer(name: str = "external_writer") -> Column[int]:
    """Return the column with the number of an external writer; 0: a process of the attempt."""
    return Column(name, Integer, nullable=False, server_default=text("0"))


server_values = Table(
    "server_values",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

workspaces = Table(
    "workspaces",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("document", Text, nullable=False),
)

experiments = Table(
    "experiments",
    metadata,
    Column("id", Id, primary_key=True),
    Column("workspace_id", Id, ForeignKey("workspaces.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("archived", Integer, nullable=False),  # 2: deleted
    Column("last_number", BigInteger, nullable=False),
    Column("document", Text, nullable=False),
    Column("purge_us", BigInteger),  # what was deleted with it goes for good then
    Column("public_id", Text),
    Column("title", Text),  # where it is another text than the name
    UniqueConstraint("workspace_id", "name"),
    Index("ix_experiments_public_id", "public_id", unique=True),
    Index("ix_experiments_title", "workspace_id", "title", unique=True),
)

# The last version given stays here when the versions are deleted: numbers are not given again.
assets = Table(
    "assets",
    metadata,
    Column("id", Id, primary_key=True),
    Column("workspace_id", Id, ForeignKey("workspaces.id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("last_version", Integer, nullable=False),
    UniqueConstraint("workspace_id", "kind", "name"),
)

asset_versions = Table(
    "asset_versions",
    metadata,
    Column("asset_id", Id, ForeignKey("assets.id", ondelete="CASCADE"), nullable=False),
    Column("version", Integer, nullable=False),
    Column("key", Text, nullable=False),
    Column("document", Text, nullable=False),
    PrimaryKeyConstraint("asset_id", "version"),
    sqlite_with_rowid=False,
)

runs = Table(
    "runs",
    metadata,
    Column("serial", Id, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("key", Text, nullable=False, unique=True),
    Column("workspace_id", Id, ForeignKey("workspaces.id"), nullable=False),
    Column("experiment_id", Id, ForeignKey("experiments.id"), nullable=False),
    Column("parent_serial", Id, ForeignKey("runs.serial")),
    Column("child", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("finished", Integer, nullable=False),
    Column("type", Text),
    Column("name", Text),  # these are for searching, as the labels are
    Column("target", Text),
    Column("created_us", BigInteger),
    Column("number", BigInteger),
    Column("submitted_by", Text),
    Column("started_us", BigInteger),
    Column("ended_us", BigInteger),
    Column("document", Text, nullable=False),
    Column("archived", Integer, nullable=False, server_default=text("0")),
    Column("purge_us", BigInteger),
    Column("owner", Text),  # NULL: made before owners were recorded
    Index(None, "workspace_id", "serial", "archived", "purge_us"),
    Index(None, "workspace_id", "child", "serial", "archived", "purge_us"),
    Index(None, "experiment_id", "serial", "archived", "purge_us"),
    Index(None, "experiment_id", "child", "serial", "archived", "purge_us"),
    Index(None, "purge_us", sqlite_where=_IS_DELETED, postgresql_where=_IS_DELETED),
    Index(None, "workspace_id", "status", "serial"),
    Index(None, "parent_serial", "serial"),
    Index(None, "finished", "serial"),
    Index(None, "workspace_id", "name", "serial"),
    Index(None, "workspace_id", "target", "serial"),
    Index(None, "workspace_id", "created_us", "serial"),
    Index(None, "workspace_id", "type", "serial"),
    Index(None, "workspace_id", "number", "serial"),
    Index(None, "workspace_id", "submitted_by", "serial"),
    Index(None, "workspace_id", "started_us", "ended_us", "serial"),
    sqlite_autoincrement=True,
)

run_labels = Table(
    "run_labels",
    metadata,
    Column("run_serial", Id, ForeignKey("runs.serial", ondelete="CASCADE"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("number", Float),
    PrimaryKeyConstraint("run_serial", "kind", "key"),
    Index(None, "kind", "key", "value", "run_serial"),
    Index(None, "kind", "key", "number", "run_serial", sqlite_where=_IS_NUMBER, postgresql_where=_IS_NUMBER),
    sqlite_with_rowid=False,
)

# The journal of a run that decides over others: a sweep. `number` counts 1, 2, 3… within the run.
run_events = Table(
    "run_events",
    metadata,
    Column("run_serial", Id, ForeignKey("runs.serial", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("document", Text, nullable=False),
    PrimaryKeyConstraint("run_serial", "number"),
    sqlite_with_rowid=False,
)

tokens = Table(
    "tokens",
    metadata,
    Column("token_hash", Text, primary_key=True),
    Column("run_serial", Id, ForeignKey("runs.serial", ondelete="CASCADE"), nullable=False),
    Column("attempt", Integer, nullable=False),
    _external_writer(),
    Index(None, "run_serial"),
)

users = Table(
    "users",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("role", Text, nullable=False),
    Column("created_us", BigInteger, nullable=False),
)

# `id` is in the cookies of browsers that signed in by the token, so it is not given again.
user_tokens = Table(
    "user_tokens",
    metadata,
    Column("id", Id, primary_key=True),
    Column("user_id", Id, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("label", Text, nullable=False),
    Column("token_hash", Text, nullable=False, unique=True),
    Column("created_us", BigInteger, nullable=False),
    Column("seen_us", BigInteger),
    UniqueConstraint("user_id", "label"),
    sqlite_autoincrement=True,
)

segments = Table(
    "segments",
    metadata,
    Column("run_serial", Id, ForeignKey("runs.serial", ondelete="CASCADE"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("writer", Text, nullable=False),
    Column("segment", Integer, nullable=False),
    Column("mark", BigInteger, nullable=False),
    Column("names", Text, nullable=False),
    _external_writer(),
    Column("rank", Integer, nullable=False, server_default=text("0")),  # these three: as the segment's HEADER says
    Column("role", Text, nullable=False, server_default=text("'worker'")),
    Column("wall_offset_ns", BigInteger, nullable=False, server_default=text("0")),
    PrimaryKeyConstraint(*SEGMENT_KEY),
    sqlite_with_rowid=False,
)

quarantine = Table(
    "quarantine",
    metadata,
    Column("id", Id, primary_key=True),
    Column("run_serial", Id, ForeignKey("runs.serial", ondelete="CASCADE"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("writer", Text, nullable=False),
    Column("segment", Integer, nullable=False),
    Column("record", Text, nullable=False),
    _external_writer(),
    Index(None, "run_serial"),
)

# One row per (run, metric, column), summing up the lowest rank; `id` counts in first-logged order. The copies of the
# run's workspace, experiment and child flag let the index alone answer "runs by last value".
run_metrics = Table(
    "run_metrics",
    metadata,
    Column("id", Id, primary_key=True),
    Column("run_serial", Id, ForeignKey("runs.serial", ondelete="CASCADE"), nullable=False),
    Column("workspace_id", Id, nullable=False),
    Column("experiment_id", Id, nullable=False),
    Column("child", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("column", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("server", Integer, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("last", Float),
    Column("minimum", Float),
    Column("maximum", Float),
    Column("last_value", Text),
    Column("last_attempt", Integer, nullable=False),
    Column("last_time", BigInteger, nullable=False),
    Column("file", Text),
    _external_writer("last_external_writer"),
    Column("latest", Float),  # see `MetricSummary`; NaN has a step, but is NULL
    Column("latest_step", BigInteger),
    Column("latest_ms", BigInteger),
    UniqueConstraint("run_serial", "name", "column"),
    Index("ix_run_metrics_last", "workspace_id", "name", "column", "last", "run_serial", "child", "experiment_id"),
    Index("ix_run_metrics_latest", "workspace_id", "name", "column", "latest", "run_serial"),
)

series = Table(
    "series",
    metadata,
    Column("id", Id, primary_key=True),
    Column("metric_id", Id, ForeignKey("run_metrics.id", ondelete="CASCADE"), nullable=False),
    Column("rank", Integer, nullable=False),
    Column("server", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("writer", Text, nullable=False),
    Column("segment", Integer, nullable=False),
    Column("wall_offset_ns", BigInteger, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("kinds", Integer, nullable=False),
    Column("numbered", Integer, nullable=False),
    Column("first_time", BigInteger, nullable=False),
    Column("last_time", BigInteger, nullable=False),
    Column("chunks", Integer, nullable=False),
    Column("open_count", Integer, nullable=False),
    Column("tail", LargeBinary),
    _external_writer(),
    UniqueConstraint("metric_id", "rank", "external_writer", "attempt", "writer", "segment"),
)

metric_chunks = Table(
    "metric_chunks",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("count", Integer, nullable=False),
    Column("first_step", BigInteger, nullable=False),
    Column("last_step", BigInteger, nullable=False),
    Column("first_time", BigInteger, nullable=False),
    Column("last_time", BigInteger, nullable=False),
    Column("minimum", Float),
    Column("maximum", Float),
    Column("last", Float),
    Column("sum", Float),
    Column("summary", LargeBinary),
    Column("data", LargeBinary, nullable=False),
)

files = Table(
    "files",
    metadata,
    Column("run_serial", Id, ForeignKey("runs.serial", ondelete="CASCADE"), nullable=False),
    Column("name", Text, nullable=False),
    Column("document", Text, nullable=False),
    PrimaryKeyConstraint("run_serial", "name"),
    sqlite_with_rowid=False,
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("id", Text, primary_key=True),
    Column("root", Text, nullable=False),
    Column("files", BigInteger, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("created_us", BigInteger, nullable=False),
)

packs = Table(
    "packs",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
)

content_chunks = Table(
    "content_chunks",
    metadata,
    Column("id", Text, primary_key=True),
    Column("pack_id", Id, ForeignKey("packs.id"), nullable=False),
    Column("start", BigInteger, nullable=False),
    Column("stored", BigInteger, nullable=False),
    Column("plain", BigInteger, nullable=False),
    Column("codec", Text, nullable=False),
    sqlite_with_rowid=False,
)
