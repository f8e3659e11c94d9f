"""Specs: what a user asked for, as frozen values that travel from the submit to the node.

Sweeps come first: the search, its trials and the decisions about them. Datasets follow, then the parts of a run, the
run itself, and the job that a backend starts.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar, Dict, List, Optional

from runyard.core.lazy_dataclass import dataclass

SWEEP_TYPE = "hyperdrive"  # of the run that a sweep is
MAX_TOTAL_RUNS, MAX_CONCURRENT_RUNS = 1000, 100
MAXIMIZE, MINIMIZE = "MAXIMIZE", "MINIMIZE"
KIND = "dataset"  # of the assets that hold registered ones
FILE, TABULAR = "file", "tabular"
DIRECT, MOUNT, DOWNLOAD, UPLOAD = "direct", "mount", "download", "upload"
DEFAULT_TIME_LIMIT_S = 2592000
MODULE = "-m "  # before a module's name in the place of a script: `-m package.module`


@dataclass(frozen=True)
class SweepSpec:
    """A search, complete: with its seed nothing else decides which trials Random and Grid make."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    sampling: str  # the Sampler's name
    space: Dict[str, List[Any]]  # parameter → [expression, [arguments]], in the order given
    primary_metric: str
    goal: str = MAXIMIZE
    max_total_runs: int = 1
    max_concurrent_runs: int = 1
    max_duration_s: float = 604800.0
    policy: str = "Default"  # the StoppingPolicy's name
    policy_properties: Dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    resume_from: List[str] = field(default_factory=list)  # earlier sweeps, whose trials inform sampler and policy
    first_trials: List[Dict[str, Any]] = field(default_factory=list)  # before the sampler's


@dataclass(frozen=True)
class Trial:
    """One child of a sweep as its policy and sampler see it: `values` are its loggings of the primary metric."""

    id: str
    parameters: Dict[str, Any] = field(default_factory=dict)
    values: List[float] = field(default_factory=list)
    is_finished: bool = False


@dataclass(frozen=True)
class Decision:
    """What a policy says about one trial at one interval, with everything it looked at in words."""

    stop: bool
    reason: str
    bound: Optional[float] = None  # the value that was compared with
    found: Optional[float] = None  # the trial's own


@dataclass(frozen=True)
class DataSource:
    """Files of a datastore: one, all below a folder, or those that a pattern (`*`, `**`, `?`) fits; or an address."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    datastore: str = ""
    path: str = ""
    url: str = ""


@dataclass(frozen=True)
class DatasetSpec:
    """`steps` are applied in order: `{"do": "take", "count": 10}`; `reader` says how tables are read."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    id: str
    kind: str = FILE
    sources: List[DataSource] = field(default_factory=list)
    steps: List[Dict[str, Any]] = field(default_factory=list)
    reader: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DatasetInputSpec:
    """A dataset that a run gets: as a path (mount, download), or as the dataset itself (direct)."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    dataset: DatasetSpec
    mode: str = DIRECT
    path_on_compute: Optional[str] = None
    name: str = ""  # under which it is registered
    version: int = 0


@dataclass(frozen=True)
class DatasetOutputSpec:
    """A folder that a run writes to and that ends on a datastore; `register` names the dataset that it becomes."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    datastore: str
    path: str = ""
    mode: str = MOUNT
    overwrite: bool = False
    source: Optional[str] = None  # where the run writes, below its work folder
    globs: List[str] = field(default_factory=list)
    register: Dict[str, Any] = field(default_factory=dict)  # {name, description, tags, kind, reader, steps, glob}


@dataclass(frozen=True)
class ContainerSpec:
    """The image that a run's processes start in: `image`, or `dockerfile` (its text)."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    image: str = ""
    dockerfile: str = ""
    registry: str = ""  # address of the image's registry; with it the image's name has none
    username: str = ""
    password: str = ""  # travels to the node; hidden in every record
    shared_volumes: bool = True
    shm_size: str = ""
    arguments: List[str] = field(default_factory=list)  # more words for `podman run` or `docker run`
    # Without a container runtime: the environment's kind, interpreter and python_version. Empty: the run fails there.
    fallback: Dict[str, Optional[str]] = field(default_factory=dict, metadata={"sparse": True})


@dataclass(frozen=True)
class EnvironmentSpec:
    """Which Python runs the script.

    `interpreter` is that Python (kind system), the submitting one that a build may start from (uv, conda), or a user's
    own in the image (container); None: the node's, or the image's.
    """

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    name: str = "default-environment"
    version: Optional[str] = None
    kind: str = "system"  # the EnvironmentBuilder's name: system, uv, conda (any conda package), container
    interpreter: Optional[str] = None
    pip_packages: List[str] = field(default_factory=list)
    pip_options: List[str] = field(default_factory=list)  # as lines of a requirements file: `--index-url https://…`
    pip_constraints: List[str] = field(default_factory=list)  # requirements that limit versions and install nothing
    conda_packages: List[str] = field(default_factory=list)
    conda_channels: List[str] = field(default_factory=list)
    python_version: Optional[str] = None
    variables: Dict[str, str] = field(default_factory=dict)
    container: Optional[ContainerSpec] = None
    definition: Dict[str, Any] = field(default_factory=dict)  # Azure's JSON form, for get_details


@dataclass(frozen=True)
class DistributionSpec:
    """How many processes on how many nodes. `kind` is the Launcher's name: single, mpi, pytorch, tensorflow."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    kind: str = "single"
    node_count: int = 1
    processes_per_node: int = 1
    options: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ResourceSpec:
    """What one node of a run should have, on clusters that allocate resources; GPUs are `RunSpec.gpus`."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    cpus: Optional[float] = None  # None: as many as the node's processes
    memory_bytes: Optional[int] = None
    custom: Dict[str, float] = field(default_factory=dict)  # Ray's resources by name; Slurm's `--gres` by name
    # Slurm: partition, account, qos, constraint, extra (a list). Stored runs and older versions know it as `engine`.
    cluster_options: Dict[str, Any] = field(default_factory=dict, metadata={"alias": "engine"})


@dataclass(frozen=True)
class DataReferenceSpec:
    """Data of a datastore that the run's processes find at a path, told by AZUREML_DATAREFERENCE_<name>."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    datastore: str
    path: str = ""  # on the datastore; empty: all of it
    mode: str = "mount"  # or download, or upload: what the run writes there is copied to the datastore at its end
    path_on_compute: Optional[str] = None  # below the work folder, unless absolute
    overwrite: bool = False


@dataclass(frozen=True)
class RunSpec:
    """One run, complete: nothing else decides what is executed."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    target: str = "local"
    script: Optional[str] = None  # by its name: Python, a notebook (.ipynb), a shell script (.sh), or a module (MODULE)
    arguments: List[str] = field(default_factory=list)  # as typed; `$VAR` is expanded in each process's variables
    command: Optional[str] = None  # run by `sh -c` instead of a script
    environment: EnvironmentSpec = field(default_factory=EnvironmentSpec)
    distribution: DistributionSpec = field(default_factory=DistributionSpec)
    variables: Dict[str, str] = field(default_factory=dict)  # run_config.environment_variables
    time_limit_s: float = DEFAULT_TIME_LIMIT_S
    grace_s: float = 30.0  # between TERM and KILL; a submission sets it from RUNYARD_GRACE
    output_folders: List[str] = field(default_factory=lambda: ["outputs", "logs"])  # both ship while the run goes on
    definition: Dict[str, Any] = field(default_factory=dict)  # Azure's `runDefinition`, for get_details
    framework: str = "Python"
    communicator: str = "None"
    gpus: Optional[int] = None  # per node; None: not said, the target decides
    share_gpus: bool = False  # take devices that other runs have as well
    sweep: Optional[SweepSpec] = None  # the run is a sweep: it makes runs of the rest instead of running it
    data_references: Dict[str, DataReferenceSpec] = field(default_factory=dict)  # by name
    datasets: Dict[str, DatasetInputSpec] = field(default_factory=dict)  # by the name that the script knows
    outputs: Dict[str, DatasetOutputSpec] = field(default_factory=dict)
    resources: ResourceSpec = field(default_factory=ResourceSpec)
    max_attempts: int = 1  # more: a run whose node was lost, or that was preempted, is started again
    # Files of the work folder that are stored beside those of `output_folders`: paths and globs. Servers of 0.2 refuse
    # a field that they do not know.
    keep: List[str] = field(default_factory=list, metadata={"sparse": True})


@dataclass(frozen=True)
class NodeSpec:
    """One node of a job as its peers see it; on one machine a virtual node with a loopback address of its own."""

    rank: int
    address: str
    name: str
    gpus: List[str] = field(default_factory=list)  # what CUDA_VISIBLE_DEVICES shall hold


@dataclass(frozen=True)
class JobSpec:
    """What one supervisor needs to run its node's part of an attempt: `job.json` in the run folder, mode 0600."""

    run_id: str
    attempt: int
    experiment: str
    workspace: str
    spec: RunSpec
    snapshot_root: Optional[str]  # tree id; None: start in an empty work folder
    server: Dict[str, Any]  # how to reach the server: client.address.Address as a dict
    token: str  # the run's own token
    cookie: str  # value of RUNYARD_COOKIE in every process of this attempt
    home: str
    experiment_id: str = ""
    workspace_id: str = ""
    subscription_id: str = ""
    resource_group: str = ""
    node_rank: int = 0
    node_count: int = 1
    nodes: List[NodeSpec] = field(default_factory=list)  # those whose part this supervisor runs; the rest are peers'
    devices: List[str] = field(default_factory=list)  # GPUs that the engine set aside; the backend gives them to nodes
    submit_cwd: Optional[str] = None
    submitter: Dict[str, str] = field(default_factory=dict)  # the submitting process's variables (`local` only)
    interactive_pid: Optional[int] = None  # a run that we did not launch: watch this process instead of launching
    interactive_start_ticks: Optional[int] = None
    interactive_folders: Dict[str, str] = field(default_factory=dict)  # of that process: name → absolute path
    slots: List[int] = field(default_factory=list)  # of the target's slots, those that the engine set aside
    shared_folder: str = ""  # on a file system that all nodes see: the work folder lies there; "": they share none
    bundle: str = ""  # SHA-256 of the archive of our code that nodes of a cluster fetch
    incarnation: str = ""  # of the process that joined for this node, on a cluster
    left_out: str = ""  # what ignore files kept out of the snapshot: the run's IGNORED_PROPERTY
    source: str = ""  # real path of the folder that the snapshot was made from
    external_writer: int = 0  # the number of the watched process when it is no part of the run; then `attempt` is 0

    @property
    def is_gang(self) -> bool:
        """Whether other supervisors run the other nodes of this job."""
        return self.node_count > max(1, len(self.nodes))
