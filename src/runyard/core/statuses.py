"""The statuses of a run in Azure's words, and the one table of allowed transitions."""

from __future__ import annotations

from enum import Enum
from typing import Dict, FrozenSet

from runyard.core.errors import InvalidTransition


class RunStatus(str, Enum):
    NOT_STARTED = "NotStarted"
    QUEUED = "Queued"
    PREPARING = "Preparing"
    PROVISIONING = "Provisioning"
    STARTING = "Starting"
    RUNNING = "Running"
    CANCEL_REQUESTED = "CancelRequested"
    FINALIZING = "Finalizing"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELED = "Canceled"
    NOT_RESPONDING = "NotResponding"
    PAUSING = "Pausing"
    PAUSED = "Paused"
    UNAPPROVED = "Unapproved"

    def __str__(self) -> str:
        return self.value

    @property
    def is_terminal(self) -> bool:
        return self in TERMINAL


_S = RunStatus
TERMINAL: FrozenSet[RunStatus] = frozenset({_S.COMPLETED, _S.FAILED, _S.CANCELED})
LIVE: FrozenSet[RunStatus] = frozenset(
    {_S.PREPARING, _S.PROVISIONING, _S.STARTING, _S.RUNNING, _S.FINALIZING, _S.CANCEL_REQUESTED, _S.NOT_RESPONDING}
)

# A restarted supervisor may report late, so phases may be skipped but never walked backwards. Only a next attempt leads
# from a live status to Queued (RunStore.fence_attempt, start_attempt).
_FORWARD = [_S.NOT_STARTED, _S.QUEUED, _S.PREPARING, _S.PROVISIONING, _S.STARTING, _S.RUNNING, _S.FINALIZING]

TRANSITIONS: Dict[RunStatus, FrozenSet[RunStatus]] = {
    status: frozenset(_FORWARD[index + 1 :]) | {_S.CANCEL_REQUESTED, _S.NOT_RESPONDING} | TERMINAL
    for index, status in enumerate(_FORWARD)
}
TRANSITIONS[_S.CANCEL_REQUESTED] = frozenset({_S.FINALIZING, _S.NOT_RESPONDING}) | TERMINAL
TRANSITIONS[_S.FINALIZING] = frozenset({_S.NOT_RESPONDING, _S.CANCEL_REQUESTED}) | TERMINAL
TRANSITIONS[_S.NOT_RESPONDING] = frozenset(_FORWARD[2:]) | {_S.CANCEL_REQUESTED} | TERMINAL
for _terminal in TERMINAL:
    TRANSITIONS[_terminal] = frozenset()


def check_transition(run_id: str, old: RunStatus, new: RunStatus) -> None:
    """Raise InvalidTransition unless a run may move from `old` to `new`."""
    if new not in TRANSITIONS.get(old, frozenset()):
        raise InvalidTransition(
            f"Run `{run_id}` cannot go from {old.value} to {new.value}.",
            why="A finished run keeps its status." if old.is_terminal else "That is not the order of a run's life.",
            hint=f"Look at it with `runyard runs show {run_id}`.",
        )
