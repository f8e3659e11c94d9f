"""`Run` and `ScriptRun`: a handle on one run. Parts of it are in run_metrics, run_files, run_wait and run_details."""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    ClassVar,
    Dict,
    Iterator,
    List,
    Mapping,
    NoReturn,
    Optional,
    Sequence,
    Type,
    TypeVar,
    Union,
)

from runyard.core.errors import NotFound
from runyard.core.names import check_run_id
from runyard.sdk.edge import translates, translates_errors
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.not_yet import refuse
from runyard.sdk.notices import warn
from runyard.sdk.run_metrics import RunMetrics, check_timeout
from runyard.sdk.tags import filters, property_texts, tag_texts

if TYPE_CHECKING:
    from types import TracebackType

    from runyard.core import records
    from runyard.sdk.experiment import Experiment
    from runyard.sdk.workspace import Workspace

SCRIPT_RUN = "azureml.scriptrun"
R = TypeVar("R", bound="Run")
Filter = Union[str, Mapping[str, Any], None]
Factory = Callable[["Experiment", "records.Run"], "Run"]


@translates_errors
class Run(RunMetrics):
    """A run of an experiment: its metrics, tags, files, status and end.

    In a training script, `Run.get_context()` gives the run that the script is.
    """

    RUN_TYPE: ClassVar[Optional[str]] = None
    _types: ClassVar[Dict[str, Factory]] = {}

    def __init__(self, experiment: Experiment, run_id: str, outputs: Any = None, **_kwargs: Any) -> None:
        self._set_up(experiment, check_run_id(run_id))
        self._refresh()

    @classmethod
    def _known(cls: Type[R], experiment: Experiment, record: records.Run) -> R:
        """A handle whose facts were just seen."""
        made = cls.__new__(cls)
        made._set_up(experiment, record.id, record)
        return made

    @classmethod
    def get_context(cls, allow_offline: bool = True, **_kwargs: Any) -> Any:
        """Return the run that this process is part of; outside a run, one that prints instead of tracking.

        Raises:
            RunEnvironmentException: outside a run with `allow_offline` false.
        """
        from runyard.sdk.context import get_context  # loads the journal, which a submit script does not need

        return get_context(allow_offline=allow_offline)

    @classmethod
    def get_submitted_run(cls, **_kwargs: Any) -> Any:
        """Deprecated: use `get_context(allow_offline=False)`."""
        warn("Run.get_submitted_run() is deprecated, use Run.get_context() instead")
        return cls.get_context(allow_offline=False)

    @staticmethod
    def get(workspace: Workspace, run_id: str) -> Run:
        """Return the run of that id, whatever its experiment.

        Raises:
            UserErrorException: the workspace has no such run.
        """
        record = workspace._client.runs.get(check_run_id(run_id))
        if record.workspace != workspace.name:
            raise NotFound(
                f"The workspace `{workspace.name}` has no run `{run_id}`.", why=f"It is in `{record.workspace}`."
            )
        return _typed(workspace, record)

    @staticmethod
    def list(
        experiment: Experiment,
        type: Optional[str] = None,
        tags: Filter = None,
        properties: Filter = None,
        status: Union[str, Sequence[str], None] = None,
        include_children: bool = False,
        _rehydrate_runs: bool = True,
    ) -> Iterator[Run]:
        """Yield the experiment's runs, newest first."""
        found = experiment._client.runs.iter(
            experiment.workspace.name,
            experiment=experiment.name,
            type=type,
            tag=filters(tags),
            property=filters(properties),
            status=[status] if isinstance(status, str) else status,
            include_children="true" if include_children else None,
        )
        for record in found:
            yield _typed(experiment.workspace, record)

    @staticmethod
    def list_by_compute(compute: Any, *_args: Any, **_kwargs: Any) -> NoReturn:
        refuse("`Run.list_by_compute`")

    @staticmethod
    def add_type_provider(runtype: str, run_factory: Factory) -> None:
        """Have runs of type `runtype` made by `run_factory(experiment, record)`."""
        Run._types[runtype] = run_factory

    @property
    def id(self) -> str:
        return self._run_id

    @property
    def experiment(self) -> Experiment:
        return self._experiment

    @property
    def number(self) -> int:
        """1, 2, 3 … within the experiment."""
        return self._facts.number

    @property
    def type(self) -> Optional[str]:
        return self._facts.type

    @property
    def name(self) -> str:
        """Deprecated: use `display_name`."""
        return self.display_name

    @property
    def display_name(self) -> str:
        return self._facts.display_name

    @display_name.setter
    def display_name(self, value: str) -> None:
        self._record = self._client.runs.update(self._run_id, display_name=str(value))

    @property
    def description(self) -> str:
        return self._facts.description

    @description.setter
    def description(self, value: str) -> None:
        self._record = self._client.runs.update(self._run_id, description=str(value))

    @property
    def parent(self) -> Optional[Run]:
        """The run that this one belongs to, or None."""
        parent_id = self._facts.parent_id
        return None if parent_id is None else Run.get(self._experiment.workspace, parent_id)

    @property
    def input_datasets(self) -> Dict[str, Any]:
        return {}

    @property
    def output_datasets(self) -> Dict[str, Any]:
        return {}

    @property
    def tags(self) -> Dict[str, Optional[str]]:
        return self.get_tags() if self._writes_here() else dict(self._facts.tags)

    def get_tags(self) -> Dict[str, Optional[str]]:
        self._flush_own()
        return dict(self._refresh().tags)

    def tag(self, key: str, value: Optional[str] = None) -> None:
        """Set one tag; without a value the key alone counts."""
        self.set_tags({key: value})

    def set_tags(self, tags: Mapping[str, Any]) -> None:
        texts = tag_texts(tags)
        if self._writes_here():
            self._journal().set_tags(texts)
        else:
            self._record = self._client.runs.update(self._run_id, tags_set=texts)

    def remove_tags(self, tags: Union[str, Sequence[str]]) -> None:
        keys = [tags] if isinstance(tags, str) else [*tags]
        if self._writes_here():
            self._journal().remove_tags(keys)
        else:
            self._record = self._client.runs.update(self._run_id, tags_remove=keys)

    @property
    def properties(self) -> Dict[str, str]:
        return self.get_properties() if self._writes_here() else dict(self._facts.properties)

    def get_properties(self) -> Dict[str, str]:
        self._flush_own()
        return dict(self._refresh().properties)

    def add_properties(self, properties: Mapping[str, Any]) -> None:
        """Add properties. One that exists cannot be changed.

        Raises:
            UserErrorException: one exists with another value.
        """
        texts = property_texts(properties)
        if self._writes_here():
            self._journal().add_properties(texts)
        else:
            self._record = self._client.runs.update(self._run_id, properties_add=texts)

    def cancel(self) -> None:
        """Ask the run to stop. Twice is fine; a finished run stays as it is. Inside the run itself it only flushes."""
        if self._own:
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
        elif not self._refresh().status.is_terminal:
            warn(f"Run {self._run_id} is completed by the end of its script; complete() from elsewhere has no effect.")

    def fail(self, error_details: Any = None, error_code: Optional[str] = None, _set_status: bool = True) -> None:
        """End the run as Failed and stop its processes. Inside a submitted run only the error is recorded."""
        message = "" if error_details is None else str(error_details)
        if self._interactive:
            self._end("Failed", {"code": error_code or "UserError", "message": message, "details": {}})
        elif self._own:
            self._journal().fail(message or None, error_code)
            self.flush()
        else:
            self._record = self._client.runs.fail(self._run_id, code=error_code or "UserError", message=message)

    def flush(self, timeout_seconds: float = 300) -> None:
        """Wait until the server has all that this process logged; warn when it has not within `timeout_seconds`."""
        wait_s = check_timeout(timeout_seconds)
        if self._writer is not None and not self._writer.flush(wait_s):
            warn(f"The server has not taken all records of run {self._run_id} within {wait_s:g} s; they follow later.")

    def get_children(
        self,
        recursive: bool = False,
        tags: Filter = None,
        properties: Filter = None,
        type: Optional[str] = None,
        status: Union[str, Sequence[str], None] = None,
        _rehydrate_runs: bool = True,
    ) -> Iterator[Run]:
        """Yield the child runs; with `recursive` theirs too."""
        workspace = self._experiment.workspace
        found = self._client.runs.iter(
            workspace.name,
            parent=self._run_id,
            tag=filters(tags),
            property=filters(properties),
            type=type,
            status=[status] if isinstance(status, str) else status,
        )
        for record in found:
            child = _typed(workspace, record)
            yield child
            if recursive:
                yield from child.get_children(True, tags, properties, type, status)

    def get_snapshot_id(self) -> str:
        """Return the id of the stored source folder.

        Raises:
            UserErrorException: the run has none.
        """
        found = self._facts.snapshot_id or self._facts.properties.get("ContentSnapshotId")
        if not found:
            raise UserErrorException(f"Run {self._run_id} has no snapshot.")
        return found

    def child_run(self, name: Optional[str] = None, run_id: Optional[str] = None, outputs: Any = None) -> Run:
        refuse("`Run.child_run`")

    def create_children(
        self, count: Optional[int] = None, tag_key: Optional[str] = None, tag_values: Any = None
    ) -> Any:
        refuse("`Run.create_children`")

    def submit_child(self, config: Any, tags: Optional[Mapping[str, Any]] = None, **_kwargs: Any) -> Run:
        refuse("`Run.submit_child`")

    def take_snapshot(self, file_or_folder_path: str, **_kwargs: Any) -> str:
        refuse("`Run.take_snapshot`")

    def restore_snapshot(self, snapshot_id: Optional[str] = None, path: Optional[str] = None) -> str:
        refuse("`Run.restore_snapshot`")

    def register_model(self, model_name: str, *_args: Any, **_kwargs: Any) -> Any:
        refuse("`Run.register_model`", hint="run.download_file('outputs/…') gets the model's file.")

    def get_secret(self, name: str) -> str:
        refuse("`Run.get_secret`", hint="On `local`, the script sees the variables of the submitting process.")

    def get_secrets(self, secrets: Sequence[str]) -> Dict[str, str]:
        refuse("`Run.get_secrets`", hint="On `local`, the script sees the variables of the submitting process.")

    def get_environment(self) -> Any:
        refuse("`Run.get_environment`", hint="run.get_details()['runDefinition']['environment'] holds it.")

    def __enter__(self) -> Run:
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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and other._run_id == self._run_id

    def __hash__(self) -> int:
        return hash(self._run_id)

    def __repr__(self) -> str:
        kind, status = self._facts.type, self.status
        return f"Run(Experiment: {self._experiment.name},\nId: {self._run_id},\nType: {kind},\nStatus: {status})"

    @translates
    def _repr_html_(self) -> str:
        from runyard.sdk.html_table import html_table  # notebooks only

        fields = {
            "Experiment": self._experiment.name,
            "Id": self._run_id,
            "Type": str(self._facts.type),
            "Status": self.get_status(),
        }
        return html_table(fields, link=self.get_portal_url())

    def _end(self, status: str, error: Optional[Dict[str, Any]] = None) -> None:
        from runyard.sdk.interactive import end_run  # interactive runs only

        end_run(self, status, error)


class ScriptRun(Run):
    """A run that `experiment.submit(ScriptRunConfig(...))` started."""

    RUN_TYPE = SCRIPT_RUN


def get_run(experiment: Experiment, run_id: str, rehydrate: bool = True, clean_up: bool = True) -> Run:
    """Return the run of that id, as an object of its type."""
    return Run.get(experiment.workspace, run_id)


def _typed(workspace: Workspace, record: records.Run) -> Run:
    from runyard.sdk.experiment import Experiment  # experiment.py loads this module when it needs runs

    experiment = Experiment._known(workspace, record.experiment)
    factory = Run._types.get(record.type or "")
    if factory is not None:
        return factory(experiment, record)
    return (ScriptRun if record.type == SCRIPT_RUN else Run)._known(experiment, record)
