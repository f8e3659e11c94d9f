"""The GPUs that this server gives out, and those that live runs have from an earlier server."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from runyard.core.config.paths import run_folder
from runyard.core.formats.plain import from_plain
from runyard.core.machine.gpus import NO_DEVICE, Gpu, list_gpus
from runyard.core.specs import JobSpec

logger = logging.getLogger(__name__)

NONE = "none"


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
