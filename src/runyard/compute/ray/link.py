"""The server's end of the pipe to a Ray cluster, and the meaning of the cluster's answers.

`RayLink` starts one bridge process on demand, and again when it died. The functions below it are pure: they turn the
cluster's tables, as the bridge read them, into job reports and nodes.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import re
import subprocess
import threading
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, TimeoutError
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runyard.compute.base import ClusterNode, EndCause, JobHandle, JobReport, JobState
from runyard.core.errors import SystemFailure

if TYPE_CHECKING:
    from runyard.compute.ray.bridge import ClusterView, RayActor, RayGroup, RayNode

logger = logging.getLogger(__name__)

ANSWER_S = 25.0
CONNECT_S = 40.0
LEAVE_S = 2.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0  # between starts of bridges while no cluster is found
_FRAME = re.compile(r"\[0x[0-9a-f]+\]|\*\*\*")  # a line of the stack that Ray prints when it aborts
SCRIPT = Path(__file__).parent / "bridge.py"
PREFIX = "runyard-"
ALIVE, DEAD = "ALIVE", "DEAD"
_NODE_DIED, _KILLED = "NODE_DIED", "RAY_KILL"
_BY_THE_AUTOSCALER = 3  # AUTOSCALER_DRAIN_PREEMPTED among Ray's reasons for a node's death
_MOST_NAMED = 4
_GIB = 1 << 30
_ORDER = ("CPU", "GPU", "memory")  # Ray's own tables have none


class BridgeFailure(SystemFailure):
    """The cluster could not be asked. `kind` is the exception's name in the bridge, "" when there was no answer."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__("The Ray cluster cannot be asked.", why=text)
        self.kind = kind


class BridgeDied(BridgeFailure):
    """The bridge died before it answered; whether it did what it was asked is not known."""


class RayLink:
    """Requests to one cluster. Thread-safe; `variables` are the whole environment of the bridge."""

    def __init__(self, python: str, address: str, variables: Mapping[str, str], *, script: Path = SCRIPT) -> None:
        # -I: neither the folder of the script nor the environment names what the cluster's Python imports.
        self._argv = [python, "-I", str(script)]
        self._address = address
        self._variables = dict(variables)
        self._lock = threading.Lock()
        self._process: BridgeProcess | None = None
        self._is_closed = False
        self._failure: BridgeFailure | None = None
        self._pause_s, self._next_start = FIRST_PAUSE_S, 0.0

    def ask(self, do: str, *, timeout_s: float = ANSWER_S, is_patient: bool = True, **arguments: Any) -> Any:
        """Return the answer. `is_patient` False: look for the cluster now, even when it was not there a moment ago.

        A request may be sent twice: it is repeated when the bridge died.

        Raises:
            BridgeFailure: there is no answer.
        """
        process = self._running(is_patient)
        try:
            try:
                return process.ask(do, arguments, timeout_s)
            except BridgeDied:
                process = self._running(is_patient)
                return process.ask(do, arguments, timeout_s)
        except TimeoutError as error:
            # It hangs in a call to a cluster that went away; another one finds out where that is now.
            self._drop(process)
            raise BridgeFailure("TimeoutError", f"Ray did not answer within {timeout_s:g} s.") from error

    def versions(self) -> dict[str, str]:
        """Connect now, and return the versions of Ray and Python."""
        return dict(self._running(is_patient=False).greeting)

    def close(self) -> None:
        """End the bridge; later requests fail."""
        with self._lock:
            self._is_closed = True
            process, self._process = self._process, None
        if process is not None:
            process.end()

    def _running(self, is_patient: bool) -> BridgeProcess:
        with self._lock:
            if self._is_closed:
                raise BridgeFailure("", "The server stops.")
            if self._process is not None and self._process.is_alive():
                return self._process
            if self._process is not None:
                self._process.end()
                self._process = None
            if is_patient and self._failure is not None and time.monotonic() < self._next_start:
                raise self._failure
            self._process = self._start()
            return self._process

    def _start(self) -> BridgeProcess:
        try:
            started = BridgeProcess(self._argv, self._variables, self._address)
        except BridgeFailure as failure:
            self._failure = failure
            self._next_start = time.monotonic() + self._pause_s
            self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
            raise
        self._failure, self._pause_s = None, FIRST_PAUSE_S
        return started

    def _drop(self, process: BridgeProcess) -> None:
        with self._lock:
            if self._process is process:
                self._process = None
        process.end()


class BridgeProcess:
    """One bridge process, connected when the constructor returns. `greeting` is its first answer."""

    def __init__(self, argv: Sequence[str], variables: Mapping[str, str], address: str) -> None:
        try:
            self._process = subprocess.Popen(
                argv,
                env=dict(variables),
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise BridgeFailure("OSError", f"{argv[0]} could not be started: {error.strerror}.") from error
        self._lock = threading.Lock()
        self._is_over = False  # its answers are not read any more
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[Any]] = {}
        self._said: deque[str] = deque(maxlen=15)
        self._threads = [threading.Thread(target=target, daemon=True) for target in (self._listen, self._keep_words)]
        for thread in self._threads:
            thread.start()
        try:
            self.greeting: dict[str, str] = self._greet(address)
        except BaseException:
            self.end()
            raise
        logger.info("connected to the Ray cluster at %s (Ray %s)", address, self.greeting.get("ray"))

    def ask(self, do: str, arguments: Mapping[str, Any], timeout_s: float) -> Any:
        """Return the answer to one request. Raises BridgeFailure or TimeoutError."""
        return self._send({"do": do, "with": dict(arguments)}).result(timeout_s)

    def is_alive(self) -> bool:
        """Return whether the process lives and its answers are read."""
        return not self._is_over and self._process.poll() is None

    def end(self) -> None:
        """Close its standard input, at which it ends; a thread kills it when it does not. Returns at once."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError:
            pass
        threading.Thread(target=self._bury, daemon=True).start()

    def _bury(self) -> None:
        try:
            self._process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _greet(self, address: str) -> dict[str, str]:
        try:
            return dict(self._send({"address": address}).result(CONNECT_S))
        except TimeoutError as error:
            raise BridgeFailure("TimeoutError", f"No cluster answered at {address} within {CONNECT_S:g} s.") from error

    def _send(self, question: Mapping[str, Any]) -> Future[Any]:
        assert self._process.stdin is not None
        answer: Future[Any] = Future()
        with self._lock:
            number = next(self._numbers)
            self._waiting[number] = answer
            line = json.dumps({"id": number, **question}, separators=(",", ":")) + "\n"
            try:
                self._process.stdin.write(line.encode())
                self._process.stdin.flush()
            except (OSError, ValueError):  # it died, or `end` was called: the listener tells the waiting threads
                pass
        if self._is_over:
            self._tell_all()
        return answer

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            with self._lock:
                waiting = self._waiting.pop(answer["id"], None)
            if waiting is None:
                continue
            if "error" in answer:
                waiting.set_exception(BridgeFailure(answer["error"], answer["text"]))
            else:
                waiting.set_result(answer["answer"])
        self._threads[1].join(1.0)  # its last lines say why
        self._is_over = True
        self._tell_all()

    def _keep_words(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            words = os.fsdecode(line[:2000]).strip()
            if words and not _FRAME.search(words):
                self._said.append(words)

    def _tell_all(self) -> None:
        with self._lock:
            left, self._waiting = self._waiting, {}
        words = "\n".join(list(self._said)[-5:])
        for waiting in left.values():
            if not waiting.done():
                waiting.set_exception(BridgeDied("", f"The bridge to Ray died. {words}".strip()))


def job_name(handle: JobHandle) -> str:
    """Return the name of a job in Ray."""
    return f"{PREFIX}{handle.run_id}-{handle.attempt}"


def read_reports(handles: Sequence[JobHandle], view: ClusterView) -> dict[JobHandle, JobReport]:
    """Return the states of the jobs from Ray's tables."""
    actors: defaultdict[str, dict[str, RayActor]] = defaultdict(dict)
    for row in sorted(view["actors"], key=lambda row: (row["state"] != DEAD, row["started"])):
        actors[row["name"].rpartition("-")[0]][row["name"]] = row  # the newest actor of a name counts
    groups = {group["name"]: group for group in view["groups"]}
    return {
        handle: _report(list(actors[name].values()), groups.get(name), view["nodes"])
        for handle in handles
        for name in (job_name(handle),)
    }


def read_nodes(view: ClusterView) -> list[ClusterNode]:
    """Return the living nodes, and the dead ones that did not come back under the same name."""
    living = {node["name"] for node in view["nodes"] if node["is_alive"]}
    return [
        ClusterNode(
            name=node["name"],
            address=node["address"],
            state="alive" if node["is_alive"] else "dead",
            cpus=node["total"].get("CPU", 0),
            gpus=node["total"].get("GPU", 0),
            memory_bytes=int(node["total"].get("memory", 0)),
            note="" if node["is_alive"] else node["message"],
        )
        for node in view["nodes"]
        if node["is_alive"] or node["name"] not in living
    ]


def explain_wait(needs: Mapping[str, float], count: int, nodes: Sequence[RayNode]) -> str:
    """Return why Ray has not placed `count` nodes with these resources."""
    living = [node for node in nodes if node["is_alive"]]
    needed = _amounts(needs)
    for name, amount in needs.items():
        most = max((node["total"].get(name, 0) for node in living), default=0)
        if most < amount:
            has = f"the most that one has is {_amount(name, most)}" if most else f"no node has {_noun(name)}"
            return f"needs {needed} on one node; {has}"
    able = [node for node in living if _has(node["total"], needs)]
    if len(able) < count:
        return f"needs {count} nodes with {needed} each; the cluster has {len(able)} such"
    where = f"on {count} nodes" if count > 1 else "on one node"
    free = ", ".join(
        f"{node['name']} {_amounts({key: node['free'].get(key, 0) for key in needs})}" for node in able[:_MOST_NAMED]
    )
    more = f", and {len(able) - _MOST_NAMED} more nodes" if len(able) > _MOST_NAMED else ""
    return f"needs {needed} {where}; free now: {free}{more}"


def _report(actors: Sequence[RayActor], group: RayGroup | None, nodes: Sequence[RayNode]) -> JobReport:
    lost = _find_lost(actors, nodes)
    if lost is not None:
        return lost
    dead = [row for row in actors if row["state"] == DEAD]
    if dead and len(dead) == len(actors):
        return _gone(dead)
    waiting = [row for row in actors if row["state"] not in (ALIVE, DEAD)]
    if waiting or (group is not None and not actors):
        return JobReport(JobState.WAITING, _why_waiting(waiting, group, nodes))
    if actors:
        return JobReport(JobState.ALIVE)
    return JobReport(JobState.GONE, "Ray knows no actor of this job")


def _why_waiting(waiting: Sequence[RayActor], group: RayGroup | None, nodes: Sequence[RayNode]) -> str:
    if group is not None:
        is_placed = group["state"] == "CREATED"
        return "Ray starts its workers" if is_placed else explain_wait(group["needs"], group["count"], nodes)
    needs = waiting[0]["needs"]
    if any(node["is_alive"] and _has(node["free"], needs) for node in nodes):
        return "Ray starts its worker"
    return explain_wait(needs, 1, nodes)


def _find_lost(actors: Sequence[RayActor], nodes: Sequence[RayNode]) -> JobReport | None:
    """A job that has lost one of its nodes cannot go on as it was placed."""
    dead = {node["id"]: node for node in nodes if not node["is_alive"]}
    for row in actors:
        node = dead.get(row["node"])
        is_on_it = row.get("reason") == _NODE_DIED or (node is not None and row["state"] == ALIVE)
        if is_on_it and not row.get("note"):
            name = f"{node['name']} ({node['address']})" if node is not None else "of one of its actors"
            why = (node["message"] if node is not None else "") or row.get("message", "")
            is_preempted = node is not None and node["death"] == _BY_THE_AUTOSCALER
            cause = EndCause.PREEMPTED if is_preempted else EndCause.NODE_LOST
            return JobReport(JobState.GONE, f"Ray lost the node {name}: {_first_line(why)}", cause)
    return None


def _gone(dead: Sequence[RayActor]) -> JobReport:
    notes = [row.get("note") for row in dead]
    failed = next((note for note in notes if note and note["code"] != 0), None)
    if failed is not None:
        words = failed["tail"].strip() or "it wrote nothing"
        return JobReport(JobState.GONE, f"its process ended with {_code(failed['code'])}: {words}", EndCause.ENDED)
    if all(notes):
        return JobReport(JobState.GONE, "", EndCause.ENDED)
    row = next(row for row in dead if not row.get("note"))
    reason, message = row.get("reason", ""), row.get("message", "")
    if reason == _KILLED:
        return JobReport(JobState.GONE, "it was taken out of Ray", EndCause.CANCELED)
    if reason == "creation_task_failure_context":
        return JobReport(JobState.GONE, f"it could not be started there: {_last_line(message)}", EndCause.REFUSED)
    return JobReport(JobState.GONE, _first_line(message))


def _has(found: Mapping[str, float], needs: Mapping[str, float]) -> bool:
    return all(found.get(name, 0) >= amount for name, amount in needs.items())


def _amounts(resources: Mapping[str, float]) -> str:
    ordered = sorted(resources, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))
    return ", ".join(_amount(name, resources[name]) for name in ordered) or "nothing"


def _amount(name: str, amount: float) -> str:
    return f"{amount / _GIB:.1f} GiB memory" if name == "memory" else f"{amount:g} {name}"


def _noun(name: str) -> str:
    return "a GPU" if name == "GPU" else f"any {name}"


def _code(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:300]


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2][:300]
