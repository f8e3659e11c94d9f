"""`take_snapshot` and `restore_snapshot`: a folder stored with a run, and back as a zip."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from runyard.core.errors import NotFound, StoreUnavailable
from runyard.sdk.exceptions import SnapshotException, UserErrorException
from runyard.sdk.runs.run import Run
from runyard.sdk.runs.snapshot_archive import write_zip
from runyard.sdk.workspaces.experiment import Experiment
from runyard.sdk.workspaces.workspace import Workspace
from runyard.snapshots.take import take_snapshot
from runyard.testing.artifact_store import LocalContent


@pytest.fixture
def bare(experiment: Experiment) -> Run:
    """An interactive run without a snapshot, ended."""
    run = experiment.start_logging(snapshot_directory=None, outputs=False)
    run.complete()
    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    (made / "pkg").mkdir(parents=True)
    (made / "void").mkdir(mode=0o750)
    (made / "pkg" / "code.py").write_text("x = 1\n")
    (made / "run.sh").write_text("#!/bin/sh\n")
    (made / "run.sh").chmod(0o755)
    (made / "zeros.bin").write_bytes(bytes((4 << 20) + 3))
    (made / "link").symlink_to("pkg/code.py")
    return made


def test_a_folder_is_stored_with_a_run_and_comes_back_as_a_zip(bare: Run, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserErrorException, match="has no snapshot"):
        bare.restore_snapshot()
    taken = bare.take_snapshot(str(folder))
    path = bare.restore_snapshot(path=str(tmp_path / "new" / "place"))

    assert taken == bare.get_snapshot_id() == bare.properties["ContentSnapshotId"]
    assert path == str(tmp_path / "new" / "place" / f"{taken}.zip")
    subprocess.run([sys.executable, "-m", "zipfile", "-e", path, str(tmp_path / "out")], check=True)
    assert (tmp_path / "out" / "pkg" / "code.py").read_text() == "x = 1\n"
    assert (tmp_path / "out" / "zeros.bin").read_bytes() == bytes((4 << 20) + 3)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert [info.filename for info in archive.infolist()] == [
            "run.sh",
            "zeros.bin",
            "link",
            "pkg/",
            "pkg/code.py",
            "void/",
        ]
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
        assert stat.S_IMODE(modes["run.sh"]) == 0o755 and stat.S_ISREG(modes["run.sh"])
        assert stat.S_IMODE(modes["void/"]) == 0o750 and stat.S_ISDIR(modes["void/"])
        assert stat.S_ISLNK(modes["link"]) and archive.read("link") == b"pkg/code.py"


def test_a_run_keeps_its_first_snapshot(bare: Run, folder: Path, experiment: Experiment) -> None:
    other_handle = Run(experiment, bare.id)
    bare.take_snapshot(str(folder))
    (folder / "run.sh").write_text("other")

    for run in (bare, other_handle):
        with pytest.raises(SnapshotException, match="has a snapshot already"):
            run.take_snapshot(str(folder))
    assert other_handle.get_snapshot_id() == bare.get_snapshot_id()


def test_one_file_can_be_the_snapshot(bare: Run, folder: Path, tmp_path: Path) -> None:
    bare.take_snapshot(str(folder / "run.sh"))

    with zipfile.ZipFile(bare.restore_snapshot()) as archive:
        assert {info.filename: archive.read(info) for info in archive.infolist()} == {"run.sh": b"#!/bin/sh\n"}
    with pytest.raises(SnapshotException):
        bare.take_snapshot(str(tmp_path / "nothing"))


def test_the_source_of_a_submitted_run_is_restored_inside_and_outside(
    submit: Callable[..., Run], workspace: Workspace, tmp_path: Path
) -> None:
    script = """
    import zipfile
    from azureml.core import Run
    from azureml.exceptions import SnapshotException
    run = Run.get_context()
    print(zipfile.ZipFile(run.restore_snapshot(path="here")).namelist())
    try:
        run.take_snapshot(".")
    except SnapshotException as error:
        print("has a snapshot already" in error.message)
    """
    run = submit(script)
    run.wait_for_completion()
    first = run.restore_snapshot(path=str(tmp_path / "a"))
    second = run.restore_snapshot(run.get_snapshot_id(), str(tmp_path / "b"))

    assert run.get_details_with_logs()["logFiles"]["user_logs/std_log.txt"] == "['train.py']\nTrue\n"
    assert Path(first).read_bytes() == Path(second).read_bytes()
    with pytest.raises(UserErrorException) as caught:
        run.restore_snapshot("00000000-0000-0000-0000-000000000000")
    assert isinstance(caught.value, NotFound)
    with pytest.raises(UserErrorException, match="not a valid snapshot id"):
        run.restore_snapshot("../runs")
    with pytest.raises(SnapshotException):
        run.take_snapshot(str(tmp_path))


def test_names_that_are_no_utf_8_are_written_out(tmp_path: Path) -> None:
    source, content = tmp_path / "source", LocalContent()
    source.mkdir()
    (source / os.fsdecode(b"caf\xe9")).write_text("x")
    (source / "größe").write_text("y")
    root = take_snapshot(source, content, home=tmp_path / "home").root
    write_zip(root, content, tmp_path / "out.zip")

    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        assert set(archive.namelist()) == {"caf\\xe9", "größe"}


def test_a_disk_that_refuses_leaves_nothing_behind(tmp_path: Path) -> None:
    source, content = tmp_path / "source", LocalContent()
    source.mkdir()
    (source / "a").write_text("x")
    root = take_snapshot(source, content, home=tmp_path / "home").root
    (tmp_path / "target.zip").mkdir()

    with pytest.raises(StoreUnavailable, match=r"target\.zip"):
        write_zip(root, content, tmp_path / "target.zip")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "source", "target.zip"]


def test_the_same_snapshot_is_the_same_zip_whenever_it_is_made(tmp_path: Path) -> None:
    source, content = tmp_path / "source", LocalContent()
    source.mkdir()
    (source / "a").write_text("x")
    root = take_snapshot(source, content, home=tmp_path / "home").root
    made = []
    for name in ("one", "two"):
        write_zip(root, content, tmp_path / name)
        made.append((tmp_path / name).read_bytes())

    assert made[0] == made[1]
    assert zipfile.ZipFile(io.BytesIO(made[0])).infolist()[0].date_time == (1980, 1, 1, 0, 0, 0)
