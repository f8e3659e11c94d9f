"""Runs in a notebook: cells log, a bare run is a card that follows it, a kernel that is killed leaves no run open."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from nbclient.exceptions import CellExecutionError

from azureml.core import Run, Workspace
from tests.e2e.conftest import finish
from tests.e2e.notebook import SET_UP, Notebook, make_client, make_notebook, open_notebook, printed, shown
from tests.waiting import wait_for


@pytest.fixture(autouse=True)
def jupyter_folders(session_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jupyter's own files: none in the real home, and sockets where their paths are short."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(session_folder / "run"))
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path.parent / f"{tmp_path.name}-jupyter"))


def run_id_of(cell: Any) -> str:
    return printed(cell).split()[-1]


def card_of(cell: Any) -> tuple[str, str]:
    """Return the status and the run's id on the card that a bare run shows."""
    found = re.search("● (.*?)</b>.*?<code>(.*?)</code>", shown(cell, "text/html"))
    assert found is not None
    return found[1], found[2]


def error_of(run: Run) -> dict[str, Any]:
    error: dict[str, Any] = run.get_details()["error"]["error"]
    return error


@pytest.mark.long
def test_a_notebook_logs_a_run_and_a_child_and_shows_them(workspace: Workspace, tmp_path: Path) -> None:
    notebook = make_notebook(
        'run = Experiment(ws, "in-notebook").start_logging()\nprint(run.id)',
        "run",
        'for n in range(100):\n    run.log("n", n)\nrun.get_metrics()["n"] == list(range(100))',
        'with run.child_run("fold") as child:\n    child.log("loss", 0.5)\nprint(child.id)',
        "child",
        "late = run.child_run()\nlate",
        "late.complete()\nrun.complete()\nrun",
    )
    make_client(notebook, tmp_path).execute()
    _, started, bare, logged, with_child, bare_child, bare_late, ended = notebook.cells
    run = Run.get(workspace, run_id_of(started))

    assert card_of(bare)[1] == run.id
    assert re.search(r' · in-notebook · .*<a href="http://[^"]+" ', shown(bare, "text/html"))
    assert shown(bare, "text/plain").startswith("Run(Experiment: in-notebook,\nId: " + run.id)
    assert shown(logged, "text/plain") == "True"
    assert card_of(ended) == ("Completed", run.id)
    assert "children: 2 Completed" in shown(ended, "text/html")
    assert run.get_status() == "Completed"
    assert run.get_metrics() == {"n": list(range(100))}
    late, child = run.get_children()
    assert (child.id, child.parent.id) == (run_id_of(with_child), run.id)
    assert child.get_status() == "Completed"
    assert child.get_metrics() == {"loss": 0.5}
    assert card_of(bare_child) == ("Completed", child.id)
    assert card_of(bare_late)[1] == late.id


def test_two_runs_of_one_kernel_do_not_mix(workspace: Workspace, tmp_path: Path) -> None:
    notebook = make_notebook(
        """
        first = Experiment(ws, "one").start_logging()
        second = Experiment(ws, "two").start_logging()
        for n in range(50):
            first.log("n", n)
            second.log("n", -n)
        first.complete()
        second.log("after", 1)
        second.fail("on purpose", error_code="Chosen")
        print(first.id, second.id)
        """
    )
    make_client(notebook, tmp_path).execute()
    first, second = (Run.get(workspace, run_id) for run_id in printed(notebook.cells[-1]).split())

    assert (first.experiment.name, second.experiment.name) == ("one", "two")
    assert first.get_metrics() == {"n": list(range(50))}
    assert second.get_metrics() == {"n": [-n for n in range(50)], "after": 1}
    assert (first.get_status(), second.get_status()) == ("Completed", "Failed")
    assert error_of(second)["code"] == "Chosen"


@pytest.mark.long
def test_a_killed_kernel_closes_its_run_with_all_points_and_a_new_kernel_goes_on(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel itself starts the server, which must not share its end. A restart kills as well."""
    monkeypatch.chdir(tmp_path)
    start = 'run = Experiment(ws, "killed").start_logging()\nprint(run.id)'
    log = 'child = run.child_run()\nfor n in range(5000): run.log("n", n); child.log("m", -n)'

    async def go() -> list[str]:
        async with open_notebook(tmp_path) as notebook:
            first = run_id_of(await notebook.run(start))
            await notebook.run(log)
            await notebook.restart()
            await notebook.run(SET_UP)
            second = run_id_of(await notebook.run(start))
            await notebook.run(log)
            await notebook.kill()
        return [first, second]

    run_ids = asyncio.run(go())
    workspace = Workspace.from_config()
    for run in [Run.get(workspace, run_id) for run_id in run_ids]:
        assert wait_for(lambda run=run: run.get_status() != "Running" and run.get_status()) == "Failed"
        assert error_of(run)["code"] == "RunInterrupted"
        assert "ended without `run.complete()`" in error_of(run)["message"]
        assert run.get_metrics() == {"n": list(range(5000))}
        (child,) = run.get_children()
        assert (child.get_status(), error_of(child)["code"]) == ("Failed", "RunInterrupted")
        assert child.get_metrics() == {"m": [-n for n in range(5000)]}


def test_an_interrupted_cell_leaves_its_run_open_for_the_next_cell(workspace: Workspace, tmp_path: Path) -> None:
    async def go() -> str:
        async with open_notebook(tmp_path) as notebook:
            run_id = run_id_of(await notebook.run('run = Experiment(ws, "stop").start_logging()\nprint(run.id)'))
            cell = notebook.begin("run.log('n', 1)\nprint('going', flush=True)\nwhile True: run.log('n', 1)")
            await notebook.see(lambda: "going" in printed(notebook.last_cell), "the cell's print")
            await notebook.interrupt()
            with pytest.raises(CellExecutionError, match="KeyboardInterrupt"):
                await cell
            await notebook.run("logged = len(run.get_metrics()['n'])\nrun.log('after', logged)\nrun.complete()")
        return run_id

    run = Run.get(workspace, asyncio.run(go()))

    assert run.get_status() == "Completed"
    assert set(run.get_metrics()["n"]) == {1}
    assert run.get_metrics()["after"] == len(run.get_metrics()["n"])


SCRIPT = """
import os, sys, time
print("backend", os.environ.get("MPLBACKEND"))
for n in (1, 2):
    print("line", n, flush=True)
    while not os.path.exists(f"{sys.argv[1]}/{n}"): time.sleep(0.01)
print("last line")
"""
SUBMIT = """
env = Environment("user-managed-env")
env.python.user_managed_dependencies = True
config = ScriptRunConfig("project", "train.py", arguments=[{gates!r}], compute_target="local", environment=env)
run = Experiment(ws, "submitted").submit(config)
print(run.id)
"""


def test_a_submitted_run_streams_into_its_cell_and_outlives_an_interrupt(
    workspace: Workspace, project: Path, tmp_path: Path
) -> None:
    (project / "train.py").write_text(SCRIPT)
    gates = tmp_path / "gates"
    gates.mkdir()

    async def go() -> str:
        async with open_notebook(tmp_path) as notebook:
            run_id = run_id_of(await notebook.run(SUBMIT.format(gates=str(gates))))
            await _interrupt_while_shown(notebook, run_id)
            cell = notebook.begin("run.wait_for_completion(show_output=True)['status']")
            await notebook.see(lambda: "line 1\n" in printed(notebook.last_cell), "the first line again")
            assert "line 2" not in printed(notebook.last_cell)
            (gates / "1").touch()
            await notebook.see(lambda: "line 2\n" in printed(notebook.last_cell), "the second line")
            (gates / "2").touch()
            ended = await cell
        assert "Streaming user_logs/std_log.txt" in printed(ended)
        assert "backend None\nline 1\nline 2\nlast line\n\nExecution Summary" in printed(ended)
        assert shown(ended, "text/plain") == "'Completed'"
        return run_id

    assert finish(Run.get(workspace, asyncio.run(go())))["status"] == "Completed"


async def _interrupt_while_shown(notebook: Notebook, run_id: str) -> None:
    cell = notebook.begin("run.wait_for_completion(show_output=True)")
    await notebook.see(lambda: "line 1\n" in printed(notebook.last_cell), "the first line")
    await notebook.interrupt()
    with pytest.raises(CellExecutionError, match=f"Showing the output of run {run_id} was interrupted") as told:
        await cell
    assert told.value.ename == "ExperimentExecutionException"
    assert shown(await notebook.run("run.get_status()"), "text/plain") == "'Running'"


def test_a_card_follows_a_run_to_its_end_while_other_cells_go_on(workspace: Workspace, tmp_path: Path) -> None:
    async def go() -> tuple[str, str, str]:
        async with open_notebook(tmp_path) as notebook:
            await notebook.run(
                """
                from azureml.widgets import RunDetails
                run = Experiment(ws, "card").start_logging()
                run.log_list("loss", [3.0, 2.0, 1.5])
                run.flush()
                """
            )
            cell, bare = await notebook.run("RunDetails(run).show()"), await notebook.run("run")
            first = str(cell.outputs[0].data["text/html"])
            await notebook.run("run.log('loss', 1.25)\nrun.complete()")
            await notebook.run(
                "import threading\nfor one in threading.enumerate():\n    one.name == 'runyard-card' and one.join(30)"
            )
            return first, shown(cell, "text/html"), shown(bare, "text/html")

    first, last, bare = asyncio.run(go())

    assert "● Running" in first and ">1.5</td>" in first and "<polyline" in first
    assert "● Completed" in last and ">1.25</td>" in last
    assert re.sub('href="[^"]*"', "", bare) == re.sub('href="[^"]*"', "", last)
