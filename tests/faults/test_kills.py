"""R1, R2, R3 (tests/faults/README.md): nothing acknowledged is lost or doubled, whatever is killed."""

from __future__ import annotations

import struct
import threading
from pathlib import Path

import pytest

from azureml.core import Experiment, Run
from tests.faults.yard import LEDGER, Yard, open_yard, say

COUNTER = (
    LEDGER
    + """
import time
from azureml.core import Run
run, points, pause = Run.get_context(), int(sys.argv[2]), float(sys.argv[3])
for n in range(points):
    run.log("n", n)
    returned(n + 1)
    if n % 100 == 99:
        time.sleep(pause)
"""
)


def count_up(yard: Yard, *, writers: int, points: int, seconds: float) -> list[tuple[Run, Path]]:
    project = yard.project("counter", COUNTER)
    pause = seconds / (points / 100)
    ledgers = [yard.folder / f"ledger-{n}" for n in range(writers)]
    return [(yard.submit(project, str(ledger), points, pause), ledger) for ledger in ledgers]


def returned(ledger: Path) -> int:
    data = ledger.read_bytes() if ledger.exists() else b""
    return struct.unpack("<q", data)[0] if len(data) == 8 else 0


def all_end(runs: list[Run]) -> None:
    for run in runs:
        run.wait_for_completion(raise_on_error=False)


def lose_nothing(folder: Path, *, writers: int, points: int, kills: int, seconds: float, seed: int) -> dict[str, int]:
    """R1: kill server and supervisors while `writers` scripts log; return what was lost and doubled."""
    with open_yard(folder, seed=seed) as yard:
        started = count_up(yard, writers=writers, points=points, seconds=seconds)
        enders = threading.Thread(target=all_end, args=([run for run, _ in started],))
        enders.start()
        plan = {"server": kills // 2, "supervisor": kills - kills // 2}
        yard.kill_at_random(plan, gap_s=(0.02, seconds / max(kills, 1)), going=enders.is_alive)
        enders.join()
        lost = doubled = 0
        for run, _ in started:
            values = run.get_metrics().get("n", [])
            lost += len(set(range(points)) - set(values))
            doubled += len(values) - len(set(values))
            assert values == sorted(values)
            assert run.get_status() == "Completed"
        figures = {"points": writers * points, "lost": lost, "doubled": doubled, **yard.kills}
    say(f"R1 {figures}")
    return figures


@pytest.mark.external
def test_r1_no_point_is_lost_or_doubled_when_server_and_supervisors_are_killed(tmp_path: Path) -> None:
    figures = lose_nothing(tmp_path, writers=10, points=5000, kills=14, seconds=8, seed=1)

    assert (figures["lost"], figures["doubled"]) == (0, 0)
    assert figures["server"] + figures["supervisor"] == 14


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_r1_in_full(tmp_path: Path) -> None:
    figures = lose_nothing(tmp_path, writers=20, points=50_000, kills=200, seconds=240, seed=2)

    assert (figures["lost"], figures["doubled"]) == (0, 0)
    assert figures["server"] + figures["supervisor"] == 200


def kill_scripts(folder: Path, *, writers: int, points: int, seconds: float, seed: int) -> dict[str, int]:
    """R2: kill the scripts themselves; every point whose log() returned must be there."""
    with open_yard(folder, seed=seed) as yard:
        started = count_up(yard, writers=writers, points=points, seconds=seconds)
        enders = threading.Thread(target=all_end, args=([run for run, _ in started],))
        enders.start()
        yard.kill_at_random({"rank": writers}, gap_s=(0.01, seconds / writers), going=enders.is_alive)
        enders.join()
        lost = doubled = 0
        for run, ledger in started:
            values = run.get_metrics().get("n", [])
            values = values if isinstance(values, list) else [values]
            lost += max(0, returned(ledger) - len(values))
            doubled += len(values) - len(set(values))
            assert values == list(range(len(values)))
        figures = {"lost": lost, "doubled": doubled, **yard.kills}
    say(f"R2 {figures}")
    return figures


@pytest.mark.long
def test_r2_no_returned_point_is_lost_when_scripts_are_killed(tmp_path: Path) -> None:
    figures = kill_scripts(tmp_path, writers=10, points=20_000, seconds=8, seed=3)

    assert (figures["lost"], figures["doubled"]) == (0, 0)
    assert figures["rank"] >= 5


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_r2_in_full(tmp_path: Path) -> None:
    figures = kill_scripts(tmp_path, writers=50, points=100_000, seconds=60, seed=4)

    assert (figures["lost"], figures["doubled"]) == (0, 0)
    assert figures["rank"] >= 40


def submit_through_kills(folder: Path, *, submits: int, kills: int, seed: int) -> dict[str, int]:
    """R3: submit while the server is killed; each acknowledged run exists exactly once."""
    import os
    from concurrent.futures import ThreadPoolExecutor

    with open_yard(folder, seed=seed) as yard:
        os.environ["RUNYARD_LOCAL_RUNS"] = "2"
        project = yard.project("quick", "pass")
        done = threading.Event()
        killer = threading.Thread(
            target=yard.kill_at_random,
            args=({"server": kills},),
            kwargs={"gap_s": (0.1, 1.0), "going": lambda: not done.is_set()},
        )
        killer.start()
        with ThreadPoolExecutor(8) as pool:
            acked = [run.id for run in pool.map(lambda _: yard.submit(project), range(submits))]
        done.set()
        killer.join()
        [experiment] = Experiment.list(yard.workspace, experiment_name="faults")
        stored = [run.id for run in Run.list(experiment)]
        figures = {
            "acked": len(acked),
            "lost": len(set(acked) - set(stored)),
            "extra": len(stored) - len(set(acked)),
            **yard.kills,
        }
    say(f"R3 {figures}")
    return figures


@pytest.mark.long
def test_r3_no_acknowledged_submit_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    figures = submit_through_kills(tmp_path, submits=150, kills=5, seed=5)

    assert (figures["lost"], figures["extra"]) == (0, 0)
    assert figures["server"] >= 1


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_r3_in_full(tmp_path: Path) -> None:
    figures = submit_through_kills(tmp_path, submits=1000, kills=20, seed=6)

    assert (figures["lost"], figures["extra"]) == (0, 0)
    assert figures["server"] >= 10
