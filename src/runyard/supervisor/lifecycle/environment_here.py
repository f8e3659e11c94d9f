"""Which interpreter a run gets on this node. Apart from `environment`: a node asks before it loads a builder."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

from runyard.core.specs import EnvironmentSpec


def environment_here(spec: EnvironmentSpec) -> EnvironmentSpec:
    """Return the environment with an interpreter that this node has.

    Who names none means the one that submits; where that is not on this node, the node's own takes its place. One that
    a user named must be there.
    """
    named = ((spec.definition.get("python") or {}).get("interpreterPath") or "python") != "python"
    is_here = spec.interpreter is not None and os.access(spec.interpreter, os.X_OK)
    return spec if named or is_here or spec.kind == "container" else replace(spec, interpreter=sys.executable)
