"""A disk that is full, or soon will be, is said to every person's program, and not to supervisors."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

from runyard.client import transport
from runyard.client.http1 import Head
from runyard.core.errors import NOTICE_HEADER
from runyard.server.access.permissions import RunPrincipal, UserPrincipal
from runyard.server.storage.disk_watch import DiskWatch, with_notices
from runyard.server.storage.room import ServerDisk
from tests.waiting import wait_for

TOTAL = 1000 * 10**9


class Disk:
    def __init__(self) -> None:
        self.free = 500 * 10**9
        self.now = 0.0
        self.freed = 0
        self.watch = DiskWatch(
            Path("/"), look=lambda _: ServerDisk(TOTAL, self.free), clock=lambda: self.now, make_room=self.make_room
        )

    def make_room(self) -> None:
        self.freed += 1

    def after(self, seconds: float, *, free: int) -> str:
        self.now += seconds
        self.free = free
        return self.watch.notice()


def test_a_disk_with_room_says_nothing() -> None:
    disk = Disk()

    assert [disk.after(60, free=500 * 10**9 - 10**6 * at) for at in range(40)] == [""] * 40


def test_little_room_and_none_are_said() -> None:
    disk = Disk()

    assert disk.after(0, free=10**9).startswith("disk-low The server's disk has only 1.0 GB left. To make")
    assert disk.after(2, free=1000).startswith("disk-full The server's disk is full: ")
    assert disk.after(2, free=500 * 10**9) == ""


def test_what_can_be_made_again_goes_when_the_disk_begins_to_be_short() -> None:
    disk = Disk()
    disk.after(0, free=500 * 10**9)
    assert disk.freed == 0
    disk.after(2, free=10**9)
    disk.after(2, free=1000)
    wait_for(lambda: disk.freed)
    disk.after(2, free=500 * 10**9)
    disk.after(2, free=1000)
    wait_for(lambda: disk.freed == 2)


def test_one_large_upload_is_no_trend() -> None:
    disk = Disk()

    assert [disk.after(20, free=500 * 10**9 - size) for size in (0, 40 * 10**9, 40 * 10**9)] == [""] * 3


def test_a_disk_that_fills_quickly_is_said_before_it_is_full() -> None:
    disk = Disk()
    said = [disk.after(60, free=500 * 10**9 - 8 * 10**9 * at) for at in range(40)]
    first = next(at for at, text in enumerate(said) if text)

    assert first == 9
    assert said[first].startswith(
        "disk-low The server's disk has only 428.0 GB left, and is full in about 59 min if it"
    )
    assert all(said[first:])
    assert [disk.after(600, free=180 * 10**9) for _ in range(4)][-1] == ""  # it fills no longer


@pytest.mark.parametrize(
    ("principal", "told"),
    [(UserPrincipal("ada", "user", 1), True), (RunPrincipal("r1", 1, "default"), False), (None, False)],
    ids=["a person", "a run", "a stranger"],
)
def test_only_people_are_told(principal: object, told: bool) -> None:
    sent: list[MutableMapping[str, Any]] = []

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> None: ...

    scope = {"type": "http", "state": {"principal": principal}}
    asyncio.run(with_notices(app, lambda: "disk-full It is.")(scope, receive, send))

    assert ((NOTICE_HEADER.encode(), b"disk-full It is.") in sent[0]["headers"]) is told


def test_a_client_says_each_kind_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_heard", set())
    for notice in ("disk-low 2 GB \x1b[31mleft", "disk-low 1 GB left", "disk-full It is full."):
        transport._hear(Head(200, {NOTICE_HEADER: notice}, 0, False, True))

    assert capsys.readouterr().err.splitlines() == [
        "runyard: warning: 2 GB [31mleft",
        "runyard: warning: It is full.",
    ]
