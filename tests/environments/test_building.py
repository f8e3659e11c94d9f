"""One build per key, whoever asks and whatever is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runyard.core.errors import SubmitRejected
from runyard.core.specs import EnvironmentSpec
from runyard.environments.base import BuiltEnvironment
from runyard.environments.cache import get_place
from runyard.environments.uv import build_once
from tests.environments.wheels import SlowPackage, make_wheel, offline, uv_builder
from tests.supervisor.supervised import lives
from tests.waiting import wait_for

ROOT = Path(__file__).parent.parent.parent


class Stopped(Exception):
    pass


@pytest.fixture
def slow(tmp_path: Path) -> SlowPackage:
    return SlowPackage(tmp_path / "slow")


def slow_spec(slow: SlowPackage) -> EnvironmentSpec:
    return EnvironmentSpec(name="e", kind="uv", pip_packages=[slow.requirement], pip_options=["--no-index"])


class Asker(threading.Thread):
    """Asks for an environment in a thread of its own, as a run's supervisor does."""

    def __init__(self, home: Path, spec: EnvironmentSpec, *, user: str | None = None) -> None:
        super().__init__(daemon=True)
        self.said: list[str] = []
        self.built: BuiltEnvironment | None = None
        self.error: BaseException | None = None
        self.is_stopped = threading.Event()
        self._ask: Callable[[], BuiltEnvironment] = lambda: uv_builder(home).build(
            spec, say=self.said.append, check=self._check, user=user
        )
        self.start()

    def run(self) -> None:
        try:
            self.built = self._ask()
        except BaseException as error:
            self.error = error

    def _check(self) -> None:
        if self.is_stopped.is_set():
            raise Stopped

    def has_said(self, text: str) -> bool:
        return any(text in line for line in self.said)


def builder_process(home: Path, spec_code: str) -> subprocess.Popen[str]:
    """Start a process that builds and prints the key."""
    script = f"""
from pathlib import Path
from runyard.core.specs import EnvironmentSpec
from tests.environments.wheels import offline, uv_builder
print(uv_builder(Path({str(home)!r})).build({spec_code}, say=lambda line: None).key)
"""
    return subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


def slow_process(home: Path, slow: SlowPackage) -> subprocess.Popen[str]:
    code = f'EnvironmentSpec(name="e", kind="uv", pip_packages=[{slow.requirement!r}], pip_options=["--no-index"])'
    return builder_process(home, code)


def imports(built: BuiltEnvironment, name: str) -> bool:
    return subprocess.run([built.interpreter, "-c", f"import {name}"], check=False).returncode == 0


def test_fifty_who_ask_at_once_make_one_build(tmp_path: Path, slow: SlowPackage) -> None:
    home = tmp_path / "home"
    first = Asker(home, slow_spec(slow), user=str(tmp_path / "runs/first_1/1"))
    wait_for(slow.pids)
    others = [Asker(home, slow_spec(slow)) for _ in range(49)]
    waiting = f"Run first_1 (process {os.getpid()}) builds this environment; using it when it is ready."
    wait_for(lambda: all(asker.has_said(waiting) for asker in others))
    slow.let_go()
    for asker in [first, *others]:
        asker.join(30)

    assert len(slow.pids()) == 1
    keys = {asker.built.key for asker in [first, *others] if asker.built is not None}
    assert len(keys) == 1
    assert all(asker.error is None and asker.said[-1].startswith("Environment `e` is ready") for asker in others)


def test_who_waits_is_reminded_that_it_goes_on(tmp_path: Path) -> None:
    place, said = get_place(tmp_path, "key"), []
    fd = place.try_lock()
    assert fd is not None

    def check() -> None:
        if len(said) == 3:
            raise Stopped

    with place.signed(fd, "Run a_1"), pytest.raises(Stopped):
        build_once(place, lambda fd: {}, say=said.append, check=check, user=None, who="Run b_1", remind_every_s=0.6)
    assert said[0] == f"Run a_1 (process {os.getpid()}) builds this environment; using it when it is ready."
    assert said[2] == said[0] + " Waiting for 1 s."


def test_a_build_that_fails_fails_for_all_who_waited_and_is_tried_again_by_who_asks_later(
    tmp_path: Path, slow: SlowPackage
) -> None:
    first = Asker(tmp_path / "home", slow_spec(slow))
    wait_for(slow.pids)
    second = Asker(tmp_path / "home", slow_spec(slow))
    wait_for(lambda: second.has_said("builds this environment"))
    slow.let_fail()
    first.join(30)
    second.join(30)

    assert len(slow.pids()) == 1
    assert isinstance(first.error, SubmitRejected) and "it shall fail" in first.error.why
    assert str(second.error) == str(first.error)
    (slow.signals / "fail").unlink()
    assert imports(uv_builder(tmp_path / "home").build(slow_spec(slow), say=print), "slow")


def test_a_stopped_build_ends_at_once_with_all_its_processes_and_the_next_in_line_builds(
    tmp_path: Path, slow: SlowPackage
) -> None:
    first = Asker(tmp_path / "home", slow_spec(slow))
    [pid] = wait_for(slow.pids)
    second = Asker(tmp_path / "home", slow_spec(slow))
    wait_for(lambda: second.has_said("builds this environment"))
    first.is_stopped.set()
    first.join(10)

    assert isinstance(first.error, Stopped)
    wait_for(lambda: not lives(pid))
    wait_for(lambda: len(slow.pids()) == 2)
    slow.let_go()
    second.join(30)
    assert second.built is not None and imports(second.built, "slow")


def test_who_waits_can_be_stopped_too(tmp_path: Path, slow: SlowPackage) -> None:
    first = Asker(tmp_path / "home", slow_spec(slow))
    wait_for(slow.pids)
    second = Asker(tmp_path / "home", slow_spec(slow))
    wait_for(lambda: second.has_said("builds this environment"))
    second.is_stopped.set()
    second.join(10)

    assert isinstance(second.error, Stopped)
    assert first.is_alive()
    slow.let_go()
    first.join(30)
    assert first.built is not None


def test_a_killed_build_leaves_nothing_that_looks_finished(tmp_path: Path, slow: SlowPackage) -> None:
    home = tmp_path / "home"
    process = slow_process(home, slow)
    [pid] = wait_for(slow.pids)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()

    [folder] = (home / "environments").iterdir()
    assert not (folder / "ready.json").exists()
    # uv itself was in a session of its own and goes on: nobody may build beside it.
    asker = Asker(home, slow_spec(slow))
    wait_for(lambda: asker.has_said("builds this environment"))
    assert lives(pid) and len(slow.pids()) == 1
    slow.let_go()
    asker.join(30)
    assert asker.built is not None and imports(asker.built, "slow")
    assert (folder / "ready.json").exists()


def kill_builds(home: Path, wheels: Path, *, times: int, seed: int) -> None:
    """Kill builds at random instants, each followed by a good one of the same environment."""
    chance = random.Random(seed)
    for number in range(times):
        make_wheel(wheels, f"p{number}")
        process = builder_process(home, f'offline(Path({str(wheels)!r}), "p{number}", "alpha")')
        kill_some_time(process, home, number, chance)

        built = uv_builder(home).build(offline(wheels, f"p{number}", "alpha"), say=lambda line: None)
        assert imports(built, f"p{number}") and imports(built, "alpha")


def kill_some_time(process: subprocess.Popen[str], home: Path, known: int, chance: random.Random) -> None:
    """Kill a builder, half of the times with its programs: after its start, or after the start of its build."""
    if chance.random() < 0.7:
        wait_for(lambda: process.poll() is not None or len(built_folders(home)) > known)
    deadline = time.monotonic() + chance.uniform(0.0, 0.3)
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    below = [int(name) for name in os.listdir("/proc") if name.isdigit() and is_below(int(name), process.pid)]
    for pid in [process.pid, *below] if chance.random() < 0.5 else [process.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.communicate()


def built_folders(home: Path) -> list[str]:
    return os.listdir(home / "environments") if (home / "environments").exists() else []


def is_below(pid: int, parent: int) -> bool:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) == parent
    except OSError:
        return False


def test_builds_killed_at_random_instants_are_followed_by_good_ones(tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "alpha")
    kill_builds(tmp_path / "home", tmp_path / "wheels", times=5, seed=1)


@pytest.mark.soak
def test_a_hundred_builds_killed_at_random_instants_are_followed_by_good_ones(tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "alpha")
    kill_builds(tmp_path / "home", tmp_path / "wheels", times=100, seed=2)
