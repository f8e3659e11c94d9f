"""C2: content outlives its index. A server with another database than the content's is refused; nothing is deleted."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.core.config.database_change import allow_new_database
from runyard.core.errors import NotFound, StoreUnavailable
from runyard.core.formats.chunks import chunk_id
from runyard.core.records import RunFile
from runyard.core.statuses import RunStatus
from runyard.store import open_store
from tests.server.conftest import Served, serve

DATA = b"weights of a model" * 100


@pytest.fixture(scope="module")
def template(session_folder: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="b", dir=session_folder) as parent:
        yield make_home(Path(parent) / "s")


@pytest.fixture
def folder(tmp_path: Path, template: Path) -> Path:
    """A home with a run whose file is stored, and no server."""
    shutil.copytree(template / "home", tmp_path / "s/home")
    return tmp_path / "s"


def make_home(folder: Path, run_id: str = "exp_1") -> Path:
    folder.mkdir()
    with serve(folder) as served:
        keep(served, run_id)
    return folder


def keep(served: Served, run_id: str, data: bytes = DATA) -> None:
    served.submit(run_id)
    served.client.content.put(chunks := [(chunk_id(data), data)])
    served.client.runs.put_file(run_id, RunFile(name="outputs/m", size=len(data), chunks=[chunks[0][0]]))


def read(served: Served, run_id: str = "exp_1") -> bytes:
    return served.client.runs.read_file(run_id, "outputs/m").data


def database(folder: Path) -> Path:
    return folder / "home/server/runyard.db"


def packs(folder: Path) -> dict[str, bytes]:
    found = folder / "home/artifacts/packs"
    return {path.name: path.read_bytes() for path in found.iterdir()} if found.exists() else {}


def truncate(path: Path) -> None:
    path.write_bytes(b"")


def make_another(path: Path) -> None:
    path.unlink()
    open_store(path).close()


def of_another_home(path: Path) -> None:
    other = make_home(path.parents[3] / "other", "exp_9")
    os.rename(database(other), path)


def link_to_another(path: Path) -> None:
    of_another_home(path)
    os.rename(path, path.with_name("elsewhere.db"))
    path.symlink_to("elsewhere.db")


@pytest.mark.long
@pytest.mark.parametrize(
    ("spoil", "is_old"),
    [
        (truncate, False),
        (os.unlink, False),
        (make_another, False),
        (of_another_home, False),
        (link_to_another, False),
        pytest.param(truncate, True, id="truncate-as-0.1-left-it"),
        pytest.param(of_another_home, True, id="of_another_home-as-0.1-left-it"),
    ],
)
def test_a_database_that_is_not_the_contents_is_refused_and_going_back_finds_everything(
    folder: Path, spoil, is_old: bool
) -> None:
    before, saved = packs(folder), folder / "saved.db"
    shutil.copy(database(folder), saved)
    if is_old:
        (folder / "home/artifacts/database.json").unlink()
    spoil(database(folder))

    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="does not belong to the files that are stored") as caught:
            with serve(folder):
                pass
    assert "server start --force" in caught.value.hint and "Nothing was changed" in caught.value.why
    assert packs(folder) == before and len(before) == 1
    database(folder).unlink(missing_ok=True)
    os.rename(saved, database(folder))
    with serve(folder) as served:
        assert read(served) == DATA


def test_an_empty_database_keeps_its_journal(folder: Path) -> None:
    """SQLite removes the journal of an empty database as soon as it opens it."""
    shutil.rmtree(folder / "home/artifacts")
    truncate(database(folder))
    journal = Path(f"{database(folder)}-wal")
    journal.write_bytes(b"acknowledged records")

    with pytest.raises(StoreUnavailable, match="does not belong") as caught, serve(folder):
        pass
    assert "runyard.db-wal" in caught.value.why and journal.read_bytes() == b"acknowledged records"
    allow_new_database(folder / "home")
    with serve(folder) as served:
        assert served.client.runs.list("default").runs == []
    assert [path.read_bytes() for path in database(folder).parent.glob("*.left-*-wal")] == [b"acknowledged records"]


@pytest.mark.parametrize("spoil", [truncate, of_another_home])
def test_who_takes_another_database_knowingly_finds_everything_after_going_back(folder: Path, spoil) -> None:
    before, saved = packs(folder), folder / "saved.db"
    shutil.copy(database(folder), saved)
    spoil(database(folder))
    allow_new_database(folder / "home")
    with serve(folder) as served:
        with pytest.raises(NotFound):
            read(served)
        keep(served, "exp_2", b"other")
    with serve(folder) as served:  # it needs no leave any more
        assert read(served, "exp_2") == b"other"
    assert packs(folder) == before

    os.rename(database(folder), folder / "second.db")
    os.rename(saved, database(folder))
    with serve(folder) as served:
        assert read(served) == DATA
    os.rename(folder / "second.db", database(folder))
    with serve(folder) as served:
        assert read(served, "exp_2") == b"other"


def test_a_home_of_0_1_just_works_and_gets_its_id(folder: Path) -> None:
    owner = folder / "home/artifacts/database.json"
    text = owner.read_text()
    owner.unlink()
    with serve(folder) as served:
        assert read(served) == DATA

    assert owner.read_text() == text
    owner.write_text("torn")
    with serve(folder) as served:
        assert read(served) == DATA


def test_an_old_copy_of_the_database_loses_neither_old_nor_new_content(folder: Path) -> None:
    old = folder / "old.db"
    shutil.copy(database(folder), old)
    with serve(folder) as served:
        keep(served, "exp_2", b"newer")
    newer = folder / "newer.db"
    os.rename(database(folder), newer)
    shutil.copy(old, database(folder))
    with serve(folder) as served:
        assert read(served) == DATA
        with pytest.raises(NotFound):
            read(served, "exp_2")
    os.rename(newer, database(folder))

    with serve(folder) as served:
        assert (read(served), read(served, "exp_2")) == (DATA, b"newer")


def test_an_old_copy_of_the_database_finds_packs_that_were_written_anew_since(folder: Path) -> None:
    old = folder / "old.db"
    with serve(folder) as served:
        ids = [(chunk_id(data), data) for data in (b"stays" * 9, b"goes" * 99)]
        served.client.content.put(ids)
        for run_id, (chunk, data) in zip(("exp_2", "exp_3"), ids, strict=True):
            served.submit(run_id)
            served.client.runs.put_file(run_id, RunFile(name="outputs/m", size=len(data), chunks=[chunk]))
    shutil.copy(database(folder), old)
    with serve(folder) as served:
        served.services.store.set_status("exp_3", RunStatus.CANCELED)
        served.client.runs.delete("exp_3", now=True)
        served.services.content.leases.began = float("-inf")
        served.services.collecting._collect(is_last=True)  # as its thread does, without the wait
        assert read(served, "exp_2") == b"stays" * 9
    shutil.copy(old, database(folder))

    with serve(folder) as served:
        assert read(served, "exp_2") == b"stays" * 9
        assert read(served, "exp_3") == b"goes" * 99


def test_swapped_content_of_two_homes_is_refused_in_both(folder: Path, tmp_path: Path) -> None:
    other = make_home(tmp_path / "other", "exp_9")
    ours, theirs = folder / "home/artifacts", other / "home/artifacts"
    os.rename(ours, tmp_path / "swap")
    os.rename(theirs, ours)
    os.rename(tmp_path / "swap", theirs)

    for place in (folder, other):
        with pytest.raises(StoreUnavailable, match="belongs to the database"), serve(place):
            pass
        assert len(packs(place)) == 1


def test_content_that_was_emptied_is_told_and_the_runs_stay(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.rmtree(folder / "home/artifacts/packs")
    with serve(folder) as served:
        assert served.client.runs.get("exp_1").id == "exp_1"

    assert "1 pack(s) are missing" in caplog.text and "runyard server repair" in caplog.text
