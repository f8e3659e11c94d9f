"""The hook in every Python process of a run: it writes facts about the end of the process into the run folder.

`exceptions/<pid>.json` describes an uncaught exception, with its rank and time. `ends/<pid>.json` `{pid, ok, code}`
tells how the rank process itself ended, for a supervisor that finds the reaper, its parent, gone. A rank process leads
its own session, or is named by RUNYARD_RANK_PID. `code` is what `sys.exit()` or `exit()` was last given in the main
thread, 1 after an uncaught exception, else 0. `raise SystemExit(n)` cannot be seen, and `os._exit(n)` leaves no file at
all. So once the reaper is gone, the C library's `exit()` writes `ends/<pid>.code` too: one byte, the very code.

Output that is printed while the disk of its log is full is held in memory: a full disk is no reason for `print` to end
a training run. On STACKS_SIGNAL, sent only when the run seems to hang, Python's stacks go into a file in memory that
the supervisor reads.

`from sklearn.externals import joblib`, which old scripts say, is answered with `joblib`.

This module is loaded at every interpreter start: what it needs later is imported later.
"""

from __future__ import annotations

import _thread
import atexit
import builtins
import io
import os
import sys
import time

TYPE_CHECKING = False  # importing typing to learn this takes longer than all else here
if TYPE_CHECKING:
    from typing import Any, Optional

_MOST_MESSAGE = 3000
_MOST_TRACEBACK = 16000
_UNBUFFERED = 2  # _IONBF
_INTERRUPTED = (
    '{"pid": %d, "rank": %s, "boot_ns": %d, "type": "KeyboardInterrupt", "message": "", "traceback": "", '
    '"missing_module": null}'
)
STACKS_SIGNAL = 50  # a real-time signal that no library is known to use; a number, because `signal` is slow to import
STACKS_NAME = "runyard-stacks"
_NO_SPACE = (28, 122)  # ENOSPC, EDQUOT; importing errno takes longer
_NO_ENTRY = 2  # ENOENT
_MOST_CAUSES = 10  # of an exception, looked at
_OVERFLOW = "overflow"  # as in core/machine/disk.py
_OVERFLOW_S = 2.0  # how long an exception's word waits for the supervisor to make that folder
_STACKS_FD = 950  # out of the way of programs that count on low numbers


class _Ending:
    """What is known about the end of this process."""

    def __init__(self, run_folder: str) -> None:
        self.run_folder = run_folder
        self.pid = os.getpid()
        self.parent = os.getppid()
        self.main_thread = _thread.get_ident()
        self.code = 0
        self.reported: Optional[BaseException] = None


def install(run_folder: str) -> None:
    """Hook in; does nothing when the run folder is not there."""
    if not os.path.isdir(run_folder):
        return
    ending = _Ending(run_folder)
    _guard_output(run_folder)
    _chain_excepthook(ending)
    _enable_faulthandler()
    _answer_for_stacks()
    sys.meta_path.append(_OldModules)  # a class has all that imports call
    if _is_rank_process():
        _watch_exit_codes(ending)
        atexit.register(_write_end, ending)


class _OldModules:
    """Asked last for each module that nothing else has."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith("sklearn.externals."):
            return None
        from runyard.runtime import old_modules

        return old_modules.find_spec(name)


class _PatientFile(io.FileIO):
    """The file below `sys.stdout` or `sys.stderr`: it goes on when its disk is full."""

    run_folder = log = ""
    held: Any = None
    is_leaving = False  # at the exit nothing can wait for later

    def write(self, data: Any, _write: Any = io.FileIO.write) -> int:
        size = left = len(data)
        try:
            while self.held is None:
                left -= _write(self, data)
                if not left:
                    return size
                data = memoryview(data)[-left:]  # with `python -u` no buffer above keeps the rest
        except OSError as error:
            if error.errno not in _NO_SPACE:
                raise
            self._hold(error.errno)
        self.held.write(data)
        return size

    def _hold(self, code: Any) -> None:
        from runyard.runtime.held_output import HeldOutput

        self.held = HeldOutput(self, self.run_folder, log=self.log, code=code)


def _guard_output(run_folder: str) -> None:
    """Put a patient file below those standard streams that are logs of the run."""
    folder = os.path.realpath(f"{run_folder}/user_logs")
    for name in ("stdout", "stderr"):
        stream: Any = getattr(sys, name)
        try:
            fd = stream.fileno()
            log = os.readlink(f"/proc/self/fd/{fd}")
            if os.path.dirname(log) != folder or type(stream) is not io.TextIOWrapper:
                continue
            raw = _PatientFile(fd, "w", closefd=False)
            raw.run_folder, raw.log = run_folder, os.path.basename(log)
            guarded = _wrapped_like(stream, raw, f"<{name}>")
        except Exception:  # there is none, or it is something else
            continue
        setattr(sys, name, guarded)
        setattr(sys, f"__{name}__", guarded)
        atexit.register(_flush_at_exit, guarded, raw)


def _flush_at_exit(stream: Any, raw: Any) -> None:
    """Flush while a full disk can still be dealt with: later Python would end with code 120."""
    raw.is_leaving = True
    try:
        stream.flush()
        if raw.held is not None:
            raw.held.finish()
    except Exception:  # Python flushes once more and says it
        pass


def _wrapped_like(stream: Any, raw: Any, name: str) -> Any:
    """Return a text stream over `raw` that is buffered and encodes as `stream` does."""
    raw.name = name
    is_buffered = isinstance(stream.buffer, io.BufferedWriter)  # not with `python -u`
    guarded: Any = io.TextIOWrapper(
        io.BufferedWriter(raw, raw._blksize) if is_buffered else raw,
        encoding=stream.encoding,
        errors=stream.errors,
        newline="\n",
        line_buffering=stream.line_buffering,
        write_through=not is_buffered,
    )
    guarded.mode = "w"
    return guarded


def _is_rank_process() -> bool:
    named = os.environ.get("RUNYARD_RANK_PID")
    return named == str(os.getpid()) if named else os.getsid(0) == os.getpid()


def _chain_excepthook(ending: _Ending) -> None:
    previous = sys.excepthook

    def excepthook(kind: Any, value: Any, trace: Any) -> None:
        _report(ending, value, trace)
        previous(kind, value, trace)

    sys.excepthook = excepthook


def _enable_faulthandler() -> None:
    import faulthandler

    try:
        if not faulthandler.is_enabled():
            faulthandler.enable()
    except (AttributeError, OSError, RuntimeError, ValueError):  # there is no stderr
        pass


def _answer_for_stacks() -> None:
    """Let STACKS_SIGNAL write the stacks of all threads, also of those that are deep in C code.

    The supervisor sends it only to a process that catches it and still has the file.
    """
    import faulthandler

    try:
        fd = _move_up(os.memfd_create(STACKS_NAME))
    except (AttributeError, OSError):
        return
    try:
        faulthandler.register(STACKS_SIGNAL, file=fd, all_threads=True)
    except (AttributeError, OSError, RuntimeError, ValueError):
        os.close(fd)


def _move_up(fd: int) -> int:
    try:
        os.fstat(_STACKS_FD)
        return fd  # the number is in use
    except OSError:
        pass
    try:
        high = os.dup2(fd, _STACKS_FD, inheritable=False)
    except OSError:  # so many files are not allowed
        return fd
    os.close(fd)
    return high


def _watch_exit_codes(ending: _Ending) -> None:
    quitter: Any = type(builtins.exit)
    leave, leave_by_quitter = sys.exit, quitter.__call__

    def noted_exit(status: Any = None) -> None:
        _note(ending, status)
        leave(status)

    def noted_quit(self: Any, code: Any = None) -> None:
        _note(ending, code)
        leave_by_quitter(self, code)

    noted_exit.__name__ = noted_exit.__qualname__ = "exit"
    noted_exit.__doc__ = leave.__doc__
    sys.exit = noted_exit  # type: ignore[assignment]  # it returns as little as the real one
    quitter.__call__ = noted_quit


def _note(ending: _Ending, status: Any) -> None:
    if _thread.get_ident() == ending.main_thread and os.getpid() == ending.pid:
        ending.code = _exit_code(status)


def _exit_code(status: Any) -> int:
    """Return the exit code that Python makes of SystemExit(status)."""
    if status is None:
        return 0
    return status & 0xFF if isinstance(status, int) else 1


def _report(ending: _Ending, value: Any, trace: Any) -> None:
    """Write exceptions/<pid>.json; whatever goes wrong here, the user's own traceback still appears."""
    try:
        ending.reported = value
        # Any import that calls eval() would make Python forget that it should die by SIGINT.
        facts = _interrupted() if isinstance(value, KeyboardInterrupt) else _describe(value, trace)
        _write(ending.run_folder, "exceptions", facts)
    except Exception:
        pass


def _interrupted() -> str:
    rank = _rank()
    return _INTERRUPTED % (os.getpid(), "null" if rank is None else rank, _boot_ns())


def _describe(value: Any, trace: Any) -> str:
    import json
    import traceback

    kind = type(value)
    facts = {
        "pid": os.getpid(),
        "rank": _rank(),
        "boot_ns": _boot_ns(),
        "type": kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}",
        "message": str(value)[:_MOST_MESSAGE],
        "traceback": "".join(traceback.format_exception(kind, value, trace))[-_MOST_TRACEBACK:],
        "missing_module": value.name if isinstance(value, ModuleNotFoundError) else None,
        "missing_file": _missing_file(value),
    }
    return json.dumps(facts)


def _missing_file(value: Any) -> Optional[str]:
    """Return the path of the file whose absence led to the exception, None when it was something else."""
    for _ in range(_MOST_CAUSES):
        name = value.filename if isinstance(value, OSError) and value.errno == _NO_ENTRY else None
        if isinstance(name, (str, bytes)):
            return os.path.abspath(os.fsdecode(name))
        value = value.__cause__ or value.__context__
        if value is None:
            break
    return None


def _rank() -> Optional[int]:
    text = os.environ.get("RUNYARD_RANK", "")
    return int(text) if text.isdigit() else None


def _boot_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def _write_end(ending: _Ending) -> None:
    if os.getpid() != ending.pid:
        return
    try:
        # Python sets this also where the program put in an excepthook of its own that does not call ours.
        uncaught = getattr(sys, "last_value", None)
        if uncaught is not None and ending.reported is None:
            _report(ending, uncaught, uncaught.__traceback__)
        code = 1 if ending.reported is not None else ending.code
        facts = f'{{"pid": {ending.pid}, "ok": {str(not code).lower()}, "code": {code}}}'
        _write(ending.run_folder, "ends", facts)
        if os.getppid() != ending.parent:  # the reaper is gone and cannot collect the exit code
            _have_code_written(f"{ending.run_folder}/ends/{ending.pid}.code")
        if code and _would_wait_for_peers():
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    except Exception:
        pass


def _would_wait_for_peers() -> bool:
    """Whether mpi4py is about to finalize MPI, which waits for all ranks: after a failure they never come."""
    mpi = sys.modules.get("mpi4py.MPI")
    return mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized()


def _have_code_written(path: str) -> None:
    """Let `exit(code)` call `fputc(code, file)`: the code that Python makes of SystemExit is not known before.

    This is the last of Python's exit functions, so no child can inherit it. Without glibc nothing is written.
    """
    import ctypes

    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    stream = ctypes.c_void_p(libc.fopen(os.fsencode(path), b"wxe"))
    if stream and hasattr(libc, "on_exit"):
        libc.setvbuf(stream, None, _UNBUFFERED, 0)
        libc.on_exit(libc.fputc, stream)


def _write(run_folder: str, folder: str, text: str) -> None:
    """Write `<folder>/<pid>.json`; on a full disk into the supervisor's folder in memory, which it may have to make."""
    try:
        return _write_below(run_folder, folder, text)
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
    from runyard.runtime.appender import wake

    deadline = time.monotonic() + _OVERFLOW_S
    wake(run_folder)
    while not os.path.isdir(f"{run_folder}/{_OVERFLOW}") and time.monotonic() < deadline:
        time.sleep(0.02)
    _write_below(f"{run_folder}/{_OVERFLOW}", folder, text)


def _write_below(root: str, folder: str, text: str) -> None:
    """Write `<folder>/<pid>.json` beside and rename it into place."""
    try:
        os.mkdir(f"{root}/{folder}", 0o700)  # never the run folder itself: one that was removed stays so
    except FileExistsError:
        pass
    path = f"{root}/{folder}/{os.getpid()}.json"
    data = text.encode("utf-8", "backslashreplace")
    fd = os.open(f"{path}.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        while data:
            data = data[os.write(fd, data) :]
    finally:
        os.close(fd)
    os.rename(f"{path}.tmp", path)
