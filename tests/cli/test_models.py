"""`runyard models` and `runyard datasets`: list, show, download, delete."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from azureml.core import Dataset, Model, Workspace
from tests.cli.command_line import runyard

pytestmark = pytest.mark.usefixtures("shared_home")


@pytest.mark.long
def test_models_and_datasets_are_listed_shown_downloaded_and_deleted(tmp_path: Path) -> None:
    assert "There is none" in runyard("models", "list").stderr
    workspace = Workspace.from_config()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "m.pkl").write_bytes(b"weights")
    dataset = Dataset.File.upload_directory(str(tmp_path / "in"), (workspace.get_default_datastore(), "d"))
    registered = dataset.register(workspace, "rows", tags={"by": "me"})
    for number in range(2):
        Model.register(workspace, str(tmp_path / "in"), "net", tags={"n": number}, datasets=[("training", registered)])

    assert re.search(r"^net +2 +Custom .* n=1$", runyard("models", "list").stdout, re.MULTILINE)
    assert [one["version"] for one in json.loads(runyard("models", "list", "net", "--json").stdout)] == [2, 1]
    assert [one["id"] for one in json.loads(runyard("models", "list", "--tag", "n=0", "--json").stdout)] == ["net:1"]
    shown = json.loads(runyard("models", "show", "net:1", "--json").stdout)
    assert (shown["tags"], [(file["name"], file["size"]) for file in shown["files"]]) == (
        {"n": "0"},
        [("in/m.pkl", 7)],
    )
    text = runyard("models", "show", "net").stdout
    assert re.search(r"^model +net:2$", text, re.MULTILINE) and f"training: {registered.id}" in text
    [got] = runyard("models", "download", "net", "--to", str(tmp_path / "out")).stdout.splitlines()
    assert (Path(got) / "m.pkl").read_bytes() == b"weights"
    assert "there already" in runyard("models", "download", "net", "--to", str(tmp_path / "out")).stderr
    assert runyard("models", "delete", "net:1", "--yes").stdout == "net:1\n"
    missing = runyard("models", "show", "net:1")
    assert missing.returncode != 0 and "ModelNotFound" in missing.stderr
    assert re.search(r"^rows +1 +file .* by=me$", runyard("datasets", "list").stdout, re.MULTILINE)
    seen = json.loads(runyard("datasets", "show", "rows", "--json").stdout)
    assert (seen["id"], seen["files"], seen["bytes"], len(seen["fingerprint"])) == (registered.id, 1, 7, 64)
    assert re.search(r"^size +7 bytes in 1 files$", runyard("datasets", "show", "rows").stdout, re.MULTILINE)
