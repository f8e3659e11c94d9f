"""The SDK against a real private server: handles from outside, interactive runs, waiting, files."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runyard.core.errors import Conflict, NotFound
from runyard.sdk.environments.environment import Environment
from runyard.sdk.exceptions import (
    ActivityFailedException,
    AzureMLException,
    ExperimentExecutionException,
    UserErrorException,
    WorkspaceException,
)
from runyard.sdk.run_config.script_run_config import ScriptRunConfig
from runyard.sdk.runs.run import Run, ScriptRun, get_run
from runyard.sdk.workspaces.experiment import Experiment
from runyard.sdk.workspaces.workspace import Workspace

ODD_NAMES = [b"a\\b", b"caf\xe9", b"new\nline", b"%2e%2e%2fx", b" x ", b"dot.", b"a..", b"\xef\x81\x9c"]
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8


def test_a_workspace_is_made_when_a_config_names_it(tmp_path: Path, workspace: Workspace) -> None:
    (tmp_path / "config.json").write_text(
        '{"subscription_id": "s-1", "resource_group": "g-1", "workspace_name": "team_ws"}'
    )
    found = Workspace.from_config()

    assert (found.name, found.subscription_id, found.resource_group, found.location) == (
        "team_ws",
        "s-1",
        "g-1",
        "local",
    )
    assert found.get_details()["name"] == "team_ws"
    assert "team_ws" in Workspace.list() and Workspace.get("team_ws").name == "team_ws"
    found.write_config(str(tmp_path / "other"))
    assert Workspace.from_config(str(tmp_path / "other")).name == "team_ws"


def test_the_default_workspace_has_texts_that_notebooks_print(workspace: Workspace) -> None:
    assert "/".join([workspace.name, workspace.resource_group, workspace.location, workspace.subscription_id]) == (
        "default/runyard/local/00000000-0000-0000-0000-000000000000"
    )


def test_workspaces_are_created_once_unless_told_otherwise(workspace: Workspace) -> None:
    Workspace.create("made_here", location="here", exist_ok=True)

    assert Workspace.create("made_here", exist_ok=True).location == "here"
    with pytest.raises(WorkspaceException, match="exists already"):
        Workspace.create("made_here")
    with pytest.raises(UserErrorException, match="not a valid workspace name"):
        Workspace(workspace_name="a b")
    with pytest.raises(UserErrorException) as caught:
        Workspace.get("no_such_ws")
    assert isinstance(caught.value, NotFound)


def test_experiments_are_listed_tagged_archived_and_brought_back(workspace: Workspace, experiment: Experiment) -> None:
    def names(**query: Any) -> list[str]:
        return [found.name for found in Experiment.list(workspace, **query)]

    experiment.set_tags({"kind": "test", "alone": None})
    experiment.remove_tags(["alone"])

    assert experiment.tags == {"kind": "test"}
    assert experiment.name in names(tags="kind") and experiment.name in names(tags={"kind": "test"})
    assert experiment.name not in names(tags={"kind": "other"})
    assert experiment.name in workspace.experiments and experiment.name in workspace.experiments()

    experiment.archive()
    assert experiment.archived_time is not None
    assert experiment.name not in names() and experiment.name in names(view_type="ArchivedOnly")
    experiment.reactivate()
    assert experiment.name in names()
    with pytest.raises(UserErrorException):
        experiment.reactivate("other")
    with pytest.raises(UserErrorException, match="view_type"):
        names(view_type="Some")
    assert repr(experiment) == f"Experiment(Name: {experiment.name},\nWorkspace: default)"


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 256, "  "])
def test_a_wrong_experiment_name_is_refused(workspace: Workspace, name: str) -> None:
    with pytest.raises(UserErrorException, match="not a valid experiment name"):
        Experiment(workspace, name)


def test_a_submitted_run_is_found_waited_for_and_described(
    submit: Callable[..., Run], workspace: Workspace, experiment: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    run = submit("import sys; print('hello', *sys.argv[1:])", "--n", 3)
    details = run.wait_for_completion(show_output=True)
    lines = capsys.readouterr().out.splitlines()

    assert type(run) is ScriptRun and re.fullmatch(rf"{experiment.name}_\d+_[0-9a-f]{{8}}", run.id)
    web = lines[1]
    assert lines[:6] == [
        f"RunId: {run.id}",
        web,
        "",
        "Streaming user_logs/std_log.txt",
        "===============================",
        "",
    ]
    assert web.startswith("Web View: http://127.0.0.1:")
    assert lines[6:] == ["hello --n 3", "", "Execution Summary", "=================", f"RunId: {run.id}", web, ""]
    assert details["status"] == run.status == run.get_status() == "Completed"
    assert details["runDefinition"]["arguments"] == ["--n", "3"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", details["endTimeUtc"])
    assert list(details["logFiles"]) == ["system_logs/supervisor.log", "user_logs/std_log.txt"]
    assert run.get_details_with_logs()["logFiles"]["user_logs/std_log.txt"] == "hello --n 3\n"
    assert details["properties"]["ContentSnapshotId"] == run.get_snapshot_id()
    assert (
        repr(run) == f"Run(Experiment: {experiment.name},\nId: {run.id},\nType: azureml.scriptrun,\nStatus: Completed)"
    )
    assert run.id in run._repr_html_()

    again = [workspace.get_run(run.id), get_run(experiment, run.id), Run(experiment, run.id), *experiment.get_runs()]
    assert [found.id for found in again] == [run.id] * 4
    assert type(again[0]) is ScriptRun and again[0].number == 1 and again[0].parent is None


def test_output_is_shown_while_the_run_goes_on(submit: Callable[..., Run], tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    run = submit(
        f"""
        import os, sys, time
        print("first", flush=True)
        sys.stdout.buffer.write(b"\\xff\\xfe broken\\n")
        sys.stdout.flush()
        while not os.path.exists({str(gate)!r}):
            time.sleep(0.01)
        print("last, without a newline", end="")
        """
    )
    code = f"""
    from runyard.sdk.workspaces.workspace import Workspace
    Workspace.from_config().get_run({run.id!r}).wait_for_completion(show_output=True)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as shown:
        assert shown.stdout is not None
        before = [next(shown.stdout) for _ in range(8)]
        gate.touch()
        rest = shown.stdout.read()

    assert before[6:] == ["first\n", "�� broken\n"]
    assert rest.startswith("last, without a newline\n\nExecution Summary\n")


def test_a_failed_run_raises_with_its_error_as_json(submit: Callable[..., Run]) -> None:
    run = submit("raise ValueError('bad luck')")

    with pytest.raises(ActivityFailedException) as caught:
        run.wait_for_completion()
    assert '"code": "UserError"' in caught.value.error_details
    assert "User program failed with ValueError: bad luck" in caught.value.error_details

    details = run.wait_for_completion(raise_on_error=False)
    error = details["error"]["error"]
    assert details["status"] == "Failed" and error["code"] == "UserError"
    assert error["message"].startswith("User program failed with ValueError: bad luck")
    assert error["debug_type"] == "ValueError" and error["debug_message"] == "bad luck"
    assert "raise ValueError('bad luck')" in error["debug_stack_trace"]


def test_a_canceled_run_does_not_raise(submit: Callable[..., Run]) -> None:
    run = submit("import time; time.sleep(600)")
    run.cancel()
    run.cancel()

    assert run.wait_for_completion()["status"] == "Canceled"
    assert run.get_status() == "Canceled"


def test_fail_from_outside_stops_the_run(submit: Callable[..., Run]) -> None:
    run = submit("import time; time.sleep(600)")
    run.fail(error_details="not wanted any more", error_code="MyCode")

    assert run.get_status() == "Failed"
    details = run.get_details()
    assert details["error"]["error"]["code"] == "MyCode"
    assert "not wanted any more" in details["error"]["error"]["message"]


def test_ctrl_c_while_streaming_leaves_the_run_alone(submit: Callable[..., Run], tmp_path: Path) -> None:
    run = submit("import time; print('going', flush=True); time.sleep(600)")
    code = f"""
    from runyard.sdk.exceptions import ExperimentExecutionException
    from runyard.sdk.workspaces.workspace import Workspace
    try:
        Workspace.from_config().get_run({run.id!r}).wait_for_completion(show_output=True)
    except ExperimentExecutionException as error:
        print("raised:", error.message)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as shown:
        assert shown.stdout is not None
        while next(shown.stdout) != "going\n":
            pass
        shown.send_signal(signal.SIGINT)
        rest = shown.stdout.read()

    assert "raised: Showing the output of run" in rest and "The run itself continues" in rest
    assert run.get_status() == "Running"
    run.cancel()
    run.wait_for_completion()


def test_mistakes_are_azures_exceptions(
    submit: Callable[..., Run], workspace: Workspace, experiment: Experiment
) -> None:
    with pytest.raises(ExperimentExecutionException, match="does not exist in the source directory"):
        experiment.submit(ScriptRunConfig(".", "nothing.py"))
    with pytest.raises(ExperimentExecutionException, match="There is no compute target `gpu`"):
        submit("", compute_target="gpu")
    with pytest.raises(UserErrorException, match="does not know option"):
        experiment.submit(ScriptRunConfig("."), option=1)
    with pytest.raises(UserErrorException) as caught:
        workspace.get_run("no_such_run")
    assert isinstance(caught.value, NotFound)
    assert list(experiment.get_runs()) == []


def test_runs_are_filtered_by_tags_and_properties(submit: Callable[..., Run], experiment: Experiment) -> None:
    first = submit("pass")
    second = submit("pass")
    first.tag("color", "red")
    second.set_tags({"color": "blue", "size": 3})
    second.add_properties({"fixed": "yes"})

    assert [run.id for run in experiment.get_runs()] == [second.id, first.id]
    assert [run.id for run in experiment.get_runs(tags="size")] == [second.id]
    assert [run.id for run in experiment.get_runs(tags={"color": "red"})] == [first.id]
    assert [run.id for run in experiment.get_runs(properties={"fixed": "yes"})] == [second.id]
    assert list(experiment.get_runs(type="hyperdrive")) == []
    assert (first.number, second.number) == (1, 2)
    for run in (first, second):
        run.wait_for_completion()


def test_tags_properties_and_names_change_from_outside(submit: Callable[..., Run]) -> None:
    run = submit("pass")
    run.tag("rank", 1)  # type: ignore[arg-type]  # users do
    run.tag("alone")
    run.set_tags({"a": "b"})
    run.remove_tags(["a"])
    run.add_properties({"p": "q"})
    run.display_name = "nice"
    run.description = "what it is"

    assert run.tags == run.get_tags() == {"rank": "1", "alone": None}
    assert run.properties["p"] == run.get_properties()["p"] == "q"
    assert (run.display_name, run.name, run.description) == ("nice", "nice", "what it is")
    with pytest.raises(UserErrorException) as caught:
        run.add_properties({"p": "other"})
    assert isinstance(caught.value, Conflict)
    run.wait_for_completion()


def test_files_go_up_and_down(submit: Callable[..., Run], tmp_path: Path) -> None:
    run = submit("open('outputs/model.bin', 'wb').write(bytes(1000))")
    run.wait_for_completion()
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "deep.txt").write_text("deep")
    (folder / "top.txt").write_text("top")
    run.upload_folder("kept", str(folder))
    run.upload_file("stream.bin", io.BytesIO(b"streamed"))
    run.upload_files(["one.txt"], [str(folder / "top.txt")])
    (tmp_path / "odd").mkdir()
    for name in ODD_NAMES:
        (tmp_path / "odd" / os.fsdecode(name)).write_bytes(name)
    run.upload_folder("odd", str(tmp_path / "odd"))
    odd = [name for name in run.get_file_names() if name.startswith("odd/")]
    run.download_files("odd/", str(tmp_path / "back"))
    for name in odd:
        run.download_file(name, str(tmp_path / "single") + "/")

    assert {os.fsencode(name) for name in odd} == {b"odd/" + name for name in ODD_NAMES}
    for folder_name in ("back/odd", "single"):
        found = {os.fsencode(path.name): path.read_bytes() for path in (tmp_path / folder_name).iterdir()}
        assert found == {name: name for name in ODD_NAMES}
    assert [name for name in run.get_file_names() if name not in odd] == [
        "kept/sub/deep.txt",
        "kept/top.txt",
        "one.txt",
        "outputs/model.bin",
        "stream.bin",
        "system_logs/supervisor.log",
        "user_logs/std_log.txt",
    ]
    run.download_file("outputs/model.bin")
    assert (tmp_path / "model.bin").read_bytes() == bytes(1000)
    run.download_file("stream.bin", str(folder))
    assert (folder / "stream.bin").read_bytes() == b"streamed"
    run.download_files("kept", str(tmp_path / "all"))
    assert (tmp_path / "all" / "kept" / "sub" / "deep.txt").read_text() == "deep"
    run.download_files("kept", str(tmp_path / "short"), append_prefix=False)
    assert (tmp_path / "short" / "sub" / "deep.txt").read_text() == "deep"
    assert run.get_all_logs(str(tmp_path / "logs"))[-1] == str(tmp_path / "logs" / "user_logs" / "std_log.txt")


def test_wrong_files_are_refused(submit: Callable[..., Run], tmp_path: Path) -> None:
    run = submit("pass")
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    run.upload_file("x", str(tmp_path / "a"))
    run.upload_file("x", str(tmp_path / "a"))

    with pytest.raises(UserErrorException, match="Resource Conflict: ArtifactId"):
        run.upload_file("x", str(tmp_path / "b"))
    with pytest.raises(UserErrorException, match="has no file `nothing`"):
        run.download_file("nothing")
    with pytest.raises(UserErrorException, match="does not exist"):
        run.upload_file("y", str(tmp_path / "none"))
    with pytest.raises(UserErrorException, match="binary mode"):
        run.upload_file("y", io.StringIO("text"))  # type: ignore[arg-type]
    with pytest.raises(UserErrorException, match="cannot be used"):
        run.upload_file("../y", str(tmp_path / "a"))
    with pytest.raises(TypeError, match="same length"):
        run.upload_files(["a"], [])
    run.wait_for_completion()


LOG_AFTERWARDS = """
import json, sys
from runyard.sdk.workspaces.workspace import Workspace
run = Workspace.from_config().get_run(sys.argv[1])
run.log("after", 2)
run.log("after", 3.5)
run.log_list("list", [1, 2])
run.log_row("row", x=1)
run.log_table("table", {"x": [1, 2]})
run.log_image("image", path="plot.png")
run.log_confusion_matrix("matrix", {"labels": ["a"]})
print(json.dumps(run.get_metrics()))
"""


def test_metrics_are_logged_on_a_finished_run(submit: Callable[..., Run], tmp_path: Path) -> None:
    run = submit("from azureml.core import Run; Run.get_context().log('inside', 1)")
    run.wait_for_completion()
    (tmp_path / "plot.png").write_bytes(PNG)
    # In a process of its own: its watcher lives as long as it does.
    command = [sys.executable, "-c", LOG_AFTERWARDS, run.id]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)

    prefix = f"aml://artifactId/ExperimentRun/dcid.{run.id}"
    expected = {
        "inside": 1,
        "after": [2.0, 3.5],
        "list": [1, 2],
        "row": {"x": 1},
        "table": {"x": [1, 2]},
        "image": f"{prefix}/plot.png",
        "matrix": f"{prefix}/matrix",
    }
    assert json.loads(done.stdout) == run.get_metrics() == expected
    assert run.get_metrics("after") == {"after": [2.0, 3.5]}
    assert run.get_metrics("none") == {}
    assert run.get_metrics("matrix", populate=True) == {"matrix": {"labels": ["a"]}}
    assert run.get_metrics("inside", recursive=True) == {run.id: {"inside": 1}}
    assert run.get_status() == "Completed"
    assert {"plot.png", "matrix"} <= set(run.get_file_names())


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda run: run.log("m", [1]), UserErrorException),
        (lambda run: run.log("m", range(3)), UserErrorException),
        (lambda run: run.log("m", (n for n in ())), UserErrorException),
        (lambda run: run.log("", 1), UserErrorException),
        (lambda run: run.log_list("m", [[1]]), AzureMLException),
        (lambda run: run.log_list("m", 3), AzureMLException),
        (lambda run: run.log_row("m", x=[1]), AzureMLException),
        (lambda run: run.log_table("m", {"a": [1], "b": [1, 2]}), AzureMLException),
        (lambda run: run.log_table("m", [1]), AzureMLException),
        (lambda run: run.log_image("m"), AzureMLException),
        (lambda run: run.log_image("m", path="x.png", plot=object()), AzureMLException),
        (lambda run: run.log_confusion_matrix("m", "{bad"), UserErrorException),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
def test_values_that_no_metric_can_have_raise_azures_exceptions(
    interactive: Run, call: Callable[[Run], None], kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        call(interactive)


@pytest.fixture(scope="module")
def interactive() -> Iterator[Run]:
    run = Experiment(Workspace(), "rejected").start_logging(snapshot_directory=None, outputs=False)
    yield run
    run.complete()


def test_an_interactive_run_lives_from_start_to_complete(experiment: Experiment, tmp_path: Path) -> None:
    (tmp_path / "notebook.py").write_text("x = 1")
    run = experiment.start_logging(display_name="mine")
    (tmp_path / "outputs" / "kept.txt").write_text("kept")
    run.log("i", 1)
    run.log("i", 2)
    run.tag("live", "yes")

    assert (run.get_status(), run.type, run.display_name) == ("Running", None, "mine")
    assert run.get_metrics() == {"i": [1, 2]} and run.tags == {"live": "yes"}
    assert run.get_snapshot_id()
    run.complete()
    assert run.get_status() == "Completed"
    assert "outputs/kept.txt" in run.get_file_names()


def test_a_block_ends_its_run(experiment: Experiment) -> None:
    with pytest.raises(ValueError, match="inside"):
        with experiment.start_logging(snapshot_directory=None, outputs=False) as failed:
            raise ValueError("inside")
    with experiment.start_logging(snapshot_directory=None, outputs=False) as done:
        done.log("x", 1)
        sys.exit(0)

    assert failed.get_status() == "Failed" and done.get_status() == "Completed"
    assert "ValueError: inside" in failed.get_details()["error"]["error"]["message"]


def test_an_interactive_run_whose_process_dies_is_closed(experiment: Experiment, tmp_path: Path) -> None:
    code = f"""
    import os, signal
    from runyard.sdk.workspaces.workspace import Workspace
    from runyard.sdk.workspaces.experiment import Experiment
    run = Experiment(Workspace.from_config(), {experiment.name!r}).start_logging(snapshot_directory=None, outputs=False)
    run.log("x", 1)
    os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], cwd=tmp_path, check=False)
    run = next(experiment.get_runs())
    run.wait_for_completion(raise_on_error=False)

    assert run.get_status() in ("Failed", "Canceled")
    assert run.get_metrics() == {"x": 1}


def test_inside_its_script_a_run_is_ended_by_the_exit_alone(submit: Callable[..., Run]) -> None:
    run = submit(
        """
        from azureml.core import Run
        run = Run.get_context()
        run.log("before", 1)
        run.cancel()
        run.complete()
        assert run.get_status() == "Running"
        run.log("after", 2)
        Run(run.experiment, run.id).log("by another handle", 3)
        """
    )

    assert run.wait_for_completion()["status"] == "Completed"
    assert run.get_metrics() == {"before": 1, "after": 2, "by another handle": 3}


def test_inside_its_script_a_run_reads_what_it_wrote(submit: Callable[..., Run], experiment: Experiment) -> None:
    run = submit(
        """
        from azureml.core import Run

        class Plot:
            def savefig(self, file, format):
                file.write(b"\\x89PNG\\r\\n\\x1a\\n")

        run = Run.get_context()
        run.log("loss", 1)
        run.log_image("plot", plot=Plot())
        run.set_tags({"a": "1", "b": "2"})
        run.remove_tags("b")
        run.add_properties({"p": "q"})
        assert run.get_metrics("loss") == {"loss": 1}
        assert run.tags == {"a": "1"} and run.properties["p"] == "q"
        assert [name for name in run.get_file_names() if name.startswith("plot_") and name.endswith(".png")]
        assert run.parent is None and run.number == 1 and run.input_datasets == {}
        assert run.get_details()["runId"] == run.id
        print(run.experiment.workspace.subscription_id, run.get_portal_url())
        """
    )
    details = run.wait_for_completion()

    assert details["status"] == "Completed"
    assert re.fullmatch(
        rf"0{{8}}-0000-0000-0000-0{{12}} http://127\.0\.0\.1:\d+/runs/{run.id}\n",
        run.get_details_with_logs()["logFiles"]["user_logs/std_log.txt"],
    )


def test_git_facts_and_the_patch_of_a_dirty_tree_are_kept(experiment: Experiment, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()

    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=n", "-c", "user.email=e")
        done = subprocess.run(["git", *identity, *arguments], cwd=project, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q", "-b", "main")
    (project / "train.py").write_text("print('committed')\n")
    git("add", ".")
    git("commit", "-qm", "first")
    (project / "train.py").write_text("print('changed')\n")
    run = experiment.submit(ScriptRunConfig(str(project), "train.py", environment=Environment("e")))
    run.wait_for_completion()
    run.download_file("git/uncommitted.patch", str(tmp_path / "patch"))

    assert run.properties["azureml.git.branch"] == "main"
    assert (
        run.properties["azureml.git.commit"] == run.properties["mlflow.source.git.commit"] == git("rev-parse", "HEAD")
    )
    assert run.properties["azureml.git.dirty"] == "True"
    assert "+print('changed')" in (tmp_path / "patch").read_text()


def test_submit_does_not_wait_for_the_run(submit: Callable[..., Run], tmp_path: Path) -> None:
    go = tmp_path / "go"
    run = submit(f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)")

    assert run.get_status() not in ("Completed", "Failed", "Canceled")
    go.touch()
    run.wait_for_completion()
    assert run.get_status() == "Completed"
