"""What replicas do, as runs of a server: hang, grow, print, scale, and run in other interpreters."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runyard.core.specs import EnvironmentSpec
from runyard.core.webservices import Scaling
from tests.interpreters import pythons
from tests.serving.deployed.live import WORKSPACE, LiveService, client
from tests.waiting import wait_for

pytestmark = [pytest.mark.usefixtures("served_home"), pytest.mark.long]

PLAIN = """
    import sys
    def init():
        pass
    def run(d):
        return [list(sys.version_info[:2]), "numpy" in sys.modules, d]
"""
HOLDS = """
    import os, time
    def init(): pass
    def run(path):
        while not os.path.exists(path):
            time.sleep(0.01)
        return os.getpid()
"""


@pytest.fixture
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LiveService]:
    found = LiveService(request.node.name.replace("_", "-")[5:30].strip("-").split("[")[0], tmp_path / "source")
    yield found
    found.end()


@pytest.mark.parametrize(("kind", "status"), [("Local", 500), ("ACI", 504)])
def test_a_call_that_never_ends_costs_one_request(service: LiveService, kind: str, status: int) -> None:
    script = "import time\ndef init(): pass\ndef run(d):\n    while d == 'hang': time.sleep(0.01)\n    return d\n"
    service.deploy(service.spec(script, workers=2, scoring_timeout_ms=500), compute_type=kind)
    wait_for(lambda: len(service.workers()) == 2)
    before = {one["pid"] for one in service.workers()}

    with ThreadPoolExecutor(9) as pool:
        hung = pool.submit(service.post, "hang")
        others = [pool.submit(service.post, "x") for _ in range(8)]

        assert [one.result().status for one in others] == [200] * 8
        assert hung.result().status == status
    wait_for(lambda: len({one["pid"] for one in service.workers()} - before) == 1)
    wait_for(lambda: "run() took longer than 500 ms" in service.log())


def test_a_worker_over_the_memory_limit_is_replaced(service: LiveService) -> None:
    script = "kept = []\ndef init(): pass\ndef run(d):\n    kept.append(b'x' * (int(d) << 20))\n    return len(kept)\n"
    service.deploy(service.spec(script, memory_limit_mb=200))
    (worker,) = service.workers()

    assert service.post("300").status in (200, 500)  # it may be killed before it has answered
    wait_for(lambda: service.workers() and service.workers()[0]["pid"] != worker["pid"])

    wait_for(lambda: "the service's memory limit is 200 MB (memory_gb)" in service.log())
    assert service.post("1").json == 1


def test_ten_megabytes_of_output_are_in_the_log(service: LiveService) -> None:
    script = """
        import logging
        def init(): pass
        def run(d):
            for number in range(100_000):
                print(f"{number:06d} " + "x" * 93)
            logging.getLogger("mine").warning("of logging")
            return "done"
    """
    service.deploy(service.spec(script))

    assert service.post("").json == "done"

    wait_for(lambda: "of logging" in service.log(), what="the end of the log")
    lines = [line for line in service.log().splitlines() if line.endswith("x" * 93)]
    assert [int(line[:6]) for line in lines] == list(range(100_000))


def test_a_script_that_prints_waits_for_no_reader_of_its_log(service: LiveService) -> None:
    """The supervisor, which ships the log, is stopped: 10 MB are printed and the request is answered meanwhile."""
    script = (
        "import sys\ndef init(): pass\ndef run(d):\n    sys.stdout.write('y' * int(d) + '\\n')\n    return 'done'\n"
    )
    service.deploy(service.spec(script))
    (supervisor,) = service.supervisors()
    os.kill(supervisor, signal.SIGSTOP)
    try:
        answers = [service.post(str(10_000_000)).json, service.post("1").json]
    finally:
        os.kill(supervisor, signal.SIGCONT)

    assert answers == ["done", "done"]
    wait_for(lambda: service.log().endswith("y" * 10_000_000 + "\ny\n"), what="what was printed, once it is read again")


@pytest.mark.parametrize("version", pythons())
def test_a_script_in_another_python(service: LiveService, version: str) -> None:
    environment = EnvironmentSpec(interpreter=pythons()[version])
    service.deploy(service.spec(PLAIN, environment=environment))

    answer = service.post('{"a": 1}')

    assert answer.json == [[int(part) for part in version.split(".")], False, '{"a": 1}']


def test_replicas_follow_the_load(service: LiveService, tmp_path: Path) -> None:
    scaling = Scaling(is_on=True, min_replicas=1, max_replicas=3)
    service.deploy(service.spec(HOLDS, scaling=scaling))
    gate = tmp_path / "gate"

    with ThreadPoolExecutor(12) as pool:
        asked = [pool.submit(service.post, str(gate)) for _ in range(12)]
        wait_for(lambda: len(service.workers()) == 3, what=service.live)
        wait_for(lambda: all(one["busy"] for one in service.workers()), what=service.live)
        gate.touch()
        answers = [one.result() for one in asked]

    assert {one.status for one in answers} == {200}
    assert len({one.json for one in answers}) == 3
    assert len(service.record.revisions[0].replicas) == 3


def test_replicas_go_with_the_load_and_one_comes_for_a_request(service: LiveService, tmp_path: Path) -> None:
    scaling = Scaling(
        is_on=True, min_replicas=0, max_replicas=2, target_utilization=100.0, down_after_s=0.5, idle_s=3.0
    )
    service.deploy(service.spec(HOLDS, scaling=scaling))
    first = service.workers()[0]["pid"]
    gate = tmp_path / "gate"

    with ThreadPoolExecutor(5) as pool:
        asked = [pool.submit(service.post, str(gate)) for _ in range(4)]
        wait_for(lambda: len(service.workers()) == 2, what=service.live)
        gate.touch()
        assert {one.result().status for one in asked} == {200}
    wait_for(lambda: not service.processes(), what=service.processes)
    runs = [client().runs.get(f"{service.record.run_id}_{number}") for number in (1, 2)]
    wait_for(lambda: all(client().runs.get(one.id).ended_at for one in runs))
    one, two = (client().runs.get(run.id).ended_at for run in runs)
    assert one is not None and two is not None and two < one, "the surplus first, the last one when nothing is asked"
    assert (service.record.state, service.workers()) == ("Healthy", [])

    answer = service.post(str(gate))  # which waits for a start

    assert answer.status == 200 and answer.json != first
    assert service.record.last_replica == 3


def test_a_script_finds_no_token_of_the_server(service: LiveService) -> None:
    script = "import json, os\ndef init(): pass\ndef run(d): return dict(os.environ)\n"
    service.deploy(service.spec(script, variables={"MINE": "1"}), auth=True)
    token = client().address.token
    keys = client().webservices.keys(WORKSPACE, service.name)

    found = service.post("", authorization=f"Bearer {keys[0]}").json

    assert found["MINE"] == "1" and found["SERVICE_NAME"] == service.name
    said = json.dumps(found)
    assert not any(one and one in said for one in (token, *keys))
    assert "RUNYARD_SERVING_TOKEN" not in found
    # The server's own token opens no service, and a service's key nothing of the server.
    assert token and service.post("", authorization=f"Bearer {token}").status == 401
    assert service.post("", authorization=f"Bearer {keys[1]}").status == 200


def test_rows_of_the_service_run_add_up(service: LiveService) -> None:
    service.deploy(service.spec("def init(): pass\ndef run(d): return 1 / len(d)\n"))
    began = time.time()
    for body in ["x"] * 30 + [""] * 3:
        service.post(body)

    calls, run_id = client().runs, service.record.run_id

    def values(name: str) -> list[float]:
        found = [one for one in calls.metric_values(run_id, name) if one.metric == name]
        return [float(value) for one in found for value in one.values]

    wait_for(lambda: sum(values("requests")) >= 33, what=lambda: values("requests"))

    assert sum(values("requests")) == 33
    assert sum(values("errors_5xx")) == 3 and sum(values("errors_4xx")) == 0
    pairs = zip(values("p50_ms"), values("p95_ms"), values("p99_ms"), values("max_ms"))
    assert all(low <= middle <= high <= most for low, middle, high, most in pairs)
    assert 0 < max(values("max_ms")) <= (time.time() - began) * 1e3
