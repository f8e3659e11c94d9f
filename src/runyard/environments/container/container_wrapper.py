"""Containers of one image on one engine: around a run's processes, and for the steps of a build."""

from __future__ import annotations

import os
from typing import Any, Mapping

from runyard.core.specs import ContainerSpec
from runyard.environments.base import Check, Inside, Outside, Say, Wrapper, never
from runyard.environments.container.command import Container, Mount, remove_command, run_command
from runyard.environments.container.engines import PODMAN, Engine
from runyard.environments.container.images import Image
from runyard.environments.process import run_program

GPU_DEVICE = "/dev/nvidiactl"
_CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")
_NO_DEVICES = ("", "-1", "none", "void")  # values of CUDA_VISIBLE_DEVICES that mean no GPU


class ContainerWrapper(Wrapper):
    """Containers of one image on one engine; `prefix` is a folder of this machine that they see, too."""

    def __init__(
        self, engine: Engine, image: Image, spec: ContainerSpec, *, client: Mapping[str, str], prefix: str = ""
    ) -> None:
        self.engine = engine
        self.image = image
        self.client = dict(client)
        self._spec = spec
        self._prefix = prefix

    def with_prefix(self, prefix: str) -> ContainerWrapper:
        return ContainerWrapper(self.engine, self.image, self._spec, client=self.client, prefix=prefix)

    def wrap(self, process: Inside) -> Outside:
        readable = [*process.readable, *([self._prefix] if self._prefix else [])]
        mounts = [Mount(path, True) for path in process.writable] + [Mount(path) for path in readable]
        container = Container(
            name=process.name,
            image=self.image.reference,
            work_folder=process.work_folder,
            user=(os.getuid(), os.getgid()),
            mounts=mounts,
            has_gpus=has_gpus(self.engine) and process.variables.get("CUDA_VISIBLE_DEVICES", "0") not in _NO_DEVICES,
            shm_size=self._spec.shm_size,
            shares_memory=process.has_peers,
            has_input=process.has_input,
            arguments=self._spec.arguments,
        )
        command = run_command(self.engine, container, process.argv, process.variables, self.client)
        return Outside(command.argv, command.variables, remove_command(self.engine, process.name))

    def remove(self, name: str) -> None:
        """End and remove the container, if it is there."""
        argv = remove_command(self.engine, name)
        if argv is not None:
            run_program(argv, environ=self.client, say=_silent, check=never)


def has_gpus(engine: Engine) -> bool:
    """Whether a container can be given this machine's GPUs."""
    if not os.path.exists(GPU_DEVICE):
        return False
    return engine.kind != PODMAN or any(os.path.isdir(folder) and os.listdir(folder) for folder in _CDI_FOLDERS)


def run_in_container(wrapper: ContainerWrapper, inside: Inside, *, say: Say, check: Check, **options: Any) -> int:
    """Run a step of a build; its container is gone when this returns, however it ends."""
    command = wrapper.wrap(inside)
    try:
        return run_program(command.argv, environ=command.variables, say=say, check=check, **options)
    except BaseException:
        wrapper.remove(inside.name)
        raise


def _silent(line: str) -> None:
    """That there was nothing to remove is not worth a line."""
