"""A Slurm cluster by its own commands: read what they print, and run them.

The first half is pure: it turns the output of squeue, sacct and sinfo into jobs, nodes and partitions. `SlurmCommands`
runs the commands with argument lists, an environment that we write, and a time limit.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from runyard.compute.base import ClusterNode, EndCause, JobReport, JobState
from runyard.compute.slurm.sbatch import PREFIX
from runyard.core.errors import SystemFailure, UserError

SEPARATOR = "\x1f"  # no name, reason or comment holds it
QUEUE_FIELDS = SEPARATOR.join(("%i", "%j", "%T", "%r", "%N", "%P", "%S", "%k"))
PAST_FIELDS = "JobID,JobName,State,Reason,NodeList,Partition,Start,Comment"
NODE_FIELDS = SEPARATOR.join(("%N", "%o", "%T", "%c", "%m", "%G", "%E"))
_NOTHING = ("", "None", "(null)", "N/A", "Unknown", "none", "None assigned")

_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")
_ENDS: Mapping[str, tuple[EndCause, str]] = {
    "COMPLETED": (EndCause.ENDED, "ended"),
    "FAILED": (EndCause.ENDED, "ended with an error"),
    "OUT_OF_MEMORY": (EndCause.ENDED, "was ended by Slurm for using more memory than it had asked for"),
    "TIMEOUT": (EndCause.TIME_LIMIT, "was ended by Slurm at its time limit"),
    "DEADLINE": (EndCause.TIME_LIMIT, "was ended by Slurm at its deadline"),
    "CANCELLED": (EndCause.CANCELED, "was cancelled in Slurm"),
    "REVOKED": (EndCause.CANCELED, "was taken back by Slurm"),
    "PREEMPTED": (EndCause.PREEMPTED, "was preempted: Slurm gave its nodes to another job"),
    "NODE_FAIL": (EndCause.NODE_LOST, "was ended by Slurm because a node failed"),
    "BOOT_FAIL": (EndCause.NODE_LOST, "was ended by Slurm because a node did not boot"),
}
# What Slurm's reasons mean; https://slurm.schedmd.com/job_reason_codes.html has them all.
_REASONS: Mapping[str, str] = {
    "": "Slurm has not looked at it yet",
    "Resources": "the nodes it needs are busy",
    "Priority": "jobs with a higher priority come first",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition takes no jobs now",
    "PartitionNodeLimit": "it asks for more nodes than its partition allows",
    "PartitionTimeLimit": "its time limit is longer than its partition allows",
    "ReqNodeNotAvail": "a node that it needs is not available",
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions": "the nodes it needs "
    "are down, drained or reserved",
    "BadConstraints": "no node has what it asks for",
    "Dependency": "it depends on another job",
    "DependencyNeverSatisfied": "it depends on a job that failed",
    "JobHeldUser": "it is held; `scontrol release` lets it go",
    "JobHeldAdmin": "an administrator holds it",
    "BeginTime": "its begin time has not come",
    "Licenses": "a licence is not free",
    "Reservation": "its reservation has not begun",
    "Cleaning": "its last nodes are being cleaned up",
    "Prolog": "the prolog of its nodes is running",
    "InvalidAccount": "Slurm does not accept its account",
    "InvalidQOS": "Slurm does not accept its quality of service",
    "PartitionConfig": "no node of its partition has what it asks for",
    "NodeDown": "a node that it needs is down",
}
TIMEOUT_S = 20.0
LOOK_BACK = "now-30days"  # a job that ended before is not asked for
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NO_ACCOUNTING = "accounting storage is disabled"
# sbatch's words for what is not the job's fault: the same job may be asked for again.
_NOT_NOW = (
    "Unable to contact slurm controller", "Socket timed out", "Connection refused", "Connection timed out",
    "Communication connection failure", "Zero Bytes were transmitted", "temporarily unable to accept job",
    "Resource temporarily unavailable", "Transport endpoint", "Protocol authentication error", "Munge",
    "configuration source", "Slurm controller not responding",
)  # fmt: skip


@dataclass(frozen=True)
class SlurmJob:
    """One of our jobs, as squeue or sacct prints it."""

    number: int
    name: str
    state: str
    reason: str
    nodes: str = ""
    partition: str = ""
    starts: str = ""  # expected, of one that waits
    comment: str = ""

    @property
    def is_waiting(self) -> bool:
        """Whether Slurm has not started the job yet."""
        return self.state in _WAITING

    @property
    def has_ended(self) -> bool:
        """Whether the job has ended, for whatever reason."""
        return self.state.split(" ")[0].rstrip("+") in _ENDS


def read_jobs(text: str) -> dict[str, SlurmJob]:
    """Return our jobs from lines of QUEUE_FIELDS or PAST_FIELDS, by name: of several the living, or the last one."""
    found: dict[str, SlurmJob] = {}
    for job in filter(None, map(_read_job, text.split("\n"))):
        old = found.get(job.name)
        if old is None or (not job.has_ended, job.number) > (not old.has_ended, old.number):
            found[job.name] = job
    return found


def read_places(text: str) -> dict[int, tuple[int, int]]:
    """Return each waiting job's place in its partition's queue, and the length of that, from lines `%i %P` in order."""
    queues: dict[str, list[int]] = {}
    for line in text.split("\n"):
        number, _, partition = line.strip().partition(" ")
        if number.isdecimal():
            queues.setdefault(partition, []).append(int(number))
    return {number: (place, len(queue)) for queue in queues.values() for place, number in enumerate(queue, start=1)}


def read_partitions(text: str) -> list[str]:
    """Return the names from lines of `%R`, each once."""
    return list(dict.fromkeys(line.strip() for line in text.split("\n") if line.strip()))


def read_longest(text: str) -> dict[str, int]:
    """Return how many minutes a job may have, by partition ("": the default one), from lines `%P %l`."""
    found: dict[str, int] = {}
    for line in text.split("\n"):
        name, _, limit = line.strip().partition(" ")
        match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):\d+", limit.strip())
        if match is None:
            continue
        days, hours, minutes = (int(part or 0) for part in match.groups())
        for key in {name.rstrip("*"), "" if name.endswith("*") else name}:
            found[key] = (days * 24 + hours) * 60 + minutes
    return found


def read_nodes(text: str) -> list[ClusterNode]:
    """Return the nodes from lines of NODE_FIELDS; one that is in several partitions comes once."""
    found = {node.name: node for node in filter(None, map(_read_node, text.split("\n")))}
    return list(found.values())


def report(job: SlurmJob, *, place: tuple[int, int] | None = None, lost: Iterable[str] = ()) -> JobReport:
    """Return how a job stands. `place`: in its queue; `lost`: those of its nodes that are down."""
    if job.is_waiting:
        return JobReport(JobState.WAITING, _why_waiting(job, place))
    if not job.has_ended:
        return JobReport(JobState.ALIVE, f"Slurm job {job.number} on {job.nodes}" if job.nodes else "")
    cause, _ = _ENDS[job.state.split(" ")[0].rstrip("+")]
    return JobReport(JobState.GONE, _why_ended(job, list(lost)), cause)


def _read_job(line: str) -> SlurmJob | None:
    fields = line.split(SEPARATOR, 7)
    if len(fields) < 8 or not fields[0].isdecimal() or not fields[1].startswith(PREFIX):
        return None
    number, name, state, *rest = fields
    return SlurmJob(int(number), name, state, *("" if text.strip() in _NOTHING else text.strip() for text in rest))


def _read_node(line: str) -> ClusterNode | None:
    fields = line.split(SEPARATOR, 6)
    if len(fields) < 7:
        return None
    name, address, state, cpus, memory_mb, gres, note = (field.strip() for field in fields)
    return ClusterNode(
        name=name,
        address=address,
        state=state,
        cpus=_number(cpus),
        gpus=_gpus(gres),
        memory_bytes=int(_number(memory_mb)) * 1024 * 1024,
        note="" if note in _NOTHING else note,
    )


def _number(text: str) -> float:
    digits = re.match(r"\d+", text)  # `64+`: nodes of several sizes
    return float(digits.group()) if digits else 0.0


def _gpus(gres: str) -> float:
    """`gpu:a100:4(S:0-1),shard:8` → 4"""
    return float(sum(int(count) for count in re.findall(r"\bgpu(?::[^:,(]+)?:(\d+)", gres)))


def _why_waiting(job: SlurmJob, place: tuple[int, int] | None) -> str:
    said = job.reason.partition(",")[0] if job.reason.startswith("ReqNode") else job.reason
    meaning = _REASONS.get(said) or _limit(said) or "Slurm holds it back"
    if job.state == "CONFIGURING":
        meaning = f"{job.nodes} is being prepared"
    words = [f"Slurm job {job.number} waits in partition {job.partition}: {meaning}"]
    if job.reason:
        words.append(f"({job.reason})")
    if place is not None:
        words.append(f"- place {place[0]} of {place[1]}")
    if job.starts:
        words.append(f"- Slurm expects to start it at {job.starts}")
    return " ".join(words)


def _limit(reason: str) -> str:
    """QOSMaxJobsPerUserLimit, AssocGrpCPUMinutesLimit …"""
    if reason.startswith("QOS"):
        return "a limit of its quality of service is reached"
    return "a limit of its account is reached" if reason.startswith(("Assoc", "MaxMem", "MaxJobs")) else ""


def _why_ended(job: SlurmJob, lost: list[str]) -> str:
    state = job.state.partition(" ")[0]
    words = f"Slurm job {job.number} {_ENDS[state.rstrip('+')][1]} ({job.state}"
    if job.reason and state in ("FAILED", "NODE_FAIL", "BOOT_FAIL", "CANCELLED"):
        words += f", {job.reason}"
    words += ")"
    if state in ("NODE_FAIL", "BOOT_FAIL") and (lost or job.nodes):
        words += f": {', '.join(lost)} is down" if lost else f"; its nodes were {job.nodes}"
    return f"{words}. {job.comment}" if job.comment and state == "FAILED" else f"{words}."


class Refused(Exception):
    """Slurm answered and refused; the text is its own sentence."""


class SlurmCommands:
    """Runs Slurm's commands. Thread-safe: it has no state but the commands' environment."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._path = environ.get("PATH") or _PATH
        self._user = str(os.geteuid())
        self._variables = _variables(environ, self._path)

    def submit(self, words: Sequence[str], script: str, variables: Mapping[str, str]) -> int:
        """Return the number of the new job. Raises Refused or SystemFailure."""
        answer = self._run(words, stdin=script, variables=variables)
        return int(answer.strip().partition(";")[0])

    def list_jobs(self) -> dict[str, SlurmJob]:
        """Return our jobs by name, also those that ended within the last minutes: one question for all."""
        return read_jobs(
            self._run(["squeue", "-h", f"--user={self._user}", "--states=all", f"--format={QUEUE_FIELDS}"])
        )

    def find_job(self, name: str) -> SlurmJob | None:
        """Return the job of that name from the queue, None when it is not there."""
        words = ["squeue", "-h", f"--user={self._user}", f"--name={name}", "--states=all", f"--format={QUEUE_FIELDS}"]
        return read_jobs(self._run(words)).get(name)

    def list_past_jobs(self, names: Sequence[str]) -> dict[str, SlurmJob] | None:
        """Return jobs that left the queue, as the accounting knows them; None where the cluster keeps none."""
        which = [f"--user={self._user}", f"--name={','.join(names)}", f"--starttime={LOOK_BACK}"]
        form = ["-X", "-n", "--parsable2", f"--delimiter={SEPARATOR}", f"--format={PAST_FIELDS}"]
        try:
            return read_jobs(self._run(["sacct", *which, *form]))
        except Refused as refusal:
            if _NO_ACCOUNTING in str(refusal):
                return None
            raise SystemFailure("Slurm's accounting did not answer.", why=str(refusal)) from refusal

    def list_places(self, partitions: Sequence[str]) -> dict[int, tuple[int, int]]:
        """Return the places of all waiting jobs, those of other users included, in the queues of these partitions."""
        which = ["--states=PENDING", f"--partition={','.join(partitions)}", "--sort=-p,i"]
        return read_places(self._run(["squeue", "-h", *which, "--format=%i %P"]))

    def cancel(self, name: str, *, only_waiting: bool = False) -> None:
        """Cancel the job of that name, if it exists. May be repeated."""
        which = ["--state=PENDING"] if only_waiting else []
        self._run(["scancel", "--quiet", f"--user={self._user}", f"--name={name}", *which])

    def list_partitions(self) -> list[str]:
        """Return the names of all partitions."""
        return read_partitions(self._run(["sinfo", "-h", "--format=%R"]))

    def list_longest(self) -> dict[str, int]:
        """Return the time limits of partitions in minutes, of those that have one."""
        return read_longest(self._run(["sinfo", "-h", "--format=%P %l"]))

    def list_nodes(self, *, partition: str = "", nodes: str = "") -> list[ClusterNode]:
        """Return the nodes of the cluster, of a partition, or those named."""
        which = [f"--partition={partition}"] if partition else []
        which += [f"--nodes={nodes}"] if nodes else []
        return read_nodes(self._run(["sinfo", "-h", "-N", *which, f"--format={NODE_FIELDS}"]))

    def version(self) -> str:
        """Return Slurm's name and version."""
        return self._run(["sinfo", "--version"]).strip()

    def _run(self, words: Sequence[str], *, stdin: str = "", variables: Mapping[str, str] | None = None) -> str:
        program = shutil.which(words[0], path=self._path)
        if program is None:
            raise UserError(
                f"There is no `{words[0]}` on the server's machine.",
                why="Slurm's own commands submit and watch the jobs of a Slurm target.",
                hint="Install Slurm's client commands there, or start the server on a login node of the cluster.",
            )
        try:
            ended = subprocess.run(
                [program, *words[1:]],
                input=stdin,
                env={**self._variables, **(variables or {})},
                cwd="/",
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise SystemFailure(f"Slurm did not answer `{words[0]}` within {TIMEOUT_S:g} s.") from error
        if ended.returncode == 0:
            return ended.stdout
        raise _fault(words[0], ended.returncode, ended.stderr)


def _fault(program: str, code: int, stderr: str) -> Exception:
    lines = [line.removeprefix(f"{program}: ").removeprefix("error: ").strip() for line in stderr.splitlines()]
    said = " ".join(filter(None, lines))[-1000:] or "it said nothing"
    if any(words in stderr for words in _NOT_NOW):
        return SystemFailure("Slurm does not answer.", why=f"{program} exited with {code}: {said}")
    return Refused(f"{said} ({program} exited with {code})")


def _variables(environ: Mapping[str, str], path: str) -> dict[str, str]:
    """Return the whole environment of Slurm's commands and, through sbatch, of our jobs."""
    user = pwd.getpwuid(os.geteuid())
    found = {"PATH": _PATH, "HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "LANG": "C.UTF-8"}
    sbatch = shutil.which("sbatch", path=path)
    if sbatch is not None and os.path.dirname(sbatch) not in _PATH.split(":"):
        found["PATH"] += f":{os.path.dirname(sbatch)}"
    return {**found, **{name: environ[name] for name in ("SLURM_CONF",) if environ.get(name)}}
