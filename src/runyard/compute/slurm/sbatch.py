"""Write the job for Slurm: the arguments of sbatch, and a script that a person can read. Pure.

Values of users become whole words of an argument list, `--name=value`; no shell and no `#SBATCH` line reads them.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from runyard.core.errors import SubmitRejected
from runyard.core.names import check_run_id
from runyard.core.specs import DEFAULT_TIME_LIMIT_S, JobSpec

PREFIX = "runyard-"  # of the names of our jobs
PYTHON = "python3"
PREPARE_S = 600.0  # Slurm's clock starts before the snapshot is there and the environment built, ours after
_MIB = 1024 * 1024
_EXTRA = re.compile(r"--[a-z][a-z0-9-]*(=[^\x00-\x1f\x7f]*)?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PLACES = ("partition", "account", "qos", "constraint")

# What makes a job ours: how it is named and started, what it is told, that it runs once. sbatch takes any beginning of
# a name that fits only one option, so beginnings are refused as well.
_OURS = (
    "array", "batch", "bb", "bbf", "chdir", "cluster", "clusters", "container", "error", "export", "export-file",
    "get-user-env", "gid", "help", "hold", "ignore-pbs", "input", "job-name", "no-kill", "nodes", "ntasks",
    "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-node", "ntasks-per-socket", "open-mode", "output", "parsable",
    "quiet", "requeue", "signal", "test-only", "uid", "usage", "verbose", "version", "wait", "wait-all-nodes", "wrap",
)  # fmt: skip
_SCRIPT = """\
#!/bin/bash
# Runyard: run {run}, attempt {attempt}. Submitted by
#   {command}
# The variable RUNYARD_TICKET tells each node where the server is. All else comes from there, and logs and files of the
# run go there. Slurm keeps the last words of a start that failed as this job's comment.

python={python}
node_start={node_start}

umask 077
words="${{TMPDIR:-/tmp}}/runyard-$SLURM_JOB_ID-$RANDOM$RANDOM"
set -C  # a file that is there already is not ours
if exec 3>"$words"; then rm -f "$words" & else exec 3>/dev/null; fi  # gone with this job, however it ends
set +C
trap : TERM  # Slurm's warning before it kills is for the supervisor
{srun}"$python" -I -S -c "$node_start" >&3 2>&1 3>&-
code=$?
if [ "$code" -ne 0 ]; then
    last=$(tail -c 600 /dev/fd/3 | LC_ALL=C tr -c '[:print:]' ' ')
    scontrol update JobId="$SLURM_JOB_ID" Comment="exit $code: $last" >/dev/null 2>&1
fi
exit "$code"
"""


def job_name(run_id: str, attempt: int) -> str:
    """Return the name under which Slurm knows an attempt; our jobs are found by it alone."""
    return f"{PREFIX}{check_run_id(run_id)}-{attempt}"


def option_words(
    job: JobSpec, options: Mapping[str, Any], longest: Mapping[str, int] = MappingProxyType({})
) -> dict[str, str]:
    """Return what Slurm is asked for, by the names of its options; a run's own wishes win over its target's.

    `longest`: minutes that a job may have, by partition; "" is the default one's.

    Raises:
        SubmitRejected: one of them is nothing that sbatch can be told.
    """
    own = job.spec.resources.cluster_options
    asked = {**options, **own}
    return {
        "job-name": job_name(job.run_id, job.attempt),
        "nodes": str(job.spec.distribution.node_count),
        "ntasks-per-node": "1",
        **{name: _value(name, asked[name]) for name in _PLACES if asked.get(name)},
        **_resources(job),
        **_time_limit(job, longest.get(str(asked.get("partition") or ""))),
        **read_extra([*(options.get("extra") or []), *(own.get("extra") or [])]),
    }


def sbatch_words(asked: Mapping[str, str]) -> list[str]:
    """Return the argument list: the script comes on stdin, and only sbatch's own environment tells the job anything."""
    words = [f"--{name}={value}" if value else f"--{name}" for name, value in asked.items()]
    fixed = ["--no-requeue", "--export=ALL", "--chdir=/", "--output=/dev/null"]
    return ["sbatch", "--parsable", *words, *fixed]


def batch_script(job: JobSpec, asked: Mapping[str, str], node_start: str, *, python: str = PYTHON) -> str:
    """Return what Slurm executes on the first node of the job."""
    several = job.spec.distribution.node_count > 1
    return _SCRIPT.format(
        run=check_run_id(job.run_id),
        attempt=job.attempt,
        command=" ".join(shlex.quote(word) for word in sbatch_words(asked)),
        python=shlex.quote(_value("python", python)),
        node_start=shlex.quote(node_start),
        srun=_srun(asked) if several else "",
    )


def read_extra(words: Sequence[Any]) -> dict[str, str]:
    """Return more options for sbatch, by name. Raises SubmitRejected for what would change what a job of ours is."""
    found: dict[str, str] = {}
    for word in words:
        if not isinstance(word, str) or not _EXTRA.fullmatch(word):
            raise SubmitRejected(
                f"The option extra holds {str(word)[:100]!r}.",
                why="Each must be one option of sbatch in its long form, on one line: --name or --name=value.",
                hint="extra=['--qos=high', '--exclusive']",
            )
        name, _, value = word[2:].partition("=")
        if any(ours.startswith(name) for ours in _OURS):
            raise SubmitRejected(
                f"The option extra holds {word[:100]!r}.",
                why=f"Runyard itself decides what sbatch is told by --{name}.",
                hint="Nodes are RunConfiguration.node_count; output and errors are in the run's logs.",
            )
        found[name] = value
    return found


def _resources(job: JobSpec) -> dict[str, str]:
    resources = job.spec.resources
    cpus = resources.cpus if resources.cpus is not None else job.spec.distribution.processes_per_node
    found = {"cpus-per-task": str(max(1, math.ceil(cpus)))}
    if resources.memory_bytes is not None:
        found["mem"] = f"{math.ceil(resources.memory_bytes / _MIB)}M"
    gres = _gres(job)
    if gres:
        found["gres"] = ",".join(gres)
    return found


def _gres(job: JobSpec) -> list[str]:
    """`custom` may name a kind of GPU (`gpu:a100`), and then says how many as well."""
    custom = job.spec.resources.custom
    named = [f"{_value('gres', name)}:{math.ceil(amount)}" for name, amount in custom.items() if amount > 0]
    is_said = any(name.partition(":")[0] == "gpu" for name in custom)
    return named if is_said or not job.spec.gpus else [f"gpu:{job.spec.gpus}", *named]


def _time_limit(job: JobSpec, longest: int | None) -> dict[str, str]:
    """Return Slurm's own limit, in minutes, which is later than ours; none for our default, which no user asked for.

    The extra time must not exceed the partition's limit. A run that itself asks for more is left to Slurm to judge.
    """
    if job.spec.time_limit_s >= DEFAULT_TIME_LIMIT_S:
        return {}
    wanted = math.ceil(job.spec.time_limit_s / 60)
    with_rest = math.ceil((job.spec.time_limit_s + job.spec.grace_s + PREPARE_S) / 60)
    return {"time": str(longest if longest is not None and wanted <= longest < with_rest else with_rest)}


def _value(name: str, value: Any) -> str:
    text = str(value)
    if not text or text.startswith("-") or _CONTROL.search(text):
        raise SubmitRejected(
            f"The option {name} is {text[:100]!r}.",
            why="It must be one word on one line that does not begin with a dash.",
        )
    return text


def _srun(asked: Mapping[str, str]) -> str:
    """One supervisor per node. It shares what the job has with steps that the user's program may start itself.

    A supervisor ends with 0 whatever became of its run: anything else is a node that could not take part, and the
    others would wait for it.
    """
    cpus = shlex.quote(f"--cpus-per-task={asked.get('cpus-per-task', '1')}")
    fixed = "--ntasks-per-node=1 --kill-on-bad-exit=1 --wait=0 --mpi=none --input=none --overlap"
    comment = "# Slurm loses what a node writes in the moment of its exit, so a failure comes a second after its words."
    words_first = """trap : TERM; "$@" || { code=$?; sleep 1; exit "$code"; }"""
    return f"{comment}\nsrun --nodes={asked['nodes']} {fixed} {cpus} bash -c {shlex.quote(words_first)} node "
