"""Run a program of a build: its output line by line, with a stop at any moment that leaves no process behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
import time
from typing import Mapping, Optional, Sequence

from runyard.environments.base import Check, Say

POLL_S = 0.1
CLOSED_POLL_S = 0.002  # a program that closed its output usually ends in the same moment
SILENCE_S = 20.0


def run_program(
    argv: Sequence[str],
    *,
    environ: Mapping[str, str],
    say: Say,
    check: Check,
    feed: str = "",
    keep: Sequence[int] = (),
) -> int:
    """Return the exit code; both outputs go to `say`. It runs in `/`, so that no project's settings reach it.

    Args:
        check: called several times a second; when it raises, the program and all it started are killed.
        feed: what it reads from its standard input; unlike arguments, it does not show in `ps`.
        keep: descriptors that it inherits.

    Raises:
        OSError: it cannot be started.
    """
    with tempfile.TemporaryFile() as source:
        source.write(feed.encode("utf-8", "surrogateescape"))
        source.seek(0)
        process = subprocess.Popen(
            list(argv),
            env=dict(environ),
            cwd="/",
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=list(keep),
            start_new_session=True,
        )
    try:
        _follow(process, say=say, check=check)
    finally:
        _end(process)
    return process.returncode


def _follow(process: subprocess.Popen[bytes], *, say: Say, check: Check) -> None:
    """Say each line until the program has ended; one that it left running may still hold the pipe."""
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    is_open = True
    began = heard_at = checked_at = time.monotonic()
    rest = b""
    while True:
        has_ended = _has_ended(process)
        data = _read(pipe, 0.0 if has_ended else POLL_S) if is_open else None
        if data:
            heard_at = time.monotonic()
            rest = _say_lines(rest + data, say)
        elif has_ended:
            break
        elif data == b"":
            is_open = False
        elif not is_open:
            time.sleep(CLOSED_POLL_S)
        if time.monotonic() - heard_at >= SILENCE_S:
            heard_at = time.monotonic()
            say(f"… still working after {heard_at - began:.0f} s")
        if time.monotonic() - checked_at >= POLL_S:  # not after every line: it costs more than most of them
            check()
            checked_at = time.monotonic()
    if rest:
        _say_lines(rest + b"\n", say)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """It is not reaped before its group was killed: until then its number cannot be reused."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _read(pipe: int, timeout_s: float) -> Optional[bytes]:
    """Return what came, nothing at its end, None when nothing came in time."""
    ready, _, _ = select.select([pipe], [], [], timeout_s)
    return os.read(pipe, 1 << 16) if ready else None


def _say_lines(data: bytes, say: Say) -> bytes:
    *lines, rest = data.split(b"\n")
    for line in lines:
        say(line.decode("utf-8", "replace").rstrip())
    return rest


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
