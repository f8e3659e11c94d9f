"""`AksEndpoint`: versions share the requests. `AksCompute` is the target that they run on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from azureml.core import Model, Webservice, Workspace
from azureml.core.compute import AksCompute, ComputeTarget
from azureml.core.model import InferenceConfig
from azureml.core.webservice import AksEndpoint
from azureml.exceptions import ComputeTargetException, WebserviceException

pytestmark = pytest.mark.long
BODY = json.dumps({"data": [1]})


@pytest.fixture(scope="module")
def target(place: Workspace) -> Iterator[AksCompute]:
    made = ComputeTarget.create(
        place, "aks-target", AksCompute.provisioning_configuration(agent_count=1, vm_size="Standard_D3_v2")
    )
    made.wait_for_completion(show_output=True)
    assert isinstance(made, AksCompute)
    yield made
    for service in Webservice.list(place):
        service.delete()
    made.delete()


def test_a_target_for_services_stands_as_azures(place: Workspace, target: AksCompute) -> None:
    assert target.get_status() == target.provisioning_state == "Succeeded" and not target.provisioning_errors
    assert isinstance(ComputeTarget(place, "aks-target"), AksCompute) and isinstance(
        AksCompute(place, "aks-target"), AksCompute
    )
    assert isinstance(place.compute_targets["aks-target"], AksCompute) and target.type == "AKS"
    assert (target.agent_count, target.agent_vm_size, target.cluster_purpose) == (1, "Standard_D3_v2", "FastProd")
    assert (target.load_balancer_type, target.load_balancer_subnet, target.cluster_fqdn) == ("PublicIp", None, None)
    assert target.system_services == [] and target.ssl_configuration.status == "Disabled"
    assert target.serialize()["properties"]["properties"]["agentCount"] == 1
    assert [one.name for one in AksCompute.list(place)] == ["aks-target"] and not target.is_attached
    with pytest.raises(ComputeTargetException, match="no Kubernetes cluster"):
        target.get_credentials()
    attached = ComputeTarget.attach(place, "theirs", AksCompute.attach_configuration("group", "cluster"))
    assert attached.is_attached and isinstance(attached, AksCompute)
    attached.detach()
    again = AksCompute.attach(place, "theirs", "/subscriptions/s/resourceGroups/g/providers/x/managedClusters/c")
    assert again.is_attached
    again.detach()
    assert "theirs" not in place.compute_targets


def test_versions_share_the_requests(
    place: Workspace,
    target: AksCompute,
    model: Model,
    config: InferenceConfig,
    write_model: Callable[[float], Model],
) -> None:
    settings = AksEndpoint.deploy_configuration(
        num_replicas=1, auth_enabled=False, version_name="first", tags={"all": "1"}, traffic_percentile=30
    )
    endpoint = Model.deploy(place, "endpoint", [model], config, settings, target)
    endpoint.wait_for_deployment(True)
    assert isinstance(endpoint, AksEndpoint) and endpoint.compute_type == "AKSENDPOINT"
    assert list(endpoint.versions) == ["first"] and endpoint.versions["first"].is_default
    endpoint.create_version(
        "second",
        models=[write_model(3)],
        num_replicas=1,
        traffic_percentile=40,
        tags={"v": "2"},
        description="thrice",
        is_control_version_type=False,
    )
    assert endpoint.run(BODY) == [2.0]  # nothing is lost while it starts
    endpoint.wait_for_deployment(True)

    shares = {name: (one.traffic_percentile, one.is_default, one.state) for name, one in endpoint.versions.items()}
    assert shares == {"first": (60.0, True, "Healthy"), "second": (40.0, False, "Healthy")}
    second = endpoint.versions["second"]
    assert (second.tags, second.description, second.version_type) == ({"v": "2"}, "thrice", "Treatment")
    assert second.version_type == AksEndpoint.VersionType.treatment and second.compute_type == "AKS"
    answers = Counter(endpoint.run(BODY)[0] for _ in range(300))
    assert set(answers) == {2.0, 3.0} and 75 < answers[3.0] < 165  # 120 of 300, more than five deviations each way
    with pytest.raises(WebserviceException, match="percent of its requests") as caught:
        endpoint._change(shares={"second": 80.0, "first": 30.0})
    assert caught.value.status_code == 400
    endpoint.update_version("second", is_default=True, traffic_percentile=0)
    endpoint.update_version("first", traffic_percentile=0)
    assert {endpoint.run(BODY)[0] for _ in range(30)} == {3.0}
    endpoint.delete_version("first")
    assert list(endpoint.versions) == ["second"] and endpoint.serialize()["versions"]["second"]["isDefault"] is True


def test_a_new_version_becomes_the_default_one_when_it_is_ready(
    place: Workspace,
    target: AksCompute,
    model: Model,
    config: InferenceConfig,
    write_model: Callable[[float], Model],
) -> None:
    settings = AksEndpoint.deploy_configuration(num_replicas=1, auth_enabled=False)
    endpoint = Model.deploy(place, "switching", [model], config, settings, target)
    endpoint.wait_for_deployment()
    assert list(endpoint.versions) == ["switching"]  # called as the endpoint
    endpoint.create_version("next", models=[write_model(5)], inference_config=config, is_default=True)
    assert endpoint.versions["switching"].is_default and endpoint.state == "Healthy"
    while endpoint.deployment_status == "Running":
        assert endpoint.run(BODY) in ([2.0], [5.0])
        endpoint.update_deployment_state()

    assert endpoint.versions["next"].is_default and endpoint.run(BODY) == [5.0]
    endpoint.update_version("next", models=[write_model(6)], scoring_timeout_ms=9000, autoscale_max_replicas=3)
    endpoint.wait_for_deployment()
    changed = endpoint.versions["next"]
    assert endpoint.run(BODY) == [6.0] and changed.scoring_timeout_ms == 9000
    assert changed.serialize()["trafficPercentile"] == 100.0 and changed.name == "next"
    endpoint.update(description="all of it", tags={"x": "y"}, properties={"p": "q"})
    assert (endpoint.description, endpoint.tags, endpoint.properties) == ("all of it", {"x": "y"}, {"p": "q"})
    with pytest.raises(WebserviceException, match="Nothing to update"):
        endpoint.update()
    with pytest.raises(WebserviceException, match="has no version `third`"):
        endpoint.update_version("third", traffic_percentile=1)
    with pytest.raises(WebserviceException, match="has no version `third`"):
        endpoint.delete_version("third")
    with pytest.raises(WebserviceException, match="a version `next` already"):
        endpoint.create_version("next")
    with pytest.raises(WebserviceException, match="is the default one"):
        endpoint.delete_version("next")
    with pytest.raises(WebserviceException, match="traffic_percentile must be"):
        endpoint.update_version("next", traffic_percentile=101)
