"""A reference to data becomes a path on the node, and what an upload is about becomes files of the datastore."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from runyard.core.errors import Conflict, InvalidArgument, NotFound
from runyard.core.specs import DataReferenceSpec, DatasetInputSpec, DatasetSpec, DataSource
from runyard.data.datasets import bring_dataset
from runyard.data.folder import FolderStorage
from runyard.data.references import Node, bring, deliver


class Place:
    """A node with a datastore of three files."""

    def __init__(self, folder: Path) -> None:
        self.store, self.work, self.side = folder / "store", folder / "work", folder / "side"
        self.words: list[str] = []
        self.warnings: list[str] = []
        self.expected: list[int] = []
        self.came: list[int] = []
        self.node = Node(str(self.work), str(self.side), self.words.append, self.warnings.append, self.counting)
        self.storage = FolderStorage({"path": str(self.store)})
        self.work.mkdir()
        for name in ("top.csv", "data/a.csv", "data/deep/b.csv"):
            (self.store / name).parent.mkdir(parents=True, exist_ok=True)
            (self.store / name).write_text(name)

    def bring(self, path: str = "", mode: str = "mount", on_compute: str | None = None, **more: bool) -> Path:
        reference = DataReferenceSpec("store", path, mode, on_compute, **more)
        return Path(bring("ref", reference, self.storage, self.node))

    def counting(self, total: int) -> Callable[[int], None]:
        self.expected.append(total)
        return self.came.append

    def deliver(self, path: str = "", on_compute: str | None = None, **more: bool) -> None:
        deliver("ref", DataReferenceSpec("store", path, "upload", on_compute, **more), self.storage, self.node)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_mount_is_the_data_itself(place: Place) -> None:
    assert place.bring() == place.store
    assert place.bring("data") == place.store / "data"
    assert place.bring("data/a.csv").read_text() == "data/a.csv"
    assert place.warnings == []


def test_what_is_downloaded_is_counted(place: Place) -> None:
    dataset = DatasetSpec("set", sources=[DataSource("store", "data")])
    place.bring("data", "download")
    given = DatasetInputSpec(dataset, "download")
    for _ in range(2):  # the second time, as of a restarted supervisor, nothing is missing
        bring_dataset("set", given, lambda _: place.storage, place.node)

    assert place.expected == [25, 25, 0]
    assert sum(place.came) == 50


def test_a_mount_of_what_is_not_there_is_an_empty_folder_with_a_warning(place: Place) -> None:
    (place.bring("results/today") / "x").write_text("written through")

    assert (place.store / "results/today/x").read_text() == "written through"
    assert "`results/today` was not on the datastore" in place.warnings[0]


def test_a_mount_with_a_place_of_its_own_is_a_link_there(place: Place) -> None:
    assert place.bring("data", on_compute="input/data") == place.store / "data"
    assert (place.work / "input/data/a.csv").read_text() == "data/a.csv"

    (place.work / "taken").mkdir()
    with pytest.raises(Conflict, match="something of that name"):
        place.bring("data", on_compute="taken")


def test_a_mount_at_an_absolute_place_is_told_to_be_elsewhere(place: Place) -> None:
    assert place.bring("data", on_compute="/mnt/data") == place.store / "data"
    assert "nothing is mounted at /mnt/data" in place.warnings[0]


def test_a_download_is_a_copy_beside_the_work_folder(place: Place) -> None:
    found = place.bring("data", "download")

    assert found == place.side / "ref"
    assert (found / "a.csv").read_text() == "data/a.csv" and (found / "deep/b.csv").exists()
    assert place.words == [f"Data reference `ref`: 2 files, 25 bytes, copied to {found}."]


@pytest.mark.parametrize("absolute", [False, True])
def test_a_download_goes_where_it_is_told_to(place: Place, tmp_path: Path, absolute: bool) -> None:
    wanted = str(tmp_path / "elsewhere") if absolute else "input"
    found = place.bring("data", "download", wanted)

    assert found == (tmp_path / "elsewhere" if absolute else place.work / "input")
    assert (found / "a.csv").exists()


def test_a_download_of_one_file_is_that_file(place: Place) -> None:
    assert place.bring("data/a.csv", "download") == place.side / "ref/a.csv"
    assert place.bring("", "download") == place.side / "ref"


def test_a_download_leaves_what_is_there_alone_unless_told_otherwise(place: Place) -> None:
    place.bring("data", "download")
    (place.side / "ref/a.csv").write_text("mine")

    assert (place.bring("data", "download") / "a.csv").read_text() == "mine"
    assert (place.bring("data", "download", overwrite=True) / "a.csv").read_text() == "data/a.csv"


def test_a_download_of_nothing_is_refused(place: Place) -> None:
    with pytest.raises(NotFound, match="holds nothing at `nowhere`"):
        place.bring("nowhere", "download")


def test_a_place_outside_of_the_work_folder_is_refused(place: Place) -> None:
    with pytest.raises(InvalidArgument, match="leaves the work folder"):
        place.bring("data", "download", "../up")


def test_an_upload_is_a_folder_whose_files_reach_the_datastore(place: Place) -> None:
    folder = place.bring("models", "upload")
    (folder / "deep").mkdir()
    (folder / "deep/w.bin").write_text("w")
    place.deliver("models")

    assert (place.store / "models/deep/w.bin").read_text() == "w"
    assert place.warnings == []


def test_an_upload_may_be_one_file(place: Place) -> None:
    path = place.bring("models/last.bin", "upload", "out/model.bin")
    path.write_text("m")
    place.deliver("models/last.bin", "out/model.bin")

    assert (place.store / "models/last.bin").read_text() == "m"


def test_an_upload_leaves_other_files_alone_and_says_so(place: Place) -> None:
    folder = place.bring("data", "upload")
    (folder / "a.csv").write_text("other")
    (folder / "new.csv").write_text("new")
    place.deliver("data")
    assert (place.store / "data/a.csv").read_text() == "data/a.csv"
    assert (place.store / "data/new.csv").read_text() == "new"
    assert len(place.warnings) == 1 and "(data/a.csv); they stay" in place.warnings[0]

    place.deliver("data", overwrite=True)
    assert (place.store / "data/a.csv").read_text() == "other"


def test_an_upload_that_is_repeated_finds_its_own_files(place: Place) -> None:
    (place.bring("m", "upload") / "w").write_text("w")
    place.deliver("m")
    place.deliver("m")

    assert place.warnings == []


def test_an_upload_of_nothing_is_told(place: Place) -> None:
    place.bring("m", "upload")
    place.deliver("m")

    assert "the run wrote nothing" in place.warnings[0]
