"""What a web service must do whose replicas run on a cluster: answer from there, and go on when its node dies."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from runyard.core.errors import RunyardError
from runyard.core.specs import EnvironmentSpec
from runyard.core.webservices import NewService, RevisionSpec, ServiceAnswer, ServiceSettings, Webservice
from runyard.sdk.runs.source import store_source
from tests.cluster.scenarios import PATIENCE_S, Yard
from tests.waiting import wait_for

WHERE = """
import json, socket
def init():
    print("loaded on", socket.gethostname())
def run(data):
    return [socket.gethostname(), sum(json.loads(data)["data"])]
"""


def answered_elsewhere(
    yard: Yard, lose: Callable[[str], None], *, within_s: float = 60.0, names_it: bool = False
) -> None:
    """`lose(host)` ends the node of the only replica: another one answers soon.

    Args:
        names_it: wait, a minute or so, until the cluster is certain, and the lost replica's run names the node.
    """
    calls = yard.team.client().webservices
    name = f"on-{yard.target}"[:32]
    (yard.project / "score.py").write_text(WHERE)
    source = store_source(yard.team.client(), str(yard.project))
    spec = RevisionSpec(
        entry="score.py",
        snapshot_id=source.snapshot_id,
        target=yard.target,
        environment=EnvironmentSpec(interpreter=sys.executable),
    )
    calls.deploy("default", name, NewService(ServiceSettings(compute_type="ACI", auth=True), spec))
    wait_for(lambda: _settled(yard, name), timeout_s=PATIENCE_S, what=lambda: calls.get("default", name))
    first = calls.get("default", name)
    assert first.state == "Healthy", first
    host, total = _asked(yard, name)
    assert host in yard.ground.nodes and total == 6
    (lost,) = [ref.run_id for ref in first.revisions[0].replicas]

    began = time.monotonic()
    lose(host)
    wait_for(
        lambda: _answers_from_another(yard, name, lost), timeout_s=within_s, what=lambda: calls.get("default", name)
    )
    print(f"{yard.target}: another replica answers {time.monotonic() - began:.0f} s after {host} was lost")

    runs = yard.team.client().runs
    if names_it:
        wait_for(lambda: runs.get(lost).status.is_terminal, timeout_s=PATIENCE_S, what="the end of the lost replica")
        assert host in str(runs.get(lost).error), runs.get(lost)
    last = calls.get("default", name).last_replica
    calls.delete("default", name)
    after = [f"{first.run_id}_{number}" for number in range(2, last + 1)]
    wait_for(lambda: all(runs.get(one).status.is_terminal for one in after), timeout_s=PATIENCE_S)


def _settled(yard: Yard, name: str) -> bool:
    record: Webservice = yard.team.client().webservices.get("default", name)
    return record.operation is not None and record.operation.state != "Running"


def _asked(yard: Yard, name: str) -> tuple[str, int]:
    answer: ServiceAnswer = yard.team.client().webservices.ask("default", name, b'{"data": [1, 2, 3]}')
    assert answer.status == 200, answer
    host, total = answer.text.strip("[]\n").split(", ") if answer.text else ("", "0")
    return host.strip('"'), int(total)


def _answers_from_another(yard: Yard, name: str, lost: str) -> bool:
    """Whether a replica that was made after the loss has answered."""
    calls = yard.team.client().webservices
    record = calls.get("default", name)
    present = [ref.run_id for ref in record.revisions[0].replicas if ref.run_id != lost]
    if not present or not record.revisions[0].workers:
        return False
    try:
        return _asked(yard, name)[1] == 6
    except (AssertionError, RunyardError):
        return False
