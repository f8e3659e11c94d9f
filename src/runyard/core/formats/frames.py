"""Frames: byte strings with a JSON head each, several in one request body. Shipments and content travel so."""

from __future__ import annotations

import json
import struct
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Tuple, Union

from runyard.core.errors import ProtocolError

_LENGTHS = struct.Struct("<II")  # head bytes, body bytes
MAX_HEAD = 1 << 20

Frame = Tuple[Dict[str, Any], memoryview]  # its head's keys are those of the route that it travels on
Bytes = Union[bytes, bytearray, memoryview]


def pack_frame(head: Mapping[str, object], body: Bytes = b"") -> List[Bytes]:
    """Return the pieces of one frame; join the pieces of all frames into the request's body."""
    text = json.dumps(head, separators=(",", ":")).encode()
    return [_LENGTHS.pack(len(text), len(body)), text, body]


def pack_head(head: Mapping[str, object], body_size: int) -> bytes:
    """Return the beginning of a frame whose body follows in pieces."""
    text = json.dumps(head, separators=(",", ":")).encode()
    return _LENGTHS.pack(len(text), body_size) + text


def join_frames(frames: Iterable[Tuple[Mapping[str, object], Bytes]]) -> bytes:
    pieces: List[Bytes] = []
    for head, body in frames:
        pieces += pack_frame(head, body)
    return b"".join(pieces)


def iter_frames(data: bytes | memoryview) -> Iterator[Frame]:
    """Yield (head, body) of each frame; the body is a view into `data`.

    Raises:
        ProtocolError: the bytes are not frames.
    """
    view = memoryview(data)
    at = 0
    while at < len(view):
        if at + _LENGTHS.size > len(view):
            raise ProtocolError("A frame is cut off.", why=f"{len(view) - at} bytes are left where a frame starts.")
        head_size, body_size = _LENGTHS.unpack_from(view, at)
        start = at + _LENGTHS.size
        if head_size > MAX_HEAD or start + head_size + body_size > len(view):
            raise ProtocolError(
                "A frame is cut off.", why=f"It names {head_size}+{body_size} bytes, {len(view) - start} are left."
            )
        try:
            head = json.loads(bytes(view[start : start + head_size]))
        except (ValueError, RecursionError) as error:
            raise ProtocolError("A frame's head is not JSON.") from error
        if not isinstance(head, dict):
            raise ProtocolError("A frame's head is not a JSON object.")
        yield head, view[start + head_size : start + head_size + body_size]
        at = start + head_size + body_size
