"""Follow a run to its end: its output to stdout as it grows."""

from __future__ import annotations

import time

from runyard.cli.finding import no_such_file
from runyard.cli.text import LogPrinter
from runyard.core.errors import NotFound
from runyard.core.records import Run
from runyard.sdk.pace import Pace
from runyard.sdk.server import Client
from runyard.sdk.streaming import pick_log

WAIT_S = 5.0
PART_BYTES = 1 << 20


def find_main_log(client: Client, run_id: str) -> str | None:
    """Return the name of the first process's output, when it has written any."""
    return pick_log(file.name for file in client.runs.files(run_id))


def follow(client: Client, run_id: str, name: str | None = None) -> Run:
    """Print the run's output, or its file `name`, until the run has ended; return the run as it ended."""
    pace, log = Pace(), _Log(client, run_id, name)
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


def print_log(client: Client, run_id: str, name: str) -> None:
    """Print what there is of a file now."""
    _Log(client, run_id, name).print_rest()


class _Log:
    def __init__(self, client: Client, run_id: str, name: str | None) -> None:
        self._client = client
        self._run_id = run_id
        self._asked_for = name
        self._name = name
        self._printer = LogPrinter()
        self._offset = 0

    def print_growth(self, *, wait_s: float | None = None) -> bool:
        """Print one part; return whether there was anything new."""
        self._name = self._name or find_main_log(self._client, self._run_id)
        if self._name is None:
            return False
        try:
            part = self._client.runs.read_file(self._run_id, self._name, self._offset, PART_BYTES, wait_s)
        except NotFound:
            return False
        self._printer.write(part.data)
        self._offset += len(part.data)
        return bool(part.data)

    def print_rest(self) -> None:
        while self.print_growth():
            pass
        if self._asked_for and not self._offset:
            self._check_that_it_exists(self._asked_for)

    def _check_that_it_exists(self, name: str) -> None:
        known = [file.name for file in self._client.runs.files(self._run_id)]
        if name not in known:
            raise no_such_file(self._run_id, name, known)
