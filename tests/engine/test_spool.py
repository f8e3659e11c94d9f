"""What a run is submitted with and no database holds: without it, or with a damaged one, the run never starts."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from runyard.compute.base import EndCause, JobHandle, JobReport, JobState
from runyard.core.errors import StoreUnavailable, SubmissionLost
from runyard.core.specs import RunSpec
from runyard.core.statuses import RunStatus
from runyard.engine.runs.join import Join
from runyard.engine.state.spool import Spool, Spooled
from tests.engine.bench import Bench
from tests.engine.test_sweeps import children, end, spec_of

SECRET = "hunter2-hunter2"
SPEC = RunSpec(script="train.py", arguments=["--password", SECRET], variables={"DB_PASSWORD": SECRET})


def flip(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"hunter2", b"hunter3"))


def copy_other(path: Path) -> None:
    shutil.copy(path.with_name("other.json"), path)


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


FAULTS: dict[str, Callable[[Path], object]] = {
    "removed": Path.unlink,
    "emptied": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-10]),
    "cut at the start": lambda path: path.write_bytes(path.read_bytes()[:1]),
    "garbage": lambda path: path.write_bytes(os.urandom(500)),
    "zeros": lambda path: path.write_bytes(bytes(len(path.read_bytes()))),
    "a byte flipped": flip,
    "another run's": copy_other,
    "a folder": replace_by_folder,
    "other JSON": lambda path: path.write_text("[1, 2]"),
    "its folder removed": lambda path: shutil.rmtree(path.parent),
}


def spool_file(bench: Bench, run_id: str = "exp_1") -> Path:
    return bench.settings.home / "server" / "spool" / f"{run_id}.json"


def queue(bench: Bench, run_id: str = "exp_1", spec: RunSpec = SPEC) -> None:
    """Submit to a target that cannot start it now."""
    bench.backend.fault = bench.cluster.fault = OSError("not now")
    bench.engine.submit(bench.new(run_id, spec=spec), submitter={"HOME": "/home/me"})


def go_on(bench: Bench) -> None:
    bench.backend.fault = bench.cluster.fault = None
    bench.pass_time(40)


@pytest.mark.parametrize("restarts", [False, True], ids=["same server", "next server"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_queued_run_whose_spool_file_is_lost_is_refused(tmp_path: Path, fault: str, restarts: bool) -> None:
    bench = Bench(tmp_path, local_runs=1)
    bench.submit("first")
    for run_id in ("other", "exp_1"):  # they wait for its place
        bench.engine.submit(bench.new(run_id, spec=SPEC), submitter={"HOME": "/home/me"})
    FAULTS[fault](spool_file(bench))
    if restarts:
        bench.restart()
    for run_id in ("first", "other"):
        bench.report(RunStatus.COMPLETED, run_id)
        bench.pass_time(2)
    run = bench.run()

    assert bench.backend.jobs_of("exp_1") == []
    assert run.status is RunStatus.FAILED and run.error is not None and run.error["code"] == "SubmissionLost"
    assert "`exp_1` was not started" in run.error["message"] and "spool file" in run.error["message"]
    assert "Submit it again" in run.error["message"] and SECRET not in str(run.error)
    assert bench.engine.explained(run).waits_for == ""


def test_a_run_that_hides_nothing_is_refused_too_where_its_submitters_variables_are_gone(bench: Bench) -> None:
    queue(bench, spec=RunSpec(script="train.py"))
    spool_file(bench).unlink()
    go_on(bench)

    assert bench.backend.jobs_of("exp_1") == [] and bench.run().status is RunStatus.FAILED


def test_a_clusters_run_that_hides_nothing_needs_no_spool_file(tmp_path: Path) -> None:
    bench = Bench(tmp_path, cluster="ray")
    queue(bench, spec=RunSpec(script="train.py", target="ray"))
    spool_file(bench).unlink()
    go_on(bench)

    assert len(bench.cluster.jobs_of("exp_1")) == 1


def test_a_spool_file_that_cannot_be_read_now_lets_the_run_wait(bench: Bench) -> None:
    queue(bench)
    path = spool_file(bench)
    kept = path.read_bytes()
    path.unlink()
    path.symlink_to(path.name)  # ELOOP stands for all that may pass: EACCES, EIO, EMFILE
    go_on(bench)
    run = bench.run()

    assert run.status is RunStatus.QUEUED and bench.backend.jobs_of("exp_1") == []
    assert "cannot be started now" in bench.engine.explained(run).waits_for
    path.unlink()
    path.write_bytes(kept)
    bench.pass_time(40)
    [job] = bench.backend.jobs_of("exp_1")
    assert job.spec.variables == {"DB_PASSWORD": SECRET} and job.submitter == {"HOME": "/home/me"}


@pytest.mark.parametrize("fault", ["removed", "cut", "a byte flipped"])
def test_a_next_attempt_is_refused_likewise(tmp_path: Path, fault: str) -> None:
    bench = Bench(tmp_path, cluster="ray")
    bench.submit(spec=replace(SPEC, target="ray", max_attempts=3))
    bench.engine.join("exp_1", 0, Join(1, "a" * 32, host="n7"))
    bench.report(RunStatus.RUNNING)
    FAULTS[fault](spool_file(bench))
    bench.cluster.reports[JobHandle("exp_1", 1)] = JobReport(JobState.GONE, "node n7 is gone", EndCause.NODE_LOST)
    bench.pass_time(60)
    run = bench.run()

    assert [job.attempt for job in bench.cluster.jobs_of("exp_1")] == [1]
    assert run.status is RunStatus.FAILED and run.error is not None and run.error["code"] == "SubmissionLost"


def test_a_node_that_comes_for_its_part_gets_no_stars(tmp_path: Path) -> None:
    bench = Bench(tmp_path, cluster="ray")
    bench.submit(spec=replace(SPEC, target="ray"))
    bench.pass_time(1)
    spool_file(bench).unlink()

    with pytest.raises(SubmissionLost, match="was not started"):
        bench.engine.join("exp_1", 0, Join(1, "a" * 32, host="n7"))
    run = bench.run()
    assert run.status is RunStatus.FAILED and run.error is not None and run.error["code"] == "SubmissionLost"


def test_a_sweep_makes_no_child_without_its_secrets(bench: Bench) -> None:
    spec = replace(spec_of(), arguments=["--password", SECRET])
    bench.submit("HD_1", spec=spec)
    bench.engine.loop.tick()
    made = children(bench)
    bench.restart()
    spool_file(bench, "HD_1").unlink()
    for run_id in made:
        end(bench, run_id, 0.1)
    bench.pass_time(5)
    sweep = bench.run("HD_1")

    assert children(bench) == made and all("*" not in job.spec.arguments[1] for job in bench.backend.jobs_of(made[0]))
    assert sweep.status.is_terminal
    events = bench.store.list_events("HD_1", after=0)
    assert any("spool file" in str(event.get("reason")) for event in events)


def test_a_spool_file_of_an_earlier_server_is_still_read(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.write("exp_1", Spooled({"A": "b"}, spec={"script": "x"}))
    plain = json.loads((tmp_path / "exp_1.json").read_bytes())
    del plain["run"], plain["sha256"]
    (tmp_path / "exp_1.json").write_text(json.dumps(plain))

    assert spool.get("exp_1") == Spooled({"A": "b"}, spec={"script": "x"})


def test_any_byte_that_changes_is_noticed(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.write("exp_1", Spooled({"KEY": "\udcff é", "N": ""}, spec={"arguments": ["--password", SECRET]}, handed=2))
    path = tmp_path / "exp_1.json"
    data = path.read_bytes()
    written = spool.get("exp_1")
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        try:
            assert spool.get("exp_1") == written, at  # white space between values
        except SubmissionLost:
            continue


def test_a_missing_file_and_one_that_cannot_be_read_are_told_apart(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    (tmp_path / "loop.json").symlink_to("loop.json")

    with pytest.raises(SubmissionLost, match="gone"):
        spool.get("none")
    with pytest.raises(StoreUnavailable, match="cannot be started now"):
        spool.get("loop")
    assert spool.read("none") is None and spool.read("loop") is None
