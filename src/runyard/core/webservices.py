"""Web services: what a deployment asks for, and the record of a service as the server keeps and shows it.

A service is a long-lived run; a revision says, once and for all, what it serves; replicas are child runs.
"""

from __future__ import annotations

import math
import re
from dataclasses import field
from datetime import datetime
from typing import Any, ClassVar, Dict, List, Optional

from runyard.core.errors import InvalidArgument
from runyard.core.formats.documents import RunError
from runyard.core.lazy_dataclass import dataclass
from runyard.core.records import SERVICE_KIND
from runyard.core.specs import EnvironmentSpec, ResourceSpec

KIND = SERVICE_KIND  # of the assets that hold them
EXPERIMENT = "webservices"
SERVICE_TYPE, REPLICA_TYPE = "runyard.service", "runyard.replica"  # of runs
REVISION_PROPERTY = "runyard.revision"  # of a replica's run
TRANSITIONING, HEALTHY, UNHEALTHY, FAILED = "Transitioning", "Healthy", "Unhealthy", "Failed"  # of services
STARTING, READY, STOPPED = "Starting", "Ready", "Stopped"  # of revisions, beside FAILED
RUNNING, SUCCEEDED = "Running", "Succeeded"  # of operations, beside FAILED
PRIMARY, SECONDARY = "Primary", "Secondary"
Definition = Dict[str, Any]  # a JSON object of others: Azure's own, kept to be shown again, or OpenAPI
_NAME = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")
MOST_REPLICAS = 1000


@dataclass(frozen=True)
class Scaling:
    """`is_on`: as many replicas as their load asks for, else always `replicas`."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    is_on: bool = False
    replicas: int = 1
    min_replicas: int = 1  # 0: none after `idle_s` without a request; the next request waits for a start
    max_replicas: int = 10
    target_utilization: float = 70.0  # percent of the workers that compute
    down_after_s: float = 60.0  # without need of as many replicas as there are, until the surplus ends
    idle_s: float = 600.0


@dataclass(frozen=True)
class RevisionSpec:
    """What one revision serves, complete."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    models: List[str] = field(default_factory=list)  # `name:version`
    entry: str = ""  # the entry script, below the source's root
    source_directory: str = ""  # the base name by which scripts know their source folder; "": the script came alone
    snapshot_id: Optional[str] = None
    no_code: str = ""  # the scorer of a model without a script: sklearn, onnx, tensorflow, mlflow
    environment: EnvironmentSpec = field(default_factory=EnvironmentSpec)
    variables: Dict[str, str] = field(default_factory=dict)
    target: str = "local"
    gpus: Optional[int] = None
    resources: ResourceSpec = field(default_factory=ResourceSpec)
    scaling: Scaling = field(default_factory=Scaling)
    workers: int = 1  # processes of a replica
    threads: int = 1  # requests that a worker computes at the same time
    batching: str = ""  # "auto": find out whether rows of several requests may be joined
    memory_limit_mb: int = 0
    scoring_timeout_ms: int = 60_000
    max_wait_ms: int = 60_000  # of a request, while all workers compute
    cold_start_ms: int = 120_000  # of a request, while no worker is ready
    label: str = ""  # the version's name, on an AksEndpoint
    definition: Definition = field(default_factory=dict)  # Azure's JSON form
    created_by: str = ""


@dataclass(frozen=True)
class ServiceSettings:
    """What is said of a service, whatever its revisions."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    compute_type: str = "ACI"  # Azure's word: ACI, AKS, AKSENDPOINT or Local
    compute_name: str = ""
    description: str = ""
    tags: Dict[str, str] = field(default_factory=dict)
    properties: Dict[str, str] = field(default_factory=dict)
    auth: Optional[bool] = None  # by keys; None: as the server's kind asks for
    token_auth: bool = False
    port: int = 0  # of its own on the server's machine, beside the gateway's
    cors_origins: List[str] = field(default_factory=list)
    definition: Definition = field(default_factory=dict)  # what else Azure's configuration said, to show it again


@dataclass(frozen=True)
class NewService:
    """A request to deploy. An overwritten service keeps its keys unless others are given."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    settings: ServiceSettings
    revision: RevisionSpec
    overwrite: bool = False
    primary_key: Optional[str] = None
    secondary_key: Optional[str] = None


@dataclass(frozen=True)
class ServiceChange:
    """The settings to change; null keeps a value. `revision` is a new one, which takes over when it is ready."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    revision: Optional[RevisionSpec] = None
    description: Optional[str] = None
    tags: Optional[Dict[str, str]] = None
    properties_add: Optional[Dict[str, str]] = None
    auth: Optional[bool] = None
    token_auth: Optional[bool] = None
    scaling: Optional[Scaling] = None  # of the revision that serves, without a new one
    definition: Optional[Definition] = None
    shares: Optional[Dict[str, float]] = None  # percent by a version's label; the default version gets the rest
    default: Optional[str] = None  # label of the default version
    drop: Optional[str] = None  # label of a version that is to be deleted


@dataclass(frozen=True)
class ReplicaRef:
    run_id: str
    number: int  # of the service's replicas, ever
    is_wanted: bool = True


@dataclass(frozen=True)
class ServiceRevision:
    number: int
    created_at: datetime
    spec: RevisionSpec
    state: str = STARTING
    error: Optional[RunError] = None
    replicas: List[ReplicaRef] = field(default_factory=list)
    failed_starts: int = 0  # replicas in a row that ended by themselves
    workers: int = 0  # that answer now
    busy: int = 0
    retire_at: Optional[datetime] = None  # another one serves; it is kept warm until then

    @property
    def first_replicas(self) -> int:
        """How many must answer before it serves."""
        scaling = self.spec.scaling
        return max(1, scaling.min_replicas) if scaling.is_on else scaling.replicas


@dataclass(frozen=True)
class Operation:
    """The last change that takes time: the start of a revision."""

    kind: str  # Create, Update or Rollback
    state: str = RUNNING
    revision: int = 0
    started_at: Optional[datetime] = None
    error: Optional[RunError] = None
    makes_default: bool = False  # the revision's version becomes the default one when it is ready


@dataclass(frozen=True)
class Webservice:
    workspace: str
    name: str
    id: str
    run_id: str
    created_at: datetime
    updated_at: datetime
    settings: ServiceSettings
    revisions: List[ServiceRevision]
    current: Dict[str, int] = field(default_factory=dict)  # the revision that serves, by label
    shares: Dict[str, float] = field(
        default_factory=dict
    )  # percent of the requests by label; the default gets the rest
    default: str = ""  # label of the version that gets the rest
    route: str = ""  # the gateway's name of it
    last_replica: int = 0  # its number; none is given twice
    rows: int = 0  # of the gateway's metrics, how many the run has
    operation: Optional[Operation] = None
    state: str = TRANSITIONING
    error: Optional[RunError] = None
    scoring_uri: str = ""
    created_by: str = ""
    owner: Optional[str] = None

    def revision(self, number: int) -> Optional[ServiceRevision]:
        return next((one for one in self.revisions if one.number == number), None)

    @property
    def serving(self) -> Optional[ServiceRevision]:
        """The revision that serves; of an endpoint that of its default version. None: none was ready yet."""
        return self.revision(self.current.get(self.default, 0))

    @property
    def weights(self) -> Dict[int, float]:
        """The share of each revision that serves, in percent, by number."""
        found = {number: self.shares.get(label, 0.0) for label, number in self.current.items()}
        if self.default in self.current:
            rest = 100.0 - sum(share for label, share in self.shares.items() if label != self.default)
            found[self.current[self.default]] = max(0.0, rest)
        return found


@dataclass(frozen=True)
class ServiceAnswer:
    """What a service answered. `text` is None when the body is not text; `is_cut`: the body was longer."""

    status: int
    content_type: str
    text: Optional[str]
    size_bytes: int
    is_cut: bool
    request_id: str
    run_ms: str  # how long `run()` took, as the service says; "" when it does not
    took_ms: float


@dataclass(frozen=True)
class ServiceDescription:
    """A service's OpenAPI document, None when it has none or is not ready, and a body to try it with."""

    document: Optional[Definition]
    sample: Any  # any JSON value; None also when the document says nothing of a body


def check_service_name(name: str) -> str:
    """Raises InvalidArgument: it is no name of a service, by Azure's rule."""
    if not isinstance(name, str) or not 3 <= len(name) <= 32 or not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"{str(name)[:80]!r} cannot be the name of a web service.",
            why="It has 3 to 32 lower-case letters, digits and dashes, begins with a letter and does not end with a "
            "dash, as in Azure.",
            hint="For example: `sklearn-mnist-svc`.",
        )
    return name


def check_revision(spec: RevisionSpec) -> None:
    """Raises InvalidArgument: it names nothing to serve, or a number that cannot be."""
    scaling = spec.scaling
    faults = []
    if bool(spec.entry) == bool(spec.no_code):
        faults.append("it needs either an entry script or a model that is served without one")
    if spec.entry and not spec.snapshot_id:
        faults.append("its source was not stored")
    if spec.no_code and len(spec.models) != 1:
        faults.append(f"a service without an entry script has one model, not {len(spec.models)}")
    if not 0 <= scaling.min_replicas <= scaling.max_replicas <= MOST_REPLICAS or scaling.max_replicas < 1:
        faults.append(f"{scaling.min_replicas} to {scaling.max_replicas} replicas are no range up to {MOST_REPLICAS}")
    if not 1 <= scaling.replicas <= MOST_REPLICAS:
        faults.append(f"it asks for {scaling.replicas} replicas")
    if not 0 < scaling.target_utilization <= 100:
        faults.append(f"a target utilization of {scaling.target_utilization:g} % cannot be reached")
    if not (1 <= spec.workers <= 256 and 1 <= spec.threads <= 1024):
        faults.append(f"{spec.workers} workers with {spec.threads} requests each are too few or too many")
    for name in ("scoring_timeout_ms", "max_wait_ms", "cold_start_ms"):
        if getattr(spec, name) <= 0:
            faults.append(f"{name} is {getattr(spec, name)}")
    for name in ("down_after_s", "idle_s"):
        if not 0 < getattr(scaling, name) < math.inf:
            faults.append(f"{name} is {getattr(scaling, name)}")
    if faults:
        raise InvalidArgument("The service cannot be deployed.", why="; ".join(faults).capitalize() + ".")
