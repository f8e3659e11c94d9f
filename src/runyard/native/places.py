"""Where calls go: the workspace of this program, and the submitted run that it is part of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from runyard.runtime.context import find_context

if TYPE_CHECKING:
    from runyard.sdk.runs.run import Run
    from runyard.sdk.workspaces.workspace import Workspace


def current_run() -> Optional[Run]:
    """Return the submitted run that this process is part of; None outside of one."""
    if find_context() is None:
        return None
    from runyard.sdk.runs.run import Run  # a program outside of runs asks for none

    run: Run = Run.get_context(allow_offline=False)
    return run


def find_workspace() -> Workspace:
    """Return the workspace of the run that this process is part of, else the one that `config.json` names."""
    run = current_run()
    if run is not None:
        return run.experiment.workspace
    from runyard.sdk.workspaces.workspace import Workspace  # inside a run it is known already

    return Workspace.from_config()
