"""GPUs: how many a run gets, that no two runs have the same one, and what a run that waits for some is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runyard.compute.local import spread, virtual_nodes
from runyard.core.compute import ComputeSpec
from runyard.core.config.paths import run_folder
from runyard.core.errors import SubmitRejected
from runyard.core.formats.plain import to_plain
from runyard.core.specs import DistributionSpec, RunSpec
from runyard.core.statuses import RunStatus
from runyard.engine.runs.requirements import would_get
from runyard.engine.state.gpus import GpuRequest, gpu_request_of
from tests.engine.bench import Bench
from tests.engine.test_schedule import started


def spec(nodes: int = 1, processes: int = 1, **fields: Any) -> RunSpec:
    distribution = DistributionSpec("pytorch", node_count=nodes, processes_per_node=processes)
    return RunSpec(script="train.py", distribution=distribution, **fields)


def wish(wanted: RunSpec, total: int = 4, **submitter: str) -> GpuRequest:
    return gpu_request_of(wanted, submitter, total)


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        (spec(), 1),
        (spec(processes=2), 2),
        (spec(nodes=2, processes=2), 4),
        (spec(gpus=2), 2),
        (spec(nodes=2, gpus=1), 2),
        (spec(variables={"RUNYARD_GPUS": "3"}), 3),
        (spec(gpus=1, variables={"RUNYARD_GPUS": " ALL "}), 4),
    ],
)
def test_a_run_gets_what_it_says_or_one_for_each_process(wanted: RunSpec, count: int) -> None:
    assert wish(wanted) == GpuRequest(count)


@pytest.mark.parametrize("wanted", [spec(gpus=0), spec(variables={"RUNYARD_GPUS": "0"})])
def test_a_run_that_wants_none_sees_none(wanted: RunSpec) -> None:
    assert wish(wanted) == GpuRequest(devices=("-1",))


def test_a_run_may_ask_to_share() -> None:
    assert wish(spec(variables={"RUNYARD_GPUS": "shared"})) == GpuRequest(4, is_shared=True)
    assert wish(spec(gpus=1, share_gpus=True)) == GpuRequest(1, is_shared=True)
    assert wish(spec(share_gpus=True)) == GpuRequest(4, is_shared=True)


def test_devices_that_the_shell_or_the_run_names_are_used_as_they_are() -> None:
    assert wish(spec(), CUDA_VISIBLE_DEVICES="2, 0") == GpuRequest(is_shared=True, devices=("2", "0"))
    assert wish(spec(variables={"CUDA_VISIBLE_DEVICES": "GPU-1"}), CUDA_VISIBLE_DEVICES="2").devices == ("GPU-1",)
    assert wish(spec(), CUDA_VISIBLE_DEVICES="").devices == ()
    assert wish(spec(variables={"RUNYARD_GPUS": "1"}), CUDA_VISIBLE_DEVICES="2") == GpuRequest(1)


def test_asking_for_more_than_there_are_gives_them_all_and_a_warning() -> None:
    found = wish(spec(nodes=4, gpus=2), total=3)

    assert found.count == 3
    assert found.warning == "The run asks for 8 GPUs. This machine has 3 GPUs, which its nodes and processes share."


def test_a_machine_without_gpus_is_mentioned_only_to_who_asked() -> None:
    assert wish(spec(), total=0) == GpuRequest()
    assert wish(spec(gpus=0), total=0) == GpuRequest()
    assert "so it runs on the CPU" in wish(spec(gpus=1), total=0).warning
    assert "so it runs on the CPU" in wish(spec(variables={"RUNYARD_GPUS": "all"}), total=0).warning


@pytest.mark.parametrize("value", ["-1", "some", "1.5", "0,1"])
def test_an_impossible_number_is_refused_at_submit(bench: Bench, value: str) -> None:
    with pytest.raises(SubmitRejected, match="RUNYARD_GPUS") as caught:
        bench.submit(spec=spec(variables={"RUNYARD_GPUS": value}))

    assert "RUNYARD_GPUS=0 for none" in caught.value.hint
    assert bench.store.find_run("exp_1") is None


def test_less_than_no_gpu_is_refused() -> None:
    with pytest.raises(SubmitRejected, match="asks for -1 GPUs"):
        wish(spec(gpus=-1))


@pytest.mark.parametrize(
    ("devices", "count", "shares"),
    [
        ("01", 2, ["0", "1"]),
        ("0123", 2, ["01", "23"]),
        ("012", 2, ["01", "2"]),
        ("0", 3, ["0", "0", "0"]),
        ("01", 3, ["0", "1", "0"]),
        ("", 2, ["", ""]),
    ],
)
def test_nodes_share_the_devices_of_their_run(devices: str, count: int, shares: list[str]) -> None:
    assert spread(list(devices), count) == [list(share) for share in shares]


@pytest.fixture
def two(tmp_path: Path) -> Bench:
    return Bench(tmp_path, gpus=2)


def devices(bench: Bench, run_id: str) -> list[str]:
    return bench.backend.jobs_of(run_id)[-1].devices


def waits_for(bench: Bench, run_id: str) -> str:
    return bench.engine.explained(bench.run(run_id)).waits_for


def test_no_two_runs_have_the_same_gpu_and_the_third_waits(two: Bench) -> None:
    for at in (1, 2, 3):
        two.submit(f"exp_{at}", spec=spec())

    assert (devices(two, "exp_1"), devices(two, "exp_2")) == (["0"], ["1"])
    assert two.run("exp_3").status is RunStatus.QUEUED
    assert waits_for(two, "exp_3") == (
        "It waits for a free GPU: 2 of 2 taken by `exp_1`, `exp_2` "
        "(RUNYARD_GPUS=0 runs without, RUNYARD_GPUS=shared beside others). It is the next."
    )

    two.report(RunStatus.COMPLETED, "exp_1")
    two.engine.loop.tick()

    assert devices(two, "exp_3") == ["0"]


def test_cuda_counts_the_given_devices_as_we_do_and_named_ones_as_the_user_does(two: Bench) -> None:
    two.submit("exp_1", spec=spec())
    two.submit("exp_2", spec=spec(variables={"CUDA_VISIBLE_DEVICES": "1"}))

    given, named = two.backend.jobs_of("exp_1")[0], two.backend.jobs_of("exp_2")[0]
    assert given.spec.variables == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert named.spec.variables == {"CUDA_VISIBLE_DEVICES": "1"} and named.devices == ["1"]


def test_runs_without_gpus_and_those_that_share_never_wait(two: Bench) -> None:
    two.submit("exp_1", spec=spec(gpus=2))
    two.submit("exp_2", spec=spec(gpus=0))
    two.submit("exp_3", spec=spec(variables={"RUNYARD_GPUS": "shared"}))
    two.engine.submit(two.new("exp_4", spec=spec()), submitter={"CUDA_VISIBLE_DEVICES": "1"})

    assert [devices(two, f"exp_{at}") for at in (1, 2, 3, 4)] == [["0", "1"], ["-1"], ["0", "1"], ["1"]]


def test_a_device_that_somebody_shares_is_the_last_to_be_given_away(two: Bench) -> None:
    two.engine.submit(two.new("exp_1", spec=spec()), submitter={"CUDA_VISIBLE_DEVICES": "0"})
    two.submit("exp_2", spec=spec())
    two.submit("exp_3", spec=spec())

    assert (devices(two, "exp_2"), devices(two, "exp_3")) == (["1"], ["0"])


def test_a_run_that_waits_for_many_is_not_starved_by_those_behind_it(two: Bench) -> None:
    two.submit("exp_1", spec=spec())
    two.submit("exp_2", spec=spec(gpus=2))
    two.submit("exp_3", spec=RunSpec(target="amlcompute", script="train.py"))

    assert started(two) == ["exp_1"]
    assert "In front of it: `exp_2`." in waits_for(two, "exp_3")


def test_a_run_that_waits_for_a_gpu_lets_others_pass_and_keeps_its_places(two: Bench) -> None:
    two.engine.compute.create("default", "pool", ComputeSpec(max_nodes=3))
    pool = replace(spec(), target="pool")
    two.submit("exp_1", spec=replace(pool, gpus=2))
    two.submit("exp_2", spec=pool)
    for at in (3, 4):
        two.submit(f"exp_{at}", spec=replace(pool, gpus=0))

    assert started(two) == ["exp_1", "exp_3"]
    assert waits_for(two, "exp_2").startswith("It waits for a free GPU: 2 of 2 taken by `exp_1`")
    assert waits_for(two, "exp_4").endswith("In front of it: `exp_2`.")


def test_a_restarted_server_knows_which_gpus_live_runs_have(two: Bench) -> None:
    two.submit("exp_1", spec=spec())
    two.submit("exp_2", spec=spec())
    two.report(RunStatus.RUNNING, "exp_1")
    two.report(RunStatus.RUNNING, "exp_2")
    for run_id in ("exp_1", "exp_2"):
        write_job(two, run_id)
    two.report(RunStatus.COMPLETED, "exp_1")

    two.restart()
    two.submit("exp_3", spec=spec())
    two.submit("exp_4", spec=spec())

    assert devices(two, "exp_3") == ["0"]
    assert "2 of 2 taken by `exp_2`, `exp_3`" in waits_for(two, "exp_4")


def test_a_warning_about_gpus_is_on_the_run_once(bench: Bench) -> None:
    new = bench.new(spec=spec(gpus=1))
    bench.engine.submit(new)
    bench.engine.submit(new)

    assert [item["source"] for item in bench.run().warnings] == ["gpus"]


def test_a_server_gives_out_only_the_gpus_that_it_may(tmp_path: Path) -> None:
    bench = Bench(tmp_path, gpus=3, gpu_devices="2,1")
    bench.submit("exp_1", spec=spec(variables={"RUNYARD_GPUS": "all"}))
    assert devices(bench, "exp_1") == ["1", "2"]

    none = Bench(tmp_path / "none", gpus=3, gpu_devices="none")
    none.submit("exp_1", spec=spec())
    assert devices(none, "exp_1") == []


def test_a_dry_run_shows_the_gpus_that_a_run_would_get_now(two: Bench) -> None:
    two.submit("exp_1", spec=spec())

    context = two.engine.context

    assert would_get(context, two.new("exp_2", spec=spec()), {}) == ["1"]
    assert would_get(context, two.new("exp_2", spec=spec(gpus=2)), {}) == []


def write_job(bench: Bench, run_id: str) -> None:
    """Write the run's job.json as the backend does, which gives the devices to its nodes."""
    job = bench.backend.jobs_of(run_id)[-1]
    folder = run_folder(bench.settings.home, run_id, job.attempt)
    folder.mkdir(parents=True)
    placed = replace(job, nodes=virtual_nodes(1, job.devices))
    (folder / "job.json").write_text(json.dumps(to_plain(placed)))
