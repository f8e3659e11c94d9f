"""Compute targets: what a workspace keeps of one, its state at the moment, and its names.

`slurm:gpu` names a cluster and can stand for a target's name, in the alias file and in settings. The alias file maps
names in old code to targets, one per line: `gpu-cluster = slurm:gpu`.
"""

from __future__ import annotations

from dataclasses import field, replace
from datetime import datetime
from typing import Any, ClassVar, Dict, List, Optional, Tuple

from runyard.core.compute_options import AUTO, RAY, SLURM, SSH, check_options, host_of_slot
from runyard.core.errors import InvalidArgument
from runyard.core.lazy_dataclass import dataclass
from runyard.core.names import check_plain_name

ASSET_KIND = "compute"
LOCAL = "local"  # the server's machine itself
PER_RUN = "amlcompute"  # a pool for one run: as many nodes as it asks for
CONTAINER_INSTANCE = "containerinstance"  # the same in 2018
RESERVED = (PER_RUN, LOCAL, CONTAINER_INSTANCE)  # exist in every workspace
POOL, INSTANCE, BATCH_AI = "AmlCompute", "ComputeInstance", "BatchAI"  # Azure's words; the last is the pool of 2018
AKS = "AKS"  # a pool for services
RAY_TYPE, SLURM_TYPE, REMOTE = "Ray", "Slurm", "VirtualMachine"  # attached; the last is Azure's word for ssh
KIND_OF_TYPE = {RAY_TYPE: RAY, SLURM_TYPE: SLURM, REMOTE: SSH}  # targets of machines that Runyard does not manage
TYPES = (POOL, INSTANCE, BATCH_AI, AKS, *KIND_OF_TYPE)
DEFAULT_IDLE_SECONDS = 1800
MOST_NODES, MOST_IDLE_SECONDS = 1000, 10 * 365 * 86400
FILE = "aliases"
MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class ComputeSpec:
    """What the user asked for. A pool has `max_nodes` nodes; `min_nodes` of them are always there.

    `options` (core.compute_options) of an attached target say how its cluster is reached. `cluster` puts a pool on one:
    `slurm:gpu`, `ray:host:6379` or the name of an attached target.
    """

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    type: str = POOL
    min_nodes: int = 0
    max_nodes: int = 1
    idle_seconds: int = DEFAULT_IDLE_SECONDS  # a node that no run used for this long goes
    vm_size: str = ""
    vm_priority: str = "dedicated"
    location: str = ""
    description: str = ""
    tags: Dict[str, str] = field(default_factory=dict)
    is_stopped: bool = False  # no run starts on it
    azure: Dict[str, Any] = field(default_factory=dict)  # settings that only Azure's services act on, as given
    # Of a pool; empty: that of the server's settings, else the server's machine. Stored targets have it as `engine`.
    cluster: str = field(default="", metadata={"alias": "engine"})
    backend: str = ""  # the kind of the cluster, filled in by the server; empty: the server's machine
    options: Dict[str, Any] = field(default_factory=dict)

    @property
    def is_attached(self) -> bool:
        return self.type in KIND_OF_TYPE


@dataclass(frozen=True)
class ComputeNode:
    """One node that exists now. `run_id` None: it is idle, or only its cluster knows what runs on it."""

    name: str
    run_id: Optional[str] = None
    gpus: List[str] = field(default_factory=list)
    address: str = ""
    state: str = ""  # the cluster's word: idle, alive, down …
    cpus: float = 0
    gpu_count: float = 0
    memory_bytes: int = 0
    note: str = ""  # why it cannot be used
    host_key: str = ""  # fingerprints of the keys that it must show, over SSH


@dataclass(frozen=True)
class ComputeRun:
    """A run on a target, or in its queue; `waits_for` says why it has not started."""

    run_id: str
    node_count: int = 1
    gpus: List[str] = field(default_factory=list)
    waits_for: str = ""


@dataclass(frozen=True)
class ComputeTarget:
    """A target with its nodes, the runs on it and its queue."""

    workspace: str
    name: str
    spec: ComputeSpec
    created_at: Optional[datetime] = None  # None: a target that every workspace has
    updated_at: Optional[datetime] = None
    nodes: List[ComputeNode] = field(default_factory=list)
    nodes_since: Optional[datetime] = None  # when the number of nodes changed last, as far as it is known
    running: List[ComputeRun] = field(default_factory=list)
    waiting: List[ComputeRun] = field(default_factory=list)
    alias_of: str = ""  # the name is one of the server's alias file; this is what it stands for
    note: str = ""  # what is wrong with its cluster at the moment


def check_compute_name(name: str) -> str:
    """Return the name, which a new target may have.

    Raises:
        InvalidArgument: it is not a valid name, or it is reserved.
    """
    if check_plain_name(name).lower() in RESERVED:
        raise InvalidArgument(
            f"A compute target cannot be called `{name}`.",
            why=f"These are there without being made: {', '.join(RESERVED)}.",
            hint="Choose another name, such as `cpu-cluster`.",
        )
    return name


def check_compute(spec: ComputeSpec) -> ComputeSpec:
    """Return `spec`, of an attached target with checked options; raise InvalidArgument for an impossible one."""
    if spec.type not in TYPES:
        raise InvalidArgument(f"There is no compute type {spec.type!r}.", hint=f"Known: {', '.join(TYPES)}.")
    if spec.is_attached:
        return _check_attached(spec)
    if spec.max_nodes < 1:
        raise InvalidArgument(
            f"A pool cannot have {spec.max_nodes} nodes at most.",
            why="No run could ever start on it.",
            hint="max_nodes=1 makes a pool for one node at a time; `runyard compute stop` lets no more runs start.",
        )
    if spec.min_nodes < 0 or spec.max_nodes < spec.min_nodes:
        raise InvalidArgument(
            f"A pool cannot have at least {spec.min_nodes} and at most {spec.max_nodes} nodes.",
            why="min_nodes must be 0 or more, and max_nodes not less than min_nodes.",
            hint="min_nodes=0, max_nodes=4 makes a pool of four nodes.",
        )
    if spec.max_nodes > MOST_NODES:
        raise InvalidArgument(f"A pool has {MOST_NODES} nodes at most, and {spec.max_nodes} are asked for.")
    if not 0 <= spec.idle_seconds <= MOST_IDLE_SECONDS:
        raise InvalidArgument(
            f"idle_seconds_before_scaledown is {spec.idle_seconds}; it must be from 0 to {MOST_IDLE_SECONDS}."
        )
    return spec


def _check_attached(spec: ComputeSpec) -> ComputeSpec:
    kind = KIND_OF_TYPE[spec.type]
    options = check_options(kind, spec.options)
    if kind == SSH and not options.get("hosts"):
        raise InvalidArgument(
            "No host is named.",
            hint="RemoteCompute.attach_configuration(address='hostA', username='me'), or `--address hostA`.",
        )
    slots = len(host_of_slot(options["hosts"])) if kind == SSH else 0  # 0: the cluster has its own queue
    return replace(spec, options=options, min_nodes=0, max_nodes=slots, idle_seconds=0, cluster="")


def find_cluster_name(name: str) -> Optional[Tuple[str, Dict[str, Any]]]:
    """Return kind and options of `slurm:PARTITION` or `ray:ADDRESS`; None for any other name.

    Raises:
        InvalidArgument: the text after the colon is no partition or address.
    """
    kind, colon, rest = name.partition(":")
    if not colon or kind not in (RAY, SLURM):
        return None
    option = "partition" if kind == SLURM else "address"
    if "/" in rest:
        raise InvalidArgument(
            f"`{name[:100]}` cannot be a target's name.",
            why="A name has no slash.",
            hint="Attach it under a name: `runyard compute attach NAME ray --address ray://HOST:10001`.",
        )
    return kind, check_options(kind, {option: rest})


def parse_cluster_name(text: str) -> Optional[Tuple[str, Dict[str, Any]]]:
    """As `find_cluster_name`; `slurm` alone is the default partition, and `ray` alone the cluster of this machine."""
    if text == SLURM:
        return SLURM, {}
    return (RAY, {"address": AUTO}) if text == RAY else find_cluster_name(text)


def check_target_name(name: str) -> str:
    """Return a name that a run or a request may give for a target."""
    if not isinstance(name, str) or find_cluster_name(name) is None:
        check_plain_name(name)
    return name


def read_aliases(text: str, *, path: str) -> Dict[str, str]:
    """Return name → target.

    Raises:
        InvalidArgument: a line is not an alias; the error names its number.
    """
    found: Dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        said = line.partition("#")[0].strip()
        if not said:
            continue
        try:
            name, target = _read_line(said, found)
        except InvalidArgument as error:
            raise InvalidArgument(
                f"Line {number} of {path} is no alias: {said[:100]!r}.",
                why=f"{error.what} {error.why}".strip(),
                hint="A line is `gpu-cluster = slurm:gpu`; a comment begins with #.",
            ) from error
        found[name] = target
    for name, target in found.items():
        if target in found:
            raise InvalidArgument(
                f"The alias `{name}` in {path} means `{target}`, which is an alias itself.",
                hint=f"{name} = {found[target]}",
            )
    return found


def _read_line(said: str, before: Dict[str, str]) -> Tuple[str, str]:
    name, equals, target = (part.strip() for part in said.partition("="))
    if not equals:
        raise InvalidArgument("There is no `=`.")
    check_plain_name(name)
    if name.lower() in RESERVED:
        raise InvalidArgument(f"`{name}` always means this machine.")
    if name in before:
        raise InvalidArgument(f"`{name}` is named a second time.")
    return name, check_target_name(target)
