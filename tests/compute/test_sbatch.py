"""What Slurm is asked for, and the very script that it gets."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runyard.compute.slurm.sbatch import batch_script, job_name, option_words, sbatch_words
from runyard.core.errors import InvalidArgument, SubmitRejected
from runyard.core.specs import DistributionSpec, JobSpec, ResourceSpec, RunSpec


def a_job(**spec: Any) -> JobSpec:
    return JobSpec(
        run_id="exp_1_0000abcd",
        attempt=2,
        experiment="exp",
        workspace="default",
        spec=RunSpec(target="gpu-cluster", script="train.py", **spec),
        snapshot_root=None,
        server={"kind": "tcp", "host": "10.77.0.1", "port": 8787},
        token="the-run-token",
        cookie="c",
        home="/home",
    )


def words_of(job: JobSpec, **options: Any) -> list[str]:
    return sbatch_words(option_words(job, options))


def test_a_job_of_one_process_asks_for_one_node_and_one_cpu() -> None:
    assert words_of(a_job()) == [
        "sbatch",
        "--parsable",
        "--job-name=runyard-exp_1_0000abcd-2",
        "--nodes=1",
        "--ntasks-per-node=1",
        "--cpus-per-task=1",
        "--no-requeue",
        "--export=ALL",
        "--chdir=/",
        "--output=/dev/null",
    ]


def test_what_a_run_asks_for_is_said_in_slurms_words_and_wins_over_its_target() -> None:
    job = a_job(
        distribution=DistributionSpec(kind="mpi", node_count=2, processes_per_node=3),
        gpus=2,
        time_limit_s=3600.0,
        grace_s=30.0,
        resources=ResourceSpec(
            memory_bytes=3 * 1024**3 + 1,
            custom={"nvme": 1.5},
            cluster_options={"partition": "a100", "extra": ["--exclusive", "--nice=10"]},
        ),
    )
    asked = option_words(
        job, {"partition": "debug", "account": "lab", "constraint": "a&b", "extra": ["--nice=5"], "qos": None}
    )

    assert asked == {
        "job-name": "runyard-exp_1_0000abcd-2",
        "nodes": "2",
        "ntasks-per-node": "1",
        "partition": "a100",
        "account": "lab",
        "constraint": "a&b",
        "cpus-per-task": "3",
        "mem": "3073M",
        "gres": "gpu:2,nvme:2",
        "time": "71",  # an hour, the grace, ten minutes to get ready, in minutes
        "nice": "10",
        "exclusive": "",
    }
    assert "--exclusive" in sbatch_words(asked)


@pytest.mark.parametrize(
    ("minutes", "longest", "asked"),
    [(50, 60, "60"), (60, 60, "60"), (60, 70, "70"), (60, 90, "71"), (61, 60, "72"), (60, None, "71")],
)
def test_the_time_to_get_ready_is_no_more_than_the_partition_allows(
    minutes: int, longest: int | None, asked: str
) -> None:
    known = {} if longest is None else {"gpu": longest, "": 1}

    assert option_words(a_job(time_limit_s=minutes * 60.0), {"partition": "gpu"}, known)["time"] == asked


def test_a_kind_of_gpu_is_counted_once_and_a_site_has_its_own_time() -> None:
    job = a_job(gpus=4, resources=ResourceSpec(cpus=2.5, custom={"gpu:a100": 4}), time_limit_s=60.0)
    asked = option_words(job, {"extra": ["--time=2-0", "--cpus-per-task=8"]})

    assert (asked["gres"], asked["time"], asked["cpus-per-task"]) == ("gpu:a100:4", "2-0", "8")


@pytest.mark.parametrize(
    "word",
    [
        "-p gpu", "--partition gpu x\n--wrap=id", "--wrap=touch /tmp/x", "--wra=touch /tmp/x", "--export=NONE",
        "--exp=ALL", "--uid=0", "--array=1-100", "--requeue", "--output=/etc/passwd", "--job-name=other", "--n=3",
        "--nodes=9", "id", "--comment=a\nb", "--comment=a\0b", "--", "--=x", "--Qos=x", 7,
    ],
)  # fmt: skip
def test_options_that_would_change_what_a_job_is_are_refused(word: Any) -> None:
    for job, options in (
        (a_job(), {"extra": [word]}),
        (a_job(resources=ResourceSpec(cluster_options={"extra": [word]})), {}),
    ):
        with pytest.raises(SubmitRejected, match="The option extra holds"):
            option_words(job, options)


@pytest.mark.parametrize("value", ["-oProxyCommand=x", "a\n#SBATCH --uid=0", "a\0b", "a\x1bb"])
@pytest.mark.parametrize("name", ["partition", "account", "qos", "constraint", "python"])
def test_a_value_is_one_word_of_one_line(name: str, value: str) -> None:
    with pytest.raises(SubmitRejected, match=f"The option {name} is"):
        batch_script(
            a_job(), option_words(a_job(), {name: value}), "pass", python=value if name == "python" else "python3"
        )


def test_nothing_but_a_run_id_names_a_job() -> None:
    with pytest.raises(InvalidArgument):
        job_name("exp\n#SBATCH --uid=0", 1)


def test_names_and_secrets_of_a_run_are_in_neither_the_words_nor_the_script() -> None:
    hostile = "$(touch x)\n#SBATCH --uid=0"
    job = replace(a_job(arguments=[hostile], variables={"A": hostile}), experiment=hostile)
    asked = option_words(job, {})
    text = batch_script(job, asked, "print(1)") + " ".join(sbatch_words(asked))

    assert "touch" not in text
    assert "#SBATCH" not in text
    assert "the-run-token" not in text


def test_the_script_of_one_node_reads_so() -> None:
    asked = option_words(a_job(), {"extra": ["--comment=it's mine"]})

    assert batch_script(a_job(), asked, "import sys\nprint(sys.argv)\n", python="/opt/my python/bin/python3") == (
        """\
#!/bin/bash
# Runyard: run exp_1_0000abcd, attempt 2. Submitted by
#   sbatch --parsable --job-name=runyard-exp_1_0000abcd-2 --nodes=1 --ntasks-per-node=1 --cpus-per-task=1 """
        """'--comment=it'"'"'s mine' --no-requeue --export=ALL --chdir=/ --output=/dev/null
# The variable RUNYARD_TICKET tells each node where the server is. All else comes from there, and logs and files of the
# run go there. Slurm keeps the last words of a start that failed as this job's comment.

python='/opt/my python/bin/python3'
node_start='import sys
print(sys.argv)
'

umask 077
words="${TMPDIR:-/tmp}/runyard-$SLURM_JOB_ID-$RANDOM$RANDOM"
set -C  # a file that is there already is not ours
if exec 3>"$words"; then rm -f "$words" & else exec 3>/dev/null; fi  # gone with this job, however it ends
set +C
trap : TERM  # Slurm's warning before it kills is for the supervisor
"$python" -I -S -c "$node_start" >&3 2>&1 3>&-
code=$?
if [ "$code" -ne 0 ]; then
    last=$(tail -c 600 /dev/fd/3 | LC_ALL=C tr -c '[:print:]' ' ')
    scontrol update JobId="$SLURM_JOB_ID" Comment="exit $code: $last" >/dev/null 2>&1
fi
exit "$code"
"""
    )


def test_the_script_of_several_nodes_starts_one_process_on_each() -> None:
    job = a_job(distribution=DistributionSpec(kind="mpi", node_count=3, processes_per_node=2))
    script = batch_script(job, option_words(job, {}), "pass")

    assert (
        "\n# Slurm loses what a node writes in the moment of its exit, so a failure comes a second after its words."
        "\nsrun --nodes=3 --ntasks-per-node=1 --kill-on-bad-exit=1 --wait=0 --mpi=none --input=none --overlap"
        ' --cpus-per-task=2 bash -c \'trap : TERM; "$@" || { code=$?; sleep 1; exit "$code"; }\' node'
        ' "$python" -I -S -c "$node_start"' in script
    )


def test_a_start_that_fails_leaves_its_last_words_with_slurm(tmp_path: Path) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {tmp_path}/told\n")
    scontrol.chmod(0o755)
    script = batch_script(a_job(), option_words(a_job(), {}), "import sys\nsys.exit('no\\nserver; $(id)')")
    variables = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "17", "TMPDIR": str(tmp_path)}
    ended = subprocess.run(["bash", "-s"], input=script, env=variables, text=True, capture_output=True, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "")
    assert (tmp_path / "told").read_text() == "update\nJobId=17\nComment=exit 1: no server; $(id) \n"
    assert {path.name for path in tmp_path.iterdir()} == {"scontrol", "told"}
