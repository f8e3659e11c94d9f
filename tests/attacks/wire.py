"""Requests byte by byte: what no well-behaved client would send."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    status: int  # 0: the server closed without an answer
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Wire:
    """One server, over TCP or a unix socket; a new connection for each request."""

    host: str
    port: int
    unix: str | None = None
    timeout_s: float = 20.0

    def connect(self) -> socket.socket:
        if self.unix:
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(self.timeout_s)
            connection.connect(self.unix)
            return connection
        return socket.create_connection((self.host, self.port), timeout=self.timeout_s)

    @property
    def host_header(self) -> str:
        return "runyard" if self.unix else f"{self.host}:{self.port}"

    def send(
        self,
        method: str,
        target: str | bytes,
        *,
        headers: Iterable[tuple[str, str]] = (),
        body: bytes = b"",
        host: str | None = None,
    ) -> Answer:
        """Send exactly this request line and these headers; `Host`, `Content-Length` and `Connection` are added."""
        path = target if isinstance(target, bytes) else target.encode("utf-8", "surrogateescape")
        given = [("Host", self.host_header if host is None else host), ("Connection", "close"), *headers]
        if body or method in ("POST", "PUT", "PATCH"):
            given.append(("Content-Length", str(len(body))))
        head = method.encode() + b" " + path + b" HTTP/1.1\r\n"
        head += b"".join(f"{name}: {value}\r\n".encode("utf-8", "surrogateescape") for name, value in given)
        return self.raw(head + b"\r\n" + body)

    def raw(self, data: bytes) -> Answer:
        with self.connect() as connection:
            try:
                connection.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before all was sent: the answer may still be readable
            return read_answer(connection)


def read_answer(connection: socket.socket) -> Answer:
    received = bytearray()
    try:
        while data := connection.recv(65536):
            received += data
    except (ConnectionResetError, TimeoutError):
        pass
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ")
    status = int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else 0
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    return Answer(status, headers, body)
