"""Interactive runs and the code around them: worker processes that got the run, and libraries that ask for it."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from runyard.core.formats.tfevents import Scalar, parameters_record, scalar_record
from runyard.sdk.exceptions import RunEnvironmentException
from runyard.sdk.runs.run import Run
from runyard.sdk.workspaces.experiment import Experiment
from tests.waiting import wait_for

WORKERS = """
    import json, multiprocessing, sys
    from azureml.core import Experiment, Workspace

    kept = []

    def log(run, value):
        kept.append(run)
        run.log("value", value)

    def log_again(value):
        kept[-1].log("value", value)

    if __name__ == "__main__":
        spawned, forked = [multiprocessing.get_context(kind).Pool(1) for kind in ("spawn", "fork")]
        run = Experiment(Workspace.from_config(), sys.argv[1]).start_logging()
        with run.child_run("child") as child:
            spawned.apply(log, (child, 7))
        for value in range(0, 6, 2):
            spawned.apply(log, (run, value))
            forked.apply(log, (run, value + 1))
        run.log("value", 6)
        run.complete()  # the workers live on
        print(json.dumps([run.id, run.get_status(), run.get_metrics(), child.get_metrics()]))
        spawned.apply(log_again, (8,))
        forked.apply(log, (run, 9))
"""


def test_what_workers_logged_is_there_after_complete_in_order_of_time(experiment: Experiment, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(textwrap.dedent(WORKERS))
    done = subprocess.run([sys.executable, "script.py", experiment.name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    run_id, *said = json.loads(done.stdout)

    assert said == ["Completed", {"value": list(range(7))}, {"value": 7}]
    run = Run.get(experiment.workspace, run_id)
    wait_for(lambda: run.get_metrics()["value"] == [*range(7), 8, 9])


def test_the_one_open_run_of_the_process_is_its_context(experiment: Experiment) -> None:
    assert Run.get_context().id.startswith("OfflineRun_")
    with experiment.start_logging() as run:
        assert Run.get_context() is run and Run.get_context(allow_offline=False) is run
        assert pickle.loads(pickle.dumps(run)) is run
        with run.child_run("child"):
            assert Run.get_context() is run
        Run.get_context().log("loss", 0.5)
    assert run.get_metrics() == {"loss": 0.5}
    assert Run.get_context().id.startswith("OfflineRun_")

    first, second = experiment.start_logging(), experiment.start_logging()
    with pytest.raises(RunEnvironmentException):
        Run.get_context(allow_offline=False)
    first.complete()
    assert Run.get_context() is second
    second.complete()


def test_event_files_of_an_interactive_run_become_its_metrics_and_files(experiment: Experiment, tmp_path: Path) -> None:
    def write(name: str, *records: bytes) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        with open(tmp_path / name, "ab") as file:
            file.write(b"".join(records))

    write("runs/old/events.out.tfevents.0", scalar_record(Scalar("old", 0, 1.0, 1.0)))
    os.utime(tmp_path / "runs/old/events.out.tfevents.0", (1, 1))
    write("logs/tb/events.out.tfevents.1", scalar_record(Scalar("loss", 0, 1.0, 9.0)))  # before the run
    with experiment.start_logging() as run:
        now = time.time() + 1
        write("logs/tb/events.out.tfevents.1", scalar_record(Scalar("loss", 1, now, 0.5)))
        write(
            "runs/x/events.out.tfevents.2", parameters_record({"lr": 0.5}, now), scalar_record(Scalar("f1", 2, now, 1))
        )

    assert run.get_metrics() == {"tb/loss": 0.5, "x/f1": 1.0}
    assert run._client.runs.get(run.id).parameters == {"lr": "0.5"}
    names = {"logs/tb/events.out.tfevents.1", "runs/x/events.out.tfevents.2"}
    assert {name for name in run.get_file_names() if "tfevents" in name} == names
