"""Slurm's own commands: argument lists, an environment that we write, and a time after which they are given up."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from runyard.compute.base import EngineNode
from runyard.compute.slurm.slurm_states import (
    NODE_FIELDS,
    PAST_FIELDS,
    QUEUE_FIELDS,
    SEPARATOR,
    SlurmJob,
    read_jobs,
    read_longest,
    read_nodes,
    read_partitions,
    read_places,
)
from runyard.core.errors import SystemFailure, UserError

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


class Refused(Exception):
    """Slurm understood and said no: its own sentence."""


class SlurmCommands:
    """Thread-safe: keeps nothing but where the commands are."""

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
        """Return the places of all waiting jobs, everybody's, in the queues of these partitions."""
        which = ["--states=PENDING", f"--partition={','.join(partitions)}", "--sort=-p,i"]
        return read_places(self._run(["squeue", "-h", *which, "--format=%i %P"]))

    def cancel(self, name: str, *, only_waiting: bool = False) -> None:
        which = ["--state=PENDING"] if only_waiting else []
        self._run(["scancel", "--quiet", f"--user={self._user}", f"--name={name}", *which])

    def list_partitions(self) -> list[str]:
        return read_partitions(self._run(["sinfo", "-h", "--format=%R"]))

    def list_longest(self) -> dict[str, int]:
        """Return the time limits of partitions in minutes, of those that have one."""
        return read_longest(self._run(["sinfo", "-h", "--format=%P %l"]))

    def list_nodes(self, *, partition: str = "", nodes: str = "") -> list[EngineNode]:
        which = [f"--partition={partition}"] if partition else []
        which += [f"--nodes={nodes}"] if nodes else []
        return read_nodes(self._run(["sinfo", "-h", "-N", *which, f"--format={NODE_FIELDS}"]))

    def version(self) -> str:
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
    """Return all that Slurm's commands and, through sbatch, our jobs are told by the environment."""
    user = pwd.getpwuid(os.geteuid())
    found = {"PATH": _PATH, "HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "LANG": "C.UTF-8"}
    sbatch = shutil.which("sbatch", path=path)
    if sbatch is not None and os.path.dirname(sbatch) not in _PATH.split(":"):
        found["PATH"] += f":{os.path.dirname(sbatch)}"
    return {**found, **{name: environ[name] for name in ("SLURM_CONF",) if environ.get(name)}}
