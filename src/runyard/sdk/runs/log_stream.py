"""Print a run's log while it grows: lines show when the server has them, and at the end all of them were shown."""

from __future__ import annotations

import codecs
import re
import time
from typing import TYPE_CHECKING, Iterable, Optional, TextIO

from runyard.core.errors import NotFound
from runyard.sdk.runs.details import PollInterval, RetryRead
from runyard.sdk.runs.waiting import WaitingLine

if TYPE_CHECKING:
    from runyard.client.client import Client
    from runyard.core import records

# The first process's log, in the names of the newer and the older runtime; a worker's comes after a server's.
_FIRST = re.compile(r"user_logs/std_log\D*0*(_ps|_worker)?\.txt|azureml-logs/(?:\d\d.*|hyperdrive)\.txt")
_PREFERRED = re.compile(r"rank_0|worker_0")
_BUILD = re.compile(r"azureml-logs/20_[^/]*\.txt")
PART_BYTES = 1 << 20
WAIT_S = 5.0
STARTED_AGAIN = "The run is started again: its machine was lost, or it was preempted."
BUILD_WAIT_S = 0.25  # the program's own log comes next and must not wait


def pick_log(names: Iterable[str]) -> Optional[str]:
    """Return the log to show: the last in sort order of those that belong to the first process."""
    logs = sorted(name for name in names if _FIRST.fullmatch(name))
    preferred = [name for name in logs if _PREFERRED.search(name)]
    chosen = preferred or logs
    return chosen[-1] if chosen else None


def next_log(names: Iterable[str], shown: Optional[str]) -> Optional[str]:
    """Return the log to show after `shown` (None: the first): a build's, then the program's. None: not there yet."""
    if shown is not None and not is_build_log(shown):
        return None
    names = sorted(names)
    builds = [name for name in names if is_build_log(name) and name > (shown or "")]
    return builds[0] if builds else pick_log(name for name in names if not is_build_log(name))


def is_build_log(name: str) -> bool:
    return _BUILD.fullmatch(name) is not None


class LogStream:
    """Writes to `out`; bytes that are no UTF-8 show as replacement characters."""

    def __init__(self, client: Client, run_id: str, out: TextIO, *, wait_s: float = WAIT_S) -> None:
        self._client = client
        self._run_id = run_id
        self._out = out
        self._wait_s = wait_s
        self._patience = RetryRead()
        self._name: Optional[str] = None
        self._offset = 0
        self._complete = False
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._at_line_start = True
        self._waiting: Optional[WaitingLine] = None

    def follow(self) -> records.Run:
        """Show the log until the run has ended; return the run as it then was."""
        pace = PollInterval()
        with WaitingLine(self._run_id) as self._waiting:
            while True:
                run = self._patience.ask(lambda: self._client.runs.get(self._run_id))
                self._waiting.hear(run)
                # The status is read before the log: a final one means that every byte is there.
                ended = run.status.is_terminal
                if self._show_growth(wait_s=self._patient_s(ended)) or self._move_on():
                    continue
                if ended:
                    self._end_file()
                    return run
                if self._name is None or self._complete:
                    time.sleep(pace.next())

    def say(self, text: str) -> None:
        """Write text of ours."""
        if self._waiting is not None:
            self._waiting.clear()
        encoding = getattr(self._out, "encoding", None) or "utf-8"
        self._out.write(text.encode(encoding, "replace").decode(encoding))
        self._out.flush()

    def _patient_s(self, ended: bool) -> Optional[float]:
        if ended or self._complete:
            return None
        return min(self._wait_s, BUILD_WAIT_S) if is_build_log(self._name or "") else self._wait_s

    def _move_on(self) -> bool:
        """Begin with the next log, if there is one."""
        if self._name is not None and not is_build_log(self._name):
            return False
        files = self._patience.ask(lambda: self._client.runs.files(self._run_id))
        name = next_log((file.name for file in files), self._name)
        if name is None:
            return False
        while self._show_growth(wait_s=None):  # where the next log is, all of this one is
            pass
        self._end_file()
        self._name, self._offset, self._complete = name, 0, False
        title = f"Streaming {name}"
        self.say(f"\n{title}\n{'=' * len(title)}\n\n")
        return True

    def _show_growth(self, *, wait_s: Optional[float]) -> bool:
        name = self._name
        if name is None:
            return False
        try:
            part = self._patience.ask(
                lambda: self._client.runs.read_file(self._run_id, name, self._offset, PART_BYTES, wait_s)
            )
        except NotFound:
            return False
        if part.size < self._offset:  # the next attempt's log has taken the name over
            self._end_file()
            self._offset, self._complete = 0, False
            self.say(f"\n{STARTED_AGAIN}\n\n")
            return True
        self._offset += len(part.data)
        self._complete = part.complete and self._offset >= part.size
        self._show_text(self._decoder.decode(part.data))
        return bool(part.data)

    def _end_file(self) -> None:
        self._show_text(self._decoder.decode(b"", final=True))
        self._decoder.reset()
        if not self._at_line_start:
            self.say("\n")
            self._at_line_start = True

    def _show_text(self, text: str) -> None:
        if text:
            self._at_line_start = text.endswith("\n")
            self.say(text)
