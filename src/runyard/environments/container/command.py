"""The command lines that run a process in a container, and the containers of one image.

The container shares the host's process ids and network. Exit records, exceptions and journals name processes by id, and
virtual nodes have loopback addresses. No process is number 1, which would ignore a TERM that it does not expect.

The commands are pure. `ContainerWrapper` puts them around a run's processes; `run_in_container` runs a step of a build.
"""

from __future__ import annotations

import os
from dataclasses import field
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from runyard.core.lazy_dataclass import dataclass
from runyard.core.specs import ContainerSpec
from runyard.environments.base import Check, Inside, Outside, Say, Wrapper, never
from runyard.environments.container.images import APPTAINER, PODMAN, ContainerRuntime, Image
from runyard.environments.process import run_program

# podman would tell the program's log that a signal came too late for its container.
_QUIET = {PODMAN: ["--log-level", "fatal"]}
GPU_DEVICE = "/dev/nvidiactl"
_CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")
_NO_DEVICES = ("", "-1", "none", "void")  # values of CUDA_VISIBLE_DEVICES that mean no GPU


class BindMount(NamedTuple):
    """A folder or file of the host, at the same path in the container."""

    path: str
    is_writable: bool = False


@dataclass(frozen=True)
class Container:
    """The container around one process."""

    name: str
    image: str
    work_folder: str
    user: Tuple[int, int]
    mounts: List[BindMount] = field(default_factory=list)
    has_gpus: bool = False
    shm_size: str = ""  # ignored where several processes share the host's memory
    shares_memory: bool = False
    has_input: bool = False
    arguments: List[str] = field(default_factory=list)


class Command(NamedTuple):
    argv: List[str]
    variables: Dict[str, str]  # for the container runtime's program


def run_command(
    runtime: ContainerRuntime,
    container: Container,
    argv: List[str],
    variables: Mapping[str, str],
    client: Mapping[str, str],
) -> Command:
    """Return the command that runs `argv` with `variables` in the container; no argument holds a variable's value.

    Args:
        client: variables that the container runtime's own program needs.
    """
    if runtime.kind == APPTAINER:
        return _apptainer(runtime, container, argv, variables, client)
    named, spelled = _split(variables, client)
    words = [*_QUIET.get(runtime.kind, []), "run", *runtime.behind, *_options(runtime, container)]
    words += [word for name in sorted(named) for word in ("--env", name)]
    words += [word for name in sorted(spelled) for word in ("--env", f"{name}={spelled[name]}")]
    words += [*container.arguments, "--entrypoint", "", container.image, *argv]
    return Command(runtime.command(*words), {**client, **named})


def remove_command(runtime: ContainerRuntime, name: str) -> Optional[List[str]]:
    """Return the command that ends and removes a container; None where a container is nothing but its processes."""
    if runtime.kind == APPTAINER:
        return None
    return runtime.command("rm", "--force", *(["--ignore", "--time", "0"] if runtime.kind == PODMAN else []), name)


def _options(runtime: ContainerRuntime, container: Container) -> List[str]:
    words = ["--rm", "--name", container.name, "--pull", "never", "--network", "host", "--pid", "host"]
    words += ["--log-driver", "none", "--security-opt", "label=disable", "--workdir", container.work_folder]
    words += ["--interactive"] if container.has_input else []
    words += ["--ipc", "host"] if container.shares_memory else _shm(container.shm_size)
    words += _user(runtime, container.user)
    if container.has_gpus:
        words += ["--device", "nvidia.com/gpu=all"] if runtime.kind == PODMAN else ["--gpus", "all"]
    for mount in container.mounts:
        ending = "" if mount.is_writable else ",readonly"
        words += ["--mount", f"type=bind,source={mount.path},target={mount.path}{ending}"]
    return words


def _shm(size: str) -> List[str]:
    return ["--shm-size", size] if size else []


def _user(runtime: ContainerRuntime, user: Tuple[int, int]) -> List[str]:
    """Return the options that make files belong to the user: in a rootless runtime, root is that user."""
    if runtime.is_rootless:
        return ["--userns", "keep-id"] if runtime.kind == PODMAN else ["--user", "0:0"]
    return ["--user", f"{user[0]}:{user[1]}"]


def _split(variables: Mapping[str, str], client: Mapping[str, str]) -> Tuple[Dict[str, str], Dict[str, str]]:
    """Return the variables that the runtime passes on by name, and those that mean something else to it."""
    spelled = {name: value for name, value in variables.items() if name in client or name.startswith("LD_")}
    return {name: value for name, value in variables.items() if name not in spelled}, spelled


def _apptainer(
    runtime: ContainerRuntime,
    container: Container,
    argv: List[str],
    variables: Mapping[str, str],
    client: Mapping[str, str],
) -> Command:
    words = ["exec", *runtime.behind, "--cleanenv", "--no-home", "--pwd", container.work_folder]
    words += ["--nv"] if container.has_gpus else []
    for mount in container.mounts:
        words += ["--bind", f"{mount.path}:{mount.path}:{'rw' if mount.is_writable else 'ro'}"]
    words += [*container.arguments, container.image, *argv]
    prefix = "SINGULARITYENV_" if runtime.program.endswith("singularity") else "APPTAINERENV_"
    inner = {prefix + name: value for name, value in variables.items()}
    marked = {name: variables[name] for name in ("RUNYARD_COOKIE",) if name in variables}
    return Command(runtime.command(*words), {**client, **inner, **marked})


class ContainerWrapper(Wrapper):
    """Containers of one image on one container runtime; `prefix` is a folder of this machine that they see, too."""

    def __init__(
        self,
        runtime: ContainerRuntime,
        image: Image,
        spec: ContainerSpec,
        *,
        client: Mapping[str, str],
        prefix: str = "",
    ) -> None:
        self.runtime = runtime
        self.image = image
        self.client = dict(client)
        self._spec = spec
        self._prefix = prefix

    def with_prefix(self, prefix: str) -> ContainerWrapper:
        return ContainerWrapper(self.runtime, self.image, self._spec, client=self.client, prefix=prefix)

    def wrap(self, process: Inside) -> Outside:
        readable = [*process.readable, *([self._prefix] if self._prefix else [])]
        mounts = [BindMount(path, True) for path in process.writable] + [BindMount(path) for path in readable]
        container = Container(
            name=process.name,
            image=self.image.reference,
            work_folder=process.work_folder,
            user=(os.getuid(), os.getgid()),
            mounts=mounts,
            has_gpus=has_gpus(self.runtime) and process.variables.get("CUDA_VISIBLE_DEVICES", "0") not in _NO_DEVICES,
            shm_size=self._spec.shm_size,
            shares_memory=process.has_peers,
            has_input=process.has_input,
            arguments=self._spec.arguments,
        )
        command = run_command(self.runtime, container, process.argv, process.variables, self.client)
        return Outside(command.argv, command.variables, remove_command(self.runtime, process.name))

    def remove(self, name: str) -> None:
        """End and remove the container, if it is there."""
        argv = remove_command(self.runtime, name)
        if argv is not None:
            run_program(argv, environ=self.client, say=_silent, check=never)


def has_gpus(runtime: ContainerRuntime) -> bool:
    """Whether a container can be given this machine's GPUs."""
    if not os.path.exists(GPU_DEVICE):
        return False
    return runtime.kind != PODMAN or any(os.path.isdir(folder) and os.listdir(folder) for folder in _CDI_FOLDERS)


def run_in_container(wrapper: ContainerWrapper, inside: Inside, *, say: Say, check: Check, **options: Any) -> int:
    """Run a step of a build; its container is gone when this returns, however it ends."""
    command = wrapper.wrap(inside)
    try:
        return run_program(command.argv, environ=command.variables, say=say, check=check, **options)
    except BaseException:
        wrapper.remove(inside.name)
        raise


def _silent(line: str) -> None:
    """Print nothing: a container that is already gone is no error."""
