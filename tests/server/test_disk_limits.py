"""What one request may take of the server's disk: asked before the first byte is written, with the numbers."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runyard.client.client import Client
from runyard.core.config.paths import datastores_folder
from runyard.core.config.server_settings import ServerSettings
from runyard.core.errors import InvalidArgument, StoreUnavailable, SystemFailure, TooLarge
from runyard.core.formats.chunks import CHUNK_SIZE, chunk_id
from runyard.core.records import RunFile
from runyard.data.folder import FolderStorage
from runyard.server.routes import assets
from runyard.server.storage.quotas import RECOUNT_S, Quotas
from runyard.server.storage.room import OWN_RESERVE_BYTES, TEAM_RESERVE_BYTES, Room, ServerDisk
from tests.server.conftest import Served

NAME = "workspaceblobstore"
CHUNK = bytes(1 << 16)
CHUNK_ID = hashlib.sha256(CHUNK).hexdigest()
GIB = 1 << 30


@pytest.fixture
def run(served: Served) -> Client:
    """A client with a run's token, and one chunk stored."""
    served.submit()
    found = served.as_run("exp_1")
    found.content.put([(CHUNK_ID, CHUNK)])
    return found


def repeated(times: int, name: str = "bomb.bin") -> RunFile:
    return RunFile(name=name, size=times * len(CHUNK), chunks=[CHUNK_ID] * times)


def put_data(client: Client, file: RunFile) -> int:
    plain = {"name": file.name, "size": file.size, "chunks": file.chunks}
    path = f"/workspaces/default/datastores/{NAME}/files"
    return int(client.transport.request("POST", path, json={"file": plain}).json()["size"])


def with_disk(served: Served, disk: ServerDisk) -> None:
    """As a team's server with such a disk."""
    home = served.services.settings.home
    room = Room(home, reserve_bytes=TEAM_RESERVE_BYTES, look=lambda _: disk)
    object.__setattr__(served.services, "room", room)
    object.__setattr__(served.services, "server_settings", ServerSettings(host="team.example", port=8787))


def folder_of(served: Served) -> Path:
    return datastores_folder(served.services.settings.home, "default") / NAME


def test_a_datastore_file_larger_than_the_disk_is_refused_before_it_is_written(served: Served, run: Client) -> None:
    with_disk(served, ServerDisk(total=2 << 20, free=1 << 20))

    with pytest.raises(TooLarge, match=f"{40 << 16:,} bytes") as caught:
        put_data(run, repeated(40))
    assert f"{2 << 20:,}" in caught.value.why
    assert not folder_of(served).exists()


def test_a_datastore_file_that_does_not_fit_now_is_for_later(served: Served, run: Client) -> None:
    with_disk(served, ServerDisk(total=100 * GIB, free=TEAM_RESERVE_BYTES + (1 << 20)))

    with pytest.raises(StoreUnavailable, match=f"{17 << 16:,} bytes"):
        put_data(run, repeated(17))
    assert not folder_of(served).exists()
    assert put_data(run, repeated(15)) == 15 << 16  # the control: a little less goes in
    assert (folder_of(served) / "bomb.bin").read_bytes() == CHUNK * 15


@pytest.mark.parametrize(("different", "repeats"), [(1, 257), (3, 259)])
def test_m1_few_chunks_named_over_and_over_are_refused_with_the_number(
    served: Served, run: Client, different: int, repeats: int
) -> None:
    """A name has 64 bytes and a chunk up to 4 MiB: 1 MB of names asked for 58 GiB."""
    chunks = [bytes([at + 1]) * 100 for at in range(different)]
    ids = [chunk_id(chunk) for chunk in chunks]
    run.content.put(list(zip(ids, chunks, strict=True)))

    def a_file(names: list[str]) -> RunFile:
        return RunFile(name="bomb.bin", size=100 * len(names), chunks=names)

    with pytest.raises(TooLarge, match=f" {repeats + 1} times") as caught:
        put_data(run, a_file(ids + [ids[-1]] * (repeats + 1)))
    assert f"{repeats} repeats are allowed" in caught.value.why and not folder_of(served).exists()
    assert put_data(run, a_file(ids + [ids[-1]] * repeats)) == 100 * (different + repeats)
    assert (folder_of(served) / "bomb.bin").read_bytes() == b"".join(chunks) + chunks[-1] * repeats


def test_m1_zeros_are_written_however_many_and_take_no_disk(
    served: Served, run: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    zeros, end = bytes(CHUNK_SIZE), b"the end"
    assert chunk_id(zeros) == assets.ZEROS
    monkeypatch.setattr(assets, "MOST_REPEATS", 0)
    run.content.put([(chunk_id(zeros), zeros), (chunk_id(end), end)])
    for name, chunks in (("z", [zeros] * 5), ("mixed", [zeros] * 4 + [end])):
        data = b"".join(chunks)
        put_data(run, RunFile(name=name, size=len(data), chunks=[chunk_id(chunk) for chunk in chunks]))

        assert (folder_of(served) / name).read_bytes() == data
        assert (folder_of(served) / name).stat().st_blocks * 512 < 1 << 20


def test_uploads_leave_the_reserve_alone(served: Served, run: Client) -> None:
    with_disk(served, ServerDisk(total=100 * GIB, free=TEAM_RESERVE_BYTES))
    other = b"1" * 1000

    with pytest.raises(StoreUnavailable, match="The content of this request"):
        run.content.put([(hashlib.sha256(other).hexdigest(), other)])


def test_promised_room_is_not_promised_twice(tmp_path: Path) -> None:
    room = Room(tmp_path, look=lambda _: ServerDisk(total=100 * GIB, free=OWN_RESERVE_BYTES + 100))
    with room.take(60, "a") as taken:
        with pytest.raises(StoreUnavailable, match="b would take 41 bytes"), room.take(41, "b"):
            pass
        taken.wrote(30)  # from now on the disk itself counts these
        with room.take(70, "b"):
            pass
    with room.take(100, "c"):
        pass


def test_a_disk_that_fills_up_meanwhile_is_a_503_and_gets_its_space_back(
    served: Served, run: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What other programs write there cannot be known before."""

    def full(pieces: Iterator[bytes], part: str) -> None:
        Path(part).write_bytes(next(iter(pieces)))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("runyard.data.folder.write_checked", full)
    with pytest.raises(StoreUnavailable, match="does not fit"):
        put_data(run, repeated(3))

    assert [path for path in folder_of(served).rglob("*") if path.is_file()] == []
    with served.services.room.take(1, "nothing is promised any more"):
        assert served.services.room._promised == 1


def test_a_name_longer_than_file_systems_take_is_refused_by_name(served: Served, run: Client) -> None:
    for name in ("n" * 300, "d/" + "ä" * 140 + "/f", "n" * 256):
        with pytest.raises(InvalidArgument, match="cannot hold a file"):
            put_data(run, repeated(1, name))
    with pytest.raises(InvalidArgument, match="not a valid name"):
        run.transport.request("GET", f"/workspaces/default/datastores/{'n' * 300}/files")
    assert put_data(run, repeated(1, "n" * 255)) == len(CHUNK)


def test_other_faults_of_the_disk_stay_what_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(pieces: Iterator[bytes], part: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("runyard.data.folder.write_checked", broken)
    with pytest.raises(SystemFailure, match="could not be written"):
        FolderStorage({"path": str(tmp_path)}).put_pieces([b"x"], "f")


def test_repeats_count_against_the_quota_of_a_run(served: Served, run: Client) -> None:
    quota = 10 * len(CHUNK)
    object.__setattr__(served.services, "quotas", Quotas(served.services.store, run_bytes=quota))
    run.runs.put_file("exp_1", repeated(6, "outputs/a"))

    with pytest.raises(TooLarge, match=f"{11 * len(CHUNK):,} bytes") as caught:
        run.runs.put_file("exp_1", repeated(5, "outputs/b"))
    assert f"{quota:,}" in caught.value.why and "server.quota_run_bytes" in caught.value.why
    run.runs.put_file("exp_1", repeated(2, "outputs/a"))  # in its place: less than before
    run.runs.put_file("exp_1", repeated(8, "outputs/b"))
    assert {file.name: file.size for file in run.runs.files("exp_1")} == {
        "outputs/a": 2 * len(CHUNK),
        "outputs/b": 8 * len(CHUNK),
    }


def test_a_users_quota_is_over_all_their_runs_and_nobody_elses(served: Served) -> None:
    now = [1000.0]
    store = served.services.store
    runs = {name: served.submit(name) for name in ("exp_1", "exp_2", "exp_3")}
    alice = [replace(store.get_run(run_id), submitted_by="alice") for run_id in ("exp_1", "exp_2")]
    bob = replace(store.get_run(runs["exp_3"]), submitted_by="bob")
    quotas = Quotas(store, user_bytes=100, clock=lambda: now[0])

    quotas.add(alice[0], RunFile("a", 60))
    with pytest.raises(TooLarge, match="User `alice` would have 101 bytes"):
        quotas.add(alice[1], RunFile("b", 41))
    quotas.add(alice[1], RunFile("b", 40))
    quotas.add(bob, RunFile("b", 100))
    now[0] += RECOUNT_S + 1  # none of these was stored: what is counted again is free
    quotas.add(alice[1], RunFile("c", 100))


def test_what_a_user_writes_to_a_datastore_counts_too(served: Served) -> None:
    quota = 10 * len(CHUNK)
    served.submit("exp_9", submitted_by="ann")
    run = served.as_run("exp_9")
    run.content.put([(CHUNK_ID, CHUNK)])
    for _ in range(2):  # what was written is known after a restart
        object.__setattr__(served.services, "quotas", Quotas(served.services.store, user_bytes=quota))
        put_data(run, repeated(6))  # in the place of what was there
        with pytest.raises(TooLarge, match="User `ann` would have") as caught:
            put_data(run, repeated(5, "other.bin"))
        assert f"{quota:,}" in caught.value.why
        with pytest.raises(TooLarge):
            run.runs.put_file("exp_9", repeated(5, "outputs/a"))
    assert [path.name for path in folder_of(served).rglob("*") if path.is_file()] == ["bomb.bin"]
    put_data(served.client, repeated(20, "owners.bin"))  # the owner has no quota


def test_without_a_quota_nothing_is_counted(served: Served, run: Client) -> None:
    """A file of terabytes by repeats is a few names in the index: it is stored, and listed without them."""
    run.runs.put_file("exp_1", repeated(50_000, "outputs/sparse.bin"))

    [listed] = served.services.store.list_files("exp_1", with_chunks=False)
    assert (listed.size, listed.chunks) == (50_000 * len(CHUNK), [])
    assert served.services.store.sum_file_sizes(run_id="exp_1") == 50_000 * len(CHUNK)
