"""The seam `EnvironmentBuilder`: names and lookup."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

from runyard.core.config.settings import Settings
from runyard.core.plugins import load_plugin
from runyard.environments.base import EnvironmentBuilder

BUILDERS = {
    "conda": "runyard.environments.conda.builder:CondaBuilder",
    "container": "runyard.environments.container.builder:ContainerBuilder",
    "system": "runyard.environments.system:SystemBuilder",
    "uv": "runyard.environments.uv:UvBuilder",
}


def get_builder(name: str, *, cache: Optional[Path] = None, settings: Optional[Settings] = None) -> EnvironmentBuilder:
    """Return the builder of an `EnvironmentSpec.kind`; `cache` is a folder where it keeps what it found out.

    Raises:
        NotFound: there is none of that name.
    """
    builder: EnvironmentBuilder = load_plugin("environments", name, BUILDERS)(cache=cache, settings=settings)
    return builder
