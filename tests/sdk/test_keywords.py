"""Keywords that a call does not know: a misspelt one is refused by the near name, Azure's private ones are said."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from azureml.core import Environment, Experiment, Run, ScriptRunConfig, Workspace
from azureml.core.authentication import InteractiveLoginAuthentication, TokenAuthentication
from azureml.core.compute import AmlCompute, ComputeInstance
from azureml.core.runconfig import MpiConfiguration
from azureml.exceptions import ProjectSystemException, UserErrorException, WorkspaceException
from azureml.train.dnn import TensorFlow
from azureml.train.hyperdrive import BanditPolicy, GridParameterSampling, HyperDriveConfig, PrimaryMetricGoal, choice
from runyard.sdk.errors import translates

MISSPELT: list[tuple[Callable[..., Any], str, str]] = [
    (Experiment, "workspac", "workspace"),
    (Environment, "nam", "name"),
    (Run.get_context, "allow_ofline", "allow_offline"),
    (ScriptRunConfig, "compute_tarket", "compute_target"),
    (TensorFlow, "nodecount", "node_count"),
    (MpiConfiguration, "process_count", "process_count_per_node"),
    (AmlCompute.provisioning_configuration, "max_node", "max_nodes"),
    (ComputeInstance.provisioning_configuration, "vmsize", "vm_size"),
    (Workspace, "workspacename", "workspace_name"),
    (Workspace.create, "exists_ok", "exist_ok"),
    (HyperDriveConfig, "max_total_run", "max_total_runs"),
    (BanditPolicy, "slackfactor", "slack_factor"),
    (Run.register_model, "model_nam", "model_name"),
    (InteractiveLoginAuthentication, "tenantid", "tenant_id"),
]


@pytest.mark.parametrize(("call", "given", "meant"), MISSPELT, ids=[given for _, given, _ in MISSPELT])
def test_a_misspelt_keyword_is_refused_with_the_name_that_was_meant(
    call: Callable[..., Any], given: str, meant: str
) -> None:
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{given}'. Did you mean `{meant}`"):
        call(**{given: 1})


def test_a_keyword_that_resembles_none_is_refused_with_all_there_are() -> None:
    with pytest.raises(TypeError, match=r"'zzz'. It takes: allow_offline, used_for_context_manager\."):
        Run.get_context(zzz=1)


@pytest.fixture(autouse=True)
def nothing_said_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runyard.sdk.config.texts._SAID", set())


def test_private_keywords_of_azure_are_taken_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            InteractiveLoginAuthentication(_something=True, tenant_id="t")

    assert [record.getMessage() for record in caplog.records] == [
        "These private arguments of InteractiveLoginAuthentication() have no effect here: _something."
    ]


def test_type_errors_of_the_function_itself_stay_as_they_are() -> None:
    @translates
    def add(first: int = 1) -> int:
        return first + None  # type: ignore[operator]

    with pytest.raises(TypeError, match="unsupported operand"):
        add(first=2)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        Environment.get(workspace=None)  # type: ignore[call-arg]


@pytest.mark.parametrize("auth", ["nonsense", 7, {"token": "x"}])
def test_what_is_no_sign_in_is_refused(workspace: Workspace, auth: object) -> None:
    with pytest.raises(UserErrorException, match="leave auth out"):
        Workspace.from_config(auth=auth)


def test_an_empty_sign_in_is_said(caplog: pytest.LogCaptureFixture) -> None:
    sign_in = InteractiveLoginAuthentication()
    with caplog.at_level(logging.WARNING):
        header, token = sign_in.get_authentication_header(), sign_in.get_token("https://management.azure.com/.default")

    assert (header, token.token) == ({}, "")
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "InteractiveLoginAuthentication signs in nowhere"
    ]
    assert TokenAuthentication(lambda audience: f"for {audience}").get_token("ARM") == "for ARM"


@pytest.mark.parametrize("caught", [ProjectSystemException, WorkspaceException, UserErrorException])
def test_a_workspace_that_is_not_there_is_made_by_code_that_catches_its_error(
    workspace: Workspace, caught: type[Exception]
) -> None:
    name = f"new-{caught.__name__}"
    try:
        Workspace.get(name)
    except caught:
        made = Workspace.create(name)
    assert (Workspace.get(name).name, made.name) == (name, name)
    assert made.service_context.workspace_name == name
    assert made._workspace_id == made.get_details()["workspaceid"]


def test_a_grid_without_a_limit_is_run_whole() -> None:
    config = HyperDriveConfig(
        GridParameterSampling({"a": choice(1, 2)}),
        "loss",
        PrimaryMetricGoal.MINIMIZE,
        max_total_runs=None,
        run_config=ScriptRunConfig(".", script="train.py"),
    )

    assert (config.max_total_runs, config.max_concurrent_runs) == (1000, 100)
