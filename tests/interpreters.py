"""Other Python interpreters on this machine: what is injected into runs must work in old and new ones."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path


@functools.lru_cache(maxsize=None)
def find_interpreter(version: str) -> str | None:
    """Return the path of a Python `version` (such as "3.8") that really runs, or None."""
    for candidate in _candidates(version):
        code = "import sys; print('%d.%d' % sys.version_info[:2]); print(sys.executable)"
        try:
            done = subprocess.run([candidate, "-c", code], capture_output=True, text=True, check=False, timeout=30)
        except OSError:
            continue
        if done.returncode == 0 and done.stdout.split("\n")[0] == version:  # a shim may stand for nothing
            return done.stdout.split("\n")[1]
    return None


@functools.lru_cache(maxsize=None)
def pythons() -> dict[str, str]:
    """Return {"3.8": path, …} for the oldest and the newest that this machine has, beside the present one."""
    mine = f"{sys.version_info[0]}.{sys.version_info[1]}"
    found = {version: path for minor in range(8, 14) if (path := find_interpreter(version := f"3.{minor}"))}
    others = [version for version in [*list(found)[:1], *list(found)[-1:]] if version != mine]
    return {mine: sys.executable, **{version: found[version] for version in others}}


def _candidates(version: str) -> list[str]:
    managed = Path(os.environ.get("PYENV_ROOT", "")) / "versions"
    found = [str(path) for path in sorted(managed.glob(f"{version}.*/bin/python"))] if managed.is_absolute() else []
    on_path = shutil.which(f"python{version}")
    return found + ([on_path] if on_path else [])
