"""`Run` and `ScriptRun`: a handle on one run.

The methods call functions of the modules in this room. Modules that few programs need load with the first call.
"""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    ClassVar,
    Dict,
    Iterable,
    Iterator,
    List,
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
from runyard.core.names import check_run_id, clean_file_name, make_uuid, true_file_name
from runyard.core.specs import SWEEP_TYPE
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.config.texts import (
    check_texts,
    narrowed,
    note_without_effect,
    property_texts,
    tag_texts,
    warn,
    warn_once,
)
from runyard.sdk.errors import raises_azure_errors, translates
from runyard.sdk.runs import details, files, lifecycle, metrics
from runyard.sdk.runs.files import Source

if TYPE_CHECKING:
    from types import TracebackType

    from runyard.client.client import Client
    from runyard.core import records
    from runyard.core.formats.documents import RunError
    from runyard.runtime.writer import JournalWriter
    from runyard.sdk.data.inputs import DataPath
    from runyard.sdk.environments.environment import Environment
    from runyard.sdk.models.model import Model
    from runyard.sdk.runs.details import AzureRunDetails
    from runyard.sdk.runs.interactive import ChildRun
    from runyard.sdk.workspaces.experiment import Experiment
    from runyard.sdk.workspaces.workspace import Workspace

SCRIPT_RUN = "azureml.scriptrun"
FLUSH_S = 30.0  # how long reading waits for what was just written
R = TypeVar("R", bound="Run")
Filter = Union[str, Mapping[str, Any], None]
Factory = Callable[["Experiment", "records.Run"], "Run"]


@raises_azure_errors
class Run(AzureClass):
    """A run of an experiment: its metrics, tags, files, status and end.

    In a training script, `Run.get_context()` gives the run that the script is.
    """

    RUN_TYPE: ClassVar[Optional[str]] = None
    _types: ClassVar[Dict[str, Factory]] = {}

    _experiment: Experiment
    _run_id: str
    _client: Client
    _record: Optional[records.Run]  # as last seen
    _writer: Optional[JournalWriter]
    _own: bool  # this process is a rank of the submitted run
    _interactive: bool  # made by start_logging in this process
    _beside: str = ""  # the run folder of the process that has the run open and that this handle came from

    def __init__(self, experiment: Experiment, run_id: str, outputs: Any = None) -> None:
        note_without_effect({"outputs": outputs})
        self._set_up(experiment, check_run_id(run_id))
        self._refresh()

    @classmethod
    def get_context(cls, allow_offline: bool = True, used_for_context_manager: bool = False) -> Any:
        """Return the run that this process is part of; outside a run, one that prints instead of tracking.

        Args:
            used_for_context_manager: without effect: the run goes into a `with` either way.

        Raises:
            RunEnvironmentException: outside a run with `allow_offline` false.
        """
        from runyard.sdk.runs.context import get_context  # loads the journal, which a submit script does not need

        note_without_effect({"used_for_context_manager": used_for_context_manager or None})
        return get_context(allow_offline=allow_offline)

    @classmethod
    def get_submitted_run(cls) -> Any:
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
        query = narrowed(type, tags, properties, status)
        children = "true" if include_children else None
        yield from iter_runs(experiment.workspace, experiment=experiment.name, include_children=children, **query)

    @staticmethod
    def list_by_compute(
        compute: Any,
        type: Optional[str] = None,
        tags: Filter = None,
        properties: Filter = None,
        status: Union[str, Sequence[str], None] = None,
    ) -> Iterator[Run]:
        """Yield the runs that were submitted to a compute target, of all experiments, newest first."""
        query = narrowed(type, tags, properties, status)
        target = f"target = {quoted(str(getattr(compute, '_named_by_runs', compute.name)))}"
        yield from iter_runs(compute.workspace, filter=target, include_children="true", **query)

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
        self._update(display_name=str(value))

    @property
    def description(self) -> str:
        return self._facts.description

    @description.setter
    def description(self, value: str) -> None:
        self._update(description=str(value))

    @property
    def status(self) -> str:
        """The status as last seen; `get_status()` asks again."""
        return str(self._facts.status)

    def get_status(self) -> str:
        """Return the status now: NotStarted, Queued, Preparing, Starting, Running, Finalizing, Completed, Failed …"""
        if self._record is None or not self._record.status.is_terminal:
            self._refresh()
        return self.status

    def get_detailed_status(self) -> Dict[str, Optional[str]]:
        """Return {'status', 'details'}; the details say what a queued run waits for."""
        record = self._refresh()
        return {"status": str(record.status), "details": record.waits_for or None}

    def get_details(self) -> AzureRunDetails:
        """Return what is known of the run: status, times, error, properties, definition, and where its logs are."""
        return details.get_details(self)

    def get_details_with_logs(self) -> AzureRunDetails:
        """Return `get_details()` with the text of each log instead of its address; of a huge one, its end."""
        return details.get_details_with_logs(self)

    def get_environment(self) -> Environment:
        """Return the environment that the run used: its Python, and the packages that were found in it.

        Raises:
            UserErrorException: an interactive run, which is in the environment of whoever made it.
        """
        from runyard.sdk.environments.files import environment_of  # loads what most handles need not

        return environment_of(self._refresh())

    def get_portal_url(self) -> str:
        """Return the address of the run's page; at a terminal or in a notebook, a private server's signs in."""
        return details.portal_url(self._client, self._page)

    def wait_for_completion(
        self, show_output: bool = False, wait_post_processing: bool = False, raise_on_error: bool = True
    ) -> AzureRunDetails:
        """Wait until the run has ended and all of its metrics and files are there; return `get_details()`.

        Args:
            show_output: print the log of the first process while it grows.
            wait_post_processing: accepted; the end is always waited for.
            raise_on_error: raise when the run failed. A canceled run never raises.

        Raises:
            ActivityFailedException: the run ended as Failed.
            ExperimentExecutionException: Ctrl-C while the log was shown; the run goes on.
        """
        return details.wait_for_completion(self, show_output=show_output, raise_on_error=raise_on_error)

    def log(self, name: str, value: Any, description: str = "", step: Optional[int] = None) -> None:
        """Add a value to the metric `name`: a number, text, bool or None; numpy scalars too.

        Raises:
            UserErrorException: a list, range or generator; use `log_list`.
        """
        self._journal().log(name, value, description, step)

    def log_list(self, name: str, value: Iterable[Any], description: str = "") -> None:
        """Add all items of an iterable to the metric `name`."""
        self._journal().log_list(name, value, description)

    def log_row(self, name: str, description: Optional[str] = None, **kwargs: Any) -> None:
        """Add one row, given as column=value, to the table `name`."""
        self._journal().log_row(name, description, **kwargs)

    def log_table(self, name: str, value: Mapping[str, Any], description: str = "") -> None:
        """Add rows, given as {column: list of values}, to the table `name`."""
        self._journal().log_table(name, value, description)

    def log_image(self, name: str, path: Optional[str] = None, plot: Any = None, description: str = "") -> None:
        """Store an image with the run: a file, or a plot that has `savefig` (matplotlib).

        Raises:
            AzureMLException: both or neither are given, or the file is no image.
        """
        note_without_effect({"description": description or None})
        metrics.log_image(self, name, path, plot)

    def log_confusion_matrix(self, name: str, value: Union[str, Mapping[str, Any]], description: str = "") -> None:
        """Store a confusion matrix: a dict or its JSON text."""
        note_without_effect({"description": description or None})
        metrics.log_json(self, name, "confusion_matrix", value)

    def log_accuracy_table(self, name: str, value: Union[str, Mapping[str, Any]], description: str = "") -> None:
        """Store an accuracy table: a dict or its JSON text."""
        note_without_effect({"description": description or None})
        metrics.log_json(self, name, "accuracy_table", value)

    def log_residuals(self, name: str, value: Union[str, Mapping[str, Any]], description: str = "") -> None:
        """Store residuals: a dict or its JSON text."""
        note_without_effect({"description": description or None})
        metrics.log_json(self, name, "residuals", value)

    def log_predictions(self, name: str, value: Union[str, Mapping[str, Any]], description: str = "") -> None:
        """Store predictions: a dict or its JSON text."""
        note_without_effect({"description": description or None})
        metrics.log_json(self, name, "predictions", value)

    def get_metrics(
        self,
        name: Optional[str] = None,
        recursive: bool = False,
        run_type: Optional[str] = None,
        populate: bool = False,
        rank: Union[int, str, None] = None,
    ) -> Dict[str, Any]:
        """Return {metric: value}: one value as it is, several as a list, a table as a dict of columns.

        Args:
            name: only this metric; the answer is still a dict.
            recursive: {run id: {metric: value}} of this run and all below it that have metrics.
            run_type: with `recursive`, only runs of this type.
            populate: what a metric holds as a file comes as its content (JSON decoded, else bytes).
            rank: of a job of several processes only what this one logged: its number, or `"lowest"` for the lowest
                that logged the metric. Without it the values of all, in order of time.
        """
        check_texts(name=name, run_type=run_type)
        if run_type is not None and not recursive:
            warn_once("run_type narrows get_metrics(recursive=True); of one run it has no effect.")
        return metrics.get_metrics(self, name, recursive=recursive, run_type=run_type, populate=populate, rank=rank)

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
            self._update(tags_set=texts)

    def remove_tags(self, tags: Union[str, Sequence[str]]) -> None:
        keys = [tags] if isinstance(tags, str) else [*tags]
        if self._writes_here():
            self._journal().remove_tags(keys)
        else:
            self._update(tags_remove=keys)

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
            self._update(properties_add=texts)

    def upload_file(self, name: str, path_or_stream: Source, datastore_name: Optional[str] = None) -> None:
        """Store a file or binary stream as the run's file `name`.

        Args:
            datastore_name: put a copy on this datastore too, as `ExperimentRun/dcid.<run id>/<name>`.

        Raises:
            UserErrorException: the file cannot be read, or the run has another file of that name.
        """
        stored = clean_file_name(name)
        if datastore_name is not None:
            [path_or_stream] = files.copy_to_datastore(self, datastore_name, [(stored, path_or_stream)])
        files.upload(self, stored, path_or_stream)

    def upload_files(
        self,
        names: Sequence[str],
        paths: Sequence[str],
        return_artifacts: bool = False,
        timeout_seconds: Optional[float] = None,
        datastore_name: Optional[str] = None,
    ) -> Optional[Dict[str, str]]:
        """Store several files; `names` and `paths` go together one by one.

        Raises:
            TypeError: the two differ in length.
        """
        if len(names) != len(paths):
            raise TypeError(f"names and paths must have the same length, found {len(names)} and {len(paths)}.")
        note_without_effect({"timeout_seconds": timeout_seconds})
        pairs = [(clean_file_name(name), path) for name, path in zip(names, paths)]
        if datastore_name is not None:
            files.copy_to_datastore(self, datastore_name, pairs)
        files.upload_many(self, pairs)
        return {name: details.file_url(self, clean_file_name(name)) for name in names} if return_artifacts else None

    def upload_folder(self, name: str, path: str, datastore_name: Optional[str] = None) -> None:
        """Store all files below the folder `path` under `name/`, the tree kept."""
        pairs = files.below(name, path)
        if datastore_name is not None:
            files.copy_to_datastore(self, datastore_name, pairs)
        files.upload_many(self, pairs)

    def get_file_names(self) -> List[str]:
        """Return the names of all files of the run, as they were on the disk that they came from."""
        return [true_file_name(file.name) for file in files.list_files(self)]

    def download_file(
        self, name: str, output_file_path: Optional[str] = None, _validate_checksum: bool = False
    ) -> None:
        """Write the run's file `name` to `output_file_path`: a file, a folder, or here when not given.

        Raises:
            UserErrorException: the run has no such file.
        """
        files.download_file(self, name, output_file_path)

    def download_files(
        self,
        prefix: Optional[str] = None,
        output_directory: Optional[str] = None,
        output_paths: Optional[Sequence[str]] = None,
        batch_size: int = 100,
        append_prefix: bool = True,
        timeout_seconds: Optional[float] = None,
    ) -> None:
        """Write all files whose names start with `prefix` below `output_directory`.

        Args:
            output_paths: instead, one path for each file, in the order of `get_file_names()`.
            append_prefix: false leaves the prefix out of the paths.
        """
        note_without_effect({"timeout_seconds": timeout_seconds})
        files.download_files(self, prefix or "", output_directory or ".", output_paths, append_prefix=append_prefix)

    def get_all_logs(self, destination: Optional[str] = None) -> List[str]:
        """Write each log below `destination` (default `assets/<run id>`) and return the paths."""
        return files.download_logs(self, destination or f"assets/{self._run_id}")

    def get_snapshot_id(self) -> str:
        """Return the id of the stored source folder.

        Raises:
            UserErrorException: the run has none.
        """
        return files.get_snapshot_id(self)

    def take_snapshot(self, file_or_folder_path: str) -> str:
        """Store a folder, or one file, as the run's snapshot and return its id.

        Raises:
            SnapshotException: the run has one already, or the folder cannot be stored.
        """
        return files.take_snapshot(self, file_or_folder_path)

    def restore_snapshot(self, snapshot_id: Optional[str] = None, path: Optional[str] = None) -> str:
        """Write a snapshot as `<path>/<snapshot id>.zip` and return that path.

        Args:
            snapshot_id: the run's own when not given.
            path: a folder, made when missing; a new temporary one when not given.

        Raises:
            UserErrorException: the run has no snapshot, or there is none of that id.
        """
        return files.restore_snapshot(self, snapshot_id, path)

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
            sample_input_dataset=sample_input_dataset,
            sample_output_dataset=sample_output_dataset,
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

    @property
    def parent(self) -> Optional[Run]:
        """The run that this one belongs to, or None. A script may read it, add to it and cancel it."""
        parent_id = self._facts.parent_id
        return None if parent_id is None else Run.get(self._experiment.workspace, parent_id)

    def child_run(self, name: Optional[str] = None, run_id: Optional[str] = None, outputs: Any = None) -> Run:
        """Make a child run, Running at once; `complete()`, `fail()` or a `with` block ends it.

        Args:
            name: shown after the parent's own name, `parent>child`.
            run_id: the child's id; a random UUID when not given.
            outputs: a folder to upload as the child's files when it ends.
        """
        child_id = check_run_id(run_id) if run_id else make_uuid()
        return lifecycle.make_child(self, child_id, name=name, outputs=outputs)

    def create_children(
        self,
        count: Optional[int] = None,
        tag_key: Optional[str] = None,
        tag_values: Optional[Sequence[Any]] = None,
    ) -> List[Run]:
        """Make many child runs, all Running: `count` of them, or one for each of `tag_values` with that tag.

        Raises:
            UserErrorException: both ways at once, neither, or more than 100 children.
        """
        return lifecycle.create_children(self, count, tag_key, tag_values)

    def submit_child(self, config: Any, tags: Optional[Mapping[str, Any]] = None, **kwargs: Any) -> Run:
        """Submit `config` as a child of this run and return it at once."""
        from runyard.sdk.submit.submission import submit  # loads the client and the snapshot code

        self._flush_own()
        return submit(self._experiment, config, tags=tags, options=kwargs, parent_id=self._run_id)

    def get_children(
        self,
        recursive: bool = False,
        tags: Filter = None,
        properties: Filter = None,
        type: Optional[str] = None,
        status: Union[str, Sequence[str], None] = None,
        _rehydrate_runs: bool = True,
    ) -> Iterator[Run]:
        """Yield the child runs, newest first; with `recursive` all below them too. The rest narrows what is yielded."""
        query = narrowed(type, tags, properties, status)
        yield from lifecycle.iter_children(self, recursive=recursive, query=query)

    def cancel(self) -> None:
        """Ask the run and all below it to stop. Twice is fine; a finished run stays as it is.

        Inside a submitted run itself it only flushes; a run that this process is ends as Canceled.
        """
        lifecycle.cancel(self)

    def start(self) -> None:
        """Do nothing: a run starts with its submit."""

    def clean(self) -> List[str]:
        """Do nothing: a run's folder on its node is removed at its end. Return the files removed here: none."""
        return []

    def complete(self, _set_status: bool = True) -> None:
        """End an interactive run as Completed. Inside a submitted run, wait until all that was logged has arrived."""
        lifecycle.complete(self)

    def fail(self, error_details: Any = None, error_code: Optional[str] = None, _set_status: bool = True) -> None:
        """End the run as Failed and stop its processes. Inside a submitted run only the error is recorded."""
        lifecycle.fail(self, error_details, error_code)

    def flush(self, timeout_seconds: float = 300) -> None:
        """Wait until the server has all that this process logged; warn when it has not within `timeout_seconds`."""
        lifecycle.flush(self, timeout_seconds)

    def __enter__(self: R) -> R:
        return self

    def __exit__(
        self, cls: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> bool:
        return lifecycle.leave_block(self, error)

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
        from runyard.sdk.runs.notebook import first_card, has_notebook, show_card  # notebooks only

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

    @classmethod
    def _known(cls: Type[R], experiment: Experiment, record: records.Run) -> R:
        """Return a handle for a record that was just read."""
        run = cls.__new__(cls)
        run._set_up(experiment, record.id, record)
        return run

    def _set_up(self, experiment: Experiment, run_id: str, record: Optional[records.Run] = None) -> None:
        self._experiment, self._client = experiment, experiment._client
        self._run_id, self._record, self._writer = run_id, record, None
        self._own = self._interactive = False

    @property
    def _facts(self) -> records.Run:
        """The run as last seen; fetched when it was never seen."""
        return self._record if self._record is not None else self._refresh()

    def _refresh(self) -> records.Run:
        """Fetch the run. A finished one keeps its status, but tags and files of it may still change."""
        self._record = self._client.runs.get(self._run_id)
        return self._record

    def _update(self, **changes: Any) -> None:
        self._record = self._client.runs.update(self._run_id, **changes)

    def _writes_here(self) -> bool:
        """Whether this process has a journal of its own for the run."""
        return self._own or self._interactive

    def _journal(self) -> JournalWriter:
        """Return the journal that this process writes about the run; a handle on another run gets one when needed."""
        if self._writer is None:
            from runyard.sdk.runs.attach import attach_writer  # rare: most handles only read

            self._writer = attach_writer(self._client, self._run_id, beside=self._beside)
        return self._writer

    def _flush_own(self) -> None:
        """Wait until the server has what this process wrote, so that it can be read back."""
        if self._writer is not None and not self._writer.flush(FLUSH_S):
            warn(f"The server has not taken all records of run {self._run_id} yet; what it tells may be older.")

    def _flush_family(self) -> None:
        """Flush the run and the children that this process made of it."""
        self._flush_own()
        for child in [*self._made]:
            child._flush_family()

    @property
    def _made(self) -> List[ChildRun]:
        """The children that this process made of the run and that have not ended."""
        children: List[ChildRun] = self.__dict__.setdefault("_made_children", [])
        return children

    def _end(self, status: str, error: Optional[RunError] = None) -> None:
        raise NotImplementedError  # interactive runs only

    @property
    def _page(self) -> str:
        return f"/runs/{self._run_id}"

    def _get_outputs_datapath(self) -> DataPath:
        """Return a DataPath to a copy of what is in `outputs/` now, for `resume_from` of another run."""
        from runyard.sdk.runs.assets import outputs_datapath  # loads what is about datastores

        return outputs_datapath(self)


class ScriptRun(Run):
    """A run that `experiment.submit(ScriptRunConfig(...))` started."""

    RUN_TYPE = SCRIPT_RUN

    def __init__(
        self, experiment: Experiment, run_id: str, directory: Optional[str] = None, outputs: Any = None
    ) -> None:
        note_without_effect({"directory": directory})
        super().__init__(experiment, run_id, outputs)


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


def iter_runs(workspace: Workspace, **query: Any) -> Iterator[Run]:
    """Yield the runs of a workspace that fit `query`, newest first, each as an object of its type."""
    for record in workspace._client.runs.iter(workspace.name, **query, view="all"):
        yield _typed(workspace, record)


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
