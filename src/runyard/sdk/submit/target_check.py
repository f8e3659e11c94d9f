"""Whether a run's compute target can take it, asked before anything is copied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runyard.core.compute import RESERVED
from runyard.core.errors import NotFound, SubmitRejected
from runyard.core.specs import RunSpec

if TYPE_CHECKING:
    from runyard.sdk.workspaces.workspace import Workspace


def check_target(workspace: Workspace, spec: RunSpec) -> None:
    """Return when the workspace has the target and the run fits on it.

    Raises:
        SubmitRejected: it has not, or the run asks for more nodes than the target ever has.
    """
    if spec.target in RESERVED:
        return
    try:
        target = workspace._client.compute.get(workspace.name, spec.target)
    except NotFound as error:
        raise SubmitRejected(error.what, why=f"{error.why} `local` is this machine.", hint=error.hint) from error
    nodes = spec.distribution.node_count
    if 0 < target.spec.max_nodes < nodes:  # 0: its engine alone knows
        raise SubmitRejected(
            f"The run asks for {nodes} nodes of `{target.name}`.",
            why=f"That compute target has {target.spec.max_nodes} at most.",
            hint=f"Ask for less, or make it bigger: `runyard compute update {target.name} --max-nodes {nodes}`.",
        )
