"""What a user asked for, frozen: the values that travel from submit to the node."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Dict, List, Optional

DEFAULT_TIME_LIMIT_S = 2592000


@dataclass(frozen=True)
class EnvironmentSpec:
    """Which Python runs the script. `interpreter` None means the submitting interpreter."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    name: str = "default-environment"
    version: Optional[str] = None
    kind: str = "system"  # the EnvironmentBuilder's name
    interpreter: Optional[str] = None
    pip_packages: List[str] = field(default_factory=list)
    conda_packages: List[str] = field(default_factory=list)
    conda_channels: List[str] = field(default_factory=list)
    python_version: Optional[str] = None
    variables: Dict[str, str] = field(default_factory=dict)
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
class RunSpec:
    """One run, complete: nothing else decides what is executed."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    target: str = "local"
    script: Optional[str] = None
    arguments: List[str] = field(default_factory=list)  # as typed; `$VAR` is expanded in each process's variables
    command: Optional[str] = None  # run by `sh -c` instead of a script
    environment: EnvironmentSpec = field(default_factory=EnvironmentSpec)
    distribution: DistributionSpec = field(default_factory=DistributionSpec)
    variables: Dict[str, str] = field(default_factory=dict)  # run_config.environment_variables
    time_limit_s: float = DEFAULT_TIME_LIMIT_S
    grace_s: float = 30.0
    output_folders: List[str] = field(default_factory=lambda: ["outputs", "logs"])  # both ship while the run goes on
    definition: Dict[str, Any] = field(default_factory=dict)  # Azure's `runDefinition`, for get_details
    framework: str = "Python"
    communicator: str = "None"


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
    submit_cwd: Optional[str] = None
    submitter: Dict[str, str] = field(default_factory=dict)  # the submitting process's variables (`local` only)
    interactive_pid: Optional[int] = None  # a run that we did not launch: watch this process instead of launching
    interactive_start_ticks: Optional[int] = None
    interactive_folders: Dict[str, str] = field(default_factory=dict)  # of that process: name → absolute path
