"""The seam `ComputeBackend`: names and lookup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runyard.compute.base import ComputeBackend
from runyard.core.plugins import load_plugin
from runyard.core.settings import Settings

BACKENDS = {
    "local": "runyard.compute.local:LocalBackend",
    "ray": "runyard.compute.ray:RayBackend",
    "slurm": "runyard.compute.slurm:SlurmBackend",
    "ssh": "runyard.compute.ssh:SshBackend",
}


def load_backend(name: str, settings: Settings, options: Mapping[str, Any] | None = None) -> ComputeBackend:
    """Return a backend of that kind, ours or one from the entry-point group `runyard.compute`.

    Raises:
        NotFound: nobody provides it; the known ones are listed.
    """
    backend: ComputeBackend = load_plugin("compute", name, BACKENDS)(settings, dict(options or {}))
    return backend
