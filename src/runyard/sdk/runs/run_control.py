"""Ending a run: cancel, fail, complete, flush, and the `with` block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional, Type, TypeVar

from runyard.sdk.config.notices import warn
from runyard.sdk.errors import translates_errors
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.runs.tags import RunTags

if TYPE_CHECKING:
    from types import TracebackType

R = TypeVar("R", bound="RunControl")


@translates_errors
class RunControl(RunTags):
    def cancel(self) -> None:
        """Ask the run and all below it to stop. Twice is fine; a finished run stays as it is.

        Inside a submitted run itself it only flushes; a run that this process is ends as Canceled.
        """
        if self._interactive:
            self._end("Canceled")
        elif self._own:
            self.flush()
        else:
            self._record = self._client.runs.cancel(self._run_id)

    def start(self) -> None:
        """Do nothing: a run starts with its submit."""

    def clean(self) -> List[str]:
        """Do nothing: a run's folder on its node is removed at its end. Return the files removed here: none."""
        return []

    def complete(self, _set_status: bool = True) -> None:
        """End an interactive run as Completed. Inside a submitted run, wait until all that was logged has arrived."""
        if self._interactive:
            self._end("Completed")
        elif self._own:
            self.flush()
        elif self._is_unsupervised():
            self._end_by_journal("Completed")
        elif not self._refresh().status.is_terminal:
            warn(f"Run {self._run_id} is completed by the end of its script; complete() from elsewhere has no effect.")

    def fail(self, error_details: Any = None, error_code: Optional[str] = None, _set_status: bool = True) -> None:
        """End the run as Failed and stop its processes. Inside a submitted run only the error is recorded."""
        message = "" if error_details is None else str(error_details)
        error = {"code": error_code or "UserError", "message": message, "details": {}}
        if self._interactive:
            self._end("Failed", error)
        elif self._own:
            self._journal().fail(message or None, error_code)
            self.flush()
        elif self._is_unsupervised():
            self._end_by_journal("Failed", error)
        else:
            self._record = self._client.runs.fail(self._run_id, code=error_code or "UserError", message=message)

    def flush(self, timeout_seconds: float = 300) -> None:
        """Wait until the server has all that this process logged; warn when it has not within `timeout_seconds`."""
        wait_s = _checked_seconds(timeout_seconds)
        if self._writer is not None and not self._writer.flush(wait_s):
            warn(f"The server has not taken all records of run {self._run_id} within {wait_s:g} s; they follow later.")

    def __enter__(self: R) -> R:
        return self

    def __exit__(
        self, cls: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> bool:
        if error is None:
            self.complete()
            return False
        if isinstance(error, SystemExit) and error.code in (None, 0):
            self.complete()
            return True
        self.fail(error_details=f"{type(error).__name__}: {error}")
        return False

    def _end(self, status: str, error: Optional[Dict[str, Any]] = None) -> None:
        raise NotImplementedError  # interactive runs only

    def _is_unsupervised(self) -> bool:
        """Whether this is a live child run that a script made: it ends when somebody says so."""
        facts = self._refresh()
        return facts.type is None and facts.attempt == 0 and not facts.status.is_terminal

    def _end_by_journal(self, status: str, error: Optional[Dict[str, Any]] = None) -> None:
        writer = self._journal()
        writer.end(status, error)
        self.flush()
        writer.close()
        self._writer = None
        self._refresh()


def _checked_seconds(seconds: Any) -> float:
    if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and seconds >= 0:
        return float(seconds)
    raise UserErrorException(f"timeout_seconds must be a number, zero or more, found {seconds!r}.")
