"""A folder as a datastore: names stay inside, files appear whole, existing ones are left alone."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from runyard.core.errors import Conflict, InvalidArgument, NotFound, SystemFailure
from runyard.data.datastores import BUILT_IN, default_name, get_document, list_documents, open_storage
from runyard.data.folder import BLOCK, STAGING, STALE_S, FolderStorage, clean_data_path, copy_checked
from runyard.data.transfer import download, for_all, upload
from tests.waiting import wait_for


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


@pytest.fixture
def storage(root: Path) -> FolderStorage:
    return FolderStorage({"path": str(root)})


def write(folder: Path, files: dict[str, str]) -> list[tuple[str, str]]:
    """Write files and return them as `upload` takes them."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return [(str(folder / name), name) for name in files]


def names(storage: FolderStorage, path: str = "") -> list[str]:
    return [file.name for file in storage.iter_files(path)]


@pytest.mark.parametrize(
    ("given", "clean"),
    [
        (None, ""),
        ("", ""),
        ("/", ""),
        (".", ""),
        ("data", "data"),
        ("/data/x/", "data/x"),
        ("./data//x", "data/x"),
        ("data\\x", "data/x"),
        (Path("data/x"), "data/x"),
    ],
)
def test_a_path_on_a_datastore_has_one_form(given: str | None, clean: str) -> None:
    assert clean_data_path(given) == clean


@pytest.mark.parametrize("given", ["..", "a/../../b", "../x", "a\0b", 3])
def test_a_path_that_leaves_the_datastore_is_refused(given: str) -> None:
    with pytest.raises(InvalidArgument):
        clean_data_path(given)


def test_files_are_found_again_below_a_path(storage: FolderStorage, tmp_path: Path) -> None:
    upload(storage, write(tmp_path / "in", {"a.csv": "1", "x/b.csv": "22", "x/y/c.csv": "333"}), overwrite=False)

    assert names(storage) == ["a.csv", "x/b.csv", "x/y/c.csv"]
    assert names(storage, "x") == ["x/b.csv", "x/y/c.csv"]
    assert [(file.name, file.size) for file in storage.iter_files("x/b.csv")] == [("x/b.csv", 2)]
    assert names(storage, "nowhere") == []


def test_existing_files_stay_unless_told_otherwise(storage: FolderStorage, root: Path, tmp_path: Path) -> None:
    (root / "a.csv").write_text("old")
    files = write(tmp_path / "in", {"a.csv": "new", "b.csv": "new"})

    kept = upload(storage, files, overwrite=False)
    assert (kept.count, kept.skipped, (root / "a.csv").read_text()) == (1, ["a.csv"], "old")

    replaced = upload(storage, files, overwrite=True)
    assert (replaced.count, replaced.skipped, (root / "a.csv").read_text()) == (2, [], "new")


def test_download_counts_and_leaves_existing_files_alone(storage: FolderStorage, root: Path, tmp_path: Path) -> None:
    write(root, {"a": "1", "x/b": "22"})
    out = tmp_path / "out"
    write(out, {"a": "mine"})
    done = download(storage, storage.iter_files(), lambda name: str(out / name), overwrite=False)

    assert (done.count, done.size_bytes, done.skipped) == (1, 2, ["a"])
    assert (out / "a").read_text() == "mine" and (out / "x/b").read_text() == "22"


def test_two_files_of_one_name_are_refused_before_any_is_stored(
    storage: FolderStorage, root: Path, tmp_path: Path
) -> None:
    write(tmp_path, {"1/a": "1", "2/a": "2"})

    with pytest.raises(InvalidArgument, match="would both be stored as `a`"):
        upload(storage, [(str(tmp_path / "1/a"), "a"), (str(tmp_path / "2/a"), "a")], overwrite=True)
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(("there", "wanted"), [("x/b", "x"), ("x", "x/b")])
def test_a_file_and_a_folder_of_one_name_are_a_conflict(
    storage: FolderStorage, root: Path, tmp_path: Path, there: str, wanted: str
) -> None:
    write(root, {there: "1"})
    (tmp_path / "in").write_text("2")

    with pytest.raises(Conflict, match="in its way"):
        storage.put_file(str(tmp_path / "in"), wanted)
    assert names(storage) == [there]


def test_a_killed_upload_leaves_no_half_file_and_goes_on_when_repeated(
    storage: FolderStorage, root: Path, tmp_path: Path
) -> None:
    """The upload of the second file is killed while it reads a pipe that nobody closes."""
    files = write(tmp_path / "in", {"first.bin": "whole"})
    second = tmp_path / "in" / "second.bin"
    os.mkfifo(second)
    code = (
        "import sys; from runyard.data.folder import FolderStorage\n"
        "for name in ('first.bin', 'second.bin'):\n"
        "    FolderStorage({'path': sys.argv[1]}).put_file(sys.argv[2] + '/' + name, name)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(root), str(tmp_path / "in")]) as process:
        with open(second, "wb") as writer:
            writer.write(b"x" * 1024)
            writer.flush()
            wait_for(lambda: [part for part in (root / STAGING).glob("*") if part.stat().st_size == 1024])
            process.kill()
        process.wait(20)

    assert names(storage) == ["first.bin"] and storage.find_file("second.bin") is None
    left = [*(root / STAGING).iterdir()]
    assert len(left) == 1

    second.unlink()
    files += write(tmp_path / "in", {"second.bin": "now whole"})
    done = upload(storage, files, overwrite=False)
    assert (done.count, done.skipped, (root / "second.bin").read_text()) == (1, ["first.bin"], "now whole")

    os.utime(left[0], (0, left[0].stat().st_mtime - STALE_S - 60))
    (tmp_path / "small").write_text("1")
    storage.put_file(str(tmp_path / "small"), "small")
    assert sorted(entry.name for entry in root.iterdir()) == ["first.bin", "second.bin", "small"]


def test_a_copy_is_read_back_and_one_that_was_not_kept_is_an_error(tmp_path: Path) -> None:
    content = os.urandom(BLOCK + 5)
    (tmp_path / "source").write_bytes(content)

    assert copy_checked(str(tmp_path / "source"), str(tmp_path / "copy")) == hashlib.sha256(content).hexdigest()
    assert (tmp_path / "copy").read_bytes() == content
    with pytest.raises(SystemFailure, match="is not there: SHA-256"):
        copy_checked(str(tmp_path / "source"), "/dev/null")


def test_many_files_are_moved_at_once_and_each_is_whole(storage: FolderStorage, root: Path, tmp_path: Path) -> None:
    files = write(tmp_path / "in", {f"{number % 7}/{number}.txt": str(number) * 100 for number in range(300)})
    said: list[str] = []
    done = upload(storage, files, overwrite=True, say=said.append)
    back = download(storage, storage.iter_files(), lambda name: str(tmp_path / "out" / name), overwrite=False)

    assert (done.count, back.count, len(said), said[-1].endswith("(300 of 300).")) == (300, 300, 300, True)
    assert all((tmp_path / "out" / name).read_bytes() == Path(path).read_bytes() for path, name in files)
    assert not (root / STAGING).exists()


def test_the_first_error_ends_a_transfer() -> None:
    begun: list[int] = []
    never = threading.Event()

    def move(number: int) -> None:
        begun.append(number)
        if number == 0:
            raise SystemFailure("The disk is full.")
        never.wait(0.05)

    with pytest.raises(SystemFailure, match="The disk is full"):
        for_all(move, range(200), 4)
    assert len(begun) < 200


def test_links_to_folders_are_followed_once(storage: FolderStorage, root: Path, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", {"a": "1"})
    (root / "link").symlink_to(tmp_path / "elsewhere")
    (root / "loop").symlink_to(root)
    (root / "broken").symlink_to(root / "nothing")

    assert names(storage) == ["link/a"]


def test_a_registered_folder_that_is_gone_says_so(tmp_path: Path) -> None:
    storage = FolderStorage({"path": str(tmp_path / "gone")})

    with pytest.raises(NotFound, match="does not exist on this machine"):
        storage.find_local("")
    with pytest.raises(NotFound):
        storage.put_file(__file__, "x")
    with pytest.raises(NotFound, match="holds no file"):
        storage.fetch_file("x", str(tmp_path / "x"))


def test_every_workspace_has_two_folders_below_the_home(tmp_path: Path) -> None:
    documents = list_documents([], home=tmp_path, workspace="team")

    assert tuple(documents) == BUILT_IN and default_name(documents) == "workspaceblobstore"
    place = open_storage(documents["workspaceblobstore"]).find_local("x")
    assert place == str(tmp_path / "datastores/team/workspaceblobstore/x")
    assert (tmp_path / "datastores/team/workspaceblobstore").stat().st_mode & 0o777 == 0o700


def test_an_unknown_datastore_names_the_known_ones(tmp_path: Path) -> None:
    documents = list_documents([], home=tmp_path, workspace="team")

    with pytest.raises(NotFound, match="workspaceblobstore, workspacefilestore"):
        get_document(documents, "mine")
    with pytest.raises(NotFound, match="folder"):
        open_storage({"type": "tape"})


def test_the_last_one_chosen_is_the_default() -> None:
    assert default_name({"a": {"default_at": "2026-01-02"}, "b": {"default_at": "2026-01-03"}, "c": {}}) == "b"


def test_a_transfer_counts_the_bytes_of_each_piece(storage: FolderStorage, tmp_path: Path) -> None:
    files = write(tmp_path / "here", {"small": "abc"})
    (tmp_path / "here/large").write_bytes(os.urandom(2 * BLOCK + 5))
    files.append((str(tmp_path / "here/large"), "large"))
    sent: list[int] = []
    came: list[int] = []

    upload(storage, files, overwrite=False, count=sent.append)
    download(
        storage,
        list(storage.iter_files()),
        lambda name: str(tmp_path / "back" / name),
        overwrite=False,
        count=came.append,
    )

    assert sorted(sent) == sorted(came) == [3, 5, BLOCK, BLOCK]


def test_files_that_are_there_already_count_as_done(storage: FolderStorage, tmp_path: Path) -> None:
    files = write(tmp_path / "here", {"a": "abc", "b": "defgh"})
    upload(storage, files, overwrite=False)
    sent: list[int] = []

    upload(storage, files, overwrite=False, count=sent.append)

    assert sorted(sent) == [3, 5]
