"""JSON lines over a socketpair, between reaper and supervisor. Neither can make the other wait."""

from __future__ import annotations

import json
import select
import socket
from typing import Any, Dict, List

READ_BYTES = 1 << 16


class ChannelClosed(Exception):
    """The other side is gone."""


class Channel:
    def __init__(self, link: socket.socket) -> None:
        link.setblocking(False)
        self._link = link
        self._out = bytearray()
        self._in = bytearray()
        self._is_closed = False

    def fileno(self) -> int:
        return self._link.fileno()

    def close(self) -> None:
        self._link.close()

    @property
    def is_full(self) -> bool:
        """Whether something waits to be sent: poll for writing, then `flush`."""
        return bool(self._out)

    def send(self, message: Dict[str, Any]) -> None:
        """Send, or keep what does not fit. Raises ChannelClosed."""
        self._out += json.dumps(message, separators=(",", ":")).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        try:
            while self._out:
                del self._out[: self._link.send(self._out)]
        except BlockingIOError:
            pass
        except OSError as error:
            raise ChannelClosed from error

    def send_all(self, message: Dict[str, Any]) -> None:
        """Send and wait until it is gone. Raises ChannelClosed."""
        self.send(message)
        while self._out:
            select.select([], [self._link], [])
            self.flush()

    def receive(self) -> List[Dict[str, Any]]:
        """Return what has come. Raises ChannelClosed once there is nothing more and never will be."""
        if self._is_closed:
            raise ChannelClosed
        self._read()
        lines = self._in.split(b"\n")
        self._in = lines.pop()
        if self._is_closed and not lines:
            raise ChannelClosed
        return [json.loads(line) for line in lines]

    def _read(self) -> None:
        try:
            while True:
                data = self._link.recv(READ_BYTES)
                if not data:
                    self._is_closed = True
                    return
                self._in += data
        except BlockingIOError:
            pass
        except OSError:
            self._is_closed = True
