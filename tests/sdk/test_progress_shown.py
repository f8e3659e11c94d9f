"""Everything that moves bytes counts them: what a user sees when it takes longer than a second."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from azureml.core import Dataset, Model
from runyard.core.machine.progress import Progress
from runyard.sdk.runs.run import Run
from runyard.sdk.workspaces.workspace import Workspace

FULL = "#" * 20


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What each progress would say at the end of its work, without its rate."""
    said: list[str] = []

    def keep(name: str) -> None:
        own = getattr(Progress, name)

        def noted(self: Progress, *arguments: Any) -> None:
            said.append(re.sub(r", [\d.]+ \w+/s", "", self.text()))
            own(self, *arguments)

        monkeypatch.setattr(Progress, name, noted)

    keep("__exit__")
    keep("begin")
    return said


def test_a_submit_and_its_files(submit: Callable[..., Run], shown: list[str], tmp_path: Path) -> None:
    script = "open('outputs/a.bin', 'wb').write(b'x' * 1500)"
    run = submit(script, files={"data.txt": "y" * 2000})
    run.wait_for_completion()
    submitted, shown[:] = list(shown), []
    run.download_files("outputs", str(tmp_path / "there"))
    downloaded, shown[:] = list(shown), []
    (tmp_path / "b.bin").write_bytes(b"z" * 2500)
    run.upload_file("outputs/b.bin", str(tmp_path / "b.bin"))

    assert "runyard: storing the source folder 2.0 kB: train.py" in submitted  # small: no walk before it for a total
    assert downloaded == [f"runyard: downloading [{FULL}] 1.5 kB of 1.5 kB: outputs/a.bin"]
    assert shown == [f"runyard: uploading [{FULL}] 2.5 kB of 2.5 kB: outputs/b.bin"]


def test_files_of_datastores_datasets_and_models(workspace: Workspace, shown: list[str], tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in "ab":
        (tmp_path / f"in/{name}.bin").write_bytes(name.encode() * 1000)
    store = workspace.get_default_datastore()
    store.upload(str(tmp_path / "in"), target_path="progress", overwrite=True)
    uploaded, shown[:] = list(shown), []
    store.download(str(tmp_path / "out"), prefix="progress")
    Dataset.File.from_files((store, "progress")).download(str(tmp_path / "set"))
    downloaded, shown[:] = list(shown), []
    model = Model.register(workspace, str(tmp_path / "in"), "progress")
    model.download(str(tmp_path / "model"))

    assert [text.partition(" [")[2] for text in uploaded] == [f"{FULL}] 2.0 kB of 2.0 kB"]
    assert [text.partition(" [")[2] for text in downloaded] == [f"{FULL}] 2.0 kB of 2.0 kB"] * 2
    assert shown[0].startswith("runyard: uploading the model [")
    assert all(f"[{FULL}] 2.0 kB of 2.0 kB" in text for text in shown)
