"""A snapshot's files over HTTP: listed, downloaded, packed, compared; and a run's files as a zip."""

from __future__ import annotations

import hashlib
import io
import json
import stat
from typing import Any
from urllib.parse import quote
from zipfile import ZipFile

import pytest

from runyard.core.errors import InvalidArgument, NotFound, TooLarge
from runyard.core.formats.tree import Entry, FileEntry, FolderEntry, LinkEntry, encode_tree, tree_id
from runyard.core.records import RunFile
from tests.engine.bench import log_frame
from tests.server.conftest import Served

Source = dict[str, Any]  # name → bytes, a folder, or "-> target" for a link
FIRST: Source = {
    "a.txt": b"same",
    "empty": b"",
    "pkg": {"big.bin": b"x" * (5 << 20), "gone.py": b"gone", "mod.py": b"one\n"},
    "same": {"deep": {"file": b"deep"}},
    "train.py": b"print(1)\n",
    "was_file": b"file",
    "way": "-> a.txt",
}
SECOND: Source = {
    **FIRST,
    "pkg": {"big.bin": b"x" * (5 << 20), "mod.py": b"two\n", "new.py": b"new"},
    "was_file": {"inside": b"file"},
    "way": "-> empty",
}


def store(served: Served, source: Source) -> str:
    root = put_tree(served, source)
    return served.client.content.put_snapshot(root, 0, 0)


def put_tree(served: Served, source: Source) -> str:
    entries: list[Entry] = []
    for name, value in source.items():
        if isinstance(value, dict):
            entries.append(FolderEntry(name, 0o755, put_tree(served, value)))
        elif isinstance(value, str):
            entries.append(LinkEntry(name, value[3:]))
        else:
            pieces = [value[at : at + (4 << 20)] for at in range(0, len(value), 4 << 20)]
            ids = tuple(hashlib.sha256(piece).hexdigest() for piece in pieces)
            served.client.content.put(zip(ids, pieces))
            entries.append(FileEntry(name, 0o644, len(value), ids))
    data = encode_tree(entries)
    served.client.content.put_trees([(tree_id(data), data)])
    return tree_id(data)


def get(client: Any, path: str, **headers: str) -> bytes:
    data = client.transport.request("GET", path, headers=headers).read()
    assert isinstance(data, bytes)
    return data


def ask(client: Any, path: str) -> Any:
    return json.loads(get(client, path))


@pytest.fixture(scope="module")
def snapshots(shared: Served) -> tuple[str, str]:
    return store(shared, FIRST), store(shared, SECOND)


def test_files_are_listed_by_path_with_keys_of_their_content(shared: Served, snapshots: tuple[str, str]) -> None:
    found = ask(shared.client, f"/snapshots/{snapshots[0]}/files")

    assert found["id"] == snapshots[0] and found["more"] is False
    assert [(file["path"], file["kind"], file["size"]) for file in found["files"]] == [
        ("a.txt", "file", 4),
        ("empty", "file", 0),
        ("pkg/big.bin", "file", 5 << 20),
        ("pkg/gone.py", "file", 4),
        ("pkg/mod.py", "file", 4),
        ("same/deep/file", "file", 4),
        ("train.py", "file", 9),
        ("was_file", "file", 4),
        ("way", "link", 0),
    ]
    by_path = {file["path"]: file for file in found["files"]}
    assert by_path["a.txt"]["key"] == hashlib.sha256(b"same").hexdigest() and by_path["a.txt"]["mode"] == 0o644
    assert by_path["way"]["target"] == "a.txt"


def test_a_list_that_is_too_long_says_that_there_is_more(
    shared: Served, snapshots: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runyard.server.routes.content.MOST_LISTED", 4)
    found = ask(shared.client, f"/snapshots/{snapshots[0]}/files")
    compared = ask(shared.client, f"/snapshots/{snapshots[1]}/diff?with={snapshots[0]}")

    assert [file["path"] for file in found["files"]] == ["a.txt", "empty", "pkg/big.bin"] and found["more"]
    assert [file["path"] for file in compared["removed"]] == ["pkg/gone.py"] and compared["more"]
    assert compared["added"][0]["path"] == "pkg/new.py" and len(compared["changed"]) == 1


@pytest.mark.parametrize(
    ("path", "asked", "expected"),
    [
        ("train.py", "", b"print(1)\n"),
        ("pkg/big.bin", "bytes=4194300-4194309", b"x" * 10),
        ("empty", "", b""),
        ("way", "", b"a.txt"),
    ],
)
def test_one_file_is_downloaded_and_a_link_is_not_followed(
    shared: Served, snapshots: tuple[str, str], path: str, asked: str, expected: bytes
) -> None:
    headers = {"Range": asked} if asked else {}
    answer = shared.client.transport.request("GET", f"/snapshots/{snapshots[0]}/files/{path}", headers=headers)

    assert (answer.status, answer.read()) == (206 if asked else 200, expected)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment;")
    assert answer.headers["content-security-policy"].startswith("sandbox")


def test_names_are_exact_and_decoded_once(shared: Served) -> None:
    names = {"a%2eb": b"1", "<img src=x onerror=alert(1)>": b"2", "e\u0301": b"3", 'q"uo;te': b"4"}
    snapshot = store(shared, names)

    for name, data in names.items():
        assert get(shared.client, f"/snapshots/{snapshot}/files/{quote(name)}") == data
    for name in ("a.b", "\u00e9", "%65%CC%81", "A%2eb"):
        with pytest.raises(NotFound):
            get(shared.client, f"/snapshots/{snapshot}/files/{quote(name)}")


@pytest.mark.parametrize("path", ["pkg", "train.py/x", "no", "pkg/", "etc/passwd"])
def test_what_is_no_file_of_the_snapshot_is_not_found(shared: Served, snapshots: tuple[str, str], path: str) -> None:
    with pytest.raises(NotFound):
        get(shared.client, f"/snapshots/{snapshots[0]}/files/{path}")


def test_a_difference_is_told_by_keys(shared: Served, snapshots: tuple[str, str]) -> None:
    first, second = snapshots
    found = ask(shared.client, f"/snapshots/{second}/diff?with={first}")

    assert [file["path"] for file in found["added"]] == ["pkg/new.py", "was_file/inside"]
    assert [file["path"] for file in found["removed"]] == ["pkg/gone.py", "was_file"]
    assert [(one["path"], one["before"]["key"], one["after"]["key"]) for one in found["changed"]] == [
        ("pkg/mod.py", hashlib.sha256(b"one\n").hexdigest(), hashlib.sha256(b"two\n").hexdigest()),
        ("way", "", ""),
    ]
    assert found["changed"][1]["after"]["target"] == "empty" and found["more"] is False
    assert ask(shared.client, f"/snapshots/{first}/diff?with={first}") == {
        "added": [],
        "removed": [],
        "changed": [],
        "more": False,
    }


def test_the_zip_holds_every_file_with_its_mode_and_links_as_links(shared: Served, snapshots: tuple[str, str]) -> None:
    with ZipFile(io.BytesIO(get(shared.client, f"/snapshots/{snapshots[0]}/zip"))) as packed:
        assert packed.testzip() is None
        assert packed.namelist() == [
            "a.txt",
            "empty",
            "pkg/big.bin",
            "pkg/gone.py",
            "pkg/mod.py",
            "same/deep/file",
            "train.py",
            "was_file",
            "way",
        ]
        assert packed.read("train.py") == b"print(1)\n" and packed.read("pkg/big.bin") == b"x" * (5 << 20)
        assert packed.getinfo("train.py").external_attr >> 16 == stat.S_IFREG | 0o644
        assert stat.S_ISLNK(packed.getinfo("way").external_attr >> 16) and packed.read("way") == b"a.txt"


def test_a_name_in_the_zip_leads_nowhere_else_on_windows_either(shared: Served) -> None:
    snapshot = store(shared, {"..\\..\\x": b"1", "C:y": b"2", "\udcff": b"3"})

    with ZipFile(io.BytesIO(get(shared.client, f"/snapshots/{snapshot}/zip"))) as packed:
        assert sorted(packed.namelist()) == ["..%5C..%5Cx", "C%3Ay", "\ufffd"]


def test_folders_within_folders_without_end_are_refused_or_cut(shared: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """40 levels of two equal folders each: 2^40 paths in 41 small trees."""
    monkeypatch.setattr("runyard.server.routes.content.MOST_LISTED", 500)
    source: Source = {"file": b"x"}
    tree = put_tree(shared, source)
    for _ in range(40):
        data = encode_tree([FolderEntry("a", 0o755, tree), FolderEntry("b", 0o755, tree)])
        tree = tree_id(data)
        shared.client.content.put_trees([(tree, data)])
    snapshot = shared.client.content.put_snapshot(tree, 0, 0)
    small = store(shared, {"file": b"x"})

    with pytest.raises(TooLarge, match="too many for a zip"):
        get(shared.client, f"/snapshots/{snapshot}/zip")
    assert ask(shared.client, f"/snapshots/{snapshot}/files")["more"]
    assert ask(shared.client, f"/snapshots/{snapshot}/diff?with={small}")["more"]


def test_a_runs_token_reads_the_files_of_its_own_snapshot_only(served: Served) -> None:
    own, other = store(served, {"train.py": b"own"}), store(served, {"train.py": b"secret"})
    served.submit(snapshot_id=own)
    client = served.as_run("exp_1")

    assert get(client, f"/snapshots/{own}/files/train.py") == b"own"
    for path in (
        f"/snapshots/{other}/files",
        f"/snapshots/{other}/files/train.py",
        f"/snapshots/{other}/zip",
        f"/snapshots/{own}/diff?with={other}",
        f"/snapshots/{other}/diff?with={own}",
    ):
        with pytest.raises(NotFound):
            get(client, path)


@pytest.mark.parametrize("path", ["/snapshots/x/files", "/snapshots/x/zip", "/snapshots/x/diff?with=x"])
def test_an_odd_id_is_refused(shared: Served, path: str) -> None:
    with pytest.raises(InvalidArgument):
        get(shared.client, path)


def test_a_runs_folder_is_packed_with_its_logs_so_far(shared: Served) -> None:
    chunk = hashlib.sha256(b"weights").hexdigest()
    shared.client.content.put([(chunk, b"weights")])
    for name in ("outputs/a/model.bin", "outputs2/other"):
        shared.client.runs.put_file("exp_1", RunFile(name=name, size=7, chunks=[chunk]))
    shared.as_run("exp_1").runs.ship("exp_1", [log_frame(b"line\n")])

    with ZipFile(io.BytesIO(get(shared.client, "/runs/exp_1/zip?folder=outputs"))) as packed:
        assert {name: packed.read(name) for name in packed.namelist()} == {"outputs/a/model.bin": b"weights"}
    with ZipFile(io.BytesIO(get(shared.client, "/runs/exp_1/zip"))) as packed:
        assert packed.read("user_logs/std_log.txt") == b"line\n" and packed.read("outputs2/other") == b"weights"
    with pytest.raises(NotFound, match="has no files"):
        get(shared.client, "/runs/exp_1/zip?folder=nothing")
    with pytest.raises(InvalidArgument):
        get(shared.client, "/runs/exp_1/zip?folder=../outputs")
