"""Kills under load: what a service must survive, one piece at a time.

Only requests that were under way at the killed piece may fail; what is sent after its death is answered.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.serving.deployed.live import LiveService, client, gateway_pid, keeper_pid, server_pid
from tests.serving.load import Load, Sent, kill, steady_load
from tests.waiting import wait_for

PER_SECOND = 100
# A quarter of two workers' time, so that many a kill meets a request.
SCRIPT = """
    import time
    def init(): pass
    def run(data):
        time.sleep(0.005)
        return data
"""


@dataclass(frozen=True)
class Piece:
    """A kind of process. `fails` is how many requests one death may cost at most; None: those at it, however many."""

    find: Callable[[LiveService], list[int]]
    fails: int | None
    status: int | None  # of those that fail; 0: the connection ended


PIECES = {
    "worker": Piece(lambda service: [one["pid"] for one in service.workers()], 1, 500),
    "host": Piece(lambda service: service.hosts(), 2, 500),
    "supervisor": Piece(lambda service: service.supervisors(), 0, None),
    "gateway": Piece(lambda service: [gateway_pid()], None, 0),
    "keeper": Piece(lambda service: [keeper_pid()], 0, None),
    "server": Piece(lambda service: [server_pid()], 0, None),
}


@dataclass
class Killed:
    """What a series of kills of one piece cost."""

    piece: str
    moments: list[tuple[float, float]] = field(default_factory=list)  # before the signal, after the death
    recovered_s: list[float] = field(default_factory=list)  # until the first answer to what was sent afterwards
    sent: int = 0
    failed: list[Sent] = field(default_factory=list)

    def unexplained(self) -> list[Sent]:
        """Return the failures that no kill explains: nothing of them was under way when a process died."""
        return [
            one
            for one in self.failed
            if not any(one.started <= gone and one.ended >= before for before, gone in self.moments)
        ]

    def tell(self) -> str:
        slowest = max(self.recovered_s, default=0.0)
        statuses = dict(Counter(one.status for one in self.failed))
        return (
            f"{self.piece}: {len(self.moments)} kills, {self.sent} requests, {len(self.failed)} failed {statuses}, "
            f"{len(self.unexplained())} of them unexplained, answers again after {slowest:.2f} s at most"
        )


def kill_under_load(service: LiveService, piece: str, count: int) -> Killed:
    """Kill a process of that kind so many times while requests go on."""
    killed = Killed(piece)
    with steady_load(service, per_second=PER_SECOND) as load:
        for _ in range(count):
            load.wait_for_more(PER_SECOND // 2)
            _kill_one(service, piece, killed, load)
        load.wait_for_more(PER_SECOND)
    killed.sent, killed.failed = len(load.sent), load.failed()
    return killed


def check(killed: Killed) -> None:
    """Fail where a request was lost that no death explains."""
    piece = PIECES[killed.piece]
    assert killed.unexplained() == [], killed.tell()
    if piece.status is not None:
        assert {one.status for one in killed.failed} <= {piece.status}, killed.tell()
    if piece.fails is not None:
        assert len(killed.failed) <= piece.fails * len(killed.moments), killed.tell()


def _kill_one(service: LiveService, piece: str, killed: Killed, load: Load) -> None:
    find = PIECES[piece].find
    (victim, *others) = wait_for(lambda: find(service), what=piece)
    before = time.monotonic()
    gone = kill(victim)
    killed.moments.append((before, gone))
    wait_for(lambda: any(one.status == 200 and one.started > gone for one in load.sent), timeout_s=120)
    killed.recovered_s.append(min(one.ended for one in load.sent if one.status == 200 and one.started > gone) - gone)
    if piece == "server":
        client()  # as the next command of a user does
    wait_for(lambda: len([pid for pid in find(service) if pid != victim]) > len(others), timeout_s=120, what=piece)
