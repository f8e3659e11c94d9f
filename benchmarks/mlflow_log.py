"""`mlflow.log_metric` in a run of ours beside the same call with MLflow's store stubbed out, its client's floor.

    python benchmarks/mlflow_log.py

For each release of the client a run is submitted whose script measures both in one process, in rounds that take turns.
The figure is the ratio of the best rounds, so that both see the same machine; the medians are named too.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # for the environments that the tests have

from figures import report  # noqa: E402
from private_home import private_home  # noqa: E402

from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace  # noqa: E402
from tests.mlflow.servers import make_environment  # noqa: E402

CLIENTS = ("2.22.5", "3.17.2")
SCRIPT = """
import json, statistics, sys, time
import mlflow
from mlflow.tracking._tracking_service.utils import _get_store

CALLS, ROUNDS = 1000, 30
with mlflow.start_run():
    store = _get_store()
    kinds = {"ours": store.log_metric, "floor": lambda run_id, metric: None}
    times = {kind: [] for kind in kinds}
    for _ in range(ROUNDS):
        for kind, log_metric in kinds.items():
            store.log_metric = log_metric
            began = time.perf_counter()
            for step in range(CALLS):
                mlflow.log_metric("loss", 0.5, step=step)
            times[kind].append((time.perf_counter() - began) / CALLS * 1e6)
    found = {kind: [min(each), statistics.median(each)] for kind, each in times.items()}
with open(sys.argv[1], "w") as file:
    json.dump(found, file)
"""


def main() -> None:
    with private_home(), tempfile.TemporaryDirectory(prefix="ry-log-") as folder:
        for version in CLIENTS:
            measure(version, Path(folder) / version)


def measure(version: str, folder: Path) -> None:
    (folder / "project").mkdir(parents=True)
    (folder / "project/train.py").write_text(SCRIPT)
    environment = Environment("mlflow")
    environment.python.user_managed_dependencies = True
    python = make_environment(ROOT / f".venv/mlflow-skinny-{version}", f"mlflow-skinny=={version}")
    environment.python.interpreter_path = str(python)
    source = ScriptRunConfig(
        str(folder / "project"), "train.py", arguments=[str(folder / "times.json")], environment=environment
    )
    run = Experiment(Workspace.from_config(), "log").submit(source)
    run.wait_for_completion(raise_on_error=True)
    times = json.loads((folder / "times.json").read_text())
    (ours, our_median), (floor, floor_median) = times["ours"], times["floor"]
    reference = f"{ours:.1f} us, the client alone {floor:.1f} us; medians {our_median:.1f} and {floor_median:.1f} us"
    report(f"mlflow_log.{version}", ours / floor, "x", target="<= 1.2", reference=reference)


if __name__ == "__main__":
    main()
