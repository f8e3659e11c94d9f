"""The replica's first process: forks workers, watches them, replaces those that die, hang or grow too large.

It imports no user code, unless WORKER_PRELOAD says that the workers share what the script's import loaded.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
import traceback
from dataclasses import dataclass, replace
from typing import Dict, List, Optional

from runyard.serving.protocol import HELLO, NOTE, PING, PONG, STOP, WireFrame, pack_note, read_note
from runyard.serving.worker.link import Link, LinkLost
from runyard.serving.worker.loading import ModelSource, import_script, load_model
from runyard.serving.worker.script import Script
from runyard.serving.worker.worker import DUMP_SIGNAL, FAILED_START, Place, Worker

_FIRST_BACKOFF_S = 0.5
_LONGEST_BACKOFF_S = 30.0
_MOST_FAILED_STARTS = 5
_STEADY_S = 10.0  # a worker that was ready for so long is replaced at once
_TICK_S = 1.0
_REDIAL_S = 0.2
_DUMP_S = 0.2  # between asking a hung worker for its stacks and killing it
_GRACE_S = 30.0
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


@dataclass
class _Slot:
    """One place for a worker; its process changes."""

    number: int
    pid: int = 0
    pipe: int = -1  # the worker writes one byte when it is ready
    is_ready: bool = False
    ready_at: float = 0.0
    failed_starts: int = 0
    crashes: int = 0
    start_at: float = 0.0
    kill_at: float = 0.0


@dataclass(frozen=True)
class HostPlan:
    """What a replica runs."""

    place: Place
    source: ModelSource
    workers: int = 1
    preload: bool = False
    memory_limit_mb: int = 0
    grace_s: float = _GRACE_S


class ReplicaHost:
    def __init__(self, plan: HostPlan) -> None:
        self._plan = plan
        self._slots = [_Slot(number + 1) for number in range(plan.workers)]
        self._preloaded: List[Optional[Script]] = []
        self._link: Optional[Link] = None
        self._dial_at = 0.0
        self._stop_by: Optional[float] = None
        self._parent = os.getppid()
        self._wakes, wakeup = os.pipe()
        for end in (self._wakes, wakeup):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wakeup)
        self._wakeup = wakeup

    def run(self) -> int:
        """Serve until told to stop. Return 0, or 3 when the script does not load."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_term)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        if self._plan.preload and not self._preload():
            return FAILED_START
        while True:
            now = time.monotonic()
            self._reap(now)
            if self._stop_by is not None and not any(slot.pid for slot in self._slots):
                return 0
            if self._has_failed():
                self._end_all()
                return FAILED_START
            self._start_due(now)
            self._dial(now)
            self._kill_due(now)
            self._check_memory()
            self._wait(now)

    def _preload(self) -> bool:
        try:
            self._preloaded = [import_script(self._plan.source)]
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            self._tell({"is": "failed", "text": traceback.format_exc()[-60_000:]}, at_once=True)
            return False
        return True

    def _start_due(self, now: float) -> None:
        for slot in self._slots:
            if not slot.pid and slot.start_at <= now and self._stop_by is None:
                self._start(slot)

    def _start(self, slot: _Slot) -> None:
        reader, writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            self._become_worker(slot.number, writer)
        os.close(writer)
        slot.pid, slot.pipe, slot.is_ready, slot.kill_at = pid, reader, False, 0.0

    def _become_worker(self, number: int, writer: int) -> None:
        """Run in the forked process, and never return."""
        code = FAILED_START
        try:
            die_with_parent()
            signal.set_wakeup_fd(-1)
            for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
                signal.signal(signum, signal.SIG_DFL)
            for fd in (self._wakes, self._wakeup, *(slot.pipe for slot in self._slots if slot.pipe >= 0)):
                os.close(fd)
            if self._link is not None:
                self._link.close()
            source, preloaded = self._plan.source, self._preloaded

            def load_script() -> Optional[Script]:
                return preloaded[0] if preloaded else import_script(source)

            place = replace(self._plan.place, number=number)
            worker = Worker(place, lambda: load_model(source, load_script), lambda: _say_ready(writer))
            code = worker.run()
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except (OSError, ValueError):
                    pass
            os._exit(code)

    def _reap(self, now: float) -> None:
        for slot in self._slots:
            if slot.pid and not slot.is_ready and _is_readable(slot.pipe) and os.read(slot.pipe, 1):
                slot.is_ready, slot.ready_at, slot.failed_starts = True, now, 0
            if slot.pid and os.waitpid(slot.pid, os.WNOHANG)[0]:
                self._on_exit(slot, now)

    def _on_exit(self, slot: _Slot, now: float) -> None:
        os.close(slot.pipe)
        if slot.is_ready:
            was_steady = now - slot.ready_at > _STEADY_S
            slot.crashes = 0 if was_steady else slot.crashes + 1
            wait_s = 0.0 if slot.crashes <= 1 else backoff(slot.crashes - 1)
            if self._stop_by is None:
                self._say(f"worker {slot.number} (process {slot.pid}) ended; another one starts")
        else:
            slot.failed_starts += 1
            wait_s = backoff(slot.failed_starts)
        slot.pid, slot.pipe, slot.start_at = 0, -1, now + wait_s

    def _has_failed(self) -> bool:
        """Whether no worker can be had: one failed five times in a row, and no other is ready."""
        if any(slot.pid and slot.is_ready for slot in self._slots) or self._stop_by is not None:
            return False
        return any(slot.failed_starts >= _MOST_FAILED_STARTS for slot in self._slots)

    def _kill_due(self, now: float) -> None:
        for slot in self._slots:
            if slot.pid and slot.kill_at and slot.kill_at <= now:
                _signal(slot.pid, signal.SIGKILL)
        if self._stop_by is not None and now > self._stop_by:
            self._end_all()

    def _check_memory(self) -> None:
        limit = self._plan.memory_limit_mb
        for slot in self._slots if limit else ():
            used = _used_mb(slot.pid) if slot.pid and not slot.kill_at else 0
            if used > limit:
                self._say(
                    f"worker {slot.number} (process {slot.pid}) is replaced: it uses {used} MB, "
                    f"and the service's memory limit is {limit} MB (memory_gb)"
                )
                _signal(slot.pid, signal.SIGKILL)
                slot.kill_at = time.monotonic()

    def _wait(self, now: float) -> None:
        dues = [now + _TICK_S, *(slot.start_at for slot in self._slots if not slot.pid and self._stop_by is None)]
        dues += [slot.kill_at for slot in self._slots if slot.pid and slot.kill_at]
        dues += [self._dial_at] if self._link is None else []
        pipes = [slot.pipe for slot in self._slots if slot.pid and not slot.is_ready]
        link = [self._link.socket.fileno()] if self._link is not None else []
        readable = select.select([self._wakes, *pipes, *link], [], [], max(0.0, min(dues) - now))[0]
        if self._wakes in readable:
            os.read(self._wakes, 4096)
        if link and link[0] in readable:
            self._hear()

    def _dial(self, now: float) -> None:
        if self._link is not None or now < self._dial_at:
            return
        try:
            self._link = Link(self._plan.place.gateway, timeout_s=2.0)
            self._link.send([self._hello()])
            if self._stop_by is not None:
                self._tell({"is": "stopping"})
        except LinkLost:
            self._link, self._dial_at = None, now + _REDIAL_S
            if self._stop_by is not None:
                self._end_all()  # nobody is there to say that they may stop

    def _hello(self) -> bytes:
        place = self._plan.place
        plain = {"role": "host", "token": place.token, "service": place.service, "revision": place.revision}
        return pack_note(HELLO, {**plain, "replica": place.replica, "pid": os.getpid()})

    def _hear(self) -> None:
        assert self._link is not None
        try:
            for frame in self._link.receive():
                self._do(frame)
        except LinkLost:
            self._link.close()
            self._link, self._dial_at = None, time.monotonic()

    def _do(self, frame: WireFrame) -> None:
        assert self._link is not None
        if frame.kind == PING:
            self._link.send([pack_note(PONG)])
        elif frame.kind == STOP:
            self._begin_stop()
        elif frame.kind == NOTE:
            note = read_note(frame)
            if note.get("do") == "replace":
                self._replace(int(note.get("pid", 0)), str(note.get("why", "")))

    def _replace(self, pid: int, why: str) -> None:
        for slot in self._slots:
            if slot.pid == pid and pid and not slot.kill_at:
                self._say(f"worker {slot.number} (process {pid}) is replaced: {why}. It was here:")
                _signal(pid, DUMP_SIGNAL)
                slot.kill_at = time.monotonic() + _DUMP_S

    def _on_term(self, _number: int, _frame: object) -> None:
        self._begin_stop()

    def _begin_stop(self) -> None:
        if self._stop_by is not None:
            return
        self._stop_by = time.monotonic() + self._plan.grace_s
        if self._link is not None:
            self._tell({"is": "stopping"})
            for slot in self._slots:
                if slot.pid and not slot.is_ready:
                    _signal(slot.pid, signal.SIGTERM)
        else:
            self._end_all()

    def _tell(self, note: Dict[str, object], *, at_once: bool = False) -> None:
        try:
            if at_once:
                link = Link(self._plan.place.gateway, timeout_s=2.0)
                link.send([self._hello(), pack_note(NOTE, note)])
                link.close()
            elif self._link is not None:
                self._link.send([pack_note(NOTE, note)])
        except LinkLost:
            pass  # the log has it

    def _end_all(self) -> None:
        for slot in self._slots:
            if slot.pid:
                _signal(slot.pid, signal.SIGKILL)

    def _say(self, text: str) -> None:
        print(f"runyard: {text}", file=sys.stderr, flush=True)


def backoff(failures: int) -> float:
    """Return how long to wait after so many failures in a row."""
    return float(min(_LONGEST_BACKOFF_S, _FIRST_BACKOFF_S * 2 ** max(0, failures - 1)))


def die_with_parent() -> None:
    """Have the kernel kill this process when the one that forked it is gone."""
    import ctypes  # only in new workers

    parent = os.getppid()
    try:
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    except (OSError, AttributeError):
        return  # another system; the worker looks at its parent when it dials
    if os.getppid() != parent:
        os._exit(1)


def _say_ready(writer: int) -> None:
    os.write(writer, b"R")
    os.close(writer)


def _is_readable(fd: int) -> bool:
    return bool(select.select([fd], [], [], 0)[0])


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _used_mb(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20
    except (OSError, ValueError, IndexError):
        return 0
