"""Cancel, fail and the time limit: TERM, grace, KILL, nothing left, one final state."""

from __future__ import annotations

import errno
import os
import signal
import time

from tests.supervisor.supervised import Job, Site
from tests.waiting import wait_for

SLEEP = "import time\nopen('started', 'w').write('x')\ntime.sleep(600)\n"
STUBBORN = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nopen('started', 'w').write('x')\ntime.sleep(600)\n"


def ask(job: Job, desired: str = "cancel") -> None:
    """Do what the server and its backend do: store the wish, then wake the supervisor."""
    job.run.desired = desired
    (job.folder / "control.json").write_text(f'{{"desired": null, "at": {time.time_ns()}}}')
    ring(job)


def ring(job: Job) -> None:
    try:
        fd = os.open(job.wait_for_file("wake"), os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        assert error.errno == errno.ENXIO  # nobody reads it: the run is over
        return
    os.write(fd, b"\n")
    os.close(fd)


def test_cancel_reaches_the_program_at_once_and_ends_as_canceled(site: Site) -> None:
    script = (
        "import signal, sys, time\n"
        "def stop(*_):\n"
        "    open('outputs/checkpoint', 'w').write('saved')\n"
        "    sys.exit(0)\n"
        "signal.signal(15, stop)\n" + SLEEP
    )
    job = site.start(script)
    job.wait_for_text("started")
    ask(job)
    ask(job)
    run = job.wait()

    assert run.statuses[-1] == "Canceled"
    assert run.error is None
    assert site.server.file(job.id, "outputs/checkpoint") == b"saved"
    assert job.living() == []


def test_a_program_that_ignores_term_is_killed_after_the_grace(site: Site) -> None:
    job = site.start(STUBBORN, grace_s=0.5)
    job.wait_for_text("started")
    pid = job.rank_pid()
    began = time.monotonic()
    ask(job)
    wait_for(lambda: not os.path.exists(f"/proc/{pid}") or job.living() == [])
    took_s = time.monotonic() - began
    run = job.wait()

    assert took_s >= 0.5
    assert run.status == "Canceled"


def test_a_stopped_program_can_be_canceled(site: Site) -> None:
    job = site.start("import os, signal\nopen('started', 'w').write('x')\nos.kill(os.getpid(), signal.SIGSTOP)\n")
    job.wait_for_text("started")
    ask(job)

    assert job.wait().status == "Canceled"
    assert job.living() == []


def test_fail_stops_the_processes_and_keeps_its_error(site: Site) -> None:
    job = site.start(SLEEP)
    job.wait_for_text("started")
    job.run.desired_error = {"code": "UserError", "message": "not converging"}
    job.run.desired = "fail"  # an answer to a shipment tells it first, without the error
    (job.folder / "work/logs/x").write_text("x")
    ask(job, "fail")
    run = job.wait()

    assert run.status == "Failed"
    assert run.error == {"code": "UserError", "message": "not converging"}
    assert job.living() == []


def test_fail_keeps_its_error_when_the_server_is_slow_to_tell_it(site: Site) -> None:
    job = site.start(SLEEP)
    job.wait_for_text("started")
    site.server.stop()
    (job.folder / "control.json").write_text('{"desired": "fail"}')
    ring(job)
    wait_for(lambda: job.living() == [])
    time.sleep(2.2)  # nothing tells from outside how long the supervisor means to wait
    job.run.desired_error = {"code": "UserError", "message": "not converging"}
    job.run.desired = "fail"
    site.server.start()

    assert job.wait().error == {"code": "UserError", "message": "not converging"}


def test_a_cancel_that_the_backend_could_not_deliver_comes_with_the_next_answer(site: Site) -> None:
    job = site.start(SLEEP)
    job.wait_for_text("started")
    job.run.desired = "cancel"

    assert job.wait().status == "Canceled"


def test_the_control_file_alone_is_enough_when_the_server_is_away(site: Site) -> None:
    job = site.start(SLEEP)
    job.wait_for_text("started")
    site.server.stop()
    (job.folder / "control.json").write_text('{"desired": "cancel"}')
    ring(job)
    wait_for(lambda: job.living() == [])
    site.server.start()

    assert job.wait().status == "Canceled"


def test_cancel_while_preparing_starts_nothing(site: Site) -> None:
    job = site.prepare("open('started', 'w')\n")
    job.run.desired = "cancel"
    site.server.gate.clear()  # the snapshot is slow to come
    job.start()
    wait_for(lambda: job.run.status == "Preparing")
    site.server.gate.set()
    run = job.wait()

    assert run.status == "Canceled"
    assert not (job.folder / "launched").exists()
    assert not (job.folder / "work/started").exists()


def test_the_time_limit_ends_the_run_as_canceled_with_its_own_code(site: Site) -> None:
    job = site.start(SLEEP, time_limit_s=0.6)
    began = time.monotonic()
    run = job.wait()

    assert run.status == "Canceled"
    assert run.error is not None
    assert run.error["code"] == "RunTimeLimitExceeded"
    assert "max_run_duration_seconds" in run.error["message"]
    assert time.monotonic() - began >= 0.6


def test_the_time_limit_survives_a_killed_supervisor(site: Site) -> None:
    job = site.start(SLEEP, time_limit_s=1.2)
    job.wait_for_text("started")
    time.sleep(0.6)
    os.kill(job.supervisor_pid(), signal.SIGKILL)
    run = job.wait()

    assert run.error is not None
    assert run.error["code"] == "RunTimeLimitExceeded"


def test_cancel_against_finish_ends_in_one_final_state(site: Site) -> None:
    jobs = [site.start("open('started', 'w').write('x')\nimport time\ntime.sleep(0.02)\n") for _ in range(10)]
    for number, job in enumerate(jobs):
        job.wait_for_text("started")
        time.sleep(0.004 * number)
        ask(job)

    for job in jobs:
        run = job.wait()
        assert [status for status in run.statuses if status in ("Completed", "Failed", "Canceled")] == [run.status]
        assert run.status in ("Completed", "Canceled")
        assert job.living() == []
