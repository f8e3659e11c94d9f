"""`python -m runyard.server --home FOLDER`: the private server's process.

The SDK starts it with `--ready-fd`: the process then goes into the background and reports over that pipe that it is
ready, or why it cannot start. With `--repair` the home is repaired instead.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path


def main(arguments: list[str]) -> int:
    _leave_archive(arguments)
    os.umask(0o077)
    # Read by glibc at the start of this process; the runs that we start should choose for themselves.
    os.environ.pop("MALLOC_ARENA_MAX", None)
    use_one_thread_for_algebra()
    home, ready_fd, repairs = _parse(arguments)
    if repairs:
        return _repair(home)
    if ready_fd is not None:
        _detach()
    word = _Word(ready_fd)

    # After the fork: the process that waits for the exit of the first should not wait for these imports.
    from runyard.core.errors import RunyardError, ServerNotStarted

    try:
        return _serve(home, word, in_background=ready_fd is not None)
    except RunyardError as error:
        found = error
    except OSError as error:
        sys.excepthook(*sys.exc_info())
        found = ServerNotStarted(
            "The private server could not be started.",
            why=f"{error}.",
            hint="Check space and permissions of RUNYARD_HOME (`df -h`, `ls -ld`).",
        )
    print(f"error: {found}", file=sys.stderr)
    word.say({"error": found.to_plain()})
    return 1


def _leave_archive(arguments: list[str]) -> None:
    """Start again from the unpacked copy alone when somebody typed `python -m runyard.server` where our wheel is."""
    import runyard

    code = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if not os.path.samefile(os.path.dirname(os.path.dirname(os.path.abspath(runyard.__file__))), code):
        command = [sys.executable, "-m", "runyard.server", *arguments]
        os.execve(sys.executable, command, {**os.environ, "PYTHONPATH": code})


def use_one_thread_for_algebra() -> None:
    """Have numpy's OpenBLAS start no threads: where memory is limited it cannot, and interrupts the process (SIGINT).

    `putenv` and not `os.environ`: our own process reads it, the runs that we start choose for themselves.
    """
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.putenv(name, "1")


class _Word:
    """The report to the process that started us: one JSON object, once."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        if descriptor is not None:
            os.set_inheritable(descriptor, False)  # or the runs that we start keep it open

    def say(self, plain: dict[str, object]) -> None:
        if self._descriptor is None:
            return
        try:
            os.write(self._descriptor, json.dumps(plain).encode() + b"\n")
        except OSError:
            pass  # it did not wait for us
        os.close(self._descriptor)
        self._descriptor = None


def _serve(home: Path | None, word: _Word, *, in_background: bool) -> int:
    # As above.
    from runyard.core.config.paths import server_folder
    from runyard.core.config.settings import read_settings
    from runyard.server.lifecycle import serve
    from runyard.server.log_setup import set_up_logs
    from runyard.server.net.home_lock import prepare_home

    settings = read_settings()
    settings = replace(settings, home=home or settings.home, url=None, token=None)
    prepare_home(settings.home)
    set_up_logs(server_folder(settings.home) / "server.log" if in_background else None, settings.log_level)
    return serve(settings, on_ready=lambda: word.say({"ok": True}))


def _repair(home: Path | None) -> int:
    """Repair the home and print what was found, or why it could not be, as JSON."""
    from runyard.core.config.settings import read_settings
    from runyard.core.errors import RunyardError
    from runyard.server.storage.repair import plain_report, repair_home

    try:
        answer = {"report": plain_report(repair_home(home or read_settings().home))}
    except RunyardError as error:
        print(json.dumps({"error": error.to_plain()}))
        return 1
    print(json.dumps(answer))
    return 0


def _parse(arguments: list[str]) -> tuple[Path | None, int | None, bool]:
    # Only for this, before the fork; argparse's own import is quick.
    import argparse

    parser = argparse.ArgumentParser(prog="python -m runyard.server", description="Runyard's private server.")
    parser.add_argument("--home", help="the folder of its database, artifacts and runs (default: RUNYARD_HOME)")
    parser.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--repair", action="store_true", help="repair the home, print a report as JSON and leave")
    found = parser.parse_args(arguments)
    home = Path(os.path.abspath(os.path.expanduser(found.home))) if found.home else None
    return home, found.ready_fd, found.repair


def _detach() -> None:
    """Let the process that was started end at once: the caller then has no server as a child and need not reap one."""
    if os.fork():
        os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
