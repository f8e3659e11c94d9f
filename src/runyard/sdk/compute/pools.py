"""`AmlCompute`: a pool of nodes; `BatchAiCompute` is its name of 2018."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional

from runyard.core.compute import DEFAULT_IDLE_SECONDS
from runyard.sdk.compute.compute_status import AmlComputeStatus, ScaleSettings, node_dicts, scale_settings
from runyard.sdk.compute.configuration import (
    PORT_ACCESS,
    AmlComputeProvisioningConfiguration,
    BatchAiComputeProvisioningConfiguration,
    number,
)
from runyard.sdk.compute.target import SUCCEEDED, ComputeTarget
from runyard.sdk.compute.vm_sizes import VM_SIZES
from runyard.sdk.config.notices import note_without_effect
from runyard.sdk.errors import translates_errors

if TYPE_CHECKING:
    from runyard.sdk.workspaces.workspace import Workspace


@translates_errors
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
        return AmlComputeProvisioningConfiguration(**locals())

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
        return AmlComputeStatus(self._record)

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
        status = AmlComputeStatus(self._record).serialize()
        return {**status, "provisioningState": SUCCEEDED}


@translates_errors
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
