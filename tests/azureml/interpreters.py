"""Other Python interpreters on this machine."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
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
        if done.returncode == 0 and done.stdout.split("\n")[0] == version:
            return done.stdout.split("\n")[1]
    return None


def _candidates(version: str) -> list[str]:
    managed = Path(os.environ.get("PYENV_ROOT", "")) / "versions"
    found = [str(path) for path in sorted(managed.glob(f"{version}*/bin/python"))] if managed.is_absolute() else []
    on_path = shutil.which(f"python{version}")
    return found + ([on_path] if on_path else [])
