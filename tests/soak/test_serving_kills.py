"""Twenty kills of each piece of the serving path under load.

RUNYARD_SOAK_KILLS=5 python -m pytest -m soak tests/soak/test_serving_kills.py -s
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.yard import say
from tests.serving.deployed.kills import PIECES, SCRIPT, check, kill_under_load
from tests.serving.deployed.live import LiveService, close_clients, gateway_processes
from tests.waiting import wait_for

KILLS = int(os.environ.get("RUNYARD_SOAK_KILLS", "20"))  # before the fixtures take our variables away

pytestmark = pytest.mark.soak


@pytest.fixture
def service(home: Path, tmp_path: Path) -> Iterator[LiveService]:
    found = LiveService("killed", tmp_path / "killed")
    found.deploy(found.spec(SCRIPT, workers=2))
    yield found
    found.end()
    wait_for(lambda: not gateway_processes(), what=gateway_processes)
    close_clients()


def test_a_service_survives_the_death_of_each_of_its_pieces(service: LiveService) -> None:
    series = []
    for piece in PIECES:
        killed = kill_under_load(service, piece, KILLS)
        say(killed.tell())
        series.append(killed)

    for killed in series:
        check(killed)
    assert service.settled().state == "Healthy"
