"""The compute targets this server knows, by name."""

from __future__ import annotations

from collections.abc import Mapping

from runyard.compute import load_backend
from runyard.compute.base import ComputeBackend
from runyard.core.errors import SubmitRejected
from runyard.core.settings import Settings

Backends = Mapping[str, ComputeBackend]


def open_backends(settings: Settings) -> Backends:
    return {"local": load_backend("local", settings)}


def backend_for(backends: Backends, target: str) -> ComputeBackend:
    """Return the target's backend.

    Raises:
        SubmitRejected: there is no target of that name; the known ones are listed.
    """
    found = backends.get(target)
    if found is None:
        raise SubmitRejected(
            f"There is no compute target `{target}`.",
            why="A run names the machine it should run on.",
            hint=f"Known here: {', '.join(sorted(backends))}. Set compute_target='local' to run on this machine.",
        )
    return found
