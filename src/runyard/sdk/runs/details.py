"""What every part of `Run` stands on: the id, the server, the facts last seen, and the journal to write to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from runyard.sdk.config.notices import warn

if TYPE_CHECKING:
    from runyard.client.client import Client
    from runyard.core import records
    from runyard.runtime.writer import JournalWriter
    from runyard.sdk.workspaces.experiment import Experiment


FLUSH_S = 30.0  # how long reading waits for what was just written


class RunHandle:
    """A run of `_experiment`. `_own` is true in the process that the run is: there, writes go to its own journal."""

    _experiment: Experiment
    _run_id: str
    _client: Client
    _record: Optional[records.Run]
    _writer: Optional[JournalWriter]
    _own: bool  # a rank of a submitted run
    _interactive: bool  # made by start_logging in this process

    def _set_up(self, experiment: Experiment, run_id: str, record: Optional[records.Run] = None) -> None:
        self._experiment = experiment
        self._run_id = run_id
        self._client = experiment._client
        self._record = record
        self._writer = None
        self._own = False
        self._interactive = False

    @property
    def _facts(self) -> records.Run:
        """The run as last seen; fetched when it was never seen."""
        return self._record if self._record is not None else self._refresh()

    def _refresh(self) -> records.Run:
        """Fetch the run. A finished one keeps its status, but tags and files of it may still change."""
        self._record = self._client.runs.get(self._run_id)
        return self._record

    def _writes_here(self) -> bool:
        """Whether this process has a journal of its own for the run."""
        return self._own or self._interactive

    def _flush_own(self) -> None:
        """What this process wrote must be in what it reads."""
        if self._writer is not None and not self._writer.flush(FLUSH_S):
            warn(f"The server has not taken all records of run {self._run_id} yet; what it tells may be older.")

    def _flush_family(self) -> None:
        """As above, for the children that it made as well."""
        self._flush_own()

    def _journal(self) -> JournalWriter:
        """Return the journal that this process writes about the run; a handle of another run's gets one when needed."""
        if self._writer is None:
            from runyard.sdk.runs.attach import attach_writer  # rare: most handles only read

            self._writer = attach_writer(self._client, self._run_id)
        return self._writer
