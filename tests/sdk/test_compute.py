"""Compute targets in the SDK: Azure's classes, words and keys over virtual nodes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from azureml.core.compute import AmlCompute, BatchAiCompute, ComputeInstance, ComputeTarget, DsvmCompute, RemoteCompute
from azureml.core.compute_target import ComputeTargetException
from azureml.exceptions import ExperimentExecutionException, UserErrorException
from runyard.sdk.runs.run import Run
from runyard.sdk.workspaces.workspace import Workspace
from tests.waiting import wait_for

STATUS_KEYS = [
    "currentNodeCount",
    "targetNodeCount",
    "nodeStateCounts",
    "allocationState",
    "allocationStateTransitionTime",
    "errors",
    "creationTime",
    "modifiedTime",
    "provisioningState",
    "provisioningStateTransitionTime",
    "scaleSettings",
    "vmPriority",
    "vmSize",
]


@pytest.fixture
def pool(workspace: Workspace, request: pytest.FixtureRequest) -> AmlCompute:
    config = AmlCompute.provisioning_configuration(vm_size="STANDARD_NC6", max_nodes=2)
    return ComputeTarget.create(workspace, f"pool-{abs(hash(request.node.name)) % 10**9}", config)


def test_the_idiom_of_every_notebook(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    name = "cpucluster"
    try:
        target = ComputeTarget(workspace=workspace, name=name)
        raise AssertionError("it was found before it was made")
    except ComputeTargetException as error:
        assert f"There is no compute target `{name}`" in error.message
        config = AmlCompute.provisioning_configuration(vm_size="STANDARD_D2_V2", max_nodes=4)
        target = ComputeTarget.create(workspace, name, config)
        target.wait_for_completion(show_output=True, min_node_count=None, timeout_in_minutes=20)

    assert capsys.readouterr().out == (
        "Succeeded\nAmlCompute `cpucluster` is ready: 0 of at most 4 nodes are up, others come when runs need them.\n"
    )
    found = ComputeTarget(workspace, name)
    assert type(found) is type(target) is AmlCompute and found.type == "AmlCompute"
    assert workspace.compute_targets[name].name == name and name in workspace.compute_targets()
    assert workspace.compute_targets[name].provisioning_state == "Succeeded"
    assert [one.name for one in ComputeTarget.list(workspace) if one.name == name] == [name]
    assert (found.vm_size, found.vm_priority, found.location) == ("STANDARD_D2_V2", "dedicated", workspace.location)


def test_the_status_has_exactly_azures_keys(pool: AmlCompute) -> None:
    status = pool.get_status().serialize()

    assert list(status) == STATUS_KEYS
    assert status["scaleSettings"] == {"minNodeCount": 0, "maxNodeCount": 2, "nodeIdleTimeBeforeScaleDown": "PT1800S"}
    assert status["nodeStateCounts"] == {
        "preparingNodeCount": 0,
        "runningNodeCount": 0,
        "idleNodeCount": 0,
        "unusableNodeCount": 0,
        "leavingNodeCount": 0,
        "preemptedNodeCount": 0,
    }
    assert (status["allocationState"], status["provisioningState"]) == ("Steady", "Succeeded")
    assert (status["vmPriority"], status["vmSize"], status["errors"]) == ("Dedicated", "STANDARD_NC6", None)
    assert pool.status.serialize() == status
    assert pool.serialize()["properties"]["properties"]["scaleSettings"] == status["scaleSettings"]


def test_a_pool_is_changed_and_deleted(pool: AmlCompute, workspace: Workspace) -> None:
    pool.update(min_nodes=1, max_nodes=3, idle_seconds_before_scaledown="60")

    settings = pool.scale_settings
    assert (settings.minimum_node_count, settings.maximum_node_count) == (1, 3)
    assert settings.idle_seconds_before_scaledown == 60
    assert [node["nodeState"] for node in pool.list_nodes()] == ["idle"]
    with pytest.raises(ComputeTargetException, match="at least 9 and at most 3"):
        pool.update(min_nodes=9)
    pool.delete()
    pool.wait_for_completion(is_delete_operation=True)
    assert pool.provisioning_state == "Deleting"
    with pytest.raises(ComputeTargetException, match="There is no compute target"):
        ComputeTarget(workspace, pool.name)


def test_a_target_stays_itself_in_copies_of_a_configuration(pool: AmlCompute) -> None:
    assert copy.deepcopy({"compute_target": pool})["compute_target"] is pool


@pytest.mark.parametrize("name", ["", "my cluster", None, "local"])
def test_a_name_that_no_target_has_is_the_same_exception(workspace: Workspace, name: Any) -> None:
    with pytest.raises(ComputeTargetException):
        ComputeTarget(workspace, name)


def test_the_pool_of_2018(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    config = BatchAiCompute.provisioning_configuration(
        vm_size="STANDARD_NC6",
        vm_priority="lowpriority",
        autoscale_enabled=True,
        cluster_min_nodes=1,
        cluster_max_nodes=4,
    )
    made = ComputeTarget.create(workspace, "batchaicluster", config)
    made.wait_for_completion(show_output=True, min_node_count=None, timeout_in_minutes=20)

    assert "BatchAI `batchaicluster` is ready: 1 of at most 4 nodes" in capsys.readouterr().out
    assert type(ComputeTarget(workspace, "batchaicluster")) is BatchAiCompute
    status = made.status.serialize()
    assert (status["currentNodeCount"], status["nodeStateCounts"]["idleNodeCount"]) == (1, 1)
    assert status["vmPriority"] == "LowPriority"


def test_an_instance_is_stopped_and_started(workspace: Workspace) -> None:
    config = ComputeInstance.provisioning_configuration(vm_size="STANDARD_D3_V2", ssh_public_access=False)
    made = ComputeTarget.create(workspace, "my-instance", config)

    assert type(made) is ComputeInstance and made.get_status().state == "Running"
    made.stop(wait_for_completion=True, show_output=True)
    stopped = ComputeInstance(workspace, "my-instance").get_status().serialize()
    assert (stopped["state"], stopped["errors"], stopped["vmSize"]) == ("Stopped", [], "STANDARD_D3_V2")
    made.restart()
    assert made.get_status().state == "Running"
    with pytest.raises(ComputeTargetException, match="is a ComputeInstance, not a AmlCompute"):
        AmlCompute(workspace, "my-instance")


def test_a_virtual_machine_for_data_science_is_an_instance(workspace: Workspace) -> None:
    config = DsvmCompute.provisioning_configuration(vm_size="STANDARD_D2_V2")
    made = DsvmCompute.create(workspace, "my-dsvm", config)

    assert type(made) is ComputeInstance and made.get_status().state == "Running"
    assert DsvmCompute(workspace, "my-dsvm").name == "my-dsvm"
    with pytest.raises(ComputeTargetException, match="no-such"):
        DsvmCompute(workspace, "no-such")


def test_default_targets_have_azures_names() -> None:
    workspace = Workspace.create("without-targets", exist_ok=True)
    with pytest.raises(ComputeTargetException, match="`gpu-cluster`"):
        workspace.get_default_compute_target("GPU")
    ComputeTarget.create(workspace, "gpu-cluster", AmlCompute.provisioning_configuration(max_nodes=1))

    assert workspace.get_default_compute_target("GPU").name == "gpu-cluster"
    with pytest.raises(UserErrorException, match="'CPU' or 'GPU'"):
        workspace.get_default_compute_target("TPU")


@pytest.mark.parametrize("name", ["local", "amlcompute", "containerinstance"])
def test_reserved_names_are_user_errors(workspace: Workspace, name: str) -> None:
    with pytest.raises(UserErrorException, match="cannot be called"):
        ComputeTarget.create(workspace, name, AmlCompute.provisioning_configuration(max_nodes=1))


def test_another_pool_of_the_same_name_is_refused(pool: AmlCompute, workspace: Workspace) -> None:
    again = AmlCompute.provisioning_configuration(vm_size="STANDARD_NC6", max_nodes=2)
    other = AmlCompute.provisioning_configuration(vm_size="STANDARD_NC6", max_nodes=9)

    assert ComputeTarget.create(workspace, pool.name, again).created_on == pool.created_on
    with pytest.raises(ComputeTargetException, match="with other settings"):
        ComputeTarget.create(workspace, pool.name, other)
    with pytest.raises(UserErrorException, match="takes a provisioning configuration, found dict"):
        ComputeTarget.create(workspace, "x-pool", {"max_nodes": 4})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "max_nodes is missing"),
        ({"max_nodes": 2, "min_nodes": 3}, "max_nodes is 2, less than min_nodes"),
        ({"max_nodes": 2, "min_nodes": -1}, "min_nodes is -1"),
        ({"max_nodes": "four"}, "max_nodes is 'four'"),
        ({"max_nodes": 2, "idle_seconds_before_scaledown": "soon"}, "idle_seconds_before_scaledown is 'soon'"),
        ({"max_nodes": 2, "vm_priority": "cheap"}, "There are: dedicated, lowpriority"),
        ({"max_nodes": 2, "vnet_name": "net"}, "missing: vnet_resourcegroup_name, subnet_name"),
        ({"max_nodes": 2, "admin_username": "me"}, "give both or neither"),
        ({"max_nodes": 2, "admin_user_ssh_key": "ssh-rsa"}, "give both or neither"),
    ],
)
def test_what_no_pool_can_be_is_found_at_once(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ComputeTargetException, match=text):
        AmlCompute.provisioning_configuration(**arguments)


def test_azures_own_words_are_kept_and_mentioned_and_no_password_travels(
    workspace: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    config = AmlCompute.provisioning_configuration(
        "STANDARD_D2_V2",
        max_nodes="2",
        idle_seconds_before_scaledown="2400",
        admin_username="me",
        admin_user_password="hidden-canary",
        tags={"n": 1},
        enable_node_public_ip=False,
    )
    made = ComputeTarget.create(workspace, "azure-words", config)

    assert (made.scale_settings.idle_seconds_before_scaledown, made.tags, made.admin_username) == (
        2400,
        {"n": "1"},
        "me",
    )
    record = workspace._client.compute.get(workspace.name, "azure-words")
    assert record.spec.azure == {"admin_username": "me", "enable_node_public_ip": False}
    assert "have no effect here: admin_user_password, admin_username, enable_node_public_ip, vm_size" in caplog.text
    assert "hidden-canary" not in repr(record) + caplog.text


def test_sizes_can_be_looked_up(workspace: Workspace) -> None:
    sizes = AmlCompute.supported_vmsizes(workspace)

    assert {"name", "vCPUs", "gpus", "memoryGB", "maxResourceVolumeMB"} == set(sizes[0])
    assert any(size["name"] == "Standard_NC6" and size["gpus"] == 1 for size in sizes)


def test_machines_that_could_not_reach_a_private_server_are_refused_with_the_command_that_helps(
    workspace: Workspace,
) -> None:
    hosts = RemoteCompute.attach_configuration(address="hostA,hostB", username="me")

    with pytest.raises(ComputeTargetException, match=r"(?s)cannot reach this server.*runyard server start --host"):
        ComputeTarget.attach(workspace, "boxes", hosts)
    with pytest.raises(UserErrorException, match="takes an attach configuration, found AmlComputeProvisioning"):
        ComputeTarget.attach(workspace, "boxes", AmlCompute.provisioning_configuration(max_nodes=1))
    with pytest.raises(UserErrorException, match="takes a provisioning configuration, found RemoteComputeAttach"):
        ComputeTarget.create(workspace, "boxes", hosts)


def test_runs_on_a_pool_take_their_nodes_and_the_next_one_waits(
    pool: AmlCompute, submit: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONLY_IN_MY_SHELL", "1")
    pool.update(max_nodes=1)
    stop = tmp_path / "stop"
    script = f"""
        import os, time
        print("shell:", os.environ.get("ONLY_IN_MY_SHELL"), "home:", "HOME" in os.environ)
        while not os.path.exists({str(stop)!r}): time.sleep(0.01)
    """
    first = submit(script, compute_target=pool)
    second = submit(script, compute_target=pool.name)
    wait_for(lambda: first.get_status() == "Running")

    assert first.get_details()["target"] == pool.name
    assert second.get_status() == "Queued"
    assert [(node["nodeState"], node["runId"]) for node in pool.list_nodes()] == [("running", first.id)]
    counts = pool.get_status().serialize()["nodeStateCounts"]
    assert (counts["runningNodeCount"], counts["idleNodeCount"]) == (1, 0)
    assert {run.id for run in pool.get_active_runs()} == {first.id, second.id}
    with pytest.raises(ComputeTargetException, match="is in use"):
        pool.delete()
    stop.touch()
    for run in (first, second):
        run.wait_for_completion()
        assert "shell: None home: True" in run.get_details_with_logs()["logFiles"]["user_logs/std_log.txt"]
    wait_for(lambda: pool.get_status().serialize()["nodeStateCounts"]["idleNodeCount"] == 1)
    assert list(pool.get_active_runs()) == []


def test_a_target_that_cannot_take_a_run_is_found_before_anything_is_copied(
    pool: AmlCompute, submit: Callable[..., Run]
) -> None:
    with pytest.raises(ExperimentExecutionException, match="There is no compute target `gpu-clutser`"):
        submit("", compute_target="gpu-clutser")
