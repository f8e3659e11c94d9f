"""Where a segment's records come from. Its HEADER says so once; later bytes of the segment need it again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runyard.engine.texts import storable

# The store keeps a segment's names by id; ids of real names are not negative.
ORIGIN = -1
INT64 = range(-(1 << 63), 1 << 63)
_RANK_OF_WRITER = re.compile(r"r(\d{1,6})-")


@dataclass(frozen=True)
class Origin:
    rank: int
    role: str
    wall_offset_ns: int


def origin_of(header: Mapping[str, Any], writer: str) -> Origin:
    """Return what a HEADER says; the writer's id tells the rank where it does not."""
    return Origin(_rank(header, writer), storable(str(header.get("role", "worker")))[:64], _wall_offset(header))


def dump_origin(origin: Origin) -> str:
    return json.dumps([origin.rank, origin.role, origin.wall_offset_ns])


def load_origin(text: str | None) -> Origin | None:
    if text is None:
        return None
    rank, role, offset = json.loads(text)
    return Origin(rank, role, offset)


def _rank(header: Mapping[str, Any], writer: str) -> int:
    rank = header.get("rank")
    if type(rank) is int and 0 <= rank < 1 << 31:
        return rank
    match = _RANK_OF_WRITER.match(writer)
    return int(match.group(1)) if match else 0


def _wall_offset(header: Mapping[str, Any]) -> int:
    wall, monotonic = header.get("wall_ns"), header.get("t")
    if type(wall) is not int or type(monotonic) is not int:
        return 0
    offset = wall - monotonic
    return offset if offset in INT64 else 0
