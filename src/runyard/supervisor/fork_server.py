"""The fork server: one process that has imported what a supervisor needs, and forks each reaper in about a millisecond.

It has a single thread and no state of any run, so it may be killed at any instant. Its starter (`compute.fork_server`)
sends a line `MODE FOLDER` for each supervisor over the socket that is descriptor 0. It answers each with one byte: `.`
once that supervisor is a process of its own, `!` when no process could be made. Lines without an answer are sent again
to the next fork server.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import traceback
from importlib import import_module
from typing import Callable, Tuple

from runyard.core.config.settings import Settings

# What a run loads on its way to its first line and at its end; these pull in all the rest.
_WARM = (
    "runyard.client.calls.content",
    "runyard.client.calls.runs",
    "runyard.environments.system",
    "runyard.supervisor.supervisor",
    "runyard.supervisor.shipping.shipper",
    "runyard.supervisor.lifecycle.observer",
    "runyard.supervisor.lifecycle.data",
    "runyard.supervisor.diagnosis.diagnosis",
)
FORKED, NOT_FORKED = b".", b"!"
LONGEST_READ = 1 << 16


def warm_up(settings: Settings) -> None:
    """Import and prepare what a run's start and its end need."""
    import ctypes  # noqa: F401  # these and those below are loaded when first used
    import shutil  # noqa: F401

    from runyard.core.formats.plain import from_plain, to_plain
    from runyard.core.lazy_dataclass import make_all
    from runyard.core.specs import JobSpec, RunSpec
    from runyard.environments import get_builder
    from runyard.launchers import get_launcher
    from runyard.runtime.injection import injection_folder

    for name in _WARM:
        import_module(name)
    make_all()
    job = JobSpec("r", 1, "e", "w", RunSpec(), None, {}, "", "", "")
    from_plain(JobSpec, to_plain(job))
    get_builder("system")
    get_builder("uv", settings=settings)
    get_launcher("single")
    try:
        injection_folder(settings.home)
    except OSError:
        pass


def serve_forks(start: Callable[[str, str], int]) -> int:
    """Fork a process for each order, which calls `start(mode, folder)`; return once the starter is gone."""
    gc.collect()
    gc.freeze()  # keeps the memory of what was imported shared with all that is forked
    wake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(wake, select.POLLIN)
    rest = b""
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if wake in ready:
            os.read(wake, LONGEST_READ)
            _collect_children()
        if 0 not in ready:
            continue
        try:
            part = os.read(0, LONGEST_READ)
        except OSError:
            return 0
        if not part:
            return 0
        *orders, rest = (rest + part).split(b"\n")
        for order in orders:
            _fork(order, start, (wake, waker))


def _fork(order: bytes, start: Callable[[str, str], int], ours: Tuple[int, int]) -> None:
    try:
        pid = os.fork()
    except OSError:
        pid = -1
    if pid:
        try:
            os.write(0, FORKED if pid > 0 else NOT_FORKED)
        except OSError:
            pass  # the starter is gone, which the next read tells
        return
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for fd in ours:
            os.close(fd)
        mode, _, path = os.fsdecode(order).partition(" ")
        code = start(mode, path)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _collect_children() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
