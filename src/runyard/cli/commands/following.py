"""Follow a run to its end: its output to stdout as it grows."""

from __future__ import annotations

import sys
import time

import click

from runyard.cli.lookup import no_such_file
from runyard.cli.text import LogPrinter
from runyard.core.errors import NotFound
from runyard.core.records import Run
from runyard.sdk.runs.log_stream import BUILD_WAIT_S, STARTED_AGAIN, is_build_log, next_log, pick_log
from runyard.sdk.runs.pace import Pace
from runyard.sdk.workspaces.server import Client

WAIT_S = 5.0
PART_BYTES = 1 << 20


def find_main_log(client: Client, run_id: str) -> str | None:
    """Return the name of the first process's output, when it has written any."""
    return pick_log(file.name for file in client.runs.files(run_id))


def follow(client: Client, run_id: str, name: str | None = None, *, redact: bool = False) -> Run:
    """Print the run's output, or its file `name`, until the run has ended; return the run as it ended.

    Before it, what was said while its environment was built goes to stderr.
    """
    pace, log = Pace(), _Log(client, run_id, name, redact=redact)
    while True:
        # The status is read before the log: a final one means that every byte is there.
        run = client.runs.get(run_id)
        if run.status.is_terminal:
            log.print_rest()
            return run
        if not log.print_growth(wait_s=WAIT_S):
            time.sleep(pace.next())


def wait(client: Client, run_id: str) -> Run:
    """Return the run once it has ended."""
    pace = Pace()
    while True:
        run = client.runs.get(run_id)
        if run.status.is_terminal:
            return run
        time.sleep(pace.next())


def print_log(client: Client, run_id: str, name: str, *, redact: bool = False) -> None:
    """Print what there is of a file now."""
    _Log(client, run_id, name, redact=redact).print_rest()


class _Log:
    def __init__(self, client: Client, run_id: str, name: str | None, *, redact: bool) -> None:
        self._client = client
        self._run_id = run_id
        self._asked_for = name
        self._name = name
        self._printer = LogPrinter(redact=redact)
        self._talk = LogPrinter(sys.stderr, redact=redact)
        self._offset = 0

    def print_growth(self, *, wait_s: float | None = None) -> bool:
        """Print one part; return whether there was anything new."""
        if self._name is None and not self._move_on():
            return False
        return self._print_part(wait_s) or self._move_on()

    def _print_part(self, wait_s: float | None) -> bool:
        assert self._name is not None
        is_talk = not self._asked_for and is_build_log(self._name)
        wait_s = min(wait_s, BUILD_WAIT_S) if wait_s is not None and is_talk else wait_s
        try:
            part = self._client.runs.read_file(self._run_id, self._name, self._offset, PART_BYTES, wait_s)
        except NotFound:
            return False
        if part.size < self._offset:  # the next attempt's log has taken the name over
            self._offset = 0
            click.echo(STARTED_AGAIN, err=True)
            return True
        (self._talk if is_talk else self._printer).write(part.data)
        self._offset += len(part.data)
        return bool(part.data)

    def _move_on(self) -> bool:
        """Turn to the next log, if there is one."""
        if self._asked_for or (self._name is not None and not is_build_log(self._name)):
            return False
        name = next_log((file.name for file in self._client.runs.files(self._run_id)), self._name)
        if name is None:
            return False
        while self._name is not None and self._print_part(None):  # where the next log is, all of this one is
            pass
        self._name, self._offset = name, 0
        return True

    def print_rest(self) -> None:
        while self.print_growth():
            pass
        self._talk.finish()
        self._printer.finish()
        if self._asked_for and not self._offset:
            self._check_that_it_exists(self._asked_for)

    def _check_that_it_exists(self, name: str) -> None:
        known = [file.name for file in self._client.runs.files(self._run_id)]
        if name not in known:
            raise no_such_file(self._run_id, name, known)
