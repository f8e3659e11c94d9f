"""`RunHandle`: what `runyard.run`, `runs` and `get` return."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Dict, Iterable, List, Optional, Union

from runyard.core.errors import NotFound, RunFailed
from runyard.native.border import say, with_plain_errors
from runyard.native.metrics import Metrics

if TYPE_CHECKING:
    from datetime import datetime

    from runyard.core import records
    from runyard.sdk.runs.run import Run

LAST_LINES = 15


@with_plain_errors
class RunHandle:
    """A run: what it is, how it goes, and what it left. Properties ask the server, so they are always of now."""

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def id(self) -> str:
        """The id, unique on the server."""
        return self._run.id

    @property
    def name(self) -> str:
        """The name that was given, else `experiment#number`."""
        return _name(self._run._facts)

    @property
    def experiment(self) -> str:
        return self._run._facts.experiment

    @property
    def number(self) -> int:
        """1, 2, 3 … within the experiment."""
        return self._run._facts.number

    @property
    def status(self) -> str:
        """Queued, Preparing, Starting, Running, Finalizing, Completed, Failed, Canceled …"""
        return self._run.get_status()

    @property
    def is_done(self) -> bool:
        """Whether the run has ended."""
        self._run.get_status()
        return self._run._facts.status.is_terminal

    @property
    def error(self) -> str:
        """Why the run failed; empty when it did not."""
        return str((self._run._refresh().error or {}).get("message") or "")

    @property
    def url(self) -> str:
        """The address of the run's page. At a terminal and in a notebook it signs you in to your own server."""
        return self._run.get_portal_url()

    @property
    def parameters(self) -> Dict[str, str]:
        """The arguments by name, and what the script logged as its configuration."""
        self._run._flush_own()
        return dict(self._run._refresh().parameters)

    @property
    def tags(self) -> Dict[str, Optional[str]]:
        return self._run.get_tags()

    @property
    def created_at(self) -> datetime:
        return self._run._facts.created_at

    @property
    def started_at(self) -> Optional[datetime]:
        return self._run._refresh().started_at

    @property
    def ended_at(self) -> Optional[datetime]:
        return self._run._refresh().ended_at

    @property
    def metrics(self) -> Metrics:
        """The metrics: a mapping of last values, with `history`, `points` and `to_pandas`."""
        return Metrics(self._run)

    @property
    def files(self) -> List[str]:
        """The names of all files of the run: logs, `outputs/…` and what was uploaded."""
        return self._run.get_file_names()

    @property
    def children(self) -> List[RunHandle]:
        """The runs below this one (the trials of a sweep), oldest first."""
        return [RunHandle(child) for child in self._run.get_children()][::-1]

    @property
    def azure(self) -> Run:
        """The same run as an object of Azure's classes (`azureml.core.Run`), which have more."""
        return self._run

    def wait(self, *, check: bool = True, logs: bool = False, timeout: Optional[float] = None) -> RunHandle:
        """Wait until the run has ended and all of its metrics and files are there; return this handle.

        Args:
            check: raise when the run did not complete.
            logs: print the run's log while it grows.
            timeout: give up waiting after so many seconds; the run goes on.

        Raises:
            RunFailed: the run failed or was canceled. `check=False` returns the handle instead.
            TimeoutError: it has not ended within `timeout`.
        """
        try:
            self._wait(logs, timeout)
        except KeyboardInterrupt:
            say(f"{self.name} goes on. run.cancel() stops it, `runyard runs logs -f {self.id}` watches it.")
            raise
        status = str(self._run._facts.status)
        if check and status != "Completed":
            raise run_failed([self])
        return self

    def logs(self, name: Optional[str] = None) -> str:
        """Return the text of the run's log, as far as it is; of several processes that of the first.

        Args:
            name: another log, one of `files`.

        Raises:
            NotFound: there is none of that name.
        """
        from runyard.sdk.runs.details import list_logs, log_text
        from runyard.sdk.runs.log_stream import pick_log  # many programs read no log

        self._run._flush_own()
        names = [file.name for file in list_logs(self._run)]
        if name is None:
            chosen = pick_log(names) or next((one for one in names if one.endswith("user_log.txt")), None)
            return "" if chosen is None else log_text(self._run, chosen)
        if name not in names and name not in self.files:
            raise NotFound(f"{self.name} has no log `{name}`.", why=f"Its logs: {', '.join(names) or 'none'}.")
        return log_text(self._run, name)

    def download(self, *names: str, to: Union[str, os.PathLike[str]] = ".") -> List[Path]:
        """Write files of the run below the folder `to`, and return their paths.

        Args:
            names: files, or folders with all below them; none: all files of the run.

        Raises:
            NotFound: the run has no file or folder of that name.
        """
        from runyard.core.names import true_file_name
        from runyard.sdk.runs.files import _download, list_files  # many programs download nothing

        chosen: Dict[str, records.RunFile] = {}
        known = {true_file_name(file.name): file for file in list_files(self._run)}
        for name in names or ("",):
            wanted = name.rstrip("/")
            fitting = {
                key: file for key, file in known.items() if not wanted or key == wanted or key.startswith(f"{wanted}/")
            }
            if wanted and not fitting:
                listed = ", ".join(sorted(known)[:20]) or "none"
                raise NotFound(f"{self.name} has no file `{name}`.", why=f"Its files: {listed}.")
            chosen.update(fitting)
        paths = {key: Path(to) / key for key in sorted(chosen)}
        _download(self._run, [(chosen[key], str(path)) for key, path in paths.items()])
        return list(paths.values())

    def cancel(self) -> RunHandle:
        """Ask the run to stop; return this handle. A run that has ended stays as it is."""
        self._run.cancel()
        return self

    def tag(self, **tags: object) -> RunHandle:
        """Set tags: `run.tag(team="vision")`; return this handle."""
        self._run.set_tags({key: None if value is None else str(value) for key, value in tags.items()})
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunHandle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        record = self._run._record
        return f"<{type(self).__name__} {f'{_name(record)} {record.status}' if record else self.id}>"

    def _ipython_display_(self) -> None:
        self._run._ipython_display_()

    def _wait(self, logs: bool, timeout: Optional[float]) -> None:
        from runyard.sdk.runs.details import PollInterval, RetryRead, _show
        from runyard.sdk.runs.waiting import WaitingLine  # many programs wait for nothing

        if self._run._writes_here():
            raise RunFailed(f"{self.name} is this very program, so it cannot wait for its own end.")
        if logs and timeout is None:
            self._run._record = _show(self._run, sys.stdout)
            return
        pace, retry = PollInterval(), RetryRead()
        until = None if timeout is None else time.monotonic() + timeout
        with WaitingLine(self.id) as line:
            while True:
                self._run._record = retry.ask(lambda: self._run._client.runs.get(self.id))
                line.hear(self._run._record)
                if self._run._record.status.is_terminal:
                    return
                if until is not None and time.monotonic() >= until:
                    raise TimeoutError(
                        f"{self.name} is still {self._run._record.status} after {timeout:g} s; it goes on."
                    )
                time.sleep(pace.next() if until is None else max(0.0, min(pace.next(), until - time.monotonic())))


def _name(record: records.Run) -> str:
    return f"{record.experiment}#{record.number}" if record.display_name in ("", record.id) else record.display_name


def run_failed(runs: Iterable[RunHandle]) -> RunFailed:
    """Return the error about runs that ended otherwise than Completed."""
    bad = list(runs)
    first = bad[0]
    details = {"runs": {run.id: str(run._run._facts.status) for run in bad}}
    status = str(first._run._facts.status)
    what = f"{first.name} {'was canceled' if status == 'Canceled' else 'failed'}."
    if len(bad) > 1:
        what = f"{len(bad)} runs did not complete: {', '.join(run.name for run in bad[:10])}. Of the first:"
    hint = f"run.logs() is its whole log; `runyard runs show {first.id}` tells more. wait(check=False) raises nothing."
    return RunFailed(what, why=_why(first, status), hint=hint, details=details)


def _why(run: RunHandle, status: str) -> str:
    error = run.error
    if not error and status == "Canceled":
        return "Somebody, or its time limit, stopped it."
    if error and "\n" in error:
        return error
    lines = run.logs().splitlines()[-LAST_LINES:]
    return "\n".join([error or "No reason was recorded.", *(["Its log ends with:", *lines] if lines else [])])
