"""The ComputeBackend `ssh`: plain machines, reached by the OpenSSH client. No root, no daemon of ours, no Docker."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from runyard.compute.base import (
    ClusterNode,
    ComputeBackend,
    EndCause,
    JobHandle,
    JobReport,
    JobRequest,
    JobState,
    SupportsCheck,
    SupportsConnectivity,
    SupportsSlots,
)
from runyard.compute.node_start import node_ticket
from runyard.compute.poller import EVERY_S, JobPoller
from runyard.compute.ssh.client import CALL_S, END_S, Host, HostAnswer, NodeStand, Questions, SshClient, report_of
from runyard.core.compute_options import SSH_PORT, host_of_slot
from runyard.core.config.settings import Settings
from runyard.core.errors import RunyardError, SubmitRejected, SystemFailure, UserError
from runyard.core.names import check_run_id
from runyard.core.specs import JobSpec, NodeSpec

if TYPE_CHECKING:
    from runyard.compute.ssh.host_script import HostFacts, NodeOrder

logger = logging.getLogger(__name__)

MOST_AT_ONCE = 32
AWAY_S = 20.0  # a machine that did not answer gets no runs for so long
LEAST_FREE_BYTES = 200 * 1024 * 1024
_PER_HOST_S = 0.05  # of asking: many machines are asked less often


class SshBackend(ComputeBackend, SupportsCheck, SupportsSlots, SupportsConnectivity):
    """Jobs are found by their start records and run folders on the hosts (host_script.py).

    `JobSpec.slots` says which host each node is for. A host that does not answer makes its jobs UNKNOWN, never gone.
    """

    def __init__(self, settings: Settings, options: Mapping[str, Any], *, client: SshClient | None = None) -> None:
        self._client = client or SshClient(settings, options)
        self._hosts = [Host(one["address"], one.get("port", SSH_PORT)) for one in options.get("hosts", ())]
        self._slot_hosts = host_of_slot(options.get("hosts", ()))
        self._options = dict(options)
        self._questions = Questions(self._hosts, self._look)
        every_s = max(EVERY_S, _PER_HOST_S * len(self._hosts))
        self._watch = JobPoller("ssh", self._ask, every_s=every_s)
        self._acts = ThreadPoolExecutor(4, thread_name_prefix="runyard-ssh")
        self._lock = threading.Lock()
        self._where: dict[JobHandle, set[Host]] = {}
        self._away: dict[Host, float] = {}  # until when, on the monotonic clock

    def plan(self, job: JobSpec) -> JobRequest:
        """Return the job with the hosts of its slots; see ComputeBackend."""
        count = job.spec.distribution.node_count
        if count > len(self._slot_hosts):
            raise SubmitRejected(
                f"Run `{job.run_id}` asks for {count} nodes on `{job.spec.target}`.",
                why=f"Its {len(self._hosts)} machines have {len(self._slot_hosts)} slots in all.",
                hint="Ask for fewer nodes, or attach the target with more machines or slots.",
            )
        hosts = self._hosts_for(job, count)
        first = NodeSpec(0, hosts[0].address, hosts[0].address)
        shared = str(self._options.get("shared_folder", ""))
        placed = replace(job, node_count=count, nodes=[first], shared_folder=shared)
        asked = {"hosts": [str(host) for host in hosts]}
        folder = f"runs/{check_run_id(job.run_id)}/{job.attempt}"  # below the node home of each host
        argv = self._client.command(hosts[0])
        return JobRequest(job.run_id, job.attempt, job.spec.target, count, argv, folder, placed, resources=asked)

    def submit(self, request: JobRequest) -> JobHandle:
        """Start each node on its host, all hosts at once. Nodes with a record on the host are not started again."""
        handle = JobHandle(request.run_id, request.attempt)
        nodes: dict[Host, list[NodeOrder]] = defaultdict(list)
        for rank, host in enumerate(self._hosts_for(request.job, request.node_count)):
            nodes[host].append(self._node(request, rank))
        with self._lock:
            self._where.setdefault(handle, set()).update(nodes)
        with self._watch.submitting(handle):
            _raise_first(self._on_all(list(nodes), lambda host: {"do": "start", "nodes": nodes[host]}))
        return handle

    def poll(self, handles: Sequence[JobHandle]) -> Mapping[JobHandle, JobReport]:
        """Return the last reports of the poller."""
        return self._watch.reports(handles)

    def adopt(self, handle: JobHandle) -> None:
        """Have adopters started on the job's hosts, by a thread."""
        self._tell("adopt", handle)

    def cancel(self, handle: JobHandle) -> None:
        """Wake the job's supervisors on their hosts, by a thread, so that they ask for the desired state."""
        self._tell("wake", handle)

    def end(self, handle: JobHandle) -> None:
        """End and remove the job's nodes on all its hosts. Raises when a host does not answer: call it again."""
        request = {"do": "end", "jobs": [[handle.run_id, handle.attempt]]}
        answers = self._on_all(self._hosts_of(handle), lambda host: request, timeout_s=END_S)
        self._watch.hurry()
        _raise_first(answers)
        with self._lock:
            self._where.pop(handle, None)

    def close(self) -> None:
        """Stop the poller and the threads, and close the connections. Jobs go on."""
        self._watch.close()
        self._questions.close()
        self._acts.shutdown(wait=False, cancel_futures=True)
        self._client.close(self._hosts)

    def check(self) -> str:
        """As SupportsCheck says. The key of a host that is not known yet is recorded here, and only here."""
        if not self._hosts:
            raise UserError("The target names no machine.", hint="address='hostA', or address='hostA,hostB'.")
        answers = self._on_all(self._hosts, lambda host: {"do": "probe"}, record=True)
        try:
            _raise_first(answers)
        except SystemFailure as error:  # the user who attaches it can fix it
            raise UserError(error.what, why=error.why, hint=error.hint) from error
        for host, found in answers.items():
            self._check_space(host, found)
        told = [self._describe(host, found) for host, found in answers.items()]
        slots = len(self._slot_hosts)
        return f"{len(told)} machine(s), {slots} slot(s): {'; '.join(told)}"

    def check_reach(self, server: Mapping[str, Any]) -> None:
        """As SupportsConnectivity says."""
        answers = self._on_all(self._hosts, lambda host: {"do": "probe", "server": {**server, "token": ""}})
        _raise_first(answers)
        for host, found in answers.items():
            if isinstance(found, dict) and found["server"]:
                where = f"{server.get('host')}:{server.get('port')}"
                raise UserError(
                    f"The machine {host} does not reach this server at {where}.",
                    why=f"It says: {found['server']}.",
                    hint="Let it through the firewall, or start the server with a --host that the machine can reach.",
                )

    def closed_slots(self) -> frozenset[int]:
        """As SupportsSlots says. A machine is tried again some seconds after it did not answer."""
        now = time.monotonic()
        with self._lock:
            away = {host for host, until in self._away.items() if until > now}
        return frozenset(slot for slot, index in enumerate(self._slot_hosts) if self._hosts[index] in away)

    def list_nodes(self) -> list[ClusterNode]:
        """Return all hosts, asked now; a host that does not answer is listed as down."""
        answers = self._on_all(self._hosts, lambda host: {"do": "probe"})
        if answers and all(isinstance(found, RunyardError) for found in answers.values()):
            _raise_first(answers)
        return [_cluster_node(host, found, self._keys(host)) for host, found in answers.items()]

    def _hosts_for(self, job: JobSpec, count: int) -> list[Host]:
        slots = job.slots or range(count)
        if len(slots) < count or any(not 0 <= slot < len(self._slot_hosts) for slot in slots):
            raise SystemFailure(
                f"Run `{job.run_id}` has slots {list(slots)} for {count} nodes; the target has "
                f"{len(self._slot_hosts)}.",
                why="The target was changed since they were set aside.",
            )
        return [self._hosts[self._slot_hosts[slot]] for slot in list(slots)[:count]]

    def _node(self, request: JobRequest, rank: int) -> NodeOrder:
        home = str(self._options.get("node_home", ""))
        return {
            "run_id": check_run_id(request.run_id),
            "attempt": request.attempt,
            "rank": rank,
            "count": request.node_count,
            "ticket": node_ticket(request.job, node_rank=rank, node_home=home),
        }

    def _look(self, host: Host, handles: Sequence[JobHandle]) -> Any:
        jobs = [[handle.run_id, handle.attempt] for handle in handles]
        return self._call(host, {"do": "look", "jobs": jobs})

    def _ask(self, handles: Sequence[JobHandle]) -> dict[JobHandle, JobReport]:
        answers = self._questions.ask(handles)
        return {handle: self._report(handle, answers) for handle in handles}

    def _report(self, handle: JobHandle, answers: Mapping[Host, HostAnswer]) -> JobReport:
        with self._lock:
            hosts = self._where.get(handle) or set(self._hosts)
        silent = {str(host): _fault(handle, one) for host, one in answers.items() if host in hosts}
        stands = [
            NodeStand(str(host), one["rank"], one["count"], JobState(one["state"]), one["why"], EndCause(one["cause"]))
            for host, answer in answers.items()
            for one in answer.jobs.get(handle, ())
        ]
        return report_of(stands, {host: fault for host, fault in silent.items() if fault})

    def _call(self, host: Host, request: Mapping[str, Any], **options: Any) -> Any:
        """Call a host, and note whether it answers."""
        try:
            answer = self._client.call(host, request, **options)
        except SystemFailure:
            with self._lock:
                self._away[host] = time.monotonic() + AWAY_S
            raise
        with self._lock:
            self._away.pop(host, None)
        return answer

    def _tell(self, what: str, handle: JobHandle) -> None:
        """Have it done by a thread: no caller waits for a machine here."""
        request = {"do": what, "jobs": [[handle.run_id, handle.attempt]]}
        try:
            for host in self._hosts_of(handle):
                self._acts.submit(self._do, host, request)
        except RuntimeError:  # closed meanwhile
            logger.debug("run %s: %s comes too late", handle.run_id, what)

    def _do(self, host: Host, request: Mapping[str, Any]) -> None:
        try:
            self._call(host, request)
        except RunyardError as error:
            logger.warning("%s could not be told to %s: %s", host, request["do"], error.why or error.what)
        self._watch.hurry()

    def _hosts_of(self, handle: JobHandle) -> list[Host]:
        """Return the machines that may have a part of the job: all of them, when another server started it."""
        with self._lock:
            known = self._where.get(handle)
        return [host for host in self._hosts if known is None or host in known]

    def _on_all(
        self,
        hosts: Sequence[Host],
        request: Callable[[Host], Mapping[str, Any]],
        *,
        timeout_s: float = CALL_S,
        record: bool = False,
    ) -> dict[Host, Any]:
        """Call all hosts at once; return what each answered, or the error that it ended with."""

        def call(host: Host) -> Any:
            try:
                return self._call(host, request(host), timeout_s=timeout_s, record=record)
            except RunyardError as error:
                return error

        if len(hosts) == 1:
            return {hosts[0]: call(hosts[0])}
        with ThreadPoolExecutor(min(MOST_AT_ONCE, len(hosts) or 1), thread_name_prefix="runyard-ssh-all") as pool:
            return dict(zip(hosts, pool.map(call, hosts), strict=True))

    def _check_space(self, host: Host, found: HostFacts) -> None:
        if found["free_bytes"] < LEAST_FREE_BYTES:
            raise UserError(
                f"The machine {host} has no room for runs: {found['free_bytes'] / 2**20:.0f} MiB are free in "
                f"{found['home']}.",
                hint="Free some space there, or name another folder: node_home='/scratch/me/runyard'.",
            )

    def _describe(self, host: Host, found: HostFacts) -> str:
        about = f"Python {found['python']}, {found['cpus']} CPUs, {found['gpus']} GPUs"
        return f"{host} ({about}, host key {self._keys(host) or 'known to the machine'})"

    def _keys(self, host: Host) -> str:
        return ", ".join(self._client.fingerprints(host))


def _fault(handle: JobHandle, answer: HostAnswer) -> str:
    return answer.fault or ("" if handle in answer.jobs else "it was not asked yet")


def _cluster_node(host: Host, found: HostFacts | RunyardError, keys: str) -> ClusterNode:
    if isinstance(found, RunyardError):
        return ClusterNode(str(host), host.address, "down", note=found.why or found.what, host_key=keys)
    return ClusterNode(
        str(found["name"]),
        host.address,
        "up",
        cpus=found["cpus"],
        gpus=found["gpus"],
        memory_bytes=found["memory_bytes"],
        host_key=keys,
    )


def _raise_first(answers: Mapping[Host, Any]) -> None:
    """Raise what a host ended with; a user's mistake before a silence."""
    errors = [found for found in answers.values() if isinstance(found, RunyardError)]
    for error in sorted(errors, key=lambda error: not isinstance(error, UserError)):
        raise error
