"""A piece of the serving path is killed under load: few or no requests fail, and nothing of it stays."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.core.config.runtime_folder import runtime_folder
from tests.serving.deployed.kills import PIECES, SCRIPT, check, kill_under_load
from tests.serving.deployed.live import LiveService, gateway_processes
from tests.waiting import wait_for

pytestmark = pytest.mark.external


@pytest.fixture(scope="module")
def service(served_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    found = LiveService("killed", tmp_path_factory.mktemp("killed"))
    found.deploy(found.spec(SCRIPT, workers=2))
    yield found
    found.end()


@pytest.mark.parametrize("piece", PIECES)
def test_only_requests_at_the_killed_piece_fail(service: LiveService, piece: str) -> None:
    killed = kill_under_load(service, piece, 2)

    print(killed.tell())
    check(killed)
    assert service.settled().state == "Healthy"


def test_nothing_is_left_behind(service: LiveService, served_home: Path) -> None:
    assert is_listening(service.port)
    assert service.processes() and gateway_processes()

    service.delete()

    wait_for(lambda: not service.processes(), what=service.processes)
    wait_for(lambda: not gateway_processes(), what=gateway_processes)
    wait_for(lambda: not is_listening(service.port), what="its port is free")
    assert list((runtime_folder(served_home) / "g").glob("*")) == []
    service.delete()  # twice is fine


def is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True
