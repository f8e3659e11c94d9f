"""What takes time while a run prepares is told in place of a heartbeat, each thing once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Callable, Dict, List, Tuple

from runyard.client.decoding import DesiredState
from runyard.core.specs import JobSpec, RunSpec
from runyard.core.statuses import RunStatus
from runyard.supervisor.shipping.reporter import HEARTBEAT_S, TELL_EVERY_S, Reporter
from tests.waiting import wait_for


class Heard:
    """A server that takes everything."""

    def __init__(self) -> None:
        self.states: List[Tuple[str, Dict[str, Any]]] = []
        self.client = SimpleNamespace(runs=self)

    def state(self, _run_id: str, _attempt: int, *, status: RunStatus, **more: Any) -> DesiredState:
        self.states.append((status.value, more))
        return DesiredState(None, None, 1, status)

    def call(self, work: Callable[[], Any]) -> Any:
        return work()


def reporter_of(server: Heard, *, leads: bool = True, tell_after_s: float = 0.0) -> Reporter:
    job = JobSpec(
        run_id="r1",
        attempt=1,
        experiment="e",
        workspace="default",
        spec=RunSpec(),
        snapshot_root=None,
        server={},
        token="",
        cookie="",
        home="/h",
    )
    connection: Any = server  # what is used of one
    return Reporter(connection, job, notify=lambda: None, leads=leads, beats=False, tell_after_s=tell_after_s)


def test_what_takes_time_is_told_once_and_not_before_the_phase() -> None:
    server = Heard()
    reporter = reporter_of(server)
    reporter.phase(RunStatus.PREPARING)
    reporter.note("restoring the snapshot")
    reporter.note("making the environment `torch`")
    for _ in range(3):
        reporter._step()
    reporter.phase(RunStatus.STARTING)
    for _ in range(2):
        reporter._step()

    assert server.states == [
        ("Preparing", {}),
        ("Preparing", {"doing": "making the environment `torch`"}),
        ("Starting", {}),
    ]


def test_what_is_noted_again_and_again_is_told() -> None:
    server = Heard()
    reporter = reporter_of(server, tell_after_s=0.2)

    def has_told() -> bool:
        reporter.note("waiting for space")
        reporter._step()
        return bool(server.states)

    wait_for(has_told)
    assert [facts for _, facts in server.states] == [{"doing": "waiting for space"}]


def test_how_far_it_is_does_not_make_it_a_new_activity() -> None:
    """Each number used to start the clock again, so that nothing was ever told."""
    server = Heard()
    reporter = reporter_of(server, tell_after_s=0.2)
    done = 0

    def has_told_twice() -> bool:
        nonlocal done
        done += 1
        reporter.note(f"restoring the snapshot · {done} of 1000000")
        reporter._step()
        return len(server.states) == 2

    wait_for(has_told_twice)
    assert all(facts["doing"].startswith("restoring the snapshot · ") for _, facts in server.states)
    assert reporter._pause_s() == TELL_EVERY_S
    reporter.phase(RunStatus.RUNNING)
    assert reporter._pause_s() == HEARTBEAT_S


def test_what_is_quick_is_not_told() -> None:
    server = Heard()
    reporter = reporter_of(server, tell_after_s=3600)
    reporter.note("restoring the snapshot")
    reporter._step()

    assert server.states == []


def test_a_node_that_does_not_lead_tells_nothing_of_it() -> None:
    server = Heard()
    reporter = reporter_of(server, leads=False)
    reporter.note("restoring the snapshot")
    reporter._step()

    assert server.states == []
