"""Targets that somebody else runs, with old and new code, against fake engines behind a real server."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from azureml.core import Experiment, ScriptRunConfig
from azureml.core.compute import AmlCompute, ComputeTarget, RemoteCompute
from azureml.core.compute_target import ComputeTargetException
from azureml.exceptions import UserErrorException
from runyard import RayCompute, Resources, SlurmCompute
from runyard.client.client import Client
from runyard.client.transport import Transport
from runyard.compute.base import ClusterNode
from runyard.core.errors import InvalidArgument, NotAllowed
from runyard.core.records import NewRun
from runyard.core.specs import ResourceSpec, RunSpec
from runyard.sdk.run_config.resources import read_resources
from runyard.sdk.run_config.run_configuration import RunConfiguration
from runyard.sdk.submit.submission import plan_submission
from runyard.sdk.workspaces.workspace import Workspace
from tests.engine.clusters import FakeCluster
from tests.server.conftest import Served, serve
from tests.waiting import wait_for

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\ncanary\n-----END OPENSSH PRIVATE KEY-----\n"


@pytest.fixture(scope="module")
def engines() -> dict[str, FakeCluster]:
    return {kind: FakeCluster() for kind in ("ray", "slurm", "ssh")}


@pytest.fixture(scope="module")
def team(session_folder: Path, engines: dict[str, FakeCluster]) -> Iterator[Served]:
    with tempfile.TemporaryDirectory(prefix="t", dir=session_folder) as folder:
        with serve(Path(folder), engines=engines) as found:
            yield found


@pytest.fixture
def ws(team: Served) -> Workspace:
    return Workspace(workspace_name="default", _client=team.client)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "key").write_text(KEY)
    return tmp_path


def handed(cluster: FakeCluster, run_id: str) -> Any:
    """Return the job that the cluster got: it is handed over soon after the submit."""
    wait_for(lambda: cluster.jobs_of(run_id), what=f"the hand-over of {run_id}")
    return cluster.jobs_of(run_id)[0]


def test_the_code_of_the_first_page_runs(ws: Workspace, engines: dict[str, FakeCluster], project: Path) -> None:
    key = str(project / "key")
    slurm = SlurmCompute.attach_configuration(partition="gpu", account=None, extra=["--qos=high"])
    hosts = RemoteCompute.attach_configuration(address="hostA", username="me", private_key_file=key)
    pool = AmlCompute.provisioning_configuration(vm_size="STANDARD_D2_V2", min_nodes=0, max_nodes=4)

    ray_pool = ComputeTarget.attach(ws, "ray-pool", RayCompute.attach_configuration(address="auto"))
    cluster = ComputeTarget.attach(ws, "slurm-lab", slurm)
    boxes = ComputeTarget.attach(ws, "boxes", hosts)
    ComputeTarget.create(ws, "cpu-cluster", pool)

    assert [type(target) for target in (ray_pool, cluster, boxes)] == [RayCompute, SlurmCompute, RemoteCompute]
    assert {name: target.type for name, target in ws.compute_targets.items()} == {
        "boxes": "VirtualMachine",
        "cpu-cluster": "AmlCompute",
        "slurm-lab": "Slurm",
        "ray-pool": "Ray",
    }
    for target, kind in ((ray_pool, "ray"), (cluster, "slurm"), (boxes, "ssh")):
        run = Experiment(ws, "exp").submit(ScriptRunConfig(str(project), "train.py", compute_target=target))
        assert handed(engines[kind], run.id).spec.target == target.name
    assert cluster.serialize()["properties"]["isAttachedCompute"] is True
    assert cluster.serialize()["properties"]["properties"]["options"] == {"partition": "gpu", "extra": ["--qos=high"]}
    assert "canary" not in repr(boxes.serialize()) + repr(boxes._record)
    assert (boxes.address, boxes.ssh_port, boxes.username) == ("hostA", 22, "me")  # type: ignore[attr-defined]


def test_an_attached_target_shows_its_machines_and_is_detached_when_no_run_names_it(
    ws: Workspace, team: Served, engines: dict[str, FakeCluster], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target: Any = ComputeTarget.attach(ws, "cluster", SlurmCompute.attach_configuration("gpu"))

    assert [(node["nodeId"], node["nodeState"], node["privateIpAddress"]) for node in target.list_nodes()] == [
        ("n1", "idle", "10.0.0.1"),
        ("n2", "down", "10.0.0.2"),
    ]
    target.wait_for_completion(show_output=True)
    assert "Slurm `cluster`: it can be used, with 2 nodes." in capsys.readouterr().out
    assert target.is_attached and target.get_status() == "Succeeded"
    Experiment(ws, "exp").submit(ScriptRunConfig(str(project), "train.py", compute_target=target))
    with pytest.raises(ComputeTargetException, match="is in use"):
        target.detach()
    again = ComputeTarget.attach(ws, "cluster", SlurmCompute.attach_configuration("gpu"))
    assert again.name == "cluster"
    other: Any = ComputeTarget.attach(ws, "other", SlurmCompute.attach_configuration("cpu"))
    other.detach()
    with pytest.raises(ComputeTargetException, match="no compute target `other`"):
        ComputeTarget(ws, "other")
    pool: Any = ComputeTarget.create(ws, "pool", AmlCompute.provisioning_configuration(max_nodes=1))
    with pytest.raises(ComputeTargetException, match="made here, not attached"):
        pool.detach()


def test_a_pool_on_an_engine_has_the_status_that_the_engine_gives_it(
    ws: Workspace, team: Served, engines: dict[str, FakeCluster], project: Path
) -> None:
    (team.services.settings.home / "aliases").write_text("old-cluster = slurm:gpu\n")
    before = engines["slurm"].nodes
    engines["slurm"].nodes = [
        ClusterNode("n1", state="alloc"),
        ClusterNode("n2", state="IDLE"),
        ClusterNode("n3", state="idle*"),
        ClusterNode("n4", state="drained", note="disk"),
    ]
    team.client.compute.create("default", "slurm-pool", _pool_spec())
    pool: Any = ComputeTarget(ws, "slurm-pool")
    Experiment(ws, "exp").submit(ScriptRunConfig(str(project), "train.py", compute_target=pool))
    found = pool.get_status().serialize()

    assert found["nodeStateCounts"] == {
        "preparingNodeCount": 0,
        "runningNodeCount": 1,
        "idleNodeCount": 1,
        "unusableNodeCount": 1,
        "leavingNodeCount": 0,
        "preemptedNodeCount": 0,
    }
    assert (found["currentNodeCount"], found["scaleSettings"]["maxNodeCount"]) == (3, 2)
    old: Any = ComputeTarget(ws, "old-cluster")
    assert type(old) is AmlCompute and old.type == "AmlCompute" and "old-cluster" in ws.compute_targets
    old.wait_for_completion(show_output=True, min_node_count=None, timeout_in_minutes=20)
    run = Experiment(ws, "exp").submit(ScriptRunConfig(str(project), "train.py", compute_target=old))
    assert run._record.spec.target == "slurm:gpu"  # type: ignore[union-attr]
    assert [one.id for one in old.get_active_runs()] == [run.id]
    handed(engines["slurm"], run.id)
    code = _as_run(team, engines["slurm"], run.id)
    child = NewRun(
        key="k", id="child_1", workspace="default", experiment="exp", parent_id=run.id, spec=RunSpec(script="x.py")
    )
    with pytest.raises(NotAllowed, match="on target `slurm:gpu`"):
        code.runs.create(child)
    code.runs.create(replace(child, spec=replace(child.spec, target="old-cluster")))
    (team.services.settings.home / "aliases").unlink()
    engines["slurm"].nodes = before


def _as_run(team: Served, cluster: FakeCluster, run_id: str) -> Client:
    """Return a client with the token that the run's own code has."""
    found = Client(Transport(replace(team.address, token=cluster.jobs_of(run_id)[-1].token)))
    team.others.append(found)
    return found


def _pool_spec() -> Any:
    return replace(AmlCompute.provisioning_configuration(max_nodes=2)._spec(), cluster="slurm:gpu")


def test_hosts_are_named_in_one_text_or_a_list_and_scripts_of_2018_attach_them_otherwise(
    ws: Workspace, engines: dict[str, FakeCluster]
) -> None:
    config = RemoteCompute.attach_configuration
    several = config("me", address="hostA,hostB:2222", slots=2)._spec()
    assert several.options["hosts"] == [
        {"address": "hostA", "port": 22, "slots": 2},
        {"address": "hostB", "port": 2222, "slots": 2},
    ]
    assert several.max_nodes == 4
    assert config("me", address=["hostA", {"address": "10.0.0.2", "slots": 8}])._spec().max_nodes == 9
    old: Any = RemoteCompute.attach(ws, "old", "me", "hostA", 2200)
    assert (old.username, old.address, old.ssh_port) == ("me", "hostA", 2200)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: RemoteCompute.attach_configuration("me"), "address is missing"),
        (lambda: RemoteCompute.attach_configuration("me", address="h", password="p"), "reached by key"),
        (lambda: RemoteCompute.attach_configuration("me", address="h", private_key_passphrase="p"), "ssh-add"),
        (lambda: RemoteCompute.attach_configuration("me", address="-oProxyCommand=x"), "one word"),
        (lambda: RemoteCompute.attach_configuration("me", address="h", private_key_file="/no/key"), "cannot be read"),
        (lambda: SlurmCompute.attach_configuration(partition="a\nb"), "one word"),
        (lambda: RayCompute.attach_configuration("somewhere"), "host:6379"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused_when_it_is_made(make: Any, said: str) -> None:
    with pytest.raises(ComputeTargetException, match=re.escape(said)):
        make()


def test_resources_of_a_run_reach_its_engine(ws: Workspace, engines: dict[str, FakeCluster], project: Path) -> None:
    resources = Resources(cpus=8, memory="16GB", gpus=2, custom={"fpga": 1}, partition="big", extra=["--exclusive"])
    config = ScriptRunConfig(str(project), "train.py", compute_target="slurm:gpu", resources=resources, max_attempts=3)
    run = Experiment(ws, "exp").submit(config)
    spec = handed(engines["slurm"], run.id).spec

    wanted = ResourceSpec(8, 16 << 30, {"fpga": 1}, {"partition": "big", "extra": ["--exclusive"]})
    assert (spec.resources, spec.gpus, spec.max_attempts) == (wanted, 2, 3)
    assert config.run_config.to_plain()["resources"]["partition"] == "big"
    config.run_config.resources = {"cpus": 1}
    config.run_config.resources.qos = "low"
    assert plan_submission(config).spec.resources == ResourceSpec(1, None, {}, {"qos": "low"})


def test_a_mistyped_resource_raises_and_names_the_near_one() -> None:
    config = RunConfiguration()
    with pytest.raises(AttributeError, match="Did you mean `partition`"):
        config.resources.partiton = "gpu"
    with pytest.raises(TypeError, match="Did you mean `memory`"):
        Resources(memroy="1GB")
    with pytest.raises(InvalidArgument, match="Did you mean `cpus`"):
        read_resources({"cpu": "1"})
    assert "resources" not in config.to_plain() and "maxAttempts" not in config.to_plain()
    assert read_resources({"cpus": "0.5", "custom.fpga": "2", "memory": "1k"}).custom == {"fpga": 2.0}


def test_resources_are_saved_with_a_run_configuration_and_read_again(tmp_path: Path) -> None:
    (tmp_path / ".azureml").mkdir()
    config = RunConfiguration(script="train.py")
    config.resources, config.max_attempts = Resources(cpus=2, memory="1GB", qos="low", custom={"fpga": 1}), 3
    config.keep = ["runs", "*.pt"]
    config.save(str(tmp_path), "big")
    found = RunConfiguration.load(str(tmp_path), "big")

    assert (found.resources.to_plain(), found.max_attempts) == (config.resources.to_plain(), 3)
    assert found.keep == ["runs", "*.pt"] and "keep" not in RunConfiguration().to_plain()
    (tmp_path / ".azureml" / "typo").write_text("script: train.py\nresources:\n  partiton: gpu\n")
    with pytest.raises(UserErrorException, match=r"`resources\.partiton` is not known\. Did you mean `partition`"):
        RunConfiguration.load(str(tmp_path), "typo")


@pytest.mark.parametrize("resources", [{"cpus": -1}, {"memory": "much"}, {"custom": {"a b": 1}}, {"extra": ["x"]}])
def test_amounts_that_cannot_be_are_refused_at_submit(project: Path, resources: dict[str, Any]) -> None:
    config = ScriptRunConfig(str(project), "train.py", resources=resources)
    with pytest.raises(InvalidArgument):
        plan_submission(config)


def test_what_was_handed_over_can_be_read_without_secrets(
    ws: Workspace, team: Served, engines: dict[str, FakeCluster], project: Path
) -> None:
    fake = engines["slurm"]
    plan = fake.plan
    fake.plan = lambda job: replace(  # type: ignore[method-assign]
        plan(job), script=f"#!/bin/sh\nRUNYARD_TICKET=canary exec {job.run_id}\n", resources={"partition": "gpu"}
    )
    config = ScriptRunConfig(str(project), "train.py", ["--password", "canary"], compute_target="slurm:gpu")
    run = Experiment(ws, "exp").submit(config)
    found = team.client.runs.plan_of(run.id)

    handed(fake, run.id)
    assert fake.submitted[-1].script.replace("canary", "********") == found["script"]
    fake.plan = plan  # type: ignore[method-assign]
    assert (found["resources"], found["processes"], found["target"]) == ({"partition": "gpu"}, [], "slurm:gpu")
    assert "canary" not in repr(found)
