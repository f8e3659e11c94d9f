"""The example of the README and the Azure documentation, as it stands."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
from tests.e2e.conftest import Submit, finish, log_of
from tests.waiting import wait_for

TRAIN = """
import argparse
from azureml.core import Run

parser = argparse.ArgumentParser()
parser.add_argument("--alpha", type=float)
alpha = parser.parse_args().alpha
run = Run.get_context()
run.log("alpha", alpha)
for step in range(5):
    run.log("loss", 1 / (step + 1))
with open("outputs/my_output_file", "w") as file:
    file.write("the model")
print("training done with alpha", alpha)
"""


def test_the_documented_example_runs_as_it_stands(
    workspace: Workspace, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "train.py").write_text(TRAIN)
    ws = Workspace.from_config()
    experiment = Experiment(workspace=ws, name="my_experiment")
    myenv = Environment("user-managed-env")
    myenv.python.user_managed_dependencies = True
    src = ScriptRunConfig(
        source_directory=str(project),
        script="train.py",
        compute_target="local",
        environment=myenv,
        arguments=["--alpha", 0.5],
        max_run_duration_seconds=600,
    )
    run = experiment.submit(config=src)
    details = run.wait_for_completion(show_output=True)
    run.download_file(name="outputs/my_output_file", output_file_path="my_destination_path")
    printed = capsys.readouterr().out

    assert details["status"] == "Completed"
    assert details["runDefinition"]["arguments"] == ["--alpha", "0.5"]
    assert run.get_metrics() == {"alpha": 0.5, "loss": [1.0, 1 / 2, 1 / 3, 1 / 4, 1 / 5]}
    assert {"outputs/my_output_file", "user_logs/std_log.txt"} <= set(run.get_file_names())
    assert Path("my_destination_path").read_text() == "the model"
    assert f"RunId: {run.id}" in printed
    assert "Streaming user_logs/std_log.txt" in printed
    assert "training done with alpha 0.5" in printed
    assert "Execution Summary" in printed
    experiment.archive()
    assert "my_experiment" not in [item.name for item in Experiment.list(ws)]
    experiment.reactivate()
    assert "my_experiment" in [item.name for item in Experiment.list(ws)]


def test_without_an_environment_the_submitting_interpreter_runs_the_script(
    experiment: Experiment, project: Path
) -> None:
    (project / "train.py").write_text("import sys; print('interpreter', sys.executable)")

    run = experiment.submit(ScriptRunConfig(source_directory=str(project), script="train.py"))
    details = finish(run)

    assert details["status"] == "Completed"
    assert f"interpreter {sys.executable}" in log_of(run)
    assert details["runDefinition"]["environment"]["name"] == "default-environment"


def test_the_run_sees_azures_variables_and_the_submitters(
    submit: Submit, experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SETTING", "kept")
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    run = submit(
        """
        import os
        from azureml.core import Run
        run = Run.get_context()
        names = ["AZUREML_RUN_ID", "AZUREML_ARM_PROJECT_NAME", "AZUREML_OUTPUT_DIRECTORY", "MY_SETTING", "SLURM_JOB_ID"]
        run.log_row("seen", **{name: os.environ.get(name) for name in names})
        run.log("needed", all(os.environ.get(name) for name in (
            "AZUREML_ARM_SUBSCRIPTION", "AZUREML_ARM_RESOURCEGROUP", "AZUREML_ARM_WORKSPACE_NAME",
            "AZUREML_SERVICE_ENDPOINT", "AZUREML_RUN_TOKEN", "AZUREML_RUN_TOKEN_EXPIRY")))
        run.log("id", run.id)
        run.log("experiment", run.experiment.name)
        """
    )
    finish(run)

    assert run.get_metrics() == {
        "seen": {
            "AZUREML_RUN_ID": run.id,
            "AZUREML_ARM_PROJECT_NAME": experiment.name,
            "AZUREML_OUTPUT_DIRECTORY": "./outputs",
            "MY_SETTING": "kept",
            "SLURM_JOB_ID": None,
        },
        "needed": True,
        "id": run.id,
        "experiment": experiment.name,
    }


def test_every_form_of_metric_reads_back_as_azure_gives_it(submit: Submit) -> None:
    run = submit(
        """
        from azureml.core import Run
        run = Run.get_context()
        run.log("once", 3)
        run.log("text", "hello")
        run.log("nothing", None)
        run.log("flag", True)
        for value in (1, 2.5, 3):
            run.log("mixed", value)
        run.log_list("list", [1, 2, 3])
        run.log_list("list", (n for n in (4, 5)))
        run.log_list("single", [7])
        run.log_list("empty", [])
        run.log_row("row", "described", x=1, y=2.0)
        for n in range(3):
            run.log_row("rows", x=n, y=n * 2)
        run.log_table("table", {"x": [1, 2], "y": ["a", "b"]})
        run.log_table("one_row", {"x": 5, "y": [6]})
        run.log_table("joined", {"a": [1, 2]})
        run.log_row("joined", a=3)
        run.log_row("holes", a=1)
        run.log_row("holes", b=2)
        run.log("huge", 2**63)
        run.log("odd", float("nan"))
        run.log("odd", float("inf"))
        """
    )
    finish(run)
    metrics = run.get_metrics()
    odd = metrics.pop("odd")

    assert metrics == {
        "once": 3,
        "text": "hello",
        "nothing": None,
        "flag": True,
        "mixed": [1.0, 2.5, 3.0],
        "list": [1, 2, 3, 4, 5],
        "single": 7,
        "row": {"x": 1, "y": 2.0},
        "rows": {"x": [0, 1, 2], "y": [0, 2, 4]},
        "table": {"x": [1, 2], "y": ["a", "b"]},
        "one_row": {"x": 5, "y": 6},
        "joined": {"a": [1, 2, 3]},
        "holes": {"a": [1, None], "b": [None, 2]},
        "huge": 2**63,
    }
    assert type(metrics["mixed"][0]) is float
    assert metrics["flag"] is True
    assert odd[0] != odd[0]
    assert odd[1] == float("inf")
    assert run.get_metrics(name="once") == {"once": 3}
    assert run.get_metrics(name="absent") == {}


def test_a_script_reads_its_own_metrics_while_it_runs(submit: Submit) -> None:
    run = submit(
        """
        from azureml.core import Run
        run = Run.get_context()
        run.log("a", 1)
        run.log("a", 2)
        run.log("seen", len(run.get_metrics()["a"]))
        """
    )
    finish(run)

    assert run.get_metrics()["seen"] == 2


def test_a_file_in_logs_is_downloadable_while_the_run_goes_on(submit: Submit, project: Path, tmp_path: Path) -> None:
    go_on = tmp_path / "go_on"
    run = submit(
        """
        import os, sys, time
        with open("logs/events.out", "w") as file:
            file.write("first event")
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.02)
        """,
        str(go_on),
    )

    wait_for(lambda: "logs/events.out" in run.get_file_names(), what="logs/events.out")
    run.download_file("logs/events.out", str(tmp_path / "copy"))
    status = run.get_status()
    go_on.touch()
    finish(run)

    assert (tmp_path / "copy").read_text() == "first event"
    assert status == "Running"


def test_the_work_folder_is_a_copy_with_modes_and_empty_folders(submit: Submit, project: Path) -> None:
    (project / "empty").mkdir()
    (project / "tool.sh").write_text("#!/bin/sh\necho tool runs\n")
    (project / "tool.sh").chmod(0o755)
    (project / os.fsdecode(b"caf\xe9.txt")).write_text("latin name")
    run = submit(
        """
        import os, subprocess
        print(sorted(os.listdir(b".")))
        print(subprocess.run(["./tool.sh"], capture_output=True, text=True).stdout)
        print("cwd", os.getcwd())
        """
    )
    finish(run)
    log = log_of(run)

    assert "b'caf\\xe9.txt', b'empty', b'logs', b'outputs', b'tool.sh', b'train.py'" in log
    assert "tool runs" in log
    assert f"cwd {project}" not in log


def test_arguments_and_variables_are_expanded_in_the_process(submit: Submit) -> None:
    run = submit("import sys; print(sys.argv[1:])", "$AZUREML_RUN_ID", "--n", 3, True, "$NOT_SET")
    finish(run)

    assert f"['{run.id}', '--n', '3', 'True', '$NOT_SET']" in log_of(run)


def test_an_identical_tree_is_the_same_snapshot(submit: Submit) -> None:
    first, second = submit("print(1)"), submit("print(1)")
    other = submit("print(2)")
    for run in (first, second, other):
        finish(run)

    assert first.get_snapshot_id() == second.get_snapshot_id() != other.get_snapshot_id()
