"""All services of a gateway: what it was told, who is connected, what happened."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import random
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from runyard.serving.config import ServiceConfig
from runyard.serving.gateway.access import Doorkeeper
from runyard.serving.gateway.access_log import AccessLog
from runyard.serving.gateway.figures import Figures, prometheus_text
from runyard.serving.gateway.links import WorkerLink
from runyard.serving.gateway.revisions import Revision
from runyard.serving.protocol import Json
from runyard.serving.tokens import digest_of

logger = logging.getLogger(__name__)

ROW_S = 10.0
_KEPT_ROWS = 8640  # a day
_MOST_ROW_BYTES = 8 << 20


class ScoringService:
    """One service and its revisions. Used on the event loop."""

    def __init__(self, services: ServiceTable, config: ServiceConfig, folder: Path) -> None:
        self.services = services
        self.revisions: dict[int, Revision] = {}
        self.total = Figures()
        self.present = Figures()
        self.port_fault = ""
        self.rows: deque[dict[str, float]] = deque(maxlen=_KEPT_ROWS)
        self.log = AccessLog(folder / "logs" / f"{config.name}.log")
        self._row_file = folder / "metrics" / f"{config.name}.jsonl"
        self._next_row = 1
        self._read_rows()
        self.configure(config)

    def configure(self, config: ServiceConfig) -> None:
        """Take over a record in one step: the next request already follows it."""
        self.config = config
        self.doorkeeper = Doorkeeper(config, self.services.names)
        wanted = {one.number: one for one in config.revisions}
        for number, one in wanted.items():
            if number in self.revisions:
                self.revisions[number].configure(one)
            else:
                self.revisions[number] = Revision(self, one)
        shares = [(self.revisions[number], weight) for number, weight in config.weights if weight > 0]
        self._shares = shares or [(self.revisions[number], 1.0) for number in list(wanted)[-1:]]
        self._sum = sum(weight for _, weight in self._shares)
        taking = {revision for revision, _ in self._shares}
        for number, revision in list(self.revisions.items()):
            if revision not in taking and revision.pending and self._shares:
                self._shares[0][0].take_over(revision)
            if number not in wanted:
                del self.revisions[number]
                revision.drain()

    def choose(self) -> Revision | None:
        """Return the revision of the next request, by weights."""
        if len(self._shares) == 1:
            return self._shares[0][0]
        left = random.random() * self._sum
        for revision, weight in self._shares:
            left -= weight
            if left < 0:
                return revision
        return self._shares[-1][0] if self._shares else None

    def is_ready(self) -> bool:
        return any(revision.workers() for revision, _ in self._shares)

    def add_batch(self, size: int) -> None:
        self.total.batches[size] += 1
        self.present.batches[size] += 1

    def add_queue(self, seconds: float) -> None:
        self.total.queue.add(seconds)
        self.present.queue.add(seconds)

    def add_busy(self, seconds: float) -> None:
        self.total.busy_s += seconds
        self.present.busy_s += seconds

    def add_answer(self, status: int, seconds: float, size_in: int, size_out: int) -> None:
        self.total.add(status, seconds, size_in, size_out)
        self.present.add(status, seconds, size_in, size_out)

    def gauges(self) -> dict[str, float]:
        revisions = self.revisions.values()
        return {
            "workers": sum(len(one.workers()) for one in revisions),
            "workers_busy": sum(one.busy() for one in revisions),
            "queue_length": sum(len(one.pending) for one in revisions),
            "memory_mb": round(sum(link.rss_kb for one in revisions for link in one.links) / 1024, 1),
        }

    def end_row(self, now: float) -> dict[str, float] | None:
        """Close the present row and keep it, in memory and in a file; None when nothing happened."""
        figures, self.present = self.present, Figures()
        gauges = self.gauges()
        if not figures.latency.count and not gauges["workers"]:
            return None
        row = {"row": self._next_row, **figures.row(now), **gauges}
        self._next_row += 1
        self.rows.append(row)
        try:
            with open(self._row_file, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
                is_full = file.tell() > _MOST_ROW_BYTES
            if is_full:
                os.replace(self._row_file, f"{self._row_file}.1")
        except OSError as error:
            logger.warning("The metrics of %s cannot be kept: %s.", self.config.name, error)
        return row

    def state(self) -> Json:
        return {
            "name": self.config.name,
            "revisions": [
                {
                    "number": revision.number,
                    "weight": dict(self.config.weights).get(revision.number, 0.0),
                    "workers": len(revision.workers()),
                    "busy": revision.busy(),
                    "queue": len(revision.pending),
                    "in_flight": revision.in_flight(),
                    "failure": revision.failure,
                    "kind": revision.ready.get("kind", ""),
                    "replicas": _replicas(revision),
                }
                for revision in self.revisions.values()
            ],
            "port_fault": self.port_fault,
            "requests": self.total.latency.count,
            "row": self._next_row - 1,
        }

    def forget(self) -> None:
        """Remove its files: another service may get the name."""
        self.log.forget()
        for path in (self._row_file, Path(f"{self._row_file}.1")):
            path.unlink(missing_ok=True)

    def _read_rows(self) -> None:
        try:
            lines = self._row_file.read_bytes().splitlines()[-_KEPT_ROWS:]
        except OSError:
            return
        for line in lines:
            try:
                row = json.loads(line)
                self._next_row = int(row["row"]) + 1
            except (ValueError, KeyError, TypeError):
                continue  # cut off by a kill
            self.rows.append(row)


class ServiceTable:
    """The services by name, the connections of their workers, and those who listen to events."""

    def __init__(self, folder: Path, names: frozenset[str] = frozenset()) -> None:
        for part in ("logs", "metrics"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.names = names
        self.by_name: dict[str, ScoringService] = {}
        self.by_score_path: dict[str, ScoringService] = {}
        self.links: set[WorkerLink] = set()
        self.listeners: set[Callable[[Json], None]] = set()
        self.bytes_held = 0
        self._timer: asyncio.TimerHandle | None = None

    def put(self, config: ServiceConfig) -> ScoringService:
        """Add or change a service."""
        service = self.by_name.get(config.name)
        if service is None:
            service = self.by_name[config.name] = ScoringService(self, config, self.folder)
            self.by_score_path[f"/api/v1/service/{config.name}/score"] = service
        else:
            service.configure(config)
        return service

    def delete(self, name: str) -> bool:
        """Remove a service: what is under way is answered, what comes later gets 404. False: it is not there."""
        service = self.by_name.pop(name, None)
        if service is None:
            return False
        self.by_score_path.pop(f"/api/v1/service/{name}/score", None)
        service.forget()
        for revision in service.revisions.values():
            revision.is_deleted = True
            _drain_when_empty(revision)
        return True

    def find_revision(self, name: str, number: object, token: str) -> Revision | None:
        """Return the revision that a worker belongs to, when its token says so."""
        service = self.by_name.get(name)
        revision = service.revisions.get(number) if service is not None and isinstance(number, int) else None
        if revision is None:
            return None
        wanted = revision.config.worker_token
        return revision if wanted and hmac.compare_digest(wanted, digest_of(token)) else None

    def on_note(self, link: WorkerLink, note: Json) -> None:
        """Take what a worker or a host says about itself."""
        revision = link.revision
        if revision is None:
            return
        if note.get("is") == "stopping":
            if revision.is_deleted and revision.pending:
                return  # its replicas were canceled; they end once nothing waits any more
            if link.role == "host":
                revision.drain_replica(link.replica)
            else:
                link.drain()
        elif note.get("is") == "failed":
            revision.failure = str(note.get("text", ""))
            self.tell("worker_failed", revision, replica=link.replica, pid=link.pid, text=revision.failure)

    def tell(self, event: str, revision: Revision, **plain: object) -> None:
        """Pass an event to those who listen on the control socket."""
        said = {"event": event, "service": revision.service.config.name, "revision": revision.number, **plain}
        shown = {name: value for name, value in said.items() if name != "text"}
        logger.info("%s", json.dumps(shown))
        for listener in list(self.listeners):
            listener(said)

    def watch_time(self) -> None:
        """Look after limits of time while there are requests."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(0.05, self._on_time)

    def tick(self) -> None:
        """Called once a second."""
        now = time.monotonic()
        for link in list(self.links):
            link.tick(now)
        for service in self.by_name.values():
            service.log.flush()

    def end_rows(self, now: float) -> None:
        for service in self.by_name.values():
            row = service.end_row(now)
            if row is not None:
                for listener in list(self.listeners):
                    listener({"event": "row", "service": service.config.name, **row})

    def metrics_text(self) -> str:
        return prometheus_text({name: (one.total, one.gauges()) for name, one in self.by_name.items()})

    def _on_time(self) -> None:
        self._timer = None
        now = time.perf_counter()
        revisions = [revision for service in self.by_name.values() for revision in service.revisions.values()]
        revisions += [link.revision for link in self.links if link.revision is not None and link.in_flight]
        for revision in revisions:
            revision.expire(now)
        if any(revision.in_flight() for revision in revisions):
            self.watch_time()


def _drain_when_empty(revision: Revision) -> None:
    """Let the workers of a deleted service answer its queue before they end."""
    if revision.pending and revision.workers():
        asyncio.get_running_loop().call_later(0.05, _drain_when_empty, revision)
        return
    while revision.pending:
        revision.pending.popleft().fail(404, "The service was deleted")
    revision.drain()


def _replicas(revision: Revision) -> list[Json]:
    found: dict[str, Json] = {}
    for link in revision.links:
        one = found.setdefault(link.replica, {"name": link.replica, "host": False, "ready": 0, "workers": []})
        if link.role == "host":
            one["host"] = True
        else:
            one["ready"] += bool(link.slots and not link.is_draining)
            one["workers"].append(
                {"pid": link.pid, "number": link.number, "busy": bool(link.in_flight), "rss_kb": link.rss_kb}
            )
    return list(found.values())
