"""Deployment configurations check their arguments when they are made, keep all of them, and say what has no effect."""

from __future__ import annotations

import inspect
import logging
from datetime import datetime, timezone
from typing import Any

import pytest

from azureml.core.compute import AksCompute
from azureml.core.compute.aks import (
    AksAttachConfiguration,
    AksProvisioningConfiguration,
    AksUpdateConfiguration,
    SslConfiguration,
    SystemService,
)
from azureml.core.image import ContainerImage
from azureml.core.image.container import ContainerImageConfig
from azureml.core.image.image import ImageConfig
from azureml.core.webservice import AciWebservice, AksEndpoint, AksWebservice, LocalWebservice
from azureml.core.webservice.aci import AciServiceDeploymentConfiguration, EncryptionProperties, VnetConfiguration
from azureml.core.webservice.aks import AksEndpointDeploymentConfiguration, AksServiceDeploymentConfiguration
from azureml.core.webservice.container_resource_requirements import ContainerResourceRequirements
from azureml.core.webservice.local import LocalWebserviceDeploymentConfiguration
from azureml.core.webservice.webservice import (
    AutoScaler,
    DataCollection,
    LivenessProbeRequirements,
    WebServiceAccessToken,
    WebserviceDeploymentConfiguration,
)
from azureml.exceptions import ComputeTargetException, WebserviceException
from runyard.core.webservices import Scaling

ACI: dict[str, Any] = {
    "cpu_cores": 1,
    "memory_gb": 2.5,
    "tags": {"a": "b"},
    "properties": {"c": "d"},
    "description": "text",
    "location": "westeurope",
    "auth_enabled": True,
    "ssl_enabled": True,
    "enable_app_insights": True,
    "ssl_cert_pem_file": "cert.pem",
    "ssl_key_pem_file": "key.pem",
    "ssl_cname": "www.example.com",
    "dns_name_label": "label",
    "primary_key": "first",
    "secondary_key": "second",
    "collect_model_data": True,
    "cmk_vault_base_url": "https://vault",
    "cmk_key_name": "key",
    "cmk_key_version": "1",
    "vnet_name": "vnet",
    "subnet_name": "subnet",
}
AKS: dict[str, Any] = {
    "autoscale_enabled": True,
    "autoscale_min_replicas": 2,
    "autoscale_max_replicas": 5,
    "autoscale_refresh_seconds": 3,
    "autoscale_target_utilization": 60,
    "collect_model_data": True,
    "auth_enabled": True,
    "cpu_cores": 0.5,
    "memory_gb": 1,
    "enable_app_insights": True,
    "scoring_timeout_ms": 1000,
    "replica_max_concurrent_requests": 4,
    "max_request_wait_time": 700,
    "primary_key": "first",
    "secondary_key": "second",
    "tags": {"a": "b"},
    "properties": {"c": "d"},
    "description": "text",
    "gpu_cores": 1,
    "period_seconds": 11,
    "initial_delay_seconds": 12,
    "timeout_seconds": 13,
    "success_threshold": 14,
    "failure_threshold": 15,
    "namespace": "space",
    "compute_target_name": "cluster",
    "cpu_cores_limit": 2,
    "memory_gb_limit": 3,
}


def test_the_configuration_of_aci_keeps_all_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    made = AciWebservice.deploy_configuration(**ACI)

    assert isinstance(made, AciServiceDeploymentConfiguration) and isinstance(made, WebserviceDeploymentConfiguration)
    assert {name: getattr(made, name) for name in ACI} == ACI
    assert set(ACI) == set(inspect.signature(AciWebservice.deploy_configuration).parameters)
    with caplog.at_level(logging.WARNING, "runyard.sdk"):
        settings = made._settings()
    assert "cmk_key_name" in caplog.text and "vnet_name" in caplog.text and "cpu_cores" not in caplog.text
    assert (settings.auth, settings.tags, settings.properties, settings.description) == (
        True,
        {"a": "b"},
        {"c": "d"},
        "text",
    )
    assert settings.definition["subnet_name"] == "subnet" and "first" not in str(settings)
    assert made._base("local").resources.memory_bytes == int(2.5 * (1 << 30))
    assert AciWebservice.deploy_configuration()._settings().auth is None  # as the server's kind asks for


def test_the_configuration_of_aks_becomes_scaling_and_limits() -> None:
    made = AksWebservice.deploy_configuration(**AKS, blobfuse_enabled=True)
    spec = made._base("cluster")

    assert isinstance(made, AksServiceDeploymentConfiguration) and made.blobfuse_enabled
    assert {name: getattr(made, name) for name in AKS} == AKS
    assert spec.scaling == Scaling(True, 1, 2, 5, 60.0)
    assert (spec.threads, spec.max_wait_ms, spec.scoring_timeout_ms, spec.memory_limit_mb) == (4, 700, 1000, 3072)
    assert (spec.gpus, spec.resources.cpus, spec.target) == (1, 0.5, "cluster")
    bare = AksWebservice.deploy_configuration()._base("local")
    assert bare.scaling == Scaling(True, 1, 1, 10, 70.0) and (bare.threads, bare.max_wait_ms) == (1, 500)
    fixed = AksWebservice.deploy_configuration(num_replicas=3)._base("local")
    assert (fixed.scaling.is_on, fixed.scaling.replicas) == (False, 3)
    off = AksWebservice.deploy_configuration(autoscale_enabled=False)._base("local")
    assert (off.scaling.is_on, off.scaling.replicas) == (False, 1)
    assert AksWebservice.deploy_configuration(autoscale_min_replicas=0)._base("local").scaling.min_replicas == 0


def test_the_configuration_of_an_endpoint_has_a_version(capsys: pytest.CaptureFixture[str]) -> None:
    made = AksEndpoint.deploy_configuration(**AKS, version_name="one", traffic_percentile=40)

    assert isinstance(made, AksEndpointDeploymentConfiguration)
    assert (made.version_name, made.traffic_percentile, made._settings().compute_type) == ("one", 40, "AKSENDPOINT")
    made.print_deploy_configuration()
    printed = capsys.readouterr().out
    assert "AKSENDPOINT" in printed and "traffic_percentile: 40" in printed and "first" not in printed
    with pytest.raises(WebserviceException, match="traffic_percentile must be a number from 0 to 100, found 140"):
        AksEndpoint.deploy_configuration(traffic_percentile=140)


@pytest.mark.parametrize(
    ("arguments", "faults"),
    [
        ({"auth_enabled": True, "token_auth_enabled": True}, ["cannot both be on"]),
        (
            {"autoscale_enabled": True, "num_replicas": 3},
            ["num_replicas cannot be given while autoscale_enabled is on"],
        ),
        ({"autoscale_enabled": False, "autoscale_max_replicas": 3}, ["autoscale_max_replicas cannot be given while"]),
        ({"num_replicas": 2, "autoscale_max_replicas": 3}, ["autoscale_max_replicas cannot be given beside"]),
        ({"autoscale_min_replicas": 5, "autoscale_max_replicas": 3}, [r"autoscale_min_replicas \(5\) is more than"]),
        ({"autoscale_target_utilization": 170}, ["more than 100 percent"]),
        ({"cpu_cores": -1, "memory_gb": "2", "num_replicas": 0}, ["cpu_cores must", "memory_gb must", "num_replicas"]),
        ({"cpu_cores": 2, "cpu_cores_limit": 1}, [r"cpu_cores_limit \(1\) is less than cpu_cores \(2\)"]),
        ({"tags": "a", "description": 3}, ["tags must be a dictionary", "description must be a text"]),
        ({"scoring_timeout_ms": 0, "period_seconds": 0}, ["scoring_timeout_ms", "period_seconds"]),
    ],
)
def test_all_faults_of_a_configuration_are_in_one_exception(arguments: dict[str, Any], faults: list[str]) -> None:
    for make in (AksWebservice.deploy_configuration, AksEndpoint.deploy_configuration):
        for fault in faults:
            with pytest.raises(WebserviceException, match=fault):
                make(**arguments)


@pytest.mark.parametrize("port", [0, 65536, "6789", True, -1, 3.5])
def test_a_port_is_a_number_that_a_port_can_have(port: Any) -> None:
    with pytest.raises(WebserviceException, match="port must be a number from 1 to 65535"):
        LocalWebservice.deploy_configuration(port)


def test_a_local_configuration_has_a_port_or_any() -> None:
    made = LocalWebservice.deploy_configuration(port=6789)

    assert isinstance(made, LocalWebserviceDeploymentConfiguration)
    assert (made.port, made._settings().port, made._settings().compute_type) == (6789, 6789, "Local")
    assert LocalWebservice.deploy_configuration().port is None
    with pytest.raises(WebserviceException, match="ssl_enabled needs ssl_cert_pem_file, ssl_key_pem_file, ssl_cname"):
        AciWebservice.deploy_configuration(ssl_enabled=True)
    with pytest.raises(WebserviceException, match="vnet_name and subnet_name go together"):
        AciWebservice.deploy_configuration(vnet_name="v")


@pytest.mark.parametrize(
    "part",
    [
        ContainerResourceRequirements(1, 2, 3, cpu_limit=4, memory_in_gb_limit=5),
        LivenessProbeRequirements(1, 2, 3, 4, 5),
        AutoScaler(True, 3, 1, 1, 70),
        DataCollection(True, False),
        EncryptionProperties("url", "name", "version"),
        VnetConfiguration("vnet", "subnet"),
        SslConfiguration("Enabled", "cert", "key", "cname", "leaf", True, True),
        SystemService("scoring", "1", "10.0.0.1"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_parts_go_to_their_json_form_and_back(part: Any) -> None:
    plain = part.serialize()

    assert vars(type(part).deserialize(plain)) == vars(part) and type(part).deserialize(None) is None
    assert len(plain) == len(vars(part))


def test_parts_have_azures_attributes() -> None:
    scaler, data = AutoScaler(True, 3, 1, 2, 70), DataCollection(False, True)
    service = SystemService("scoring", "1", "10.0.0.1")

    assert (scaler.refresh_period_seconds, scaler.target_utilization, scaler.max_replicas) == (2, 70, 3)
    assert (data.event_hub_enabled, data.storage_enabled) == (False, True)
    assert (service.service_type, service.public_ip_address) == ("scoring", "10.0.0.1")
    assert data != DataCollection(True, True) and data == DataCollection(False, True)
    assert LocalWebservice.NETWORK_NAME and issubclass(ContainerImageConfig, ImageConfig)


def test_a_token_shows_its_times_and_not_itself() -> None:
    moment = datetime(2026, 1, 2, tzinfo=timezone.utc)
    token = WebServiceAccessToken("secret", "Bearer", moment, moment)

    assert (token.access_token, token.token_type, token.refresh_after, token.expiry_on) == (
        "secret",
        "Bearer",
        moment,
        moment,
    )
    assert token.serialize()["expiryOn"] == moment.timestamp() and "secret" not in repr(token)


def test_a_cluster_is_described_and_checked(caplog: pytest.LogCaptureFixture) -> None:
    made = AksCompute.provisioning_configuration(
        agent_count=2,
        vm_size="Standard_D3_v2",
        location="eastus2",
        vnet_resourcegroup_name="group",
        vnet_name="vnet",
        subnet_name="subnet",
        service_cidr="10.0.0.0/16",
        dns_service_ip="10.0.0.10",
        docker_bridge_cidr="172.17.0.1/16",
        load_balancer_type="InternalLoadBalancer",
        load_balancer_subnet="inner",
        cluster_purpose=AksCompute.ClusterPurpose.DENSE_PROD,
    )
    made.vnet_name, made.subnet_name, made.vnet_resourcegroup_name = "other", "net", "mine"  # as notebooks do
    made.enable_ssl(leaf_domain_label="contoso", overwrite_existing_domain=True)
    with caplog.at_level(logging.WARNING, "runyard.sdk"):
        spec = made._spec()

    assert isinstance(made, AksProvisioningConfiguration) and "vnet_name" in caplog.text
    assert (spec.type, spec.max_nodes, spec.azure["agent_count"], spec.azure["vnet_name"]) == ("AKS", 1000, 2, "other")
    assert (spec.azure["leaf_domain_label"], spec.azure["dns_service_ip"]) == ("contoso", "10.0.0.10")
    attached = AksCompute.attach_configuration(resource_group="g", cluster_name="c")
    attached.enable_ssl("cname", "cert.pem", "key.pem")
    assert isinstance(attached, AksAttachConfiguration) and attached._is_attach
    assert (attached.ssl_cname, attached.leaf_domain_label, attached.overwrite_existing_domain) == (
        "cname",
        None,
        False,
    )
    for wrong in (
        {"cluster_purpose": "Fun"},
        {"load_balancer_type": "None"},
        {"agent_count": 0},
        {"vnet_name": "v"},
        {"ssl_cname": "c"},
    ):
        with pytest.raises(ComputeTargetException, match=next(iter(wrong))):
            AksCompute.provisioning_configuration(**wrong)
    with pytest.raises(ComputeTargetException, match="resource_id, or resource_group and cluster_name"):
        AksCompute.attach_configuration(resource_group="g")
    with pytest.raises(ComputeTargetException, match="enable_ssl needs"):
        made.enable_ssl(ssl_cname="c")
    update = AksUpdateConfiguration(SslConfiguration(), "PublicIp", "inner")
    assert (update.ssl_configuration.renew, update.load_balancer_subnet) == (False, "inner")
    with pytest.raises(ComputeTargetException, match="load_balancer_type"):
        AksUpdateConfiguration(load_balancer_type="x").validate_configuration()


def test_only_images_that_are_there_can_be_deployed() -> None:
    class Failed:
        id, creation_state = "x:1", "Failed"

    AciServiceDeploymentConfiguration.validate_image(None)
    with pytest.raises(WebserviceException, match="x:1 was not created"):
        AciServiceDeploymentConfiguration.validate_image(Failed())
    with pytest.raises(WebserviceException, match="does not exist"):
        ContainerImage.image_configuration("nowhere.py", "python")
