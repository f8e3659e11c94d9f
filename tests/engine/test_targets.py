"""Targets on somebody else's machines: attach, change, detach, and which backend their runs get."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runyard.compute.base import ClusterNode
from runyard.core.compute import RAY_TYPE, REMOTE, SLURM_TYPE, ComputeSpec, ComputeTarget
from runyard.core.config.server_settings import ServerSettings, write_server_settings
from runyard.core.config.settings import read_settings
from runyard.core.errors import Conflict, InvalidArgument, SubmitRejected, SystemFailure, UserError
from runyard.core.specs import DistributionSpec, ResourceSpec, RunSpec
from runyard.core.statuses import RunStatus
from runyard.engine.sanitize import HIDDEN
from runyard.engine.state.backends import MOST_INSTANCES
from tests.engine.bench import Bench
from tests.engine.clusters import FakeCluster, TeamBench

SLURM = ComputeSpec(type=SLURM_TYPE, options={"partition": "gpu"})
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\ncanary-key\n-----END OPENSSH PRIVATE KEY-----"
HOSTS = [{"address": "hostA", "port": 22, "slots": 2}, {"address": "hostB", "port": 22, "slots": 1}]
BOXES = ComputeSpec(type=REMOTE, options={"hosts": HOSTS, "username": "me", "private_key": KEY})
POOL = ComputeSpec(max_nodes=2, idle_seconds=60)


@pytest.fixture
def bench(tmp_path: Path) -> TeamBench:
    return TeamBench(tmp_path)


def make(bench: Bench, name: str, spec: ComputeSpec) -> ComputeTarget:
    return bench.engine.compute.create("default", name, spec)[0]


def look(bench: Bench, name: str) -> ComputeTarget:
    return bench.engine.compute.get("default", name)


def submit(bench: Bench, run_id: str, target: str, *, nodes: int = 1, **spec: Any) -> None:
    distribution = DistributionSpec("pytorch", node_count=nodes)
    bench.submit(run_id, spec=RunSpec(target=target, script="train.py", distribution=distribution, **spec))


def test_targets_with_the_same_cluster_share_a_backend_that_is_made_on_first_use(bench: TeamBench) -> None:
    make(bench, "one", SLURM)
    make(bench, "same", SLURM)
    make(bench, "other", replace(SLURM, options={"partition": "cpu"}))
    bench.restart()
    bench.made.clear()

    for number, target in enumerate(("one", "same", "other", "slurm:gpu", "local")):
        submit(bench, f"exp_{number}", target)

    assert [(kind, fake.options) for kind, fake in bench.made] == [
        ("slurm", {"partition": "gpu"}),
        ("slurm", {"partition": "cpu"}),
    ]
    assert [request.run_id for request in bench.made[0][1].submitted] == ["exp_0", "exp_1", "exp_3"]
    assert [request.run_id for request in bench.backend.submitted] == ["exp_4"]
    bench.engine.stop()
    assert all(fake.is_closed for _, fake in bench.made) and bench.backend.is_closed


def test_jobs_are_polled_at_the_cluster_that_has_them_and_no_other(bench: TeamBench) -> None:
    make(bench, "one", SLURM)
    submit(bench, "exp_1", "one")
    submit(bench, "exp_2", "slurm:cpu")
    asked: dict[int, set[str]] = {}
    for number, (_, fake) in enumerate(bench.made):
        poll = fake.poll

        def note(handles: Any, number: int = number, poll: Any = poll) -> Any:
            asked.setdefault(number, set()).update(handle.run_id for handle in handles)
            return poll(handles)

        fake.poll = note  # type: ignore[method-assign]
    bench.pass_time(4)

    assert asked == {0: {"exp_1"}, 1: {"exp_2"}}


def test_a_cluster_that_cannot_be_set_up_refuses_its_runs_and_nobody_elses(bench: TeamBench) -> None:
    make(bench, "cluster", SLURM)
    bench.fault = ImportError("no module named sbatch")
    bench.restart()

    with pytest.raises(SubmitRejected, match=r"(?s)kind `slurm` cannot be used.*no module named sbatch"):
        submit(bench, "exp_1", "cluster")
    submit(bench, "exp_2", "local")
    assert bench.run("exp_2").status is not RunStatus.FAILED
    assert "no module named sbatch" in look(bench, "cluster").note
    bench.fault = None
    submit(bench, "exp_3", "cluster")
    assert [request.run_id for request in bench.made[-1][1].submitted] == ["exp_3"]


def test_attaching_looks_at_the_cluster_first_and_stores_nothing_when_it_cannot_be_used(bench: TeamBench) -> None:
    bench.check_fault = UserError("There is no partition `gpu`.", hint="Partitions here: cpu.")
    with pytest.raises(UserError, match="no partition `gpu`"):
        make(bench, "boxes", BOXES)

    assert bench.made[-1][1].is_closed
    assert bench.engine.compute.list("default") == []
    assert list((bench.settings.home / "server/compute").iterdir()) == []
    bench.check_fault = None
    make(bench, "boxes", BOXES)
    assert bench.made[-1][1].checks == 1


def test_a_server_that_no_other_machine_reaches_takes_no_target_and_no_run_elsewhere(tmp_path: Path) -> None:
    alone = Bench(tmp_path)

    for spec in (SLURM, BOXES, replace(POOL, cluster="slurm")):
        with pytest.raises(UserError, match="cannot reach this server"):
            make(alone, "cluster", spec)
    with pytest.raises(SubmitRejected, match=r"(?s)cannot reach this server.*--host"):
        submit(alone, "exp_1", "slurm:gpu")


def test_secrets_are_in_files_of_the_server_and_nowhere_else(bench: TeamBench) -> None:
    made = make(bench, "boxes", BOXES)
    make(bench, "ray", ComputeSpec(type=RAY_TYPE, options={"address": "auto", "env": {"RAY_AUTH_TOKEN": "canary-env"}}))
    path = Path(bench.made[0][1].options["private_key"])

    assert path.read_text() == KEY + "\n" and path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert bench.made[1][1].options["env"] == {"RAY_AUTH_TOKEN": "canary-env"}
    stored = json.dumps([asset.document for asset in bench.store.list_assets("default", "compute")])
    assert "canary" not in stored + repr(made) + repr(bench.engine.compute.list("default"))
    assert made.spec.options["private_key"] == HIDDEN
    bench.restart()
    assert path.exists()
    make(bench, "boxes", BOXES)
    with pytest.raises(Conflict, match="with other settings"):
        make(bench, "boxes", replace(BOXES, options={**BOXES.options, "private_key": KEY + "x"}))
    with pytest.raises(InvalidArgument, match="it is none"):
        make(bench, "boxes2", made.spec)
    bench.engine.compute.delete("default", "boxes")
    assert not path.exists()


def test_a_secret_that_no_target_names_goes_with_the_next_start(bench: TeamBench) -> None:
    left = bench.engine.context.compute.secrets.keep({"env": {"A": "b"}})["env"]["secret"]
    bench.restart()

    assert not (bench.settings.home / "server/compute" / left).exists()


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        (SLURM_TYPE, {"partion": "gpu"}, "Did you mean `partition`"),
        (SLURM_TYPE, {"partition": "a b"}, "one word"),
        (SLURM_TYPE, {"extra": "--qos=high"}, "It is a list"),
        (RAY_TYPE, {"address": "host"}, "`ray://host:10001`"),
        (RAY_TYPE, {"env": {"A B": "x"}}, "dict of variables"),
        (REMOTE, {}, "No host is named"),
        (REMOTE, {"hosts": [{"address": "a"}, {"address": "a"}]}, "named twice"),
        (REMOTE, {"hosts": [{"address": "a", "slots": 0}]}, "from 1 to"),
        (SLURM_TYPE, {"node_home": "tmp"}, "absolute path"),
    ],
)
def test_options_that_cannot_be_are_refused_in_words(
    bench: TeamBench, kind: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        make(bench, "cluster", ComputeSpec(type=kind, options=options))
    assert said in str(caught.value)


def test_places_of_hosts_are_their_slots_and_the_next_run_waits(bench: TeamBench) -> None:
    make(bench, "boxes", BOXES)
    submit(bench, "exp_1", "boxes", nodes=2)
    submit(bench, "exp_2", "boxes")
    submit(bench, "exp_3", "boxes")
    fake = bench.made[0][1]
    fake.nodes = [ClusterNode("hostA", "hostA"), ClusterNode("hostB", "hostB")]

    assert [(job.run_id, job.slots) for request in fake.submitted for job in (request.job,)] == [
        ("exp_1", [0, 1]),
        ("exp_2", [2]),
    ]
    assert [run.run_id for run in look(bench, "boxes").waiting] == ["exp_3"]
    with pytest.raises(SubmitRejected, match="3 at most"):
        submit(bench, "exp_4", "boxes", nodes=4)


def test_gpus_of_the_servers_machine_are_no_matter_of_a_run_elsewhere(tmp_path: Path) -> None:
    bench = TeamBench(tmp_path, gpus=1)
    make(bench, "cluster", SLURM)
    submit(bench, "exp_1", "local")
    submit(bench, "exp_2", "cluster", gpus=4)
    submit(bench, "exp_3", "cluster", variables={"RUNYARD_GPUS": "2"})

    jobs = [request.job for request in bench.made[0][1].submitted]
    assert [(job.run_id, job.devices, job.spec.gpus) for job in jobs] == [("exp_2", [], 4), ("exp_3", [], 2)]
    assert bench.backend.submitted[0].job.devices == ["0"]
    assert bench.run("exp_2").warnings == []
    with pytest.raises(SubmitRejected, match="gives GPUs out by number"):
        submit(bench, "exp_4", "cluster", variables={"RUNYARD_GPUS": "shared"})
    with pytest.raises(SubmitRejected, match="Did you mean `partition`"):
        submit(bench, "exp_5", "cluster", resources=ResourceSpec(cluster_options={"partitoin": "x"}))


def test_what_a_cluster_says_of_its_nodes_is_shown_also_when_it_fails_later(bench: TeamBench) -> None:
    make(bench, "cluster", SLURM)
    fake, context = bench.made[0][1], bench.engine.context
    shown = look(bench, "cluster")
    assert [(node.name, node.state, node.cpus, node.note) for node in shown.nodes] == [
        ("n1", "idle", 4, ""),
        ("n2", "down", 0, "no ping"),
    ]

    def silent() -> list[ClusterNode]:
        raise SystemFailure("slurmctld does not answer.")

    fake.list_nodes = silent  # type: ignore[method-assign]
    context.compute.nodes._fresh_s = 0.0
    again = look(bench, "cluster")
    assert (again.nodes, again.note) == (shown.nodes, "slurmctld does not answer.")


def test_a_cluster_that_never_answers_keeps_nobody_waiting(bench: TeamBench) -> None:
    import threading

    make(bench, "cluster", SLURM)
    release = threading.Event()
    bench.made[0][1].list_nodes = lambda: release.wait(20) and []  # type: ignore
    context = bench.engine.context
    context.compute.nodes._fresh_s, context.compute.nodes._wait_s = 0.0, 0.05
    assert look(bench, "cluster").note == "Its cluster has not answered yet; this is what was known last."
    release.set()


def test_options_change_one_by_one_and_not_below_live_runs(bench: TeamBench) -> None:
    make(bench, "cluster", replace(SLURM, options={"partition": "gpu", "account": "me"}))
    changed = bench.engine.compute.update("default", "cluster", {"options": {"partition": "v100", "account": None}})
    assert changed.spec.options == {"partition": "v100"}
    with pytest.raises(InvalidArgument, match="has no option 'hosts'"):
        bench.engine.compute.update("default", "cluster", {"options": {"hosts": []}})
    submit(bench, "exp_1", "cluster")
    assert bench.made[-1][1].options == {"partition": "v100"}
    with pytest.raises(Conflict, match="has runs: `exp_1`"):
        bench.engine.compute.update("default", "cluster", {"options": {"partition": "gpu"}})
    with pytest.raises(Conflict, match="in use"):
        bench.engine.compute.delete("default", "cluster")


def test_changed_hosts_are_looked_at_counted_and_keep_their_key(bench: TeamBench) -> None:
    make(bench, "boxes", BOXES)
    key = Path(bench.made[0][1].options["private_key"])
    more = {"options": {"hosts": [{"address": f"h{number}"} for number in range(5)]}}
    changed = bench.engine.compute.update("default", "boxes", more)

    assert changed.spec.max_nodes == 5 and key.read_text() == KEY + "\n"
    assert bench.made[0][1].is_closed and bench.made[1][1].options["private_key"] == str(key)
    bench.check_fault = UserError("There is no host `z`.")
    with pytest.raises(UserError, match="no host `z`"):
        bench.engine.compute.update("default", "boxes", {"options": {"hosts": [{"address": "z"}]}})
    assert look(bench, "boxes").spec.max_nodes == 5
    with pytest.raises(InvalidArgument, match="No host is named"):
        bench.engine.compute.update("default", "boxes", {"options": {"hosts": None}})
    bench.check_fault = None
    bench.engine.compute.update("default", "boxes", {"options": {"private_key": KEY + "2"}})
    assert not key.exists() and len(list(key.parent.iterdir())) == 1
    with pytest.raises(InvalidArgument, match="has no max_nodes"):
        bench.engine.compute.update("default", "boxes", {"max_nodes": 2})
    bench.engine.delete_workspace("default")
    assert list(key.parent.iterdir()) == []


def test_pools_go_where_the_servers_settings_say_and_stay_there(bench: TeamBench) -> None:
    make(bench, "before", POOL)
    write_server_settings(bench.settings.home, ServerSettings(amlcompute_cluster="slurm:gpu"))
    made = make(bench, "after", POOL)
    assert (made.spec.backend, made.spec.cluster, made.spec.options) == ("slurm", "slurm:gpu", {"partition": "gpu"})
    make(bench, "after", POOL)
    make(bench, "before", POOL)
    write_server_settings(bench.settings.home, ServerSettings())
    bench.restart()
    bench.made.clear()
    for run_id in ("exp_1", "exp_2", "exp_3"):
        submit(bench, run_id, "after")
    submit(bench, "exp_4", "before")

    assert [request.run_id for request in bench.made[0][1].submitted] == ["exp_1", "exp_2"]
    assert [run.run_id for run in look(bench, "after").waiting] == ["exp_3"]
    assert [request.run_id for request in bench.backend.submitted] == ["exp_4"]
    asked = read_settings({"RUNYARD_AMLCOMPUTE_ENGINE": "ray:head:6379"}).amlcompute_cluster
    bench.settings = replace(bench.settings, amlcompute_cluster=asked)
    bench.restart()
    assert make(bench, "by-variable", POOL).spec.options == {"address": "head:6379"}


def test_a_pool_on_a_cluster_that_cannot_be_used_is_refused_and_one_that_is_away_is_waited_for(
    bench: TeamBench,
) -> None:
    bench.check_fault = UserError("There is no partition `gpu`.")
    with pytest.raises(UserError, match="no partition `gpu`"):
        make(bench, "pool", replace(POOL, cluster="slurm:gpu"))
    bench.check_fault = SystemFailure("slurmctld does not answer.")
    assert make(bench, "pool", replace(POOL, cluster="slurm:gpu")).spec.backend == "slurm"
    for wrong in ("slurm:a b", "ray:x", "-x"):
        with pytest.raises(InvalidArgument, match="names no cluster"):
            write_server_settings(bench.settings.home, ServerSettings(amlcompute_cluster=wrong))


def test_a_pool_on_an_attached_target_keeps_it_from_being_detached(bench: TeamBench) -> None:
    make(bench, "cluster", SLURM)
    make(bench, "boxes", BOXES)
    assert make(bench, "pool", replace(POOL, cluster="cluster")).spec.options == {"partition": "gpu"}
    with pytest.raises(Conflict, match="These pools are on it: pool"):
        bench.engine.compute.delete("default", "cluster")
    with pytest.raises(Conflict, match="These pools are on it: pool"):
        bench.engine.compute.update("default", "cluster", {"options": {"partition": "x"}})
    with pytest.raises(InvalidArgument, match="no attached target"):
        make(bench, "pool2", replace(POOL, cluster="nobody"))
    with pytest.raises(InvalidArgument, match="has 3 slots"):
        make(bench, "pool2", replace(POOL, cluster="boxes", max_nodes=4))


def test_names_in_old_code_mean_targets_by_the_alias_file(bench: TeamBench) -> None:
    make(bench, "pool", POOL)
    make(bench, "own", POOL)
    aliases = bench.settings.home / "aliases"
    aliases.write_text("# old names\ngpu-cluster = slurm:gpu  # the big one\n\ncpu-cluster=pool\nown = slurm:cpu\n")
    bench.restart()

    submit(bench, "exp_1", "gpu-cluster")
    submit(bench, "exp_2", "cpu-cluster")
    assert [bench.run(run_id).spec.target for run_id in ("exp_1", "exp_2")] == ["slurm:gpu", "pool"]
    found = look(bench, "gpu-cluster")
    assert (found.name, found.alias_of, found.spec.type, len(found.nodes)) == (
        "gpu-cluster",
        "slurm:gpu",
        "AmlCompute",
        2,
    )
    assert [run.run_id for run in look(bench, "cpu-cluster").running] == ["exp_2"]
    listed = bench.engine.compute.list("default")
    assert [(one.name, one.alias_of) for one in listed] == [
        ("cpu-cluster", "pool"),
        ("gpu-cluster", "slurm:gpu"),
        ("own", ""),
        ("pool", ""),
    ]
    again, is_new = bench.engine.compute.create("default", "gpu-cluster", POOL)
    assert (again.alias_of, is_new) == ("slurm:gpu", False)
    with pytest.raises(Conflict, match="is an alias"):
        make(bench, "gpu-cluster", SLURM)


def test_a_changed_alias_concerns_new_runs_only(bench: TeamBench) -> None:
    aliases = bench.settings.home / "aliases"
    aliases.parent.mkdir(parents=True, exist_ok=True)
    aliases.write_text("old = slurm:one\n")
    bench.backends = {**bench.backends, "slurm": FakeCluster()}
    bench.restart()
    submit(bench, "exp_1", "old")
    aliases.write_text("old = local\n")
    bench.restart()
    bench.pass_time(5)

    assert bench.run("exp_1").spec.target == "slurm:one"
    assert not bench.run("exp_1").status.is_terminal


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = slurm:x\nb slurm:y\n", "Line 2"),
        ("local = slurm:x\n", "always means this machine"),
        ("a = slurm:x\na = slurm:y\n", "named a second time"),
        ("a = slurm:x y\n", "one word"),
        ("a = b\nb = local\n", "which is an alias itself"),
        ("a = ../x\n", "is not a valid name"),
    ],
)
def test_a_wrong_line_of_the_alias_file_is_named_and_breaks_nothing_else(
    bench: TeamBench, text: str, said: str
) -> None:
    (bench.settings.home / "aliases").write_text(text)
    bench.restart()

    with pytest.raises(SubmitRejected) as caught:
        submit(bench, "exp_1", "a")
    assert said in str(caught.value) and str(bench.settings.home / "aliases") in str(caught.value)
    submit(bench, "exp_2", "local")


def test_a_cluster_can_be_named_directly(bench: TeamBench) -> None:
    submit(bench, "exp_1", "ray:10.0.0.7:6379")

    assert [(kind, fake.options) for kind, fake in bench.made] == [("ray", {"address": "10.0.0.7:6379"})]
    assert look(bench, "ray:10.0.0.7:6379").spec.backend == "ray"
    for name in ("ray:a b:1", "slurm:-x", "ray:ray://h:1", "slurm:", "pbs:x"):
        with pytest.raises((SubmitRejected, InvalidArgument)):
            submit(bench, "exp_2", name)


def test_a_look_at_an_address_makes_the_server_connect_to_nothing_before_a_run_went_there(bench: TeamBench) -> None:
    looked = look(bench, "ray:evil.invalid:6379")
    assert (bench.made, looked.nodes, looked.note) == (
        [],
        [],
        "Its nodes are shown when a run was sent there, or when it is attached.",
    )
    submit(bench, "exp_1", "ray:10.0.0.7:6379")
    assert len(look(bench, "ray:10.0.0.7:6379").nodes) == 2


def test_names_without_end_keep_few_instances_and_a_live_run_finds_its_own_again(bench: TeamBench) -> None:
    submit(bench, "exp_1", "slurm:first")
    for number in range(MOST_INSTANCES + 5):
        look(bench, f"slurm:p{number}")

    closed = [fake for _, fake in bench.made if fake.is_closed]
    assert len(bench.made) - len(closed) == MOST_INSTANCES
    assert bench.engine.context.compute.backend("default", "slurm:first") is bench.made[-1][1]


def test_a_pool_for_no_node_at_all_is_refused(bench: TeamBench) -> None:
    with pytest.raises(InvalidArgument, match="0 nodes at most"):
        make(bench, "none", ComputeSpec(max_nodes=0))


def test_a_submitters_variables_stay_with_runs_of_this_machine(bench: TeamBench) -> None:
    for run_id, target in (("exp_1", "slurm:gpu"), ("exp_2", "local")):
        new = bench.new(run_id, spec=RunSpec(target=target, script="train.py"))
        bench.engine.submit(new, submitter={"LD_PRELOAD": "/tmp/x.so"})

    assert bench.made[0][1].submitted[0].job.submitter == {}
    assert bench.backend.submitted[0].job.submitter == {"LD_PRELOAD": "/tmp/x.so"}
    assert os.environ.get("LD_PRELOAD") != "/tmp/x.so"


def test_a_fake_cluster_is_found_by_its_kind_whatever_the_options(tmp_path: Path) -> None:
    bench = TeamBench(tmp_path)
    bench.backends = {**bench.backends, "slurm": FakeCluster()}
    bench.restart()
    make(bench, "one", SLURM)
    make(bench, "two", replace(SLURM, options={"partition": "cpu"}))

    context = bench.engine.context
    assert (
        context.compute.backend("default", "one")
        is context.compute.backend("default", "two")
        is bench.backends["slurm"]
    )
