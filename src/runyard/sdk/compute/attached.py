"""Attached compute targets: Ray clusters, Slurm clusters and hosts over SSH, which Runyard does not manage itself.

The attach configurations come first and check their arguments when they are made. The target classes follow.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Union

from runyard.core.compute import RAY_TYPE, REMOTE, SLURM_TYPE, ComputeSpec, check_compute
from runyard.core.compute_options import AUTO, SSH_PORT, SshHost, read_hosts
from runyard.core.errors import InvalidArgument
from runyard.sdk.compute.configuration import ComputeConfiguration
from runyard.sdk.compute.target import ComputeTarget, node_dicts
from runyard.sdk.config.texts import note_without_effect
from runyard.sdk.errors import azure_error, raises_azure_errors
from runyard.sdk.exceptions import ComputeTargetException

if TYPE_CHECKING:
    from runyard.sdk.workspaces.workspace import Workspace


_NAMED = ("description", "tags", "vm_size", "location")
MOST_KEY_BYTES = 1 << 20


class AttachConfiguration(ComputeConfiguration):
    """Its attributes are the parameters of `attach_configuration`; what is None is not said."""

    _is_attach = True
    _type = ""

    def __init__(
        self, *, description: Optional[str] = None, tags: Optional[Mapping[str, Any]] = None, **options: Any
    ) -> None:
        for name, value in options.items():
            setattr(self, name, value)
        super().__init__("", tags, description)

    def validate_configuration(self) -> None:
        """Raises ComputeTargetException: no target can be like this."""
        self._spec()

    def _options(self) -> Dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _NAMED}

    def _spec(self) -> ComputeSpec:
        options = {name: value for name, value in self._options().items() if value is not None}
        try:
            return check_compute(ComputeSpec(type=self._type, options=options, **self._named()))
        except InvalidArgument as error:
            raise azure_error(error, ComputeTargetException) from None


class RayAttachConfiguration(AttachConfiguration):
    _type = RAY_TYPE


class SlurmAttachConfiguration(AttachConfiguration):
    _type = SLURM_TYPE


class RemoteComputeAttachConfiguration(AttachConfiguration):
    """One host or several, reached over SSH by key. `private_key_file` is read here and travels to the server."""

    _type = REMOTE

    def __init__(
        self,
        username: str = "",
        subscription_id: Optional[str] = None,
        resource_group: Optional[str] = None,
        vm_name: Optional[str] = None,
        resource_id: Optional[str] = None,
        address: Union[str, Sequence[Any], None] = None,
        ssh_port: int = SSH_PORT,
        password: str = "",
        private_key_file: str = "",
        private_key_passphrase: str = "",
        *,
        slots: int = 1,
        known_hosts_file: str = "",
        python: Optional[str] = None,
        node_home: Optional[str] = None,
        shared_folder: Optional[str] = None,
        description: Optional[str] = None,
        tags: Optional[Mapping[str, Any]] = None,
    ) -> None:
        self.username, self.address, self.ssh_port, self.slots = username, address, ssh_port, slots
        self.private_key_file, self.known_hosts_file = private_key_file, known_hosts_file
        self.password, self.private_key_passphrase = password, private_key_passphrase
        self.subscription_id, self.resource_group = subscription_id, resource_group
        self.vm_name, self.resource_id = vm_name, resource_id
        super().__init__(
            description=description, tags=tags, python=python, node_home=node_home, shared_folder=shared_folder
        )

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
            raise azure_error(error, ComputeTargetException) from None
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
        raise ComputeTargetException(f"{name} {path!r} cannot be read: {error}.") from None


Tags = Optional[Mapping[str, Any]]


class AttachedCompute(ComputeTarget):
    """A target whose cluster queues and places runs itself, with what the cluster reports about its machines."""

    def list_nodes(self) -> List[Dict[str, Any]]:
        """Return the machines as their cluster knows them, each with its state."""
        self.refresh_state()
        return node_dicts(self._record)

    def _serialized_properties(self) -> Dict[str, Any]:
        return {
            "options": dict(self._record.spec.options),
            "nodes": node_dicts(self._record),
            "note": self._record.note,
        }

    def _closing_sentence(self, is_deleted: bool) -> str:
        count = len(self._record.nodes)
        nodes = f"{count} node{'' if count == 1 else 's'}"
        return "it is detached." if is_deleted else self._record.note or f"it can be used, with {nodes}."


@raises_azure_errors
class RayCompute(AttachedCompute):
    """A Ray cluster. Runs are actors there; their Python needs no Ray."""

    @staticmethod
    def attach_configuration(
        address: str = AUTO,
        *,
        python: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        cpus: Optional[float] = None,
        node_python: Optional[str] = None,
        node_home: Optional[str] = None,
        shared_folder: Optional[str] = None,
        description: Optional[str] = None,
        tags: Tags = None,
    ) -> RayAttachConfiguration:
        """Return what `ComputeTarget.attach` takes.

        Args:
            address: `auto` (the cluster of the server's machine), `host:6379` or `ray://host:10001`.
            python: an interpreter of the server's machine that has that cluster's version of Ray.
            env: variables for it, such as RAY_AUTH_TOKEN or those of TLS. Kept by the server, shown to nobody.
            cpus: what each node of a run takes, unless the run says it.
            node_python: the nodes' Python that starts our code; without it, the one that Ray runs there.
            node_home: the nodes' folder for work folders and environments.
            shared_folder: a folder that all nodes see; runs over several nodes work there.

        Raises:
            ComputeTargetException: no target can be like this.
        """
        return RayAttachConfiguration(**locals())


@raises_azure_errors
class SlurmCompute(AttachedCompute):
    """A Slurm cluster, by the commands of the server's machine. No daemon of ours is on its nodes."""

    @staticmethod
    def attach_configuration(
        partition: Optional[str] = None,
        account: Optional[str] = None,
        extra: Optional[Sequence[str]] = None,
        *,
        qos: Optional[str] = None,
        constraint: Optional[str] = None,
        python: Optional[str] = None,
        mpi: Optional[str] = None,
        node_home: Optional[str] = None,
        shared_folder: Optional[str] = None,
        description: Optional[str] = None,
        tags: Tags = None,
    ) -> SlurmAttachConfiguration:
        """Return what `ComputeTarget.attach` takes. `run_config.resources` says the same of one run, and wins.

        Args:
            extra: more options for sbatch, each as one text: `['--qos=high', '--exclusive']`.
            python: the nodes' Python that starts our code, a path or a name.
            mpi: how MPI runs are started: `mpirun`; by srun comes later.
            node_home: the nodes' folder for work folders and environments.
            shared_folder: a folder that all nodes see; runs over several nodes work there.

        Raises:
            ComputeTargetException: no target can be like this.
        """
        return SlurmAttachConfiguration(**locals())


@raises_azure_errors
class RemoteCompute(AttachedCompute):
    """Hosts over SSH, without root and without Docker: one pool with as many places as they have slots."""

    @staticmethod
    def attach_configuration(
        username: str = "",
        subscription_id: Optional[str] = None,
        resource_group: Optional[str] = None,
        vm_name: Optional[str] = None,
        resource_id: Optional[str] = None,
        address: Union[str, Sequence[Any], None] = None,
        ssh_port: int = SSH_PORT,
        password: str = "",
        private_key_file: str = "",
        private_key_passphrase: str = "",
        *,
        slots: int = 1,
        known_hosts_file: str = "",
        python: Optional[str] = None,
        node_home: Optional[str] = None,
        shared_folder: Optional[str] = None,
        description: Optional[str] = None,
        tags: Tags = None,
    ) -> RemoteComputeAttachConfiguration:
        """Return what `ComputeTarget.attach` takes.

        Args:
            address: a host, several with commas between or in a list; each may end with `:port`.
            private_key_file: a key of this machine; the server keeps it. Without one, the agent of the server's user.
            slots: how many nodes of runs a host takes at once.
            known_hosts_file: the hosts' keys; without it they are recorded when the target is attached.

        Raises:
            ComputeTargetException: no target can be like this, or a password is given.
        """
        return RemoteComputeAttachConfiguration(**locals())

    @staticmethod
    def attach(  # scripts of 2018 give other parameters
        workspace: Workspace,
        name: str,
        attach_configuration: Any = None,
        address: Any = None,
        ssh_port: int = SSH_PORT,
        password: str = "",
        private_key_file: str = "",
        private_key_passphrase: str = "",
        *,
        username: str = "",
    ) -> ComputeTarget:
        """Attach hosts. Scripts of 2018 give the user's name and the address here, without a configuration."""
        configuration = attach_configuration
        if configuration is None or isinstance(configuration, str):
            configuration = RemoteCompute.attach_configuration(
                username=configuration or username,
                address=address,
                ssh_port=ssh_port,
                password=password,
                private_key_file=private_key_file,
                private_key_passphrase=private_key_passphrase,
            )
        return ComputeTarget.attach(workspace, name, configuration)

    @property
    def address(self) -> str:
        """The first host; `list_nodes()` has all."""
        return str(self._hosts[0]["address"]) if self._hosts else ""

    @property
    def ssh_port(self) -> int:
        return int(self._hosts[0]["port"]) if self._hosts else SSH_PORT

    @property
    def username(self) -> str:
        return str(self._record.spec.options.get("username", ""))

    @property
    def _hosts(self) -> List[SshHost]:
        return list(self._record.spec.options.get("hosts", []))

    def _serialized_properties(self) -> Dict[str, Any]:
        own = {"address": self.address, "sshPort": self.ssh_port, "username": self.username}
        return {**own, **super()._serialized_properties()}
