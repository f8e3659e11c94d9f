"""What the processes of a run may know of the machine that they are on, whoever submitted them."""

from __future__ import annotations

from typing import Dict, Mapping

# Nothing that changes how a program is loaded or a shell starts; a run's own variables travel in its job.
KEPT = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME"}
)


def node_variables(environ: Mapping[str, str]) -> Dict[str, str]:
    return {name: value for name, value in environ.items() if name in KEPT or name.startswith("LC_")}
