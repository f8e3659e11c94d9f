"""The backends this server starts runs with, by name."""

from __future__ import annotations

from collections.abc import Mapping

from runyard.compute import load_backend
from runyard.compute.base import ComputeBackend
from runyard.core.settings import Settings

Backends = Mapping[str, ComputeBackend]


def open_backends(settings: Settings) -> Backends:
    return {"local": load_backend("local", settings)}
