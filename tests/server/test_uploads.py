"""A file that comes as one body: stored while it arrives, within bounded memory, taken back when it does not end."""

from __future__ import annotations

import asyncio
import hashlib
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest

from runyard.core.errors import InvalidArgument, StoreUnavailable
from runyard.core.formats.chunks import CHUNK_SIZE
from runyard.core.records import RunFile
from runyard.server.access.permissions import Owner
from runyard.server.http.calls import RequestContext
from runyard.server.http.uploads import receive_file, take_back
from runyard.server.storage.room import Room, ServerDisk
from tests.server.conftest import Served

PIECE = 64 << 10


def context(served: Served, room: Room | None = None) -> RequestContext:
    services = served.services if room is None else replace(served.services, room=room)
    return RequestContext(services, Owner(), verbs=(), is_same_machine=True)


def numbered(count: int) -> Iterator[bytes]:
    """Yield pieces that are all different, so that no chunk repeats."""
    for number in range(count):
        yield number.to_bytes(8, "big") * (PIECE // 8)


async def arriving(pieces: Iterator[bytes], *, lost: bool = False) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
    if lost:
        raise ConnectionError("the client went away")


def receive(
    call: RequestContext, name: str, count: int, *, lost: bool = False, announced: int | None = None
) -> RunFile:
    return asyncio.run(receive_file(call, name, arriving(numbered(count), lost=lost), announced=announced))


def chunks_of(count: int) -> list[str]:
    data = b"".join(numbered(count))
    return [hashlib.sha256(data[at : at + CHUNK_SIZE]).hexdigest() for at in range(0, len(data), CHUNK_SIZE)]


@pytest.mark.parametrize("count", [0, 1, CHUNK_SIZE // PIECE, 2 * CHUNK_SIZE // PIECE + 1])
def test_a_body_becomes_the_same_chunks_as_an_upload_of_the_client(served: Served, count: int) -> None:
    data = b"".join(numbered(count))

    file = receive(context(served), "./model/model.pkl", count, announced=len(data))

    assert (file.name, file.size, file.chunks) == ("model/model.pkl", len(data), chunks_of(count))
    assert file.sha256 == hashlib.sha256(data).hexdigest()
    assert b"".join(served.services.content.read_file(file.chunks)) == data


def test_a_large_body_is_never_in_memory_as_a_whole(served: Served) -> None:
    size = 96 << 20
    tracemalloc.start()
    try:
        file = receive(context(served), "big.bin", size // PIECE)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert file.size == size
    assert most < size // 2


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/passwd", "a\0b", "", "a//b"])
def test_a_name_that_leads_out_is_refused_before_a_byte_is_read(served: Served, name: str) -> None:
    read: list[bytes] = []

    def watched() -> Iterator[bytes]:
        for piece in numbered(1):
            read.append(piece)
            yield piece

    with pytest.raises(InvalidArgument):
        asyncio.run(receive_file(context(served), name, arriving(watched())))

    assert read == []


def test_a_body_that_breaks_off_leaves_nothing(served: Served) -> None:
    count = 3 * CHUNK_SIZE // PIECE

    with pytest.raises(ConnectionError):
        receive(context(served), "broken.bin", count, lost=True)

    assert served.services.store.find_chunks(chunks_of(count)) == {}


@pytest.mark.parametrize("difference", [-1, 1])
def test_a_body_of_another_size_than_announced_is_refused(served: Served, difference: int) -> None:
    count = 3 * CHUNK_SIZE // PIECE

    with pytest.raises(InvalidArgument, match="did not arrive as announced"):
        receive(context(served), "short.bin", count, announced=count * PIECE + difference)

    assert served.services.store.find_chunks(chunks_of(count)) == {}


def test_a_full_disk_refuses_the_announced_size_at_once_and_any_other_on_the_way(served: Served) -> None:
    home = served.services.settings.home
    room = Room(home, reserve_bytes=0, look=lambda _: ServerDisk(total=1 << 40, free=CHUNK_SIZE))
    count = 3 * CHUNK_SIZE // PIECE

    for announced in (count * PIECE, None):
        with pytest.raises(StoreUnavailable, match="would take"):
            receive(context(served, room), "big.bin", count, announced=announced)

    assert served.services.store.find_chunks(chunks_of(count)) == {}


def test_a_received_file_that_is_not_named_can_be_taken_back(served: Served) -> None:
    call = context(served)
    file = receive(call, "over-quota.bin", 10)

    asyncio.run(take_back(call, file))

    assert served.services.store.find_chunks(file.chunks) == {}
