"""The run inside a run: one object, one write per number, and no server unless it is asked for."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from runyard.core.formats import journal

SOURCE = Path(__file__).parent.parent.parent / "src"


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    (tmp_path / "run" / "journal").mkdir(parents=True)
    return tmp_path / "run"


def inside(run_folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run `code` as a rank of the run whose folder this is; there is no server."""
    environ = {
        **os.environ,
        "PYTHONPATH": str(SOURCE),
        "RUNYARD_RUN_FOLDER": str(run_folder),
        "RUNYARD_RUN_ID": "e_1_a",
    }
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=environ, capture_output=True, text=True, check=False
    )


def records(run_folder: Path) -> list[journal.LongRecord | journal.Span]:
    return [
        part for path in sorted(run_folder.glob("journal/*.journal")) for part in journal.iter_parts(path.read_bytes())
    ]


def test_there_is_one_object_for_the_process_and_its_log_is_the_writers_own(run_folder: Path) -> None:
    done = inside(
        run_folder,
        """
        import threading
        from azureml.core import Run
        run = Run.get_context()
        seen = []
        thread = threading.Thread(target=lambda: seen.append(Run.get_context()))
        thread.start(); thread.join()
        assert run is Run.get_context() is seen[0] is Run.get_context(allow_offline=False) is Run.get_submitted_run()
        assert run.log is run._writer.log
        assert isinstance(run, Run)
        print(run.id)
        """,
    )

    assert done.stdout == "e_1_a\n", done.stderr


def test_every_form_is_a_record_and_needs_no_server(run_folder: Path) -> None:
    done = inside(
        run_folder,
        """
        import sys
        from azureml.core import Run
        run = Run.get_context()
        run.log("loss", 0.5)
        run.log("loss", 1, step=3)
        run.log("text", "x")
        run.log_list("list", [1, 2])
        run.log_row("row", "described", a=1)
        run.log_table("table", {"a": [1, 2]})
        run.log_confusion_matrix("matrix", {"a": 1})
        run.tag("k", "v")
        run.remove_tags(["k"])
        run.add_properties({"p": "q"})
        run.upload_file("file.txt", __import__("io").BytesIO(b"content"))
        assert not {"socket", "runyard.client.transport"} & set(sys.modules)
        """,
    )
    found = records(run_folder)
    longs = [part for part in found if isinstance(part, journal.LongRecord)]
    kinds = {part.kind: part.payload for part in longs}

    assert done.returncode == 0, done.stderr
    assert sum(part.end - part.offset for part in found if isinstance(part, journal.Span)) == 4 * journal.CELL
    assert kinds[journal.VALUES]["values"] == ["x"]
    assert kinds[journal.ROW]["columns"] == {"a": 1}
    assert kinds[journal.TABLE]["columns"] == {"a": [1, 2]}
    assert (kinds[journal.ARTIFACT]["name"], kinds[journal.ARTIFACT]["file"]) == ("matrix", "matrix")
    assert kinds[journal.PROPERTIES] == {"add": {"p": "q"}}
    assert [part.payload["name"] for part in longs if part.kind == journal.FILE] == ["matrix", "file.txt"]
    assert [part.payload for part in longs if part.kind == journal.TAGS] == [
        {"set": {"k": "v"}, "remove": []},
        {"set": {}, "remove": ["k"]},
    ]


def test_wrong_values_raise_azures_exceptions(run_folder: Path) -> None:
    done = inside(
        run_folder,
        """
        from azureml.core import Run
        from azureml.exceptions import AzureMLException, UserErrorException
        run = Run.get_context()
        def caught(kind, call):
            try:
                call()
            except kind:
                return True
        assert caught(UserErrorException, lambda: run.log("m", [1]))
        assert caught(ValueError, lambda: run.log("m", [1]))
        assert caught(AzureMLException, lambda: run.log_list("m", [object()]))
        assert caught(AzureMLException, lambda: run.log_row("m", a=[1]))
        assert caught(AzureMLException, lambda: run.log_table("m", {"a": [1], "b": []}))
        assert caught(AzureMLException, lambda: run.log_image("m"))
        """,
    )

    assert done.returncode == 0, done.stderr


def test_a_forked_child_logs_into_a_journal_of_its_own(run_folder: Path) -> None:
    done = inside(
        run_folder,
        """
        import os
        from azureml.core import Run
        run = Run.get_context()
        run.log("n", 1)
        if os.fork() == 0:
            assert Run.get_context() is run
            run.log("n", 2)
            os._exit(0)
        assert os.wait()[1] == 0
        """,
    )

    assert done.returncode == 0, done.stderr
    assert len(list(run_folder.glob("journal/*.journal"))) == 2


def test_without_job_json_the_server_cannot_be_asked_but_logging_goes_on(run_folder: Path) -> None:
    done = inside(
        run_folder,
        """
        from azureml.core import Run
        run = Run.get_context()
        try:
            run.experiment
        except Exception as error:
            print(type(error).__name__, "job.json" in str(error))
        run.log("n", 1)
        try:
            run.nothing
        except AttributeError as error:
            print(error)
        """,
    )

    assert done.stdout == "ServiceException True\n'SubmittedRun' object has no attribute 'nothing'\n", done.stderr
