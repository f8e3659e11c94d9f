"""R7 and M30 to M34: our own processes killed at any instant; training goes on and nothing is lost or doubled."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runyard.supervisor.proc import set_subreaper
from tests.supervisor.journals import UNTIL_STOPPED
from tests.supervisor.supervised import Job, Site, lives
from tests.waiting import wait_for


def finish(job: Job) -> int:
    (job.folder / "work/stop").touch()
    job.wait_for_text("count")
    return int((job.folder / "work/count").read_text())


def kill_if_left(job: Job) -> None:
    """Kill the supervisor, unless the run's end was faster."""
    wait_for(lambda: job.find_supervisor() or job.has_left())
    pid = job.find_supervisor()
    if pid and lives(pid):
        os.kill(pid, signal.SIGKILL)


def kill_ours(job: Job) -> None:
    """Kill reaper and supervisor and see them gone; the program goes on."""
    supervisor, reaper = job.supervisor_pid(), job.reaper_pid()
    for pid in (reaper, supervisor):
        os.kill(pid, signal.SIGKILL)
    assert job.process is not None
    job.process.wait()
    wait_for(lambda: not lives(supervisor))  # until then it holds its lock


def check_complete(site: Site, job: Job, count: int) -> None:
    assert site.server.numbers(job.id) == [float(n) for n in range(count)]
    assert job.log() == b"go\n" + b"".join(b"%d\n" % n for n in range(50, count + 1, 50))


@pytest.mark.long
def test_a_killed_supervisor_is_back_soon_and_training_never_notices(site: Site) -> None:
    job = site.start(UNTIL_STOPPED)
    wait_for(lambda: site.server.numbers(job.id))
    rank = job.rank_pid()
    backs = []
    for _ in range(3):
        os.kill(job.supervisor_pid(), signal.SIGKILL)
        began, before = time.monotonic(), len(site.server.numbers(job.id))
        wait_for(lambda before=before: len(site.server.numbers(job.id)) > before)
        backs.append(time.monotonic() - began)
    assert job.rank_pid() == rank
    count = finish(job)
    run = job.wait()

    assert max(backs) < 5
    assert run.status == "Completed"
    check_complete(site, job, count)


@pytest.mark.long
def test_kills_at_random_instants_lose_and_double_no_point(site: Site) -> None:
    seed = 20261115
    instants = random.Random(seed)
    jobs = [site.start(UNTIL_STOPPED) for _ in range(3)]
    for job in jobs:
        job.wait_for_file("ranks.json")
    for _ in range(3):
        for job in jobs:
            time.sleep(instants.random() * 0.2)
            os.kill(job.supervisor_pid(), signal.SIGKILL)
    counts = [finish(job) for job in jobs]
    for job in jobs:
        kill_if_left(job)  # at the end too: while it ships, decides or reports

    for job, count in zip(jobs, counts):
        assert job.wait().status == "Completed"
        check_complete(site, job, count)


def test_a_killed_reaper_leaves_the_supervisor_in_charge(site: Site) -> None:
    job = site.start(UNTIL_STOPPED)
    wait_for(lambda: site.server.numbers(job.id))
    rank = job.rank_pid()
    os.kill(job.reaper_pid(), signal.SIGKILL)
    before = len(site.server.numbers(job.id))
    wait_for(lambda: len(site.server.numbers(job.id)) > before + 100)
    assert os.path.exists(f"/proc/{rank}")
    count = finish(job)
    run = job.wait()

    assert run.status == "Completed"  # by the process's own last word
    check_complete(site, job, count)
    wait_for((job.folder / "done").exists)


def test_without_a_reaper_a_killed_program_is_not_called_a_success(site: Site) -> None:
    job = site.start(UNTIL_STOPPED)
    wait_for(lambda: site.server.numbers(job.id))
    os.kill(job.reaper_pid(), signal.SIGKILL)
    os.kill(job.rank_pid(), signal.SIGKILL)
    run = job.wait()

    assert run.status == "Failed"
    assert run.error is not None
    # An adopter that comes before init has collected the process still learns the signal.
    known = run.error["details"]["signal"] == "SIGKILL"
    assert run.error["code"] == ("UserError" if known else "ExitCodeUnknown")


END_WHEN_TOLD = "import os, time\nopen('started', 'w').write('x')\nwhile not os.path.exists('stop'): time.sleep(0.01)\n"


@pytest.mark.parametrize(
    ("end", "status", "code"),
    [("", "Completed", None), ("raise SystemExit(3)", "Failed", 3), ("os._exit(4)", "Failed", 4)],
)
def test_without_a_reaper_the_kernel_tells_the_exit_code(site: Site, end: str, status: str, code: int | None) -> None:
    job = site.start(END_WHEN_TOLD + end)
    job.wait_for_text("started")
    os.kill(job.reaper_pid(), signal.SIGKILL)
    wait_for(lambda: is_adopted(job))
    (job.folder / "work/stop").touch()
    run = job.wait()

    assert run.status == status
    assert (run.error or {"details": {"exit_code": None}})["details"]["exit_code"] == code


@pytest.mark.parametrize(("end", "status"), [("", "Completed"), ("raise SystemExit(3)", "Failed")])
def test_a_program_that_ended_while_nobody_watched_left_its_code(site: Site, end: str, status: str) -> None:
    job = site.start(END_WHEN_TOLD + end)
    job.wait_for_text("started")
    with collecting(job.rank_pid()):
        kill_ours(job)
        (job.folder / "work/stop").touch()
    run = job.start("--adopt").wait()

    assert run.status == status
    assert run.error is None or run.error["details"]["exit_code"] == 3


def test_a_program_that_only_saw_nothing_wrong_is_not_called_a_success(site: Site) -> None:
    job = site.start(END_WHEN_TOLD)
    job.wait_for_text("started")
    rank = job.rank_pid()
    with collecting(rank):
        kill_ours(job)
        os.kill(rank, signal.SIGKILL)
    (job.folder / f"ends/{rank}.json").write_text(f'{{"pid": {rank}, "ok": true, "code": 0}}')
    run = job.start("--adopt").wait()

    assert run.error is not None
    assert run.error["code"] == "ExitCodeUnknown"


@contextmanager
def collecting(rank: int) -> Iterator[None]:
    """Be init for a program whose reaper is killed, and collect it: the kernel then tells nobody how it ended."""
    set_subreaper(True)
    try:
        yield
        os.waitpid(rank, 0)
    finally:
        set_subreaper(False)


def is_adopted(job: Job) -> bool:
    """Whether an adopter watches the run: it holds a pidfd of the rank."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            if words[-3:-1] == [b"--adopt", bytes(job.folder)]:
                return any("pidfd" in os.readlink(fd) for fd in (process / "fd").iterdir())
        except OSError:
            continue
    return False


def test_without_a_reaper_cancel_still_ends_everything(site: Site) -> None:
    script = "import os, time\nfor _ in range(3):\n    if not os.fork(): os.setsid(); time.sleep(600)\n"
    job = site.start(script + "open('started', 'w').write('x')\ntime.sleep(600)\n", grace_s=0.5)
    job.wait_for_text("started")
    os.kill(job.reaper_pid(), signal.SIGKILL)
    job.run.desired = "cancel"
    run = job.wait()

    assert run.status == "Canceled"
    assert job.living() == []


def test_both_killed_and_adopted(site: Site) -> None:
    job = site.start(UNTIL_STOPPED)
    wait_for(lambda: site.server.numbers(job.id))
    kill_ours(job)
    before = len(site.server.numbers(job.id))
    job.start("--adopt")
    wait_for(lambda: len(site.server.numbers(job.id)) > before + 100)
    count = finish(job)

    assert job.wait().status == "Completed"
    check_complete(site, job, count)


def test_adopted_before_the_launch_starts_the_code_once(site: Site) -> None:
    job = site.prepare("open('../started', 'a').write('x')\n")
    site.server.gate.clear()
    job.start()
    wait_for(lambda: job.run.status == "Preparing")
    kill_ours(job)
    site.server.gate.set()
    job.start("--adopt")

    assert job.wait().status == "Completed"
    assert (job.folder / "started").read_text() == "x"


def test_a_second_start_of_a_claimed_attempt_does_nothing(site: Site) -> None:
    job = site.start("open('../started', 'a').write('x')\nimport time\ntime.sleep(0.5)\n")
    job.wait_for_file("claim")
    for mode in ("--run", "--adopt"):
        other = Job(site, job.id, job.folder, job.cookie).start(mode)
        assert other.process is not None
        assert other.process.wait(10) == 0

    assert job.wait().status == "Completed"
    assert (job.folder / "started").read_text() == "x"


def test_after_a_reboot_the_run_is_lost_and_its_data_arrives(site: Site) -> None:
    job = site.prepare("")
    (job.folder / "journal").mkdir()
    (job.folder / "user_logs").mkdir()
    (job.folder / "user_logs/std_log.txt").write_text("until the power went\n")
    (job.folder / "claim").write_text(json.dumps({"pid": 1, "start_ticks": 1, "boot_id": "another"}))
    (job.folder / "launch.json").write_text(json.dumps({"processes": [{"rank": 0, "log": "user_logs/std_log.txt"}]}))
    ranks = [{"rank": 0, "pid": os.getpid(), "start_ticks": 1, "boot_id": "another", "started_boot_ns": 1}]
    (job.folder / "ranks.json").write_text(json.dumps(ranks))
    run = job.start("--adopt").wait()

    assert run.status == "Failed"
    assert run.error is not None
    assert run.error["code"] == "NodeLost"
    assert job.log() == b"until the power went\n"


def test_after_a_restart_of_the_container_the_run_is_lost(site: Site) -> None:
    job = site.start("open('started', 'w').write('x')\nimport time\ntime.sleep(600)\n")
    job.wait_for_text("started")
    rank = job.rank_pid()
    kill_ours(job)
    os.kill(rank, signal.SIGKILL)
    claim = json.loads((job.folder / "claim").read_text())
    (job.folder / "claim").write_text(json.dumps({**claim, "container": "an earlier start"}))
    run = job.start("--adopt").wait()

    assert run.status == "Failed"
    assert run.error is not None
    assert run.error["code"] == "NodeLost"


def test_adopting_a_folder_that_the_program_emptied_is_no_success(site: Site) -> None:
    job = site.start("import time\nopen('started', 'w').write('x')\ntime.sleep(600)\n")
    job.wait_for_text("started")
    rank = job.rank_pid()
    kill_ours(job)
    os.kill(rank, signal.SIGKILL)
    for name in ("ranks.json", "launch.json"):
        (job.folder / name).unlink()
    run = job.start("--adopt").wait()

    assert run.status == "Failed"
    assert run.error is not None
    assert run.error["code"] == "ExitCodeUnknown"


def test_signals_sent_to_the_session_by_accident_end_neither_of_us(site: Site) -> None:
    job = site.start(UNTIL_STOPPED)
    wait_for(lambda: site.server.numbers(job.id))
    reaper, supervisor = job.reaper_pid(), job.supervisor_pid()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        os.killpg(os.getpgid(reaper), number)
    before = len(site.server.numbers(job.id))
    wait_for(lambda: len(site.server.numbers(job.id)) > before + 50)

    assert (job.reaper_pid(), job.supervisor_pid()) == (reaper, supervisor)
    count = finish(job)
    assert job.wait().status == "Completed"
    check_complete(site, job, count)


def test_a_stopped_supervisor_heals(site: Site) -> None:
    job = site.start(UNTIL_STOPPED)
    wait_for(lambda: site.server.numbers(job.id))
    supervisor = job.supervisor_pid()
    os.kill(supervisor, signal.SIGSTOP)
    count = finish(job)
    os.kill(supervisor, signal.SIGCONT)

    assert job.wait().status == "Completed"
    check_complete(site, job, count)
