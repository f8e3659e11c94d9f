"""The records that the store keeps and the HTTP API shows: runs, experiments, workspaces, files, metrics and models.

A model's record describes one version. Its number, name and times are those of the asset.
"""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from typing import Any, ClassVar, Dict, List, Mapping, Optional, Sequence, Tuple

from runyard.core.formats.documents import EnvironmentFacts, RunError, RunWarning
from runyard.core.lazy_dataclass import dataclass
from runyard.core.names import make_run_id, make_sweep_id
from runyard.core.specs import RunSpec
from runyard.core.statuses import RunStatus

DEFAULT_WORKSPACE = "default"
PROGRESS = " · "  # in what a run waits for: divides the activity from how far it is
SNAPSHOT_PROPERTY = "ContentSnapshotId"  # of runs: Azure's name for the snapshot's id
LEFT_OUT_PROPERTY = "runyard.snapshot.left_out"  # of runs: which files look like secrets and are not in the snapshot
IGNORED_PROPERTY = "runyard.snapshot.ignored"  # of runs: what ignore files kept out, as `snapshots.left_out` writes it
SOURCE_PROPERTY = "runyard.snapshot.source"  # of runs: the folder that the snapshot was made from
SPARSE = {"sparse": True}  # metadata of a field that is written only where it says something
KIND = "model"
MODEL_NAME = "model_name"  # asset kind: what is said of a model's name, whatever its versions
LOGGED_MODEL = "logged_model"  # asset kind: MLflow's logged models, by their ids
SERVICE_KIND = "webservice"
IMAGE_KIND = "image"  # definitions of 2018 that services are made from
IMPORTED_PROPERTY = "runyard.imported_from"  # of runs: JSON of where an imported run comes from
MLFLOW_NAME, MLFLOW_NOTE = "mlflow.runName", "mlflow.note.content"  # tags that are a run's name and description
MLFLOW_RUN = "mlflow"  # the type of runs that a client of MLflow made: it tells their status, nobody watches them
USER_TAG = "mlflow.user"
GIT_TAGS = {  # tags of MLflow's runs: properties of ours that say the same
    "mlflow.source.git.commit": "azureml.git.commit",
    "mlflow.source.git.branch": "azureml.git.branch",
    "mlflow.source.git.repoURL": "azureml.git.repository_uri",
}


@dataclass(frozen=True)
class Workspace:
    id: str
    name: str
    created_at: datetime
    subscription_id: str = ""
    resource_group: str = ""
    location: str = ""
    tags: Dict[str, str] = field(default_factory=dict)
    owner: Optional[str] = None  # of this and of the records below, see Run.owner


@dataclass(frozen=True)
class Experiment:
    id: str
    name: str
    workspace: str
    created_at: datetime
    archived_at: Optional[datetime] = None
    tags: Dict[str, Optional[str]] = field(default_factory=dict)
    undo_until: Optional[datetime] = None  # it is deleted, and can be restored until then
    owner: Optional[str] = None
    title: Optional[str] = None  # any text by which it is shown and found too, unique like the name; None: the name
    changed_at: Optional[datetime] = None  # when its title changed, or it was archived or brought back
    artifact_location: Optional[str] = None  # where MLflow's clients put the files of the runs that they make in it

    @property
    def shown_name(self) -> str:
        """The title; the name where it has none."""
        return self.title if self.title is not None else self.name


@dataclass(frozen=True)
class Wait:
    """What a run waited for or was busy with since then, in words."""

    text: str
    at: datetime


@dataclass(frozen=True)
class Phase:
    """One step of a run's timeline, with the last few things that it waited for in it."""

    status: RunStatus
    at: datetime
    waits: List[Wait] = field(default_factory=list)


@dataclass(frozen=True)
class Attempt:
    """An attempt of a run that was given up, so that another can follow. `ended_at`: nothing of it lives since then."""

    number: int
    given_up_at: datetime
    ended_at: Optional[datetime] = None
    code: str = ""  # NodeLost, Preempted, NeverStarted
    why: str = ""
    host: str = ""  # where it ran


@dataclass(frozen=True)
class Run:
    id: str
    number: int  # 1, 2, 3… within its experiment
    workspace: str
    experiment: str
    experiment_id: str
    status: RunStatus
    created_at: datetime
    type: Optional[str] = None  # "azureml.scriptrun"; None for an interactive run
    display_name: str = ""
    description: str = ""
    parent_id: Optional[str] = None
    root_id: str = ""
    attempt: int = 0  # 0 until it was handed to a compute target
    spec: RunSpec = field(default_factory=RunSpec)
    snapshot_id: Optional[str] = None
    snapshot_root: Optional[str] = None
    tags: Dict[str, Optional[str]] = field(default_factory=dict)
    properties: Dict[str, str] = field(default_factory=dict)
    parameters: Dict[str, str] = field(default_factory=dict)  # `--name value` of the arguments, then what was logged
    logged_parameters: Dict[str, str] = field(default_factory=dict)  # those that the script logged; they never change
    started_at: Optional[datetime] = None
    ended_at: Optional[datetime] = None
    error: Optional[RunError] = None
    warnings: List[RunWarning] = field(default_factory=list)
    waits_for: str = ""  # why it is queued, or what takes time in its phase, in words
    desired: Optional[str] = None  # "cancel" or "fail", stored apart from the observed status
    desired_error: Optional[RunError] = None
    submitted_by: str = ""  # for people to read: of the server's own runs, the name of an account of its machine
    owner: Optional[str] = None  # the user whose run it is; "": the server's; None: made before owners were recorded
    environment: EnvironmentFacts = field(default_factory=EnvironmentFacts)  # what was really used
    timeline: List[Phase] = field(default_factory=list)
    attempts: List[Attempt] = field(default_factory=list)  # those that were given up, oldest first
    archived_at: Optional[datetime] = None
    undo_until: Optional[datetime] = None  # it is deleted, and can be restored until then

    @property
    def is_fenced(self) -> bool:
        """Whether the present attempt was given up: it must end, and then the next may start."""
        return bool(self.attempts) and self.attempts[-1].number == self.attempt

    @property
    def is_between_attempts(self) -> bool:
        """Whether the present attempt was given up and nothing of it lives any more."""
        return self.is_fenced and self.attempts[-1].ended_at is not None

    @property
    def user(self) -> str:
        """Who submitted the run; of one that a client of MLflow made, who that client says."""
        return (self.tags.get(USER_TAG) if self.type == MLFLOW_RUN else None) or self.submitted_by

    @property
    def owning_user(self) -> str:
        """The user whose run it is; "": the server's owner. A run that records none is its submitter's."""
        return self.submitted_by if self.owner is None else self.owner

    @property
    def due_attempt(self) -> int:
        """The attempt that supervisors are told of: one that was given up hears of its successor, and stops."""
        return self.attempt + 1 if self.is_fenced else self.attempt


def make_id_like(run: Run) -> str:
    """Return an id for another run of this one's kind."""
    return make_run_id(run.experiment) if run.spec.sweep is None else make_sweep_id()


@dataclass(frozen=True)
class NewRun:
    """A request to create a run. `key` makes a repeated request the same run."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}  # a misspelt field is named, not dropped

    key: str
    id: str
    workspace: str
    experiment: str
    spec: RunSpec = field(default_factory=RunSpec)
    type: Optional[str] = "azureml.scriptrun"
    status: RunStatus = RunStatus.NOT_STARTED
    display_name: str = ""
    description: str = ""
    parent_id: Optional[str] = None
    snapshot_id: Optional[str] = None
    snapshot_root: Optional[str] = None
    tags: Dict[str, Optional[str]] = field(default_factory=dict)
    properties: Dict[str, str] = field(default_factory=dict)
    parameters: Dict[str, str] = field(default_factory=dict)
    started_at: Optional[datetime] = field(
        default=None, metadata={"sparse": True}
    )  # of a run that began before it was recorded
    submitted_by: str = ""
    owner: Optional[str] = None  # filled in by the server; never part of a request


@dataclass(frozen=True)
class RunChange:
    """What a request changes in a run's record; what is None or empty stays as it is."""

    tags_set: Optional[Mapping[str, Optional[str]]] = None
    tags_remove: Sequence[str] = ()
    properties_add: Optional[Mapping[str, str]] = None  # an existing property never changes its value
    parameters_add: Optional[Mapping[str, str]] = None  # one that is there stays as it is
    parameters_log: Optional[Mapping[str, str]] = None  # a logged parameter never changes; it hides an argument's value
    display_name: Optional[str] = None
    description: Optional[str] = None
    warnings_add: Sequence[RunWarning] = ()
    environment: Optional[EnvironmentFacts] = None
    snapshot: Optional[Tuple[str, str]] = None  # its id and root tree
    archived: Optional[bool] = None


@dataclass(frozen=True)
class RunFile:
    """A named file of a run. `kind` "blob": `chunks` hold it; "stream": a log that grows."""

    name: str
    size: int
    kind: str = "blob"
    sha256: Optional[str] = None
    chunks: List[str] = field(default_factory=list)
    updated_at: Optional[datetime] = None
    complete: bool = True


@dataclass(frozen=True)
class Asset:
    """One version of something a workspace keeps by name: an environment, a compute target, a datastore.

    `key` is a digest of what makes two versions the same; empty when each registration is a version of its own.
    """

    workspace: str
    kind: str
    name: str
    version: int  # 1, 2, 3…
    created_at: datetime
    updated_at: datetime
    key: str = ""
    document: Dict[str, Any] = field(default_factory=dict)
    owner: Optional[str] = None


@dataclass(frozen=True)
class Mark:
    """How far a journal segment has been stored: bytes [0, offset) are in the store."""

    writer: str
    segment: int
    offset: int


@dataclass(frozen=True)
class MetricInfo:
    """A metric of a run, without its points. `kind`: "scalar", "table" or "artifact"."""

    name: str
    kind: str
    columns: List[str]  # [""] for a scalar
    ranks: List[int]
    count: int
    last: Any = None
    minimum: Optional[float] = None
    maximum: Optional[float] = None
    artifact: Optional[str] = None  # the file's name, for kind "artifact"


@dataclass(frozen=True)
class ModelSpec:
    """`path` is what the model's files lie below: the base name of the file or folder that was registered."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    path: str = ""
    is_folder: bool = False
    files: List[RunFile] = field(default_factory=list)  # named as they are downloaded: `model.pkl`, `model/a/b`
    description: str = ""
    tags: Dict[str, str] = field(default_factory=dict)
    properties: Dict[str, str] = field(default_factory=dict)
    framework: str = "Custom"
    framework_version: str = ""
    run_id: Optional[str] = None
    experiment: str = ""
    datasets: List[List[str]] = field(default_factory=list)  # [what it was for, the dataset's id]
    resources: Dict[str, Any] = field(default_factory=dict)
    created_by: str = ""
    stage: str = field(default="", metadata=SPARSE)  # MLflow's: Staging, Production or Archived; "": None
    run_path: str = field(default="", metadata=SPARSE)  # what it was registered from; "": all the run's files
    source: str = field(default="", metadata=SPARSE)  # as MLflow's client named it
    location: str = field(default="", metadata=SPARSE)  # where MLflow's clients load it, when no file of it is here
    run_link: str = field(default="", metadata=SPARSE)
    logged_model: str = field(default="", metadata=SPARSE)  # MLflow's id of it


@dataclass(frozen=True)
class ModelAbout:
    """What is said of a model's name: the document of kind MODEL_NAME. An alias of a deleted version is none."""

    description: str = ""
    tags: Dict[str, str] = field(default_factory=dict)
    aliases: Dict[str, int] = field(default_factory=dict)  # to version


@dataclass(frozen=True)
class ModelVersion:
    """A model as the API shows it: without the places of its content."""

    workspace: str
    name: str
    version: int
    created_at: datetime
    updated_at: datetime
    spec: ModelSpec
    aliases: List[str] = field(default_factory=list)  # of MLflow, that name this version
    about: ModelAbout = field(default_factory=ModelAbout)  # what is said of the name
