"""One ship request, sorted: every frame checked before anything of it is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from runyard.core.errors import InvalidArgument, ProtocolError
from runyard.core.formats.frames import Frame
from runyard.core.names import check_run_id, check_writer_id, clean_file_name

MAX_SEGMENT = 1 << 31
MAX_OFFSET = 1 << 62
MOST_PIECES = 64  # of one journal segment in one request, those that continue each other counted once
Sides = Mapping[tuple[str, int], Mapping[str, memoryview]]  # (writer, segment) → file → body


@dataclass(frozen=True)
class Piece:
    """Bytes of a journal segment from `offset` on."""

    writer: str
    segment: int
    offset: int
    body: memoryview


@dataclass(frozen=True)
class LogPiece:
    name: str
    offset: int
    body: memoryview


@dataclass(frozen=True)
class Shipment:
    journals: dict[str, list[Piece]] = field(default_factory=dict)  # by run, the sender's own first
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
        shipment.journals.setdefault(named, []).append(Piece(writer, segment, _count(head, "offset"), body))
    for named, pieces in shipment.journals.items():
        shipment.journals[named] = _joined(pieces)
    return shipment


def _joined(pieces: list[Piece]) -> list[Piece]:
    """Return the pieces with those of a segment that continue each other as one: each piece has a price of its own.

    Raises:
        ProtocolError: too many pieces of one segment are left.
    """
    by_segment: dict[tuple[str, int], list[list[Piece]]] = {}
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


def _join(chain: list[Piece]) -> Piece:
    if len(chain) == 1:
        return chain[0]
    first = chain[0]
    return Piece(first.writer, first.segment, first.offset, memoryview(b"".join(piece.body for piece in chain)))


def _count(head: Mapping[str, Any], key: str, most: int = MAX_OFFSET) -> int:
    value = head.get(key)
    if type(value) is not int or not 0 <= value < most:
        raise InvalidArgument(f"A frame's `{key}` is {str(value)[:40]!r}, not a count.")
    return value
