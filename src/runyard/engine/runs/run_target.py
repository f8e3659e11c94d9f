"""The target that a request names becomes the one that its run goes to, with what the run asks of its engine."""

from __future__ import annotations

from dataclasses import replace

from runyard.core.compute_options import check_resources
from runyard.core.errors import SubmitRejected, UserError
from runyard.core.records import NewRun
from runyard.core.specs import RunSpec
from runyard.engine.context import Yard
from runyard.engine.runs.reachable import require_reachable
from runyard.engine.state.gpu_wish import VARIABLE


def with_target(yard: Yard, new: NewRun) -> NewRun:
    """Return the request with its target's own name: an alias may come to mean another target while the run lives.

    Raises:
        SubmitRejected: there is no such target, its machines cannot reach this server, or its engine cannot be told
            what the run asks for.
    """
    target = yard.targets.get(new.workspace, new.spec.target)
    spec = new.spec if target.name == new.spec.target else replace(new.spec, target=target.name)
    try:
        check_resources(spec.resources)
        if not target.is_local:
            require_reachable(yard, target.backend)
    except UserError as error:
        raise SubmitRejected(error.what, why=error.why, hint=error.hint) from error
    return replace(new, spec=spec if target.is_local else _with_gpus(spec))


def _with_gpus(spec: RunSpec) -> RunSpec:
    """Return the spec with the GPUs that its variable asks for: an engine knows only numbers."""
    variables = {**spec.environment.variables, **spec.variables}
    asked = variables.get(VARIABLE, "").strip()
    if not asked:
        return spec
    if not asked.isdecimal():
        raise SubmitRejected(
            f"The variable {VARIABLE} is {asked[:40]!r}.",
            why=f"The engine of `{spec.target}` gives GPUs out by number.",
            hint=f"{VARIABLE}=2 asks for two on each node of the run.",
        )
    return replace(spec, gpus=int(asked))
