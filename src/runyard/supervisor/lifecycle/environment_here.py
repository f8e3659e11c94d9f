"""Chooses the interpreter of a run on this node. Apart from `environment`: a node needs it without a builder."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import List, Mapping, Tuple

from runyard.core.config.settings import Settings
from runyard.core.errors import SubmitRejected
from runyard.core.specs import EnvironmentSpec


def environment_here(spec: EnvironmentSpec) -> EnvironmentSpec:
    """Return the environment with an interpreter that this node has.

    Without a named interpreter, the submitter's is meant; where this node does not have it, the node's own takes its
    place. An interpreter that the user named is never replaced.
    """
    named = ((spec.definition.get("python") or {}).get("interpreterPath") or "python") != "python"
    is_here = spec.interpreter is not None and os.access(spec.interpreter, os.X_OK)
    return spec if named or is_here or spec.kind == "container" else replace(spec, interpreter=sys.executable)


def without_runtime(
    spec: EnvironmentSpec, settings: Settings, variables: Mapping[str, str]
) -> Tuple[EnvironmentSpec, List[str]]:
    """Return the environment as it is; where no container runtime works, its fallback, and a warning that says why."""
    from runyard.environments.container.images import find_runtime  # few environments have an image

    container = spec.container
    assert container is not None
    try:
        find_runtime(settings, {**os.environ, **variables})
    except SubmitRejected as error:
        what = f"image {container.image}" if container.image else "Dockerfile"
        why = (
            f"The {what} is not used, for no container runtime works here: {error.why} "
            "The packages are installed on this machine itself. `apt-get install podman` has the image used."
        )
        plain = container.fallback
        plain_spec = replace(
            spec,
            kind=str(plain.get("kind")),
            interpreter=plain.get("interpreter"),
            python_version=plain.get("python_version"),
            container=None,
        )
        return environment_here(plain_spec), [why]
    return spec, []
