"""A request becomes a run: checked, stored once, handed over with everything it needs."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from runyard.core.errors import Conflict, InvalidArgument, NotFound, StoreUnavailable, SubmitRejected
from runyard.core.specs import DistributionSpec, RunSpec
from runyard.core.statuses import RunStatus
from runyard.core.users import RunAccess
from runyard.engine.runs.reports import StateReport
from runyard.engine.runs.submit import ExternalProcess, parse_parameters
from runyard.engine.state.spool import Spooled, hash_token
from tests.engine.bench import Bench


def test_a_submitted_run_is_handed_to_its_target_at_once(bench: Bench) -> None:
    made = bench.engine.submit(bench.new(), submitter={"PATH": "/bin", "SECRET": "hush"})

    [job] = bench.backend.jobs_of("exp_1")
    assert made.is_new and made.run.status is RunStatus.QUEUED and made.run.attempt == 1
    assert (job.run_id, job.attempt, job.experiment, job.workspace) == ("exp_1", 1, "exp", "default")
    assert job.submitter == {"PATH": "/bin", "SECRET": "hush"}
    assert job.spec.arguments == ["--alpha", "0.5"] and made.run.parameters == {"alpha": "0.5"}
    assert job.token.startswith("ryr_") and len(job.token) == 4 + 64 and job.server["token"] == job.token
    assert bench.store.find_token(hash_token(job.token)) == RunAccess("exp_1", 1, "default")
    assert job.workspace_id == bench.store.get_workspace("default").id


def test_parameters_that_the_client_names_hide_their_secrets_too(bench: Bench) -> None:
    parameters = {"lr": "0.1", "db_password": "hush", "url": "postgres://ann:hush@db/x", "max_tokens": "512"}
    made = bench.engine.submit(bench.new(parameters=parameters))

    shown = made.run.parameters
    assert "hush" not in str(shown)
    assert (shown["lr"], shown["max_tokens"], shown["alpha"]) == ("0.1", "512", "0.5")


def test_the_same_key_again_is_the_same_run_and_starts_nothing(bench: Bench) -> None:
    first = bench.engine.submit(bench.new())
    second = bench.engine.submit(bench.new())

    assert (first.is_new, second.is_new) == (True, False)
    assert second.run.id == first.run.id and second.run.number == 1
    assert len(bench.backend.jobs_of("exp_1")) == 1


def test_fifty_submits_at_once_with_ten_keys_are_ten_runs(bench: Bench) -> None:
    made: list[str] = []
    faults: list[BaseException] = []

    def submit(at: int) -> None:
        try:
            made.append(bench.submit(f"exp_{at % 10}").id)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=submit, args=(at,)) for at in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not faults and len(made) == 50
    assert sorted(request.run_id for request in bench.backend.submitted) == [f"exp_{at}" for at in range(10)]
    assert sorted(bench.run(f"exp_{at}").number for at in range(10)) == list(range(1, 11))


def test_a_key_of_another_run_is_a_conflict_and_leaves_nothing(bench: Bench) -> None:
    bench.submit("exp_1")

    with pytest.raises(Conflict):
        bench.submit("exp_2", key="key-exp_1")
    assert bench.store.find_run("exp_2") is None
    assert spool_files(bench) == []


def _processes(nodes: int, per_node: int, **options: Any) -> dict[str, Any]:
    kind = "tensorflow" if options else "mpi"
    return {"spec": RunSpec(script="a.py", distribution=DistributionSpec(kind, nodes, per_node, options))}


REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "unknown target": ({"spec": RunSpec(target="gpu", script="a.py")}, SubmitRejected, "Known here: .*, local"),
    "no script": ({"spec": RunSpec()}, SubmitRejected, "neither a script nor a command"),
    "script outside": ({"spec": RunSpec(script="../a.py")}, SubmitRejected, "relative to source_directory"),
    "absolute script": ({"spec": RunSpec(script="/etc/a.py")}, SubmitRejected, "absolute"),
    "a node full of processes": (_processes(1, 1025), SubmitRejected, "1,024 on a node"),
    "processes without end": (_processes(1, 10**9), SubmitRejected, "1,000,000,000 processes on a node"),
    "too many in all": (_processes(100, 1000), SubmitRejected, "100,000 in all"),
    "nodes without end": (_processes(2**70, 1), SubmitRejected, "65,536 in all"),
    "workers without end": (_processes(1, 1, worker_count=10**9), SubmitRejected, "1,024 on a node"),
    "servers without end": (_processes(2, 1, parameter_server_count=10**9), SubmitRejected, "1,024 on a node"),
    "workers that are no count": (_processes(1, 1, worker_count="many"), SubmitRejected, "no counts"),
    "no time": ({"spec": RunSpec(script="a.py", time_limit_s=0)}, SubmitRejected, "time limit of 0 s"),
    "unknown workspace": ({"workspace": "nowhere"}, NotFound, "nowhere"),
    "unknown parent": ({"parent_id": "nobody"}, NotFound, "nobody"),
    "unknown snapshot": ({"snapshot_id": "0" * 8}, NotFound, "no snapshot"),
    "bad run id": ({"id": "../../x"}, InvalidArgument, "run id"),
    "bad experiment": ({"experiment": "a\nb"}, InvalidArgument, "experiment name"),
    "no key": ({"key": ""}, InvalidArgument, "key"),
    "finished from the start": ({"status": RunStatus.COMPLETED}, InvalidArgument, "NotStarted"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_run_is_refused_before_anything_is_stored(
    bench: Bench, case: tuple[dict[str, Any], type[Exception], str]
) -> None:
    changes, error, text = case

    with pytest.raises(error, match=text):
        bench.submit(**changes)
    assert bench.store.list_unfinished() == [] and bench.backend.submitted == [] and spool_files(bench) == []


def test_what_the_target_cannot_give_is_refused_before_anything_is_stored(bench: Bench) -> None:
    bench.backend.refusal = SubmitRejected("Too many nodes.")

    with pytest.raises(SubmitRejected, match="Too many nodes"):
        bench.submit()
    assert bench.store.find_run("exp_1") is None and spool_files(bench) == []


def test_a_parent_of_another_workspace_is_not_found(bench: Bench) -> None:
    other = bench.store.get_workspace("default")
    bench.store.put_workspace(type(other)(id="w2", name="other", created_at=other.created_at))
    bench.submit("far", workspace="other")

    with pytest.raises(NotFound, match="far"):
        bench.submit("near", parent_id="far")


def test_a_target_that_cannot_now_is_asked_again_and_the_wait_is_explained(bench: Bench) -> None:
    bench.backend.fault = OSError(28, "No space left on device")
    run = bench.submit()
    explained = bench.engine.explained(run).waits_for
    assert run.status is RunStatus.QUEUED and "No space left" in explained
    assert len(spool_files(bench)) == 1

    bench.backend.fault = None
    bench.pass_time(2)

    assert len(bench.backend.jobs_of("exp_1")) == 1
    assert bench.run().attempt == 1 and spool_files(bench) == []


def test_a_target_that_refuses_late_ends_the_run_with_its_words(bench: Bench) -> None:
    bench.backend.fault = SubmitRejected("The queue is closed.", hint="Come back tomorrow.")

    run = bench.submit()

    assert run.status is RunStatus.FAILED
    assert run.error is not None and run.error["code"] == "SubmitRejected" and "tomorrow" in run.error["message"]
    assert bench.engine.is_idle()


def test_a_full_disk_at_submit_is_said_and_nothing_is_stored(bench: Bench) -> None:
    spool = bench.settings.home / "server"
    spool.mkdir()
    (spool / "spool").write_text("in the way")

    with pytest.raises(StoreUnavailable, match="could not be taken in"):
        bench.submit()
    assert bench.store.find_run("exp_1") is None


class Killed(BaseException):
    """The server's process ends here."""


def test_a_server_killed_before_the_hand_over_hands_over_after_its_start(bench: Bench) -> None:
    bench.backend.fault = Killed()  # type: ignore[assignment]  # stands for kill -9, which is no Exception
    with pytest.raises(Killed):
        bench.engine.submit(bench.new(), submitter={"SECRET": "hush"})
    [path] = spool_files(bench)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert json.loads(path.read_bytes())["submitter"] == {"SECRET": "hush"}

    bench.backend.fault = None
    bench.restart()
    bench.engine.loop.tick()

    [job] = bench.backend.jobs_of("exp_1")
    assert job.attempt == 1 and job.submitter == {"SECRET": "hush"}
    assert bench.store.find_token(hash_token(job.token)) == RunAccess("exp_1", 1, "default")
    assert spool_files(bench) == []


def test_a_run_committed_but_never_attempted_starts_after_a_restart(bench: Bench) -> None:
    bench.engine.context.spool.write("exp_1", Spooled({"A": "b"}))
    bench.store.create_run(bench.new())

    bench.restart()
    bench.engine.loop.tick()

    assert [job.attempt for job in bench.backend.jobs_of("exp_1")] == [1]


def test_a_run_that_was_handed_over_is_not_started_again_by_a_restart(bench: Bench) -> None:
    bench.submit()

    bench.restart()
    bench.pass_time(3)

    assert len(bench.backend.jobs_of("exp_1")) == 1


def test_every_hand_over_of_one_attempt_has_the_same_cookie(bench: Bench) -> None:
    bench.backend.fault = OSError("not now")
    bench.submit()
    bench.backend.fault = None
    bench.pass_time(2)
    bench.submit("exp_2")

    cookies = [bench.backend.jobs_of(run)[0].cookie for run in ("exp_1", "exp_2")]
    assert len(set(cookies)) == 2 and all(len(cookie) == 32 for cookie in cookies)


def test_leftover_spool_files_of_finished_or_unknown_runs_are_removed(bench: Bench) -> None:
    bench.submit()
    bench.report(RunStatus.COMPLETED)
    folder = bench.settings.home / "server" / "spool"
    for run_id in ("exp_1", "ghost"):
        (folder / f"{run_id}.json").write_text("{}")

    bench.restart()

    assert spool_files(bench) == []


def test_an_interactive_run_runs_at_once_and_gets_a_watcher(bench: Bench) -> None:
    made = bench.engine.register_external_run(
        bench.new(type=None, spec=RunSpec()), ExternalProcess(pid=4711, start_ticks=99)
    )

    [job] = bench.backend.jobs_of("exp_1")
    assert made.run.status is RunStatus.RUNNING and made.run.attempt == 1
    assert (job.interactive_pid, job.interactive_start_ticks) == (4711, 99)
    assert made.token is not None and bench.store.find_token(hash_token(made.token)) == RunAccess("exp_1", 1, "default")
    assert made.folder == str(bench.settings.home / "runs" / "exp_1" / "1")


def test_an_interactive_run_asked_for_twice_has_one_watcher_and_two_good_tokens(bench: Bench) -> None:
    new = bench.new(type=None, spec=RunSpec())
    made = [bench.engine.register_external_run(new, ExternalProcess(1, 2)) for _ in range(2)]

    assert len(bench.backend.jobs_of("exp_1")) == 1
    assert made[0].token != made[1].token
    for one in made:
        assert one.token is not None and bench.store.find_token(hash_token(one.token)) == RunAccess(
            "exp_1", 1, "default"
        )


def test_a_process_that_logs_from_outside_gets_the_same_folder_each_time(bench: Bench) -> None:
    bench.submit()
    bench.report(RunStatus.COMPLETED)
    first = bench.engine.add_writer("exp_1", ExternalProcess(10, 20))
    again = bench.engine.add_writer("exp_1", ExternalProcess(10, 20))
    other = bench.engine.add_writer("exp_1", ExternalProcess(11, 20))

    assert first.folder == again.folder and first.external_writer == again.external_writer != other.external_writer
    assert Path(first.folder).parent == bench.settings.home / "runs" / "exp_1"
    number = first.external_writer
    assert bench.store.find_token(hash_token(first.token)) == RunAccess("exp_1", 0, "default", external_writer=number)
    said = StateReport(1, RunStatus.FAILED)
    assert bench.engine.report("exp_1", said, external_writer=number).status is RunStatus.COMPLETED
    assert bench.run().status is RunStatus.COMPLETED


PARAMETERS = {
    "pairs": (["--alpha", "0.5", "--name=x"], {"alpha": "0.5", "name": "x"}),
    "flag": (["--verbose", "--alpha", "1"], {"verbose": "True", "alpha": "1"}),
    "negative number": (["--alpha", "-0.5"], {"alpha": "-0.5"}),
    "last wins": (["--a", "1", "--a", "2"], {"a": "2"}),
    "equals in value": (["--a=b=c"], {"a": "b=c"}),
    "positional": (["train", "-x", "3"], {}),
    "nothing": (["--", "--=x"], {}),
    "overrides": (
        ["lr=0.5", "model.width=32", "+x=1", "++db@src=my=sql"],
        {"lr": "0.5", "model.width": "32", "x": "1", "db@src": "my=sql"},
    ),
    "removed keys": (["~y", "~z=2", "~/data"], {"~y": "True", "~z": "2"}),
    "flag before an override": (
        ["--multirun", "lr=1,2", "--set", "a=1"],
        {"multirun": "True", "lr": "1,2", "set": "a=1"},
    ),
    "several numbers": (
        ["--layers", "1", "-2", "3e4", "--lr", ".5", "x.csv", "7", "--names", "a", "8"],
        {"layers": "1 -2 3e4", "lr": ".5", "names": "a"},
    ),
    "no names": (["http://x/?a=b", "/data=1", "./a=b", "=", "1=2"], {}),
}


@pytest.mark.parametrize(("arguments", "found"), PARAMETERS.values(), ids=PARAMETERS.keys())
def test_parameters_are_the_named_arguments(arguments: list[str], found: dict[str, str]) -> None:
    assert parse_parameters(arguments) == found


def spool_files(bench: Bench) -> list[Path]:
    return sorted((bench.settings.home / "server" / "spool").glob("*"))


@pytest.mark.parametrize(("nodes", "per_node"), [(1, 1024), (64, 1024), (1024, 64)])
def test_as_many_processes_as_any_cluster_has_are_taken(bench: Bench, nodes: int, per_node: int) -> None:
    assert bench.submit(**_processes(nodes, per_node)).status is RunStatus.QUEUED
