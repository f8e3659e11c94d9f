"""The seam `ComputeBackend`: names and lookup."""

from __future__ import annotations

from runyard.compute.base import ComputeBackend
from runyard.core.plugins import load_plugin
from runyard.core.settings import Settings

BACKENDS = {"local": "runyard.compute.local:LocalBackend"}


def load_backend(name: str, settings: Settings) -> ComputeBackend:
    """Return the backend of that name, ours or one from the entry-point group `runyard.compute`.

    Raises:
        NotFound: nobody provides it; the known ones are listed.
    """
    backend: ComputeBackend = load_plugin("compute", name, BACKENDS)(settings)
    return backend
