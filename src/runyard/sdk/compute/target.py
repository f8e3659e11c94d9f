"""`ComputeTarget`: a named place of a workspace that runs can be sent to.

The second half of the module describes the state of a node pool in Azure's words and keys: `ScaleSettings`,
`AmlComputeStatus`, the nodes and their counts by state.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Sequence, Type, Union

from runyard.core import errors
from runyard.core.compute import (
    AKS,
    BATCH_AI,
    INSTANCE,
    LOCAL,
    RAY_TYPE,
    REMOTE,
    SLURM_TYPE,
    check_compute_name,
    check_target_name,
)
from runyard.core.names import check_plain_name
from runyard.core.statuses import RunStatus
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.errors import azure_error, raises_azure_errors, translates
from runyard.sdk.exceptions import ComputeTargetException, UserErrorException

if TYPE_CHECKING:
    from runyard.core import compute as records
    from runyard.core.compute import ComputeNode, ComputeSpec
    from runyard.sdk.runs.run import Run
    from runyard.sdk.workspaces.workspace import Workspace


SUCCEEDED, DELETING = "Succeeded", "Deleting"
_A_POOL = "AmlCompute.provisioning_configuration(max_nodes=4)"
_A_HOST = "RemoteCompute.attach_configuration(address='hostA', username='me')"
ADDRESS = "127.0.0.1"  # of virtual nodes
_IDLE, _DOWN = ("idle", "alive", "up", "ready"), ("down", "drain", "dead", "fail", "unreachable")  # words of clusters
STEADY = "Steady"  # nodes come and go at once, so a pool is never between two sizes


@raises_azure_errors
class ComputeTarget(AzureClass):
    """A compute target of a workspace: `ComputeTarget(ws, name)` is the object of the class that fits.

    Raises:
        ComputeTargetException: the workspace has none of that name.
    """

    _workspace: Workspace
    _record: records.ComputeTarget
    _provisioning_state: str

    @translates
    def __new__(cls, workspace: Workspace, name: str) -> ComputeTarget:
        with compute_errors():
            record = workspace._client.compute.get(workspace.name, _not_local(check_target_name(name)))
        return cls._known(workspace, record)

    def __deepcopy__(self, memo: Any) -> ComputeTarget:
        return self  # a handle: configurations that hold one are copied

    @classmethod
    def _known(cls, workspace: Workspace, record: records.ComputeTarget) -> ComputeTarget:
        fitting = _class_of(record.spec.type)
        if not issubclass(fitting, cls):
            raise ComputeTargetException(
                f"The compute target {record.name!r} is a {record.spec.type}, not a {cls.__name__}.\n"
                f"ComputeTarget(ws, {record.name!r}) returns it as what it is."
            )
        made = object.__new__(fitting)
        made._workspace, made._record, made._provisioning_state = workspace, record, SUCCEEDED
        return made

    @staticmethod
    def create(workspace: Workspace, name: str, provisioning_configuration: Any) -> ComputeTarget:
        """Make a target. The same one again is the one that is there.

        Raises:
            UserErrorException: a name that is taken for good (`local`, `amlcompute`, `containerinstance`).
            ComputeTargetException: it is no name, or there is another target of that name.
        """
        return _make(workspace, name, provisioning_configuration, "create", "provisioning", _A_POOL)

    @staticmethod
    def attach(workspace: Workspace, name: str, attach_configuration: Any) -> ComputeTarget:
        """Let runs go to machines that somebody else runs. The server looks whether it finds them first.

        Raises:
            UserErrorException: a name that is taken for good.
            ComputeTargetException: there is another target of that name, its cluster cannot be used, or its machines
                could not reach this server.
        """
        return _make(workspace, name, attach_configuration, "attach", "attach", _A_HOST)

    @staticmethod
    def list(workspace: Workspace) -> List[ComputeTarget]:
        """Return the workspace's targets, by name."""
        return [ComputeTarget._known(workspace, record) for record in workspace._client.compute.list(workspace.name)]

    @property
    def name(self) -> str:
        return self._record.name

    @property
    def _named_by_runs(self) -> str:
        """The name that runs have as their target: not that of an alias, which may come to mean another one."""
        return self._record.alias_of or self.name

    @property
    def workspace(self) -> Workspace:
        return self._workspace

    @property
    def type(self) -> str:
        """Azure's word for the kind: AmlCompute, ComputeInstance, BatchAI, VirtualMachine; or Ray, Slurm."""
        return self._record.spec.type

    @property
    def provisioning_state(self) -> str:
        return self._provisioning_state

    @property
    def provisioning_errors(self) -> Optional[List[Any]]:
        return None

    @property
    def location(self) -> str:
        return self._record.spec.location or self._workspace.location

    @property
    def cluster_location(self) -> str:
        return self.location

    @property
    def tags(self) -> Dict[str, str]:
        return dict(self._record.spec.tags)

    @property
    def description(self) -> str:
        return self._record.spec.description

    @property
    def vm_size(self) -> str:
        return self._record.spec.vm_size

    @property
    def vm_priority(self) -> str:
        return self._record.spec.vm_priority

    @property
    def created_on(self) -> str:
        return moment(self._record.created_at)

    @property
    def modified_on(self) -> str:
        return moment(self._record.updated_at)

    @property
    def id(self) -> str:
        return f"{self._workspace.get_details()['id']}/computes/{self.name}"

    @property
    def cluster_resource_id(self) -> Optional[str]:
        return None

    @property
    def is_attached(self) -> bool:
        return self._record.spec.is_attached

    @property
    def status(self) -> Any:
        """How it stands now, as get_status() says; 2018 scripts write `target.status.serialize()`."""
        return self.get_status()

    def get_status(self) -> Any:
        self.refresh_state()
        return self._provisioning_state

    def refresh_state(self) -> None:
        """Read again how it stands.

        Raises:
            ComputeTargetException: it was deleted.
        """
        if self._provisioning_state == DELETING:
            return
        with compute_errors():
            self._record = self._workspace._client.compute.get(self._workspace.name, self.name)

    def wait_for_completion(self, show_output: bool = False, is_delete_operation: bool = False) -> None:
        """Return when it can be used, which is at once."""
        if not is_delete_operation:
            self.refresh_state()
        if show_output:
            print(
                f"{self._provisioning_state}\n{self.type} `{self.name}`: {self._closing_sentence(is_delete_operation)}"
            )

    def get_active_runs(
        self,
        type: Optional[str] = None,
        tags: Any = None,
        properties: Any = None,
        status: Union[str, Sequence[str], None] = None,
    ) -> Iterator[Run]:
        """Yield the unfinished runs that were submitted to it, newest first."""
        from runyard.sdk.runs.run import Run  # a script that only makes a target needs none

        active = [one.value for one in RunStatus if not one.is_terminal]
        return Run.list_by_compute(self, type, tags, properties, active if status is None else status)

    def delete(self) -> None:
        """Delete it.

        Raises:
            ComputeTargetException: unfinished runs name it.
        """
        with compute_errors():
            self._workspace._client.compute.delete(self._workspace.name, self.name)
        self._provisioning_state = DELETING

    def detach(self) -> None:
        """Forget an attached target; its machines stay as they are.

        Raises:
            ComputeTargetException: unfinished runs name it, or it was not attached.
        """
        if not self.is_attached:
            raise ComputeTargetException(
                f"The compute target {self.name!r} was made here, not attached: delete it with delete()."
            )
        self.delete()

    def serialize(self) -> Dict[str, Any]:
        """Return what is known about it, with Azure's keys."""
        spec = self._record.spec
        return {
            "id": self.id,
            "name": self.name,
            "tags": self.tags,
            "location": self.location,
            "properties": {
                "computeType": self.type,
                "computeLocation": self.location,
                "description": spec.description,
                "resourceId": None,
                "provisioningErrors": None,
                "provisioningState": self._provisioning_state,
                "isAttachedCompute": self.is_attached,
                "properties": self._serialized_properties(),
            },
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}(workspace={self._workspace!r}, name={self.name!r}, type={self.type!r})"

    def _serialized_properties(self) -> Dict[str, Any]:
        return {"vmSize": self.vm_size}

    def _closing_sentence(self, is_deleted: bool) -> str:
        return "it is deleted." if is_deleted else "it can be used."

    def _update(self, **changes: Any) -> None:
        with compute_errors():
            self._record = self._workspace._client.compute.update(self._workspace.name, self.name, **changes)


@contextmanager
def compute_errors() -> Iterator[None]:
    """What a server refuses about a target is Azure's ComputeTargetException."""
    try:
        yield
    except errors.UserError as error:
        raise azure_error(error, ComputeTargetException) from None


def moment(value: Any) -> str:
    return value.isoformat() if value is not None else ""


def _class_of(kind: str) -> Type[ComputeTarget]:
    # Those modules are about this one's class.
    from runyard.sdk.compute.aks import AksCompute
    from runyard.sdk.compute.attached import RayCompute, RemoteCompute, SlurmCompute
    from runyard.sdk.compute.pools import AmlCompute, BatchAiCompute, ComputeInstance

    found: Dict[str, Type[ComputeTarget]] = {
        AKS: AksCompute,
        BATCH_AI: BatchAiCompute,
        INSTANCE: ComputeInstance,
        RAY_TYPE: RayCompute,
        REMOTE: RemoteCompute,
        SLURM_TYPE: SlurmCompute,
    }
    return found.get(kind, AmlCompute)


def _make(workspace: Workspace, name: str, configuration: Any, verb: str, kind: str, example: str) -> ComputeTarget:
    with compute_errors():
        check_plain_name(name)
    check_compute_name(name)
    make_spec = getattr(configuration, "_spec", None)
    if make_spec is None or configuration._is_attach != (verb == "attach"):
        raise UserErrorException(
            f"ComputeTarget.{verb}() takes {'an' if kind == 'attach' else 'a'} {kind} configuration, found "
            f"{type(configuration).__name__}.\nMake one: {example}."
        )
    with compute_errors():
        return ComputeTarget._known(workspace, workspace._client.compute.create(workspace.name, name, make_spec()))


def _not_local(name: str) -> str:
    if name == LOCAL:
        raise errors.NotFound(
            "`local` is no compute target of the workspace.",
            why="It is the machine itself, and is named by its text.",
            hint="ScriptRunConfig(…, compute_target='local')",
        )
    return name


class ScaleSettings(AzureClass):
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


class AmlComputeStatus(AzureClass):
    """One look at a pool."""

    def __init__(
        self,
        allocation_state: str,
        allocation_state_transition_time: Any,
        creation_time: Any,
        current_node_count: int,
        errors: Optional[List[Any]],
        modified_time: Any,
        node_state_counts: Dict[str, int],
        provisioning_state: str,
        provisioning_state_transition_time: Any,
        scale_settings: ScaleSettings,
        target_node_count: int,
        vm_priority: str,
        vm_size: str,
    ) -> None:
        self.allocation_state = allocation_state
        self.allocation_state_transition_time = allocation_state_transition_time
        self.creation_time, self.modified_time = creation_time, modified_time
        self.current_node_count, self.target_node_count = current_node_count, target_node_count
        self.errors = errors
        self.node_state_counts = node_state_counts
        self.provisioning_state = provisioning_state
        self.provisioning_state_transition_time = provisioning_state_transition_time
        self.scale_settings = scale_settings
        self.vm_priority, self.vm_size = vm_priority, vm_size

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


def pool_status(target: records.ComputeTarget) -> AmlComputeStatus:
    spec = target.spec
    counts = _on_cluster(target) if spec.backend else _on_this_machine(target)
    there = sum(counts.values())
    return AmlComputeStatus(
        allocation_state=STEADY,
        allocation_state_transition_time=target.nodes_since,
        creation_time=target.created_at,
        current_node_count=there,
        errors=[{"message": target.note}] if target.note else None,
        modified_time=target.updated_at,
        node_state_counts=counts,
        provisioning_state=SUCCEEDED,
        provisioning_state_transition_time=None,
        scale_settings=scale_settings(spec),
        target_node_count=there,
        vm_priority={"dedicated": "Dedicated", "lowpriority": "LowPriority"}.get(spec.vm_priority, "Dedicated"),
        vm_size=spec.vm_size,
    )


def scale_settings(spec: ComputeSpec) -> ScaleSettings:
    return ScaleSettings(spec.min_nodes, spec.max_nodes, spec.idle_seconds)


def node_dicts(target: records.ComputeTarget) -> List[Dict[str, Any]]:
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


def _on_this_machine(target: records.ComputeTarget) -> Dict[str, int]:
    running = sum(node.run_id is not None for node in target.nodes)
    return node_state_counts(running, idle=len(target.nodes) - running)


def _on_cluster(target: records.ComputeTarget) -> Dict[str, int]:
    """Return the pool's nodes on a cluster: those that its runs have, and the idle ones that are left for it."""
    running = sum(run.node_count for run in target.running)
    unusable = sum(is_unusable(node) for node in target.nodes)
    idle = sum(node.state.lower().rstrip("*~#%") in _IDLE and not is_unusable(node) for node in target.nodes)
    if target.spec.max_nodes:
        idle = min(idle, max(0, target.spec.max_nodes - running))
    return node_state_counts(running, idle=idle, unusable=unusable)


def is_unusable(node: ComputeNode) -> bool:
    """Whether the cluster gives the node to no run."""
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
