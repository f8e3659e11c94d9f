"""The machine restarts: every process is gone at once, and the next server brings services back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import kill_all
from tests.serving.deployed.live import WORKSPACE, LiveService, client, close_clients
from tests.waiting import wait_for

pytestmark = pytest.mark.long


def test_services_come_back_with_address_and_keys(home: Path, tmp_path: Path) -> None:
    service = LiveService("back", tmp_path / "source")
    service.deploy(service.spec("def init(): pass\ndef run(d): return d\n", workers=2), auth=True)
    before = service.record
    keys = client().webservices.keys(WORKSPACE, "back")
    wait_for(lambda: len(service.workers()) == 2)

    kill_all(home)
    wait_for(lambda: not service.processes(), what=service.processes)
    client()
    wait_for(service.is_reachable)

    answer = service.post("x", authorization=f"Bearer {keys[0]}")
    assert (answer.status, answer.json) == (200, "x")
    assert service.post("x", authorization=f"Bearer {keys[1]}").status == 200
    assert service.post("x", authorization="Bearer other").status == 401
    assert client().webservices.keys(WORKSPACE, "back") == keys
    wait_for(lambda: service.record.state == "Healthy", what=lambda: service.tell(service.record))
    after = service.record
    assert (after.id, after.scoring_uri, after.current) == (before.id, before.scoring_uri, {"": 1})
    service.end()
    close_clients()
