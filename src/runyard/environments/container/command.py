"""The command lines that run a process in a container. Pure: words in, words out.

The container shares the host's process ids and network: exit records, exceptions and journals name processes by id,
virtual nodes have loopback addresses, and no process is number 1, which would ignore a TERM that it does not expect.
"""

from __future__ import annotations

from dataclasses import field
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

from runyard.core.lazy_dataclass import dataclass
from runyard.environments.container.engines import APPTAINER, PODMAN, Engine

# podman would tell the program's log that a signal came too late for its container.
_QUIET = {PODMAN: ["--log-level", "fatal"]}


class Mount(NamedTuple):
    """A folder or file of the host, at the same path in the container."""

    path: str
    is_writable: bool = False


@dataclass(frozen=True)
class Container:
    """What stands around one process."""

    name: str
    image: str
    work_folder: str
    user: Tuple[int, int]
    mounts: List[Mount] = field(default_factory=list)
    has_gpus: bool = False
    shm_size: str = ""  # ignored where several processes share the host's memory
    shares_memory: bool = False
    has_input: bool = False
    arguments: List[str] = field(default_factory=list)


class Command(NamedTuple):
    argv: List[str]
    variables: Dict[str, str]  # for the engine's program


def run_command(
    engine: Engine, container: Container, argv: List[str], variables: Mapping[str, str], client: Mapping[str, str]
) -> Command:
    """Return what runs `argv` with `variables` in the container; values of variables are in no argument.

    Args:
        client: variables that the engine's own program needs.
    """
    if engine.kind == APPTAINER:
        return _apptainer(engine, container, argv, variables, client)
    named, spelled = _split(variables, client)
    words = [*_QUIET.get(engine.kind, []), "run", *engine.behind, *_options(engine, container)]
    words += [word for name in sorted(named) for word in ("--env", name)]
    words += [word for name in sorted(spelled) for word in ("--env", f"{name}={spelled[name]}")]
    words += [*container.arguments, "--entrypoint", "", container.image, *argv]
    return Command(engine.command(*words), {**client, **named})


def remove_command(engine: Engine, name: str) -> Optional[List[str]]:
    """Return what ends and removes a container, if it is still there; None where the processes are all there is."""
    if engine.kind == APPTAINER:
        return None
    return engine.command("rm", "--force", *(["--ignore", "--time", "0"] if engine.kind == PODMAN else []), name)


def _options(engine: Engine, container: Container) -> List[str]:
    words = ["--rm", "--name", container.name, "--pull", "never", "--network", "host", "--pid", "host"]
    words += ["--log-driver", "none", "--security-opt", "label=disable", "--workdir", container.work_folder]
    words += ["--interactive"] if container.has_input else []
    words += ["--ipc", "host"] if container.shares_memory else _shm(container.shm_size)
    words += _user(engine, container.user)
    if container.has_gpus:
        words += ["--device", "nvidia.com/gpu=all"] if engine.kind == PODMAN else ["--gpus", "all"]
    for mount in container.mounts:
        ending = "" if mount.is_writable else ",readonly"
        words += ["--mount", f"type=bind,source={mount.path},target={mount.path}{ending}"]
    return words


def _shm(size: str) -> List[str]:
    return ["--shm-size", size] if size else []


def _user(engine: Engine, user: Tuple[int, int]) -> List[str]:
    """Return what makes files belong to the user who runs: a rootless engine's own root is that user."""
    if engine.is_rootless:
        return ["--userns", "keep-id"] if engine.kind == PODMAN else ["--user", "0:0"]
    return ["--user", f"{user[0]}:{user[1]}"]


def _split(variables: Mapping[str, str], client: Mapping[str, str]) -> Tuple[Dict[str, str], Dict[str, str]]:
    """Return the variables that the engine takes from its own by name, and those that mean something else to it."""
    spelled = {name: value for name, value in variables.items() if name in client or name.startswith("LD_")}
    return {name: value for name, value in variables.items() if name not in spelled}, spelled


def _apptainer(
    engine: Engine, container: Container, argv: List[str], variables: Mapping[str, str], client: Mapping[str, str]
) -> Command:
    words = ["exec", *engine.behind, "--cleanenv", "--no-home", "--pwd", container.work_folder]
    words += ["--nv"] if container.has_gpus else []
    for mount in container.mounts:
        words += ["--bind", f"{mount.path}:{mount.path}:{'rw' if mount.is_writable else 'ro'}"]
    words += [*container.arguments, container.image, *argv]
    prefix = "SINGULARITYENV_" if engine.program.endswith("singularity") else "APPTAINERENV_"
    inner = {prefix + name: value for name, value in variables.items()}
    marked = {name: variables[name] for name in ("RUNYARD_COOKIE",) if name in variables}
    return Command(engine.command(*words), {**client, **inner, **marked})
