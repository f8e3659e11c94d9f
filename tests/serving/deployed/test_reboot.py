"""The machine restarts: every process is gone at once, and the next server brings services back."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from runyard.core.config.paths import server_folder
from runyard.core.machine.facts import start_ticks
from runyard.core.statuses import RunStatus
from runyard.core.webservices import Scaling
from tests.conftest import kill_all
from tests.serving.deployed.live import WORKSPACE, LiveService, client, close_clients
from tests.waiting import wait_for

pytestmark = pytest.mark.long


def have_been_another_boot(home: Path) -> None:
    """Make all that was noted of processes that of an earlier start of the machine. Their ids are others' by now."""
    notes = [*(home / "runs").glob("*/*/claim"), server_folder(home) / "lock"]
    assert len(notes) == 3, "of the server, and of the replicas' supervisors"
    for path in notes:
        noted = json.loads(path.read_text())
        assert noted["boot_id"]
        path.write_text(json.dumps({**noted, "boot_id": "another", "pid": os.getpid(), "start_ticks": start_ticks()}))
    gateway = server_folder(home) / "gateway/gateway.json"
    gateway.write_text(json.dumps({**json.loads(gateway.read_text()), "pid": os.getpid()}))


@pytest.mark.parametrize("is_reboot", [False, True], ids=["all is killed", "the machine restarts"])
def test_services_come_back_with_address_and_keys(home: Path, tmp_path: Path, is_reboot: bool) -> None:
    service = LiveService("back", tmp_path / "source")
    scaling = Scaling(replicas=2)
    service.deploy(service.spec("def init(): pass\ndef run(d): return d\n", scaling=scaling), auth=True)
    before = service.record
    keys = client().webservices.keys(WORKSPACE, "back")
    wait_for(lambda: len(service.workers()) == 2)

    kill_all(home)
    wait_for(lambda: not service.processes(), what=service.processes)
    if is_reboot:
        have_been_another_boot(home)
    client()
    wait_for(service.is_reachable)

    answer = service.post("x", authorization=f"Bearer {keys[0]}")
    assert (answer.status, answer.json) == (200, "x")
    assert service.post("x", authorization=f"Bearer {keys[1]}").status == 200
    assert service.post("x", authorization="Bearer other").status == 401
    assert client().webservices.keys(WORKSPACE, "back") == keys
    wait_for(lambda: service.record.state == "Healthy", what=lambda: service.tell(service.record))
    lost = [client().runs.get(f"{before.run_id}_{number}") for number in (1, 2)]
    code = "NodeLost" if is_reboot else "ExitCodeUnknown"
    assert [(one.status, (one.error or {})["code"]) for one in lost] == [(RunStatus.FAILED, code)] * 2
    wait_for(lambda: len(service.workers()) == 2, what=service.live)
    assert service.record.last_replica == 4
    after = service.record
    assert (after.id, after.scoring_uri, after.current) == (before.id, before.scoring_uri, {"": 1})
    service.end()
    close_clients()
