"""Reads MLflow's database: SQLite with the standard library, others through drivers where they are installed.

Tables differ between versions, so columns are read by name and a table that is missing is empty. Nothing is written:
a SQLite file is opened read-only, and no code of its schema runs.
"""

from __future__ import annotations

import os
import sqlite3
from array import array
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from runyard.core.errors import InvalidArgument, MissingExtra
from runyard.core.names import RUN_ID
from runyard.imports.mlflow_runs import (
    PARENT,
    ArtifactPlaces,
    find_files,
    make_run,
    note_datasets,
    step_of,
    tags_of,
    time_of,
)
from runyard.imports.records import (
    MS,
    PART_POINTS,
    ImportedModel,
    ImportedRun,
    ImportSource,
    Meta,
    PointPart,
    RunHead,
    short_id,
)

_AT_ONCE = 300_000  # points of one run that are read in one go; more are read metric by metric
Row = Tuple[Any, ...]


def open_sql(uri: str, *, artifacts: Sequence[str] = ()) -> MlflowSql:
    """Open `sqlite:///path`, a path to a SQLite file, `postgresql://…` or another address that SQLAlchemy knows.

    Raises:
        InvalidArgument: there is no such file, or it is no database of MLflow.
        MissingExtra: the database's driver is not installed.
    """
    if uri.startswith(("postgresql:", "postgresql+", "postgres:")):
        return MlflowSql(_open_postgres(uri), "", artifacts=artifacts, place="%s", is_sqlite=False)
    if "://" in uri and not uri.startswith("sqlite:"):
        connection, place = _open_other(uri)
        return MlflowSql(connection, "", artifacts=artifacts, place=place, is_sqlite=False)
    path = uri[len("sqlite:///") :] if uri.startswith("sqlite:///") else uri
    if not os.path.isfile(path):
        raise InvalidArgument(f"There is no SQLite file `{path}`.", hint="Name it as `sqlite:///folder/mlflow.db`.")
    return MlflowSql(_open_sqlite(path), path, artifacts=artifacts)


def is_database(path: str) -> bool:
    """Return whether a file is a SQLite database with MLflow's tables."""
    try:
        with open(path, "rb") as file:
            if file.read(16) != b"SQLite format 3\0":
                return False
        source = open_sql(path)
    except (OSError, InvalidArgument):
        return False
    source.close()
    return True


class MlflowSql(ImportSource):
    kind = "mlflow"

    def __init__(
        self, connection: Any, path: str, *, artifacts: Sequence[str] = (), place: str = "?", is_sqlite: bool = True
    ) -> None:
        super().__init__()
        self._connection = connection
        self._place = place
        self._is_sqlite = is_sqlite
        folder = os.path.dirname(os.path.realpath(path)) if path else None
        self._places = ArtifactPlaces([*([folder] if folder else []), *artifacts])
        self._columns: Dict[str, List[str]] = {}
        if not self._has("runs") or not self._has("metrics"):
            self.close()
            raise InvalidArgument(
                f"`{path or 'The database'}` is no database of MLflow.", why="It has no tables `runs` and `metrics`."
            )
        self.version = str(next(iter(self._rows("alembic_version", ["version_num"])), ("",))[0])

    @property
    def id(self) -> str:
        first = next(iter(self._all("SELECT min(run_uuid) FROM runs")), ("",))
        return f"mlflow-{short_id('sql', str(first[0]))}"

    def list_heads(self) -> List[RunHead]:
        names = {str(row[0]): str(row[1]) for row in self._rows("experiments", ["experiment_id", "name"])}
        where = f'WHERE "key" = {self._place}'
        parents = {row[0]: row[1] for row in self._rows("tags", ["run_uuid", "value"], where, (PARENT,))}
        heads = []
        for run_id, experiment, started in self._rows("runs", ["run_uuid", "experiment_id", "start_time"]):
            if not isinstance(run_id, str) or not RUN_ID.fullmatch(run_id):
                self.skip(f"run {str(run_id)[:100]!r}", "that is no run id")
                continue
            parent = parents.get(run_id)
            parent = parent if isinstance(parent, str) and RUN_ID.fullmatch(parent) else None
            name = names.get(str(experiment)) or f"experiment-{experiment}"
            heads.append(RunHead(run_id, name, started * MS if isinstance(started, int) else 0, parent))
        return heads

    def read_run(self, head: RunHead) -> ImportedRun:
        wanted = ["status", "start_time", "end_time", "name", "user_id", "lifecycle_stage", "artifact_uri"]
        where = f"WHERE run_uuid = {self._place}"
        rows = self._rows("runs", wanted, where, (head.id,))
        if not rows:
            raise ValueError("it is gone from the database")
        fields = dict(zip(wanted, rows[0]))
        run = make_run(
            run_id=head.id,
            experiment=head.experiment,
            status=fields["status"],
            start_ms=fields["start_time"],
            end_ms=fields["end_time"],
            name=fields["name"],
            user=fields["user_id"],
            is_deleted=fields["lifecycle_stage"] == "deleted",
            tags=tags_of(self._rows("tags", ["key", "value"], where, (head.id,))),
            parameters=tags_of(self._rows("params", ["key", "value"], where, (head.id,))),
        )
        run.read_points = lambda: self._points(head.id, run.notes)
        run.files = find_files(self._places, str(fields["artifact_uri"] or ""), run.notes.append)
        self._add_logged_models(run)
        note_datasets(run, self._datasets(head.id))
        return run

    def iter_models(self) -> Iterator[ImportedModel]:
        wanted = [
            "name", "version", "creation_time", "last_updated_time", "description", "user_id", "current_stage",
            "source", "run_id", "storage_location",
        ]  # fmt: skip
        abouts: Meta = dict(self._rows("registered_models", ["name", "description"]))
        of_version = f"WHERE name = {self._place} AND version = {self._place}"
        for row in self._rows("model_versions", wanted, "ORDER BY name, version"):
            found = dict(zip(wanted, row))
            name, version = str(found["name"]), found["version"]
            if not isinstance(version, int) or found["current_stage"] == "Deleted_Internal":
                self.skip(f"model {name}:{version}", "it was deleted" if isinstance(version, int) else "no version")
                continue
            source = str(found["storage_location"] or found["source"] or "")
            base = source.rstrip("/").rpartition("/")[2] or "model"
            run_id = found["run_id"] if RUN_ID.fullmatch(str(found["run_id"] or "")) else None
            aliases = self._rows("registered_model_aliases", ["alias"], of_version, (name, version))
            files = find_files(self._places, source, lambda why: None)
            yield ImportedModel(
                name=name,
                version=version,
                created_ns=int(found["creation_time"] or 0) * MS,
                updated_ns=int(found["last_updated_time"] or 0) * MS,
                description=str(found["description"] or ""),
                tags=tags_of(self._rows("model_version_tags", ["key", "value"], of_version, (name, version))),
                properties={"mlflow.source": source, "mlflow.stage": str(found["current_stage"] or "None")},
                aliases=[str(row[0]) for row in aliases],
                run_id=run_id,
                run_path=base,
                files=[file._replace(name=f"{base}/{file.name}") for file in files],
                user=str(found["user_id"] or ""),
                about=str(abouts.get(name) or ""),
            )

    def close(self) -> None:
        self._connection.close()

    def _points(self, run_id: str, notes: List[str]) -> Iterator[PointPart]:
        where = f"WHERE run_uuid = {self._place}"
        count = int(self._all(f"SELECT count(*) FROM metrics {where}", (run_id,))[0][0])
        if not count:
            return
        if count <= _AT_ONCE:
            yield from self._grouped(self._cursor(f"{where} {self._order()}", (run_id,)), notes)
            return
        keys = [row[0] for row in self._all(f'SELECT DISTINCT "key" FROM metrics {where}', (run_id,))]
        for key in keys:
            cursor = self._cursor(f'{where} AND "key" = {self._place} {self._order()}', (run_id, key))
            yield from self._grouped(cursor, notes)

    def _cursor(self, rest: str, values: Sequence[object]) -> Any:
        known = self._names("metrics")
        step = "step" if "step" in known else "0"
        is_nan = "is_nan" if "is_nan" in known else "0"
        cursor = self._connection.cursor()
        cursor.execute(f'SELECT "key", timestamp, value, {step}, {is_nan} FROM metrics {rest}', tuple(values))
        return cursor

    def _order(self) -> str:
        """PointPart in the order in which they were written, where the database knows it."""
        return "ORDER BY rowid" if self._is_sqlite else "ORDER BY timestamp, step, value"

    def _grouped(self, cursor: Any, notes: List[str]) -> Iterator[PointPart]:
        by_key: Dict[Any, List[Row]] = {}
        while True:
            rows = cursor.fetchmany(PART_POINTS)
            for row in rows:
                by_key.setdefault(row[0], []).append(row)
            if not rows or len(rows) == PART_POINTS:
                for key, found in by_key.items():
                    points = _columns(str(key), found, notes)
                    if len(points):
                        yield points
                by_key = {}
            if not rows:
                return

    def _add_logged_models(self, run: ImportedRun) -> None:
        """Add the files of the models that a run logged (MLflow 3), below the models' names."""
        where = f"WHERE source_run_id = {self._place} ORDER BY creation_timestamp_ms"
        for model_id, name, uri in self._rows(
            "logged_models", ["model_id", "name", "artifact_location"], where, (run.id,)
        ):
            base = str(name or "model")
            taken = any(file.name.startswith(f"{base}/") for file in run.files)
            prefix = f"models/{model_id}/" if taken else f"{base}/"
            run.files += find_files(self._places, str(uri or ""), run.notes.append, prefix=prefix)

    def _datasets(self, run_id: str) -> List[Meta]:
        if not self._has("inputs") or not self._has("datasets"):
            return []
        rows = self._all(
            "SELECT d.name, d.digest, d.dataset_source_type, d.dataset_source, i.input_uuid FROM inputs i "
            f"JOIN datasets d ON d.dataset_uuid = i.source_id WHERE i.destination_id = {self._place} ORDER BY d.name",
            (run_id,),
        )
        found = []
        for name, digest, source_type, source, input_id in rows:
            tags = self._rows("input_tags", ["name", "value"], f"WHERE input_uuid = {self._place}", (input_id,))
            known = {"name": name, "digest": digest, "source_type": source_type, "source": source}
            found.append({**known, "tags": tags_of(tags)})
        return found

    def _rows(self, table: str, columns: Sequence[str], rest: str = "", values: Sequence[object] = ()) -> List[Row]:
        """Return columns of a table, None for those that this version has not; nothing when there is no such table."""
        known = self._names(table)
        if not known:
            return []
        listed = ", ".join(f'"{name}"' if name in known else f"NULL AS {name}" for name in columns)
        return self._all(f"SELECT {listed} FROM {table} {rest}", values)

    def _all(self, statement: str, values: Sequence[object] = ()) -> List[Row]:
        try:
            cursor = self._connection.cursor()
            cursor.execute(statement, tuple(values))
            return list(cursor.fetchall())
        except Exception as error:  # of either database's own tree
            raise ValueError(f"the database cannot be read: {error}") from error

    def _has(self, table: str) -> bool:
        return bool(self._names(table))

    def _names(self, table: str) -> List[str]:
        if table not in self._columns:
            if self._is_sqlite:
                self._columns[table] = [str(row[1]) for row in self._all(f"PRAGMA table_info({table})")]
            else:
                ask = f"SELECT column_name FROM information_schema.columns WHERE table_name = {self._place}"
                self._columns[table] = [str(row[0]) for row in self._all(ask, (table,))]
        return self._columns[table]


def _columns(metric: str, rows: List[Row], notes: List[str]) -> PointPart:
    try:
        _, times, values, steps, nans = zip(*rows)
        column = array("d", values)
        if any(nans):
            for at, is_nan in enumerate(nans):
                if is_nan:
                    column[at] = float("nan")
        return PointPart(metric, array("q", steps), array("q", [time * MS for time in times]), column)
    except (TypeError, ValueError, OverflowError):
        return _columns_slowly(metric, rows, notes)


def _columns_slowly(metric: str, rows: List[Row], notes: List[str]) -> PointPart:
    """Row by row: SQLite keeps any type in any column, and a row of other types is noted and passed over."""
    steps, times, values, bad = array("q"), array("q"), array("d"), 0
    for _, time, value, step, is_nan in rows:
        try:
            at, number, place = time_of(time), float("nan") if is_nan else float(value), step_of(step or 0)
        except (TypeError, ValueError, OverflowError):
            bad += 1
            continue
        times.append(at)
        values.append(number)
        steps.append(place)
    if bad:
        notes.append(f"metric {metric[:200]}: {bad} rows are no points")
    return PointPart(metric, steps, times, values)


def _open_sqlite(path: str) -> sqlite3.Connection:
    quoted = os.path.abspath(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    for mode in ("mode=ro", "mode=ro&immutable=1"):  # the second where no -shm file can be made beside it
        try:
            connection = sqlite3.connect(f"file:{quoted}?{mode}", uri=True, check_same_thread=False)
            connection.execute("PRAGMA query_only = ON")
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            return connection
        except sqlite3.Error as error:
            fault: Optional[sqlite3.Error] = error
    raise InvalidArgument(f"`{path}` cannot be read as a SQLite database.", why=str(fault))


def _open_postgres(uri: str) -> Any:
    try:
        import psycopg  # type: ignore[import-not-found, unused-ignore]  # optional, for this source alone
    except ImportError as error:
        raise MissingExtra(
            "Reading MLflow's PostgreSQL database needs `psycopg`.", hint="Install it: `pip install 'psycopg[binary]'`."
        ) from error
    _scheme, _, rest = uri.partition("://")
    try:
        connection = psycopg.connect(f"postgresql://{rest}")
        connection.read_only = True
        return connection
    except psycopg.Error as error:
        raise InvalidArgument("MLflow's database cannot be opened.", why=str(error).strip()) from error


def _open_other(uri: str) -> Tuple[Any, str]:
    """Return a connection to a MySQL or MSSQL database, and what stands for a value in its statements."""
    try:
        from sqlalchemy import create_engine  # optional, for these sources alone
        from sqlalchemy.exc import SQLAlchemyError
    except ImportError as error:
        raise MissingExtra(
            f"Reading MLflow's database at `{_without_password(uri)}` needs SQLAlchemy and the database's driver.",
            hint="Install them, such as `pip install sqlalchemy pymysql`, or start `mlflow server` on that database "
            "and import from its http:// address.",
        ) from error
    try:
        engine = create_engine(uri)
        connection = engine.raw_connection()
        if engine.dialect.name in ("mysql", "mariadb"):
            connection.cursor().execute("SET SESSION sql_mode = 'ANSI_QUOTES'")
    except ImportError as error:
        raise MissingExtra(
            f"The driver `{error.name}` of MLflow's database is not installed.",
            hint=f"Install it: `pip install {error.name}`. Or start `mlflow server` on that database and import from "
            "its http:// address.",
        ) from error
    except SQLAlchemyError as error:
        raise InvalidArgument(
            f"MLflow's database at `{_without_password(uri)}` cannot be opened.",
            why=str(error).splitlines()[0],
            hint="Addresses look like `mysql+pymysql://user:password@host/database`.",
        ) from error
    style = getattr(engine.dialect, "paramstyle", "")
    return connection, "?" if style == "qmark" else "%s"


def _without_password(uri: str) -> str:
    scheme, _, rest = uri.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
