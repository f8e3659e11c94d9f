"""`Run` and `ScriptRun`: a handle on one run. Parts of it are in its sibling modules."""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    ClassVar,
    Dict,
    Iterator,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    Union,
)

from runyard.core.errors import NotFound
from runyard.core.formats.filters import quoted
from runyard.core.names import check_run_id
from runyard.core.specs import SWEEP_TYPE
from runyard.sdk.config.texts import narrowed, warn
from runyard.sdk.errors import raises_azure_errors, translates
from runyard.sdk.runs.lifecycle import RunChildren

if TYPE_CHECKING:
    from runyard.core import records
    from runyard.sdk.models.model import Model
    from runyard.sdk.workspaces.experiment import Experiment
    from runyard.sdk.workspaces.workspace import Workspace

SCRIPT_RUN = "azureml.scriptrun"
R = TypeVar("R", bound="Run")
Filter = Union[str, Mapping[str, Any], None]
Factory = Callable[["Experiment", "records.Run"], "Run"]


@raises_azure_errors
class Run(RunChildren):
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
        from runyard.sdk.runs.context import get_context  # loads the journal, which a submit script does not need

        return get_context(allow_offline=allow_offline)

    @classmethod
    def get_submitted_run(cls, **_kwargs: Any) -> Any:
        """Deprecated: use `get_context(allow_offline=False)`."""
        warn("Run.get_submitted_run() is an old name: write Run.get_context().")
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
            **narrowed(type, tags, properties, status),
            include_children="true" if include_children else None,
            view="all",
        )
        for record in found:
            yield _typed(experiment.workspace, record)

    @staticmethod
    def list_by_compute(
        compute: Any,
        type: Optional[str] = None,
        tags: Filter = None,
        properties: Filter = None,
        status: Union[str, Sequence[str], None] = None,
    ) -> Iterator[Run]:
        """Yield the runs that were submitted to a compute target, of all experiments, newest first."""
        workspace: Workspace = compute.workspace
        found = workspace._client.runs.iter(
            workspace.name,
            filter=f"target = {quoted(str(getattr(compute, '_named_by_runs', compute.name)))}",
            **narrowed(type, tags, properties, status),
            include_children="true",
            view="all",
        )
        for record in found:
            yield _typed(workspace, record)

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
    def input_datasets(self) -> Dict[str, Any]:
        """The run's datasets by name: in its own script the path of the files, elsewhere (and direct) the dataset."""
        from runyard.sdk.runs.assets import input_datasets  # most runs have none

        return input_datasets(self)

    @property
    def output_datasets(self) -> Dict[str, Any]:
        """The datasets that the run's outputs are, by the output's name; in its own script the paths."""
        from runyard.sdk.runs.assets import output_datasets

        return output_datasets(self)

    def register_model(
        self,
        model_name: str,
        model_path: Optional[str] = None,
        tags: Optional[Mapping[str, Any]] = None,
        properties: Optional[Mapping[str, Any]] = None,
        model_framework: Optional[str] = None,
        model_framework_version: Optional[str] = None,
        description: Optional[str] = None,
        datasets: Optional[Sequence[Tuple[str, Any]]] = None,
        sample_input_dataset: Any = None,
        sample_output_dataset: Any = None,
        resource_configuration: Any = None,
        **_kwargs: Any,
    ) -> Model:
        """Keep a file or folder of this run as the next version of a model; nothing is copied.

        Args:
            model_path: the run's file or folder, such as `outputs/model.pkl`; `model_name` when not given.

        Raises:
            ModelPathNotFoundException: the run has no such file or folder.
        """
        from runyard.sdk.runs.assets import register_run_model  # most runs register none

        return register_run_model(
            self,
            model_name,
            model_path,
            tags=tags,
            properties=properties,
            description=description,
            datasets=datasets,
            framework=model_framework,
            framework_version=model_framework_version,
            resource_configuration=resource_configuration,
        )

    def get_secret(self, name: str) -> str:
        """Return a secret of the run's workspace.

        Raises:
            UserErrorException: there is none of that name.
        """
        return self.experiment.workspace.get_default_keyvault().get_secret(name)

    def get_secrets(self, secrets: Sequence[str]) -> Dict[str, Optional[str]]:
        """Return secrets of the run's workspace by name; None for one that is not there."""
        return self.experiment.workspace.get_default_keyvault().get_secrets(secrets)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and other._run_id == self._run_id

    def __hash__(self) -> int:
        return hash(self._run_id)

    def __reduce__(self) -> Tuple[Any, ...]:
        """Pickled (to a worker process, with a callback): only which run it is."""
        return _reopen, (self._experiment.workspace.name, self._run_id)

    def __copy__(self: R) -> R:
        return self

    def __deepcopy__(self: R, _memo: Any) -> R:
        """A copy of a handle is the same run, and of the run that this process is there is but one object."""
        return self

    def __repr__(self) -> str:
        kind, status = self._facts.type, self.status
        return f"Run(Experiment: {self._experiment.name},\nId: {self._run_id},\nType: {kind},\nStatus: {status})"

    @translates
    def _ipython_display_(self) -> None:
        """Show a bare run in a cell: a card that follows it in a notebook, text in a terminal."""
        from runyard.sdk.runs.notebook import (
            first_card,  # notebooks only
            has_notebook,
            show_card,
        )

        if has_notebook():
            show_card(self, first_card(self))
        else:
            print(repr(self))

    @translates
    def _repr_html_(self) -> str:
        from runyard.sdk.runs.notebook import html_table  # notebooks only

        fields = {
            "Experiment": self._experiment.name,
            "Id": self._run_id,
            "Type": str(self._facts.type),
            "Status": self.get_status(),
        }
        return html_table(fields, link=self.get_portal_url())


class ScriptRun(Run):
    """A run that `experiment.submit(ScriptRunConfig(...))` started."""

    RUN_TYPE = SCRIPT_RUN


def get_run(experiment: Experiment, run_id: str, rehydrate: bool = True, clean_up: bool = True) -> Run:
    """Return the run of that id, as an object of its type."""
    return Run.get(experiment.workspace, run_id)


def _reopen(workspace_name: str, run_id: str) -> Run:
    """Return the run in another process: its own object where the process is part of it."""
    from runyard.sdk.workspaces.workspace import Workspace  # workspace.py loads this module when it needs runs

    current = Run.get_context()
    if not isinstance(current, Run):
        return Run.get(Workspace.get(workspace_name), run_id)
    return current if current.id == run_id else Run.get(current.experiment.workspace, run_id)


def _typed(workspace: Workspace, record: records.Run) -> Run:
    from runyard.sdk.workspaces.experiment import Experiment  # experiment.py loads this module when it needs runs

    experiment = Experiment._known(workspace, record.experiment)
    factory = Run._types.get(record.type or "")
    if factory is not None:
        return factory(experiment, record)
    if record.type == SWEEP_TYPE:
        from runyard.sdk.sweeps.run import HyperDriveRun  # it is a Run, so this module loads first

        return HyperDriveRun._known(experiment, record)
    return (ScriptRun if record.type == SCRIPT_RUN else Run)._known(experiment, record)
