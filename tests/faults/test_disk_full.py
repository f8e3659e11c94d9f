"""R22: the disk fills up under a live run and is freed again; everything arrives without a restart."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.yard import Yard, open_yard

LOGGING = """
import os, sys, time
from azureml.core import Run
run = Run.get_context()
n = 0
while not os.path.exists(sys.argv[1]):
    run.log("n", n)
    n += 1
    time.sleep(0.001)
run.log("total", n)
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48m", "none", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode:
        pytest.skip("needs root to mount a small disk; tests/store and tests/runtime try the same without")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_r22_a_full_disk_stops_nothing_and_all_arrives_when_it_is_freed(small_disk: Path) -> None:
    with open_yard(small_disk, seed=21) as yard:
        stop = small_disk.parent / "stop"
        run = yard.submit(yard.project("logging", LOGGING), str(stop))
        wait_for_points(yard, run, more_than=100)
        filler = small_disk / "filler"
        fill(filler)
        time.sleep(3)  # the fault itself: the disk stays full while the script goes on
        status_when_full = process_is_alive(yard)
        filler.unlink()
        stop.touch()
        details = run.wait_for_completion(raise_on_error=False)
        metrics = run.get_metrics()

        assert status_when_full
        assert details["status"] == "Completed"
        assert metrics["n"] == list(range(metrics["total"]))


def wait_for_points(yard: Yard, run, *, more_than: int) -> None:
    deadline = time.monotonic() + 20
    while len(run.get_metrics().get("n", [])) <= more_than:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def fill(path: Path) -> None:
    with open(path, "wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def process_is_alive(yard: Yard) -> bool:
    return bool(yard.rank_pids())
