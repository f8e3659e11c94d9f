"""Requests that wait together are answered together, and each client gets its own row."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.serving.deployments import Deployed, RunningGateway
from tests.serving.load import kill
from tests.waiting import wait_for

# "hold" keeps the worker busy until there is a file, so that others gather behind it.
BATCHED = """
    import os, time
    from runyard import serving

    def init(): pass

    @serving.batched(max_batch=32{more})
    def run(items):
        while "hold" in items and not os.path.exists("gate"):
            time.sleep(0.01)
        if len(items) > 1 and "bad" in items:
            raise ValueError("a bad row")
        if items == ["bad"]:
            raise KeyError("bad")
        return [[item, len(items)] for item in items]
"""


def ask_together(service: Deployed, bodies: list[str]) -> list[tuple[int, object]]:
    """Send all while the worker is held, so that they wait together; return their statuses and answers."""
    with ThreadPoolExecutor(len(bodies) + 1) as pool:
        held = pool.submit(service.post, "hold")
        wait_for(lambda: service.state()["revisions"][0]["busy"])
        asked = [pool.submit(service.post, body) for body in bodies]
        wait_for(lambda: service.state()["revisions"][0]["queue"] == len(bodies))
        (service.app_root / "gate").touch()
        assert held.result().json == ["hold", 1]
        return [(one.result().status, one.result().json) for one in asked]


def test_each_client_gets_its_own_row_of_a_batch(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, BATCHED.format(more=""))

    answers = ask_together(service, [str(number) for number in range(64)])

    assert [one[1][0] for one in answers] == [str(number) for number in range(64)]  # type: ignore[index]
    assert Counter(one[1][1] for one in answers) == {32: 64}  # type: ignore[index]
    assert service.post("alone").json == ["alone", 1]


def test_a_bad_row_fails_alone(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, BATCHED.format(more=""))

    answers = ask_together(service, ["a", "bad", "b", "c"])

    assert [status for status, _ in answers] == [200, 502, 200, 200]
    assert [answers[at][1] for at in (0, 2, 3)] == [["a", 1], ["b", 1], ["c", 1]]
    assert "KeyError: 'bad'" in service.log()


def test_a_number_that_is_none_fails_alone_as_the_clients_fault(gateway: RunningGateway, tmp_path: Path) -> None:
    script = """
        import os, time
        from typing import List
        from runyard import serving
        class Adds(serving.Scorer):
            @serving.batched(max_batch=32)
            def predict(self, numbers: List[int]) -> List[int]:
                while 0 in numbers and not os.path.exists("gate"):
                    time.sleep(0.01)
                return [one + 1 for one in numbers]
    """
    service = gateway.deploy(tmp_path, script)

    with ThreadPoolExecutor(6) as pool:
        held = pool.submit(service.post, "0")
        wait_for(lambda: service.state()["revisions"][0]["busy"])
        asked = [pool.submit(service.post, body) for body in ("1", "Infinity", "NaN", "1.5", "2")]
        wait_for(lambda: service.state()["revisions"][0]["queue"] == 5)
        (service.app_root / "gate").touch()
        assert held.result().json == 1
        answers = [one.result() for one in asked]

    assert [one.status for one in answers] == [200, 400, 400, 400, 200]
    assert [answers[at].json for at in (0, 4)] == [2, 3] and "whole number" in answers[1].json["message"]


def test_a_free_worker_waits_for_company_only_when_the_script_says_so(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, BATCHED.replace("32", "2").format(more=", max_wait_ms=60_000"))

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(service.post, "1")
        wait_for(lambda: service.state()["revisions"][0]["queue"] == 1)
        second = pool.submit(service.post, "2")

        assert (first.result().json, second.result().json) == (["1", 2], ["2", 2])


@pytest.mark.parametrize("returns", ["items[:1] * (len(items) + 1)", "'text'", "{}", "None"])
def test_a_batch_of_another_length_is_the_scripts_fault(gateway: RunningGateway, tmp_path: Path, returns: str) -> None:
    script = f"from runyard.serving import batched\ndef init(): pass\n@batched\ndef run(items): return {returns}"
    service = gateway.deploy(tmp_path, script)

    assert service.post("x").status == 502
    assert "A batched run() " in service.log()


def test_a_killed_worker_fails_its_whole_batch_and_no_more(gateway: RunningGateway, tmp_path: Path) -> None:
    script = """
        import os, time
        from runyard import serving
        def init(): pass
        @serving.batched(max_batch=2)
        def run(items):
            open(f"begun-{len(items)}", "w").close()
            while not os.path.exists(f"gate-{len(items)}"):
                time.sleep(0.01)
            return items
    """
    service = gateway.deploy(tmp_path, script)
    (worker,) = service.workers()

    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(service.post, "first")
        wait_for(lambda: service.state()["revisions"][0]["busy"])
        asked = [pool.submit(service.post, "x") for _ in range(4)]
        wait_for(lambda: service.state()["revisions"][0]["queue"] == 4)
        (service.app_root / "gate-1").touch()
        wait_for((service.app_root / "begun-2").exists)
        kill(worker["pid"])
        (service.app_root / "gate-2").touch()

        assert first.result().status == 200
        assert Counter(one.result().status for one in asked) == {502: 2, 200: 2}


def test_unbatched_requests_share_frames_and_keep_their_answers(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, "def init(): pass\ndef run(d): return d + '!'")

    with ThreadPoolExecutor(32) as pool:
        bodies = [str(number) for number in range(2000)]
        answers = list(pool.map(lambda body: service.post(body).json, bodies))

    assert answers == [f"{body}!" for body in bodies]
