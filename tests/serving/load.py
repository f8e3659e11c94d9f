"""Steady load on a service: so many requests a second, each on a connection of its own, and what became of each."""

from __future__ import annotations

import http.client
import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.serving.deployments import send
from tests.waiting import wait_for

COOKIE = "SERVING_TEST_COOKIE"
_SENDERS = 16


class Scored(Protocol):
    """A service at its address."""

    @property
    def port(self) -> int: ...

    @property
    def path(self) -> str: ...


@dataclass(frozen=True)
class Sent:
    """One request; status 0: its connection ended without an answer."""

    started: float
    ended: float
    status: int
    body: bytes


@dataclass
class Load:
    """Filled by the senders while `steady_load` runs."""

    sent: list[Sent] = field(default_factory=list)

    def wait_for_more(self, count: int) -> None:
        """Wait until so many more requests were answered by the service."""
        before = self._answered()
        wait_for(lambda: self._answered() >= before + count, what=self.failed)

    def failed(self) -> list[Sent]:
        return [one for one in self.sent if one.status != 200]

    def _answered(self) -> int:
        return sum(one.status == 200 for one in self.sent)


@contextmanager
def steady_load(service: Scored, *, per_second: int = 200, body: str = "x") -> Iterator[Load]:
    """Send requests at moments that do not depend on the answers, until the block ends."""
    load, over = Load(), threading.Event()
    began, numbers = time.monotonic(), iter(range(1 << 30))
    turn = threading.Lock()

    def work() -> None:
        while not over.is_set():
            with turn:
                due = began + next(numbers) / per_second
            if over.wait(max(0.0, due - time.monotonic())):
                return
            load.sent.append(_send(service, body))

    senders = [threading.Thread(target=work) for _ in range(_SENDERS)]
    for sender in senders:
        sender.start()
    try:
        yield load
    finally:
        over.set()
        for sender in senders:
            sender.join()


def _send(service: Scored, body: str) -> Sent:
    started = time.monotonic()
    try:
        answer = send(service.port, "POST", f"{service.path}/score", body)
        return Sent(started, time.monotonic(), answer.status, answer.body)
    except (OSError, http.client.HTTPException):
        return Sent(started, time.monotonic(), 0, b"")


def kill(pid: int) -> float:
    """Kill a process and return the moment when it was gone."""
    descriptor = os.pidfd_open(pid)
    try:
        os.kill(pid, signal.SIGKILL)
        assert select.select([descriptor], [], [], 30)[0]
        return time.monotonic()
    finally:
        os.close(descriptor)


def processes_with(cookie: str) -> dict[int, str]:
    """Return the command lines of the processes that have this cookie among their variables, by process id."""
    found = {}
    mark = f"{COOKIE}={cookie}\0".encode()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (path / "environ").read_bytes() + b"\0":
                found[int(path.name)] = (path / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue  # gone meanwhile, or another user's
    return found
