"""Packs that are damaged, cut or gone: who asks for what was in them hears what is wrong and with which file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from runyard.client.calls.workspace import ModelCalls
from runyard.core.config.paths import artifact_folder
from runyard.core.errors import DamagedContent, SubmitRejected
from runyard.core.formats.tree import FileEntry, encode_tree, tree_id
from runyard.core.records import ModelSpec, RunFile
from runyard.core.statuses import RunStatus
from runyard.engine.runs.reports import StateReport
from tests.server.conftest import Served

CHUNK = 4 << 20


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


FAULTS: dict[str, Callable[[Path], object]] = {
    "a bit flipped": flip,
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "emptied": lambda path: os.truncate(path, 0),
    "removed": Path.unlink,
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
}


def packs(served: Served) -> list[Path]:
    folder = artifact_folder(served.services.settings.home)
    return sorted(
        (path for path in folder.rglob("packs/**/*") if path.is_file()), key=lambda path: path.stat().st_mtime_ns
    )


def put(served: Served, name: str, *chunks: bytes) -> RunFile:
    """Store a file with each chunk in a pack of its own."""
    ids = [hashlib.sha256(chunk).hexdigest() for chunk in chunks]
    for chunk_id, chunk in zip(ids, chunks):
        served.client.content.put([(chunk_id, chunk)])
    whole = b"".join(chunks)
    file = RunFile(name=name, size=len(whole), sha256=hashlib.sha256(whole).hexdigest(), chunks=ids)
    return served.client.runs.put_file("exp_1", file)


def new_pack(served: Served, write: Callable[[], object]) -> Path:
    before = set(packs(served))
    write()
    [path] = set(packs(served)) - before
    return path


def warnings(served: Served) -> list[str]:
    return [str(warning["message"]) for warning in served.client.runs.get("exp_1").warnings]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_download_says_that_the_stored_content_is_damaged_and_of_which_file(
    served: Served, tmp_path: Path, fault: str
) -> None:
    served.submit()
    FAULTS[fault](new_pack(served, lambda: put(served, "outputs/model.pkl", os.urandom(3000))))
    put(served, "outputs/good", b"good")

    for read in (
        lambda: served.client.runs.download("exp_1", "outputs/model.pkl", tmp_path / "m"),
        lambda: served.client.runs.read_file("exp_1", "outputs/model.pkl", 10, 5),
    ):
        with pytest.raises(DamagedContent, match=r"`outputs/model.pkl` is (damaged|missing) on the server"):
            read()
    served.client.runs.download("exp_1", "outputs/good", tmp_path / "good")

    assert (tmp_path / "good").read_bytes() == b"good" and not (tmp_path / "m").exists()
    [warning] = warnings(served)  # once, however often it is asked for
    assert "`outputs/model.pkl`" in warning


def test_a_file_that_is_damaged_behind_its_first_chunk_is_named_as_well(served: Served, tmp_path: Path) -> None:
    served.submit()
    file = new_pack(served, lambda: put(served, "outputs/first", os.urandom(100)))
    assert file.exists()
    second = os.urandom(5000)
    damaged = new_pack(served, lambda: served.client.content.put([(hashlib.sha256(second).hexdigest(), second)]))
    put(served, "outputs/long", os.urandom(CHUNK), second)
    flip(damaged)

    with pytest.raises(DamagedContent, match="`outputs/long` is damaged"):
        served.client.runs.download("exp_1", "outputs/long", tmp_path / "m")
    with pytest.raises(DamagedContent, match="`outputs/long` is damaged"):
        served.client.runs.read_file("exp_1", "outputs/long", CHUNK)
    assert not (tmp_path / "m").exists()
    [warning] = warnings(served)
    assert "`outputs/long`" in warning


@pytest.mark.parametrize("fault", FAULTS)
def test_one_damaged_file_of_many_keeps_none_of_the_others_back(served: Served, tmp_path: Path, fault: str) -> None:
    served.submit()
    for at in range(5):
        put(served, f"outputs/{at}", b"file %d" % at)
    FAULTS[fault](new_pack(served, lambda: put(served, "outputs/bad", os.urandom(500))))
    listed = served.client.runs.files("exp_1")

    with pytest.raises(DamagedContent, match="`outputs/bad`"):
        served.client.runs.download_many("exp_1", [(file, str(tmp_path / file.name)) for file in listed])
    assert sorted(path.name for path in (tmp_path / "outputs").iterdir()) == ["0", "1", "2", "3", "4"]
    assert len(warnings(served)) == 1


def snapshot(served: Served, data: bytes) -> str:
    chunk = hashlib.sha256(data).hexdigest()
    tree = encode_tree([FileEntry("train.py", 0o644, len(data), (chunk,))])
    served.client.content.put_trees([(tree_id(tree), tree)])
    return served.client.content.put_snapshot(tree_id(tree), 1, len(data))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_run_whose_code_is_damaged_cannot_be_submitted_again_and_says_why(served: Served, fault: str) -> None:
    data = os.urandom(2000)
    chunk = hashlib.sha256(data).hexdigest()
    damaged = new_pack(served, lambda: served.client.content.put([(chunk, data)]))
    found = snapshot(served, data)
    served.submit(snapshot_id=found)
    served.services.engine.report("exp_1", StateReport(attempt=1, status=RunStatus.COMPLETED))
    FAULTS[fault](damaged)

    with pytest.raises(SubmitRejected, match="Its code is damaged on the server") as caught:
        served.client.transport.request("POST", "/runs/exp_1/resubmit", json={})
    assert "runyard submit" in caught.value.hint
    with pytest.raises(DamagedContent, match=r"`train.py` is (damaged|missing)"):
        served.client.transport.request("GET", f"/snapshots/{found}/files/train.py")
    with pytest.raises(DamagedContent, match=chunk):
        list(served.client.content.fetch([chunk]))


def test_chunks_behind_a_good_one_are_named_too(served: Served) -> None:
    good, bad = os.urandom(CHUNK), os.urandom(CHUNK)
    ids = [hashlib.sha256(data).hexdigest() for data in (good, good[:-1], bad)]
    served.client.content.put([(ids[0], good), (ids[1], good[:-1])])
    flip(new_pack(served, lambda: served.client.content.put([(ids[2], bad)])))
    fetching = served.client.content.fetch(ids)

    assert next(fetching)[0] == ids[0]
    with pytest.raises(DamagedContent, match=ids[2]):
        list(fetching)


def test_a_models_file_is_named_too(served: Served, tmp_path: Path) -> None:
    served.submit()
    data = os.urandom(2000)
    digest = hashlib.sha256(data).hexdigest()
    damaged = new_pack(served, lambda: served.client.content.put([(digest, data)]))
    spec = ModelSpec(path="m.pkl", files=[RunFile(name="m.pkl", size=2000, sha256=digest, chunks=[digest])])
    calls = ModelCalls(served.client.transport)
    model = calls.register("default", "net", spec)
    flip(damaged)

    with pytest.raises(DamagedContent, match=r"`m.pkl` is damaged"):
        calls.download(model, model.spec.files[0], str(tmp_path / "m"))
