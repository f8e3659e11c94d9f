"""The seam `ComputeBackend`: names and lookup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runyard.compute.base import ComputeBackend
from runyard.core.config.settings import Settings
from runyard.core.plugins import load_plugin

BACKENDS = {
    "local": "runyard.compute.local:LocalBackend",
    "ray": "runyard.compute.ray.backend:RayBackend",
    "slurm": "runyard.compute.slurm.backend:SlurmBackend",
    "ssh": "runyard.compute.ssh.backend:SshBackend",
}


def load_backend(name: str, settings: Settings, options: Mapping[str, Any] | None = None) -> ComputeBackend:
    """Return a backend of that kind, ours or one from the entry-point group `runyard.compute`.

    Raises:
        NotFound: there is no such backend; the known ones are listed.
    """
    backend: ComputeBackend = load_plugin("compute", name, BACKENDS)(settings, dict(options or {}))
    return backend
