"""Scripts of frameworks that log by MLflow, submitted as they are: the run has what MLflow's own store has of them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from azureml.core import Environment, Experiment, Run, ScriptRunConfig
from azureml.core.runconfig import PyTorchConfiguration
from runyard.core.config.settings import read_settings
from runyard.runtime.injection import injection_folder
from tests.e2e.conftest import finish
from tests.e2e.frameworks import MLFLOW_FRAMEWORKS, interpreter_with
from tests.mlflow.servers import client_variables
from tests.server.away import server_away
from tests.waiting import wait_for

pytestmark = [pytest.mark.external, pytest.mark.timeout(1200)]

SCRIPTS = Path(__file__).parent / "mlflow_scripts"
VARIABLES = {
    "HF_MLFLOW_LOG_ARTIFACTS": "1",
    "MLFLOW_REQUIREMENTS_INFERENCE_TIMEOUT": "600",  # when it is up a model names fewer packages
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",  # MLmodel has lists that were sets
    "TRANSFORMERS_VERBOSITY": "error",
}
OF_A_MOMENT = ("runtime", "per_second", "_time", "datetime_")  # parts of the names of metrics and tags
Runs = list[dict[str, Any]]


@dataclass(frozen=True)
class Framework:
    """One script. `runs`: how many it makes; here all but the first are children of the submitted run.

    `unequal`: ends of names of files that say how long something took, or hold the state of `random`, which MLflow's
    file store uses for the names of runs.
    """

    script: str
    arguments: tuple[str, ...] = ()
    runs: int = 1
    unequal: tuple[str, ...] = ()
    config: dict[str, Any] = field(default_factory=dict)


FRAMEWORKS = [
    Framework("trainer", ("mlflow",), unequal=("trainer_state.json", "training_args.bin", "rng_state.pth")),
    Framework("lightning_ranks", config={"distributed_job_config": PyTorchConfiguration("Gloo", 2, 1)}),
    Framework("keras_autolog"),
    Framework("sklearn_autolog", runs=4, unequal=("cv_results.csv", "estimator.html", "/model/files/model.pkl")),
    Framework("xgboost_autolog"),
    Framework("lightgbm_autolog"),
    Framework("registered_model"),
    Framework("optuna_trials", runs=4),
]


@pytest.fixture(scope="session")
def interpreter() -> str:
    return interpreter_with(MLFLOW_FRAMEWORKS)


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.script)
def test_a_run_has_what_mlflows_own_store_has(
    experiment: Experiment, project: Path, tmp_path: Path, interpreter: str, framework: Framework
) -> None:
    run = submit(experiment, project, interpreter, framework)
    uri = run_alone(framework, tmp_path, interpreter)
    details = finish(run)
    assert details["status"] == "Completed", run.get_details_with_logs()["logFiles"]
    found, wanted = read_runs(interpreter, tmp_path, run.id, uri)

    assert len(found) == len(wanted) == framework.runs
    for ours, plain in zip(comparable(found, framework), comparable(wanted, framework)):
        assert {
            key: (ours.get(key), plain.get(key)) for key in {*ours, *plain} if ours.get(key) != plain.get(key)
        } == {}
    assert [one["id"] for one in found if one["parent"] is None] == [run.id]
    warnings = [
        one for one in details.get("warnings", ()) if one["source"] != "files"
    ]  # checkpoints of the Trainer are not kept
    assert warnings == []
    check_sdk(run, found)


def test_the_trainer_reports_to_azure_ml_what_it_reports_to_mlflow(
    experiment: Experiment, project: Path, tmp_path: Path, interpreter: str
) -> None:
    run = submit(experiment, project, interpreter, Framework("trainer", ("azure_ml",)))
    run_alone(Framework("trainer", ("mlflow",)), tmp_path, interpreter)

    assert finish(run)["status"] == "Completed", run.get_details_with_logs()["logFiles"]
    found = {name: values if isinstance(values, list) else [values] for name, values in run.get_metrics().items()}
    files = (tmp_path / "alone/mlruns").glob("*/*/metrics/*")  # lines of time, value and step
    wanted = {path.name: [float(line.split()[1]) for line in path.read_text().splitlines()] for path in files}
    assert without_moments(found) == without_moments(wanted)


def without_moments(metrics: dict[str, Any]) -> dict[str, Any]:
    """Return values in order, which is that of their steps here and that of their times in MLflow's store."""
    return {
        name: None if any(part in name for part in OF_A_MOMENT) else sorted(values) for name, values in metrics.items()
    }


def test_autologging_goes_on_while_the_server_is_away(
    experiment: Experiment, project: Path, tmp_path: Path, interpreter: str
) -> None:
    run = submit(experiment, project, interpreter, Framework("server_away", (str(tmp_path),)))
    wait_for((tmp_path / "trains").exists, timeout_s=300)
    with server_away():
        (tmp_path / "away").touch()
        wait_for((tmp_path / "trained").exists)

    assert finish(run)["status"] == "Completed", run.get_details_with_logs()["logFiles"]
    values = json.loads((tmp_path / "values.json").read_text())
    found = Counter(run.get_metrics()["train-binary_logloss"])
    assert len(values) == 120
    assert not Counter(values) - found
    assert sum((found - Counter(values)).values()) <= 1  # MLflow may log the value of the best step once more


def check_sdk(run: Run, found: Runs) -> None:
    """The SDK reads the same of the run and of its children."""
    runs = {one.id: one for one in (run, *run.get_children())}
    assert set(runs) == {one["id"] for one in found}
    for one in found:
        metrics = {
            key: value if isinstance(value, list) else [value] for key, value in runs[one["id"]].get_metrics().items()
        }
        assert {key: {str(value) for value in values} for key, values in metrics.items()} == {
            key: {value for _, value in points} for key, points in one["metrics"].items()
        }
        assert set(runs[one["id"]].get_file_names()) >= {*one["files"]}


def submit(experiment: Experiment, project: Path, interpreter: str, framework: Framework) -> Run:
    shutil.copy(SCRIPTS / f"{framework.script}.py", project / "train.py")
    environment = Environment("frameworks")
    environment.python.user_managed_dependencies = True
    environment.python.interpreter_path = interpreter
    environment.environment_variables = VARIABLES
    source = ScriptRunConfig(
        source_directory=str(project),
        script="train.py",
        arguments=list(framework.arguments),
        environment=environment,
        **framework.config,
    )
    return experiment.submit(source)


def run_alone(framework: Framework, folder: Path, interpreter: str) -> str:
    """Run the script by itself; return the address of the file store that it logged into."""
    place = folder / "alone"
    place.mkdir()
    shutil.copy(SCRIPTS / f"{framework.script}.py", place / "train.py")
    uri = f"file:{place}/mlruns"
    execute([interpreter, "train.py", *framework.arguments], place, MLFLOW_TRACKING_URI=uri, **VARIABLES)
    return uri


def read_runs(interpreter: str, folder: Path, run_id: str, uri: str) -> tuple[Runs, Runs]:
    home = read_settings().home
    command = [interpreter, str(SCRIPTS / "read_runs.py"), str(folder / "read"), run_id, uri]
    told = execute(command, folder, RUNYARD_HOME=str(home), PYTHONPATH=str(injection_folder(home)))
    found, wanted = json.loads(told.partition("READ ")[2])
    return found, wanted


def execute(command: list[str], folder: Path, **variables: str) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=client_variables(MLFLOW_ALLOW_FILE_STORE="true", **variables),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def comparable(runs: Runs, framework: Framework) -> list[dict[str, object]]:
    """Return the facts of each run by their paths, without what is of a moment."""
    kept = [dict(flat("", {**run, "id": "", "parent": ""})) for run in runs]
    for facts in kept:
        for path in facts:
            of_a_moment = path.startswith(("/metrics/", "/last/", "/tags/")) and any(
                part in path for part in OF_A_MOMENT
            )
            if of_a_moment or path.endswith(framework.unequal or "\0"):
                facts[path] = None
    return sorted(kept, key=lambda facts: json.dumps(facts, sort_keys=True))


def flat(path: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, found in value.items():
            yield from flat(f"{path}/{key}", found)
    else:
        yield path, value
