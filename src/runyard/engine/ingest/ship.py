"""Receives what supervisors ship while a run lives: journals, side files and logs. Each byte is stored once.

All frames of a request are checked and sorted before anything is stored. The store is asked once per segment how far
it is stored and which names it has defined.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from runyard.core.errors import InvalidArgument, NotFound, ProtocolError
from runyard.core.formats.frames import Frame
from runyard.core.names import check_run_id, check_writer_id, clean_file_name
from runyard.core.records import Mark, Run
from runyard.engine.context import EngineContext
from runyard.engine.ingest.effects import apply_end, apply_event, may_end
from runyard.engine.runs.liveness import note_heartbeat
from runyard.engine.runs.streams import register_stream, stream_folder, stream_key
from runyard.store.base import RunStore, SegmentPart, SegmentState

if TYPE_CHECKING:
    from runyard.engine.ingest.decode import Event


MAX_SEGMENT = 1 << 31
MAX_OFFSET = 1 << 62
MOST_PIECES = 64  # of one journal segment in one request, those that continue each other counted once
Sides = Mapping[tuple[str, int], Mapping[str, memoryview]]  # (writer, segment) → file → body


@dataclass(frozen=True)
class JournalPiece:
    """Bytes of a journal segment from `offset` on."""

    writer: str
    segment: int
    offset: int
    body: memoryview


@dataclass(frozen=True)
class LogPiece:
    """Bytes of a log from `offset` on."""

    name: str
    offset: int
    body: memoryview


@dataclass(frozen=True)
class Shipment:
    """The frames of one ship request, checked and sorted."""

    journals: dict[str, list[JournalPiece]] = field(default_factory=dict)  # by run, the sender's own first
    sides: dict[tuple[str, int], dict[str, memoryview]] = field(default_factory=dict)
    logs: list[LogPiece] = field(default_factory=list)


def sort_frames(run_id: str, frames: Iterable[Frame]) -> Shipment:
    """Return the frames by what they are.

    Raises:
        ProtocolError, InvalidArgument: one of them makes no sense.
    """
    shipment = Shipment(journals={run_id: []})
    for head, body in frames:
        kind = head.get("kind")
        if kind == "log":
            shipment.logs.append(LogPiece(clean_file_name(head.get("name", "")), _count(head, "offset"), body))
            continue
        if kind not in ("journal", "side"):
            raise ProtocolError(f"A frame has the kind {str(kind)[:40]!r}.", why="Known: journal, side, log.")
        writer, segment = check_writer_id(head.get("writer", "")), _count(head, "segment", MAX_SEGMENT)
        if kind == "side":
            shipment.sides.setdefault((writer, segment), {})[str(head.get("file"))] = body
            continue
        named = check_run_id(head.get("run") or run_id)
        shipment.journals.setdefault(named, []).append(JournalPiece(writer, segment, _count(head, "offset"), body))
    for named, pieces in shipment.journals.items():
        shipment.journals[named] = _joined(pieces)
    return shipment


def _joined(pieces: list[JournalPiece]) -> list[JournalPiece]:
    """Return the pieces with those of a segment that continue each other as one: each piece has a price of its own.

    Raises:
        ProtocolError: too many pieces of one segment are left.
    """
    by_segment: dict[tuple[str, int], list[list[JournalPiece]]] = {}
    for piece in pieces:
        chains = by_segment.setdefault((piece.writer, piece.segment), [])
        if chains and chains[-1][-1].offset + len(chains[-1][-1].body) == piece.offset:
            chains[-1].append(piece)
        else:
            chains.append([piece])
    for (writer, segment), chains in by_segment.items():
        if len(chains) > MOST_PIECES:
            raise ProtocolError(
                f"A request holds {len(chains)} separate pieces of segment {segment} of the journal `{writer}`.",
                why=f"{MOST_PIECES} are the most, unless they continue each other.",
            )
    return [_join(chain) for chains in by_segment.values() for chain in chains]


def _join(chain: list[JournalPiece]) -> JournalPiece:
    if len(chain) == 1:
        return chain[0]
    first = chain[0]
    return JournalPiece(first.writer, first.segment, first.offset, memoryview(b"".join(piece.body for piece in chain)))


def _count(head: Mapping[str, Any], key: str, most: int = MAX_OFFSET) -> int:
    value = head.get(key)
    if type(value) is not int or not 0 <= value < most:
        raise InvalidArgument(f"A frame's `{key}` is {str(value)[:40]!r}, not a count.")
    return value


MOST_KNOWN = 20_000


class ShipmentSource(NamedTuple):
    """The processes that send a shipment: those of an attempt, or one external writer, whose attempt is 0."""

    attempt: int
    external_writer: int

    @property
    def log_number(self) -> int:
        """The number in the keys of its logs. External writers count from far above all attempts."""
        return self.external_writer or self.attempt


class SegmentKey(NamedTuple):
    """Which segment of which writer's journal."""

    run_id: str
    source: ShipmentSource
    writer: str
    segment: int


class SegmentMemory:
    """A cache of segment states in front of the store. Thread-safe.

    A thread that stores for a run holds that run's `locks.of_shipments`.
    """

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: OrderedDict[SegmentKey, SegmentState | None] = OrderedDict()

    def get(self, key: SegmentKey) -> SegmentState | None:
        """Return the segment's state, None where nothing is stored; the store is asked when it is not known."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        source = key.source
        found = self._store.find_segment(
            key.run_id, source.attempt, key.writer, key.segment, external_writer=source.external_writer
        )
        self.put(key, found)
        return found

    def put(self, key: SegmentKey, state: SegmentState | None) -> None:
        """Remember a state; the oldest is dropped when there are many."""
        with self._lock:
            self._known[key] = state
            self._known.move_to_end(key)
            if len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)

    def forget(self, keys: Iterable[SegmentKey]) -> None:
        """Drop states that are about to change."""
        with self._lock:
            for key in keys:
                self._known.pop(key, None)

    def forget_run(self, run_id: str) -> None:
        """Drop all states of a deleted run."""
        with self._lock:
            for key in [key for key in self._known if key.run_id == run_id]:
                del self._known[key]


@dataclass(frozen=True)
class ShipAnswer:
    """The answer to a ship request: how far all is stored, and what is wanted of the run."""

    marks: list[Mark]
    logs: dict[str, int]
    desired: str | None
    attempt: int


@dataclass
class _Round:
    """What goes into one transaction, and the END record that stops it."""

    parts: list[SegmentPart] = field(default_factory=list)
    states: dict[SegmentKey, SegmentState | None] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    left: list[JournalPiece] = field(default_factory=list)
    end: Event | None = None


class ShipmentReceiver:
    """Stores what supervisors ship, each byte once. Thread-safe; requests for one run wait for each other."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._memory = SegmentMemory(context.store)
        self._lock = threading.Lock()
        self._registered: OrderedDict[str, None] = OrderedDict()

    def take(self, run_id: str, source: ShipmentSource, frames: Iterable[Frame]) -> ShipAnswer:
        """Store a shipment: logs first, then each run's journals in one transaction.

        Called by request threads; it holds the run's `locks.of_shipments`. It may be repeated: a frame that is stored
        already is passed over. One that leaves a gap is not stored. The answer's marks tell the supervisor both.

        Raises:
            ProtocolError, InvalidArgument: the frames make no sense; nothing was stored.
            NotFound: a frame names a run that is neither a descendant nor the parent.
        """
        shipment = sort_frames(run_id, frames)
        with self._context.locks.of_shipments(run_id):
            run = self._context.store.get_run(run_id)
            if source == (run.attempt, 0):
                run = note_heartbeat(self._context, run, run.attempt)
            logs = self._take_logs(run, source.log_number, shipment)
            marks: list[Mark] = []
            for named, pieces in shipment.journals.items():
                if pieces:
                    marks += self._take_journals(run, named, source, pieces, shipment.sides)
        if logs:
            self._context.events.on_log(run_id)
        return ShipAnswer(marks=marks, logs=logs, desired=run.desired, attempt=run.due_attempt)

    def forget(self, run_id: str) -> None:
        """Drop what is remembered about a deleted run. The caller holds `locks.of_shipments`."""
        self._memory.forget_run(run_id)
        with self._lock:
            for key in [key for key in self._registered if key.startswith(stream_folder(run_id))]:
                del self._registered[key]

    def _take_logs(self, run: Run, number: int, shipment: Shipment) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for piece in shipment.logs:
            key = stream_key(run.id, number, piece.name)
            self._register(run, number, piece.name, key)
            if len(piece.body):
                sizes[piece.name] = self._context.artifacts.append(key, piece.offset, bytes(piece.body))
            else:  # a question: how much is there?
                sizes[piece.name] = self._context.artifacts.stream_size(key)
        return sizes

    def _register(self, run: Run, number: int, name: str, key: str) -> None:
        with self._lock:
            if key in self._registered:
                return
        register_stream(self._context.store, run, number, name)
        with self._lock:
            self._registered[key] = None
            if len(self._registered) > MOST_KNOWN:
                self._registered.popitem(last=False)

    def _take_journals(
        self, run: Run, named: str, source: ShipmentSource, pieces: list[JournalPiece], sides: Sides
    ) -> list[Mark]:
        # Checked here, not before: the sender's own journal, stored a moment ago, may have made this child.
        is_parent = named == run.parent_id and not source.external_writer
        if named != run.id and not is_parent and not self._is_below(named, run.id):
            raise NotFound(f"There is no run `{named}` below `{run.id}`.")
        marks: dict[tuple[str, int], Mark] = {}
        may_still_end = not is_parent and may_end(run if named == run.id else self._context.store.get_run(named))
        while pieces:
            now = self._decode(named, source, pieces, sides, stops_at_end=may_still_end)
            if not is_parent:
                apply_event(self._context, named, now.events)
            for mark in self._commit(named, source, now):
                marks[mark.writer, mark.segment] = mark
            if now.end is not None:
                apply_end(self._context, named, now.end)
                may_still_end = False
            pieces = now.left
        return list(marks.values())

    def _is_below(self, named: str, run_id: str) -> bool:
        return self._context.store.find_run(named) is not None and self._context.store.is_descendant(named, run_id)

    def _decode(
        self,
        named: str,
        source: ShipmentSource,
        pieces: list[JournalPiece],
        sides: Sides,
        *,
        stops_at_end: bool,
    ) -> _Round:
        """Decode pieces, up to the first END record where one can end the run."""
        # numpy loads here, with the first shipment, so that an idle server stays small.
        from runyard.engine.ingest.decode import Origin, decode

        found = _Round()
        for at, piece in enumerate(pieces):
            key = SegmentKey(named, source, piece.writer, piece.segment)
            state = found.states.get(key) or self._memory.get(key)
            found.states[key] = state
            mark, names = (0, {}) if state is None else (state.mark, state.names)
            known = mark - piece.offset
            if not 0 <= known < len(piece.body):
                continue
            decoded = decode(
                piece.body[known:],
                writer=piece.writer,
                segment=piece.segment,
                base=mark,
                names=names,
                origin=None if state is None else Origin(state.rank, state.role, state.wall_offset_ns),
                sides=sides.get((piece.writer, piece.segment)),
                stops_at_end=stops_at_end,
            )
            found.events += decoded.events
            part = decoded.part
            if part.end > part.start:
                found.parts.append(part)
                found.states[key] = SegmentState(
                    part.end, {**names, **part.names}, part.rank, part.role, part.wall_offset_ns
                )
            if decoded.end is not None:
                found.end, found.left = decoded.end, pieces[at:]
                break
        return found

    def _commit(self, named: str, source: ShipmentSource, found: _Round) -> list[Mark]:
        """Store a round's parts and return the marks of all segments it looked at."""
        stored: dict[tuple[str, int], int] = {}
        if found.parts:
            self._memory.forget(found.states)
            marks = self._context.store.ingest(
                named, source.attempt, found.parts, external_writer=source.external_writer
            )
            stored = {(mark.writer, mark.segment): mark.offset for mark in marks}
        answer = []
        for key, state in found.states.items():
            mark = 0 if state is None else state.mark
            offset = stored.get((key.writer, key.segment), mark)
            if offset == mark:
                self._memory.put(key, state)
            answer.append(Mark(key.writer, key.segment, offset))
        return answer
