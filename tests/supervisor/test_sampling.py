"""What a run's processes use, beside the run."""

from __future__ import annotations

import os
from pathlib import Path

from runyard.core.formats import journal
from runyard.supervisor.lifecycle.usage import Reading, rates, read_usage
from tests.supervisor.supervised import Site
from tests.waiting import wait_for

MB = 1 << 20
COMMON = {"cpu_percent", "memory_mb", "disk_read_mb_s", "disk_write_mb_s", "net_received_mb_s", "net_sent_mb_s"}


def test_rates_are_what_was_used_between_two_readings() -> None:
    before = Reading(100.0, {1: 5.0}, {1: (0, 10 * MB)}, (0, 0), 0)
    now = Reading(110.0, {1: 10.0, 2: 15.0}, {1: (20 * MB, 10 * MB), 2: (0, 10 * MB)}, (30 * MB, 40 * MB), 64 * MB)

    assert rates(before, now) == {
        "cpu_percent": 200.0,
        "memory_mb": 64.0,
        "disk_read_mb_s": 2.0,
        "disk_write_mb_s": 1.0,
        "net_received_mb_s": 3.0,
        "net_sent_mb_s": 4.0,
    }


def test_a_process_that_ended_makes_no_rate_negative() -> None:
    before = Reading(0.0, {1: 50.0, 2: 1.0}, {1: (9 * MB, 9 * MB)}, (7, 7), MB)
    now = Reading(10.0, {2: 2.0}, {}, (0, 0), MB)

    assert rates(before, now)["cpu_percent"] == 10.0
    assert all(value >= 0 for value in rates(before, now).values())


def test_a_reading_holds_what_proc_says_and_passes_over_who_is_gone() -> None:
    block = bytearray(os.urandom(64)) * (MB // 2)
    reading = read_usage([os.getpid(), 4_194_303])

    assert set(reading.cpu_s) == {os.getpid()}
    assert reading.cpu_s[os.getpid()] > 0
    assert reading.memory_bytes > len(block)


def names_and_values(site: Site, run_id: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for data in site.server.journal_of(run_id):
        names: dict[int, str] = {}
        for part in journal.iter_parts(data):
            if isinstance(part, journal.LongRecord):
                if part.kind == journal.NAME:
                    names[part.payload["id"]] = part.payload["name"]
                continue
            for cell in journal.NUMBER.iter_unpack(data[part.offset : part.end]):
                found.setdefault(names[cell[3]], []).append(cell[6])
    return found


def test_a_run_of_more_than_two_seconds_has_system_metrics(site: Site, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = (
        "import os, subprocess, sys, time\n"
        "block = bytearray(os.urandom(64)) * (1 << 20)\n"
        f"busy = subprocess.Popen([sys.executable, '-c', 'while True: pass'])\n"
        f"while not os.path.exists({str(go)!r}):\n    time.sleep(0.05)\n"
        "busy.kill()\n"
    )
    job = site.start(script, variables={"RUNYARD_SAMPLE_EVERY": "0.2"})
    wait_for(lambda: len(names_and_values(site, job.id).get("_system/cpu_percent", [])) >= 2)
    go.touch()
    run = job.wait()
    found = names_and_values(site, job.id)

    assert run.status == "Completed"
    assert {name.partition("/")[2] for name in found if "gpu" not in name} == COMMON
    assert max(found["_system/memory_mb"]) > 64
    assert max(found["_system/cpu_percent"]) > 5  # of the child, too


def test_a_short_run_has_none(site: Site) -> None:
    job = site.start("print('quick')\n")
    job.wait()

    assert names_and_values(site, job.id) == {}
