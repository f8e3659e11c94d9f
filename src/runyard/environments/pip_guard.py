"""A stand-in for `pip` in environments that have none: the one that PATH leads to next is somebody else's."""

from __future__ import annotations

from pathlib import Path

_SCRIPT = """#!/bin/sh
echo "error: Nothing can be installed into this environment while a run goes on: other runs share it." >&2
echo "hint: Name the package where you submit: env.python.conda_dependencies.add_pip_package('NAME')." >&2
exit 1
"""


def guard_pip(prefix: Path) -> None:
    """Put the stand-in where a script's `pip install` finds it first, unless pip was asked for."""
    if (prefix / "bin" / "pip").exists():
        return
    for name in ("pip", "pip3"):
        script = prefix / "bin" / name
        script.write_text(_SCRIPT, encoding="utf-8")
        script.chmod(0o755)
