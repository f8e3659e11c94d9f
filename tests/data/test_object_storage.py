"""Datastores on S3 and Azure Blob, against real servers of those protocols."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest

from azureml.core import Dataset, Datastore, Experiment, ScriptRunConfig, Workspace
from runyard.core.config.paths import database_file
from runyard.core.config.settings import read_settings
from runyard.core.errors import NotFound
from runyard.data.azure_container import create_container
from runyard.data.base import Storage
from runyard.data.object_storage import ObjectStorage
from runyard.sdk.exceptions import AzureMLException, UserErrorException
from tests.data.object_servers import ACCOUNT, KEY, azure_server, s3_server

pytestmark = [pytest.mark.external, pytest.mark.timeout(300)]
S3_KEYS = {"access_key_id": "someone", "secret_access_key": "canary-s3-key"}


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server() as url:
        import urllib.request

        urllib.request.urlopen(urllib.request.Request(f"{url}/bucket", method="PUT")).close()
        yield url


@pytest.fixture(scope="module")
def azure() -> Iterator[str]:
    with azure_server() as url:
        create_container(url, ACCOUNT, "container", account_key=KEY)
        create_container(url, ACCOUNT, "container", account_key=KEY)  # twice is fine
        yield url


@pytest.fixture(params=["s3", "azure"])
def document(request: pytest.FixtureRequest) -> dict[str, object]:
    url = request.getfixturevalue(request.param)
    if request.param == "s3":
        options = {"region": "us-east-1", "endpoint": url}
        return {"type": "s3", "bucket": "bucket", "options": options, "secret": "keys"}
    options = {"account_name": ACCOUNT, "endpoint": url}
    return {"type": "azure", "bucket": "container", "options": options, "secret": "keys"}


@pytest.fixture
def storage(document: dict[str, object]) -> Storage:
    return opened(document)


def opened(document: dict[str, object], **changes: object) -> ObjectStorage:
    keys = S3_KEYS if document["type"] == "s3" else {"account_key": KEY}
    return ObjectStorage({**document, **changes}, lambda name: json.dumps(keys))


def test_files_go_there_and_come_back_whole(storage: Storage, tmp_path: Path) -> None:
    content = os.urandom(20 << 20)  # three parts
    (tmp_path / "big").write_bytes(content)
    (tmp_path / "empty").touch()
    name = tmp_path.name
    sent: list[int] = []
    came: list[int] = []
    storage.put_file(str(tmp_path / "big"), f"{name}/a/big é.bin", sent.append)
    storage.put_file(str(tmp_path / "empty"), f"{name}/a/empty")
    storage.put_file(str(tmp_path / "empty"), f"{name}/ab")
    storage.fetch_file(f"{name}/a/big é.bin", str(tmp_path / "back"), came.append)

    assert (tmp_path / "back").read_bytes() == content
    assert (sum(sent), sum(came)) == (len(content), len(content)) and min(len(sent), len(came)) >= 3
    assert [tuple(file) for file in storage.iter_files(f"{name}/a")] == [
        (f"{name}/a/big é.bin", len(content)),
        (f"{name}/a/empty", 0),
    ]
    assert [file.name for file in storage.iter_files(f"{name}/ab")] == [f"{name}/ab"]
    assert storage.find_file(f"{name}/none") is None
    assert list(storage.iter_files(f"{name}/none")) == []
    with pytest.raises(NotFound, match="holds no object"):
        storage.fetch_file(f"{name}/none", str(tmp_path / "x"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back", "big", "empty"]


def test_an_upload_that_breaks_off_leaves_nothing_visible(document: dict[str, object], tmp_path: Path) -> None:
    storage = opened(document)

    def torn() -> Iterator[bytes]:
        yield b"x" * (9 << 20)
        raise RuntimeError("the process died")

    with pytest.raises(Exception, match="the process died"):
        obstore.put(storage._store, f"{tmp_path.name}/torn", torn(), chunk_size=5 << 20)
    assert storage.find_file(f"{tmp_path.name}/torn") is None


@pytest.mark.parametrize("document", ["azure"], indirect=True)  # moto takes any key
def test_wrong_keys_are_told_in_words(document: dict[str, object]) -> None:
    wrong = ObjectStorage(document, lambda name: json.dumps({"account_key": "d3Jvbmc="}))

    with pytest.raises(Exception, match="could not be used") as caught:
        wrong.find_file("a")
    assert "register it again" in str(caught.value)


SCRIPT = """
import os, sys
from azureml.core import Run
data, out = sys.argv[1:]
names = sorted(os.listdir(data))
Run.get_context().log("files", len(names))
open(os.path.join(out, "names.txt"), "w").write(" ".join(names))
"""


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.chdir(tmp_path)
    return Workspace.from_config()


@pytest.fixture(params=["s3", "azure"])
def datastore(request: pytest.FixtureRequest, workspace: Workspace) -> Datastore:
    url = request.getfixturevalue(request.param)
    if request.param == "s3":
        return Datastore.register_s3_bucket(workspace, "my_s3", "bucket", endpoint=url, overwrite=True, **S3_KEYS)
    return Datastore.register_azure_blob_container(
        workspace, "my_blob", "container", ACCOUNT, account_key=KEY, endpoint=url, overwrite=True
    )


def test_runs_read_and_write_it_and_its_keys_are_nowhere(
    datastore: Datastore, workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/train.py").write_text(SCRIPT)
    (tmp_path / "data").mkdir()
    for number in range(30):
        (tmp_path / "data" / f"{number:02}.txt").write_text(str(number))
    place = tmp_path.name
    datastore.upload(str(tmp_path / "data"), place, show_progress=False)
    dataset = Dataset.File.from_files((datastore, f"{place}/*.txt"))
    out = datastore.path(f"{place}-out").as_upload()
    config = ScriptRunConfig(str(tmp_path / "project"), "train.py", [dataset.as_mount(), out])
    run = Experiment(workspace, "objects").submit(config)
    run.wait_for_completion()

    assert run.get_metrics() == {"files": 30}
    assert datastore.download(str(tmp_path / "got"), f"{place}-out", show_progress=False) == 1
    names = " ".join(f"{number:02}.txt" for number in range(30))
    assert (tmp_path / "got" / f"{place}-out" / "names.txt").read_text() == names
    assert any("reads a copy" in warning["message"] for warning in run.get_details()["warnings"])
    home = read_settings().home
    stored = database_file(home).read_bytes() + Path(f"{database_file(home)}-wal").read_bytes()
    for secret in (KEY, S3_KEYS["secret_access_key"]):
        assert secret.encode() not in stored
        assert secret not in json.dumps(run.get_details_with_logs(), default=str)


def test_a_datastore_that_does_not_answer_is_not_registered(workspace: Workspace) -> None:
    with pytest.raises(AzureMLException, match="could not be used"):
        Datastore.register_s3_bucket(workspace, "nowhere", "bucket", endpoint="http://127.0.0.1:9", **S3_KEYS)
    assert "nowhere" not in workspace.datastores
    with pytest.raises(UserErrorException, match="go together"):
        Datastore.register_s3_bucket(workspace, "half", "bucket", access_key_id="only")
