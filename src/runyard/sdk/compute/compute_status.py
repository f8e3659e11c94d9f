"""`AmlComputeStatus`: how a pool stands, with Azure's words and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional

if TYPE_CHECKING:
    from runyard.core.compute import ComputeNode, ComputeSpec, ComputeTarget

SUCCEEDED = "Succeeded"
ADDRESS = "127.0.0.1"  # of virtual nodes
_IDLE, _DOWN = ("idle", "alive", "up", "ready"), ("down", "drain", "dead", "fail", "unreachable")  # engines' words
STEADY = "Steady"  # nodes come and go at once, so a pool is never between two sizes


class ScaleSettings:
    """How many nodes a pool has at least and at most, and when an idle one goes."""

    def __init__(
        self, minimum_node_count: int, maximum_node_count: int, idle_seconds_before_scaledown: Optional[int] = None
    ) -> None:
        self.minimum_node_count = minimum_node_count
        self.maximum_node_count = maximum_node_count
        self.idle_seconds_before_scaledown = idle_seconds_before_scaledown

    def serialize(self) -> Dict[str, Any]:
        return {
            "minNodeCount": self.minimum_node_count,
            "maxNodeCount": self.maximum_node_count,
            "nodeIdleTimeBeforeScaleDown": f"PT{self.idle_seconds_before_scaledown}S",
        }

    def __repr__(self) -> str:
        return (
            f"ScaleSettings({self.minimum_node_count}, {self.maximum_node_count}, {self.idle_seconds_before_scaledown})"
        )


class AmlComputeStatus:
    """One look at a pool."""

    def __init__(self, target: ComputeTarget) -> None:
        spec = target.spec
        self.node_state_counts = _on_engine(target) if spec.backend else _on_this_machine(target)
        self.current_node_count = sum(self.node_state_counts.values())
        self.target_node_count = self.current_node_count
        self.allocation_state = STEADY
        self.allocation_state_transition_time = target.nodes_since
        self.creation_time = target.created_at
        self.modified_time = target.updated_at
        self.provisioning_state = SUCCEEDED
        self.provisioning_state_transition_time = None
        self.errors: Optional[List[Any]] = [{"message": target.note}] if target.note else None
        self.scale_settings = scale_settings(spec)
        self.vm_priority = {"dedicated": "Dedicated", "lowpriority": "LowPriority"}.get(spec.vm_priority, "Dedicated")
        self.vm_size = spec.vm_size

    def serialize(self) -> Dict[str, Any]:
        return {
            "currentNodeCount": self.current_node_count,
            "targetNodeCount": self.target_node_count,
            "nodeStateCounts": dict(self.node_state_counts),
            "allocationState": self.allocation_state,
            "allocationStateTransitionTime": _moment(self.allocation_state_transition_time),
            "errors": self.errors,
            "creationTime": _moment(self.creation_time),
            "modifiedTime": _moment(self.modified_time),
            "provisioningState": self.provisioning_state,
            "provisioningStateTransitionTime": self.provisioning_state_transition_time,
            "scaleSettings": self.scale_settings.serialize(),
            "vmPriority": self.vm_priority,
            "vmSize": self.vm_size,
        }

    def __repr__(self) -> str:
        return f"AmlComputeStatus({self.serialize()!r})"


def scale_settings(spec: ComputeSpec) -> ScaleSettings:
    return ScaleSettings(spec.min_nodes, spec.max_nodes, spec.idle_seconds)


def node_dicts(target: ComputeTarget) -> List[Dict[str, Any]]:
    """Return the nodes that are there, each with its run as far as that is known."""
    return [
        {
            "nodeId": node.name,
            "port": None,
            "publicIpAddress": node.address or ADDRESS,
            "privateIpAddress": node.address or ADDRESS,
            "nodeState": node.state or ("running" if node.run_id else "idle"),
            "runId": node.run_id,
        }
        for node in target.nodes
    ]


def _on_this_machine(target: ComputeTarget) -> Dict[str, int]:
    running = sum(node.run_id is not None for node in target.nodes)
    return node_state_counts(running, idle=len(target.nodes) - running)


def _on_engine(target: ComputeTarget) -> Dict[str, int]:
    """Return the pool's part of an engine: what its runs have and wait for, and what the engine has left for it."""
    running = sum(run.node_count for run in target.running)
    unusable = sum(is_unusable(node) for node in target.nodes)
    idle = sum(node.state.lower().rstrip("*~#%") in _IDLE and not is_unusable(node) for node in target.nodes)
    if target.spec.max_nodes:
        idle = min(idle, max(0, target.spec.max_nodes - running))
    return node_state_counts(running, idle=idle, unusable=unusable)


def is_unusable(node: ComputeNode) -> bool:
    """Whether its engine gives it to nobody."""
    return bool(node.note) or any(word in node.state.lower() for word in _DOWN)


def node_state_counts(running: int, *, idle: int, unusable: int = 0) -> Dict[str, int]:
    return {
        "preparingNodeCount": 0,
        "runningNodeCount": running,
        "idleNodeCount": idle,
        "unusableNodeCount": unusable,
        "leavingNodeCount": 0,
        "preemptedNodeCount": 0,
    }


def _moment(value: Any) -> Optional[str]:
    return value.isoformat() if value is not None else None
