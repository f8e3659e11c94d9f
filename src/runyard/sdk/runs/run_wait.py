"""`wait_for_completion`: wait for a run's end and show its log while it goes on."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Dict, Optional, TextIO

from runyard.sdk.errors import translates_errors
from runyard.sdk.exceptions import ActivityFailedException, ExperimentExecutionException
from runyard.sdk.runs.pace import Pace
from runyard.sdk.runs.patience import Patience
from runyard.sdk.runs.portal import portal_url
from runyard.sdk.runs.run_details import RunDetails

if TYPE_CHECKING:
    from runyard.core import records

_NO_ERROR = "The run ended as Failed, and no error was recorded. Look at its logs: run.get_details_with_logs()."


@translates_errors
class RunWaiting(RunDetails):
    def wait_for_completion(
        self, show_output: bool = False, wait_post_processing: bool = False, raise_on_error: bool = True
    ) -> Dict[str, Any]:
        """Wait until the run has ended and all of its metrics and files are there; return `get_details()`.

        Args:
            show_output: print the log of the first process while it grows.
            wait_post_processing: accepted; the end is always waited for.
            raise_on_error: raise when the run failed. A canceled run never raises.

        Raises:
            ActivityFailedException: the run ended as Failed.
            ExperimentExecutionException: Ctrl-C while the log was shown; the run goes on.
        """
        try:
            final = self._show(sys.stdout) if show_output else self._wait()
        except KeyboardInterrupt:
            if not show_output:
                raise
            raise ExperimentExecutionException(
                f"Showing the output of run {self._run_id} was interrupted. The run itself goes on.\n"
                f"To stop it: run.cancel(), or `runyard runs cancel {self._run_id}`."
            ) from None
        self._record = final
        details = Patience().ask(self.get_details)
        if raise_on_error and details["status"] == "Failed":
            raise ActivityFailedException(error_details=_error_text(details.get("error")))
        return details

    def _wait(self) -> records.Run:
        pace, patience = Pace(), Patience()
        while True:
            run = patience.ask(lambda: self._client.runs.get(self._run_id))
            if run.status.is_terminal:
                return run
            time.sleep(pace.next())

    def _show(self, out: TextIO) -> records.Run:
        from runyard.sdk.runs.log_stream import LogStream  # needs codecs and patterns that a silent wait does not

        portal = portal_url(self._client, self._page, out=out)
        stream = LogStream(self._client, self._run_id, out)
        stream.say(f"RunId: {self._run_id}\nWeb View: {portal}\n")
        run = stream.follow()
        stream.say(f"\nExecution Summary\n=================\nRunId: {self._run_id}\nWeb View: {portal}\n")
        if run.warnings:
            stream.say("\nWarnings:\n" + "".join(f"{warning.get('message', '')}\n" for warning in run.warnings))
        stream.say("\n")
        return run


def _error_text(error: Optional[Dict[str, Any]]) -> str:
    import json  # only a failed run comes here

    return json.dumps(error, indent=4) if error else _NO_ERROR
