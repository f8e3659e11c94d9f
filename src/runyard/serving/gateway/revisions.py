"""One revision of a service: its workers, its queue, and which worker gets what."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from runyard.serving.config import RevisionConfig
from runyard.serving.protocol import Bytes, Json, WireAnswer

if TYPE_CHECKING:
    from runyard.serving.gateway.links import WorkerLink
    from runyard.serving.gateway.services import ScoringService

logger = logging.getLogger(__name__)

_QUICK_US = 1000.0  # a run() that takes less gets several requests in a frame
_QUICK_FRAME = 16
_ids = itertools.count(1)


class Waiting:
    """One request between its arrival and its answer."""

    __slots__ = ("answer", "arrived", "body", "head", "id", "sent", "status", "why")

    def __init__(self, head: bytes, body: Bytes, answer: asyncio.Future[WireAnswer | None]) -> None:
        self.id = next(_ids)
        self.head = head
        self.body = body
        self.answer = answer  # None: `status` and `why` have what became of it
        self.arrived = time.perf_counter()
        self.sent = 0.0
        self.status = 0
        self.why = ""

    def fail(self, status: int, why: str) -> None:
        if not self.answer.done():
            self.status, self.why = status, why
            self.answer.set_result(None)


class Revision:
    """Used on the event loop."""

    def __init__(self, service: ScoringService, config: RevisionConfig) -> None:
        self.service = service
        self.config = config
        self.links: set[WorkerLink] = set()
        self.pending: deque[Waiting] = deque()
        self.ready: Json = {}  # what its workers said about themselves
        self.failure = ""
        self.is_over = False  # its service does not have it any more
        self.is_deleted = False  # with its service: its workers end once nothing waits any more
        self.mean_us = _QUICK_US
        self._free: deque[WorkerLink] = deque()
        self._flush_is_due = False
        self._company: asyncio.TimerHandle | None = None

    @property
    def number(self) -> int:
        return self.config.number

    def configure(self, config: RevisionConfig) -> None:
        """Take over limits; what waits for a revision that has failed is refused."""
        self.config = config
        while config.failed and self.pending:
            self.pending.popleft().fail(503, config.failed)

    def workers(self) -> list[WorkerLink]:
        """Return the workers that can get requests now or later."""
        return [link for link in self.links if link.slots and not link.is_draining and not link.is_stuck]

    def busy(self) -> int:
        return sum(1 for link in self.links if link.in_flight)

    def in_flight(self) -> int:
        return len(self.pending) + sum(len(link.in_flight) for link in self.links)

    def put(self, waiting: Waiting) -> bool:
        """Queue a request; False: the queue is full."""
        if len(self.pending) >= self.config.max_queue:
            return False
        self.pending.append(waiting)
        if len(self.pending) == 1 and not self.workers():
            self.service.services.tell("request_waits", self)  # for a replica that may have to be started
        self._flush_soon()
        self.service.services.watch_time()
        return True

    def take_over(self, other: Revision) -> None:
        """Take what another revision has not begun."""
        self.pending.extend(other.pending)
        other.pending.clear()
        self._flush_soon()

    def on_ready(self, link: WorkerLink, ready: Json) -> None:
        link.slots = max(1, int(ready.get("slots", 1)))
        self.ready = ready
        self.failure = ""
        self._free.append(link)
        self.service.services.tell(
            "worker_ready", self, replica=link.replica, pid=link.pid, kind=ready.get("kind", "script")
        )
        self._flush_soon()

    def on_answers(self, link: WorkerLink, answers: Iterable[WireAnswer]) -> None:
        now = time.perf_counter()
        is_batch = bool(self.ready.get("max_batch"))
        for answer in answers:
            waiting = link.in_flight.pop(answer.id, None)
            if answer.exec_us:
                self.mean_us += 0.2 * (answer.exec_us - self.mean_us)
            if waiting is not None and not waiting.answer.done():
                waiting.answer.set_result(answer)
        if link.in_flight and (is_batch or link.slots == 1):
            return  # the rest of its frame
        if link.slots == 1 or not link.in_flight:
            self.service.add_busy(now - link.busy_since)
            link.frames = 0
        else:
            link.frames = len(link.in_flight)
        if link.is_draining:
            if not link.in_flight:
                link.stop()
        elif link.is_stuck:
            self._replace_when_alone(link)
        else:
            self._free.append(link)
            if self.pending:
                self._flush()

    def on_lost(self, link: WorkerLink, *, has_read: bool) -> None:
        """What a lost worker had begun fails; what it had not begun goes to another.

        Args:
            has_read: it may have read its last frame; else nothing of that was begun.
        """
        self.links.discard(link)
        if link.role != "worker":
            return
        if link in self._free:
            self._free.remove(link)
        lost, again = self._split(link)
        if not has_read and link.slots == 1:  # it has one frame at a time
            lost, again = [], lost + again
        for waiting in lost:
            waiting.fail(
                self.service.config.failure_status,
                "The worker ended while it computed the answer; its log has the reason, beside the request id",
            )
        self.pending.extendleft(reversed(again))
        if link.slots:
            self.service.services.tell("worker_lost", self, replica=link.replica, pid=link.pid, requests=len(lost))
        self._flush_soon()

    def drain(self) -> None:
        """Let all workers finish what they have, then end them; hosts end at once, their workers first."""
        self.is_over = True
        for link in list(self.links):
            if link.role == "worker":
                link.drain()
            else:
                link.stop()

    def drain_replica(self, replica: str) -> None:
        for link in list(self.links):
            if link.replica == replica and link.role == "worker":
                link.drain()

    def expire(self, now: float) -> float:
        """Fail what has waited or run for too long. Return how many seconds there is nothing to do, at least."""
        limits = self.config
        limit_s = (limits.max_wait_ms if self.workers() else limits.cold_start_ms) / 1e3
        while self.pending and (self.pending[0].answer.done() or now - self.pending[0].arrived > limit_s):
            self.pending.popleft().fail(503, self._why_waiting(limit_s))
        for link in list(self.links):
            late = [one for one in link.in_flight.values() if now - one.sent > limits.scoring_timeout_ms / 1e3]
            if late and not link.is_stuck:
                self._on_stuck(link, late)
        return 0.05

    def _why_waiting(self, limit_s: float) -> str:
        if self.workers():
            return f"No worker was free within {limit_s * 1e3:.0f} ms"
        return self.config.failed or self.failure or f"No worker was ready within {limit_s:.0f} s"

    def _on_stuck(self, link: WorkerLink, late: list[Waiting]) -> None:
        limit = self.config.scoring_timeout_ms
        link.is_stuck = True
        if link in self._free:
            self._free.remove(link)
        lost, again = self._split(link)
        for waiting in late:
            if waiting in lost:
                waiting.fail(self.service.config.timeout_status, f"Scoring timeout after {limit} ms")
                link.in_flight.pop(waiting.id, None)
        for waiting in again:
            link.in_flight.pop(waiting.id, None)
        self.pending.extendleft(reversed(again))
        self.service.services.tell("worker_stuck", self, replica=link.replica, pid=link.pid)
        self._replace_when_alone(link)
        self._flush_soon()

    def _replace_when_alone(self, link: WorkerLink) -> None:
        """Have the host kill a hung worker, once none of its other threads computes."""
        if any(not one.answer.done() for one in link.in_flight.values()):
            return
        why = f"run() took longer than {self.config.scoring_timeout_ms} ms (scoring_timeout_ms)"
        hosts = [one for one in self.links if one.role == "host" and one.replica == link.replica]
        for host in hosts:
            host.note(do="replace", pid=link.pid, why=why)
        if not hosts:
            link.abort()

    def _split(self, link: WorkerLink) -> tuple[list[Waiting], list[Waiting]]:
        """Return what the worker has begun, and what it has not: it answers a frame in order."""
        waiting = [one for one in link.in_flight.values() if not one.answer.done()]
        if self.ready.get("max_batch") or link.slots > 1:
            return waiting, []
        return waiting[:1], waiting[1:]

    def _flush_soon(self) -> None:
        """Send at the end of this turn of the loop: what arrives together travels together."""
        if not self._flush_is_due and self.pending and self._free:
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        now = time.perf_counter()
        while self.pending and self._free:
            link = self._free.popleft()
            if not link.is_free:
                continue
            if self._waits_for_company(now):
                self._free.appendleft(link)
                return
            batch = self._next_batch(now)
            if not batch:
                self._free.appendleft(link)
                return
            link.send_requests(batch)
            self.service.add_batch(len(batch))
            if link.is_free:
                self._free.append(link)

    def _next_batch(self, now: float) -> list[Waiting]:
        limit = int(self.ready.get("max_batch") or 0) or self._quick_share()
        batch: list[Waiting] = []
        size = 0
        while self.pending and len(batch) < limit and (not batch or size < 8 << 20):
            waiting = self.pending.popleft()
            if waiting.answer.done():
                continue  # its client is gone
            waiting.sent = now
            size += len(waiting.body)
            self.service.add_queue(now - waiting.arrived)
            batch.append(waiting)
        return batch

    def _quick_share(self) -> int:
        """Return how many requests a frame of a run() without batching gets: several only when it is quick."""
        if self.mean_us >= _QUICK_US / 2 or int(self.ready.get("slots", 1)) > 1:
            return 1
        share = -(-len(self.pending) // (len(self._free) + 1))
        return max(1, min(_QUICK_FRAME, share, int(_QUICK_US / max(1.0, self.mean_us))))

    def _waits_for_company(self, now: float) -> bool:
        """Whether a batch may still grow: only where the script asked for that."""
        wait_s = float(self.ready.get("max_wait_ms") or 0) / 1e3
        if not wait_s or len(self.pending) >= int(self.ready.get("max_batch") or 1):
            return False
        left_s = self.pending[0].arrived + wait_s - now
        if left_s <= 0:
            return False
        if self._company is None:
            self._company = asyncio.get_running_loop().call_later(left_s, self._on_company)
        return True

    def _on_company(self) -> None:
        self._company = None
        self._flush()
