"""What supervisors send while a run lives: journal bytes, side files and logs; each byte is stored exactly once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runyard.core.attempts import is_writer
from runyard.core.errors import NotFound
from runyard.core.formats.frames import Frame
from runyard.core.records import Mark, Run
from runyard.engine.context import Yard
from runyard.engine.ingest.effects import act, act_on_end, may_end
from runyard.engine.ingest.segments import MOST_KNOWN, SegmentKey, SegmentMemory, SegmentState
from runyard.engine.ingest.shipments import Piece, Shipment, Sides, sort_frames
from runyard.engine.runs.liveness import hear
from runyard.engine.runs.streams import register_stream, stream_folder, stream_key
from runyard.store.base import SegmentPart

if TYPE_CHECKING:
    from runyard.engine.ingest.decode import Event


@dataclass(frozen=True)
class ShipAnswer:
    marks: list[Mark]
    logs: dict[str, int]
    desired: str | None
    attempt: int


@dataclass
class _Round:
    """What goes into one transaction, and the END record that stops it."""

    parts: list[SegmentPart] = field(default_factory=list)
    states: dict[SegmentKey, SegmentState] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    left: list[Piece] = field(default_factory=list)
    end: Event | None = None


class Shipping:
    def __init__(self, yard: Yard) -> None:
        self._yard = yard
        self._memory = SegmentMemory(yard.store)
        self._lock = threading.Lock()
        self._registered: OrderedDict[str, None] = OrderedDict()

    def take(self, run_id: str, attempt: int, frames: Iterable[Frame]) -> ShipAnswer:
        """Store a shipment: logs first, then each run's journals in one transaction.

        A frame that was stored before is passed over; one that leaves a gap is not stored: the answer's marks tell.

        Raises:
            ProtocolError, InvalidArgument: the frames make no sense; nothing was stored.
            NotFound: a frame names a run that is neither a descendant nor the parent.
        """
        shipment = sort_frames(run_id, frames)
        with self._yard.shipping(run_id):
            run = self._yard.store.get_run(run_id)
            if attempt == run.attempt:
                run = hear(self._yard, run, attempt)
            logs = self._take_logs(run, attempt, shipment)
            marks: list[Mark] = []
            for named, pieces in shipment.journals.items():
                if pieces:
                    marks += self._take_journals(run, named, attempt, pieces, shipment.sides)
        if logs:
            self._yard.on_log(run_id)
        return ShipAnswer(marks=marks, logs=logs, desired=run.desired, attempt=run.due_attempt)

    def forget(self, run_id: str) -> None:
        """Let go of what is remembered about a deleted run. The caller holds its shipping lock."""
        self._memory.forget_run(run_id)
        with self._lock:
            for key in [key for key in self._registered if key.startswith(stream_folder(run_id))]:
                del self._registered[key]

    def _take_logs(self, run: Run, attempt: int, shipment: Shipment) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for piece in shipment.logs:
            key = stream_key(run.id, attempt, piece.name)
            self._register(run, attempt, piece.name, key)
            if len(piece.body):
                sizes[piece.name] = self._yard.artifacts.append(key, piece.offset, bytes(piece.body))
            else:  # a question: how much is there?
                sizes[piece.name] = self._yard.artifacts.stream_size(key)
        return sizes

    def _register(self, run: Run, attempt: int, name: str, key: str) -> None:
        with self._lock:
            if key in self._registered:
                return
        register_stream(self._yard, run, attempt, name)
        with self._lock:
            self._registered[key] = None
            if len(self._registered) > MOST_KNOWN:
                self._registered.popitem(last=False)

    def _take_journals(self, run: Run, named: str, attempt: int, pieces: list[Piece], sides: Sides) -> list[Mark]:
        # Checked here, not before: the sender's own journal, stored a moment ago, may have made this child.
        is_parent = named == run.parent_id and not is_writer(attempt)
        if named != run.id and not is_parent and not self._is_below(named, run.id):
            raise NotFound(f"There is no run `{named}` below `{run.id}`.")
        marks: dict[tuple[str, int], Mark] = {}
        may_still_end = not is_parent and may_end(run if named == run.id else self._yard.store.get_run(named))
        while pieces:
            now = self._decode(named, attempt, pieces, sides, stops_at_end=may_still_end)
            if not is_parent:
                act(self._yard, named, now.events)
            for mark in self._commit(named, attempt, now):
                marks[mark.writer, mark.segment] = mark
            if now.end is not None:
                act_on_end(self._yard, named, now.end)
                may_still_end = False
            pieces = now.left
        return list(marks.values())

    def _is_below(self, named: str, run_id: str) -> bool:
        return self._yard.store.find_run(named) is not None and self._yard.store.is_descendant(named, run_id)

    def _decode(
        self,
        named: str,
        attempt: int,
        pieces: list[Piece],
        sides: Sides,
        *,
        stops_at_end: bool,
    ) -> _Round:
        """Decode pieces, up to the first END record where one can end the run."""
        # numpy loads here, with the first shipment, so that an idle server stays small.
        from runyard.engine.ingest.decode import decode

        found = _Round()
        for at, piece in enumerate(pieces):
            key = SegmentKey(named, attempt, piece.writer, piece.segment)
            state = found.states.get(key) or self._memory.get(key)
            found.states[key] = state
            known = state.mark - piece.offset
            if not 0 <= known < len(piece.body):
                continue
            decoded = decode(
                piece.body[known:],
                writer=piece.writer,
                segment=piece.segment,
                base=state.mark,
                names=state.names,
                sides=sides.get((piece.writer, piece.segment)),
                stops_at_end=stops_at_end,
            )
            found.events += decoded.events
            if decoded.part.end > decoded.part.start:
                found.parts.append(decoded.part)
                found.states[key] = SegmentState(decoded.part.end, {**state.names, **decoded.part.names})
            if decoded.end is not None:
                found.end, found.left = decoded.end, pieces[at:]
                break
        return found

    def _commit(self, named: str, attempt: int, found: _Round) -> list[Mark]:
        """Store a round's parts and return the marks of all segments it looked at."""
        stored: dict[tuple[str, int], int] = {}
        if found.parts:
            self._memory.forget(found.states)
            marks = self._yard.store.ingest(named, attempt, found.parts)
            stored = {(mark.writer, mark.segment): mark.offset for mark in marks}
        answer = []
        for key, state in found.states.items():
            offset = stored.get((key.writer, key.segment), state.mark)
            if offset == state.mark:
                self._memory.put(key, state)
            answer.append(Mark(key.writer, key.segment, offset))
        return answer
