"""M01: `kill -9` at a random instant of a tight loop; every call that returned is in the journal."""

from __future__ import annotations

import mmap
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.interpreters import pythons
from tests.runtime.journals import SOURCE, make_run_folder, read_values

LOOP = """
import mmap, os, sys
from runyard.runtime.writer import JournalWriter
with open(sys.argv[2], "r+b") as file:
    counter = mmap.mmap(file.fileno(), 8)
writer = JournalWriter(sys.argv[1], "run")
log, returned = writer.log, 0
while True:
    log("seq", returned, step=returned)
    if returned % 100 == 0:
        log("name%d" % returned, "text")
        writer.log_list("list", [returned] * 20)
    returned += 1
    counter[:8] = returned.to_bytes(8, "little")
"""


@pytest.mark.parametrize("version", pythons())
def test_no_returned_point_is_lost_by_kill_nine(tmp_path: Path, version: str) -> None:
    for number in range(4):
        folder = make_run_folder(tmp_path / f"run{number}")
        returned = kill_at_random(folder, pythons()[version])

        found = read_values(folder, "seq")
        assert returned > 0
        assert found in (list(range(returned)), list(range(returned + 1)))
        lists = read_values(folder, "list")
        assert [lists[at : at + 20] for at in range(0, len(lists) - 19, 20)] == [
            [first] * 20 for first in range(0, len(lists) // 20 * 100, 100)
        ]
        assert len(lists) // 20 >= (returned - 1) // 100 + 1


def kill_at_random(folder: Path, python: str) -> int:
    """Return how many calls had returned."""
    counter = folder / "counter"
    counter.write_bytes(bytes(8))
    with open(counter, "r+b") as file, mmap.mmap(file.fileno(), 8) as shared:
        process = subprocess.Popen(
            [python, "-c", LOOP, str(folder), str(counter)], env={**os.environ, "PYTHONPATH": str(SOURCE)}
        )
        try:
            deadline = time.monotonic() + 30
            while not any(shared[:8]) and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.002)
            time.sleep(random.uniform(0, 0.05))
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        return int.from_bytes(shared[:8], "little")
