"""The seam `EnvironmentBuilder`: names and lookup."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

from runyard.core.errors import NotYetSupported
from runyard.core.plugins import load_plugin
from runyard.environments.base import EnvironmentBuilder

BUILDERS = {"system": "runyard.environments.system:SystemBuilder"}
_LATER = ("uv", "venv", "conda", "docker")


def get_builder(name: str, *, cache: Optional[Path] = None) -> EnvironmentBuilder:
    """Return the builder of an `EnvironmentSpec.kind`; `cache` is a folder where it keeps what it found out or built.

    Raises:
        NotFound: there is none of that name.
        NotYetSupported: it comes with a later release.
    """
    if name in _LATER:
        raise NotYetSupported(
            f"Environments of the kind `{name}` cannot be built yet.",
            why="Building environments comes with a later release.",
            hint="Install the packages into a Python of your own and use it: "
            "`env.python.user_managed_dependencies = True` and `env.python.interpreter_path = '<its full path>'`.",
        )
    builder: EnvironmentBuilder = load_plugin("environments", name, BUILDERS)(cache=cache)
    return builder
