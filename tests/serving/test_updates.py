"""Revisions: the switch under load, a broken one, shares, deletion; and a gateway that goes on after a restart."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from runyard.core.errors import Conflict, InvalidArgument, ServerUnreachable
from runyard.serving.config import RevisionConfig, ServiceConfig
from runyard.serving.tokens import digest_of
from tests.mlflow.servers import free_port
from tests.serving.deployments import RunningGateway, send
from tests.serving.load import steady_load
from tests.waiting import wait_for

ANSWERS = "def init(): pass\ndef run(d): return {}"


def test_an_update_loses_no_request_and_mixes_no_answers(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, ANSWERS.format(1))
    switches: dict[int, tuple[float, float]] = {}

    with steady_load(service) as load:
        for number in (2, 3):
            service.add_revision(number, ANSWERS.format(number))
            gateway.wait_ready(service, number=number)
            load.wait_for_more(20)
            before = time.monotonic()
            service.switch(number)
            switches[number] = (before, time.monotonic())
            load.wait_for_more(20)
            service.keep_only(number)
            load.wait_for_more(20)

    assert load.failed() == []
    for number, (before, after) in switches.items():
        assert {int(one.body) >= number for one in load.sent if one.started > after} == {True}
        assert {int(one.body) < number for one in load.sent if one.ended < before} == {True}
    for old in service.replicas[:2]:
        assert old.process.wait(30) == 0


def test_after_the_switch_every_new_request_gets_the_new_revision(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, ANSWERS.format(1))
    service.add_revision(2, ANSWERS.format(2))
    gateway.wait_ready(service, number=2)

    assert {service.post("").json for _ in range(20)} == {1}
    service.switch(2)
    assert {service.post("").json for _ in range(20)} == {2}
    service.switch(1)  # a rollback is the same switch
    assert {service.post("").json for _ in range(20)} == {1}


def test_a_request_under_way_at_the_switch_is_answered_by_the_old_revision(
    gateway: RunningGateway, tmp_path: Path
) -> None:
    script = """
        import os, time
        def init(): pass
        def run(d):
            open(d + ".begun", "w").close()
            while not os.path.exists(d):
                time.sleep(0.01)
            return 1
    """
    service = gateway.deploy(tmp_path, script)
    service.add_revision(2, ANSWERS.format(2))
    gateway.wait_ready(service, number=2)
    gate = tmp_path / "gate"

    with ThreadPoolExecutor(2) as pool:
        held = pool.submit(service.post, str(gate))
        wait_for((tmp_path / "gate.begun").exists)
        service.switch(2)
        assert {service.post("").json for _ in range(10)} == {2}
        service.keep_only(2)
        assert not held.done()
        gate.touch()
        assert (held.result().status, held.result().json) == (200, 1)
    assert service.replicas[0].process.wait(30) == 0


def test_a_broken_revision_leaves_the_old_one_answering(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, ANSWERS.format(1))

    replica = service.add_revision(2, "import no_such_module_here\ndef init(): pass\ndef run(d): return 2")

    def failure() -> str:
        (found,) = [one["failure"] for one in service.state()["revisions"] if one["number"] == 2]
        return str(found)

    wait_for(failure, what=replica.text)
    assert "No module named 'no_such_module_here'" in failure()
    assert service.post("").json == 1
    assert service.get("/").body == b"Healthy"


def test_requests_that_wait_for_an_old_revision_go_to_the_new_one(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, ANSWERS.format(1))
    service.replicas[0].stop()
    wait_for(lambda: not service.workers())
    answers: list[object] = []
    waiting = threading.Thread(target=lambda: answers.append(service.post("").json))
    waiting.start()
    wait_for(lambda: service.state()["revisions"][0]["queue"] == 1)

    service.add_revision(2, ANSWERS.format(2))
    gateway.wait_ready(service, number=2)
    service.switch(2)
    waiting.join(30)

    assert answers == [2]


def test_a_request_waits_for_the_first_worker(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, ANSWERS.format(5), wait=False)

    assert service.post("").json == 5


@pytest.mark.long
def test_weights_share_the_requests(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, ANSWERS.format(1))
    for number in (2, 3):
        service.add_revision(number, ANSWERS.format(number))
        gateway.wait_ready(service, number=number)

    service.put(weights=((1, 50.0), (2, 40.0), (3, 10.0)))
    count = 10_000
    seen: Counter[int] = Counter()
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    for _ in range(count):
        connection.request("POST", f"{service.path}/score", b"")
        seen[int(connection.getresponse().read())] += 1
    connection.close()

    assert {number: round(seen[number] / count, 4) for number in (1, 2, 3)} == pytest.approx(
        {1: 0.5, 2: 0.4, 3: 0.1}, abs=0.02
    )


def test_records_that_cannot_be_served_are_refused(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, ANSWERS.format(1))

    for changes, why in (
        ({"weights": ((9, 1.0),)}, "do not fit the revisions"),
        ({"auth": True}, "neither keys nor a secret"),
        ({"auth": True, "keys": ("the key itself",)}, "SHA-256"),
        ({"revisions": (RevisionConfig(1), RevisionConfig(1))}, "twice"),
    ):
        with gateway.control() as control, pytest.raises(InvalidArgument) as refused:
            control.put(replace(service.config, **changes))  # type: ignore[arg-type]  # each is one field
        assert why in str(refused.value)
    assert service.post("").json == 1


def test_a_deleted_service_answers_what_is_under_way(gateway: RunningGateway, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    service = gateway.deploy(
        tmp_path,
        f"""
        import os, time
        def init(): pass
        def run(d):
            while d == "wait" and not os.path.exists({str(gate)!r}):
                time.sleep(0.01)
            return d
        """,
    )
    answers: list[tuple[int, object]] = []

    def ask() -> None:
        answer = service.post("wait")
        answers.append((answer.status, answer.json))

    asking = [threading.Thread(target=ask) for _ in range(3)]  # one is computed, two wait in the queue
    for one in asking:
        one.start()
    wait_for(lambda: service.state()["revisions"][0]["in_flight"] == 3)

    with gateway.control() as control:
        assert control.delete(service.config.name)
        assert service.post("late").status == 404
        gate.touch()
        for one in asking:
            one.join(30)
        assert not control.delete(service.config.name), "twice is fine"

    assert answers == [(200, "wait")] * 3
    assert service.replicas[0].process.wait(30) == 0


def test_a_service_with_a_port_of_its_own(gateway: RunningGateway, tmp_path: Path) -> None:
    port = free_port()
    service = gateway.deploy(tmp_path, "def init(): pass\ndef run(d): return d", port=port)

    assert send(port, "POST", "/score", "x").json == "x"
    assert send(port, "GET", "/").body == b"Healthy"
    assert send(port, "GET", "/swagger.json").json["swagger"] == "2.0"
    with gateway.control() as control:
        control.delete(service.config.name)
    with pytest.raises(ConnectionRefusedError):
        send(port, "POST", "/score", "x")


def test_a_new_gateway_goes_on_with_services_keys_and_workers(tmp_path: Path) -> None:
    folder = tmp_path / "g"
    first = RunningGateway(folder)
    service = first.deploy(tmp_path, ANSWERS.format(7), auth=True, keys=(digest_of("mine"),))
    (worker,) = service.workers()
    first.process.terminate()
    assert first.process.wait(60) == 0
    with pytest.raises(ServerUnreachable), first.control() as control:
        control.hello()

    second = RunningGateway(folder, "--port", str(first.port))
    service.gateway = second
    second.deployed = first.deployed
    try:
        wait_for(lambda: second.state()[service.config.name]["revisions"][0]["workers"])

        assert service.post("", authorization="Bearer mine").json == 7
        assert service.post("", authorization="Bearer other").status == 401
        assert service.workers()[0]["pid"] == worker["pid"], "the worker dialled again, and did not load anew"
        assert (folder / "state.json").stat().st_mode & 0o777 == 0o600
        assert "mine" not in (folder / "state.json").read_text()
    finally:
        second.close()


def test_a_folder_has_one_gateway(gateway: RunningGateway) -> None:
    with pytest.raises(AssertionError, match=r"A gateway has .* already") as refused:
        RunningGateway(gateway.folder)

    assert Conflict.__name__ not in str(refused.value), "no traceback"
    with gateway.control() as control:
        assert control.hello()["pid"] > 0


def test_a_record_survives_its_way_through_json() -> None:
    revisions = (RevisionConfig(1, "1" * 64), RevisionConfig(2, "2" * 64))
    config = ServiceConfig("a", "id", True, ("0" * 64,), "s", revisions, ((1, 0.5), (2, 0.5)), 80, ("*",))

    assert ServiceConfig.from_plain({**config.to_plain(), "of_a_newer_peer": 1}) == config
