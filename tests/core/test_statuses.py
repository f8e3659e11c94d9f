import itertools

import pytest

from runyard.core.errors import InvalidTransition
from runyard.core.statuses import TERMINAL, TRANSITIONS, RunStatus, check_transition

S = RunStatus
USUAL = [S.NOT_STARTED, S.QUEUED, S.PREPARING, S.STARTING, S.RUNNING, S.FINALIZING, S.COMPLETED]


@pytest.mark.parametrize(("old", "new"), list(itertools.pairwise(USUAL)))
def test_the_usual_order_is_allowed(old: RunStatus, new: RunStatus) -> None:
    check_transition("r", old, new)


@pytest.mark.parametrize("old", sorted(TERMINAL))
@pytest.mark.parametrize("new", list(RunStatus))
def test_a_finished_run_keeps_its_status(old: RunStatus, new: RunStatus) -> None:
    with pytest.raises(InvalidTransition, match=old.value):
        check_transition("r", old, new)


def test_a_run_never_walks_back() -> None:
    for index, old in enumerate(USUAL[:-1]):
        assert not set(USUAL[:index]) & TRANSITIONS[old]


def test_silence_heals() -> None:
    check_transition("r", S.RUNNING, S.NOT_RESPONDING)
    check_transition("r", S.NOT_RESPONDING, S.RUNNING)
