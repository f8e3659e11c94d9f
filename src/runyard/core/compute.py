"""Compute targets: what a workspace keeps of one, and how it stands at the moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Dict, List, Optional

from runyard.core.errors import InvalidArgument
from runyard.core.names import check_asset_name

ASSET_KIND = "compute"
LOCAL = "local"  # the server's machine itself
PER_RUN = "amlcompute"  # a pool for one run: as many nodes as it asks for
CONTAINER_INSTANCE = "containerinstance"  # the same in 2018
RESERVED = (PER_RUN, LOCAL, CONTAINER_INSTANCE)  # there without being made
POOL, INSTANCE, BATCH_AI = "AmlCompute", "ComputeInstance", "BatchAI"  # Azure's words; the last is the pool of 2018
TYPES = (POOL, INSTANCE, BATCH_AI)
DEFAULT_IDLE_SECONDS = 1800
MOST_NODES, MOST_IDLE_SECONDS = 1000, 10 * 365 * 86400


@dataclass(frozen=True)
class ComputeSpec:
    """What was asked for. A pool has `max_nodes` nodes; `min_nodes` of them are always there."""

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
    azure: Dict[str, Any] = field(default_factory=dict)  # words that only Azure's services act on, as given


@dataclass(frozen=True)
class ComputeNode:
    """One node that is there now. `run_id` None: it is idle."""

    name: str
    run_id: Optional[str] = None
    gpus: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class ComputeRun:
    """A run on a target, or in its queue; `waits_for` says why it has not started."""

    run_id: str
    node_count: int = 1
    gpus: List[str] = field(default_factory=list)
    waits_for: str = ""


@dataclass(frozen=True)
class ComputeTarget:
    """A target with what is on it."""

    workspace: str
    name: str
    spec: ComputeSpec
    created_at: Optional[datetime] = None  # None: it is there without having been made
    updated_at: Optional[datetime] = None
    nodes: List[ComputeNode] = field(default_factory=list)
    nodes_since: Optional[datetime] = None  # when the number of nodes changed last, as far as it is known
    running: List[ComputeRun] = field(default_factory=list)
    waiting: List[ComputeRun] = field(default_factory=list)


def check_compute_name(name: str) -> str:
    """Return the name of a target that can be made.

    Raises:
        InvalidArgument: it is no name, or one that is taken for good.
    """
    if check_asset_name(name).lower() in RESERVED:
        raise InvalidArgument(
            f"A compute target cannot be called `{name}`.",
            why=f"These are there without being made: {', '.join(RESERVED)}.",
            hint="Choose another name, such as `cpu-cluster`.",
        )
    return name


def check_compute(spec: ComputeSpec) -> ComputeSpec:
    """Return `spec`; raise InvalidArgument for numbers that no pool can have."""
    if spec.type not in TYPES:
        raise InvalidArgument(f"There is no compute type {spec.type!r}.", hint=f"Known: {', '.join(TYPES)}.")
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
