"""Interactive runs and the code around them: worker processes that got the run, and libraries that ask for it."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

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
