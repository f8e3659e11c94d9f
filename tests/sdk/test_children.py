"""Child runs and interactive runs, against a real private server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.runs.run import Run
from runyard.sdk.workspaces.experiment import Experiment
from runyard.sdk.workspaces.workspace import Workspace
from tests.waiting import wait_for

Submit = Callable[..., Run]


@pytest.fixture
def run(experiment: Experiment) -> Run:
    return experiment.start_logging(snapshot_directory=None, display_name="cv")


def read(run: Run, name: str, tmp_path: Path) -> str:
    target = tmp_path / "read" / run.id
    run.download_file(name, str(target))
    return target.read_text()


def test_a_child_run_is_running_at_once_named_after_its_parent_and_ended_by_itself(run: Run) -> None:
    child = run.child_run("fold 1")
    assert (child.status, child.name, child.type, child.parent) == ("Running", "cv>fold 1", None, run)
    assert re.fullmatch(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", child.id)
    child.log("acc", 0.5)
    child.tag("kind", "fold")
    grandchild = child.child_run("deep", run_id="chosen-id")
    grandchild.log("acc", 0.25)
    grandchild.complete()
    child.complete()

    assert (child.get_status(), child.get_metrics(), child.tags) == ("Completed", {"acc": 0.5}, {"kind": "fold"})
    assert (grandchild.id, grandchild.name, grandchild.status) == ("chosen-id", "cv>fold 1>deep", "Completed")
    assert [one.id for one in run.get_children()] == [child.id]
    assert [one.id for one in run.get_children(recursive=True)] == [child.id, "chosen-id"]
    assert [one.id for one in run.get_children(recursive=True, status="Running")] == []
    assert run.get_metrics(recursive=True) == {child.id: {"acc": 0.5}, "chosen-id": {"acc": 0.25}}
    assert run.get_metrics(recursive=True, run_type="azureml.scriptrun") == {}
    assert run.get_status() == "Running"
    run.complete()
    assert Run.get(run.experiment.workspace, child.id).parent == run


def test_filters_narrow_what_is_listed_but_not_where_it_is_looked_for(run: Run) -> None:
    middle = run.child_run("middle")
    deep = middle.child_run("deep")
    deep.tag("wanted", "yes")
    deep.add_properties({"p": "1"})

    assert [one.id for one in run.get_children(recursive=True, tags={"wanted": "yes"})] == [deep.id]
    assert [one.id for one in run.get_children(recursive=True, properties="p")] == [deep.id]
    assert list(run.get_children(tags="wanted")) == []
    assert list(run.get_children(recursive=True, type="hyperdrive")) == []
    deep.cancel()
    assert [one.id for one in run.get_children(recursive=True, status=["Canceled"])] == [deep.id]
    run.complete()


def test_children_are_made_by_count_or_by_tag_values(run: Run) -> None:
    counted = run.create_children(count=3)
    tagged = run.create_children(tag_key="alpha", tag_values=["0.1", "0.2"])

    assert [one.tags for one in counted] == [{"azureml.batch_child_number": str(n)} for n in range(3)]
    assert [one.tags for one in tagged] == [{"alpha": "0.1"}, {"alpha": "0.2"}]
    assert {one.get_status() for one in [*counted, *tagged]} == {"Running"}
    assert [one.id for one in run.get_children(tags={"alpha": "0.2"})] == [tagged[1].id]
    run.complete()


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"count": 101},
        {"count": 0},
        {"count": True},
        {"count": "3"},
        {"count": 2, "tag_key": "a", "tag_values": ["1", "2"]},
        {"count": 2, "tag_key": "a"},
        {"tag_key": "a"},
        {"tag_values": ["1"]},
        {"tag_key": "a", "tag_values": "12"},
        {"tag_key": "a", "tag_values": ["1"] * 101},
    ],
)
def test_wrong_ways_to_make_children_are_refused_and_make_none(run: Run, arguments: dict[str, Any]) -> None:
    with pytest.raises(UserErrorException):
        run.create_children(**arguments)
    assert list(run.get_children()) == []
    run.complete()


def test_a_with_block_completes_fails_or_exits_and_keeps_what_it_printed(
    experiment: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with experiment.start_logging(snapshot_directory=None) as run:
        print("in the parent")
        with pytest.raises(ZeroDivisionError), run.child_run("bad") as bad:
            print("in the child")
            bad.log("x", 1 / 0)
        with run.child_run("exits") as exits:
            sys.stderr.write("leaving ä\n")
            sys.exit(0)
        with pytest.raises(SystemExit), run.child_run("exit 3") as exits_badly:
            sys.exit(3)
    print("after")

    assert [one.get_status() for one in (run, bad, exits, exits_badly)] == [
        "Completed",
        "Failed",
        "Completed",
        "Failed",
    ]
    assert "ZeroDivisionError: division by zero" in str(bad.get_details()["error"])
    assert read(bad, "logs/user_log.txt", tmp_path) == "in the child\n"
    assert read(exits, "logs/user_log.txt", tmp_path) == "leaving ä\n"
    assert read(run, "logs/user_log.txt", tmp_path) == "in the parent\nin the child\nleaving ä\n"
    assert capsys.readouterr().out == "in the parent\nin the child\nafter\n"
    assert list(Path().glob("logs/*")) == []


def test_outputs_and_logs_of_an_interactive_run_are_stored_while_it_goes_on(
    experiment: Experiment, tmp_path: Path
) -> None:
    old = tmp_path / "logs" / "old.txt"
    old.parent.mkdir()
    old.write_text("of somebody else")
    os.utime(old, (1, 1))
    run = experiment.start_logging(snapshot_directory=None)
    (tmp_path / "outputs" / "model.txt").write_text("weights")
    (tmp_path / "logs" / "events.txt").write_text("event")

    wait_for(lambda: {"outputs/model.txt", "logs/events.txt"} <= set(run.get_file_names()))
    (tmp_path / "outputs" / "last.txt").write_text("just before the end")
    run.complete()

    names = set(run.get_file_names())
    assert "logs/old.txt" not in names
    assert read(run, "outputs/last.txt", tmp_path) == "just before the end"


def test_a_killed_process_loses_nothing_and_closes_the_run_and_its_children(
    experiment: Experiment, tmp_path: Path
) -> None:
    script = f"""
        import os, sys, time
        from azureml.core import Experiment, Workspace
        with Experiment(Workspace.from_config(), {experiment.name!r}).start_logging(snapshot_directory=None) as run:
            child = run.child_run("open").__enter__()
            print("printed", flush=True)
            child.log("x", 1)
            run.log("y", 2)
            open("outputs/kept.txt", "w").write("kept")
            open("ids.tmp", "w").write(run.id + " " + child.id)
            os.rename("ids.tmp", "ids")
            time.sleep(600)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.DEVNULL)
    try:
        wait_for((tmp_path / "ids").exists)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    run_id, child_id = (tmp_path / "ids").read_text().split()
    run = Run.get(experiment.workspace, run_id)
    run.wait_for_completion(raise_on_error=False)
    child = Run.get(experiment.workspace, child_id)  # the watcher sends word of it before the run ends

    assert [one.get_details()["error"]["error"]["code"] for one in (run, child)] == ["RunInterrupted"] * 2
    assert (run.get_metrics(), child.get_metrics()) == ({"y": 2}, {"x": 1})
    assert read(run, "outputs/kept.txt", tmp_path) == "kept"
    assert read(run, "logs/user_log.txt", tmp_path) == "printed\n"
    assert read(child, "logs/user_log.txt", tmp_path) == "printed\n"


OUTSIDE = """
    import sys
    from azureml.core import Run, Workspace
    workspace = Workspace.from_config()
    run = Run.get(workspace, sys.argv[1])
    child = run.child_run("from outside", run_id="outside-1")
    child.log("late", 3)
    child.upload_file("note.txt", sys.argv[2])
    other, failed, left = run.child_run(run_id="outside-2"), run.child_run(run_id="outside-3"), run.child_run()
    assert {other.get_status(), failed.get_status()} == {"Running"}
    Run.get(workspace, "outside-2").complete()
    Run.get(workspace, "outside-3").fail("no good", "Mine")
    child.complete()
    left.log("x", 1)
"""


def test_a_handle_from_outside_makes_children_too_and_any_handle_ends_them(
    experiment: Experiment, submit: Submit, tmp_path: Path
) -> None:
    run = submit("print('done')")
    run.wait_for_completion()
    note = tmp_path / "note.txt"
    note.write_text("of the child")
    subprocess.run([sys.executable, "-c", textwrap.dedent(OUTSIDE), run.id, str(note)], check=True, timeout=60)

    left = wait_for(lambda: [one for one in run.get_children(status="Failed") if not one.id.startswith("outside")])[0]
    found = {one.id: one for one in run.get_children()}
    assert {name: one.get_status() for name, one in found.items()} == {
        "outside-1": "Completed",
        "outside-2": "Completed",
        "outside-3": "Failed",
        left.id: "Failed",
    }
    assert found["outside-3"].get_details()["error"]["error"]["code"] == "Mine"
    assert (found["outside-1"].get_metrics(), left.get_metrics()) == ({"late": 3}, {"x": 1})
    assert read(found["outside-1"], "note.txt", tmp_path) == "of the child"
    assert run.get_status() == "Completed"


def test_cancel_of_an_interactive_run_ends_it_and_its_children_while_its_process_goes_on(
    run: Run, workspace: Workspace
) -> None:
    child = run.child_run()
    child.log("x", 1)
    child.flush()
    Run.get(workspace, run.id).cancel()
    wait_for(lambda: run.get_status() == "Canceled")
    run.log("still", 1)
    run.complete()

    assert run.get_status() == "Canceled"
    assert Run.get(workspace, child.id).get_status() == "Canceled"
    assert run.get_metrics() == {"still": 1}


def test_an_interactive_run_cancels_itself(run: Run) -> None:
    run.cancel()

    assert run.get_status() == "Canceled"


def test_a_script_makes_lists_and_submits_children_with_its_own_token(submit: Submit, experiment: Experiment) -> None:
    run = submit(
        """
        import os
        from azureml.core import Run, ScriptRunConfig
        run = Run.get_context()
        run.upload_file("big.bin", __file__)
        with run.child_run("inner") as child:
            child.log("a", 1)
            child.upload_file("note.txt", __file__)
        with open("sub.py", "w") as file:
            file.write("from azureml.core import Run\\nrun = Run.get_context()\\nrun.log('b', 2)\\nrun.parent.id\\n")
        sub = run.submit_child(ScriptRunConfig(".", "sub.py"), tags={"step": "1"})
        sub.wait_for_completion()
        again = Run.get(run.experiment.workspace, child.id)
        again.log("later", 5)
        again.flush()
        assert sub.parent == run
        assert [one.id for one in run.get_children(tags="step")] == [sub.id]
        assert run.get_metrics(recursive=True) == {child.id: {"a": 1, "later": 5}, sub.id: {"b": 2}}
        """
    )
    details = run.wait_for_completion(raise_on_error=False)

    assert details["status"] == "Completed", details
    names = {one.type: one for one in run.get_children()}
    assert names["azureml.scriptrun"].tags == {"step": "1"}
    assert {one.get_status() for one in names.values()} == {"Completed"}
    assert set(names[None].get_file_names()) == {"note.txt", "logs/user_log.txt"}


def test_a_submitted_child_reads_its_parent_and_adds_to_it(submit: Submit, tmp_path: Path) -> None:
    run = submit(
        """
        from azureml.core import Run, ScriptRunConfig
        run = Run.get_context()
        run.tag("stage", "sweep")
        run.log("before", 1)
        run.upload_file("plan.txt", "plan.txt")
        with run.child_run("sibling") as sibling:
            sibling.log("acc", 0.5)
        run.flush()
        run.submit_child(ScriptRunConfig(".", "sub.py")).wait_for_completion()
        assert run.get_metrics() == {"before": 1, "best": 0.9, "curve": [1, 2]}, run.get_metrics()
        assert run.tags == {"stage": "sweep", "winner": "sub"}, run.tags
        """,
        files={
            "plan.txt": "the plan",
            "sub.py": """
                from azureml.core import Run
                from azureml.exceptions import UserErrorException
                run = Run.get_context()
                parent = run.parent
                assert (parent.tags, parent.get_status(), parent.parent) == ({"stage": "sweep"}, "Running", None)
                assert parent.get_metrics() == {"before": 1}
                parent.download_file("plan.txt", "copy.txt")
                assert open("copy.txt").read() == "the plan"
                found = {one.id: one.get_metrics() for one in parent.get_children()}
                assert sorted(map(str, found.values())) == ["{'acc': 0.5}", "{}"], found
                sibling = [one for one in parent.get_children() if one.id != run.id][0]
                try:
                    sibling.log("acc", 1)
                    raise SystemExit("a sibling took a metric")
                except UserErrorException:
                    pass
                parent.log("best", 0.9)
                parent.log_list("curve", [1, 2])
                parent.tag("winner", "sub")
                parent.upload_file("won.txt", "copy.txt")
                """,
        },
    )
    details = run.wait_for_completion(raise_on_error=False)

    assert details["status"] == "Completed", details
    run.download_file("won.txt", str(tmp_path / "won.txt"))
    assert (tmp_path / "won.txt").read_text() == "the plan"


def test_a_submitted_child_cancels_its_parent_and_all_end(submit: Submit) -> None:
    run = submit(
        """
        import time
        from azureml.core import Run, ScriptRunConfig
        run = Run.get_context()
        open_child = run.child_run("open")
        with open("sub.py", "w") as file:
            file.write("import time\\nfrom azureml.core import Run\\n")
            file.write("Run.get_context().parent.cancel()\\ntime.sleep(60)\\n")
        run.submit_child(ScriptRunConfig(".", "sub.py"))
        time.sleep(60)
        """
    )
    assert run.wait_for_completion(raise_on_error=False)["status"] == "Canceled"
    wait_for(lambda: [one.get_status() for one in run.get_children()] == ["Canceled", "Canceled"])
