"""Exit codes, stable; docs/reference/cli.md explains them."""

from __future__ import annotations

from runyard.core.statuses import RunStatus

COMPLETED, FAILED, USAGE, CANCELED, INTERRUPTED = 0, 1, 2, 3, 130
NOT_RUNNING = 3  # `server status`, as init scripts have it


def exit_code_of(status: RunStatus) -> int:
    """Return what `submit` and `logs -f` leave with."""
    return {RunStatus.COMPLETED: COMPLETED, RunStatus.CANCELED: CANCELED}.get(status, FAILED)
