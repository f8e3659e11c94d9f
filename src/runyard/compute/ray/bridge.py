"""The bridge between the server and one Ray cluster: JSON lines on standard input and output.

The script is run by path, under an interpreter that has the cluster's Ray; Runyard need not be installed there. It ends
with its standard input. Started jobs are detached actors and go on.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, Mapping, Optional, TypedDict

import ray
from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_get, _internal_kv_put
from ray.util.placement_group import get_placement_group, placement_group, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

NAMESPACE = "runyard"
NOTES = b"runyard"  # the namespace of internal_kv in which actors leave how their process ended
PREFIX = "runyard-"
LIVING = ("DEPENDENCIES_UNREADY", "PENDING_CREATION", "ALIVE")
WORKERS = 4
TAIL_BYTES = 2000
MOST_READY, READY_S = 64, 900  # nodes on which a worker waits for our next actor, and for how long
REFILL_AFTER_S = 1.0  # a new worker costs half a second of a core, which must not slow the program's start
LAST_WORDS_S = 5.0  # for requests that are under way when the server ends
OWN_NAMES = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}


class ExitNote(TypedDict):
    """How an actor's process ended, left by the actor."""

    code: int
    tail: str  # of its output


class RayActor(TypedDict, total=False):
    """A row of Ray's table of actors."""

    name: str
    state: str
    node: str
    needs: Dict[str, float]
    started: int
    reason: str  # this and the rest: of a dead one
    message: str
    is_fresh: bool  # it never started
    note: Optional[ExitNote]


class RayGroup(TypedDict):
    """A placement group of ours."""

    name: str
    state: str
    count: int  # of its nodes
    needs: Dict[str, float]  # of each


class RayNode(TypedDict):
    """A machine of the cluster."""

    id: str
    name: str
    address: str
    is_alive: bool
    raylet: str
    total: Dict[str, float]  # resources
    free: Dict[str, float]
    death: int  # Ray's number of the reason
    message: str


class ClusterView(TypedDict):
    """The answer to `look`."""

    actors: List[RayActor]
    groups: List[RayGroup]
    nodes: List[RayNode]


class ActorOrder(TypedDict):
    """A node of a job that `start` starts."""

    rank: int
    argv: List[str]
    variables: Dict[str, str]


class NodeActor:
    """Holds a node's resources while the supervisor lives there. Its death tells the supervisor that Ray took them.

    A shell runs between the two: when Ray ends a worker it kills the worker's children, and the supervisor must not be
    one.
    """

    def __init__(self, name: str, argv: List[str], variables: Dict[str, str], kept: List[str]) -> None:
        self._name = name
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the actor lives
        watched, self._held = os.pipe()
        inherited = {key: os.environ[key] for key in os.environ if key in kept or key.startswith("LC_")}
        gpus = {"CUDA_VISIBLE_DEVICES": ",".join(str(one) for one in ray.get_gpu_ids())}
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", '"$@"; exit $?', "sh", argv[0] or sys.executable, *argv[1:]],
            env={**inherited, **gpus, **variables, "RUNYARD_WATCH_FD": str(watched)},
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            pass_fds=(watched,),
            cwd="/",
            start_new_session=True,
        )
        os.close(watched)
        threading.Thread(target=self._watch, daemon=True).start()

    def end(self, grace_s: float) -> None:
        """Wait up to `grace_s` for the supervisor to leave, then kill it with all that it started."""
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            kill_tree(self._process.pid)

    def _watch(self) -> None:
        refilling = threading.Thread(target=self._refill, daemon=True)
        refilling.start()
        code = self._process.wait()
        size = self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, size - TAIL_BYTES))
        note = {"code": code, "tail": self._output.read().decode("utf-8", "replace")}
        for pause_s in (0, 1, 5, 15, 30):  # the cluster's head may be away
            time.sleep(pause_s)
            try:
                _internal_kv_put(self._name.encode(), json.dumps(note).encode(), namespace=NOTES)
                refilling.join()
                # Not exit_actor: that takes a second, in which no other job gets the resources.
                ray.kill(ray.get_runtime_context().current_actor)
            except Exception as error:
                print(f"the end of {self._name} could not be told: {error}", file=sys.stderr)
        os._exit(0)  # whatever happens, the resources come back

    def _refill(self) -> None:
        """Have a new worker made on this node, because this actor took the waiting one."""
        try:
            self._process.wait(REFILL_AFTER_S)
        except subprocess.TimeoutExpired:
            pass
        own = ray.get_runtime_context().get_node_id()
        make_ready([node for node in see_nodes() if node["id"] == own])


def kill_tree(root: int) -> None:
    """Kill a process and its descendants; stop each first, so that none can start another meanwhile."""
    found: List[int] = []
    new = [root]
    while new:
        found += new
        for pid in new:
            _signal(pid, signal.SIGSTOP)
        new = [child for pid in found for child in _children(pid) if child not in found]
    for pid in found:
        _signal(pid, signal.SIGKILL)


def _children(pid: int) -> List[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


Actor = ray.remote(max_restarts=0, max_task_retries=0, max_concurrency=2)(NodeActor)


class Cluster:
    """The requests that the server can make: each public method is one. Threads share it; `_lock` guards the sets."""

    def __init__(self, address: str) -> None:
        self._is_client = address.startswith("ray://")
        self._address = address
        self._lock = threading.Lock()
        self._starting: set[str] = set()
        self._empty: set[str] = set()  # groups that no actor was in when we looked last
        self._known: set[str] = set()  # nodes that were there when we looked last

    def connect(self) -> Dict[str, str]:
        """Connect to the cluster; return its versions. Called once, before all other methods."""
        check_address(self._address)
        ray.init(address=self._address, namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
        threading.Thread(target=lambda: self._greet(self._there(see_nodes)), daemon=True).start()
        return {"ray": ray.__version__, "python": sys.version.split()[0]}

    def start(self, job: str, nodes: List[ActorOrder], resources: Dict[str, float], kept: List[str]) -> None:
        """Start one actor for each of `nodes`; existing actors stay as they are. May be repeated."""
        with self._lock:
            self._starting.add(job)
        try:
            group = _group(job, resources, len(nodes)) if len(nodes) > 1 else None
            for index, node in enumerate(nodes):
                _start_actor(f"{job}-{node['rank']}", node, resources, kept, group=group, index=index)
        finally:
            with self._lock:
                self._starting.discard(job)

    def look(self, jobs: List[str]) -> ClusterView:
        """Return the nodes, our living actors, and the dead actors of `jobs`."""
        view: ClusterView = self._there(see, jobs)
        self._tidy(view)
        self._greet(view["nodes"])
        return view

    def reach(self, host: str, port: int) -> Dict[str, str]:
        """Return why each living node cannot connect to the address: "" where it can."""
        nodes = [node for node in self._there(see_nodes) if node["is_alive"]][:MOST_READY]
        asked = [
            ray.remote(num_cpus=0, max_retries=0)(try_to_reach)
            .options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["id"], soft=False))
            .remote(host, port)
            for node in nodes
        ]
        ray.wait(asked, num_returns=len(asked), timeout=20)
        return {node["name"]: _said(answer) for node, answer in zip(nodes, asked)}

    def cancel(self, job: str) -> bool:
        """Take a job out of Ray's queue; False when it runs."""
        living = self._living(job)
        if any(actor["state"] == "ALIVE" for actor in living):
            return False
        self._give_back(job, living)
        return True

    def end(self, job: str, grace_s: float) -> None:
        """Kill what runs after `grace_s`; give the rest back at once. Returns without waiting."""
        living = self._living(job)
        running = [actor for actor in living if actor["state"] == "ALIVE"]
        for actor in running:
            handle = _find_actor(actor["name"])
            if handle is not None:
                handle.end.remote(grace_s)
        if running:
            threading.Thread(target=self._finish, args=(job, grace_s), daemon=True).start()
        else:
            self._give_back(job, living)

    def _finish(self, job: str, grace_s: float) -> None:
        deadline = time.monotonic() + grace_s + LAST_WORDS_S
        while (left := self._living(job)) and time.monotonic() < deadline:
            time.sleep(0.2)
        self._give_back(job, left)

    def _give_back(self, job: str, actors: List[RayActor]) -> None:
        for actor in actors:
            handle = _find_actor(actor["name"])
            if handle is not None:
                ray.kill(handle)
        _remove_group(job)
        self._there(_internal_kv_del, f"{job}-".encode(), del_by_prefix=True, namespace=NOTES)

    def _living(self, job: str) -> List[RayActor]:
        actors: List[RayActor] = self._there(see_actors, LIVING)
        return [actor for actor in actors if job_of(actor) == job]

    def _there(self, function: Any, *arguments: Any, **options: Any) -> Any:
        """Call it in a process of the cluster: here, unless Ray's client stands between."""
        if not self._is_client:
            return function(*arguments, **options)
        return ray.get(ray.remote(num_cpus=0)(function).remote(*arguments, **options), timeout=25)

    def _greet(self, nodes: List[RayNode]) -> None:
        """Have a worker wait on the nodes that are new to us: a cluster grows, and its machines come back."""
        usable = {node["id"]: node for node in nodes if node["is_alive"] and node["total"].get("CPU")}
        with self._lock:
            new = sorted(usable.keys() - self._known)[: max(0, MOST_READY - len(self._known))]
            self._known = self._known & usable.keys() | set(new)
        if new:
            wanted = [usable[name] for name in new]
            threading.Thread(target=self._there, args=(make_ready, wanted), daemon=True).start()

    def _tidy(self, view: ClusterView) -> None:
        """Remove groups that stayed empty from one look to the next: their actors have gone, their resources wait."""
        used = {job_of(actor) for actor in view["actors"] if actor["state"] in LIVING}
        with self._lock:
            empty = {group["name"] for group in view["groups"]} - used - self._starting
            removed, self._empty = empty & self._empty, empty
        for name in removed:
            _remove_group(name)


def check_address(address: str) -> None:
    """Raise ConnectionError at once where no process listens: Ray would wait for most of a minute."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
    except OSError as error:
        raise ConnectionError(f"Nobody answers at {host}:{port}: {error.strerror or error}.") from error


def try_to_reach(host: str, port: int) -> str:
    """Return why this node cannot connect to the address, "" when it can. Runs as a Ray task."""
    try:
        socket.create_connection((host, port), timeout=10).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _said(answer: Any) -> str:
    try:
        return str(ray.get(answer, timeout=0.1))
    except ray.exceptions.RayError:  # it started no worker in time: that says nothing about the way to the server
        return ""


def see(jobs: List[str]) -> ClusterView:
    """Return nodes, groups, our living actors, and the dead ones of `jobs`. Runs in a process of the cluster."""
    actors = see_actors(LIVING)
    living = Counter(job_of(actor) for actor in actors)
    groups = see_groups()
    # A cluster remembers very many dead actors: ask for them only when one may be ours.
    broken = {group["name"] for group in groups if group["count"] > living[group["name"]]}
    missing = {job for job in jobs if not living[job]} | broken
    dead = [one for one in see_actors(("DEAD",)) if job_of(one) in missing] if missing else []
    for actor in dead:
        actor["note"] = _read_note(actor["name"])
    return {"actors": actors + dead, "groups": groups, "nodes": see_nodes()}


def job_of(actor: RayActor) -> str:
    """Return the job's name from an actor's name."""
    return str(actor["name"].rpartition("-")[0])


def see_actors(states: Any) -> List[RayActor]:
    """Return our actors in these states, from Ray's table."""
    from ray.core.generated.gcs_pb2 import ActorTableData

    accessor = _accessor()
    rows = [ActorTableData.FromString(row) for name in states for row in accessor.get_actor_table(None, name)]
    return [
        {
            "name": row.name,
            "state": ActorTableData.ActorState.Name(row.state),
            "node": row.address.node_id.hex(),
            "needs": dict(row.required_resources),
            "started": row.start_time,
            **_death(row.death_cause),
        }
        for row in rows
        if row.ray_namespace == NAMESPACE and row.name.startswith(PREFIX)
    ]


def _accessor() -> Any:
    from ray._private.state import state

    if hasattr(state, "_connect_and_get_accessor"):
        return state._connect_and_get_accessor()
    state._check_connected()  # older versions
    return state.global_state_accessor


def _death(cause: Any) -> RayActor:
    kind = cause.WhichOneof("context")
    if kind is None:
        return {}
    context = getattr(cause, kind)
    text = getattr(context, "error_message", "") or getattr(context, "formatted_exception_string", "")
    reason = context.Reason.Name(context.reason) if kind == "actor_died_error_context" else kind
    return {"reason": reason, "message": text[-TAIL_BYTES:], "is_fresh": bool(getattr(context, "never_started", False))}


def see_groups() -> List[RayGroup]:
    """Return our placement groups that are not removed."""
    found = ray.util.placement_group_table().values()
    return [
        {
            "name": group["name"],
            "state": group["state"],
            "count": len(group["bundles"]),
            "needs": group["bundles"].get(0, {}),
        }
        for group in found
        if group["name"].startswith(PREFIX) and group["state"] != "REMOVED"
    ]


def see_nodes() -> List[RayNode]:
    """Return all nodes of the cluster with their total and free resources."""
    from ray._private.state import available_resources_per_node

    free = available_resources_per_node()
    return [
        {
            "id": node["NodeID"],
            "name": node["NodeManagerHostname"],
            "address": node["NodeManagerAddress"],
            "is_alive": node["Alive"],
            "raylet": f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}",
            "total": node["Resources"],
            "free": free.get(node["NodeID"], {}),
            "death": node.get("DeathReason", 0),
            "message": node.get("DeathReasonMessage") or "",
        }
        for node in ray.nodes()
    ]


def make_ready(nodes: List[RayNode]) -> None:
    """Have a worker wait on each of `nodes` for our next actor: Ray takes half a second to start one."""
    for node in nodes:
        try:
            _ask_for_a_worker(node["raylet"])
        except Exception as error:  # it is only about speed, and not every version of Ray has it
            print(f"no worker was made ready at {node['raylet']}: {error}", file=sys.stderr)


def _ask_for_a_worker(raylet: str) -> None:
    from ray.core.generated.node_manager_pb2 import PrestartWorkersRequest
    from ray.core.generated.node_manager_pb2_grpc import NodeManagerServiceStub

    job = bytes.fromhex(ray.get_runtime_context().get_job_id())
    channel = _channel_maker()(raylet, options=[])
    wish = PrestartWorkersRequest(num_workers=1, keep_alive_duration_secs=READY_S, job_id=job)
    NodeManagerServiceStub(channel).PrestartWorkers(wish, timeout=5)
    channel.close()


def _channel_maker() -> Any:
    try:
        from ray._private.grpc_utils import init_grpc_channel
    except ImportError:  # older versions have it here
        from ray._private.utils import init_grpc_channel
    return init_grpc_channel


def _read_note(name: str) -> Optional[ExitNote]:
    found = _internal_kv_get(name.encode(), namespace=NOTES)
    return json.loads(found) if found else None


def _group(job: str, resources: Dict[str, float], count: int) -> Any:
    try:
        return get_placement_group(job)
    except ValueError:
        return placement_group([resources] * count, strategy="STRICT_SPREAD", name=job, lifetime="detached")


def _start_actor(
    name: str, node: ActorOrder, resources: Dict[str, float], kept: List[str], *, group: Any, index: int
) -> None:
    options: Dict[str, object] = {OWN_NAMES[key]: value for key, value in resources.items() if key in OWN_NAMES}
    custom = {key: value for key, value in resources.items() if key not in OWN_NAMES}
    if custom:
        options["resources"] = custom
    if group is not None:
        options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)
    try:
        Actor.options(name=name, lifetime="detached", **options).remote(name, node["argv"], node["variables"], kept)
    except ValueError:  # ActorAlreadyExistsError is one, in the versions that have it
        if _find_actor(name) is None:
            raise


def _find_actor(name: str) -> Any:
    try:
        return ray.get_actor(name)
    except ValueError:
        return None


def _remove_group(name: str) -> None:
    try:
        remove_placement_group(get_placement_group(name))
    except ValueError:
        pass


class Pipe:
    """Reads the server's requests, and answers each in a thread; `_lock` keeps answers apart."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # What Ray prints must not get between the answers.
        self._answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def serve(self) -> None:
        """Answer requests until standard input ends."""
        first = json.loads(sys.stdin.readline())
        cluster = Cluster(first["address"])
        if not self._answer(first["id"], cluster.connect, {}):
            return
        with ThreadPoolExecutor(WORKERS) as threads:
            for line in sys.stdin:
                question = json.loads(line)
                threads.submit(self._answer, question["id"], getattr(cluster, question["do"]), question["with"])
            leave_in(LAST_WORDS_S)

    def _answer(self, number: int, method: Any, arguments: Mapping[str, object]) -> bool:
        try:
            answer = {"id": number, "answer": method(**arguments)}
        except Exception as error:
            answer = {"id": number, "error": type(error).__name__, "text": str(error)[-4000:]}
        with self._lock:
            self._answers.write(json.dumps(answer) + "\n")
            self._answers.flush()
        return "error" not in answer


def main() -> None:
    """Serve the pipe, then leave."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the server
    Pipe().serve()
    leave_in(LAST_WORDS_S)
    ray.shutdown()
    os._exit(0)


def leave_in(seconds: float) -> None:
    """End this process after so many seconds, whatever it does then."""
    leaver = threading.Timer(seconds, os._exit, (0,))
    leaver.daemon = True
    leaver.start()


if __name__ == "__main__":
    main()
