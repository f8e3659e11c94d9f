"""Compute targets on the server's machine: `ComputeInstance` with one node, `AmlCompute` with a pool of nodes.

`BatchAiCompute` is the name that pools had in 2018. The table of Azure's machine sizes is there for scripts that look
up a size before they choose it; a size has no effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Tuple

from runyard.core.compute import DEFAULT_IDLE_SECONDS
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.compute.configuration import (
    PORT_ACCESS,
    AmlComputeProvisioningConfiguration,
    BatchAiComputeProvisioningConfiguration,
    ComputeInstanceProvisioningConfiguration,
    DsvmProvisioningConfiguration,
    number,
)
from runyard.sdk.compute.target import (
    SUCCEEDED,
    AmlComputeStatus,
    ComputeTarget,
    ScaleSettings,
    moment,
    node_dicts,
    pool_status,
    scale_settings,
)
from runyard.sdk.config.texts import note_without_effect
from runyard.sdk.errors import raises_azure_errors

if TYPE_CHECKING:
    from runyard.sdk.workspaces.workspace import Workspace


RUNNING, STOPPED = "Running", "Stopped"
_SIZES: Tuple[Tuple[str, int, int, float, int], ...] = (
    ("Standard_D1_v2", 1, 0, 3.5, 51200),
    ("Standard_D2_v2", 2, 0, 7.0, 102400),
    ("Standard_D3_v2", 4, 0, 14.0, 204800),
    ("Standard_D4_v2", 8, 0, 28.0, 409600),
    ("Standard_DS2_v2", 2, 0, 7.0, 14336),
    ("Standard_DS3_v2", 4, 0, 14.0, 28672),
    ("Standard_DS12_v2", 4, 0, 28.0, 57344),
    ("Standard_F4s_v2", 4, 0, 8.0, 32768),
    ("Standard_NC6", 6, 1, 56.0, 389120),
    ("Standard_NC12", 12, 2, 112.0, 696320),
    ("Standard_NC24", 24, 4, 224.0, 1474560),
    ("Standard_NC6s_v3", 6, 1, 112.0, 344064),
    ("Standard_NC24s_v3", 24, 4, 448.0, 1376256),
    ("Standard_ND40rs_v2", 40, 8, 672.0, 3014656),
)
VM_SIZES: Tuple[Dict[str, Any], ...] = tuple(
    {"name": name, "vCPUs": cpus, "gpus": gpus, "memoryGB": memory, "maxResourceVolumeMB": disk}
    for name, cpus, gpus, memory, disk in _SIZES
)


class ComputeInstanceStatus(AzureClass):
    """One look at an instance: `state` is Running or Stopped."""

    def __init__(
        self,
        creation_time: Any,
        created_by_user_name: Optional[str],
        created_by_user_id: Optional[str],
        created_by_user_org: Optional[str],
        errors: List[Any],
        modified_time: Any,
        state: str,
        vm_size: str,
    ) -> None:
        self.creation_time, self.modified_time = creation_time, modified_time
        self.created_by_user_name = created_by_user_name
        self.created_by_user_id = created_by_user_id
        self.created_by_user_org = created_by_user_org
        self.errors, self.state, self.vm_size = errors, state, vm_size

    def serialize(self) -> Dict[str, Any]:
        return {
            "errors": self.errors,
            "creationTime": moment(self.creation_time) or None,
            "createdBy": {
                "userObjectId": self.created_by_user_id,
                "userTenantId": self.created_by_user_org,
                "userName": self.created_by_user_name,
            },
            "modifiedTime": moment(self.modified_time) or None,
            "state": self.state,
            "vmSize": self.vm_size,
        }

    def __repr__(self) -> str:
        return f"ComputeInstanceStatus({self.serialize()!r})"


@raises_azure_errors
class ComputeInstance(ComputeTarget):
    """One virtual node on the server's machine. While it is stopped, runs wait."""

    @staticmethod
    def provisioning_configuration(
        vm_size: str = "",
        ssh_public_access: bool = False,
        admin_user_ssh_public_key: Optional[str] = None,
        vnet_resourcegroup_name: Optional[str] = None,
        vnet_name: Optional[str] = None,
        subnet_name: Optional[str] = None,
        tags: Optional[Mapping[str, Any]] = None,
        description: Optional[str] = None,
        assigned_user_object_id: Optional[str] = None,
        assigned_user_tenant_id: Optional[str] = None,
        location: Optional[str] = None,
    ) -> ComputeInstanceProvisioningConfiguration:
        """Return what `ComputeTarget.create` takes."""
        return ComputeInstanceProvisioningConfiguration(
            vm_size=vm_size,
            ssh_public_access=ssh_public_access,
            admin_user_ssh_public_key=admin_user_ssh_public_key,
            vnet_resourcegroup_name=vnet_resourcegroup_name,
            vnet_name=vnet_name,
            subnet_name=subnet_name,
            tags=tags,
            description=description,
            assigned_user_object_id=assigned_user_object_id,
            assigned_user_tenant_id=assigned_user_tenant_id,
            location=location,
        )

    @staticmethod
    def supported_vmsizes(workspace: Workspace, location: Optional[str] = None) -> List[Dict[str, Any]]:
        """Return common sizes of Azure; any name is accepted, and none has an effect here."""
        return [dict(size) for size in VM_SIZES]

    def delete(self, wait_for_completion: bool = False, show_output: bool = False) -> None:
        """Delete it; it is gone on return."""
        super().delete()

    def get_status(self) -> ComputeInstanceStatus:
        self.refresh_state()
        record = self._record
        state = STOPPED if record.spec.is_stopped else RUNNING
        return ComputeInstanceStatus(
            record.created_at, None, None, None, [], record.updated_at, state, record.spec.vm_size
        )

    def start(self, wait_for_completion: bool = False, show_output: bool = False) -> None:
        """Let runs start on it."""
        self._update(is_stopped=False)

    def stop(self, wait_for_completion: bool = False, show_output: bool = False) -> None:
        """Let no run start on it; the one that is on it goes on."""
        self._update(is_stopped=True)

    def restart(self, wait_for_completion: bool = False, show_output: bool = False) -> None:
        """Let runs start on it; the one that is on it goes on."""
        self._update(is_stopped=False)

    def _serialized_properties(self) -> Dict[str, Any]:
        return {"vmSize": self.vm_size, "state": STOPPED if self._record.spec.is_stopped else RUNNING}


class DsvmCompute(ComputeInstance):
    """Azure's virtual machine for data science. Here it is an instance, and comes back as a ComputeInstance."""

    def __new__(cls, workspace: Workspace, name: str) -> ComputeTarget:  # type: ignore[misc]  # an instance, on purpose
        return ComputeInstance(workspace, name)

    @staticmethod
    def provisioning_configuration(  # type: ignore[override]  # its own parameters
        vm_size: Optional[str] = None, ssh_port: Optional[int] = None, location: Optional[str] = None
    ) -> DsvmProvisioningConfiguration:
        """Return what `ComputeTarget.create` takes."""
        return DsvmProvisioningConfiguration(vm_size or "", ssh_port, location)


@raises_azure_errors
class AmlCompute(ComputeTarget):
    """A pool of virtual nodes on the server's machine. A run takes as many as its node_count; others wait."""

    @staticmethod
    def provisioning_configuration(
        vm_size: str = "",
        vm_priority: str = "dedicated",
        min_nodes: Any = 0,
        max_nodes: Any = None,
        idle_seconds_before_scaledown: Any = DEFAULT_IDLE_SECONDS,
        admin_username: Optional[str] = None,
        admin_user_password: Optional[str] = None,
        admin_user_ssh_key: Optional[str] = None,
        vnet_resourcegroup_name: Optional[str] = None,
        vnet_name: Optional[str] = None,
        subnet_name: Optional[str] = None,
        tags: Optional[Mapping[str, Any]] = None,
        description: Optional[str] = None,
        remote_login_port_public_access: str = PORT_ACCESS,
        identity_type: Optional[str] = None,
        identity_id: Any = None,
        location: Optional[str] = None,
        enable_node_public_ip: bool = True,
    ) -> AmlComputeProvisioningConfiguration:
        """Return what `ComputeTarget.create` takes. `max_nodes` is needed; sizes and networks are Azure's.

        Raises:
            ComputeTargetException: no pool can be like this.
        """
        given = locals()
        return AmlComputeProvisioningConfiguration(compute_location=given.pop("location"), **given)

    @property
    def scale_settings(self) -> ScaleSettings:
        return scale_settings(self._record.spec)

    @property
    def idle_seconds_before_scaledown(self) -> int:
        return self._record.spec.idle_seconds

    @property
    def admin_username(self) -> Optional[str]:
        return self._record.spec.azure.get("admin_username")

    @property
    def subnet_id(self) -> Optional[str]:
        return self._record.spec.azure.get("subnet_name")

    def get_status(self) -> AmlComputeStatus:
        """Return how many nodes are there and what they do."""
        self.refresh_state()
        return pool_status(self._record)

    def wait_for_completion(  # type: ignore[override]  # Azure's own order of parameters
        self,
        show_output: bool = False,
        min_node_count: Optional[int] = None,
        timeout_in_minutes: float = 25,
        is_delete_operation: bool = False,
    ) -> None:
        """Return when the pool can give `min_node_count` nodes, which is at once: they come when a run needs them."""
        if not is_delete_operation:
            self.refresh_state()
        if show_output:
            print(f"{self.provisioning_state}\n{self._closing(min_node_count, is_delete_operation)}")

    def update(
        self,
        min_nodes: Optional[int] = None,
        max_nodes: Optional[int] = None,
        idle_seconds_before_scaledown: Any = None,
    ) -> None:
        """Change the pool's size; runs that wait may start by it.

        Raises:
            ComputeTargetException: no pool can be like this.
        """
        given = {"min_nodes": min_nodes, "max_nodes": max_nodes, "idle_seconds": idle_seconds_before_scaledown}
        changes = {name: number(name, value) for name, value in given.items() if value is not None}
        if changes:
            self._update(**changes)

    def list_nodes(self) -> List[Dict[str, Any]]:
        """Return the nodes that are there, each with its run."""
        self.refresh_state()
        return node_dicts(self._record)

    @staticmethod
    def supported_vmsizes(workspace: Workspace, location: Optional[str] = None) -> List[Dict[str, Any]]:
        """Return common sizes of Azure; any name is accepted, and none has an effect here."""
        return [dict(size) for size in VM_SIZES]

    @staticmethod
    def list_usages(workspace: Workspace, show_all: bool = False, location: Optional[str] = None) -> List[Any]:
        """Return nothing: there are no quotas here."""
        return []

    @staticmethod
    def list_quotas(workspace: Workspace, location: Optional[str] = None) -> List[Any]:
        """Return nothing: there are no quotas here."""
        return []

    def add_identity(self, identity_type: str, identity_id: Any = None) -> None:
        note_without_effect({"identity_type": identity_type, "identity_id": identity_id})

    def remove_identity(self, identity_id: Any = None) -> None:
        note_without_effect({"identity_id": identity_id})

    def _closing(self, wanted: Optional[int], is_deleted: bool) -> str:
        spec, name = self._record.spec, f"{self.type} `{self.name}`"
        if is_deleted:
            return f"{name} is deleted."
        if wanted is not None and wanted > spec.max_nodes:
            return f"{name} is ready, with {spec.max_nodes} nodes at most: {wanted} need update(max_nodes={wanted})."
        there = len(self._record.nodes)
        return f"{name} is ready: {there} of at most {spec.max_nodes} nodes are up, others come when runs need them."

    def _serialized_properties(self) -> Dict[str, Any]:
        status = pool_status(self._record).serialize()
        return {**status, "provisioningState": SUCCEEDED}


@raises_azure_errors
class BatchAiCompute(AmlCompute):
    """The pool of 2018: `autoscale_enabled`, `cluster_min_nodes`, `cluster_max_nodes`."""

    @staticmethod
    def provisioning_configuration(  # type: ignore[override]  # its own parameters
        vm_size: str = "",
        vm_priority: str = "dedicated",
        autoscale_enabled: bool = False,
        cluster_min_nodes: Any = 0,
        cluster_max_nodes: Any = None,
        location: Optional[str] = None,
        tags: Optional[Mapping[str, Any]] = None,
        description: Optional[str] = None,
    ) -> BatchAiComputeProvisioningConfiguration:
        """Return what `ComputeTarget.create` takes."""
        return BatchAiComputeProvisioningConfiguration(**locals())
