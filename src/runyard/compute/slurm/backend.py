"""The ComputeBackend `slurm`: a supervisor on each node of an sbatch job, configured by the job's environment.

Jobs are found by their names alone. Slurm's commands must be on the PATH of the server.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from runyard.compute.base import (
    ClusterNode,
    ComputeBackend,
    JobHandle,
    JobReport,
    JobRequest,
    JobState,
    SupportsCheck,
)
from runyard.compute.node_start import VARIABLE, node_start_script, node_ticket
from runyard.compute.poller import JobPoller
from runyard.compute.slurm.cluster import Refused, SlurmCommands, SlurmJob, report
from runyard.compute.slurm.sbatch import PYTHON, batch_script, job_name, option_words, read_extra, sbatch_words
from runyard.core.config.settings import Settings
from runyard.core.errors import NotYetSupported, RunyardError, SubmitRejected, SystemFailure, UserError
from runyard.core.specs import JobSpec, NodeSpec

logger = logging.getLogger(__name__)

PLACES_S = 15.0  # between two requests for the queues of all users
LEAVE_S = 5.0  # a job whose run ended leaves by itself, and Slurm's books say that it was completed
LAG_S = 60.0  # between the end of a job in the queue and in the books
MPIRUN = "mpirun"
MOST_ENDS = 1000  # lost nodes of so many jobs are kept


class SlurmBackend(ComputeBackend, SupportsCheck):
    """Starts supervisors as Slurm jobs, which are found by their names. See ComputeBackend for threads and repetition.

    The poller's thread alone uses `_seen`, `_lost` and `_places`.
    """

    def __init__(self, settings: Settings, options: Mapping[str, Any]) -> None:
        self._options = dict(options)
        self._slurm = SlurmCommands(os.environ)
        self._watch = JobPoller("Slurm", self._ask)
        self._node_count = 0  # of the partition, once it was asked for; 0: not known
        self._longest: dict[str, int] = {}  # minutes that a job may have, by partition
        self._keeps_books = True
        self._seen: dict[str, float] = {}  # when each job was last in the queue
        self._lost: dict[int, list[str]] = {}  # nodes that failed under a job
        self._places: dict[int, tuple[int, int]] = {}
        self._places_at = 0.0

    def plan(self, job: JobSpec) -> JobRequest:
        """Return the sbatch command and script of the job."""
        count = job.spec.distribution.node_count
        if self._node_count:
            self._check_size(job)
        asked = option_words(job, self._options, self._longest)
        python = str(self._options.get("python") or PYTHON)
        placed = replace(
            job,
            node_count=count,
            nodes=[NodeSpec(0, "127.0.0.1", "node-0")] if count == 1 else [],
            shared_folder=str(self._options.get("shared_folder") or ""),
        )
        return JobRequest(
            job.run_id,
            job.attempt,
            job.spec.target,
            count,
            sbatch_words(asked),
            f"{self._node_home()}/runs/{job.run_id}/{job.attempt}",
            placed,
            batch_script(job, asked, node_start_script(), python=python),
            asked,
        )

    def submit(self, request: JobRequest) -> JobHandle:
        """Submit the job with sbatch, unless an earlier try got through."""
        handle = JobHandle(request.run_id, request.attempt)
        if request.node_count > self._node_count:  # Slurm itself may keep it waiting for ever
            self._look_at_cluster()
            request = self.plan(request.job)
        with self._watch.submitting(handle):
            # An earlier try may have got through although its answer did not.
            if request.is_first or self._slurm.find_job(job_name(*_key(handle))) is None:
                self._sbatch(request)
        return handle

    def poll(self, handles: Sequence[JobHandle]) -> Mapping[JobHandle, JobReport]:
        """Return the last reports of the poller."""
        return self._watch.reports(handles)

    def adopt(self, handle: JobHandle) -> None:
        """Do nothing: what a supervisor leaves behind ends with its Slurm job."""

    def cancel(self, handle: JobHandle) -> None:
        """Cancel the job if it is still waiting, in a thread of its own."""
        name = job_name(*_key(handle))
        _in_background(f"cancel of {name}", lambda: self._slurm.cancel(name, only_waiting=True), self._watch.hurry)

    def end(self, handle: JobHandle) -> None:
        """Wait up to 5 s for the job to end by itself, then cancel it."""
        if not self._leaves(handle):
            self._slurm.cancel(job_name(*_key(handle)))
        self._watch.forget(handle)

    def close(self) -> None:
        """Stop the poller."""
        self._watch.close()

    def check(self) -> str:
        """Check commands, options and partition now; return version and nodes in one line."""
        self._check_mpi()
        read_extra(self._options.get("extra") or [])
        partition = str(self._options.get("partition") or "")
        try:
            known = self._slurm.list_partitions()
            if partition and not set(partition.split(",")) <= set(known):
                raise UserError(
                    f"Slurm has no partition `{partition}`.", hint=f"Partitions here: {', '.join(known) or 'none'}."
                )
            nodes, version = self._look_at_cluster(), self._slurm.version()
        except Refused as refusal:
            raise UserError("Slurm cannot be used.", why=f"{refusal}.") from refusal
        except SystemFailure as error:
            hint = "`scontrol ping` on the server's machine says whether the controller is there; SLURM_CONF names it."
            raise UserError("Slurm cannot be used.", why=f"{error.what} {error.why}".strip(), hint=hint) from error
        usable = [node for node in nodes if not node.state.startswith(("down", "drain", "fail"))]
        return f"{version}, {self._where()}: {len(usable)} of {len(nodes)} nodes can be used"

    def list_nodes(self) -> list[ClusterNode]:
        """Return the nodes of the target's partition, asked for now."""
        try:
            nodes = self._slurm.list_nodes(partition=str(self._options.get("partition") or ""))
        except Refused as refusal:
            raise SystemFailure("Slurm did not list its nodes.", why=str(refusal)) from refusal
        self._node_count = len(nodes)
        return nodes

    def _look_at_cluster(self) -> list[ClusterNode]:
        nodes = self.list_nodes()
        try:
            self._longest = self._slurm.list_longest()
        except Refused as refusal:
            raise SystemFailure("Slurm did not list its partitions.", why=str(refusal)) from refusal
        return nodes

    def _check_mpi(self) -> None:
        mpi = self._options.get("mpi") or MPIRUN
        if mpi != MPIRUN:
            raise NotYetSupported(
                f"A Slurm target cannot start MPI runs by `{mpi}`.",
                why="Open MPI's mpirun starts their ranks, through the supervisors of the run's nodes.",
                hint=f"Attach it with mpi='{MPIRUN}', or without.",
            )

    def _check_size(self, job: JobSpec) -> None:
        count = job.spec.distribution.node_count
        if count > self._node_count and not job.spec.resources.cluster_options.get("partition"):
            raise SubmitRejected(
                f"Run `{job.run_id}` asks for {count} nodes on `{job.spec.target}`.",
                why=f"There are {self._node_count} in {self._where()} of Slurm.",
                hint=f"Set node_count to {self._node_count} or less.",
            )

    def _sbatch(self, request: JobRequest) -> None:
        ticket = node_ticket(request.job, node_home=str(self._options.get("node_home") or ""))
        try:
            number = self._slurm.submit(request.argv, request.script, {VARIABLE: ticket})
        except Refused as refusal:
            raise SubmitRejected(
                f"Run `{request.run_id}` could not start on compute target `{request.target}`.",
                why=f"Slurm refused the job: {refusal}.",
                hint=self._partitions_hint(),
            ) from refusal
        logger.info("run %s: attempt %d is Slurm job %d", request.run_id, request.attempt, number)

    def _ask(self, handles: Sequence[JobHandle]) -> dict[JobHandle, JobReport]:
        jobs = self._slurm.list_jobs()
        names = {handle: job_name(*_key(handle)) for handle in handles}
        past = self._ask_books([name for name in names.values() if name not in jobs])
        self._note_seen(jobs)
        found = {handle: jobs.get(name) or past.get(name) for handle, name in names.items()}
        wanted = [job for job in found.values() if job is not None]
        self._look_at_queues(wanted)
        return {handle: self._report(names[handle], job) for handle, job in found.items()}

    def _ask_books(self, names: list[str]) -> dict[str, SlurmJob]:
        if not names or not self._keeps_books:
            return {}
        past = self._slurm.list_past_jobs(names)
        self._keeps_books = past is not None
        return past or {}

    def _report(self, name: str, job: SlurmJob | None) -> JobReport:
        if job is not None:
            return report(job, place=self._places.get(job.number), lost=self._lost_under(job))
        # sacct trails the queue: what was there a moment ago and is in neither has not gone for good.
        if self._keeps_books and time.monotonic() - self._seen.get(name, -LAG_S) < LAG_S:
            return JobReport(JobState.UNKNOWN, "Slurm's accounting does not have the end of the job yet")
        return JobReport(JobState.GONE, "Slurm does not know the job")

    def _note_seen(self, jobs: Mapping[str, SlurmJob]) -> None:
        now = time.monotonic()
        kept = {name: at for name, at in self._seen.items() if now - at < LAG_S}
        self._seen = {**kept, **{name: now for name, job in jobs.items() if not job.has_ended}}

    def _look_at_queues(self, jobs: Sequence[SlurmJob]) -> None:
        """Find the places of jobs that wait their turn; a queue that cannot be seen (PrivateData) leaves them out."""
        partitions = sorted({job.partition for job in jobs if job.is_waiting and job.partition})
        if not partitions:
            self._places = {}
        elif time.monotonic() - self._places_at > PLACES_S or any(
            job.is_waiting and job.number not in self._places for job in jobs
        ):
            self._places_at = time.monotonic()
            try:
                self._places = self._slurm.list_places(partitions)
            except (Refused, SystemFailure) as error:
                logger.debug("the queue could not be read: %s", error)

    def _lost_under(self, job: SlurmJob) -> list[str]:
        """Return those nodes of a job that are down; asked once, since they may come back."""
        if job.state not in ("NODE_FAIL", "BOOT_FAIL") or not job.nodes:
            return []
        if job.number not in self._lost:
            while len(self._lost) >= MOST_ENDS:
                del self._lost[next(iter(self._lost))]
            # A star: it does not respond. That shows while Slurm is still busy with the end of its jobs.
            down = [
                node.name
                for node in self._slurm.list_nodes(nodes=job.nodes)
                if node.state.startswith(("down", "fail")) or node.state.endswith("*")
            ]
            if not down:
                return []
            self._lost[job.number] = down
        return self._lost[job.number]

    def _leaves(self, handle: JobHandle) -> bool:
        deadline = time.monotonic() + LEAVE_S
        while self._watch.reports([handle])[handle].state is not JobState.GONE:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True

    def _partitions_hint(self) -> str:
        try:
            return f"Partitions here: {', '.join(self._slurm.list_partitions())}."
        except (Refused, RunyardError):
            return ""

    def _node_home(self) -> str:
        return str(self._options.get("node_home") or f"/var/tmp/runyard-{os.geteuid()}")

    def _where(self) -> str:
        partition = self._options.get("partition")
        return f"partition {partition}" if partition else "the cluster"


def _key(handle: JobHandle) -> tuple[str, int]:
    return handle.run_id, handle.attempt


def _in_background(what: str, act: Callable[[], None], then: Callable[[], None]) -> None:
    def go() -> None:
        try:
            act()
        except (Refused, RunyardError) as error:
            logger.warning("%s: %s", what, error)
        then()

    threading.Thread(target=go, name=f"runyard-slurm-{what}", daemon=True).start()
