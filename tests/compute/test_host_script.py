"""The program that the backend `ssh` runs on its machines, run here: starts, stands, wakes, adopts and ends nodes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from runyard.compute.ssh import host_script
from runyard.compute.ssh.client import BOOTSTRAP, find_answer
from runyard.supervisor.node import bootstrap
from tests.conftest import is_zombie
from tests.interpreters import pythons
from tests.waiting import wait_for

# Stands in for supervisor/node/bootstrap.py: claims the run folder as a supervisor does, with a child that carries
# its cookie, and leaves when it is told to.
NODE = """
import fcntl, json, os, subprocess, sys, time

def private_home(path):
    os.makedirs(path, 0o700, exist_ok=True)
    return path

def connect(server):
    raise OSError("nobody is there")

def main():
    order = json.loads(os.environ["RUNYARD_TICKET"])
    print("looking for the server", flush=True)
    while not os.path.exists(order["go"]):
        time.sleep(0.005)
    os.makedirs(order["folder"], 0o700)
    write(order, "job.json", {"cookie": order["cookie"], "bundle": "0" * 64})
    stat = open("/proc/self/stat").read().rpartition(")")[2].split()
    boot_id = open("/proc/sys/kernel/random/boot_id").read().strip()
    claim = open(order["folder"] + "/claim", "w")
    fcntl.flock(claim, fcntl.LOCK_EX)
    claim.write(json.dumps({"pid": os.getpid(), "start_ticks": int(stat[19]), "boot_id": boot_id}))
    claim.flush()
    child = subprocess.Popen(["sleep", "600"], env={"RUNYARD_COOKIE": order["cookie"]}, start_new_session=True)
    write(order, "child.json", {"pid": child.pid})
    while not os.path.exists(order["stop"]):
        time.sleep(0.005)
    child.kill()
    for name in os.listdir(order["folder"]):
        os.unlink(order["folder"] + "/" + name)
    os.rmdir(order["folder"])

def write(order, name, value):
    with open(order["folder"] + "/" + name, "w") as file:
        json.dump(value, file)

if __name__ == "__main__":
    main()
"""
RUN = "exp_1_0000abcd"


class Remote:
    """A machine: a node home, and answers of the program there."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.home = folder / "node home $(touch x)"
        self.go, self.stop = folder / "go", folder / "stop"
        self.cookie = f"cookie-{folder.name}"
        self._python = python

    def ask(self, do: str, **about: Any) -> Any:
        program = Path(host_script.__file__).read_bytes()
        request = {"do": do, "host": "hostA", "node_home": str(self.home), "node_start": NODE, **about}
        words = [self._python, "-I", "-c", BOOTSTRAP]
        sent = b"%d\n%s%s" % (len(program), program, json.dumps(request).encode())
        ended = subprocess.run(words, input=sent, capture_output=True, check=False, cwd="/")
        answer = find_answer(ended.stdout)
        assert answer is not None, ended.stderr.decode()
        return answer

    def start(self, rank: int = 0, **about: Any) -> list[bool]:
        order = {name: str(getattr(self, name)) for name in ("go", "stop", "cookie")}
        ticket = json.dumps({**order, "folder": str(self.folder(rank))})
        node = {"run_id": RUN, "attempt": 1, "rank": rank, "count": 1, "ticket": ticket}
        return list(self.ask("start", nodes=[node], **about)["started"])

    def stand(self, **about: Any) -> tuple[str, str, str]:
        (nodes,) = self.ask("look", jobs=[[RUN, 1]], **about)["jobs"]
        return (nodes[0]["state"], nodes[0]["why"], nodes[0]["cause"]) if nodes else ("", "", "")

    def end(self) -> int:
        return int(self.ask("end", jobs=[[RUN, 1]], patience_s=0)["killed"])

    def folder(self, rank: int = 0) -> Path:
        return self.home / "runs" / RUN / ("1" if rank == 0 else f"1-{rank}")

    def record(self) -> Path:
        return self.home / "starts" / RUN / "1-0.json"

    def pid(self, name: str) -> int:
        return int(json.loads((self.folder() / name).read_text())["pid"])

    def claimed(self) -> None:
        self.go.touch()
        wait_for(lambda: (self.folder() / "child.json").exists() and (self.folder() / "child.json").read_text())


@pytest.fixture
def remote(tmp_path: Path) -> Any:
    remote = Remote(tmp_path)
    yield remote
    remote.end()


def is_gone(pid: int) -> bool:
    return not os.path.exists(f"/proc/{pid}") or is_zombie(pid)


@pytest.mark.parametrize("python", list(pythons().values()), ids=list(pythons()))
def test_a_node_waits_lives_and_leaves_and_is_started_once(tmp_path: Path, python: str) -> None:
    remote = Remote(tmp_path, python)

    assert remote.stand() == ("", "", "")
    assert remote.start() == [True] and remote.start() == [False]
    wait_for(lambda: remote.stand() == ("waiting", "looking for the server", ""))
    remote.claimed()
    assert remote.stand()[0] == "alive" and remote.start() == [False]
    remote.stop.touch()
    wait_for(lambda: remote.stand()[::2] == ("gone", "ended"))
    assert remote.end() == 0
    assert remote.stand() == ("", "", "") and not list(remote.home.glob("starts/*/*"))
    assert not list(tmp_path.rglob("x")), "a folder's name was taken for a command"


def test_the_ticket_is_in_no_command_line_and_the_logs_are_private(remote: Remote) -> None:
    remote.start()
    pid = json.loads(remote.record().read_text())["pid"]

    wait_for(lambda: b"RUNYARD_TICKET" in Path(f"/proc/{pid}/environ").read_bytes())
    assert remote.cookie.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert {path.stat().st_mode & 0o077 for path in remote.home.rglob("*")} == {0}


def test_a_node_whose_supervisor_was_killed_is_orphaned_until_all_is_ended(remote: Remote) -> None:
    remote.start()
    remote.claimed()
    child = remote.pid("child.json")
    os.kill(remote.pid("claim"), signal.SIGKILL)
    wait_for(lambda: remote.stand()[0] == "orphaned")

    assert not is_gone(child)
    assert remote.end() >= 1
    assert is_gone(child) and not remote.folder().exists() and not remote.folder().parent.exists()


def test_a_node_that_does_not_leave_is_killed_with_all_that_it_started(remote: Remote) -> None:
    remote.start()
    remote.claimed()
    supervisor, child = remote.pid("claim"), remote.pid("child.json")
    (remote.folder() / "locked").mkdir(mode=0o000)
    outside = remote.go.parent / "outside"
    outside.mkdir(mode=0o750)
    (outside / "kept").touch()
    (remote.folder() / "link").symlink_to(outside)

    assert remote.end() >= 2
    assert is_gone(supervisor) and is_gone(child) and not remote.folder().exists()
    assert (outside / "kept").exists() and outside.stat().st_mode & 0o777 == 0o750


def test_after_a_restart_of_the_machine_what_was_starting_is_lost_and_what_ran_is_orphaned(remote: Remote) -> None:
    remote.start()
    record = json.loads(remote.record().read_text())
    remote.record().write_text(json.dumps({**record, "boot_id": "another"}))

    assert remote.stand() == ("gone", "the machine was started again", "node lost")
    remote.record().write_text(json.dumps(record))
    remote.claimed()
    os.kill(remote.pid("claim"), signal.SIGKILL)
    remote.record().write_text(json.dumps({**record, "boot_id": "another"}))
    wait_for(lambda: remote.stand()[0] == "orphaned")
    remote.record().write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ('sys.exit("runyard: no space left\\nhint: free some")', "no space left hint: free some"),
        ('raise OSError("no space left")', "OSError: no space left"),
    ],
)
def test_a_node_that_gives_up_before_it_began_to_work_is_lost_with_its_last_words(
    remote: Remote, fault: str, expected: str
) -> None:
    fails = NODE.replace('while not os.path.exists(order["go"]):', f"while True:\n        {fault}")
    remote.start(node_start=fails)

    wait_for(lambda: remote.stand() == ("gone", expected, "node lost"))
    assert remote.start(node_start=fails) == [True]


def test_hosts_that_share_a_disk_leave_each_others_nodes_alone(remote: Remote) -> None:
    remote.start(host="hostB")
    remote.claimed()

    assert remote.stand() == ("", "", "") and remote.end() == 0
    assert remote.stand(host="hostB")[0] == "alive"
    remote.stop.touch()
    wait_for(lambda: remote.stand(host="hostB")[0] == "gone")


def test_a_wake_reaches_the_folder_and_one_without_a_reader_is_no_error(remote: Remote) -> None:
    remote.start()
    remote.claimed()
    os.mkfifo(remote.folder() / "wake")
    reader = os.open(remote.folder() / "wake", os.O_RDONLY | os.O_NONBLOCK)
    remote.ask("wake", jobs=[[RUN, 1]])

    assert os.read(reader, 10) == b"\n" and (remote.folder() / "control.json").exists()
    os.close(reader)
    remote.ask("wake", jobs=[[RUN, 1]])


def test_a_probe_tells_what_the_machine_is_and_whether_it_reaches_the_server(remote: Remote) -> None:
    found = remote.ask("probe", server={"kind": "tcp", "host": "127.0.0.1", "port": 1})

    assert found["python"] == sys.version.split()[0] and found["cpus"] >= 1 and found["free_bytes"] > 0
    assert "refused" in found["server"]
    assert remote.ask("probe")["server"] == ""


def test_records_that_are_ended_meanwhile_disturb_no_start(tmp_path: Path) -> None:
    """A start looks at all records for old ones, and others are ended at any time."""
    common = {"host": "hostA", "node_home": str(tmp_path), "node_start": Path(bootstrap.__file__).read_text()}
    over = threading.Event()
    starts: list[dict[str, Any]] = []

    def keep_starting() -> None:
        while not over.is_set():
            starts.append(host_script.Machine({"do": "start", "nodes": [], **common}).answer())

    def end(run_id: str) -> dict[str, Any]:
        return host_script.Machine({"do": "end", "jobs": [[run_id, 1]], "patience_s": 0, **common}).answer()

    with ThreadPoolExecutor(1) as threads:
        starting = threads.submit(keep_starting)
        try:
            for run_id in (f"run_{number}" for number in range(30)):
                record = tmp_path / "starts" / run_id / "1-0.json"
                record.parent.mkdir(parents=True)
                facts = {"run_id": run_id, "attempt": 1, "rank": 0, "count": 1, "host": "hostA"}
                record.write_text(json.dumps({**facts, "pid": 0, "start_ticks": 0, "boot_id": "another"}))
                assert end(run_id) == {"killed": 0} and not record.parent.exists()
        finally:
            over.set()
        starting.result()

    assert starts and all(answer == {"started": []} for answer in starts)
