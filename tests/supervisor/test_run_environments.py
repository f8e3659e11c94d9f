"""Runs whose environment is built first: the build's log, its failure, and ways out of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runyard.core.errors import StoreUnavailable
from runyard.core.specs import EnvironmentSpec
from tests.environments.wheels import SlowPackage, make_wheel, offline
from tests.supervisor.supervised import Site, lives
from tests.supervisor.test_stopping import ask
from tests.waiting import wait_for

BUILD_LOG = "azureml-logs/20_image_build_log.txt"
LOCK = "system_logs/requirements.lock.txt"


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    make_wheel(tmp_path / "wheels", "alpha", requires=("beta",))
    make_wheel(tmp_path / "wheels", "beta", "2.0")
    return tmp_path / "wheels"


@pytest.fixture
def slow(tmp_path: Path) -> SlowPackage:
    return SlowPackage(tmp_path / "slow")


def slow_environment(slow: SlowPackage) -> EnvironmentSpec:
    return EnvironmentSpec(name="e", kind="uv", pip_packages=[slow.requirement], pip_options=["--no-index"])


def test_a_run_starts_in_its_own_environment_and_keeps_log_and_lock(site: Site, wheels: Path) -> None:
    script = "import sys, os, alpha\nprint(alpha.version, sys.prefix, os.environ['VIRTUAL_ENV'])\n"
    environment = offline(wheels, "alpha", "azureml-defaults")
    job = site.start(script, environment=environment)
    run = job.wait()

    assert run.status == "Completed", run.error
    version, prefix, variable = job.log().decode().split()
    assert version == "1.0"
    assert prefix == variable
    assert prefix.startswith(str(site.home / "environments"))
    log = job.log(BUILD_LOG).decode().splitlines()
    assert log[0] == "Provided by Runyard: azureml-defaults."
    assert {" + alpha==1.0", " + beta==2.0"} <= set(log)
    lock = job.log(LOCK).decode()
    assert "alpha==1.0" in lock and lock.count("--hash=sha256:") == 2
    assert run.environment["packages"] == {"alpha": "1.0", "beta": "2.0"}
    assert run.environment["lock"] == LOCK
    assert run.environment["interpreter"].startswith(prefix)

    again = site.start(script, environment=environment)
    assert again.wait().status == "Completed"
    assert again.log() == job.log()
    assert again.log(LOCK) == job.log(LOCK)
    assert len(again.log(BUILD_LOG).decode().splitlines()) == 2


def test_a_run_in_the_submitting_interpreter_has_no_build_log(site: Site) -> None:
    job = site.start("")

    assert job.wait().status == "Completed"
    assert BUILD_LOG not in job.run.logs


def test_a_failed_solve_fails_the_run_with_the_resolvers_explanation_and_the_whole_log(
    site: Site, wheels: Path
) -> None:
    job = site.start("", environment=offline(wheels, "alpha==7"))
    run = job.wait()

    assert run.status == "Failed"
    assert run.error is not None
    assert run.error["code"] == "SubmitRejected"
    assert "making the environment `e` failed" in run.error["message"]
    assert "there is no version of alpha==7" in run.error["message"]
    assert "hint: " in run.error["message"] and "Traceback" not in run.error["message"]
    assert b"there is no version of alpha==7" in job.log(BUILD_LOG)
    assert not (job.folder / "launched").exists()


def test_the_build_log_is_shipped_while_it_grows_and_the_run_is_preparing(site: Site, slow: SlowPackage) -> None:
    job = site.start("import slow", environment=slow_environment(slow))
    wait_for(lambda: b"Building environment `e`" in job.run.logs.get(BUILD_LOG, b""))
    wait_for(lambda: job.run.status == "Preparing")
    slow.let_go()

    assert job.wait().status == "Completed"


def test_the_server_has_all_of_the_build_log_before_it_hears_of_the_programs(site: Site, wheels: Path) -> None:
    job = site.prepare("print('x')", environment=offline(wheels, "alpha"))
    early: list[bytes] = []

    def check(route: str, head: Mapping[str, Any], data: bytes) -> None:
        printed = job.folder / "user_logs/std_log.txt"
        if route == "ship" and not (printed.exists() and printed.stat().st_size):
            raise StoreUnavailable("Later.")
        if str(head.get("name", "")).startswith("user_logs/"):
            early.append(bytes(job.run.logs.get(BUILD_LOG, b"")))

    site.server.check = check
    job.start().wait()

    assert early
    assert set(early) == {bytes(job.log(BUILD_LOG))}


def test_cancel_during_a_build_ends_it_at_once(site: Site, slow: SlowPackage) -> None:
    job = site.start("", environment=slow_environment(slow))
    [pid] = wait_for(slow.pids)
    ask(job)
    run = job.wait(timeout_s=10)

    assert run.status == "Canceled"
    assert not lives(pid)
    assert not (job.folder / "launched").exists()


def test_a_supervisor_killed_in_a_build_is_started_again_and_the_run_completes(site: Site, slow: SlowPackage) -> None:
    job = site.start("import slow", environment=slow_environment(slow))
    wait_for(slow.pids)
    os.kill(job.supervisor_pid(), signal.SIGKILL)
    wait_for(lambda: b"builds this environment" in job.run.logs.get(BUILD_LOG, b""))
    slow.let_go()

    assert job.wait().status == "Completed", job.run.error


def test_a_supervisor_killed_after_the_launch_still_leaves_lock_and_packages(site: Site, wheels: Path) -> None:
    script = "import os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\n"
    job = site.start(script, environment=offline(wheels, "beta"))
    job.wait_for_file("launched")
    os.kill(job.supervisor_pid(), signal.SIGKILL)  # it looks at the packages a moment later
    wait_for(lambda: LOCK in job.run.logs)
    (job.folder / "work/go").touch()

    assert job.wait().status == "Completed"
    assert job.run.environment["packages"] == {"beta": "2.0"}


def test_a_password_of_an_index_shows_nowhere(site: Site, wheels: Path) -> None:
    secret = "https://me:hunter2@127.0.0.1:9/simple"
    environment = EnvironmentSpec(
        name="e",
        kind="uv",
        pip_packages=["alpha", "gamma @ https://me:hunter2@127.0.0.1:9/gamma-1.0-py3-none-any.whl"],
        pip_options=["--no-index", f"-f {wheels}", f"--extra-index-url {secret}"],
    )
    submitter = {"PATH": os.environ["PATH"], "HOME": str(wheels), "PIP_RETRIES": "0"}
    job = site.start("", environment=environment, submitter=submitter)
    run = job.wait()

    assert run.status == "Failed"
    assert b"gamma @ https://********@127.0.0.1:9/gamma" in job.log(BUILD_LOG)
    assert "hunter2" not in str(run.error)
    assert not [name for name, data in run.logs.items() if b"hunter2" in data]
