"""The rest of what a run handle does: files by every form, logs, environment, display, pickling, types."""

from __future__ import annotations

import copy
import io
import json
import pickle
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runyard.core import records
from runyard.core.machine.progress import Progress
from runyard.sdk.environments.environment import Environment
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.run_config.script_run_config import ScriptRunConfig
from runyard.sdk.runs import details
from runyard.sdk.runs.run import Run, ScriptRun
from runyard.sdk.workspaces.experiment import Experiment
from runyard.sdk.workspaces.workspace import Workspace


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A completed run that wrote two outputs and a log."""
    project = tmp_path_factory.mktemp("project")
    (project / "train.py").write_text(
        "import os\n"
        "os.makedirs('outputs/model', exist_ok=True)\n"
        "open('outputs/model/weights.bin', 'w').write('weights')\n"
        "open('outputs/model/sub.txt', 'w').write('sub')\n"
        "print('hello')\n"
    )
    environment = Environment("mine")
    environment.python.user_managed_dependencies = True
    environment.environment_variables = {"COLOR": "red"}
    run: Run = Experiment(Workspace(), "surface").submit(
        ScriptRunConfig(str(project), "train.py", environment=environment)
    )
    run.wait_for_completion()
    return run


def texts(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_a_file_is_downloaded_to_a_name_a_folder_or_here(
    finished: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    finished.download_file("outputs/model/weights.bin")
    finished.download_file("outputs/model/weights.bin", "there")
    finished.download_file("outputs/model/weights.bin", "new/folder/")
    finished.download_file("outputs/model/weights.bin", output_file_path="deep/er/w.bin")

    assert texts(tmp_path) == dict.fromkeys(
        ["weights.bin", "there/weights.bin", "new/folder/weights.bin", "deep/er/w.bin"], "weights"
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"prefix": "outputs/model"}, {"outputs/model/sub.txt": "sub", "outputs/model/weights.bin": "weights"}),
        ({"prefix": "outputs/model", "append_prefix": False}, {"sub.txt": "sub", "weights.bin": "weights"}),
        ({"prefix": "outputs/model/", "append_prefix": False}, {"sub.txt": "sub", "weights.bin": "weights"}),
        ({"prefix": "outputs/model/sub.txt", "append_prefix": False}, {"outputs/model/sub.txt": "sub"}),
        ({"prefix": "outputs", "output_paths": ["one", "two/three"]}, {"one": "sub", "two/three": "weights"}),
        ({"prefix": "no such"}, {}),
    ],
    ids=["prefix", "without prefix", "slash", "one file", "paths", "nothing"],
)
def test_files_are_downloaded_by_prefix(
    finished: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: dict[str, Any],
    expected: dict[str, str],
) -> None:
    monkeypatch.chdir(tmp_path)
    target = {} if "output_paths" in arguments else {"output_directory": str(tmp_path)}
    finished.download_files(**target, **arguments)

    assert texts(tmp_path) == expected


def test_transfers_say_how_far_they_are(finished: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is shown after a second: here each transfer's words at its end."""
    words: list[str] = []
    end = Progress.__exit__

    def note(self: Progress, *error: object) -> None:
        words.append(self.text())
        end(self, *error)

    monkeypatch.setattr(Progress, "__exit__", note)
    (tmp_path / "up").mkdir()
    (tmp_path / "up" / "big.bin").write_bytes(bytes(5_000_000))
    workspace = finished.experiment.workspace
    with Experiment(workspace, "transfers").start_logging() as started:
        pass
    words.clear()
    run = Run.get(workspace, started.id)
    run.upload_folder("up", str(tmp_path / "up"))
    run.download_file("up/big.bin", str(tmp_path / "down.bin"))

    assert [text.partition(",")[0] for text in words] == [
        "runyard: uploading [####################] 5.0 MB of 5.0 MB",
        "runyard: downloading [####################] 5.0 MB of 5.0 MB",
    ]
    assert all(text.endswith(": up/big.bin") for text in words)


def test_as_many_paths_as_files_are_needed(finished: Run) -> None:
    with pytest.raises(UserErrorException, match="output_paths has 1 paths for 2 files"):
        finished.download_files("outputs/", output_paths=["one"])


def test_files_go_up_by_path_by_stream_in_lists_and_as_folders(submit: Callable[..., Run], tmp_path: Path) -> None:
    (tmp_path / "tree" / "deep").mkdir(parents=True)
    (tmp_path / "tree" / "deep" / "b.txt").write_text("b")
    (tmp_path / "a.txt").write_text("a")
    run = submit("pass")
    run.wait_for_completion()
    run.upload_file("by/path.txt", str(tmp_path / "a.txt"))
    run.upload_file(name="by/stream.txt", path_or_stream=io.BytesIO(b"stream"), datastore_name="workspaceblobstore")
    urls = run.upload_files(["x", "./y"], [str(tmp_path / "a.txt")] * 2, return_artifacts=True)
    run.upload_folder("tree/", str(tmp_path / "tree"))

    assert urls is not None and [url.rpartition("/")[2] for url in urls.values()] == ["x", "y"]
    assert run.upload_files([], []) is None
    run.download_files(output_directory=str(tmp_path / "down"))
    down = texts(tmp_path / "down")
    expected = {"by/path.txt": "a", "by/stream.txt": "stream", "x": "a", "y": "a", "tree/deep/b.txt": "b"}
    assert {name: down[name] for name in expected} == expected
    with pytest.raises(UserErrorException, match="does not exist"):
        run.upload_folder("none", str(tmp_path / "none"))


def test_inside_its_script_a_run_downloads_what_it_just_uploaded(submit: Callable[..., Run]) -> None:
    run = submit(
        """
        from azureml.core import Run
        run = Run.get_context()
        open("a.txt", "w").write("first")
        run.upload_file("kept/a.txt", "a.txt")
        run.download_file("kept/a.txt", "b.txt")
        print(open("b.txt").read())
        open("a.txt", "w").write("newer")
        run.upload_file("kept/a.txt", "a.txt")
        """
    )
    run.wait_for_completion()
    run.download_file("kept/a.txt")

    assert run.get_details_with_logs()["logFiles"]["user_logs/std_log.txt"] == "first\n"
    assert Path("a.txt").read_text() == "newer"


def test_all_logs_are_written_below_assets_or_a_folder(
    finished: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["system_logs/supervisor.log", "user_logs/std_log.txt"]

    assert finished.get_all_logs() == [f"assets/{finished.id}/{name}" for name in names]
    assert finished.get_all_logs("logs") == [f"logs/{name}" for name in names]
    assert (tmp_path / "logs" / names[1]).read_text() == "hello\n"


def test_of_a_huge_log_the_end_is_shown(finished: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(details, "MAX_LOG_BYTES", 4)

    log = finished.get_details_with_logs()["logFiles"]["user_logs/std_log.txt"]
    note, shown = log.split("\n", 1)
    assert note.startswith("[2 bytes before this are left out") and "'user_logs/std_log.txt'" in note
    assert shown == "llo\n"


def test_the_environment_is_what_the_run_used(finished: Run, experiment: Experiment) -> None:
    found = finished.get_environment()
    packages = dict(package.split("==") for package in found.python.conda_dependencies.pip_packages)

    assert (found.name, found.environment_variables) == ("mine", {"COLOR": "red"})
    assert found.python.user_managed_dependencies is True
    assert found.python.interpreter_path == sys.executable
    assert found.python.conda_dependencies.get_python_version() == platform.python_version()
    assert packages["pytest"] == pytest.__version__
    with experiment.start_logging(snapshot_directory=None, outputs=False) as interactive:
        with pytest.raises(UserErrorException, match="interactive"):
            interactive.get_environment()


def test_its_environment_can_be_submitted_again(finished: Run, submit: Callable[..., Run]) -> None:
    again = submit("import os; print(os.environ['COLOR'])", environment=finished.get_environment())

    assert again.wait_for_completion()["status"] == "Completed"


def test_a_run_shows_itself_as_text_and_as_a_table(finished: Run) -> None:
    finished.display_name, finished.description = "<b>nice</b>", "what it is"
    page = finished._repr_html_()

    assert repr(finished) == str(finished)
    assert repr(finished).splitlines() == [
        "Run(Experiment: surface,",
        f"Id: {finished.id},",
        "Type: azureml.scriptrun,",
        "Status: Completed)",
    ]
    assert page.startswith("<table") and finished.id in page and "Completed" in page
    assert re.search(rf'href="http://127\.0\.0\.1:\d+/[^"]*{finished.id}', page)
    assert finished.get_portal_url().startswith("http://127.0.0.1:")
    assert finished.get_detailed_status() == {"status": "Completed", "details": None}
    assert Run.get(finished.experiment.workspace, finished.id).description == "what it is"


def test_start_and_clean_change_nothing(finished: Run) -> None:
    finished.start()

    assert finished.clean() == [] and finished.get_status() == "Completed"


UNPICKLE = """
import pickle, sys
run = pickle.loads(bytes.fromhex(sys.argv[1]))
print(type(run).__name__, run.id, run.get_status())
"""


def test_a_pickled_run_is_the_same_run_elsewhere(finished: Run, tmp_path: Path) -> None:
    again = pickle.loads(pickle.dumps(finished))
    done = subprocess.run(
        [sys.executable, "-c", UNPICKLE, pickle.dumps(finished).hex()],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )

    assert type(again) is ScriptRun and again == finished and hash(again) == hash(finished)
    assert done.stdout == f"ScriptRun {finished.id} Completed\n"
    assert copy.copy(finished) is finished and copy.deepcopy({"run": finished})["run"] is finished


def test_inside_its_script_a_pickled_run_is_the_one_object_of_each_process(submit: Callable[..., Run]) -> None:
    run = submit(
        """
        import pickle, subprocess, sys
        from multiprocessing import get_context
        from azureml.core import Run

        def work(run):
            run.log("worker", 2)
            assert run is Run.get_context()

        if __name__ == "__main__":
            run = Run.get_context()
            assert pickle.loads(pickle.dumps(run)) is run
            worker = get_context("spawn").Process(target=work, args=(run,))
            worker.start()
            worker.join()
            assert worker.exitcode == 0
            run.log("main", 1)
        """
    )
    run.wait_for_completion()

    assert run.get_metrics() == {"worker": 2, "main": 1}


@pytest.fixture
def special_type() -> Iterator[type[Run]]:
    class Special(Run):
        RUN_TYPE = "azureml.scriptrun"

    Run.add_type_provider("azureml.scriptrun", Special._known)
    yield Special
    del Run._types["azureml.scriptrun"]


def test_runs_of_a_registered_type_are_made_by_its_factory(finished: Run, special_type: type[Run]) -> None:
    workspace = finished.experiment.workspace

    assert type(Run.get(workspace, finished.id)) is special_type
    assert {type(run) for run in Run.list(finished.experiment)} == {special_type}
    assert isinstance(Run.get(workspace, finished.id)._facts, records.Run)


def test_the_log_forms_of_json_take_dicts_and_text(experiment: Experiment) -> None:
    values: dict[str, dict[str, Any]] = {
        "log_confusion_matrix": {"schema_type": "confusion_matrix", "data": {"matrix": [[1, 0], [0, 1]]}},
        "log_accuracy_table": {"schema_type": "accuracy_table", "data": {"class_labels": ["a"]}},
        "log_residuals": {"schema_type": "residuals", "data": {"bin_edges": [0.5]}},
        "log_predictions": {"schema_type": "predictions", "data": {"bin_counts": [1]}},
    }
    with experiment.start_logging(snapshot_directory=None, outputs=False) as run:
        for form, value in values.items():
            getattr(run, form)(f"{form} dict", value)
            getattr(run, form)(f"{form} text", json.dumps(value), "described")
    found, addresses = run.get_metrics(populate=True), run.get_metrics()

    for form, value in values.items():
        assert found[f"{form} dict"] == found[f"{form} text"] == value
        assert addresses[f"{form} dict"] == f"aml://artifactId/ExperimentRun/dcid.{run.id}/{form} dict"
