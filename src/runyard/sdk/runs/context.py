"""`Run.get_context()`: the one object of this process for the run that it is part of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Union

from runyard.core.errors import SystemFailure
from runyard.runtime.context import RunContext, find_context
from runyard.sdk.errors import azure_error
from runyard.sdk.exceptions import RunEnvironmentException
from runyard.sdk.runs.offline import _OfflineRun
from runyard.sdk.runs.run import Run, ScriptRun
from runyard.sdk.workspaces.connection_part import get_run_client
from runyard.sdk.workspaces.experiment import Experiment
from runyard.sdk.workspaces.workspace import Workspace

if TYPE_CHECKING:
    from runyard.client.client import Client

_RUNS: Dict[str, SubmittedRun] = {}


def get_context(*, allow_offline: bool = True) -> Union[Run, _OfflineRun]:
    """Return the run of this process, the same object each time; outside a run an offline run.

    Raises:
        RunEnvironmentException: outside a run with `allow_offline` false.
    """
    context = find_context()
    if context is None:
        if allow_offline:
            return _OfflineRun()
        raise RunEnvironmentException()
    found = _RUNS.get(context.run_folder)
    if found is None:
        found = _RUNS[context.run_folder] = SubmittedRun(context)
    return found


class SubmittedRun(ScriptRun):
    """The run that this process is part of. Logging touches only its journal; the server is asked when it is read."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._run_id = context.run_id
        self._record = None
        self._own = True
        self._interactive = False
        self._writer = context.writer(translate=azure_error)
        # The closure itself: one call, one write. A method around it would cost a tenth of the whole.
        self.log = self._writer.log  # type: ignore[method-assign]

    def _lazy(self, name: str) -> Any:
        """Read job.json when the server is first needed, and make what stands between it and this run."""
        try:
            job = self._context.read_job()
        except (OSError, ValueError) as error:
            raise azure_error(_unreadable(self._run_id, error)) from error
        self._client: Client = get_run_client(job)
        self._experiment = Experiment._known(Workspace._inside_run(self._client, job["workspace"]), job["experiment"])
        return self.__dict__[name]

    def __getattr__(self, name: str) -> Any:
        if name in ("_client", "_experiment"):
            return self._lazy(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _unreadable(run_id: str, error: Exception) -> SystemFailure:
    return SystemFailure(
        f"Run `{run_id}` cannot ask the server.",
        why=f"How to reach it stands in job.json, which cannot be read: {error}.",
        hint="What the script logs is recorded all the same.",
    )
