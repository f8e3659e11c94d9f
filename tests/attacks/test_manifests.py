"""A31 to A34: what a program or a project names is never fetched from outside its folder; keys stay at home."""

from __future__ import annotations

import secrets
import textwrap
from pathlib import Path

import pytest

from azureml.core import Experiment, Run, ScriptRunConfig, Workspace
from azureml.exceptions import AzureMLException


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    path = tmp_path / "canary"
    path.write_text(f"canary{secrets.token_hex(32)}")
    return path


def run_script(project: Path, script: str, *arguments: str) -> Run:
    (project / "train.py").write_text(textwrap.dedent(script))
    source = ScriptRunConfig(source_directory=str(project), script="train.py", arguments=list(arguments))
    run = Experiment(Workspace.from_config(), "manifests").submit(source)
    run.wait_for_completion(raise_on_error=False)
    return run


def holding(run: Run, text: str, folder: Path) -> list[str]:
    """Return the run's files that hold the text."""
    found = []
    for number, name in enumerate(run.get_file_names()):
        run.download_file(name, str(folder / f"copy-{number}"))
        if text in (folder / f"copy-{number}").read_text(errors="replace"):
            found.append(name)
    return found


def test_a31_a_record_that_names_a_file_outside_is_not_uploaded(project: Path, canary: Path, tmp_path: Path) -> None:
    """Programs write FILE records: each spelling of the canary's path, and an honest file as the control."""
    run = run_script(
        project,
        """
        import os, sys
        from runyard.core.formats import journal
        from runyard.runtime.context import find_context
        from azureml.core import Run
        run = Run.get_context()
        folder = os.environ["RUNYARD_RUN_FOLDER"]
        os.makedirs(os.path.join(folder, "uploads"), exist_ok=True)
        os.symlink(sys.argv[1], os.path.join(folder, "uploads", "link"))
        os.symlink(os.path.dirname(sys.argv[1]), os.path.join(folder, "uploads", "folder"))
        open(os.path.join(folder, "uploads", "honest"), "w").write("honest")
        from runyard.runtime.writer import get_writer
        context = find_context()
        writer = get_writer(context.run_folder, context.run_id, attempt=context.attempt, rank=context.rank)
        up = os.path.relpath(sys.argv[1], folder)
        paths = [sys.argv[1], up, "uploads/link", "uploads/folder/canary", "uploads/../" + up,
                 "/proc/self/root" + sys.argv[1], "uploads/honest"]
        for number, path in enumerate(paths):
            writer.append(journal.FILE, {"name": f"given/{number}", "path": path, "size": 1})
        """,
        str(canary),
    )

    assert run.get_status() == "Completed", run.get_details_with_logs()
    assert holding(run, canary.read_text(), tmp_path) == []
    assert "given/6" in run.get_file_names()


def test_a31_links_among_the_outputs_are_not_followed(project: Path, canary: Path, tmp_path: Path) -> None:
    run = run_script(
        project,
        """
        import os, sys
        os.symlink(sys.argv[1], "outputs/link")
        os.symlink(os.path.dirname(sys.argv[1]), "outputs/folder")
        os.symlink(sys.argv[1], "logs/link")
        open("outputs/honest", "w").write(open(sys.argv[1]).read()[:6])
        """,
        str(canary),
    )

    assert run.get_status() == "Completed"
    assert holding(run, canary.read_text(), tmp_path) == []
    assert holding(run, canary.read_text()[:6], tmp_path) == ["outputs/honest"]


@pytest.mark.parametrize("script", ["../outside.py", "sub/../../outside.py", "{absolute}", "link.py"])
def test_a33_a_script_outside_the_project_is_refused(project: Path, tmp_path: Path, script: str) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text("print('outside')")
    (project / "sub").mkdir()
    (project / "link.py").symlink_to(outside)
    name = script.format(absolute=outside)

    with pytest.raises(AzureMLException):
        source = ScriptRunConfig(source_directory=str(project), script=name)
        Experiment(Workspace.from_config(), "manifests").submit(source)

    (project / "link.py").unlink()
    (project / "inside.py").write_text("print('inside')")
    source = ScriptRunConfig(source_directory=str(project), script="inside.py")
    run = Experiment(Workspace.from_config(), "manifests").submit(source)
    assert run.wait_for_completion()["status"] == "Completed"


SECRET_NAMES = [
    ".env",
    "id_rsa",
    "server.pem",
    "private.key",
    ".netrc",
    "credentials.json",
    ".aws/config",
    ".ssh/id_ed25519",
]


@pytest.mark.parametrize("kept", [False, True], ids=["left out", "taken back in"])
def test_a34_files_that_look_like_secrets_stay_at_home(
    project: Path, capsys: pytest.CaptureFixture[str], kept: bool
) -> None:
    """The control: an ignore file that takes them back in by name does send them."""
    for name in SECRET_NAMES:
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("key")
    if kept:
        (project / ".amlignore").write_text("".join(f"!{name}\n" for name in [*SECRET_NAMES, ".aws", ".ssh"]))
    run = run_script(
        project,
        f"""
        import os
        from azureml.core import Run
        Run.get_context().log("found", sum(os.path.exists(name) for name in {SECRET_NAMES!r}))
        """,
    )
    said = capsys.readouterr()

    assert run.get_metrics() == {"found": len(SECRET_NAMES) if kept else 0}
    assert ("looks like a secret" in said.err + said.out) != kept
