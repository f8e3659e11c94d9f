"""Ships journals and logs: one request per tick with everything that grew, raw bytes, no work per record."""

from __future__ import annotations

import logging
import os
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple

from runyard.core.errors import RunyardError, ServerUnreachable, StoreUnavailable
from runyard.core.journal import CELL
from runyard.supervisor.connection import REFUSALS, Connection
from runyard.supervisor.journals import LEAST_BYTES, PART_BYTES, Journals
from runyard.supervisor.logs import Frame, Log, Logs
from runyard.supervisor.segments import Segment

logger = logging.getLogger(__name__)

REQUEST_BYTES = 8 << 20
MOST_TRIES = 3
LATER = (ServerUnreachable, StoreUnavailable)


class Shipper:
    """Its loop calls `step`; at the end the supervisor drains."""

    def __init__(
        self,
        run_id: str,
        journals: Journals,
        logs: Logs,
        *,
        connection: Connection,
        warn: Callable[[str, str], None],
        hear: Callable[[Optional[str], Optional[Dict[str, Any]], int], None],
    ) -> None:
        self._run_id = run_id
        self._journals = journals
        self._logs = logs
        self._connection = connection
        self._warn = warn
        self._hear = hear
        self._one_by_one = False
        self._lock = threading.Lock()

    def step(self) -> bool:
        """Ship one request's worth; True when more is waiting than went into it."""
        with self._lock:
            self._look()
            if self._one_by_one:
                return self._step_one_by_one()
            frames, is_full = self._gather()
            if frames:
                self._ship(frames)
            return self._journals.take_new_child() or is_full

    def is_drained(self) -> bool:
        """Whether the server holds every whole record and log byte that is on disk now."""
        with self._lock:
            self._look()
            return not self._journals.behind() and not self._logs.behind()

    def facts(self) -> Dict[str, Any]:
        """Return what the final state names: marks and log sizes."""
        return {"marks": self._journals.marks(), "logs": self._logs.sizes()}

    def distrust(self) -> None:
        """The server lacks what we thought it had: let it say again from where."""
        with self._lock:
            self._journals.forget()
            self._logs.forget()

    def sync(self) -> None:
        """Write grown journals to disk; those that the server holds are safe already."""
        for segment in self._journals.unsynced():
            try:
                fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError:
                continue
            try:
                os.fdatasync(fd)
            finally:
                os.close(fd)

    def _look(self) -> None:
        self._journals.look()
        self._logs.look()

    def _gather(self) -> Tuple[List[Frame], bool]:
        frames: List[Frame] = []
        room = REQUEST_BYTES
        asked = False
        for log in self._logs.behind():
            frame = log.frame() if room > 0 else None
            if frame is not None:
                frames.append(frame)
                room -= len(frame[1])
                asked = asked or log.offset is None
        behind = self._journals.behind()
        for segment in behind:
            if room > 0:
                share = max(LEAST_BYTES, REQUEST_BYTES // len(behind))
                part = self._journals.part(segment, most_bytes=share)
                frames += part.frames
                room -= part.size
        return frames, room <= 0 or asked or (bool(frames) and self._has_long_tail())

    def _has_long_tail(self) -> bool:
        """Whether one busy file has more than its share of a request waiting."""
        return any(segment.size - segment.offset > REQUEST_BYTES // 2 for segment in self._journals.behind()) or any(
            log.offset is not None and log.size - log.offset > REQUEST_BYTES // 2 for log in self._logs.behind()
        )

    def _ship(self, frames: List[Frame]) -> None:
        try:
            self._send(frames)
        except LATER:
            raise
        except REFUSALS:
            if not any("run" in head for head, _ in frames):
                raise
            self._one_by_one = True
        except RunyardError as error:
            logger.warning("the server refused a shipment, trying its parts one by one: %s", error)
            self._one_by_one = True

    def _send(self, frames: List[Frame]) -> None:
        answer = self._connection.call(lambda: self._connection.client.runs.ship(self._run_id, frames))
        self._journals.took(answer.marks)
        self._logs.took(answer.logs)
        self._hear(answer.desired, None, answer.attempt)

    def _step_one_by_one(self) -> bool:
        """After a refusal: find what the server cannot take, and after three tries go on without it."""
        for log in self._logs.behind():
            self._ship_log_alone(log)
        for segment in self._journals.behind():
            self._ship_segment_alone(segment)
        self._one_by_one = any(segment.failures for segment in self._journals.behind())
        return not self._one_by_one

    def _ship_log_alone(self, log: Log) -> None:
        frame = log.frame()
        if frame is None or self._try_alone([frame], is_foreign=False):
            return
        log.failures += 1
        if log.failures >= MOST_TRIES:
            self._warn("logs", f"The server cannot take {log.name}; it is not stored.")

    def _ship_segment_alone(self, segment: Segment) -> None:
        """Halve what is refused until the one record is found that the server cannot take."""
        is_foreign = self._journals.is_foreign(segment)
        most_bytes = CELL if segment.failures else PART_BYTES
        while segment.is_behind:
            part = self._journals.part(segment, most_bytes=most_bytes)
            size = part.end - segment.offset
            if not part.frames:
                return
            if self._try_alone(part.frames, is_foreign=is_foreign):
                segment.failures = 0
            elif is_foreign or most_bytes == CELL:
                return self._failed_again(segment, part.end, is_foreign=is_foreign)
            else:
                most_bytes = max(CELL, min(most_bytes, size) // 2 // CELL * CELL)

    def _failed_again(self, segment: Segment, end: int, *, is_foreign: bool) -> None:
        segment.failures += 1
        if segment.failures < MOST_TRIES:
            return
        segment.failures = 0
        if is_foreign:
            segment.is_given_up = True
            self._warn(
                "journal", f"The server does not take records for run {segment.header.get('run')} from this run."
            )
            return
        segment.skipped.append((segment.offset, end))
        self._warn(
            "journal", f"The record at byte {segment.offset} of {segment.name} cannot be stored and was skipped."
        )

    def _try_alone(self, frames: List[Frame], *, is_foreign: bool) -> bool:
        try:
            self._send(frames)
        except LATER:
            raise
        except RunyardError as error:
            if isinstance(error, REFUSALS) and not is_foreign:
                raise
            logger.warning("refused: %s", error)
            return False
        return True
