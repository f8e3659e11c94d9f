"""Shared fixtures: nothing touches the real home, and no process of ours outlives the tests."""

from __future__ import annotations

import functools
import inspect
import os
import shutil
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

# How long an example takes says nothing on a busy machine.
hypothesis.settings.register_profile("busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("busy")
pytest.register_assert_rewrite("runyard.testing", "tests.cluster.scenarios")

# Processes that tests start inherit it, ranks too; the server and supervisors do not, but know their home.
COOKIE = "PYTEST_PROCESS_COOKIE"
# Of the person who runs the tests: none of it may reach them.
FOREIGN = ("RUNYARD_", "AZUREML_", "PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE")


@pytest.fixture(scope="session", autouse=True)
def session_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A short folder for this worker: homes, sockets. At the end every process that knows it is gone."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what ends in &; scripts would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.MonkeyPatch.context() as patch:
        folder = Path(tempfile.mkdtemp(prefix="ry-"))  # short: socket paths end at 107 bytes
        for name in [name for name in os.environ if name.startswith(FOREIGN)]:
            patch.delenv(name)
        for name in ("home", "run"):
            (folder / name).mkdir(mode=0o700)
        patch.setenv(COOKIE, uuid.uuid4().hex)
        patch.setenv("RUNYARD_HOME", str(folder / "home"))
        patch.setenv("XDG_RUNTIME_DIR", str(folder / "run"))
        patch.setenv("RUNYARD_IDLE_STOP", "300")
        yield folder
        stop_server(folder / "home")
        cookie, places = os.environ[COOKIE], (folder, tmp_path_factory.getbasetemp())
        left = end_processes(
            lambda pid: environ_of(pid, COOKIE) == cookie or any(belongs_to(pid, place) for place in places),
            home=folder / "home",
        )
        shutil.rmtree(folder, ignore_errors=True)
    assert not left, "processes left after the tests:\n" + "\n".join(left)


@pytest.fixture
def home(session_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A fresh RUNYARD_HOME for one test; its server is stopped and nothing of it is left afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="h", dir=session_folder))
    monkeypatch.setenv("RUNYARD_HOME", str(folder))
    yield folder
    end_home(folder)


def end_home(home: Path, *, patience_s: float = 20.0) -> None:
    """Stop the home's server, wait until nothing lives there, and remove it. Fail for a process that stayed."""
    stop_server(home)
    left = end_processes(lambda pid: belongs_to(pid, home), home=home, patience_s=patience_s)
    log = home / "server" / "server.log"
    lines = log.read_text(errors="replace").splitlines()[-20:] if left and log.exists() else []
    shutil.rmtree(home, ignore_errors=True)
    assert not left, "\n".join(["processes left after the test:", *left, "the end of the server's log:", *lines])


def stop_server(home: Path) -> None:
    """Ask the home's private server to leave, when there is one."""
    if not (home / "server").exists():
        return
    from runyard.client.private_server import find
    from runyard.core.config.settings import read_settings
    from runyard.core.errors import RunyardError

    try:
        client = find(read_settings({**os.environ, "RUNYARD_HOME": str(home)}))
        if client is not None:
            client.server.stop()
    except RunyardError:
        pass  # what does not answer is ended below


def end_processes(ours: Callable[[int], bool], *, home: Path | None = None, patience_s: float = 20.0) -> list[str]:
    """Wait for processes for which `ours(pid)` holds to leave; kill and name those that stay.

    Whoever watches a run and has something left to send starts its server again, so that one is asked again to leave.
    """
    now = time.monotonic()
    deadline, ask_at = now + patience_s, now + 2.0
    while left := [pid for pid in live_pids() if ours(pid)]:
        now = time.monotonic()
        if now > deadline:
            break
        if home is not None and now > ask_at:
            stop_server(home)
            ask_at = now + 2.0
        time.sleep(0.02)
    names = [f"{pid}: {command_of(pid)}{run_of(pid)}" for pid in left]
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return names


def kill_all(folder: Path) -> None:
    """Kill everything that lives in `folder`, also what the killed start again meanwhile."""
    for _ in range(100):
        if not end_processes(lambda pid: belongs_to(pid, folder), patience_s=0.0):
            return


def live_pids() -> list[int]:
    mine = os.getpid()
    return [
        int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != mine and not is_zombie(int(name))
    ]


def is_zombie(pid: int) -> bool:
    return read_proc(pid, "stat").rpartition(b")")[2].split()[:1] == [b"Z"]


def environ_of(pid: int, name: str) -> str | None:
    prefix = name.encode() + b"="
    for item in read_proc(pid, "environ").split(b"\0"):
        if item.startswith(prefix):
            return os.fsdecode(item[len(prefix) :])
    return None


def belongs_to(pid: int, folder: Path) -> bool:
    """Whether the process lives or works in `folder`: one that emptied its variables is still found."""
    try:
        cwd = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        cwd = ""
    places = (environ_of(pid, "RUNYARD_HOME") or "", cwd)
    return any(place == str(folder) or place.startswith(f"{folder}/") for place in places)


def command_of(pid: int) -> str:
    return os.fsdecode(read_proc(pid, "cmdline").replace(b"\0", b" "))[:300]


def run_of(pid: int) -> str:
    """Return which run's files the process has open, as the end of a line about it."""
    try:
        opened = [os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return ""
    return next((f"with {path} open" for path in opened if "/runs/" in path), "")


def read_proc(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


# Who imports one of these can start a process or the private server.
STARTERS = {"subprocess", "multiprocessing", "runyard.client.private_server", "runyard.sdk.workspaces.workspace"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark `processes` what `make test-fast` leaves out: tests whose file, or a fixture's file, can start some."""
    for item in items:
        assert isinstance(item, pytest.Function)
        fixtures = [found[-1].func.__module__ for found in item._fixtureinfo.name2fixturedefs.values()]
        if "home" in item.fixturenames or any(map(can_start_processes, {item.module.__name__, *fixtures})):
            item.add_marker("processes")


@functools.cache
def can_start_processes(module: str) -> bool:
    """Whether the module, or a helper of the tests that it takes something from, imports one of STARTERS."""
    things = vars(sys.modules[module]).values()
    sources = {getattr(thing, "__name__" if inspect.ismodule(thing) else "__module__", None) for thing in things}
    helpers = [name for name in sources if str(name).startswith("tests.") and name not in (module, __name__)]
    return bool(STARTERS & sources) or any(map(can_start_processes, helpers))
