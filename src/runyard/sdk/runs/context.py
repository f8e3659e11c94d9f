"""`Run.get_context()`: the one object of this process for the run that it is part of.

Outside a run the object is an offline run, which prints what it would track, in Azure's words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Sequence, Union
from weakref import WeakSet

from runyard.core.errors import SystemFailure
from runyard.core.names import make_uuid
from runyard.runtime.context import RunContext, find_context
from runyard.sdk.azure_class import AzureClass, missing_member
from runyard.sdk.errors import azure_error
from runyard.sdk.exceptions import RunEnvironmentException
from runyard.sdk.runs.run import Run, ScriptRun
from runyard.sdk.workspaces.connection import get_run_client
from runyard.sdk.workspaces.experiment import Experiment
from runyard.sdk.workspaces.workspace import Workspace

if TYPE_CHECKING:
    from runyard.client.client import Client


class _OfflineRun(AzureClass):
    """Has exactly the members that a script may use without a run; all else is an AttributeError, as in Azure."""

    def __init__(self, run_id: Optional[str] = None) -> None:
        self._run_id = run_id or f"OfflineRun_{make_uuid()}"

    @property
    def id(self) -> str:
        return self._run_id

    def add_properties(self, properties: Mapping[str, str]) -> None:
        print(f"Attempted to add properties {properties}")

    def set_tags(self, tags: Mapping[str, Any]) -> None:
        print(f"Attempted to set tags {tags}")

    def tag(self, name: str, value: Optional[str] = None) -> None:
        print(f"Attempted to add tag {name} with value {value}")

    def complete(self) -> None:
        """Do nothing."""

    def cancel(self) -> None:
        """Do nothing."""

    def fail(self, error_details: Any = None, error_code: Optional[str] = None) -> None:
        print(f"Run failed with error code {error_code}:\n{error_details}")

    def flush(self) -> None:
        print(f"Attempted to flush run with id {self.id}")

    def log(self, name: str, value: Any, description: str = "") -> None:
        self._emit("scalar", name, value)

    def log_list(self, name: str, value: Any, description: str = "") -> None:
        self._emit("list", name, value)

    def log_row(self, name: str, description: Optional[str] = None, **kwargs: Any) -> None:
        self._emit("row", name, kwargs)

    def log_table(self, name: str, value: Any, description: str = "") -> None:
        self._emit("table", name, value)

    def log_image(self, name: str, path: Optional[str] = None, plot: Any = None, description: str = "") -> None:
        self._emit("image", name, path if path is not None else plot)

    def log_residuals(self, name: str, value: Any, description: Optional[str] = None) -> None:
        self._emit("residual", name, value)

    def log_predictions(self, name: str, value: Any, description: Optional[str] = None) -> None:
        self._emit("predictions", name, value)

    def log_accuracy_table(self, name: str, value: Any, description: Optional[str] = None) -> None:
        self._emit("accuracy_table", name, value)

    def log_confusion_matrix(self, name: str, value: Any, description: Optional[str] = None) -> None:
        self._emit("confusion_matrix", name, value)

    def upload_file(self, name: str, path_or_stream: Any, datastore_name: Optional[str] = None) -> None:
        print(f"Attempted to track file {name} at {path_or_stream}")

    def upload_files(
        self,
        name: Sequence[str],
        paths: Sequence[str],
        return_artifacts: bool = False,
        timeout_seconds: Optional[int] = None,
        datastore_name: Optional[str] = None,
    ) -> None:
        print(f"Attempted to track files {name} at {paths} with timeout {timeout_seconds}s")

    def upload_folder(self, name: str, path: str, datastore_name: Optional[str] = None) -> None:
        print(f"Attempted to track folder {name} at {path}")

    def child_run(self, name: Optional[str] = None, run_id: Optional[str] = None, outputs: Any = None) -> _OfflineRun:
        return _OfflineRun(run_id or f"{self.id}.{make_uuid()}")

    def __enter__(self) -> _OfflineRun:
        print(f"[START] Run {self.id} context")
        return self

    def __exit__(self, *_exc: object) -> None:
        print(f"[STOP] Run {self.id} context")

    def _emit(self, kind: str, name: str, value: Any) -> None:
        print(f"Attempted to log {kind} metric {name}:\n{value}")


_RUNS: Dict[str, SubmittedRun] = {}
# Those that `start_logging` made in this process and that have not ended. A notebook's cell that is run again drops the
# handle of its first run without ending it; that one does not count.
open_runs: WeakSet[Run] = WeakSet()


def get_context(*, allow_offline: bool = True) -> Union[Run, _OfflineRun]:
    """Return the run of this process, the same object each time; outside a run an offline run.

    A process that is no part of a submitted run is part of the one run that it has open with `start_logging`: callbacks
    of libraries find it there. With several open, none of them is meant.

    Raises:
        RunEnvironmentException: outside a run with `allow_offline` false.
    """
    context = find_context()
    if context is None:
        current = list(open_runs)
        if len(current) == 1:
            return current[0]
        if allow_offline:
            return _OfflineRun()
        raise RunEnvironmentException()
    run = _RUNS.get(context.run_folder)
    if run is None:
        run = _RUNS[context.run_folder] = SubmittedRun(context)
    return run


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
            raise azure_error(_unreadable(self._run_id, error)) from None
        self._client: Client = get_run_client(job)
        self._experiment = Experiment._known(Workspace._inside_run(self._client, job["workspace"]), job["experiment"])
        return self.__dict__[name]

    def __getattr__(self, name: str) -> Any:
        if name in ("_client", "_experiment"):
            return self._lazy(name)
        raise missing_member(type(self), name, f"{type(self).__name__!r} object has no attribute {name!r}")


def _unreadable(run_id: str, error: Exception) -> SystemFailure:
    return SystemFailure(
        f"Run `{run_id}` cannot ask the server.",
        why=f"How to reach it stands in job.json, which cannot be read: {error}.",
        hint="What the script logs is recorded all the same.",
    )
