"""Provisioning configurations of compute targets. They check their arguments when they are made."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from runyard.core.compute import BATCH_AI, DEFAULT_IDLE_SECONDS, INSTANCE, POOL, ComputeSpec
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.config.texts import note_without_effect
from runyard.sdk.exceptions import ComputeTargetException

PRIORITIES = ("dedicated", "lowpriority")
PORT_ACCESS = "NotSpecified"
_PORT_ACCESSES = (PORT_ACCESS, "Enabled", "Disabled")
_KINDS: Dict[str, Any] = {"vm_size": str, "tags": Mapping, "description": str, "location": str}


class ComputeConfiguration(AzureClass):
    """Its attributes are the parameters of `provisioning_configuration`."""

    _is_attach = False

    def __init__(
        self,
        vm_size: Optional[str] = "",
        tags: Optional[Mapping[str, Any]] = None,
        description: Optional[str] = None,
        location: Optional[str] = None,
    ) -> None:
        self.vm_size = vm_size or ""
        self.tags, self.description, self.location = tags, description, location
        for name, kind in _KINDS.items():
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                words = "a dict" if kind is Mapping else "a text"
                raise ComputeTargetException(f"{name} is {value!r:.100}; it must be {words}.")
        self.validate_configuration()

    def validate_configuration(self) -> None:
        """Raises ComputeTargetException: no compute target can be like this."""

    def _named(self) -> Dict[str, Any]:
        """Return the part of a ComputeSpec that all kinds have."""
        return {
            "vm_size": self.vm_size,
            "location": self.location or "",
            "description": self.description or "",
            "tags": {str(key): str(value) for key, value in (self.tags or {}).items()},
        }


class AmlComputeProvisioningConfiguration(ComputeConfiguration):
    """A pool of `max_nodes` nodes. What only Azure's services act on is kept and reported once."""

    def __init__(
        self,
        vm_size: str = "",
        vm_priority: str = PRIORITIES[0],
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
        compute_location: Optional[str] = None,
        enable_node_public_ip: bool = True,
    ) -> None:
        self.vm_priority, self.min_nodes, self.max_nodes = vm_priority, min_nodes, max_nodes
        self.idle_seconds_before_scaledown = idle_seconds_before_scaledown
        self.admin_username, self.admin_user_password = admin_username, admin_user_password
        self.admin_user_ssh_key = admin_user_ssh_key
        self.vnet_resourcegroup_name, self.vnet_name, self.subnet_name = vnet_resourcegroup_name, vnet_name, subnet_name
        self.remote_login_port_public_access = remote_login_port_public_access
        self.identity_type, self.identity_id = identity_type, identity_id
        self.compute_location = self.location = compute_location
        self.enable_node_public_ip = enable_node_public_ip
        super().__init__(vm_size, tags, description, compute_location)

    def validate_configuration(self) -> None:
        """Raises ComputeTargetException: no pool can be like this."""
        if self.max_nodes is None:
            raise ComputeTargetException("max_nodes is missing. Say how many nodes the pool may have: max_nodes=4.")
        self.min_nodes = number("min_nodes", self.min_nodes or 0)
        self.max_nodes = number("max_nodes", self.max_nodes)
        idle = self.idle_seconds_before_scaledown
        self.idle_seconds_before_scaledown = number(
            "idle_seconds_before_scaledown", DEFAULT_IDLE_SECONDS if idle is None else idle
        )
        self.vm_priority = priority(self.vm_priority)
        if self.max_nodes < self.min_nodes:
            raise ComputeTargetException(
                f"max_nodes is {self.max_nodes}, less than min_nodes, which is {self.min_nodes}."
            )
        if self.remote_login_port_public_access not in _PORT_ACCESSES:
            raise ComputeTargetException(
                f"remote_login_port_public_access is {self.remote_login_port_public_access!r}. "
                f"There are: {', '.join(_PORT_ACCESSES)}."
            )
        self._check_together("vnet_resourcegroup_name", "vnet_name", "subnet_name")
        has_secret = self.admin_user_password or self.admin_user_ssh_key
        if bool(self.admin_username) != bool(has_secret):
            raise ComputeTargetException(
                "admin_username goes with admin_user_password or admin_user_ssh_key: give both or neither."
            )

    def _spec(self) -> ComputeSpec:
        azure = self._azure_only()
        note_without_effect({**azure, "vm_size": self.vm_size or None, "admin_user_password": self.admin_user_password})
        return ComputeSpec(
            type=POOL,
            min_nodes=self.min_nodes,
            max_nodes=self.max_nodes,
            idle_seconds=self.idle_seconds_before_scaledown,
            vm_priority=self.vm_priority,
            azure={name: value for name, value in azure.items() if value is not None},
            **self._named(),
        )

    def _azure_only(self) -> Dict[str, Any]:
        """Return what is kept without effect; the password is not kept."""
        return {
            "admin_username": self.admin_username or None,
            "admin_user_ssh_key": self.admin_user_ssh_key or None,
            "vnet_resourcegroup_name": self.vnet_resourcegroup_name or None,
            "vnet_name": self.vnet_name or None,
            "subnet_name": self.subnet_name or None,
            "remote_login_port_public_access": _unless(self.remote_login_port_public_access, PORT_ACCESS),
            "identity_type": self.identity_type or None,
            "identity_id": self.identity_id or None,
            "enable_node_public_ip": _unless(self.enable_node_public_ip, True),
        }

    def _check_together(self, *names: str) -> None:
        missing = [name for name in names if not getattr(self, name)]
        if missing and len(missing) < len(names):
            raise ComputeTargetException(f"{', '.join(names)} go together; missing: {', '.join(missing)}.")


class BatchAiComputeProvisioningConfiguration(ComputeConfiguration):
    """The pool of 2018. Without autoscale its nodes are there all the time."""

    def __init__(
        self,
        vm_size: str = "",
        vm_priority: str = PRIORITIES[0],
        autoscale_enabled: bool = False,
        cluster_min_nodes: Any = 0,
        cluster_max_nodes: Any = None,
        location: Optional[str] = None,
        tags: Optional[Mapping[str, Any]] = None,
        description: Optional[str] = None,
    ) -> None:
        self.vm_priority, self.autoscale_enabled = vm_priority, autoscale_enabled
        self.cluster_min_nodes, self.cluster_max_nodes = cluster_min_nodes, cluster_max_nodes
        super().__init__(vm_size, tags, description, location)

    def validate_configuration(self) -> None:
        self.cluster_min_nodes = number("cluster_min_nodes", self.cluster_min_nodes or 0)
        self.cluster_max_nodes = number("cluster_max_nodes", self.cluster_max_nodes or max(self.cluster_min_nodes, 1))
        self.vm_priority = priority(self.vm_priority)
        if self.cluster_max_nodes < self.cluster_min_nodes:
            raise ComputeTargetException(
                f"cluster_max_nodes is {self.cluster_max_nodes}, less than cluster_min_nodes, {self.cluster_min_nodes}."
            )

    def _spec(self) -> ComputeSpec:
        note_without_effect({"vm_size": self.vm_size or None})
        least = self.cluster_min_nodes if self.autoscale_enabled else self.cluster_max_nodes
        return ComputeSpec(
            type=BATCH_AI,
            min_nodes=least,
            max_nodes=self.cluster_max_nodes,
            vm_priority=self.vm_priority,
            **self._named(),
        )


class ComputeInstanceProvisioningConfiguration(ComputeConfiguration):
    """One node for one run at a time."""

    def __init__(
        self,
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
        *,
        location: Optional[str] = None,
    ) -> None:
        self.ssh_public_access, self.admin_user_ssh_public_key = ssh_public_access, admin_user_ssh_public_key
        self.vnet_resourcegroup_name, self.vnet_name, self.subnet_name = vnet_resourcegroup_name, vnet_name, subnet_name
        self.assigned_user_object_id = assigned_user_object_id
        self.assigned_user_tenant_id = assigned_user_tenant_id
        super().__init__(vm_size, tags, description, location)

    def _spec(self) -> ComputeSpec:
        own = ("tags", "description", "location")
        note_without_effect({name: value or None for name, value in vars(self).items() if name not in own})
        return ComputeSpec(type=INSTANCE, min_nodes=1, max_nodes=1, **self._named())


class DsvmProvisioningConfiguration(ComputeInstanceProvisioningConfiguration):
    """Azure's virtual machine for data science: one node for one run at a time."""

    def __init__(self, vm_size: str = "", ssh_port: Optional[int] = None, location: Optional[str] = None) -> None:
        self.ssh_port = ssh_port
        super().__init__(vm_size, location=location)


def number(name: str, value: Any) -> int:
    """Return a count; notebooks give some of them as text."""
    try:
        found = int(value)
    except (TypeError, ValueError):
        found = -1
    if isinstance(value, bool) or found < 0:
        raise ComputeTargetException(f"{name} is {value!r}; it must be a whole number, 0 or more.")
    return found


def priority(value: Any) -> str:
    found = str(value or PRIORITIES[0]).lower()
    if found not in PRIORITIES:
        raise ComputeTargetException(f"vm_priority is {value!r}. There are: {', '.join(PRIORITIES)}.")
    return found


def _unless(value: Any, default: Any) -> Any:
    return None if value == default else value
