"""HTTP/1.1 on one socket, as far as the client needs it: `http.client` alone takes 30 ms to import.

Timeouts are the kernel's (SO_RCVTIMEO, SO_SNDTIMEO), so that `MSG_WAITALL` reads an answer of any size in one call,
straight into the bytes that the caller gets. Heads are peeked at, so nothing is read too far or kept back. `Request` at
the end encodes one request as bytes.
"""

from __future__ import annotations

import json as jsonlib
import socket
import struct
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from runyard import __version__
from runyard.client.address import Address
from runyard.core.errors import ProtocolError, ServerUnreachable

Buffer = Union[bytes, bytearray, memoryview]

MAX_HEAD_BYTES = 64 << 10
MAX_ANSWER_BYTES = 4 << 30
_PEEK = 4096
_PIECE = 1 << 20
_MOST_BUFFERS = 512  # IOV_MAX is 1024 on Linux
_NO_BODY = (204, 304)
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
BASE = "/api/v1"
JSON_TYPE = "application/json"
FRAMES_TYPE = "application/x-runyard-frames"


class Dropped(ConnectionError):
    """The peer closed the connection before its answer was complete."""


class Head(NamedTuple):
    status: int
    headers: Dict[str, str]  # names in small letters
    length: Optional[int]  # None: chunked, or until the peer closes
    chunked: bool
    keep_alive: bool


class Wire:
    """One connection. Not shared between threads."""

    def __init__(self, sock: socket.socket, *, timeout_s: float) -> None:
        self._sock = sock
        self._timeout_s = 0.0
        sock.settimeout(None)
        self.set_timeout(timeout_s)

    def set_timeout(self, timeout_s: float) -> None:
        if timeout_s == self._timeout_s:
            return
        set_timeouts(self._sock, timeout_s)
        self._timeout_s = timeout_s

    def close(self) -> None:
        self._sock.close()

    def __del__(self) -> None:
        # A thread that ends leaves its kept connection behind; that is no mistake to warn about.
        self._sock.close()

    def send(self, pieces: Sequence[Buffer]) -> None:
        """Send all pieces without joining them.

        Raises:
            Dropped: the peer is gone. It may have answered before: `read_head` tells.
        """
        waiting = [memoryview(piece).cast("B") for piece in pieces if len(piece)]
        at = 0
        while at < len(waiting):
            sent = self._send_some(waiting[at : at + _MOST_BUFFERS])
            while at < len(waiting) and sent >= len(waiting[at]):
                sent -= len(waiting[at])
                at += 1
            if sent:
                waiting[at] = waiting[at][sent:]

    def read_head(self, method: str) -> Head:
        """Return the final answer's status and headers; interim (1xx) ones are passed over.

        Raises:
            Dropped: the connection ended before the head did.
            ProtocolError: what came is not HTTP/1.1, or its head is longer than 64 KiB.
        """
        while True:
            head = parse_head(self._read_until(b"\r\n\r\n"), method)
            if head.status >= 200:
                return head

    def read_body(self, head: Head) -> bytes:
        if head.length is None:
            return b"".join(self.iter_body(head))
        if head.length > MAX_ANSWER_BYTES:
            raise _bad("The answer is too large", f"It names {head.length} bytes, {MAX_ANSWER_BYTES} are the most")
        data = self._receive(head.length, socket.MSG_WAITALL) if head.length else b""
        if len(data) == head.length:
            return data
        return b"".join((data, *self._iter_exactly(head.length - len(data))))

    def iter_body(self, head: Head) -> Iterator[bytes]:
        """Yield the body piece by piece, as it comes.

        Raises:
            Dropped: it ended too early.
        """
        if head.length is not None:
            yield from self._iter_exactly(head.length)
        elif head.chunked:
            yield from self._iter_chunks()
        else:
            yield from self._iter_to_end()

    def _iter_exactly(self, left: int) -> Iterator[bytes]:
        while left:
            data = self._receive(min(left, _PIECE), socket.MSG_WAITALL)
            left -= len(data)
            yield data

    def _iter_chunks(self) -> Iterator[bytes]:
        total = 0
        while True:
            size = _chunk_size(self._read_until(b"\r\n"))
            total += size
            if total > MAX_ANSWER_BYTES:
                raise _bad("The answer is too large", f"More than {MAX_ANSWER_BYTES} bytes came")
            if size == 0:
                break
            yield from self._iter_exactly(size)
            if self._read_until(b"\r\n") != b"\r\n":
                raise _bad("The answer's chunks are damaged", "A chunk is longer than it says")
        while self._read_until(b"\r\n") != b"\r\n":
            pass  # trailers say nothing that we use

    def _iter_to_end(self) -> Iterator[bytes]:
        while True:
            try:
                yield self._receive(_PIECE, 0)
            except Dropped:
                return

    def _read_until(self, end: bytes) -> bytes:
        found = b""
        while True:
            seen = self._receive(_PEEK, socket.MSG_PEEK)
            tail = found[-len(end) + 1 :] if found else b""
            at = (tail + seen).find(end)
            take = len(seen) if at < 0 else at + len(end) - len(tail)
            found += self._receive(take, socket.MSG_WAITALL)
            if at >= 0:
                return found
            if len(found) > MAX_HEAD_BYTES:
                raise _bad("The answer's head is too long", f"More than {MAX_HEAD_BYTES} bytes came without its end")

    def _receive(self, size: int, flags: int) -> bytes:
        try:
            data = self._sock.recv(size, flags)
        except BlockingIOError as error:
            raise _timed_out(self._timeout_s) from error
        except OSError as error:
            raise Dropped(str(error)) from error
        if not data:
            raise Dropped("The connection was closed before the answer was complete.")
        return data

    def _send_some(self, buffers: List[memoryview]) -> int:
        try:
            # A program that restored SIGPIPE's default must not die of our socket.
            return self._sock.sendmsg(buffers, (), socket.MSG_NOSIGNAL)
        except BlockingIOError as error:
            raise _timed_out(self._timeout_s) from error
        except OSError as error:
            raise Dropped(str(error)) from error


def set_timeouts(sock: socket.socket, timeout_s: float) -> None:
    """Let the kernel end calls on `sock` after `timeout_s`; unlike `settimeout`, this keeps the socket blocking."""
    microseconds = max(1, int(timeout_s * 1e6))
    value = struct.pack("@ll", microseconds // 1000000, microseconds % 1000000)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        sock.setsockopt(socket.SOL_SOCKET, option, value)


def parse_head(raw: bytes, method: str) -> Head:
    lines = raw.decode("latin-1").split("\r\n")
    status = _status(lines[0])
    headers: Dict[str, str] = {}
    for line in lines[1:]:
        if not line:
            break
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise _bad("The answer's head is damaged", f"A line reads {line[:80]!r}")
        key, value = name.lower(), value.strip()
        if key in headers and key in ("content-length", "transfer-encoding"):
            raise _bad("The answer's head is damaged", f"It holds `{key}` twice")
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return _framed(status, headers, has_body=method != "HEAD" and status >= 200 and status not in _NO_BODY)


def _framed(status: int, headers: Dict[str, str], *, has_body: bool) -> Head:
    encoding = headers.get("transfer-encoding", "").lower()
    length = headers.get("content-length")
    keep_alive = headers.get("connection", "").lower() != "close"
    if not has_body:
        return Head(status, headers, 0, False, keep_alive)
    if encoding:
        if encoding != "chunked" or length is not None:
            raise _bad(
                "The answer's head is damaged", f"Its transfer encoding is {encoding[:40]!r}, its length {length}"
            )
        return Head(status, headers, None, True, keep_alive)
    if length is None:
        return Head(status, headers, None, False, False)
    if not (length.isascii() and length.isdigit()):
        raise _bad("The answer's head is damaged", f"Its length is {length[:40]!r}")
    return Head(status, headers, int(length), False, keep_alive)


def _status(line: str) -> int:
    version, _, rest = line.partition(" ")
    if not version.startswith("HTTP/1.") or not rest[:3].isdigit() or rest[3:4] not in ("", " "):
        raise _bad("This is no Runyard server", f"Its answer starts with {line[:80]!r}")
    return int(rest[:3])


def _chunk_size(line: bytes) -> int:
    text = line.partition(b";")[0].strip()
    if not 0 < len(text) <= 8 or text.strip(b"0123456789abcdefABCDEF"):
        raise _bad("The answer's chunks are damaged", f"A chunk's size reads {line[:40]!r}")
    return int(text, 16)


def _bad(what: str, why: str) -> ProtocolError:
    return ProtocolError(f"{what}.", why=f"{why}.", hint="Is RUNYARD_URL the address of a Runyard server?")


def _timed_out(timeout_s: float) -> ServerUnreachable:
    return ServerUnreachable(
        f"The server did not answer within {timeout_s:g} s.",
        why="It is busy, stopped by a signal, or the network between is gone.",
        hint="Look at `runyard server status` and the end of its log.",
    )


def quote(text: str, *, safe: bytes = b"") -> str:
    """Percent-encode `text` for a path part or a query value."""
    raw = text.encode("utf-8", "surrogatepass")
    return "".join(chr(byte) if byte in _PLAIN or byte in safe else f"%{byte:02X}" for byte in raw)


def quote_name(name: str) -> str:
    """Percent-encode an asset's name for a path part, twice where it is not plain: `/` and `..` arrive as they are."""
    return quote(quote(name) if name.strip(".") else name.replace(".", "%2E"))


Query = Union[Mapping[str, Any], Sequence[Tuple[str, Any]]]
Body = Union[Buffer, Sequence[Buffer]]


class UploadBody(NamedTuple):
    """The first `size` bytes of a file as a request's body, read while they are sent."""

    path: str
    size: int

    def iter_pieces(self) -> Iterator[bytes]:
        """Raises OSError: the file cannot be read, or has become shorter."""
        left = self.size
        with open(self.path, "rb") as file:
            while left:
                piece = file.read(min(left, _PIECE))
                if not piece:
                    raise OSError(f"{self.path} became shorter while it was sent")
                left -= len(piece)
                yield piece


class Request(NamedTuple):
    method: str
    path: str
    query: Optional[Query] = None
    json: Any = None
    body: Optional[Body] = None
    headers: Optional[Mapping[str, str]] = None
    base: str = BASE
    file: Optional[UploadBody] = None  # follows the other pieces

    def pieces(self, address: Address) -> List[Buffer]:
        payload, content_type = self._payload()
        fields = {
            "Host": address.authority,
            "User-Agent": f"runyard/{__version__}",
            "Authorization": f"Bearer {address.token}",
            **content_type,
        }
        if payload or self.method not in ("GET", "HEAD"):
            size = self.file.size if self.file else 0
            fields["Content-Length"] = str(sum(len(piece) for piece in payload) + size)
        fields.update(self.headers or {})
        start = f"{self.method} {self.base}{self.path}{_query_text(self.query)} HTTP/1.1"
        lines = [start, *(f"{name}: {value}" for name, value in fields.items())]
        if any("\n" in line or "\r" in line for line in lines):
            raise ProtocolError("A request's head holds a line break.", why="A path or header value was not encoded.")
        return [("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"), *payload]

    def _payload(self) -> Tuple[List[Buffer], Dict[str, str]]:
        if self.json is not None:
            return [jsonlib.dumps(self.json, separators=(",", ":")).encode()], {"Content-Type": JSON_TYPE}
        if self.body is None:
            return [], {}
        if isinstance(self.body, (bytes, bytearray, memoryview)):
            return [self.body], {"Content-Type": FRAMES_TYPE}
        return list(self.body), {"Content-Type": FRAMES_TYPE}


def _query_text(query: Optional[Query]) -> str:
    if not query:
        return ""
    pairs = query.items() if isinstance(query, Mapping) else query
    parts = [f"{quote(name)}={quote(_query_value(value))}" for name, value in pairs if value is not None]
    return "?" + "&".join(parts) if parts else ""


def _query_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
