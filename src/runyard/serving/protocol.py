"""Frames between gateway and worker: a fixed head, then requests, answers or one JSON object.

    frame    = size of the payload (u32), kind (u8), 0 (u8), items (u16), payload; little endian
    request  = id (u64), bytes of its head (u32), bytes of its body (u32), head, body
    answer   = id (u64), status (u16), flags (u8), 0 (u8), µs in the script (u32), bytes of its head (u32), bytes of its
               body (u32), head, body
    head     = lines: of a request its method, its target, then name and value of each header in turn; of an answer the
               names and values alone

The worker opens the connection, says HELLO with its token and later READY; only then it is sent requests. One frame of
requests is one piece of work; its answers come back in one frame or in several, in any order.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Tuple, Union

from runyard.core.errors import ProtocolError

HELLO, READY, REQUESTS, ANSWERS, PING, PONG, STOP, NOTE = range(1, 9)

FAILED = 1  # a flag of an answer: run() raised, or said that it failed
TIMED = 2  # a flag of an answer: its µs are those of a run() that returned

MAX_PAYLOAD = 1 << 30
_FRAME = struct.Struct("<IBBH")
_REQUEST = struct.Struct("<QII")
_ANSWER = struct.Struct("<QHBBIII")
_SMALL = 1 << 16
_MAX_US = (1 << 32) - 1

Bytes = Union[bytes, bytearray, memoryview]
Json = Dict[str, Any]  # an object of a user, of a framework or of OpenAPI: its keys are not ours
Header = Tuple[bytes, bytes]


class WireFrame(NamedTuple):
    kind: int
    items: int
    payload: Bytes


class WireRequest(NamedTuple):
    id: int
    head: bytes
    body: Bytes


class WireAnswer(NamedTuple):
    id: int
    status: int
    flags: int
    exec_us: int
    head: bytes
    body: Bytes


def pack_requests(requests: Iterable[WireRequest]) -> List[Bytes]:
    """Return the pieces of one frame; large bodies are pieces of their own, so that nobody copies them."""
    pieces: List[Bytes] = []
    for request in requests:
        pieces += (_REQUEST.pack(request.id, len(request.head), len(request.body)), request.head, request.body)
    return _frame(REQUESTS, len(pieces) // 3, pieces)


def pack_answers(answers: Iterable[WireAnswer]) -> List[Bytes]:
    """Return the pieces of one frame, as `pack_requests`."""
    pieces: List[Bytes] = []
    for one in answers:
        exec_us = min(one.exec_us, _MAX_US)
        fixed = _ANSWER.pack(one.id, one.status, one.flags, 0, exec_us, len(one.head), len(one.body))
        pieces += (fixed, one.head, one.body)
    return _frame(ANSWERS, len(pieces) // 3, pieces)


def pack_note(kind: int, plain: Mapping[str, object] | None = None) -> bytes:
    """Return a frame with one JSON object; with None, one without a payload."""
    payload = json.dumps(plain, separators=(",", ":")).encode() if plain is not None else b""
    return _FRAME.pack(len(payload), kind, 0, 0) + payload


def read_note(frame: WireFrame) -> Json:
    """Return the object of a frame with JSON.

    Raises:
        ProtocolError: it holds none.
    """
    try:
        plain = json.loads(bytes(frame.payload)) if len(frame.payload) else {}
    except (ValueError, RecursionError) as error:
        raise ProtocolError("A frame's JSON cannot be read.", why=f"{error}.") from error
    if not isinstance(plain, dict):
        raise ProtocolError("A frame's JSON is not an object.")
    return plain


def iter_requests(frame: WireFrame) -> Iterator[WireRequest]:
    """Yield the requests of a frame; large bodies are views into it.

    Raises:
        ProtocolError: the payload is not what the frame says.
    """
    at, data = 0, _sliced(frame.payload)
    for _ in range(frame.items):
        _check(at + _REQUEST.size, data)
        number, head, body = _REQUEST.unpack_from(data, at)
        at += _REQUEST.size
        _check(at + head + body, data)
        yield WireRequest(number, bytes(data[at : at + head]), data[at + head : at + head + body])
        at += head + body


def iter_answers(frame: WireFrame) -> Iterator[WireAnswer]:
    """Yield the answers of a frame, as `iter_requests`."""
    at, data = 0, _sliced(frame.payload)
    for _ in range(frame.items):
        _check(at + _ANSWER.size, data)
        number, status, flags, _unused, exec_us, head, body = _ANSWER.unpack_from(data, at)
        at += _ANSWER.size
        _check(at + head + body, data)
        yield WireAnswer(
            number, status, flags, exec_us, bytes(data[at : at + head]), data[at + head : at + head + body]
        )
        at += head + body


def pack_headers(headers: Iterable[Header]) -> bytes:
    return b"\n".join([part for pair in headers for part in pair])


def read_headers(head: bytes, skip: int = 0) -> List[Header]:
    """Return names and values; `skip` leaves out the first lines.

    Raises:
        ProtocolError: a name has no value.
    """
    lines = head.split(b"\n")[skip:] if head else []
    if len(lines) % 2:
        raise ProtocolError("A head is cut off.", why=f"It has {len(lines)} names and values.")
    return list(zip(lines[::2], lines[1::2]))


class FrameBuffer:
    """Bytes of a connection become frames: fill `get_buffer()`, then say `buffer_updated` how much.

    What `asyncio.BufferedProtocol` asks for, and what `recv_into` fills. Large payloads are received in place.
    """

    def __init__(self) -> None:
        self._room = memoryview(bytearray(_SMALL))
        self._start = 0
        self._end = 0
        self._large: WireFrame | None = None
        self._filled = 0

    def get_buffer(self) -> memoryview:
        if self._large is not None:
            return memoryview(self._large.payload)[self._filled :]
        return self._room[self._end :]

    def buffer_updated(self, count: int) -> List[WireFrame]:
        """Return the frames that are whole now.

        Raises:
            ProtocolError: a frame is larger than any of ours.
        """
        if self._large is not None:
            self._filled += count
            if self._filled < len(self._large.payload):
                return []
            whole, self._large = self._large, None
            return [whole]
        self._end += count
        return self._cut()

    def _cut(self) -> List[WireFrame]:
        frames: List[WireFrame] = []
        start, end, room = self._start, self._end, self._room
        while end - start >= _FRAME.size:
            size, kind, _, items = _FRAME.unpack_from(room, start)
            if size > MAX_PAYLOAD:
                raise ProtocolError("A frame is too large.", why=f"It names {size} bytes.")
            begin = start + _FRAME.size
            if begin + size <= end:
                frames.append(WireFrame(kind, items, bytes(room[begin : begin + size])))
                start = begin + size
            elif _FRAME.size + size > len(room):
                self._large = WireFrame(kind, items, bytearray(size))
                self._filled = end - begin
                memoryview(self._large.payload)[: self._filled] = room[begin:end]
                start = end
            else:
                break
        if start == end:
            start = end = 0
        elif start:
            room[: end - start] = bytes(room[start:end])
            start, end = 0, end - start
        self._start, self._end = start, end
        return frames


def _frame(kind: int, items: int, pieces: List[Bytes]) -> List[Bytes]:
    size = sum(map(len, pieces))
    head = _FRAME.pack(size, kind, 0, items)
    if size < _SMALL:
        return [b"".join([head, *pieces])]
    return [head, *(piece for piece in pieces if len(piece))]


def _sliced(payload: Bytes) -> Bytes:
    return payload if isinstance(payload, bytes) else memoryview(payload)  # a slice of a bytearray would be a copy


def _check(end: int, data: Bytes) -> None:
    if end > len(data):
        raise ProtocolError("A frame is cut off.", why=f"It names {end} bytes and has {len(data)}.")
