"""`runyard.init` and `runyard.log`: in a plain script, in a notebook's cell, in a submitted run, and outside of all."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy
import pytest

import runyard
from runyard import Run
from tests.interpreters import find_interpreter
from tests.waiting import wait_for

STUDY = """
import sys
import runyard

run = runyard.init("study", name="by hand", config={"lr": 0.1, "model": {"depth": 3, "act": None}}, tags=["mine"])
print("working")
for step in (0, 10, 20):
    runyard.log({"loss": 1 / (step + 1)}, step=step)
"""


def script(text: str, name: str = "study.py") -> None:
    Path(name).write_text(textwrap.dedent(text))


def python(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=60, check=False)


def test_a_plain_script_is_a_run_that_ends_with_it(folder: Path) -> None:
    script(STUDY)
    done = python("study.py")
    assert done.returncode == 0, done.stderr

    run = runyard.runs(experiment="study", limit=1)[0]
    assert (run.status, run.name, run.tags) == ("Completed", "by hand", {"mine": ""})
    assert [(point.step, point.value) for point in run.metrics.points("loss")] == [(0, 1.0), (10, 1 / 11), (20, 1 / 21)]
    assert run.parameters == {"lr": "0.1", "model.depth": "3", "model.act": "None"}
    assert run.logs() == "working\n"
    assert "runyard: run by hand, http://" in done.stderr


def test_the_same_script_is_the_submitted_run(folder: Path) -> None:
    script(STUDY)
    before = len(runyard.runs(experiment="study"))

    run = runyard.run("study.py", experiment="submitted").wait()

    assert len(runyard.runs(experiment="study")) == before
    assert (run.status, run.name, run.tags) == ("Completed", "by hand", {"mine": ""})
    assert run.metrics.history("loss") == [1.0, 1 / 11, 1 / 21]
    assert run.parameters == {"lr": "0.1", "model.depth": "3", "model.act": "None"}
    assert "this is a run of the experiment submitted; init('study') does not move it." in run.logs()


@pytest.mark.parametrize(
    ("end", "status", "error"),
    [
        ("raise ValueError('no data')", "Failed", "ValueError: no data"),
        ("sys.exit(3)", "Failed", "SystemExit: 3"),
        ("sys.exit(0)", "Completed", ""),
        ("exit(3)", "Failed", "SystemExit: 3"),
        ("import os; os._exit(0)", "Failed", ""),
        ("run.finish(error='bad')", "Failed", "bad"),
        ("run.finish(); run.finish()", "Completed", ""),
    ],
)
def test_a_run_ends_as_its_program_ends(folder: Path, end: str, status: str, error: str) -> None:
    script(f"{STUDY}\n{end}")
    python("study.py")

    run = runyard.runs(experiment="study", limit=1)[0].wait(check=False)

    assert run.status == status
    assert error in run.error
    assert run.metrics.history("loss") == [1.0, 1 / 11, 1 / 21]


@pytest.mark.parametrize(
    ("end", "status", "error"),
    [
        ("raise SystemExit(3)", "Failed", "SystemExit: 3"),
        ("raise SystemExit('no data')", "Failed", "SystemExit: no data"),
        ("raise SystemExit(0)", "Completed", ""),
        ("raise SystemExit", "Completed", ""),
        ("try:\n    raise SystemExit(3)\nexcept SystemExit:\n    pass", "Completed", ""),
    ],
)
def test_a_raised_exit_ends_the_run_with_its_code(folder: Path, end: str, status: str, error: str) -> None:
    python = find_interpreter("3.12")
    if python is None:
        pytest.skip("Python tells of it from 3.12 on")
    script(f"{STUDY}\n{end}")
    source = str(Path(runyard.__file__).parent.parent)
    subprocess.run([python, "study.py"], env={**os.environ, "PYTHONPATH": source}, timeout=60, check=False)

    run = runyard.runs(experiment="study", limit=1)[0].wait(check=False)
    assert (run.status, run.metrics.history("loss")) == (status, [1.0, 1 / 11, 1 / 21])
    assert error in run.error


def test_a_forked_child_does_not_end_the_run(folder: Path) -> None:
    forked = "import os, sys\nif os.fork() == 0:\n    sys.exit(1)\nos.wait()\nrunyard.log('after', 1)"
    script(f"{STUDY}\n{forked}")
    assert python("study.py").returncode == 0

    run = runyard.runs(experiment="study", limit=1)[0]
    assert run.status == "Completed" and run.metrics["after"] == 1


CHILDREN = """
import multiprocessing, os, subprocess, sys
import runyard

def work(number):
    runyard.log("spawned", number, step=number)

if __name__ == "__main__":
    with runyard.init("children") as run:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            pool.map(work, range(3))
        code = "import runyard; r = runyard.init('other', config={'lr': 1}); r.log({'started': 1}); print(r.id)"
        assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == [run.id]
    after = subprocess.run([sys.executable, "-c", "import runyard; runyard.log('late', 1)"], stderr=subprocess.PIPE)
    assert b"is not a run" in after.stderr
"""


def test_processes_that_the_program_starts_log_to_its_run(folder: Path) -> None:
    script(CHILDREN)
    done = python("study.py")
    assert done.returncode == 0, done.stderr

    run = runyard.runs(experiment="children", limit=1)[0]
    assert run.status == "Completed" and run.parameters == {"lr": "1"}
    assert [(point.step, point.value) for point in run.metrics.points("spawned")] == [(0, 0), (1, 1), (2, 2)]
    assert set(run.metrics) == {"spawned", "started"}
    assert runyard.runs(experiment="other") == []


def test_cells_of_a_notebook_share_the_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with runyard.init("cells") as run:
        assert Run.get_context().id == run.id
        Run.get_context().log("azure", 1)
        runyard.log("plain", 2)
        run.log({"own": 3}, step=7)
        assert run.metrics.to_dict() == {"azure": 1, "plain": 2, "own": 3}
        assert run.status == "Running" and not run.is_done
    assert run.status == "Completed"
    assert run.metrics.points("own")[0].step == 7

    first = runyard.init("cells")
    second = runyard.init("cells")
    assert f"{first.name} ends here: init() begins another run." in capsys.readouterr().err
    assert (first.status, second.status) == ("Completed", "Running")
    with pytest.raises(ZeroDivisionError):
        with second:
            1 / 0  # noqa: B018
    assert (second.status, second.error) == ("Failed", "ZeroDivisionError: division by zero")


class Figure:
    def savefig(self, file: object, **_: object) -> None:
        file.write(b"\x89PNG\r\n\x1a\n")  # type: ignore[attr-defined]


def test_what_may_be_logged(folder: Path) -> None:
    Path("data.bin").write_bytes(b"x")
    Path("kept").mkdir()
    Path("kept/a.txt").write_text("a")
    with runyard.init("values") as run:
        runyard.log({"number": numpy.float32(0.5), "count": numpy.int64(3), "yes": True, "word": "w", "none": None})
        runyard.log({"list": [1, 2], "array": numpy.array([3.5, 4.5]), "one": numpy.array([7])}, step=4)
        runyard.log({"plain_list": (1, 2)})
        runyard.log({"a": {"b": {"c": 1}}}, 5)
        runyard.log({"figure": Figure()}, step=1)
        runyard.log_image("figure", Figure(), step=2)
        runyard.log_table("table", {"x": [1, 2]})
        runyard.log_file("data.bin")
        runyard.log_file("kept", "folder")

    metrics = run.metrics
    assert [metrics[name] for name in ("number", "count", "yes", "word", "none")] == [0.5, 3, True, "w", None]
    assert [(point.step, point.value) for point in metrics.points("list")] == [(4, 1), (4, 2)]
    assert [(point.step, point.value) for point in metrics.points("array")] == [(4, 3.5), (4, 4.5)]
    assert metrics["one"] == 7
    assert metrics.history("plain_list") == [1, 2]
    assert metrics.points("a/b/c")[0].step == 5
    assert metrics["table"] == {"x": [1, 2]}
    assert metrics["figure"] == "figure_2.png"
    assert {"figure_1.png", "figure_2.png", "data.bin", "folder/a.txt"} <= set(run.files)


def test_a_dataframe_is_a_table(folder: Path) -> None:
    pandas = pytest.importorskip("pandas")
    with runyard.init("frames") as run:
        runyard.log_table("frame", pandas.DataFrame({"x": [1, 2], "y": ["a", "b"]}))

    assert run.metrics["frame"] == {"x": [1, 2], "y": ["a", "b"]}


def test_outside_of_a_run_what_would_be_logged_is_printed(folder: Path) -> None:
    script("import runyard\nrunyard.log({'loss': 0.5, 'a': 'b'}, step=3)\nrunyard.log('loss', 0.25)\nprint('on')")

    done = python("study.py")

    assert done.returncode == 0 and done.stdout == "on\n"
    first, *rest = done.stderr.splitlines()
    assert first.startswith("runyard: this program is not a run, so what it logs is printed and not kept.")
    assert rest == ["runyard: step 3: loss=0.5, a='b'", "runyard: loss=0.25"]


def test_logging_without_a_run_loads_no_client(folder: Path) -> None:
    code = "import sys, runyard\nrunyard.log('a', 1)\nprint([m for m in sys.modules if m.startswith('runyard.client')])"

    assert python("-c", code).stdout == "[]\n"


def test_wrong_calls_say_what_is_right(folder: Path) -> None:
    with pytest.raises(runyard.UserError, match="log\\('loss'\\) has no value"):
        runyard.log("loss")  # type: ignore[call-overload]
    with pytest.raises(runyard.UserError, match="takes a dict of metrics"):
        runyard.log([1])  # type: ignore[call-overload]
    with runyard.init("wrong"), pytest.raises(runyard.UserError, match="a step is a whole number"[2:]):
        runyard.log("loss", 1, step=0.5)  # type: ignore[call-overload]


def test_a_watcher_ends_the_run_of_a_program_that_was_killed(folder: Path) -> None:
    script(f"{STUDY}\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    python("study.py")

    wait_for(lambda: runyard.runs(experiment="study", limit=1)[0].is_done)
    assert runyard.runs(experiment="study", limit=1)[0].status == "Failed"
