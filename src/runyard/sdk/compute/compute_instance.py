"""`ComputeInstance`: one node for one run at a time, which can be stopped."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from runyard.sdk.compute.configuration import ComputeInstanceProvisioningConfiguration
from runyard.sdk.compute.target import ComputeTarget
from runyard.sdk.errors import translates_errors

RUNNING, STOPPED = "Running", "Stopped"


class ComputeInstanceStatus:
    """One look at an instance: `state` is Running or Stopped."""

    def __init__(self, state: str, errors: List[Any]) -> None:
        self.state = state
        self.errors = errors

    def serialize(self) -> Dict[str, Any]:
        return {"state": self.state, "errors": self.errors}

    def __repr__(self) -> str:
        return f"ComputeInstanceStatus({self.serialize()!r})"


@translates_errors
class ComputeInstance(ComputeTarget):
    """One virtual node on the server's machine. While it is stopped, runs wait."""

    @staticmethod
    def provisioning_configuration(
        vm_size: str = "",
        ssh_public_access: bool = False,
        admin_user_ssh_public_key: Optional[str] = None,
        tags: Optional[Mapping[str, Any]] = None,
        description: Optional[str] = None,
        location: Optional[str] = None,
        **azure_only: Any,
    ) -> ComputeInstanceProvisioningConfiguration:
        """Return what `ComputeTarget.create` takes."""
        return ComputeInstanceProvisioningConfiguration(
            vm_size=vm_size,
            ssh_public_access=ssh_public_access,
            admin_user_ssh_public_key=admin_user_ssh_public_key,
            tags=tags,
            description=description,
            location=location,
            **azure_only,
        )

    def get_status(self) -> ComputeInstanceStatus:
        self.refresh_state()
        return ComputeInstanceStatus(STOPPED if self._record.spec.is_stopped else RUNNING, [])

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
