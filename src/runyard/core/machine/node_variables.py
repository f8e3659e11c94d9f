"""How a supervisor is started on a machine, and what the processes of a run may know of it, whoever submitted them."""

from __future__ import annotations

import os
import sys
from typing import Dict, List, Mapping

# Nothing that changes how a program is loaded or a shell starts; a run's own variables travel in its job.
KEPT = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME"}
)


def node_variables(environ: Mapping[str, str]) -> Dict[str, str]:
    return {name: value for name, value in environ.items() if name in KEPT or name.startswith("LC_")}


def supervisor_command() -> List[str]:
    """Return the start of every supervisor's argv. `-I`: no PYTHON… variable, user site or current folder gets in."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return [sys.executable, "-I", os.path.join(package, "supervisor", "__main__.py")]
