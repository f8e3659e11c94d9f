"""Scripts that do not load, workers that die, hang or grow, and more clients than there is room for."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runyard.serving.config import RevisionConfig
from tests.serving.deployments import Answer, Deployed, RunningGateway
from tests.serving.load import kill
from tests.waiting import wait_for

# Answers with its process; "hold" says that it has begun and waits for a file, which is made or not.
HOLDS = """
    import os, time
    def init(): pass
    def run(d):
        if d == "hold":
            open("begun", "w").close()
        while d == "hold" and not os.path.exists("gate"):
            time.sleep(0.01)
        return os.getpid()
"""


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("import os\ndef init(): raise RuntimeError('no model today')\ndef run(d): return d", "no model today"),
        ("import no_such_module_here\ndef init(): pass\ndef run(d): return d", "No module named 'no_such_module_here'"),
        ("import os\ndef init(): open(os.environ['AZUREML_MODEL_DIR'] + '/gone.pkl')\ndef run(d): pass", "weights.bin"),
        ("def init(): pass\ndef run(d) return d", "SyntaxError"),
        ("def init(): pass", "has no run()"),
        ("def init(): pass\ndef run(*d): pass", "*args"),
        ("raise SystemExit(0)", "SystemExit"),
    ],
    ids=["init", "module", "model file", "syntax", "no run", "arguments", "leaves"],
)
def test_a_script_that_does_not_load_says_why(gateway: RunningGateway, tmp_path: Path, script: str, cause: str) -> None:
    service = gateway.deploy(
        tmp_path,
        script,
        files={"models/weights.bin": b"1"},
        variables={"AZUREML_MODEL_DIR": "models"},
        wait=False,
    )

    wait_for(lambda: service.state()["revisions"][0]["failure"], what=service.log)

    failure = service.state()["revisions"][0]["failure"]
    assert cause in failure and "weights.bin" in failure, "the tree of the model folder is in it"
    assert cause in service.log()
    assert service.get("/").status == 503


def test_a_request_to_a_script_that_does_not_load_is_told_why(gateway: RunningGateway, tmp_path: Path) -> None:
    revision = RevisionConfig(1, cold_start_ms=10)
    service = gateway.deploy(tmp_path, "import gone_module", revision=revision, wait=False)
    wait_for(lambda: service.state()["revisions"][0]["failure"])

    answer = service.post("")

    assert (answer.status, answer.header("retry-after")) == (503, "1")
    assert "gone_module" in answer.json["message"]


@pytest.mark.long
def test_a_replica_gives_up_after_five_failed_starts(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, "import gone_module", wait=False)

    assert service.replicas[0].process.wait(60) == 3
    assert service.log().count("No module named 'gone_module'") == 5


def test_a_killed_worker_fails_its_request_alone(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, HOLDS)
    (worker,) = service.workers()
    answers: list[Answer] = []
    asking = threading.Thread(target=lambda: answers.append(service.post("hold", x_request_id="id-9")))
    asking.start()
    wait_for((service.app_root / "begun").exists)
    behind = [threading.Thread(target=lambda: answers.append(service.post("x"))) for _ in range(3)]
    for one in behind:
        one.start()
    wait_for(lambda: service.state()["revisions"][0]["in_flight"] == 4)

    kill(worker["pid"])
    for one in (asking, *behind):
        one.join(30)

    assert Counter(one.status for one in answers) == {502: 1, 200: 3}
    (failed,) = [one for one in answers if one.status == 502]
    assert "id-9" in failed.json["message"]
    assert {service.post("x").json for _ in range(100)} == {service.workers()[0]["pid"]} != {worker["pid"]}
    assert f"(process {worker['pid']}) ended; another one starts" in service.log()


def test_requests_behind_a_killed_one_in_its_frame_go_to_another_worker(
    gateway: RunningGateway, tmp_path: Path
) -> None:
    service = gateway.deploy(tmp_path, HOLDS)
    for _ in range(40):  # the gateway learns that run() is quick, and sends several in one frame
        assert service.post("x").status == 200
    (worker,) = service.workers()
    bodies = ["hold", *["x"] * 8]
    clients = [http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60) for _ in bodies]
    for client in clients:
        client.request("POST", f"{service.path}/score", "x")
        client.getresponse().read()
    with gateway.control() as control:
        control._ask("end_row", service=service.config.name, now=time.time())
    serving = gateway.serving_pid()
    os.kill(serving, signal.SIGSTOP)  # what it finds when it goes on travels together, in this order
    try:
        for client, body in zip(clients, bodies):
            client.request("POST", f"{service.path}/score", body)
    finally:
        os.kill(serving, signal.SIGCONT)
    wait_for((service.app_root / "begun").exists)
    wait_for(lambda: service.state()["revisions"][0]["in_flight"] == len(bodies))
    kill(worker["pid"])
    statuses = []
    for client in clients:
        statuses.append(client.getresponse().status)
        client.close()

    assert statuses == [502, *[200] * 8]
    with gateway.control() as control:
        control._ask("end_row", service=service.config.name, now=time.time())
        assert control.rows(service.config.name)[-1]["batch_max"] == len(bodies), "they were one frame"


@pytest.mark.parametrize("status", [500, 504])
def test_a_hung_worker_is_replaced(gateway: RunningGateway, tmp_path: Path, status: int) -> None:
    revision = RevisionConfig(1, scoring_timeout_ms=300)
    service = gateway.deploy(tmp_path, HOLDS, "--workers", "2", revision=revision, timeout_status=status)
    gateway.wait_ready(service, workers=2)
    before = {one["pid"] for one in service.workers()}

    with ThreadPoolExecutor(9) as pool:
        hung = pool.submit(service.post, "hold")
        wait_for(lambda: service.state()["revisions"][0]["busy"])
        others = [pool.submit(service.post, "x") for _ in range(8)]

        assert [one.result().status for one in others] == [200] * 8
        answer = hung.result()

    assert answer.status == status and "Scoring timeout after 300 ms" in answer.json["message"]
    wait_for(lambda: len({one["pid"] for one in service.workers()} - before) == 1)
    assert len(before & {one["pid"] for one in service.workers()}) == 1
    assert "run() took longer than 300 ms" in service.log()
    assert re.search(r'File ".*score\.py", line \d+ in run', service.log()), "where it hung is in the log"


def test_a_request_that_a_killed_worker_had_not_read_goes_to_another(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, HOLDS)
    (worker,) = service.workers()
    os.kill(worker["pid"], signal.SIGSTOP)

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(service.post, "x")
        wait_for(lambda: service.state()["revisions"][0]["busy"])
        kill(worker["pid"])

        assert asked.result().status == 200
    assert asked.result().json != worker["pid"]


def test_the_other_threads_of_a_hung_worker_finish_first(gateway: RunningGateway, tmp_path: Path) -> None:
    script = """
        import os, time
        def init(): pass
        def run(d):
            while not os.path.exists(d):
                time.sleep(0.01)
            return d
    """
    revision = RevisionConfig(1, scoring_timeout_ms=1500)
    service = gateway.deploy(tmp_path, script, "--threads", "2", revision=revision)
    (worker,) = service.workers()

    with ThreadPoolExecutor(2) as pool, gateway.control() as control:
        events = control.watch()
        began = time.monotonic()
        hung = pool.submit(service.post, "never")
        wait_for(lambda: time.monotonic() > began + 1)  # the second one must not be late when the first one is
        slow = pool.submit(service.post, "later")
        wait_for(lambda: service.state()["revisions"][0]["in_flight"] == 2)
        assert any(one["event"] == "worker_stuck" for one in events)
        (service.app_root / "later").touch()

        assert (hung.result().status, slow.result().status) == (504, 200)
    wait_for(lambda: {one["pid"] for one in service.workers()} - {worker["pid"]})
    assert service.post("later").json == "later"


@pytest.mark.long
def test_a_worker_that_grows_over_its_limit_is_replaced(gateway: RunningGateway, tmp_path: Path) -> None:
    script = "kept = []\ndef init(): pass\ndef run(d):\n    kept.append(b'x' * (int(d) << 20))\n    return len(kept)"
    service = gateway.deploy(tmp_path, script, "--memory-limit-mb", "200")
    (worker,) = service.workers()

    assert service.post("300").status in (200, 502)  # it may be killed before it has answered
    wait_for(lambda: service.workers() and service.workers()[0]["pid"] != worker["pid"])

    assert f"(process {worker['pid']}) is replaced: it uses" in service.log()
    assert "the service's memory limit is 200 MB (memory_gb)" in service.log()
    assert service.post("1").json == 1


def test_a_full_queue_answers_at_once(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, HOLDS, revision=RevisionConfig(1, max_queue=2))

    with ThreadPoolExecutor(3) as pool:
        held = [pool.submit(service.post, "hold")]
        wait_for(lambda: service.state()["revisions"][0]["busy"])
        held += [pool.submit(service.post, "hold") for _ in range(2)]
        wait_for(lambda: service.state()["revisions"][0]["queue"] == 2)
        refused = service.post("x")
        (service.app_root / "gate").touch()

        assert (refused.status, refused.header("retry-after")) == (503, "1")
        assert [one.result().status for one in held] == [200] * 3


def test_a_request_waits_no_longer_than_the_revision_says(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, HOLDS, revision=RevisionConfig(1, max_wait_ms=100))

    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(service.post, "hold")
        wait_for(lambda: service.state()["revisions"][0]["busy"])
        refused = service.post("x")
        (service.app_root / "gate").touch()

        assert (refused.status, refused.header("retry-after")) == (503, "1")
        assert "No worker was free within 100 ms" in refused.json["message"]
        assert held.result().status == 200


def test_a_client_that_leaves_is_not_computed_for(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, HOLDS.replace("return os.getpid()", "open('log', 'a').write(d)"))
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(service.post, "hold")
        wait_for(lambda: service.state()["revisions"][0]["busy"])
        with socket.create_connection(("127.0.0.1", gateway.port)) as leaving:
            head = f"POST {service.path}/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n"
            leaving.sendall(head.encode() + b"gone")
            wait_for(lambda: service.state()["revisions"][0]["queue"] == 1)
        wait_for(lambda: service.state()["revisions"][0]["queue"] == 0, timeout_s=10)
        (service.app_root / "gate").touch()
        assert held.result().status == 200
    assert service.post("x").status == 200
    assert (service.app_root / "log").read_text() == "holdx"


@pytest.mark.long
def test_a_thousand_clients_at_once(gateway: RunningGateway, tmp_path: Path) -> None:
    script = "import time\ndef init(): pass\ndef run(d):\n    time.sleep(0.005)\n    return d"
    revision = RevisionConfig(1, max_queue=200)
    service = gateway.deploy(tmp_path, script, "--workers", "2", revision=revision)
    gateway.wait_ready(service, workers=2)
    before = _memory_mb(gateway.serving_pid())
    body = "x" * 10_000
    answers: list[Answer] = []
    start = threading.Barrier(1000)

    def ask(service: Deployed) -> None:
        start.wait(60)
        answers.append(service.post(body))

    clients = [threading.Thread(target=ask, args=(service,)) for _ in range(1000)]
    for client in clients:
        client.start()
    for client in clients:
        client.join(60)

    statuses = Counter(one.status for one in answers)
    assert sum(statuses.values()) == 1000 and set(statuses) == {200, 503}, statuses
    assert all(one.header("retry-after") for one in answers if one.status == 503)
    assert all(one.json == body for one in answers if one.status == 200)
    assert statuses[200] >= 200
    assert _memory_mb(gateway.serving_pid()) - before < 200


def _memory_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4 / 1024
