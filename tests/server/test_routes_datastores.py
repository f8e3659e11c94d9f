"""The built-in datastores through the server: whole files, by clean names, and nothing beside them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runyard.client.calls.workspace import DatastoreFiles
from runyard.core.config.paths import datastores_folder, token_file
from runyard.core.errors import InvalidArgument, NotAllowed, NotFound
from runyard.core.specs import DataReferenceSpec
from runyard.data.datastores import ServedStorage
from runyard.data.references import Node, bring, deliver
from tests.server.conftest import Served

NAME = "workspaceblobstore"


@pytest.fixture
def files(served: Served) -> DatastoreFiles:
    return DatastoreFiles(served.client, "default", NAME)


def test_files_go_there_and_come_back(files: DatastoreFiles, tmp_path: Path) -> None:
    content = os.urandom(5 << 20)
    (tmp_path / "a").write_bytes(content)
    (tmp_path / "empty").touch()
    files.put(str(tmp_path / "a"), "data/train/ä b.bin")
    files.put(str(tmp_path / "empty"), "data/empty")
    files.fetch("data/train/ä b.bin", str(tmp_path / "new/back"))
    files.fetch("data/empty", str(tmp_path / "nothing"))

    assert files.list("") == [("data/empty", 0), ("data/train/ä b.bin", len(content))]
    assert files.list("data/empty") == [("data/empty", 0)]
    assert files.list("none") == []
    assert (tmp_path / "new/back").read_bytes() == content
    assert (tmp_path / "nothing").read_bytes() == b""
    with pytest.raises(NotFound, match="no file `none`"):
        files.fetch("none", str(tmp_path / "x"))
    assert not (tmp_path / "x").exists()


def test_a_runs_references_are_brought_and_delivered_through_it(files: DatastoreFiles, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("in")
    files.put(str(tmp_path / "a"), "in/a.txt")
    warnings: list[str] = []
    node = Node(str(tmp_path / "work"), str(tmp_path / "side"), lambda text: None, warnings.append)
    storage = ServedStorage(files)
    place = bring("inputs", DataReferenceSpec(NAME, "in"), storage, node)
    out = DataReferenceSpec(NAME, "out", mode="upload")
    written = bring("outputs", out, storage, node)
    Path(written, "result.txt").write_text("out")
    deliver("outputs", out, storage, node)

    assert Path(place, "a.txt").read_text() == "in"
    assert files.list("out") == [("out/result.txt", 3)]
    assert [text for text in warnings if "works on a copy" in text] == warnings


@pytest.mark.parametrize("name", ["../x", "a/../../x", "a\0b"])
def test_a_name_never_leaves_the_datastore(files: DatastoreFiles, tmp_path: Path, name: str) -> None:
    (tmp_path / "a").write_text("x")
    with pytest.raises((InvalidArgument, NotFound)):
        files.put(str(tmp_path / "a"), name)
    with pytest.raises((InvalidArgument, NotFound)):
        files.fetch(name, str(tmp_path / "y"))


def test_a_link_that_leads_out_is_not_followed(served: Served, files: DatastoreFiles, tmp_path: Path) -> None:
    home = served.services.settings.home
    folder = datastores_folder(home, "default") / NAME
    folder.mkdir(parents=True)
    (tmp_path / "canary").write_text("canary")
    (folder / "out").symlink_to(tmp_path / "canary")
    (folder / "token").symlink_to(token_file(home))
    (folder / "up").symlink_to(tmp_path)
    (folder / "fine").write_text("fine")
    (folder / "in").symlink_to(folder / "fine")

    for name in ("out", "token", "up/canary"):
        with pytest.raises(NotFound):
            files.fetch(name, str(tmp_path / "got"))
    assert [name for name, _ in files.list("")] == ["fine", "in"]
    files.fetch("in", str(tmp_path / "got"))
    assert (tmp_path / "got").read_text() == "fine"


def test_a_registered_folder_is_not_given_out(served: Served, tmp_path: Path) -> None:
    served.client.assets.put("default", "datastore", "etc", {"type": "folder", "path": "/etc"})
    mine = DatastoreFiles(served.client, "default", "etc")

    with pytest.raises(NotAllowed, match="not given out"):
        mine.list("")
    with pytest.raises(NotAllowed, match="not given out"):
        mine.fetch("hostname", str(tmp_path / "x"))
