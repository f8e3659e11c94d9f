"""One of two machines of a job is lost: the run says which, and is started again where its user allowed it."""

from __future__ import annotations

import pytest

from azureml.core.runconfig import PyTorchConfiguration
from tests.cluster import scenarios
from tests.cluster.ground import Ground
from tests.cluster.scenarios import PATIENCE_S, Yard, finish, logs_of, tell
from tests.cluster.sshd import Boxes
from tests.cluster.test_ssh import yard  # noqa: F401  # the fixture
from tests.conftest import environ_of
from tests.waiting import wait_for

pytestmark = [pytest.mark.external, pytest.mark.timeout(300)]

# Attempt 1 goes on, and talks all the time, until it is lost; attempt 2 ends.
TWICE = """
    import os, time
    print("here", flush=True)
    while os.environ["RUNYARD_ATTEMPT"] == "1":
        time.sleep(0.1)
        print("goes on", flush=True)
"""
TWO = PyTorchConfiguration("Gloo", process_count=2, node_count=2)


def node_of(ground: Ground, run_id: str, rank: int) -> str:
    """Return the machine of one of the run's nodes."""

    def has_it(pid: int) -> bool:
        return environ_of(pid, "RUNYARD_RUN_ID") == run_id and environ_of(pid, "NODE_RANK") == str(rank)

    return next(node for node in ground.nodes if any(has_it(pid) for pid in ground.processes(node)))


@pytest.mark.parametrize("which", [1, 0])
def test_one_of_two_machines_is_lost(yard: Yard, boxes: Boxes, ground: Ground, which: int) -> None:  # noqa: F811
    """The second machine of a run that may not be started again; the first of one that may."""
    attempts = 1 if which == 1 else 2
    run = yard.submit(TWICE, distributed_job_config=TWO, max_attempts=attempts)
    wait_for(lambda: len([text for text in logs_of(run).values() if text]) == 2, timeout_s=PATIENCE_S, what="both run")
    lost = node_of(ground, run.id, which)
    ground.kill_node(lost)
    boxes.daemons[lost].start()

    details = finish(run)
    record = yard.team.client().runs.get(run.id)
    if attempts == 1:
        assert details["status"] == "Failed", tell(run)
        assert details["error"]["error"]["code"] == "NodeLost" and lost in str(details["error"]), details["error"]
    else:
        assert details["status"] == "Completed", tell(run)
        assert [(one.number, one.code) for one in record.attempts] == [(1, "NodeLost")]
        assert lost in record.attempts[0].host
    assert scenarios.processes_of(run) == []
