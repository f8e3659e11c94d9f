"""The private server's process: one per home, private, and back after anything."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runyard.client.private_server import connect, find
from runyard.core.config.runtime_folder import home_key, runtime_folder
from runyard.core.errors import RunyardError, ServerNotStarted, StoreUnavailable
from tests.server.browser_session import both_halves
from tests.server.private import holder_of, is_alive, kill, log_of, mode_of, pid_of, settings_of, start, stop
from tests.server.raw_http import tcp_door
from tests.waiting import wait_for

ASK_FOR_PID = """
from runyard.client.private_server import connect
from runyard.core.config.settings import read_settings
print(connect(read_settings()).server.info().pid)
"""


def run_python(code: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments, "-c", code],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_ten_first_calls_at_once_end_in_one_server(home: Path) -> None:
    with ThreadPoolExecutor(10) as pool:
        results = list(pool.map(lambda _: run_python(ASK_FOR_PID), range(10)))

    assert [result.stderr for result in results if result.returncode] == []
    assert len({result.stdout for result in results}) == 1
    assert log_of(home).count(" serves ") == 1


def test_a_killed_server_leaves_no_obstacle_and_the_next_keeps_id_and_port(home: Path) -> None:
    first = start(home).server.info()
    kill(first.pid)
    assert Path(holder_of(home)["socket"]).exists()

    second = start(home).server.info()

    assert second.pid != first.pid
    assert (second.id, second.url) == (first.id, first.url)


def test_a_client_goes_on_when_its_server_was_killed(home: Path) -> None:
    client = connect(settings_of(home))
    first = client.server.info()
    kill(first.pid)

    second = client.server.info()

    assert second.pid != first.pid
    assert second.id == first.id


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_and_nothing_is_left_over(home: Path, number: signal.Signals) -> None:
    client = start(home)
    pid = pid_of(client)
    os.kill(pid, number)
    wait_for(lambda: not is_alive(pid))

    assert not os.path.exists(str(client.address.path))
    assert (home / "server/lock").read_bytes() == b""
    assert f"Leaving: signal {number.name}" in log_of(home)


def test_it_can_be_asked_to_leave_and_is_then_not_found(home: Path) -> None:
    client = start(home)
    pid = pid_of(client)
    client.server.stop()
    wait_for(lambda: not is_alive(pid))

    assert find(settings_of(home)) is None
    assert "Leaving: asked to" in log_of(home)


@pytest.mark.long
def test_it_leaves_when_nothing_was_asked_for_long_enough(home: Path) -> None:
    client = start(home, RUNYARD_IDLE_STOP="1")
    pid = holder_of(home)["pid"]
    for _ in range(4):
        client.server.info()
    wait_for(lambda: not is_alive(pid), timeout_s=20)

    assert "Leaving: nothing to do" in log_of(home)
    assert not os.path.exists(str(client.address.path))


def test_a_socket_that_something_cleaned_away_is_made_again(home: Path) -> None:
    client = start(home)
    pid, path = pid_of(client), str(client.address.path)
    os.unlink(path)
    wait_for(lambda: os.path.exists(path))

    assert pid_of(start(home)) == pid
    assert mode_of(path) == 0o600


@pytest.mark.long
def test_a_kept_port_that_somebody_took_is_replaced_and_the_log_says_so(home: Path) -> None:
    port = int(start(home).server.info().url.rpartition(":")[2])
    stop(home)
    with socket.create_server(("127.0.0.1", port)):
        other = int(start(home).server.info().url.rpartition(":")[2])
    stop(home)
    again = int(start(home).server.info().url.rpartition(":")[2])

    assert other != port
    assert again == other
    assert f"Port {port}, kept from before, is taken" in log_of(home)


@pytest.mark.long
@pytest.mark.parametrize("is_taken", [True, False])
def test_whoever_takes_our_port_meanwhile_ends_all_sessions(home: Path, is_taken: bool) -> None:
    """Browsers that opened a page there gave it their sessions. The control: a restart on our own port ends none."""
    client = start(home)
    port = int(client.server.info().url.rpartition(":")[2])
    session = f"Cookie: {both_halves(tcp_door(port).ask('GET', client.server.signin_path('/')))}"
    assert tcp_door(port).ask("GET", "/api/v1/server", [session]).status == 200
    stop(home)
    if is_taken:
        with socket.create_server(("127.0.0.1", port)):
            now = int(start(home).server.info().url.rpartition(":")[2])
    else:
        now = int(start(home).server.info().url.rpartition(":")[2])

    assert (now != port) == is_taken
    assert tcp_door(now).ask("GET", "/api/v1/server", [session]).status == (401 if is_taken else 200)


@pytest.mark.long
def test_a_wanted_port_is_used_or_the_error_says_what_to_do(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServerNotStarted, match=str(port)) as caught:
            start(home, RUNYARD_PORT=str(port))

    assert "RUNYARD_PORT" in caught.value.hint
    assert start(home, RUNYARD_PORT=str(port)).server.info().url == f"http://127.0.0.1:{port}"


def test_a_home_that_another_host_uses_is_refused_with_the_next_step(home: Path) -> None:
    lock = home / "server/lock"
    lock.parent.mkdir(mode=0o700)
    holder = {"host": "other-host", "boot_id": "b", "pid": 7, "start_ticks": 1, "socket": "/none"}
    lock.write_text(json.dumps(holder))
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ServerNotStarted, match="other-host") as caught:
            start(home)

    assert "runyard server stop" in caught.value.hint
    assert "RUNYARD_HOME" in caught.value.hint


def test_a_lock_from_before_a_restart_of_this_host_is_no_obstacle(home: Path) -> None:
    lock = home / "server/lock"
    lock.parent.mkdir(mode=0o700)
    holder = {"host": socket.gethostname(), "boot_id": "old", "pid": 1, "start_ticks": 1, "socket": "/none"}
    lock.write_text(json.dumps(holder))

    assert holder_of(home)["boot_id"] == "old"
    assert start(home).server.info().host == socket.gethostname()
    assert holder_of(home)["boot_id"] != "old"


def test_what_the_server_finds_wrong_reaches_the_caller(home: Path) -> None:
    (home / "server").mkdir(mode=0o700)
    (home / "server/runyard.db").write_bytes(b"this is not a database" * 100)
    with pytest.raises(StoreUnavailable) as caught:
        start(home)

    assert "runyard.db" in str(caught.value)
    assert caught.value.hint


def test_an_open_home_with_other_peoples_files_is_refused(home: Path) -> None:
    (home / "thesis.tex").touch()
    home.chmod(0o755)
    with pytest.raises(ServerNotStarted, match="cannot be used"):
        start(home)

    assert mode_of(home) == 0o755


@pytest.mark.long
def test_an_open_but_empty_home_is_closed(home: Path) -> None:
    home.chmod(0o755)
    start(home)

    assert mode_of(home) == 0o700


@pytest.mark.parametrize(
    ("text", "mode", "reason"),
    [("ryt_" + "0" * 64, 0o644, "Others can read it"), ("short", 0o600, "does not hold a token")],
)
def test_a_token_file_that_is_not_safe_is_refused(home: Path, text: str, mode: int, reason: str) -> None:
    (home / "server").mkdir(mode=0o700)
    (home / "server/token").write_text(text)
    (home / "server/token").chmod(mode)
    with pytest.raises(ServerNotStarted, match=reason):
        start(home)


def test_the_log_starts_anew_when_it_is_large(home: Path) -> None:
    (home / "server").mkdir(mode=0o700)
    (home / "server/server.log").write_bytes(b"x" * (8 << 20))
    pid = pid_of(start(home))

    assert log_of(home).count(" serves ") == 1
    assert (home / "server/server.log").stat().st_size < 10_000
    assert (home / "server/server.log.1").stat().st_size >= 8 << 20
    assert os.readlink(f"/proc/{pid}/fd/2") == str(home / "server/server.log")


def private(folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    return folder


def test_a_runtime_folder_that_is_not_ours_alone_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    place = private(tmp_path / "x")
    environ = {"XDG_RUNTIME_DIR": str(place)}
    folder = runtime_folder(home, environ)
    assert folder.parent == place
    assert mode_of(folder) == 0o700

    folder.chmod(0o755)
    with pytest.raises(ServerNotStarted, match="Others may enter it"):
        runtime_folder(home, environ)
    folder.rmdir()
    folder.symlink_to(private(tmp_path / "elsewhere"))
    with pytest.raises(ServerNotStarted, match="a link"):
        runtime_folder(home, environ)


def test_a_runtime_folder_is_elsewhere_when_the_usual_one_is_open_or_too_long(tmp_path: Path) -> None:
    home = tmp_path / "home"
    open_place = private(tmp_path / "open")
    open_place.chmod(0o755)
    long_place = private(tmp_path / ("l" * 100))

    for place in (open_place, long_place, tmp_path / "missing"):
        folder = runtime_folder(home, {"XDG_RUNTIME_DIR": str(place)})
        assert folder.parent == Path(f"/tmp/runyard-{os.getuid()}")
        assert mode_of(folder) == 0o700
        folder.rmdir()


@pytest.mark.parametrize("trap", ["link", "file", "open", "somebody else's", "inside"])
def test_where_the_shared_folder_is_taken_the_socket_lies_in_the_home(tmp_path: Path, trap: str) -> None:
    """Another local user can make `runyard-<uid>` first; then there was no service."""
    home, shared, elsewhere = tmp_path / "h", tmp_path / "t", private(tmp_path / "elsewhere")
    shared.mkdir()
    planted = shared / f"runyard-{os.getuid()}"
    if trap == "link":
        planted.symlink_to(elsewhere)
    elif trap == "file":
        planted.touch()
    elif trap == "open":
        planted.mkdir()
        planted.chmod(0o777)
    elif trap == "inside":
        private(planted).joinpath(home_key(home)).symlink_to(elsewhere)
    else:
        shared.chmod(0o555)  # as far as this test can tell, the same: it cannot be made
    if trap == "somebody else's" and os.getuid() == 0:
        private(planted)
        os.chown(planted, 65534, 65534)
    folder = runtime_folder(home, {}, shared=str(shared))

    assert folder == home / "server" / "run" and mode_of(folder) == 0o700
    assert runtime_folder(home, {}, shared=str(shared)) == folder  # client and server agree
    assert list(elsewhere.iterdir()) == []


def test_a_home_whose_path_is_too_long_for_a_socket_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / f"runyard-{os.getuid()}").touch()
    with pytest.raises(ServerNotStarted, match="cannot hold the private server's socket") as caught:
        runtime_folder(tmp_path / ("long/" * 30), {}, shared=str(tmp_path))

    assert "XDG_RUNTIME_DIR" in caught.value.hint


def test_a_folder_planted_in_the_home_is_not_used(tmp_path: Path) -> None:
    home = tmp_path / "h"
    (tmp_path / f"runyard-{os.getuid()}").touch()
    (home / "server").mkdir(parents=True)
    (home / "server" / "run").symlink_to(private(tmp_path / "elsewhere"))

    with pytest.raises(ServerNotStarted, match="a link"):
        runtime_folder(home, {}, shared=str(tmp_path))


def test_two_spellings_of_one_home_are_one_home(tmp_path: Path) -> None:
    real = private(tmp_path / "real")
    (tmp_path / "link").symlink_to(real)
    environ = {"XDG_RUNTIME_DIR": str(private(tmp_path / "x"))}

    assert runtime_folder(real, environ) == runtime_folder(tmp_path / "link", environ)
    assert runtime_folder(real, environ) != runtime_folder(tmp_path / "other", environ)


def test_errors_of_a_start_are_ours(home: Path) -> None:
    home.rmdir()
    home.write_text("a file")
    try:
        with pytest.raises(RunyardError, match="cannot be read"):
            start(home)
    finally:
        home.unlink()
        home.mkdir()


def test_the_server_starts_no_threads_for_algebra_and_its_runs_choose_for_themselves() -> None:
    """OpenBLAS starts one for each core at numpy's import; where memory is limited it sends SIGINT instead."""
    script = (
        "import os, subprocess, sys\n"
        "from runyard.server.__main__ import use_one_thread_for_algebra\n"
        "use_one_thread_for_algebra()\n"
        "import numpy\n"
        "print(len(os.listdir('/proc/self/task')), 'OPENBLAS_NUM_THREADS' in dict(os.environ))\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert found.stdout.split() == ["1", "False"]
