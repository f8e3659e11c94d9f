"""The ComputeBackend `ray`: a detached actor on each node holds its resources and starts a supervisor there.

Ray itself is loaded by a separate process (bridge.py), under an interpreter that has the cluster's version.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from runyard.compute.base import (
    ClusterNode,
    ComputeBackend,
    JobHandle,
    JobReport,
    JobRequest,
    SupportsCheck,
    SupportsConnectivity,
)
from runyard.compute.local import virtual_nodes
from runyard.compute.node_start import VARIABLE, node_command, node_ticket
from runyard.compute.poller import JobPoller
from runyard.compute.ray.link import BridgeFailure, RayLink, job_name, read_nodes, read_reports
from runyard.core.compute_options import AUTO
from runyard.core.config.settings import Settings
from runyard.core.errors import InvalidArgument, MissingExtra, RunyardError, SubmitRejected, UserError
from runyard.core.machine.facts import KEPT, node_variables
from runyard.core.specs import JobSpec

if TYPE_CHECKING:
    from runyard.compute.ray.bridge import ActorOrder

logger = logging.getLogger(__name__)

MOST_NODES = 500
_PATIENCE = {"RAY_NUM_REDIS_GET_RETRIES": "4"}  # a second each; Ray's own 20 are for clusters that just start
GRACE_S = 10.0  # for a supervisor that is leaving, before it is killed


class RayBackend(ComputeBackend, SupportsCheck, SupportsConnectivity):
    """Starts supervisors on a Ray cluster. Its only state is the bridge: jobs are found by name in Ray's tables."""

    def __init__(self, settings: Settings, options: Mapping[str, Any], *, link: RayLink | None = None) -> None:
        self._options = dict(options)
        self._address = str(options.get("address", AUTO))
        self._link = link or RayLink(self._python(), self._address, bridge_variables(options))
        self._watch = JobPoller("ray", self._look)

    def plan(self, job: JobSpec) -> JobRequest:
        """Return the job with the resources that each node needs; see ComputeBackend."""
        count = job.spec.distribution.node_count
        if count > MOST_NODES:
            raise SubmitRejected(
                f"Run `{job.run_id}` asks for {count} nodes on `{job.spec.target}`.",
                why=f"A run has {MOST_NODES} nodes at most on Ray.",
                hint=f"Set node_count to {MOST_NODES} or less.",
            )
        needs = self._needs(job)
        nodes = virtual_nodes(1, job.devices) if count == 1 else []  # peers tell each other where they are
        placed = replace(job, node_count=count, nodes=nodes, shared_folder=str(self._options.get("shared_folder", "")))
        resources: dict[str, object] = {"per_node": needs, "nodes": count, "namespace": "runyard"}
        if count > 1:
            resources["strategy"] = "STRICT_SPREAD"
        argv = node_command(str(self._options.get("node_python") or "python"))
        folder = f"{self._options.get('node_home') or '/var/tmp/runyard-UID'}/runs/{job.run_id}/{job.attempt}"
        return JobRequest(job.run_id, job.attempt, job.spec.target, count, argv, folder, placed, resources=resources)

    def submit(self, request: JobRequest) -> JobHandle:
        """Start an actor for each node; actors that exist stay as they are."""
        handle = JobHandle(request.run_id, request.attempt)
        argv = [str(self._options.get("node_python") or ""), *request.argv[1:]]  # "": Ray's own there
        nodes: list[ActorOrder] = [
            {"rank": rank, "argv": argv, "variables": {VARIABLE: self._ticket(request.job, rank)}}
            for rank in range(request.node_count)
        ]
        needs = request.resources["per_node"]
        with self._watch.submitting(handle):
            self._link.ask("start", job=job_name(handle), nodes=nodes, resources=needs, kept=sorted(KEPT))
        return handle

    def poll(self, handles: Sequence[JobHandle]) -> Mapping[JobHandle, JobReport]:
        """Return the last reports of the poller."""
        return self._watch.reports(handles)

    def adopt(self, handle: JobHandle) -> None:
        """Do nothing: when a supervisor dies, its actor ends with it, and its reaper ends the rest."""

    def cancel(self, handle: JobHandle) -> None:
        """Remove a waiting job from Ray's queue, in a thread of its own."""
        threading.Thread(target=self._tell, args=("cancel", handle), daemon=True).start()

    def end(self, handle: JobHandle) -> None:
        """Kill the job's supervisors after a grace, and give its resources back."""
        self._watch.forget(handle)
        self._link.ask("end", job=job_name(handle), grace_s=GRACE_S)

    def close(self) -> None:
        """End the poller and the bridge process. Actors go on."""
        self._watch.close()
        self._link.close()

    def check(self) -> str:
        """Connect now, and return versions, nodes and resources in one line."""
        try:
            versions = self._link.versions()
            nodes = self.list_nodes()
        except BridgeFailure as failure:
            raise explain_failure(failure, self._address, self._python()) from failure
        living = [node for node in nodes if node.state == "alive"]
        cpus, gpus = sum(node.cpus for node in living), sum(node.gpus for node in living)
        return f"Ray {versions['ray']} (Python {versions['python']}): {len(living)} nodes, {cpus:g} CPUs, {gpus:g} GPUs"

    def check_reach(self, server: Mapping[str, Any]) -> None:
        """As SupportsConnectivity says."""
        if server.get("kind") == "unix":
            return
        host, port = str(server["host"]).strip("[]"), int(server["port"])
        for node, problem in self._link.ask("reach", host=host, port=port).items():
            if problem:
                raise UserError(
                    f"The node {node} does not reach this server at {host}:{port}.",
                    why=f"It says: {problem}.",
                    hint="Let it through the firewall, or start the server with a --host that the node can reach.",
                )

    def list_nodes(self) -> list[ClusterNode]:
        """Return the cluster's nodes, asked for now."""
        return read_nodes(self._link.ask("look", jobs=[]))

    def _look(self, handles: Sequence[JobHandle]) -> Mapping[JobHandle, JobReport]:
        view = self._link.ask("look", jobs=[job_name(handle) for handle in handles])
        return read_reports(handles, view)

    def _tell(self, do: str, handle: JobHandle) -> None:
        try:
            self._link.ask(do, job=job_name(handle))
        except RunyardError as error:
            logger.warning("run %s: Ray could not be told to %s it: %s", handle.run_id, do, error)
        self._watch.hurry()

    def _ticket(self, job: JobSpec, rank: int) -> str:
        return node_ticket(job, node_rank=rank, node_home=str(self._options.get("node_home", "")))

    def _needs(self, job: JobSpec) -> dict[str, float]:
        """Return the resources that each node needs, by Ray's names."""
        asked, spec = job.spec.resources, job.spec
        processes = max(1, spec.distribution.processes_per_node)
        cpus = asked.cpus if asked.cpus is not None else self._options.get("cpus", processes)
        needs = {"CPU": cpus, "GPU": spec.gpus or 0, "memory": asked.memory_bytes or 0, **asked.custom}
        return {name: amount for name, amount in needs.items() if amount}

    def _python(self) -> str:
        return str(self._options.get("python") or sys.executable)


def bridge_variables(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the bridge's environment: what any node may know, Ray's variables, and the target's option `env`."""
    of_ray = {name: value for name, value in os.environ.items() if name.startswith("RAY_")}
    return {**node_variables(os.environ), **_PATIENCE, **of_ray, **options.get("env", {})}


def explain_failure(failure: BridgeFailure, address: str, python: str) -> UserError:
    """Return the error for a user who attaches the cluster."""
    what, why = f"The Ray cluster at `{address}` cannot be used.", failure.why
    if "No module named 'ray'" in why:
        return MissingExtra(
            what,
            why=f"{python} has no Ray.",
            hint="`pip install 'runyard[ray]'`, in the cluster's version; or name a Python that has it: python=….",
        )
    if "ersion mismatch" in why:
        return InvalidArgument(
            what, why=why, hint=f"Name a Python with the cluster's own Ray and Python version: python=… (now {python})."
        )
    if failure.kind in ("AuthenticationError", "TimeoutError") or "Failed to connect to Ray cluster" in why:
        # A process listens there, or the bridge had said so at once.
        return InvalidArgument(
            what,
            why=why,
            hint="A cluster with tokens or TLS needs variables: env={'RAY_AUTH_MODE': 'token', 'RAY_AUTH_TOKEN': '…'}, "
            "env={'RAY_USE_TLS': '1', 'RAY_TLS_CA_CERT': '…', …}.",
        )
    if failure.kind == "OSError":
        return InvalidArgument(what, why=why, hint="python=… is the path of a Python, on the server's machine.")
    return UserError(
        what,
        why=why or failure.what,
        hint="`host:6379` and `auto` need a Ray node on the server's machine; from elsewhere use `ray://HOST:10001`.",
    )
