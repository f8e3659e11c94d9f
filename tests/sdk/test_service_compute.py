"""Compute of Azure's services can be looked for; attaching it is refused with words. `LocalTarget` is this machine."""

from __future__ import annotations

from typing import Any

import pytest

from azureml.core import RunConfiguration
from azureml.core.compute import AmlCompute, ComputeTarget
from azureml.core.compute_target import ComputeTargetException
from runyard.core.errors import NotYetSupported
from runyard.sdk.compute import services
from runyard.sdk.compute.services import LocalTarget, ServiceCompute
from runyard.sdk.workspaces.workspace import Workspace


@pytest.mark.parametrize("cls", ServiceCompute.__subclasses__(), ids=lambda cls: str(cls.__name__))
def test_a_service_of_azure_is_not_found_and_not_attached(workspace: Workspace, cls: Any) -> None:
    pool = ComputeTarget.create(workspace, "a-pool", AmlCompute.provisioning_configuration(max_nodes=1))

    with pytest.raises(ComputeTargetException, match="no-such"):
        cls(workspace, "no-such")
    with pytest.raises(ComputeTargetException, match=f"is a AmlCompute, not a {cls.__name__}"):
        cls(workspace, pool.name)
    given = ("me",) if cls is services.HDInsightCompute else ("a", "b", "c") if cls is services.SynapseCompute else ()
    with pytest.raises(ComputeTargetException, match="is a service of Azure") as caught:
        cls.attach_configuration(*given)
    assert isinstance(caught.value, NotYetSupported) and caught.value.hint


def test_a_local_target_is_this_machine() -> None:
    config = RunConfiguration()
    config.target = LocalTarget()  # type: ignore[assignment]  # an object with a name

    assert config.target == "local" and LocalTarget().type == "local"
    assert LocalTarget.deserialize_from_dict("local", {"type": "local"}).name == "local"
    with pytest.raises(ComputeTargetException, match="'gpu' is a target of type 'amlcompute'"):
        LocalTarget.deserialize_from_dict("gpu", {"type": "amlcompute"})


def test_a_name_that_no_target_can_have_is_an_error_of_the_target(workspace: Workspace) -> None:
    with pytest.raises(ComputeTargetException, match="'a bad name!' is not a valid name"):
        ComputeTarget.create(workspace, "a bad name!", AmlCompute.provisioning_configuration(max_nodes=1))
