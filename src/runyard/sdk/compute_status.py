"""`AmlComputeStatus`: how a pool stands, with Azure's words and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional

if TYPE_CHECKING:
    from runyard.core.compute import ComputeSpec, ComputeTarget

SUCCEEDED = "Succeeded"
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
        running = sum(node.run_id is not None for node in target.nodes)
        self.current_node_count = len(target.nodes)
        self.target_node_count = len(target.nodes)
        self.node_state_counts = node_state_counts(running, idle=len(target.nodes) - running)
        self.allocation_state = STEADY
        self.allocation_state_transition_time = target.nodes_since
        self.creation_time = target.created_at
        self.modified_time = target.updated_at
        self.provisioning_state = SUCCEEDED
        self.provisioning_state_transition_time = None
        self.errors: Optional[List[Any]] = None
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


def node_state_counts(running: int, *, idle: int) -> Dict[str, int]:
    return {
        "preparingNodeCount": 0,
        "runningNodeCount": running,
        "idleNodeCount": idle,
        "unusableNodeCount": 0,
        "leavingNodeCount": 0,
        "preemptedNodeCount": 0,
    }


def _moment(value: Any) -> Optional[str]:
    return value.isoformat() if value is not None else None
