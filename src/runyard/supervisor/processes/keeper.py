"""Who keeps the run's processes, as the supervisor sees it: its reaper, at the other end of a socket.

JSON lines over a socketpair, between reaper and supervisor. Neither can make the other wait.
"""

from __future__ import annotations

import json
import select
import socket
import threading
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List

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


ASIDE_S = 2.0


class ReaperGone(Exception):
    """The reaper died; the run goes on with an adopter."""


class ProcessOwner(ABC):
    """`update` reads news without waiting; `fileno` is readable when there may be some."""

    launched: bool
    ranks: List[Dict[str, Any]]
    exits: List[Dict[str, Any]]
    is_empty: bool

    @abstractmethod
    def fileno(self) -> int: ...

    @abstractmethod
    def update(self) -> None: ...

    @abstractmethod
    def launch(self) -> None: ...

    @abstractmethod
    def start(self, rank: int, line: str) -> bool:
        """Start a process that waits for mpirun's launch agent, if it was not started; False when nobody can now."""

    @abstractmethod
    def look(self) -> None:
        """See what rank shims wrote: ranks that mpirun started, and their ends."""

    @abstractmethod
    def signal(self, number: int) -> None:
        """Signal every rank's group; stopped ones are continued."""

    @abstractmethod
    def kill(self, *, grace_s: float) -> None:
        """End all that is left, with TERM first when there is a grace; `is_empty` tells when nothing is."""

    @abstractmethod
    def leave(self, *, remove: bool) -> None:
        """Let go of the run for good."""

    @contextmanager
    def standing_aside(self) -> Iterator[None]:
        """A process that is orphaned meanwhile goes to init: it is not the run's and must outlive it."""
        yield


class ReaperClient(ProcessOwner):
    """The usual one: orders and news over the socketpair."""

    def __init__(self, link: socket.socket) -> None:
        self._channel = Channel(link)
        self._aside = threading.Event()
        self._lock = threading.Lock()
        self.launched = False
        self.ranks: List[Dict[str, Any]] = []
        self.exits: List[Dict[str, Any]] = []
        self.is_empty = False

    def fileno(self) -> int:
        return self._channel.fileno()

    def update(self) -> None:
        """Raises ReaperGone."""
        try:
            for news in self._channel.receive():
                self._take(news)
        except ChannelClosed as error:
            raise ReaperGone from error

    def wait_for_state(self) -> None:
        """Wait for the first news: what the reaper already did for an earlier supervisor."""
        select.select([self._channel], [], [], 10.0)
        self.update()

    def launch(self) -> None:
        self._say({"do": "launch"})

    def start(self, rank: int, line: str) -> bool:
        self._say({"do": "start", "rank": rank, "line": line})
        return True

    def look(self) -> None:
        self._say({"do": "look"})

    def signal(self, number: int) -> None:
        self._say({"do": "signal", "signal": number})

    def kill(self, *, grace_s: float) -> None:
        self.is_empty = False
        self._say({"do": "kill", "grace_s": grace_s})

    def leave(self, *, remove: bool) -> None:
        self._say({"do": "leave", "remove": remove})

    @contextmanager
    def standing_aside(self) -> Iterator[None]:
        self._say({"do": "aside", "aside": True})
        self._aside.wait(ASIDE_S)  # the supervisor's own thread reads the answer
        try:
            yield
        finally:
            self._aside.clear()
            self._say({"do": "aside", "aside": False})

    def _take(self, news: Dict[str, Any]) -> None:
        if news.get("is") == "state":
            self.launched, self.ranks, self.exits = news["launched"], news["ranks"], news["exits"]
        elif news.get("is") == "empty":
            self.is_empty = True
        elif news.get("is") == "aside" and news["aside"]:
            self._aside.set()

    def _say(self, order: Dict[str, Any]) -> None:
        try:
            with self._lock:
                self._channel.send_all(order)
        except ChannelClosed as error:
            raise ReaperGone from error
