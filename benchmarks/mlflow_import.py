"""`runyard import mlflow` of 1,000 runs with a million points, beside MLflow's own client writing the same.

    python benchmarks/mlflow_import.py [RUNS]

MLflow's client writes some of the runs into a SQLite database of its own and over `mlflow server`, in the largest
batches that it may send. The first database is then multiplied to all the runs, and imported. The figures are the rates
of the import over those of the client; all must have been imported, and what came in must be read back.
"""

from __future__ import annotations

import json
import math
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # for the servers and environments that the tests have

from figures import report  # noqa: E402
from mlflow_rest import PACKAGE  # noqa: E402
from private_home import private_home  # noqa: E402

from azureml.core import Workspace  # noqa: E402
from tests.mlflow.servers import client_variables, make_environment, stock_server  # noqa: E402

WRITTEN = 20  # runs that MLflow's client writes
METRICS, STEPS = 10, 100  # of each run
CLIENT = f"""
import sys, time
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag
client = MlflowClient(sys.argv[1])
experiment = client.create_experiment("history")
def write(at):
    run_id = client.create_run(experiment, run_name=f"run-{{at}}").info.run_id
    places = [(step, n) for step in range({STEPS}) for n in range({METRICS})]
    points = [Metric(f"m{{n}}", at + 0.5 * step, 1767225600000 + step, step) for step, n in places]
    params = [Param(f"p{{n}}", str(at * n)) for n in range(5)]
    client.log_batch(run_id, metrics=points)
    client.log_batch(run_id, params=params, tags=[RunTag("team", "vision")])
    client.set_terminated(run_id)
write(0)
began = time.perf_counter()
for at in range(1, {WRITTEN}):
    write(at)
print((time.perf_counter() - began) / ({WRITTEN} - 1))
"""


def main(count: int) -> None:
    python = make_environment(ROOT / ".venv/mlflow-benchmark", PACKAGE)
    with private_home(), tempfile.TemporaryDirectory(prefix="ry-import-") as folder:
        database = Path(folder) / "mlflow.db"
        direct_s = write(python, f"sqlite:///{database}", Path(folder))
        (Path(folder) / "server").mkdir()
        with stock_server(python, Path(folder) / "server") as server:
            served_s = write(python, server.url, Path(folder))
        multiply(database, count)
        workspace = Workspace.from_config()
        began = time.perf_counter()
        said = bring_in(database)
        each_s = (time.perf_counter() - began) / count
        check(workspace, said, count)
    points = METRICS * STEPS
    note = f"{points / each_s:,.0f} points/s, {each_s * count:.1f} s for {count} runs"
    served = f"{note}; MLflow's client {points / served_s:,.0f} points/s over `mlflow server`"
    direct = f"{note}; MLflow's client {points / direct_s:,.0f} points/s into its database"
    report("mlflow_import.client_of_server", served_s / each_s, "x", target=">= 10", reference=served)
    report("mlflow_import.client_of_database", direct_s / each_s, "x", target=">= 10", reference=direct)


def write(python: Path, uri: str, folder: Path) -> float:
    """Have MLflow's client write; return the seconds of one run."""
    done = subprocess.run(
        [str(python), "-c", CLIENT, uri], env=client_variables(), cwd=folder, check=True, capture_output=True, text=True
    )
    return float(done.stdout.split()[-1])


def multiply(database: Path, count: int) -> None:
    """Copy the runs of the database until there are `count`."""
    with closing(sqlite3.connect(database)) as connection, connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        ids = [run_id for (run_id,) in connection.execute("SELECT run_uuid FROM runs ORDER BY start_time")]
        copies = [(uuid.uuid4().hex, ids[at % len(ids)]) for at in range(len(ids), count)]
        for table in tables:
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            if "run_uuid" in columns:
                kept = ", ".join(f'"{name}"' for name in columns if name != "run_uuid")
                copy = f"INSERT INTO {table} (run_uuid, {kept}) SELECT ?, {kept} FROM {table} WHERE run_uuid = ?"
                connection.executemany(copy, copies)


def bring_in(database: Path) -> dict[str, object]:
    command = [sys.executable, "-m", "runyard.cli", "import", "mlflow", f"sqlite:///{database}", "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    said: dict[str, object] = json.loads(done.stdout)
    return said


def check(workspace: Workspace, said: dict[str, object], count: int) -> None:
    runs = list(workspace.experiments["history"].get_runs())
    assert len(runs) == count, (len(runs), said)
    for run in (runs[0], runs[-1]):
        values = run.get_metrics()
        assert sorted(values) == sorted(f"m{n}" for n in range(METRICS)), values
        first = values["m0"][0]
        assert all(math.isclose(value, first + 0.5 * step) for step, value in enumerate(values["m3"]))
        assert len(values["m3"]) == STEPS


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
