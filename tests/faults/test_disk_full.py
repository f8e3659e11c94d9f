"""R22: the disk fills up under a live run and is freed again; everything arrives without a restart."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from runyard.client.private_server import connect
from runyard.core.config.settings import read_settings
from runyard.core.errors import StoreUnavailable
from tests.faults.yard import Yard, open_yard
from tests.waiting import wait_for

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


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.parametrize(("files", "size_mb"), [(1, 60), (60, 1)])
def test_m7_a_submit_that_does_not_fit_gives_its_space_back(small_disk: Path, files: int, size_mb: int) -> None:
    """What did not fit used to keep the disk full: neither a collection nor a restart freed it."""
    with open_yard(small_disk, seed=24) as yard:
        outside = small_disk.parent
        project = outside / "large"
        project.mkdir()
        (project / "train.py").write_text("print('hello')")
        small = yard.project("small", "print('hello')")
        yard.submit(small).wait_for_completion()  # the server is up and has what it needs
        for at in range(files):
            (project / f"{at}.bin").write_bytes(os.urandom(size_mb << 20))
        free = free_bytes(small_disk)
        with pytest.raises(StoreUnavailable, match=r"No space left on device|The disk is full"):
            yard.submit(project)

        assert free_bytes(small_disk) > free - (2 << 20)
        yard.submit(small).wait_for_completion(raise_on_error=True)


def free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


PRINTING = """
import os, sys, time
from azureml.core import Run
run = Run.get_context()
ready, stop, returned = sys.argv[1:]
n = 0
ledger = open(returned, "w")  # on another disk
while not os.path.exists(stop):
    run.log("n", n)
    print("line", n)
    n += 1
    ledger.seek(0)
    ledger.write(str(n))
    ledger.flush()
    time.sleep(0.002)
"""


@pytest.mark.long
@pytest.mark.parametrize("end", ["exit", "kill"])
def test_h4_a_run_that_ends_on_a_full_disk_loses_nothing_in_silence(small_disk: Path, end: str) -> None:
    with open_yard(small_disk, seed=22) as yard:
        outside = small_disk.parent
        arguments = [str(outside / name) for name in ("ready", "stop", "returned")]
        run = yard.submit(yard.project("printing", PRINTING), *arguments)
        wait_for_points(yard, run, more_than=100)
        filler = small_disk / "filler"
        fill(filler)
        time.sleep(4)  # the fault itself
        (outside / "stop").touch() if end == "exit" else yard.kill("rank")
        wait_for(lambda: not yard.rank_pids())
        time.sleep(1)
        filler.unlink()
        details = run.wait_for_completion(raise_on_error=False)
        returned = int((outside / "returned").read_text())
        points = run.get_metrics()["n"]
        said = " ".join(warning["message"] for warning in details.get("warnings", []))
        log = run.get_all_logs(destination=str(outside / "logs"))
        text = Path(next(path for path in log if path.endswith("std_log.txt"))).read_text()
        lines = re.sub(r"runyard: warning: [^\n]*\n", "", text).splitlines()  # it may stand inside of a line

        assert details["status"] == ("Completed" if end == "exit" else "Failed")
        assert points == list(range(len(points)))
        assert len(points) in (returned, returned + 1)
        assert "is full" in said
        if end == "exit":
            assert lines == [f"line {n}" for n in range(returned)]
        else:
            assert "The disk that holds" in details["error"]["error"]["message"]


@pytest.mark.long
def test_cancel_delete_and_collect_work_on_a_full_disk(small_disk: Path) -> None:
    with open_yard(small_disk, seed=23) as yard:
        project = yard.project("logging", LOGGING)
        stop = small_disk.parent / "stop"
        stop.touch()
        done = yard.submit(project, str(stop))
        done.wait_for_completion(raise_on_error=False)
        stop.unlink()
        live = yard.submit(project, str(stop))
        wait_for_points(yard, live, more_than=100)
        filler = small_disk / "filler"
        fill(filler)
        time.sleep(1)
        show = [sys.executable, "-m", "runyard.cli", "runs", "show", live.id]
        shown = subprocess.run(show, capture_output=True, text=True, check=True)
        with pytest.raises(StoreUnavailable, match=r"server's disk is full"):
            yard.submit(project, str(stop))
        live.cancel()
        wait_for(lambda: not yard.rank_pids())
        client = connect(read_settings())
        client.runs.delete(done.id, now=True)
        client.server.collect()
        assert filler.exists()
        filler.unlink()
        live.wait_for_completion(raise_on_error=False)

        assert live.get_status() == "Canceled"
        assert "runyard: warning: The server's disk is full" in shown.stderr


def wait_for_points(yard: Yard, run, *, more_than: int) -> None:
    wait_for(lambda: np.size(run.get_metrics().get("n", [])) > more_than)  # one value is no list


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
