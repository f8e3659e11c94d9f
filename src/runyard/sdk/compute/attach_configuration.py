"""Attach configurations: machines that somebody else runs. Mistakes are found when they are made."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional

from runyard.core.compute import RAY_TYPE, REMOTE, SLURM_TYPE, ComputeSpec, check_compute
from runyard.core.compute_options import SSH_PORT, read_hosts
from runyard.core.errors import InvalidArgument
from runyard.sdk.compute.configuration import ComputeConfiguration
from runyard.sdk.config.notices import note_without_effect
from runyard.sdk.errors import azure_error
from runyard.sdk.exceptions import ComputeTargetException

_NAMED = ("description", "tags")
MOST_KEY_BYTES = 1 << 20


class AttachConfiguration(ComputeConfiguration):
    """Its attributes are the parameters of `attach_configuration`; what is None is not said."""

    _is_attach = True
    _type = ""

    def validate_configuration(self) -> None:
        """Raises ComputeTargetException: no target can be like this."""
        self._spec()

    def _options(self) -> Dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in (*_NAMED, "vm_size")}

    def _spec(self) -> ComputeSpec:
        options = {name: value for name, value in self._options().items() if value is not None}
        try:
            return check_compute(ComputeSpec(type=self._type, options=options, **self._named()))
        except InvalidArgument as error:
            raise azure_error(error, ComputeTargetException) from error


class RayAttachConfiguration(AttachConfiguration):
    _type = RAY_TYPE


class SlurmAttachConfiguration(AttachConfiguration):
    _type = SLURM_TYPE


class RemoteComputeAttachConfiguration(AttachConfiguration):
    """One host or several, reached over SSH by key. `private_key_file` is read here and travels to the server."""

    _type = REMOTE
    username: str = ""
    address: Any = None
    ssh_port: int = SSH_PORT
    slots: int = 1
    private_key_file: str = ""
    known_hosts_file: str = ""
    password: str = ""
    private_key_passphrase: str = ""
    subscription_id: Optional[str] = None
    resource_group: Optional[str] = None
    vm_name: Optional[str] = None
    resource_id: Optional[str] = None

    def validate_configuration(self) -> None:
        if self.password or self.private_key_passphrase:
            raise ComputeTargetException(
                "Hosts are reached by key: a password cannot be given, nor the passphrase of a key.\n"
                "Put the key into the agent of the server's user (`ssh-add KEY`) and leave both out, or give "
                "private_key_file a key without a passphrase that is only for this."
            )
        if not self.address:
            raise ComputeTargetException(
                "address is missing: the name or address of a host, or several with commas between.\n"
                "A machine of an Azure subscription is not looked up: give its address."
            )
        super().validate_configuration()

    def _options(self) -> Dict[str, Any]:
        azure = ("subscription_id", "resource_group", "vm_name", "resource_id")
        note_without_effect({name: getattr(self, name) or None for name in azure})
        try:
            hosts = read_hosts(self.address, port=self.ssh_port, slots=self.slots)
        except InvalidArgument as error:
            raise azure_error(error, ComputeTargetException) from error
        own = vars(self)
        return {
            "hosts": hosts,
            "username": self.username or None,
            "private_key": _read(self.private_key_file, "private_key_file"),
            "known_hosts": _read(self.known_hosts_file, "known_hosts_file"),
            **{name: own.get(name) for name in ("python", "node_home", "shared_folder")},
        }


def _read(path: str, name: str) -> Optional[str]:
    if not path:
        return None
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            return file.read(MOST_KEY_BYTES)
    except (OSError, ValueError) as error:
        raise ComputeTargetException(f"{name} {path!r} cannot be read: {error}.") from error
