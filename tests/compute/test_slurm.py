"""The Slurm backend beside stand-ins for Slurm's commands: what the real cluster cannot be made to show."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runyard.compute.base import EndCause, JobHandle, JobReport, JobState
from runyard.compute.slurm import backend as slurm_backend
from runyard.compute.slurm import cluster
from runyard.compute.slurm.backend import SlurmBackend
from runyard.compute.slurm.cluster import SEPARATOR
from runyard.core.config.settings import Settings
from runyard.core.errors import NotYetSupported, SubmitRejected, SystemFailure, UserError
from runyard.core.specs import DistributionSpec, JobSpec
from runyard.core.tickets import read_ticket
from tests.compute.test_sbatch import a_job
from tests.waiting import wait_for

NAME = "runyard-exp_1_0000abcd-2"
HANDLE = JobHandle("exp_1_0000abcd", 2)
AWAY = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
NO_BOOKS = "Slurm accounting storage is disabled"
# Each call leaves its words, its variables and what it read; `<name>.out` and `<name>.err` are what it answers.
STAND_IN = f"""#!{sys.executable} -I
import json, os, sys
here, name = os.path.split(os.path.abspath(sys.argv[0]))
with open(os.path.join(here, "calls"), "a") as calls:
    calls.write(json.dumps([name, sys.argv[1:], dict(os.environ), sys.stdin.read()]) + "\\n")
def said(kind):
    try:
        return open(os.path.join(here, f"{{name}}.{{kind}}")).read()
    except OSError:
        return ""
sys.stdout.write(said("out"))
sys.stderr.write(said("err"))
sys.exit(1 if said("err") else 0)
"""


class Site:
    """A machine whose Slurm answers what a test says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("sbatch", "squeue", "sacct", "scancel", "sinfo"):
            (folder / name).write_text(STAND_IN)
            (folder / name).chmod(0o755)
        self.answers("sinfo", "\n".join(SEPARATOR.join((f"n{k}", "", "idle", "4", "1", "", "none")) for k in range(3)))
        self.answers("sbatch", "17\n")
        self.fails("sacct", NO_BOOKS)

    def answers(self, name: str, text: str) -> None:
        (self.folder / f"{name}.err").unlink(missing_ok=True)
        (self.folder / f"{name}.out").write_text(text)

    def fails(self, name: str, text: str) -> None:
        (self.folder / f"{name}.err").write_text(text)

    def has_job(self, state: str, reason: str = "None", nodes: str = "", name: str = NAME) -> None:
        self.answers("squeue", SEPARATOR.join(("17", name, state, reason, nodes, "main", "N/A", "(null)")) + "\n")

    def calls(self, name: str) -> list[list[Any]]:
        lines = (self.folder / "calls").read_text().splitlines() if (self.folder / "calls").exists() else []
        return [call[1:] for call in map(json.loads, lines) if call[0] == name]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name in ("LD_PRELOAD_X", "BASH_ENV", "SBATCH_WRAP", "SLURM_JOB_NAME", "RUNYARD_TOKEN", "GIT_SSH_COMMAND"):
        monkeypatch.setenv(name, "from the server's shell")
    return Site(tmp_path)


@pytest.fixture
def backend(site: Site, tmp_path: Path) -> Iterator[SlurmBackend]:
    backend = SlurmBackend(Settings(home=tmp_path), {"partition": "main", "node_home": "/scratch/yard"})
    yield backend
    backend.close()


def seen(backend: SlurmBackend) -> JobReport:
    backend._watch.hurry()
    return backend.poll([HANDLE])[HANDLE]


def submit(backend: SlurmBackend, job: JobSpec | None = None) -> JobHandle:
    return backend.submit(backend.plan(job or a_job()))


def test_only_the_ticket_and_what_every_job_has_reaches_sbatch(site: Site, backend: SlurmBackend) -> None:
    assert submit(backend) == HANDLE
    [[words, variables, script]] = site.calls("sbatch")
    ticket = read_ticket(variables.pop("RUNYARD_TICKET"))

    assert words[:2] == ["--parsable", f"--job-name={NAME}"]
    assert script.startswith("#!/bin/bash\n# Runyard: run exp_1_0000abcd, attempt 2.")
    assert (ticket.token, ticket.node_rank, ticket.node_home) == ("the-run-token", None, "/scratch/yard")
    assert "the-run-token" not in script + " ".join(words)
    assert set(variables) - {"LC_CTYPE"} == {"PATH", "HOME", "USER", "LOGNAME", "LANG"}
    assert variables["PATH"].endswith(f"/bin:{site.folder}")


def test_a_job_that_slurm_has_already_is_not_submitted_again(site: Site, backend: SlurmBackend) -> None:
    site.has_job("COMPLETED")

    assert submit(backend) == HANDLE
    assert site.calls("sbatch") == []


def test_what_slurm_refuses_is_told_in_its_words_with_what_there_is(site: Site, backend: SlurmBackend) -> None:
    site.fails(
        "sbatch", "sbatch: error: Batch job submission failed: Invalid account or account/partition combination\n"
    )
    with pytest.raises(SubmitRejected, match="could not start on compute target `gpu-cluster`") as caught:
        submit(backend)

    assert caught.value.why == (
        "Slurm refused the job: Batch job submission failed: Invalid account or account/partition combination"
        " (sbatch exited with 1)."
    )
    assert caught.value.hint.startswith("Partitions here: ")


def test_a_controller_that_is_away_is_no_refusal(site: Site, backend: SlurmBackend) -> None:
    site.fails(
        "sbatch", "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)"
    )
    with pytest.raises(SystemFailure, match="Slurm does not answer"):
        submit(backend)

    site.fails("squeue", AWAY)
    site.answers("sbatch", "17\n")
    with pytest.raises(SystemFailure, match="Slurm does not answer"):  # it may have taken the job before
        submit(backend)
    assert len(site.calls("sbatch")) == 1


def test_more_nodes_than_there_are_is_refused_and_asked_once(site: Site, backend: SlurmBackend) -> None:
    job = a_job(distribution=DistributionSpec(kind="mpi", node_count=4))
    request = backend.plan(job)  # nobody looked at the cluster yet
    for act in (lambda: backend.submit(request), lambda: backend.plan(job)):
        with pytest.raises(SubmitRejected, match="asks for 4 nodes") as caught:
            act()
        assert caught.value.why == "There are 3 in partition main of Slurm."
    assert len(site.calls("sinfo")) == 2  # nodes and limits, once


def test_all_jobs_are_asked_for_in_one_question(site: Site, backend: SlurmBackend) -> None:
    handles = [JobHandle(f"exp_{k}_0000abcd", 1) for k in range(300)]
    fields = (("17", f"runyard-{handle.run_id}-1", "RUNNING", "None", "n1", "main", "N/A", "x") for handle in handles)
    site.answers("squeue", "\n".join(map(SEPARATOR.join, fields)))
    backend.poll(handles)
    wait_for(lambda: all(one.state is JobState.ALIVE for one in backend.poll(handles).values()))

    assert len(site.calls("squeue")) == 1
    assert site.calls("sacct") == []


def test_a_controller_that_does_not_answer_says_nothing_about_jobs(site: Site, tmp_path: Path) -> None:
    backend = SlurmBackend(Settings(home=tmp_path), {})
    site.has_job("RUNNING", nodes="n1")
    wait_for(lambda: seen(backend).state is JobState.ALIVE)
    site.fails("squeue", AWAY)
    backend._watch._trust_s = 0.0
    wait_for(lambda: "Slurm does not answer" in seen(backend).why)

    assert seen(backend).state is JobState.UNKNOWN
    site.has_job("NODE_FAIL", nodes="n[1-2]")
    nodes = (("n1", "", "idle", "4", "1", "", "none"), ("n2", "", "completing*", "4", "1", "", "Not responding"))
    site.answers("sinfo", "\n".join(map(SEPARATOR.join, nodes)))
    backend._watch._trust_s = 30.0
    wait_for(lambda: seen(backend).state is JobState.GONE)
    assert (seen(backend).cause, seen(backend).why.endswith("n2 is down.")) == (EndCause.NODE_LOST, True)
    backend.close()


def test_a_controller_that_hangs_is_given_up(
    site: Site, backend: SlurmBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.list_nodes()
    monkeypatch.setattr(cluster, "TIMEOUT_S", 0.2)
    (site.folder / "squeue").write_text("#!/bin/sh\nexec sleep 30\n")

    with pytest.raises(SystemFailure, match="did not answer `squeue`"):
        submit(backend)


def test_a_job_that_left_the_queue_is_gone_where_nobody_keeps_books(site: Site, backend: SlurmBackend) -> None:
    site.has_job("RUNNING", nodes="n1")
    wait_for(lambda: seen(backend).state is JobState.ALIVE)
    site.answers("squeue", "")
    wait_for(lambda: seen(backend).state is JobState.GONE)

    assert seen(backend).why == "Slurm does not know the job"
    assert len(site.calls("sacct")) == 1


def test_the_books_have_the_end_of_a_job_that_left_the_queue_and_may_be_late(
    site: Site, backend: SlurmBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.answers("sacct", "")
    site.has_job("RUNNING", nodes="n1")
    wait_for(lambda: seen(backend).state is JobState.ALIVE)
    site.answers("squeue", "")
    wait_for(lambda: seen(backend).state is JobState.UNKNOWN)
    site.answers("sacct", SEPARATOR.join(("17", NAME, "CANCELLED by 1000", "None", "n1", "main", "Unknown", "")) + "\n")
    wait_for(lambda: seen(backend).state is JobState.GONE)

    assert seen(backend).cause is EndCause.CANCELED
    [words, *_] = site.calls("sacct")[-1]
    assert f"--name={NAME}" in words
    site.answers("sacct", "")
    monkeypatch.setattr(slurm_backend, "LAG_S", 0.0)
    wait_for(lambda: seen(backend).why == "Slurm does not know the job")


def test_a_cancel_takes_only_what_waits_out_of_the_queue(site: Site, backend: SlurmBackend) -> None:
    backend.cancel(HANDLE)
    wait_for(lambda: site.calls("scancel"))

    [[words, *_]] = site.calls("scancel")
    assert words[2:] == [f"--name={NAME}", "--state=PENDING"]


def test_the_end_cancels_what_does_not_leave_by_itself(
    site: Site, backend: SlurmBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.has_job("COMPLETED", nodes="n1")
    backend.end(HANDLE)
    assert site.calls("scancel") == []

    monkeypatch.setattr(slurm_backend, "LEAVE_S", 0.1)
    site.has_job("RUNNING", nodes="n1")
    backend.end(HANDLE)
    [[words, *_]] = site.calls("scancel")
    assert words[2:] == [f"--name={NAME}"]


def test_a_check_names_the_partitions_that_there_are(site: Site, backend: SlurmBackend) -> None:
    site.answers("sinfo", "debug\nv100\n")
    with pytest.raises(UserError, match="Slurm has no partition `main`") as caught:
        backend.check()

    assert caught.value.hint == "Partitions here: debug, v100."
    site.fails("sinfo", AWAY)
    with pytest.raises(UserError, match="Slurm cannot be used") as caught:
        backend.check()
    assert "scontrol ping" in caught.value.hint


def test_a_way_to_start_mpi_that_is_not_there_yet_is_refused_at_attach(site: Site, tmp_path: Path) -> None:
    with pytest.raises(NotYetSupported, match="cannot start MPI runs by `pmix`"):
        SlurmBackend(Settings(home=tmp_path), {"mpi": "pmix"}).check()


def test_options_that_no_job_can_have_are_refused_at_attach(site: Site, tmp_path: Path) -> None:
    with pytest.raises(SubmitRejected, match="The option extra holds '-p gpu'"):
        SlurmBackend(Settings(home=tmp_path), {"extra": ["-p gpu"]}).check()


def test_a_machine_without_slurm_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="There is no `sinfo` on the server's machine"):
        SlurmBackend(Settings(home=tmp_path), {}).check()
