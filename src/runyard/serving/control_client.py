"""The engine's side of the gateway's control socket: one request at a time, and a stream of events."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Dict, Optional

from runyard.core.errors import ProtocolError, ServerUnreachable, error_from_plain
from runyard.serving.config import ServiceConfig
from runyard.serving.protocol import Json

SOCKET = "control.sock"


class ControlClient:
    """Not shared between threads. Every call may be repeated: the gateway compares with what it has."""

    def __init__(self, folder: Path, *, timeout_s: float = 10.0) -> None:
        self._path = folder / SOCKET
        self._timeout_s = timeout_s
        self._socket: Optional[socket.socket] = None
        self._unread = b""
        self._count = 0

    def put(self, service: ServiceConfig) -> Json:
        """Add a service, or change it in one step; return its state."""
        return self._ask("put", service=service.to_plain())

    def delete(self, name: str) -> bool:
        return bool(self._ask("delete", service=name)["deleted"])

    def state(self) -> Dict[str, Json]:
        """Return the state of each service, by name."""
        return {one["name"]: one for one in self._ask("state")["services"]}

    def rows(self, name: str, after: int = 0) -> list[Json]:
        """Return the rows of metrics behind row `after`."""
        return list(self._ask("rows", service=name, after=after)["rows"])

    def replace(self, name: str, pid: int, why: str) -> int:
        return int(self._ask("replace", service=name, pid=pid, why=why)["asked"])

    def hello(self) -> Json:
        return self._ask("hello")

    def renew(self, python: str, path: str) -> None:
        """Have the serving process finish its requests and start again, as that interpreter with that PYTHONPATH."""
        self._ask("renew", python=python, path=path)

    def stop(self) -> None:
        """Have the gateway finish its requests and leave."""
        self._ask("stop")

    def watch(self) -> Iterator[Json]:
        """Yield events until the gateway is gone; use a client of its own for this."""
        self._ask("watch")
        if self._socket is not None:
            self._socket.settimeout(None)
        while True:
            line = self._read_line()
            if not line:
                return
            yield json.loads(line)

    def close(self) -> None:
        found, self._socket = self._socket, None
        if found is not None:
            try:
                found.shutdown(socket.SHUT_RDWR)  # wakes a thread that reads events
            except OSError:
                pass  # the gateway was first
            found.close()

    def _ask(self, what: str, **plain: object) -> Json:
        self._count += 1
        line = json.dumps({"id": self._count, "do": what, **plain}).encode() + b"\n"
        try:
            self._connect().sendall(line)
            answer = self._read_line()
        except OSError as error:
            self.close()
            raise ServerUnreachable(f"The gateway does not answer on {self._path}.", why=f"{error}.") from error
        if not answer:
            self.close()
            raise ServerUnreachable(f"The gateway closed {self._path} before it answered.")
        plain_answer = json.loads(answer)
        if "error" in plain_answer:
            raise error_from_plain(plain_answer["error"])
        if plain_answer.get("id") != self._count:
            self.close()
            raise ProtocolError("The gateway answered another question.")
        return dict(plain_answer["ok"])

    def _connect(self) -> socket.socket:
        if self._socket is None:
            self._unread = b""
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.settimeout(self._timeout_s)
            try:
                sock.connect(str(self._path))
            except OSError:
                sock.close()
                raise
            self._socket = sock
        return self._socket

    def _read_line(self) -> bytes:
        while b"\n" not in self._unread:
            sock = self._socket
            part = sock.recv(1 << 16) if sock is not None else b""
            if not part:
                return b""
            self._unread += part
        line, _, self._unread = self._unread.partition(b"\n")
        return line
