"""The GPUs that this server gives out, and how many a run gets: by its spec, its variables and the machine."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runyard.core.config.paths import run_folder
from runyard.core.errors import SubmitRejected
from runyard.core.formats.plain import from_plain
from runyard.core.machine.gpus import BY_BUS, NO_DEVICE, ORDER, VISIBLE, Gpu, list_gpus
from runyard.core.specs import JobSpec, RunSpec

logger = logging.getLogger(__name__)

NONE = "none"
VARIABLE = "RUNYARD_GPUS"
ALL, SHARED = "all", "shared"


class Gpus:
    """Looked for once, when the first run asks: the driver may take seconds to wake. Shared between threads."""

    def __init__(self, allowed: str = "", find: Callable[[], Sequence[Gpu]] = list_gpus) -> None:
        self._allowed = allowed
        self._find = find
        self._devices: tuple[str, ...] | None = None

    def devices(self) -> tuple[str, ...]:
        """Return the devices that runs may have, by their numbers on the bus."""
        if self._devices is None:
            found = () if self._allowed == NONE else tuple(str(gpu.index) for gpu in self._find())
            self._devices = _only(found, self._allowed)
            if found:
                logger.info("GPUs of this machine: %s; runs may have: %s", ", ".join(found), ", ".join(self._devices))
        return self._devices


def find_live_job(home: Path, run_id: str, attempt: int) -> JobSpec | None:
    """Return what a live run of this machine was started with, which only its run folder knows."""
    try:
        plain = json.loads((run_folder(home, run_id, attempt) / "job.json").read_bytes())
        return from_plain(JobSpec, plain)
    except (OSError, ValueError, TypeError):
        return None


def devices_of(job: JobSpec) -> tuple[str, ...]:
    """Return the GPUs of all its nodes, each once."""
    held = dict.fromkeys(device for node in job.nodes for device in node.gpus)
    return tuple(device for device in held if device != NO_DEVICE)


def _only(found: tuple[str, ...], allowed: str) -> tuple[str, ...]:
    wanted = {part.strip() for part in allowed.split(",")}
    return tuple(device for device in found if not allowed or device in wanted)


@dataclass(frozen=True)
class GpuRequest:
    """`count` devices are given when the run starts; `devices` are those that it named itself."""

    count: int = 0
    is_shared: bool = False  # others may have them too
    devices: tuple[str, ...] = ()
    warning: str = ""


def gpu_request_of(spec: RunSpec, submitter: Mapping[str, str], total: int) -> GpuRequest:
    """Return what a run asks for on a machine with `total` GPUs.

    Raises:
        SubmitRejected: RUNYARD_GPUS holds something else than it may.
    """
    variables = {**submitter, **spec.environment.variables, **spec.variables}
    asked = variables.get(VARIABLE, "").strip().lower()
    if not asked and VISIBLE in variables:
        return GpuRequest(is_shared=True, devices=_named(variables[VISIBLE]))
    per_node, is_shared = _per_node(spec, asked, total)
    if total == 0:
        return GpuRequest(warning=_no_gpus(per_node, is_said=bool(asked) or spec.gpus is not None))
    wanted = total if per_node is None else per_node * spec.distribution.node_count
    if wanted == 0:
        return GpuRequest(devices=(NO_DEVICE,))
    return GpuRequest(min(wanted, total), is_shared, warning=_too_few(wanted, total))


def with_device_order(spec: RunSpec, submitter: Mapping[str, str]) -> RunSpec:
    """Return the spec of a run that was given devices: CUDA must count them as we do, unless the run named its own."""
    variables = {**submitter, **spec.environment.variables, **spec.variables}
    if VISIBLE in variables and not variables.get(VARIABLE):
        return spec
    return replace(spec, variables={**spec.variables, ORDER: BY_BUS})


def _named(text: str) -> tuple[str, ...]:
    """Return the devices that a CUDA_VISIBLE_DEVICES names; a text that hides all of them is left as it is."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _per_node(spec: RunSpec, asked: str, total: int) -> tuple[int | None, bool]:
    """Return how many a node wants, None for all of the machine's, and whether others may have them too."""
    if asked in (ALL, SHARED):
        return None, asked == SHARED
    if asked.isdecimal():
        return int(asked), spec.share_gpus
    if asked:
        raise SubmitRejected(
            f"The variable {VARIABLE} is {asked[:40]!r}.",
            why="It says how many GPUs each node of the run gets.",
            hint=f"{VARIABLE}=0 for none, 2 for two, {ALL} for all, {SHARED} to use them beside other runs.",
        )
    if spec.gpus is not None and spec.gpus < 0:
        raise SubmitRejected(f"The run asks for {spec.gpus} GPUs.", why="It must be 0 or more, or not said.")
    if spec.gpus is None and spec.share_gpus:
        return None, True
    return max(spec.distribution.processes_per_node, 1) if spec.gpus is None else spec.gpus, spec.share_gpus


def _no_gpus(per_node: int | None, *, is_said: bool) -> str:
    if not is_said or per_node == 0:
        return ""
    return (
        "The run asks for GPUs and this machine has none that its driver shows, so it runs on the CPU. "
        "`nvidia-smi` lists what the driver shows."
    )


def _too_few(wanted: int, total: int) -> str:
    if wanted <= total:
        return ""
    has = "one GPU, which" if total == 1 else f"{total} GPUs, which"
    return f"The run asks for {wanted} GPUs. This machine has {has} its nodes and processes share."
