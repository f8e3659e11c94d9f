"""Requests as bytes, to say what no client would."""

from __future__ import annotations

import select
import socket
import time
from dataclasses import dataclass
from typing import NamedTuple


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Door:
    """One of a server's two sockets."""

    family: socket.AddressFamily
    place: str | tuple[str, int]
    host: str

    def connect(self, timeout_s: float = 60.0) -> socket.socket:
        sock = socket.socket(self.family, socket.SOCK_STREAM)
        sock.settimeout(timeout_s)
        sock.connect(self.place)
        return sock

    def ask(
        self, method: str, target: str, headers: list[str] | None = None, body: bytes = b"", *, host: str | None = None
    ) -> Answer:
        """Send one request with exactly these header lines, `Host` and `Content-Length` apart."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self.host if host is None else host}", *(headers or [])]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        return self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)

    def send(self, data: bytes) -> Answer:
        with self.connect() as sock:
            try:
                sock.sendall(data)
            except OSError:
                pass  # refused before it was read; the answer says why
            return read_answer(sock)


def unix_door(path: str) -> Door:
    return Door(socket.AF_UNIX, path, "runyard")


def tcp_door(port: int) -> Door:
    return Door(socket.AF_INET, ("127.0.0.1", port), f"127.0.0.1:{port}")


def read_answer(sock: socket.socket) -> Answer:
    """Read one answer; status 0 when the server closed without one."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = _receive(sock)
        if not piece:
            return Answer(0, {}, data)
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    length = int(headers.get("content-length", "0"))
    while len(body) < length:
        piece = _receive(sock)
        if not piece:
            break
        body += piece
    return Answer(int(lines[0].split(" ")[1]), headers, body)


def is_closed(sock: socket.socket, *, within_s: float) -> bool:
    """Whether the server closes the connection in time; what it still sends is read."""
    sock.settimeout(0.1)
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if not sock.recv(65536):
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


def is_hung_up(sock: socket.socket, *, within_s: float) -> bool:
    """Whether the server closes in time, seen without reading anything."""
    poll = select.poll()
    poll.register(sock, select.POLLHUP | select.POLLRDHUP)
    return bool(poll.poll(within_s * 1000))


def _receive(sock: socket.socket) -> bytes:
    try:
        return sock.recv(1 << 20)
    except ConnectionError:
        return b""
