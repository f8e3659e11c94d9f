"""`runyard.run`, the handle that it returns, and finding runs again."""

from __future__ import annotations

import json
import sys
import textwrap
from datetime import timedelta
from pathlib import Path

import pytest

import runyard
from runyard.core.errors import InvalidArgument, NotFound, RunFailed

TRAIN = """
import argparse, os, runyard
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--name")
lr = parser.parse_args().lr
print("learning with", lr)
for epoch in range(3):
    runyard.log({"loss": lr / (epoch + 1), "accuracy": {"top1": epoch}}, step=epoch * 10)
runyard.log("note", "done")
runyard.log_table("confusion", [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
os.makedirs("outputs", exist_ok=True)
with open("outputs/model.txt", "w") as file:
    file.write(os.environ.get("WORD", "none"))
"""


def script(name: str, text: str) -> None:
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(textwrap.dedent(text))


def test_a_run_from_its_submit_to_its_results(folder: Path) -> None:
    script("train.py", TRAIN)

    run = runyard.run(
        "train.py",
        lr=0.3,
        experiment="native",
        name="first",
        tags={"team": "vision", "retry": 1},
        variables={"WORD": "kept"},
        time_limit=timedelta(minutes=5),
    )
    assert not run.is_done or run.status == "Completed"
    assert run.wait() is run

    assert (run.status, run.name, run.experiment, run.number, run.error) == ("Completed", "first", "native", 1, "")
    assert run.metrics["loss"] == pytest.approx(0.1)
    assert dict(run.metrics) == run.metrics.to_dict()
    assert list(run.metrics) == ["loss", "accuracy/top1", "note", "confusion"] and len(run.metrics) == 4
    assert run.metrics["confusion"] == {"a": [1, 3], "b": [2, 4]}
    assert "loss" in run.metrics and "acc" not in run.metrics
    assert run.metrics.get("acc", 7) == 7
    assert run.metrics.history("loss") == pytest.approx([0.3, 0.15, 0.1])
    points = run.metrics.points("loss")
    assert [point.step for point in points] == [0, 10, 20]
    assert all(run.created_at < point.time for point in points)
    assert run.parameters == {"lr": "0.3"}
    assert run.tags == {"team": "vision", "retry": "1"}
    assert run.logs().strip() == "learning with 0.3"
    assert "outputs/model.txt" in run.files
    [path] = run.download("outputs", to="got")
    assert path == Path("got/outputs/model.txt") and path.read_text() == "kept"
    assert len(run.download(to="all")) == len(run.files)
    assert run.url.startswith("http://127.0.0.1:") and run.id in run.url
    assert run.started_at is not None and run.ended_at is not None
    assert run.tag(team="audio", best=None).tags == {"team": "audio", "retry": "1", "best": None}
    assert repr(run) == "<RunHandle first Completed>"
    assert run.azure.get_metrics("loss") == {"loss": pytest.approx([0.3, 0.15, 0.1])}

    with pytest.raises(KeyError, match="has no metric `acc`"):
        run.metrics["acc"]
    with pytest.raises(NotFound, match="has no file `outputs/x`"):
        run.download("outputs/x")
    with pytest.raises(NotFound, match="has no log `x`"):
        run.logs("x")
    with pytest.raises(InvalidArgument, match="is a table"):
        run.metrics.points("confusion")


def test_metrics_become_dataframes(folder: Path) -> None:
    script("train.py", TRAIN)
    metrics = runyard.run("train.py", lr=0.3).wait().metrics

    frame = metrics.to_pandas("loss", "accuracy/top1")
    assert list(frame.index) == [0, 10, 20] and frame.index.name == "step"
    assert list(frame["loss"]) == pytest.approx([0.3, 0.15, 0.1])
    assert list(frame["accuracy/top1"]) == [0, 1, 2]
    assert list(metrics.to_pandas().columns) == ["loss", "accuracy/top1", "note"]
    assert metrics.to_pandas("confusion").to_dict("list") == {"a": [1, 3], "b": [2, 4]}


def test_several_values_of_a_step_are_rows_of_their_own(folder: Path) -> None:
    script("train.py", "import runyard\nfor value in (1, 2):\n    runyard.log({'a': value, 'b': [3, 4]}, step=5)")

    frame = runyard.run("train.py").wait().metrics.to_pandas()

    assert list(frame.index) == [5, 5, 5, 5]
    assert frame["a"].tolist()[:2] == [1, 2] and frame["b"].tolist() == [3, 4, 3, 4]


def test_a_failed_run_raises_with_its_reason(folder: Path) -> None:
    script("train.py", "print('so far')\nraise ValueError('no data')")
    run = runyard.run("train.py", name="broken")

    with pytest.raises(RunFailed) as raised:
        run.wait()

    assert str(raised.value).startswith("broken failed.")
    assert "ValueError: no data" in str(raised.value) and "so far" in str(raised.value)
    assert raised.value.details == {"runs": {run.id: "Failed"}}
    assert run.wait(check=False).status == "Failed"
    assert "ValueError: no data" in run.error


def test_many_runs_are_waited_for_and_all_that_failed_are_told(folder: Path) -> None:
    script("train.py", "import sys\nsys.exit(int(sys.argv[-1]))")
    several = [runyard.run("train.py", arguments=[code]) for code in (0, 3, 4)]

    with pytest.raises(RunFailed, match="2 runs did not complete: train#"):
        runyard.wait(several)

    assert [run.status for run in runyard.wait(several, check=False)] == ["Completed", "Failed", "Failed"]
    assert runyard.wait(several[:1]) == several[:1]


def test_a_canceled_run_and_a_wait_that_ends_before_the_run(folder: Path) -> None:
    script("train.py", "import time\ntime.sleep(600)")
    run = runyard.run("train.py")

    with pytest.raises(TimeoutError, match="it goes on"):
        run.wait(timeout=0.1)
    with pytest.raises(RunFailed, match="was canceled"):
        run.cancel().wait()
    assert run.status == "Canceled"


def test_commands_modules_and_programs(folder: Path) -> None:
    script("train.py", "import sys\nprint(sys.argv[1:])")
    script("package/__init__.py", "")
    script(
        "package/train.py",
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--batch-size')\nprint(p.parse_args())",
    )
    runs = [
        runyard.run(["echo", "a b", 1], lr=0.1),
        runyard.run(command="echo $0 | wc -l"),
        runyard.run(command="echo one", lr=0.1),
        runyard.run([sys.executable, "train.py", "x"], parameters={"name": "n"}),
        runyard.run(module="package.train", batch_size=3),
        runyard.run("train.py", arguments=["pos", 2], lr=1),
    ]

    logs = [run.wait().logs().strip() for run in runs]

    assert logs == [
        "a b 1 --lr 0.1",
        "1",
        "one --lr 0.1",
        "['x', '--name', 'n']",
        "Namespace(batch_size='3')",
        "['pos', '2', '--lr', '1']",
    ]


@pytest.mark.long
def test_a_notebook(folder: Path) -> None:
    cells = [{"cell_type": "code", "source": "lr = 1\n", "metadata": {"tags": ["parameters"]}, "outputs": []}]
    cells.append(
        {"cell_type": "code", "source": "import runyard\nrunyard.log('lr', lr)", "metadata": {}, "outputs": []}
    )
    notebook = {"cells": [{**cell, "execution_count": None} for cell in cells], "metadata": {}}
    Path("study.ipynb").write_text(json.dumps({**notebook, "nbformat": 4, "nbformat_minor": 4}))

    assert runyard.run("study.ipynb", lr=0.5).wait().metrics["lr"] == 0.5


def test_a_setting_that_the_script_has_too_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script("train.py", TRAIN)

    run = runyard.run("train.py", lr=1, name="mine", parameters={"name": "theirs"})

    assert (
        "`name=` is a setting of the run. The script's `--name` is set by parameters={'name': …}."
        in capsys.readouterr().err
    )
    assert run.wait().parameters["name"] == "theirs" and run.name == "mine"


def test_runs_are_found_again(folder: Path) -> None:
    script("train.py", TRAIN)
    runs = [runyard.run("train.py", lr=lr, experiment="found", tags=["mine"]) for lr in (0.1, 0.2, 0.3)]
    runyard.wait(runs)

    assert runyard.runs(experiment="found") == runs[::-1]
    assert runyard.runs("params.lr >= 0.2", experiment="found") == [runs[2], runs[1]]
    assert runyard.runs(experiment="found", sort="-metrics.loss", limit=2) == [runs[2], runs[1]]
    assert runyard.runs(experiment="found", tags="mine", status=["Failed"]) == []
    assert runyard.get("found#2") == runyard.get(runs[1].id) == runs[1]
    assert runyard.get("last").experiment in ("found", runyard.get("last").experiment)
    with pytest.raises(NotFound, match="There is no run `nobody#1`"):
        runyard.get("nobody#1")


def test_a_run_that_starts_others_is_their_parent(folder: Path) -> None:
    script("inner.py", "print('inner')")
    script("outer.py", "import runyard\nrun = runyard.run('inner.py').wait()\nprint(run.status)")

    outer = runyard.run("outer.py").wait()

    assert outer.logs().strip() == "Completed"
    assert [child.logs().strip() for child in outer.children] == ["inner"]


def test_a_sweep(folder: Path) -> None:
    script("train.py", TRAIN)
    space = {"parameters": {"lr": "choice(0.1, 0.2)"}, "metric": "loss", "goal": "minimize", "sampling": "grid"}

    sweep = runyard.run("train.py", sweep=space).wait()

    assert sorted(child.parameters["lr"] for child in sweep.children) == ["0.1", "0.2"]
