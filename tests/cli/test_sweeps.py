"""`runyard sweeps` against a real private server."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
from azureml.train.hyperdrive import BanditPolicy, GridParameterSampling, HyperDriveConfig, PrimaryMetricGoal, choice
from tests.cli.command_line import runyard

SCRIPT = """\
import sys, time
from azureml.core import Run
run = Run.get_context()
run.log("acc", float(sys.argv[2]))
run.flush()
if float(sys.argv[2]) < 0.5:
    time.sleep(60)  # until the policy stops it
"""


@pytest.fixture(scope="module")
def sweep(shared_home: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    project = tmp_path_factory.mktemp("project")
    (project / "train.py").write_text(SCRIPT)
    environment = Environment("mine")
    environment.python.user_managed_dependencies = True
    config = HyperDriveConfig(
        GridParameterSampling({"--<b>": choice(0.9, 0.1)}),
        "acc",
        PrimaryMetricGoal.MAXIMIZE,
        max_total_runs=5,
        max_concurrent_runs=1,
        policy=BanditPolicy(slack_factor=0.2),
        run_config=ScriptRunConfig(str(project), script="train.py", environment=environment),
    )
    run = Experiment(Workspace.from_config(), "tune").submit(config)
    assert run.wait_for_completion()["status"] == "Completed"
    return str(run.id)


@pytest.mark.long
def test_a_sweep_is_shown_best_first_with_the_reason_of_each_stop(sweep: str) -> None:
    shown = runyard("sweeps", "show", sweep)
    lines = shown.stdout.splitlines()

    assert shown.returncode == 0, shown.stderr
    assert lines[0] == f"{sweep}  Completed" and lines[1] == f"[{'#' * 30}] 2 of 2 ended"
    assert lines[4].split() == ["CHILD", "STATUS", "BEST", "<B>"]
    assert lines[5].split() == [f"{sweep}_0", "Completed", "0.9", "0.9"]
    assert lines[6].split() == [f"{sweep}_1", "Canceled", "0.1", "0.1"]
    assert re.search(rf"Stopped early:\n  {sweep}_1: At interval 1 its best was 0.1, worse than 0.75", shown.stdout)
    assert lines[-1] == f"2 children, best 0.9 by {sweep}_0"


@pytest.mark.long
def test_a_sweep_is_read_as_json_and_found_in_the_list(sweep: str) -> None:
    found = json.loads(runyard("sweeps", "show", sweep, "--json").stdout)

    assert [(child["parameters"], child["best"]) for child in found["children"]] == [
        ({"--<b>": 0.9}, 0.9),
        ({"--<b>": 0.1}, 0.1),
    ]
    assert found["best"] == {"run_id": f"{sweep}_0", "value": 0.9}
    listed = json.loads(runyard("sweeps", "list", "--json").stdout)
    assert [run["id"] for run in listed] == [sweep]
    assert sweep in runyard("sweeps", "list").stdout


def test_the_report_is_one_page_that_loads_nothing_and_escapes_names(sweep: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    result = runyard("sweeps", "show", sweep, "--html", str(page))
    text = page.read_text()

    assert result.returncode == 0 and str(page) in result.stderr
    assert text.count("<svg") == 2 and text.count('class="line best"') == 2
    assert "&lt;b&gt;" in text and '<b>"' not in text and "<b></th>" not in text
    assert not re.search(r"(src|href)=|url\(|http", text)


def test_the_last_sweep_is_no_child_of_it(sweep: str) -> None:
    assert runyard("sweeps", "show", "last").stdout == runyard("sweeps", "show", sweep).stdout != ""


def test_a_run_that_is_no_sweep_says_so(sweep: str) -> None:
    result = runyard("sweeps", "show", f"{sweep}_0")

    assert result.returncode == 1 and "is not a sweep" in result.stderr and "runyard sweeps list" in result.stderr
