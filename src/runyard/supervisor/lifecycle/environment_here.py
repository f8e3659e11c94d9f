"""Chooses the interpreter of a run on this node. Apart from `environment`: a node needs it without a builder."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

from runyard.core.specs import EnvironmentSpec


def environment_here(spec: EnvironmentSpec) -> EnvironmentSpec:
    """Return the environment with an interpreter that this node has.

    Without a named interpreter, the submitter's is meant; where this node does not have it, the node's own takes its
    place. An interpreter that the user named is never replaced.
    """
    named = ((spec.definition.get("python") or {}).get("interpreterPath") or "python") != "python"
    is_here = spec.interpreter is not None and os.access(spec.interpreter, os.X_OK)
    return spec if named or is_here or spec.kind == "container" else replace(spec, interpreter=sys.executable)
