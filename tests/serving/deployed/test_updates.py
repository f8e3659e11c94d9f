"""Updates, overwrites, shares and deletes of services through the server's routes, while requests go on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from azureml.core import Model, Workspace
from runyard.core.errors import Conflict, InvalidArgument
from runyard.core.webservices import NewService, ServiceChange, ServiceSettings
from tests.serving.deployed.live import WORKSPACE, LiveService, client
from tests.serving.load import steady_load
from tests.waiting import wait_for

pytestmark = [pytest.mark.usefixtures("served_home"), pytest.mark.long]

ANSWERS = "def init(): pass\ndef run(d): return {}\n"
OF_A_MODEL = """
    import os
    def init():
        global number
        with open(os.path.join(os.environ["AZUREML_MODEL_DIR"], "number.txt")) as file:
            number = int(file.read())
    def run(d):
        return number
"""
HOLDS = """
    import os, time
    def init(): pass
    def run(path):
        open(path + ".begun", "w").close()
        while path and not os.path.exists(path):
            time.sleep(0.01)
        return "done"
"""


@pytest.fixture
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LiveService]:
    found = LiveService(request.node.name.replace("_", "-")[5:30].strip("-"), tmp_path / "source")
    yield found
    found.end()


def test_another_model_takes_over_under_load(service: LiveService, tmp_path: Path) -> None:
    path = tmp_path / "number.txt"
    for number in (1, 2):
        path.write_text(str(number))
        Model.register(Workspace.from_config(), model_path=str(path), model_name="numbers")
    service.deploy(service.spec(OF_A_MODEL, models=["numbers:1"]))

    with steady_load(service) as load:
        load.wait_for_more(50)
        changed = service.change(OF_A_MODEL, models=["numbers:2"])
        shown = time.monotonic()
        load.wait_for_more(50)

    assert (changed.state, changed.current) == ("Healthy", {"": 2})
    assert load.failed() == []
    first_new = min(one.ended for one in load.sent if one.body == b"2")
    assert {one.body for one in load.sent if one.ended < first_new} == {b"1"}
    assert {one.body for one in load.sent if one.started > min(first_new, shown)} == {b"2"}


def test_a_broken_update_changes_no_answer(service: LiveService) -> None:
    service.deploy(service.spec(ANSWERS.format(1)))

    with steady_load(service) as load:
        changed = service.change("import no_such_module_here\ndef init(): pass\ndef run(d): return 2\n")
        load.wait_for_more(50)

    assert changed.operation is not None and changed.error is not None
    assert (changed.state, changed.operation.state, changed.current) == ("Healthy", "Failed", {"": 1})
    assert "No module named 'no_such_module_here'" in changed.error["message"]
    assert load.failed() == [] and {one.body for one in load.sent} == {b"1"}
    assert service.change(ANSWERS.format(3)).error is None
    assert service.post().json == 3
    calls = client().webservices
    calls.rollback(WORKSPACE, service.name)
    assert service.settled().current == {"": 1}
    assert service.post().json == 1


def test_a_model_that_is_not_there_is_named(service: LiveService) -> None:
    service.submit(service.spec(ANSWERS, models=["gone:7"]))
    settled = service.settled()

    assert settled.state == "Failed"
    assert settled.error is not None
    assert "`gone:7`" in settled.error["message"]


def test_a_second_change_waits_for_the_first(service: LiveService) -> None:
    service.deploy(service.spec(ANSWERS.format(1)))
    calls = client().webservices
    slow = service.spec("import time\ndef init(): time.sleep(2)\ndef run(d): return 2\n")
    calls.change(WORKSPACE, service.name, ServiceChange(revision=slow))

    with pytest.raises(Conflict, match="is being changed"):
        calls.change(WORKSPACE, service.name, ServiceChange(revision=slow))
    with pytest.raises(Conflict, match="is being changed"):
        calls.deploy(WORKSPACE, service.name, NewService(ServiceSettings(compute_type="Local"), slow, overwrite=True))
    with pytest.raises(Conflict, match="already") as refused:
        calls.deploy(WORKSPACE, service.name, NewService(ServiceSettings(compute_type="Local"), slow))

    assert "overwrite=True" in str(refused.value)
    assert service.settled().current == {"": 2}
    wait_for(lambda: service.post().json == 2)


def test_versions_share_the_requests(service: LiveService) -> None:
    service.deploy(service.spec(ANSWERS.format(0), label="first"), compute_type="AKSENDPOINT", auth=False)
    calls = client().webservices
    for label, answer, share in (("second", 1, 40.0), ("third", 2, 10.0)):
        spec = service.spec(ANSWERS.format(answer), label=label)
        calls.change(WORKSPACE, service.name, ServiceChange(revision=spec, shares={label: share}))
        assert service.settled().state == "Healthy"
    with pytest.raises(InvalidArgument, match="100 at most"):
        calls.change(WORKSPACE, service.name, ServiceChange(shares={"third": 61.0}))
    with pytest.raises(InvalidArgument, match="is the default one"):
        calls.change(WORKSPACE, service.name, ServiceChange(drop="first"))

    with ThreadPoolExecutor(8) as pool:
        seen = Counter(pool.map(lambda _: service.post().json, range(2000)))
    shares = {number: seen[number] / 2000 for number in range(3)}
    assert shares == pytest.approx({0: 0.5, 1: 0.4, 2: 0.1}, abs=0.05)  # more than four standard deviations

    calls.change(WORKSPACE, service.name, ServiceChange(drop="second"))
    wait_for(lambda: not any(one["number"] == 2 and one["weight"] for one in service.live()["revisions"]))
    assert {service.post().json for _ in range(100)} == {0, 2}


def test_a_delete_lets_requests_under_way_end(service: LiveService, tmp_path: Path) -> None:
    service.deploy(service.spec(HOLDS))
    gate = tmp_path / "gate"

    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(service.post, str(gate)) for _ in range(3)]
        wait_for((tmp_path / "gate.begun").exists)
        wait_for(lambda: service.live()["revisions"][0]["in_flight"] == 3)
        service.delete()
        late = service.post(str(gate))
        gate.touch()

        assert [one.result().json for one in asked] == ["done"] * 3
    assert late.status == 404
    service.delete()  # twice is fine
    wait_for(lambda: not service.processes(), what=service.processes)
