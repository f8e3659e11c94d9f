"""The program that the server runs on a machine over SSH. It needs Python 3.8 and the standard library.

`client.py` sends it with one request on standard input, and reads one line of JSON from standard output. Nothing of it
stays on the machine. Its state lies below the node home: in `starts/<run>/<attempt>-<rank>.json`, one record for each
node of a run that was started here, and in the run folders with their locks.
"""

from __future__ import annotations

import fcntl
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, TypedDict, Union, cast

MARK = "runyard-answer "  # separates the answer from what login scripts print
END_PATIENCE_S = 6.0  # an ended node's supervisor sends its last words and clears up
KILL_PATIENCE_S = 10.0
REACH_S = 8.0
GAVE_UP = "runyard: "  # how `supervisor/node/bootstrap.py` begins its last words
OLD_RECORD_S = 14 * 86400.0

Answer = Mapping[str, object]


class NodeOrder(TypedDict):
    """A node of a run that the request starts on this machine."""

    run_id: str
    attempt: int
    rank: int
    count: int  # of the run's nodes
    ticket: str


class StartRecord(TypedDict):
    """`starts/<run>/<attempt>-<rank>.json`: a node that was started here, and the process that was."""

    run_id: str
    attempt: int
    rank: int
    count: int
    pid: int
    start_ticks: Optional[int]
    boot_id: str
    host: str  # of the target's list: several share a home where their disk is shared


class NodeState(TypedDict):
    """A node of a run in the answer to `look`."""

    rank: int
    count: int
    state: str  # alive, waiting, orphaned, gone
    why: str
    cause: str  # "ended", "node lost" or ""


class HostFacts(TypedDict):
    """The answer to `probe`."""

    python: str
    name: str
    home: str
    free_bytes: int
    cpus: int
    memory_bytes: int
    gpus: int
    time: float
    server: str  # why the machine does not reach the server; "": it does, or was not asked


class HostRequest(TypedDict, total=False):
    """What the server asks of this machine. `do` names a method of Machine."""

    do: str
    node_start: str  # the source of supervisor/node/bootstrap.py
    node_home: str
    host: str
    nodes: List[NodeOrder]  # start
    jobs: List[Tuple[str, int]]  # look, wake, adopt, end: run and attempt of each
    patience_s: float  # end
    server: Dict[str, Any]  # probe: client.address.Address as a dict


class Machine:
    """This machine, as the account of the connection sees it. `library` is supervisor/node/bootstrap.py."""

    def __init__(self, request: HostRequest) -> None:
        self.request = request
        self.library: Dict[str, Any] = {"__name__": "node_start"}
        exec(compile(request["node_start"], "node_start", "exec"), self.library)
        self.home = self.library["private_home"](request["node_home"] or f"/var/tmp/runyard-{os.getuid()}")
        self.boot_id = read_text("/proc/sys/kernel/random/boot_id").strip()

    def answer(self) -> Answer:
        """Carry out the request and return the answer."""
        acts = {
            "start": self.start,
            "look": self.look,
            "wake": self.wake,
            "adopt": self.adopt,
            "end": self.end,
            "probe": self.probe,
        }
        return acts[self.request["do"]]()

    def start(self) -> Answer:
        """Start the nodes that have no record yet; they outlive this connection. May be repeated."""
        with self._locked_starts() as folder:
            self._prune(folder)
            return {"started": [self._start(node) for node in self.request["nodes"]]}

    def look(self) -> Answer:
        """Return the state of each node that was started here, by job."""
        return {
            "jobs": [
                [self._stand(record) for record in self._records(run_id, attempt)]
                for run_id, attempt in self.request["jobs"]
            ]
        }

    def wake(self) -> Answer:
        """Wake the supervisors of the jobs, so that they ask the server for the desired state."""
        for record in self._asked():
            wake(self._folder(record))
        return {}

    def adopt(self) -> Answer:
        """Start an adopter for each orphaned node; of two adopters one leaves at once."""
        adopted = [record for record in self._asked() if self._stand(record)["state"] == "orphaned"]
        for record in adopted:
            self._adopt(self._folder(record))
        return {"adopted": len(adopted)}

    def end(self) -> Answer:
        """Wait some seconds for the nodes to leave, kill the rest, and remove their files. May be repeated."""
        records = self._asked()
        deadline = time.monotonic() + self.request.get("patience_s", END_PATIENCE_S)
        while any(self._stand(record)["state"] in ("alive", "waiting") for record in records):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        killed = sum(self._kill(record) for record in records)
        for record in records:
            remove(self._folder(record))
        with self._locked_starts():
            for record in records:
                forget(self._record_path(record))
        return {"killed": killed}

    def probe(self) -> HostFacts:
        """Return Python, resources and free space of this machine, and whether it reaches the server."""
        server = self.request.get("server")
        return {
            "python": sys.version.split()[0],
            "name": socket.gethostname(),
            "home": self.home,
            "free_bytes": shutil.disk_usage(self.home).free,
            "cpus": len(os.sched_getaffinity(0)),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "gpus": len(glob.glob("/dev/nvidia[0-9]*")),
            "time": time.time(),
            "server": self._reach(server) if server else "",
        }

    @contextmanager
    def _locked_starts(self) -> Iterator[str]:
        """The folder of records, for one process at a time: what one reads there another must not remove."""
        folder = os.path.join(self.home, "starts")
        os.makedirs(folder, 0o700, exist_ok=True)
        with open(os.path.join(folder, ".lock"), "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder

    def _start(self, node: NodeOrder) -> bool:
        path = self._record_path(node)
        record = read_json(path)
        if record.get("boot_id") == self.boot_id and (lives(record) or os.path.exists(self._folder(node))):
            return False
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        pid = self._spawn(["-S", "-c", self.request["node_start"]], {"RUNYARD_TICKET": node["ticket"]}, path + ".log")
        started: StartRecord = {
            "run_id": node["run_id"],
            "attempt": node["attempt"],
            "rank": node["rank"],
            "count": node["count"],
            "pid": pid,
            "start_ticks": start_ticks(pid),
            "boot_id": self.boot_id,
            "host": self.request["host"],
        }
        write_json(path, started)
        return True

    def _spawn(self, words: List[str], added: Dict[str, str], log: str) -> int:
        variables = {name: value for name, value in os.environ.items() if not name.startswith("SSH_")}
        fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", *words],
                stdin=subprocess.DEVNULL,
                stdout=fd,
                stderr=fd,
                env={**variables, **added},
                cwd="/",
                start_new_session=True,
            )
        finally:
            os.close(fd)
        process.returncode = 0  # it is not waited for here
        return process.pid

    def _stand(self, record: StartRecord) -> NodeState:
        state, why, cause = self._state(record)
        return {"rank": record["rank"], "count": record["count"], "state": state, "why": why, "cause": cause}

    def _state(self, record: StartRecord) -> Tuple[str, str, str]:
        was_alive = record["boot_id"] == self.boot_id and lives(record)
        folder = self._folder(record)
        claim = os.path.join(folder, "claim")
        if os.path.exists(claim):
            if is_locked(claim) or is_locked(os.path.join(folder, "supervisor.lock")):
                return "alive", "", ""
            # The holder of the locks removes the folder as its last act.
            is_over = not os.path.exists(claim) or os.path.exists(os.path.join(folder, "done"))
            # After a restart of the machine too: the adopting supervisor saves what is on its disk and reports the end.
            return ("gone", "", "ended") if is_over else ("orphaned", "", "")
        said, has_failed = last_words(self._record_path(record) + ".log")
        if was_alive:
            return "waiting", said or "its node gets ready", ""
        if record["boot_id"] != self.boot_id:
            return "gone", "the machine was started again", "node lost"
        return "gone", said, "node lost" if has_failed else "ended"

    def _adopt(self, folder: str) -> None:
        job = read_json(os.path.join(folder, "job.json"))
        code = os.path.join(self.home, "cache", "injection", str(job.get("bundle", "")))
        main = os.path.join(code, "runyard", "supervisor", "__main__.py")
        self._spawn([main, "--adopt", folder], {"RUNYARD_HOME": self.home}, os.path.join(folder, "adopt.log"))

    def _kill(self, record: StartRecord) -> int:
        killed, deadline = 0, time.monotonic() + KILL_PATIENCE_S
        while time.monotonic() < deadline:
            found = self._processes(record)
            if not found:
                break
            for pid in found:
                killed += kill(pid)
            time.sleep(0.02)
        return killed

    def _processes(self, record: StartRecord) -> List[int]:
        """Return what lives of a node: its supervisor and reaper, what they started, and what carries its cookie."""
        folder = self._folder(record)
        roots = [
            one for one in (record, read_json(os.path.join(folder, "claim"))) if one.get("boot_id") == self.boot_id
        ]
        heads = {int(one["pid"]) for one in roots if lives(one)}
        cookie = read_json(os.path.join(folder, "job.json")).get("cookie")
        mark = b"RUNYARD_COOKIE=%s" % str(cookie).encode() if cookie else None
        parents = {}
        for pid in pids():
            parents[pid] = parent(pid)
            words = read_bytes(f"/proc/{pid}/cmdline").split(b"\0")
            if os.fsencode(folder) in words or (mark and mark in read_bytes(f"/proc/{pid}/environ").split(b"\0")):
                heads.add(pid)
        grown = True
        while grown:
            below = {pid for pid, up in parents.items() if up in heads}
            grown = not below <= heads
            heads |= below
        return [pid for pid in heads if pid != os.getpid() and not is_zombie(pid)]

    def _reach(self, server: Dict[str, Any]) -> str:
        """Return why this machine does not reach the server; "" when it does."""
        try:
            if server["kind"] != "unix":
                socket.create_connection((server["host"].strip("[]"), int(server["port"])), timeout=REACH_S).close()
            self.library["connect"](server).close()
        except (OSError, ValueError) as error:
            return str(error) or type(error).__name__
        except SystemExit as error:  # another certificate
            return str(error.code)
        return ""

    def _asked(self) -> List[StartRecord]:
        return [record for run_id, attempt in self.request["jobs"] for record in self._records(run_id, attempt)]

    def _records(self, run_id: str, attempt: int) -> List[StartRecord]:
        """Return the records of this host's nodes; others are here where hosts share their disk."""
        found = []
        folder = os.path.join(self.home, "starts", run_id)
        for name in sorted(list_names(folder)):
            record = read_json(os.path.join(folder, name)) if name.endswith(".json") else {}
            if record.get("attempt") == attempt and record.get("host") == self.request["host"]:
                found.append(cast("StartRecord", record))
        return found

    def _record_path(self, node: Union[NodeOrder, StartRecord]) -> str:
        return os.path.join(self.home, "starts", node["run_id"], f"{node['attempt']}-{node['rank']}.json")

    def _folder(self, node: Union[NodeOrder, StartRecord]) -> str:
        """As supervisor/node/node.py names it."""
        name = str(node["attempt"]) if node["rank"] == 0 else f"{node['attempt']}-{node['rank']}"
        return os.path.join(self.home, "runs", node["run_id"], name)

    def _prune(self, folder: str) -> None:
        """Forget nodes that we were never asked to end: their server is gone for good."""
        oldest = time.time() - OLD_RECORD_S
        for path in glob.glob(os.path.join(glob.escape(folder), "*", "*.json")):
            try:
                is_old = os.stat(path).st_mtime < oldest
            except OSError:  # a user who cleans this folder by other means does not ask for the lock
                continue
            record = read_json(path) if is_old else {}
            if record and self._state(cast("StartRecord", record))[0] == "gone":
                forget(path)


def wake(folder: str) -> None:
    """Write `control.json` and ring the FIFO of a run folder."""
    try:
        write_json(os.path.join(folder, "control.json"), {"desired": None, "at_ns": time.time_ns()})
        fd = os.open(os.path.join(folder, "wake"), os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # not there yet, or gone: the supervisor's next request brings the desired state
        return
    try:
        os.write(fd, b"\n")
    except OSError:
        pass
    finally:
        os.close(fd)


def is_locked(path: str) -> bool:
    """Return whether a living process holds the file's lock."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def lives(record: Mapping[str, Any]) -> bool:
    """Return whether exactly the process of a record or claim lives."""
    pid, ticks = int(record.get("pid", 0)), start_ticks(int(record.get("pid", 0)))
    return ticks is not None and ticks == record.get("start_ticks") and not is_zombie(pid)


def start_ticks(pid: int) -> Optional[int]:
    """Return when the process started, in clock ticks since boot; None when it is gone."""
    fields = stat_of(pid)
    return int(fields[19]) if len(fields) > 19 else None


def parent(pid: int) -> int:
    """Return the parent's pid, 0 when the process is gone."""
    fields = stat_of(pid)
    return int(fields[1]) if len(fields) > 1 else 0


def is_zombie(pid: int) -> bool:
    """Return whether the process is a zombie."""
    return stat_of(pid)[:1] in ([b"Z"], [b"X"])


def stat_of(pid: int) -> List[bytes]:
    """Return the fields of /proc/<pid>/stat from the state on; the name before them may hold anything."""
    return read_bytes(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def pids() -> Iterator[int]:
    """Yield all pids of the machine."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def kill(pid: int) -> int:
    """Kill a process; return 1, or 0 when it is gone or not ours."""
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return 0
    return 1


def remove(folder: str) -> None:
    """Remove a run folder, whatever its modes; links are not followed."""
    for path, folders, _ in os.walk(folder):
        for one in (os.path.join(path, name) for name in folders):
            try:
                if not os.path.islink(one):
                    os.chmod(one, 0o700)
            except OSError:  # its supervisor removes it at the same time
                pass
    shutil.rmtree(folder, ignore_errors=True)
    drop(os.path.dirname(folder))


def forget(path: str) -> None:
    """Remove a start record and its log."""
    for one in (path, path + ".log"):
        try:
            os.unlink(one)
        except OSError:
            pass
    drop(os.path.dirname(path))


def drop(folder: str) -> None:
    """Remove a folder if it is empty."""
    try:
        os.rmdir(folder)
    except OSError:
        pass


def list_names(folder: str) -> List[str]:
    """Return the names in a folder, [] when it cannot be read."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def last_words(path: str) -> Tuple[str, bool]:
    """Return the last output of a node's process before its run folder existed, and whether it gave up."""
    text = read_bytes(path)[-4000:].decode("utf-8", "replace").strip()
    _, mark, reason = ("\n" + text).rpartition("\n" + GAVE_UP)
    if mark:
        return " ".join(reason.split())[:500], True
    return (text.splitlines() or [""])[-1][:500], "Traceback (most recent call last)" in text


def read_text(path: str) -> str:
    """Return a file as text, "" when it cannot be read."""
    return read_bytes(path).decode("utf-8", "replace")


def read_bytes(path: str) -> bytes:
    """Return a file's content, b"" when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def read_json(path: str) -> Dict[str, Any]:
    """Return a file's JSON object, {} when there is none."""
    try:
        found = json.loads(read_bytes(path) or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def write_json(path: str, value: Any) -> None:
    """Write a JSON file by renaming a new file into place."""
    beside = f"{path}.{os.urandom(4).hex()}.new"
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(fd, "w") as file:
        json.dump(value, file)
    os.rename(beside, path)


def main() -> None:
    """Read the request, carry it out, and print the answer."""
    os.umask(0o077)
    answer = Machine(json.load(sys.stdin)).answer()
    sys.stdout.write(MARK + json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
