"""A script that goes wrong: the run says what happened, and nothing is lost."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from azureml.core import Experiment, ScriptRunConfig
from azureml.exceptions import ActivityFailedException, AzureMLException, ExperimentExecutionException
from tests.e2e.conftest import Submit, finish, log_of
from tests.faults.yard import is_alive
from tests.snapshots.folders import write
from tests.waiting import wait_for


def error_of(run) -> dict:
    return run.get_details()["error"]["error"]


def test_a_failed_script_raises_with_its_exception(submit: Submit) -> None:
    run = submit("raise ValueError('bad alpha')")

    with pytest.raises(ActivityFailedException, match="User program failed with ValueError: bad alpha"):
        run.wait_for_completion()

    assert run.get_status() == "Failed"
    assert error_of(run)["code"] == "UserError"
    assert error_of(run)["message"].startswith("User program failed with ValueError: bad alpha")
    assert "Traceback" in log_of(run)


def test_a_missing_package_is_named_with_how_to_add_it(submit: Submit) -> None:
    run = submit("import not_a_package_xyz.part")
    finish(run)
    message = error_of(run)["message"]

    assert "not_a_package_xyz" in message
    assert "pip install not_a_package_xyz" in message or "not-a-package-xyz" in message


def test_a_file_that_an_ignore_rule_left_out_is_named_with_the_rule(submit: Submit, project: Path) -> None:
    write(project, {".gitignore": "*.log\ndata/\n", "data/train.csv": "1,2\n", "data/more/x.csv": "3\n"})
    error = finish(submit("open('data/train.csv')"))["error"]["error"]["message"]

    assert "FileNotFoundError" in error
    assert "`data/train.csv` is not in the run's snapshot: line 2 of `.gitignore` (`data/`) leaves `data/` out" in error
    assert "(2 file(s), 6 bytes in all)" in error and "add the line `!data/` to `.amlignore`" in error
    write(project, {".amlignore": "!data/\n"})
    assert finish(submit("open('data/train.csv')"))["status"] == "Completed", "the hint leads to success"


@pytest.mark.parametrize("code", [1, 3, 255])
def test_an_exit_code_is_told(submit: Submit, code: int) -> None:
    run = submit(f"import sys; print('last words'); sys.exit({code})")
    finish(run)

    assert run.get_status() == "Failed"
    assert f"exit code {code}" in error_of(run)["message"]
    assert "last words" in json.dumps(error_of(run))


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGABRT", "SIGTERM"])
def test_a_signal_is_named(submit: Submit, name: str) -> None:
    run = submit(f"import os, signal; os.kill(os.getpid(), signal.{name})")
    finish(run)

    assert run.get_status() == "Failed"
    assert name in error_of(run)["message"]


def test_every_point_before_a_kill_is_there(submit: Submit) -> None:
    run = submit(
        """
        import os, signal
        from azureml.core import Run
        run = Run.get_context()
        for n in range(20000):
            run.log("n", n)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    finish(run)

    assert run.get_metrics()["n"] == list(range(20000))


def test_threads_and_forked_children_log_into_one_series(submit: Submit) -> None:
    run = submit(
        """
        import os, threading
        from azureml.core import Run
        run = Run.get_context()
        def work(start):
            for n in range(start, start + 500):
                run.log("n", n)
        threads = [threading.Thread(target=work, args=(k * 500,)) for k in range(4)]
        for thread in threads: thread.start()
        children = []
        for k in range(4, 8):
            pid = os.fork()
            if pid == 0:
                work(k * 500)
                os._exit(0)
            children.append(pid)
        for thread in threads: thread.join()
        for pid in children: os.waitpid(pid, 0)
        """
    )
    finish(run)

    assert sorted(run.get_metrics()["n"]) == list(range(4000))


def test_a_script_that_ignores_term_is_killed_after_the_grace(submit: Submit) -> None:
    run = submit(
        """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("ready", flush=True)
        while True: time.sleep(1)
        """
    )
    wait_for(lambda: "user_logs/std_log.txt" in run.get_file_names() and "ready" in log_of(run))
    run.cancel()
    run.cancel()
    finish(run)

    assert run.get_status() == "Canceled"


def test_a_checkpoint_saved_on_term_is_kept(submit: Submit) -> None:
    run = submit(
        """
        import signal, sys, time
        def save(*_):
            open("outputs/checkpoint", "w").write("saved")
            sys.exit(0)
        signal.signal(signal.SIGTERM, save)
        print("ready", flush=True)
        while True: time.sleep(1)
        """
    )
    wait_for(lambda: "user_logs/std_log.txt" in run.get_file_names() and "ready" in log_of(run))
    run.cancel()
    finish(run)

    assert run.get_status() == "Canceled"
    assert "outputs/checkpoint" in run.get_file_names()


def test_nothing_is_left_of_a_script_that_double_forks(submit: Submit, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    run = submit(
        """
        import os, sys, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                open(sys.argv[1] + ".part", "w").write(str(os.getpid()))
                os.rename(sys.argv[1] + ".part", sys.argv[1])
                time.sleep(600)
            os._exit(0)
        while not os.path.exists(sys.argv[1]): time.sleep(0.01)
        """,
        str(pid_file),
    )
    finish(run)

    assert run.get_status() == "Completed"
    assert not is_alive(int(pid_file.read_text()))


def test_the_time_limit_cancels_the_run(submit: Submit) -> None:
    run = submit("import time; time.sleep(600)", max_run_duration_seconds=1)
    finish(run)

    assert run.get_status() == "Canceled"
    assert error_of(run)["code"] == "RunTimeLimitExceeded"


def test_a_script_that_closes_its_output_still_ends_well(submit: Submit) -> None:
    run = submit(
        """
        import os
        from azureml.core import Run
        print("before", flush=True)
        os.close(1); os.close(2)
        Run.get_context().log("after", 1)
        """
    )
    finish(run)

    assert run.get_status() == "Completed"
    assert run.get_metrics() == {"after": 1}
    assert "before" in log_of(run)


def test_large_binary_output_is_kept_byte_for_byte(submit: Submit, tmp_path: Path) -> None:
    run = submit(
        """
        import hashlib, os, random
        block = random.Random(7).randbytes(1 << 20)
        total = hashlib.sha256()
        for _ in range(100):
            os.write(1, block)
            total.update(block)
        open("outputs/sha", "w").write(total.hexdigest())
        """
    )
    finish(run)
    run.download_file("user_logs/std_log.txt", str(tmp_path / "log"))
    run.download_file("outputs/sha", str(tmp_path / "sha"))

    assert hashlib.sha256((tmp_path / "log").read_bytes()).hexdigest() == (tmp_path / "sha").read_text()
    assert (tmp_path / "log").stat().st_size == 100 << 20


def test_what_cannot_start_is_found_at_submit(experiment: Experiment, project: Path) -> None:
    (project / "trian.py").touch()

    with pytest.raises(ExperimentExecutionException, match=r"train\.py") as caught:
        experiment.submit(ScriptRunConfig(source_directory=str(project), script="train.py"))
    assert "trian.py" in str(caught.value)
    (project / "train.py").touch()
    with pytest.raises(AzureMLException, match="no-such-cluster"):
        experiment.submit(
            ScriptRunConfig(source_directory=str(project), script="train.py", compute_target="no-such-cluster")
        )
    with pytest.raises(AzureMLException, match="nowhere"):
        experiment.submit(ScriptRunConfig(source_directory=str(project / "nowhere"), script="train.py"))
    (project / "escape").symlink_to("/etc/hostname")
    with pytest.raises(AzureMLException, match="escape"):
        experiment.submit(ScriptRunConfig(source_directory=str(project), script="train.py"))


@pytest.mark.long  # for its size alone
@pytest.mark.timeout(300)
def test_a_fifo_is_skipped_and_a_2_gb_file_is_stored(submit: Submit, project: Path) -> None:
    os.mkfifo(project / "pipe")
    with open(project / "big.bin", "wb") as file:
        file.truncate(2 << 30)
    run = submit("import os; print(os.path.getsize('big.bin'), os.path.exists('pipe'))")
    finish(run)

    assert f"{2 << 30} False" in log_of(run)


@pytest.mark.long  # for its length alone
@pytest.mark.timeout(300)
def test_fifty_submits_at_once_are_fifty_runs(submit: Submit, experiment: Experiment) -> None:
    from concurrent.futures import ThreadPoolExecutor

    submit("import sys; from azureml.core import Run; Run.get_context().log('n', int(sys.argv[1]))", 0)
    with ThreadPoolExecutor(50) as pool:
        runs = list(pool.map(lambda n: submit_number(experiment, n), range(50)))
    for run in runs:
        finish(run)

    assert len({run.id for run in runs}) == 50
    assert [run.get_status() for run in runs] == ["Completed"] * 50
    assert [run.get_metrics() for run in runs] == [{"n": n} for n in range(50)]


def submit_number(experiment: Experiment, n: int):
    folder = Path.cwd() / "project"
    return experiment.submit(ScriptRunConfig(source_directory=str(folder), script="train.py", arguments=[n]))


def test_cancel_against_finish_has_one_outcome(submit: Submit) -> None:
    outcomes = set()
    for _ in range(8):
        run = submit("pass")
        run.cancel()
        finish(run)
        outcomes.add(run.get_status())

    assert outcomes <= {"Canceled", "Completed"}


def test_the_client_can_fail_a_run_that_is_going(submit: Submit, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    run = submit("import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)", str(pid_file))
    wait_for(lambda: pid_file.exists() and pid_file.read_text())
    run.fail("diverged")
    finish(run)

    assert run.get_status() == "Failed"
    assert "diverged" in error_of(run)["message"]
    assert not is_alive(int(pid_file.read_text()))


def test_a_stopped_script_can_be_cancelled(submit: Submit, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    run = submit(
        "import os, signal, sys; open(sys.argv[1], 'w').write(str(os.getpid())); os.kill(os.getpid(), signal.SIGSTOP)",
        str(pid_file),
    )
    wait_for(lambda: pid_file.exists() and pid_file.read_text())
    run.cancel()
    finish(run)

    assert run.get_status() == "Canceled"
