"""The interface through which a supervisor controls the run's processes, and its usual implementation.

Reaper and supervisor exchange JSON lines over a socketpair. The reaper never waits for the supervisor.
"""

from __future__ import annotations

import json
import select
import socket
import threading
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Iterator, List, Mapping, TypedDict

if TYPE_CHECKING:
    from runyard.core.formats.run_files import RankExit, RankStart

READ_BYTES = 1 << 16
ASIDE_S = 2.0


class ChannelClosed(Exception):
    """The process at the other end of the channel is gone."""


class ReaperOrder(TypedDict, total=False):
    """A line from the supervisor to the reaper; `do` says which of the other keys it has."""

    do: str  # launch, start, look, signal, kill, aside or leave
    rank: int  # start
    line: str
    signal: int
    grace_s: float  # kill
    aside: bool
    remove: bool  # leave: the run folder, too


# A line from the reaper to the supervisor. `is` (state, empty or aside) says which of the other keys it has.
ReaperNews = TypedDict(
    "ReaperNews",
    {"is": str, "launched": bool, "ranks": "List[RankStart]", "exits": "List[RankExit]", "aside": bool},
    total=False,
)


class Channel:
    """One end of the socketpair between reaper and supervisor, non-blocking, with a buffer for each direction.

    Not thread-safe: in the reaper its one thread uses it, in the supervisor `ReaperClient` does the locking.
    """

    def __init__(self, link: socket.socket) -> None:
        link.setblocking(False)
        self._link = link
        self._out = bytearray()
        self._in = bytearray()
        self._is_closed = False

    def fileno(self) -> int:
        """Return the socket's descriptor, to poll."""
        return self._link.fileno()

    def close(self) -> None:
        """Close the socket."""
        self._link.close()

    @property
    def is_full(self) -> bool:
        """Whether bytes wait to be sent: poll for writing, then call `flush`."""
        return bool(self._out)

    def send(self, message: Mapping[str, object]) -> None:
        """Send a message; what does not fit into the socket is kept for `flush`. Raises ChannelClosed."""
        self._out += json.dumps(message, separators=(",", ":")).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        """Send what is kept, as far as it fits. Never waits. Raises ChannelClosed."""
        try:
            while self._out:
                del self._out[: self._link.send(self._out)]
        except BlockingIOError:
            pass
        except OSError as error:
            raise ChannelClosed from error

    def send_all(self, message: Mapping[str, object]) -> None:
        """Send a message and wait until the socket has taken all of it. Raises ChannelClosed."""
        self.send(message)
        while self._out:
            select.select([], [self._link], [])
            self.flush()

    def receive(self) -> List[Any]:
        """Return the messages that have arrived. Raises ChannelClosed after the last, when the other end is gone."""
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


class ReaperGone(Exception):
    """The reaper died; `entry.supervise` then lets an adopter go on with the run."""


class ProcessOwner(ABC):
    """Owns the run's processes on this node, as the supervisor sees it.

    The supervisor's main thread calls all methods, except `start` (also the thread `agent`) and `standing_aside` (any
    thread). `launched`, `ranks` and `exits` change in `update` and `look`, `is_empty` in `update` and `kill`. Every
    method may raise ReaperGone.
    """

    launched: bool
    ranks: List[RankStart]
    exits: List[RankExit]
    is_empty: bool

    @abstractmethod
    def fileno(self) -> int:
        """Return a descriptor that is readable when `update` may find news."""
        ...

    @abstractmethod
    def update(self) -> None:
        """Take in news about ranks and exits. Never waits."""
        ...

    @abstractmethod
    def launch(self) -> None:
        """Start the processes of `launch.json`. May be repeated: a second launch does nothing."""
        ...

    @abstractmethod
    def start(self, rank: int, line: str) -> bool:
        """Start a process that waits for mpirun's launch agent. May be repeated. False when that is too late."""

    @abstractmethod
    def look(self) -> None:
        """Take in what rank shims wrote: the starts and ends of ranks that mpirun started."""

    @abstractmethod
    def signal(self, number: int) -> None:
        """Send a signal to every rank's process group, and continue stopped ones."""

    @abstractmethod
    def kill(self, *, grace_s: float) -> None:
        """End all processes, with TERM first if there is a grace; `is_empty` becomes True when none is left."""

    @abstractmethod
    def leave(self, *, remove: bool) -> None:
        """Give up the run for good; remove the run folder if `remove` is set."""

    @contextmanager
    def standing_aside(self) -> Iterator[None]:
        """While this is entered, orphaned processes go to init: a server started here must outlive the run."""
        yield


class ReaperClient(ProcessOwner):
    """The process owner of a run with a reaper: sends orders over the socketpair and reads news from it.

    `_lock` serializes the senders; only the main thread reads.
    """

    def __init__(self, link: socket.socket) -> None:
        self._channel = Channel(link)
        self._aside = threading.Event()
        self._lock = threading.Lock()
        self.launched = False
        self.ranks: List[RankStart] = []
        self.exits: List[RankExit] = []
        self.is_empty = False

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._channel.fileno()

    def update(self) -> None:
        """Read the reaper's news: state, empty, aside. Raises ReaperGone."""
        try:
            for news in self._channel.receive():
                self._take(news)
        except ChannelClosed as error:
            raise ReaperGone from error

    def wait_for_state(self) -> None:
        """Wait for the reaper's first message: what it did for an earlier supervisor. Raises ReaperGone."""
        select.select([self._channel], [], [], 10.0)
        self.update()

    def launch(self) -> None:
        """Order the launch; `launched` becomes True with the reaper's answer."""
        self._say({"do": "launch"})

    def start(self, rank: int, line: str) -> bool:
        """Order the start of the process `rank` with mpirun's line."""
        self._say({"do": "start", "rank": rank, "line": line})
        return True

    def look(self) -> None:
        """Order the reaper to read what rank shims wrote."""
        self._say({"do": "look"})

    def signal(self, number: int) -> None:
        """Order the signal."""
        self._say({"do": "signal", "signal": number})

    def kill(self, *, grace_s: float) -> None:
        """Order the kill; `is_empty` becomes True with the reaper's answer."""
        self.is_empty = False
        self._say({"do": "kill", "grace_s": grace_s})

    def leave(self, *, remove: bool) -> None:
        """Order the reaper to end once this supervisor has ended."""
        self._say({"do": "leave", "remove": remove})

    @contextmanager
    def standing_aside(self) -> Iterator[None]:
        """Let the reaper stop being a subreaper meanwhile; waits up to 2 s for its answer."""
        self._say({"do": "aside", "aside": True})
        self._aside.wait(ASIDE_S)  # the main thread reads the answer in `update`
        try:
            yield
        finally:
            self._aside.clear()
            self._say({"do": "aside", "aside": False})

    def _take(self, news: ReaperNews) -> None:
        if news.get("is") == "state":
            self.launched, self.ranks, self.exits = news["launched"], news["ranks"], news["exits"]
        elif news.get("is") == "empty":
            self.is_empty = True
        elif news.get("is") == "aside" and news["aside"]:
            self._aside.set()

    def _say(self, order: ReaperOrder) -> None:
        try:
            with self._lock:
                self._channel.send_all(order)
        except ChannelClosed as error:
            raise ReaperGone from error
