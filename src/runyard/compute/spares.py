"""Processes that wait, already imported, for a run to supervise: that is how a run starts in milliseconds."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Mapping

from runyard.core.config.settings import Settings
from runyard.core.machine.node_variables import node_variables, supervisor_command

logger = logging.getLogger(__name__)

REFILL_AFTER_S = 0.3  # the run that took the last spare has its first moments for itself
READY = b"ready\n"

# Our settings that supervisors of this machine go by as well.
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


class SparePool:
    """Keeps one spare. Thread-safe; `tend` starts a new one some time after the last was taken."""

    def __init__(self, settings: Settings, environ: Mapping[str, str] | None = None) -> None:
        self._variables = supervisor_variables(settings, os.environ if environ is None else environ)
        self._lock = threading.Lock()
        self._spare: Spare | None = None
        self._refill: threading.Timer | None = None
        self._is_closed = False
        self._fill()

    def start(self, mode: str, folder: str) -> None:
        """Have a run supervised: by the spare, else by a process that starts now."""
        with self._lock:
            spare = self._spare if self._spare is not None and self._spare.is_ready() else None
            if spare is not None:
                self._spare = None
        if spare is None or not spare.tell(mode, folder):
            _spawn([*supervisor_command(), mode, folder], self._variables, stdin=None)
        self._fill_later()

    def tend(self) -> None:
        """Replace a spare that died; collect ended children."""
        collect_children()
        with self._lock:
            dead = self._spare is not None and not self._spare.is_alive()
            if dead:
                self._spare = None
        if dead:
            self._fill()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            spare, self._spare = self._spare, None
            refill, self._refill = self._refill, None
        if refill is not None:
            refill.cancel()
        if spare is not None:
            spare.dismiss()
        collect_children()

    def _fill_later(self) -> None:
        with self._lock:
            if self._is_closed or self._refill is not None:
                return
            self._refill = threading.Timer(REFILL_AFTER_S, self._fill)
            self._refill.daemon = True
            self._refill.start()

    def _fill(self) -> None:
        with self._lock:
            self._refill = None
            if self._is_closed or self._spare is not None:
                return
            try:
                self._spare = Spare(self._variables)
            except OSError as error:
                logger.warning("no spare supervisor: %s", error)


class Spare:
    """One waiting process and the socket that ties it to this one: when we go, it goes."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self.pid = _spawn([*supervisor_command(), "--spare"], variables, stdin=theirs.fileno())
            except BaseException:
                ours.close()
                raise
        ours.setblocking(False)
        self._link = ours
        self._is_ready = False

    def is_ready(self) -> bool:
        try:
            self._is_ready = self._is_ready or self._link.recv(len(READY)) == READY
        except OSError:
            pass
        return self._is_ready

    def is_alive(self) -> bool:
        """Whether its end of the socket is open."""
        try:
            return self._link.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def tell(self, mode: str, folder: str) -> bool:
        order = os.fsencode(f"{mode} {folder}\n")
        try:
            return self._link.send(order) == len(order)
        except OSError:
            return False
        finally:
            self._link.close()

    def dismiss(self) -> None:
        self._link.close()


def supervisor_variables(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of spares and supervisors: an allow list and our own settings."""
    kept = {**node_variables(environ), **{name: environ[name] for name in OURS if name in environ}}
    kept["RUNYARD_HOME"] = str(settings.home)
    return kept


def collect_children() -> None:
    """Collect supervisors that were started here and have ended."""
    with _children_lock:
        for pid in list(_children):
            try:
                ended, _ = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                ended = pid
            if ended:
                _children.discard(pid)


def _spawn(argv: list[str], variables: Mapping[str, str], *, stdin: int | None) -> int:
    collect_children()
    null = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    first = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0) if stdin is None else (os.POSIX_SPAWN_DUP2, stdin, 0)
    actions = [first, null, (os.POSIX_SPAWN_DUP2, 1, 2)]
    pid = os.posix_spawn(argv[0], argv, variables, file_actions=actions, setsigmask=[])
    with _children_lock:
        _children.add(pid)
    return pid


_children: set[int] = set()
_children_lock = threading.Lock()
