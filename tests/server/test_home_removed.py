"""M8: a home that is removed, moved or replaced under its server ends that server; the next call starts one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from runyard.client.private_server import connect
from runyard.server.net.binding import UnixSocket
from tests.server.private import holder_of, is_alive, pid_of, settings_of, start, stop
from tests.waiting import wait_for


@pytest.fixture
def place(home: Path) -> Path:
    """A home below the test's own, so that the folder around it stays."""
    return home / "removable"


def remove(home: Path) -> None:
    """As `rm -rf` does, also while a process that the server started still writes to its cache."""
    shutil.rmtree(home, ignore_errors=True)
    assert not (home / "server").exists()


def listeners(pid: int) -> int:
    """Return how many sockets of the process listen at a path."""
    inodes = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            inodes.add(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            continue
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return sum(f"socket:[{words[6]}]" in inodes and int(words[3], 16) & 0x10000 != 0 for words in lines)


def test_a_removed_home_ends_its_server_and_the_next_call_starts_one(place: Path) -> None:
    old = pid_of(start(place))
    remove(place)
    new = pid_of(start(place))
    wait_for(lambda: not is_alive(old))

    assert new != old and pid_of(start(place)) == new
    assert holder_of(place)["pid"] == new and listeners(new) == 1
    stop(place)


def test_a_server_that_leaves_late_keeps_its_hands_off_the_socket_of_the_next_one(tmp_path: Path) -> None:
    """A file system gives the inode number of a removed file to the next one that is made."""
    path = str(tmp_path / "s")
    old = UnixSocket(path)
    for listener in old.listeners:
        listener.close()  # as the event loop does
    new = UnixSocket(path)
    old.close()

    assert new.find_again() is None and os.path.exists(path)
    new.close()
    assert not os.path.exists(path)


@pytest.mark.long
def test_a_server_whose_home_is_gone_leaves_without_being_asked(place: Path) -> None:
    pid = pid_of(start(place))
    remove(place)
    wait_for(lambda: not is_alive(pid))

    assert not (place / "server").exists()


@pytest.mark.long
def test_a_moved_home_is_served_in_its_new_place_with_all_that_was_in_it(place: Path) -> None:
    first = start(place)
    first.workspaces.put("kept")
    old, id = pid_of(first), first.server.info().id
    moved = place.with_name("moved")
    os.rename(place, moved)
    client = start(moved)

    assert client.server.info().id == id and "kept" in [one.name for one in client.workspaces.list()]
    wait_for(lambda: not is_alive(old))
    for one in (first, client):
        one.transport.close()
    stop(moved)


@pytest.mark.long
def test_a_home_in_the_place_of_another_is_found_by_its_own_token(place: Path) -> None:
    other = place.with_name("other")
    stop_pid = pid_of(start(other))
    id = start(other).server.info().id
    stop(other)
    old = pid_of(connect(settings_of(place)))
    os.rename(place, place.with_name("gone"))
    os.rename(other, place)
    client = start(place)

    assert client.server.info().id == id and pid_of(client) not in (old, stop_pid)
    wait_for(lambda: not is_alive(old))
    stop(place)
