"""The starter's end of the fork server (`supervisor.fork_server`), which starts supervisors on the server's machine."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping

from runyard.core.config.settings import Settings
from runyard.core.machine.facts import node_variables, supervisor_command

logger = logging.getLogger(__name__)

# The server's settings that supervisors on this machine inherit.
OURS = (
    "RUNYARD_KEEP_RUN_FOLDERS",
    "RUNYARD_LOG_LEVEL",
    "RUNYARD_IDLE_STOP",
    "RUNYARD_PORT",
    "RUNYARD_LOCAL_RUNS",
    "RUNYARD_GPU_DEVICES",
    "RUNYARD_GRACE",
    "RUNYARD_HANG_AFTER",
    "RUNYARD_HANG_FAILS",
    "RUNYARD_SAMPLE_EVERY",
)
SEND_S = 5.0  # its socket is full only when hundreds of orders wait, which it takes within a second
NOT_FORKED = ord("!")
STEADY_S = 1.0  # one that ended sooner is not replaced at once


class ForkServer:
    """Keeps one fork server alive and gives it orders. Thread-safe: `_lock` guards the link and the orders.

    An order is kept until the fork server has answered it, and is given again to the next one. So a supervisor may be
    started twice for a run; the second one finds it claimed and leaves.
    """

    def __init__(self, settings: Settings, environ: Mapping[str, str] | None = None) -> None:
        self._variables = supervisor_variables(settings, os.environ if environ is None else environ)
        self._lock = threading.Lock()
        self._link: socket.socket | None = None
        self._waiting: deque[tuple[str, str]] = deque()
        self._born = 0.0
        self._is_closed = False
        self.pid = 0
        with self._lock:
            self._revive()

    def start(self, mode: str, folder: str) -> None:
        """Start a supervisor for a run: by the fork server, else as a new program."""
        with self._lock:
            self._hear()
            self._waiting.append((mode, folder))
            if (self._link is not None and self._say(mode, folder)) or self._revive():
                return
            self._waiting.remove((mode, folder))
        self.start_logged(mode, folder, os.devnull)

    def start_logged(self, mode: str, folder: str, log: str) -> None:
        """Start a supervisor as a new program whose first words, should it fail, are appended to `log`."""
        _spawn([*supervisor_command(), mode, folder], self._variables, stdin=None, log=log)

    def tend(self) -> None:
        """Replace a fork server that died, and collect ended children. Called with every poll."""
        collect_children()
        with self._lock:
            self._hear()
            if self._link is None:
                self._revive()

    def close(self) -> None:
        """End the fork server and start no more. Supervisors of runs go on."""
        with self._lock:
            self._is_closed = True
            self._drop()
        collect_children()

    def _revive(self) -> bool:
        """Start a fork server and give it the waiting orders; False when that has to wait or cannot be done."""
        self._drop()
        if self._is_closed or time.monotonic() - self._born < STEADY_S:
            return False
        self._born = time.monotonic()
        try:
            self._link, theirs = socket.socketpair()
            with theirs:
                self.pid = _spawn([*supervisor_command(), "--fork-server"], self._variables, stdin=theirs.fileno())
        except OSError as error:  # a program that is gone, or no descriptor is free
            logger.warning("no fork server: %s", error)
            self._drop()
            return False
        return all(self._say(mode, folder) for mode, folder in self._waiting)

    def _say(self, mode: str, folder: str) -> bool:
        try:
            assert self._link is not None
            self._link.settimeout(SEND_S)
            self._link.sendall(os.fsencode(f"{mode} {folder}\n"))
        except OSError as error:
            logger.warning("the fork server does not take orders: %s", error)
            self._drop()
            return False
        return True

    def _hear(self) -> None:
        """Forget the orders that were carried out; drop the link of a fork server that has ended. Never waits."""
        try:
            while self._link is not None:
                self._link.settimeout(0.0)
                answers = self._link.recv(4096)
                for answer in answers:
                    order = self._waiting.popleft()
                    if answer == NOT_FORKED:
                        logger.warning("no supervisor could be forked for %s; the next poll finds that out", order[1])
                if not answers:
                    self._drop()
        except BlockingIOError:
            pass
        except OSError:
            self._drop()

    def _drop(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None


def supervisor_variables(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of supervisors: allowed variables and our own settings."""
    kept = {**node_variables(environ), **{name: environ[name] for name in OURS if name in environ}}
    kept["RUNYARD_HOME"] = str(settings.home)
    return kept


def collect_children() -> None:
    """Collect what was started here and has ended."""
    with _children_lock:
        for pid in list(_children):
            try:
                ended, _ = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                ended = pid
            if ended:
                _children.discard(pid)


def _spawn(argv: list[str], variables: Mapping[str, str], *, stdin: int | None, log: str = os.devnull) -> int:
    collect_children()
    null = (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    first = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0) if stdin is None else (os.POSIX_SPAWN_DUP2, stdin, 0)
    actions = [first, null, (os.POSIX_SPAWN_DUP2, 1, 2)]
    pid = os.posix_spawn(argv[0], argv, variables, file_actions=actions, setsigmask=[])
    with _children_lock:
        _children.add(pid)
    return pid


_children: set[int] = set()
_children_lock = threading.Lock()
