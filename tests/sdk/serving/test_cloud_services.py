"""`AciWebservice` and `AksWebservice` against a real gateway: deploy, call, keys, tokens, updates, failures."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from azureml.core import Model, Webservice, Workspace
from azureml.core.compute import AksCompute, ComputeTarget
from azureml.core.model import InferenceConfig
from azureml.core.webservice import AciWebservice, AksWebservice, LocalWebservice
from azureml.core.webservice.aks import AksServiceAccessToken
from azureml.exceptions import UserErrorException, WebserviceException
from runyard.core.config.paths import server_folder
from runyard.core.webservices import NewService, RevisionSpec, ServiceSettings
from runyard.serving.config import ServiceConfig
from runyard.serving.gateway.access import Doorkeeper
from runyard.serving.tokens import make_token

pytestmark = pytest.mark.long
BODY = json.dumps({"data": [1, 2.5]})


def told_to_the_gateway(name: str) -> ServiceConfig:
    """Return what the running gateway knows of a service: its secret of tokens, and digests of its keys."""
    state = json.loads((server_folder(Path(os.environ["RUNYARD_HOME"])) / "gateway/state.json").read_text())
    (found,) = [one for one in state["services"] if one["name"] == name]
    return ServiceConfig.from_plain(found)


def status_of(uri: str, key: str = "", body: bytes | None = BODY.encode()) -> int:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    request = urllib.request.Request(uri, body, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.fixture(scope="module")
def keyed(place: Workspace, model: Model, config: InferenceConfig) -> AciWebservice:
    """A service that needs a key."""
    settings = AciWebservice.deploy_configuration(
        cpu_cores=1,
        memory_gb=1,
        tags={"method": "sklearn", "data": "MNIST"},
        properties={"made": "here"},
        description="Doubles",
        auth_enabled=True,
        location="westeurope",
        vnet_name="v",
        subnet_name="s",
    )
    service = Model.deploy(place, "keyed", [model], config, settings, show_output=True)
    service.wait_for_deployment(show_output=True)
    return service


def test_a_service_answers_text_and_bytes_and_shows_what_it_was_asked_for(keyed: AciWebservice, model: Model) -> None:
    assert type(keyed) is AciWebservice and keyed.state == "Healthy" and keyed.error is None
    assert keyed.run(BODY) == [2.0, 5.0] and keyed.run(input_data=BODY.encode()) == [2.0, 5.0]
    assert (keyed.auth_enabled, keyed.token_auth_enabled, keyed.compute_type) == (True, False, "ACI")
    assert keyed.tags == {"method": "sklearn", "data": "MNIST"} and keyed.properties == {"made": "here"}
    assert (keyed.description, keyed.location, keyed.cpu_cores, keyed.memory_gb) == ("Doubles", "westeurope", 1, 1)
    assert keyed.swagger_uri == keyed.scoring_uri.replace("/score", "/swagger.json")
    assert [one.id for one in keyed.models] == [model.id] and keyed.image is None and keyed.image_id is None
    assert keyed.environment is not None and keyed.environment.name == "inference-environment"
    assert "factor 2 is loaded" in keyed.get_logs() and keyed.get_logs(num_lines=0) == ""
    assert keyed.created_time <= keyed.updated_time and keyed.created_by
    assert keyed._wait_for_operation_to_complete(show_output=True) == ("Succeeded", None, "")
    shown = keyed.serialize()
    assert {"name", "state", "scoringUri", "computeType", "authEnabled", "models", "error"} <= set(shown)
    assert shown["vnetConfiguration"] == {"vnetName": "v", "subnetName": "s"}
    assert (shown["computeType"], shown["state"], shown["models"]) == ("ACI", "Healthy", [{"id": model.id}])
    assert keyed.container_resource_requirements.serialize()["memoryInGB"] == 1.0
    assert AciWebservice.deserialize(keyed.workspace, shown).name == "keyed"
    with pytest.raises(WebserviceException, match="text or bytes, found a dict"):
        keyed.run({"data": [1]})


def test_what_was_printed_is_azures(
    place: Workspace, model: Model, config: InferenceConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    service = Model.deploy(place, "printed", [model], config)
    service.wait_for_deployment(True)

    printed = capsys.readouterr().out
    assert printed.startswith("Running") and 'ACI service creation operation finished, operation "Succeeded"' in printed
    assert service.deployment_status == "Succeeded" and not service.auth_enabled
    assert status_of(service.scoring_uri) == 200
    Model.print_configuration([model], config, AciWebservice.deploy_configuration(cpu_cores=1), None)
    assert "cpu_cores: 1" in capsys.readouterr().out


def test_both_keys_open_and_a_new_one_replaces_only_its_own(keyed: AciWebservice) -> None:
    primary, secondary = keyed.get_keys()

    assert [status_of(keyed.scoring_uri, key) for key in (primary, secondary, "", "wrong")] == [200, 200, 401, 401]
    assert status_of(keyed.scoring_uri.replace("/score", "/"), body=None) == 200
    other = Webservice(keyed.workspace, "keyed")
    assert keyed.run(BODY) == other.run(BODY)
    other.regen_key("primary")
    assert status_of(keyed.scoring_uri, primary) == 401 and status_of(keyed.scoring_uri, secondary) == 200
    assert keyed.run(BODY) == [2.0, 5.0]  # which had the old key
    other.regen_key("Secondary", set_key="my-own-secret-of-forty-letters-and-more")
    assert keyed.get_keys()[1] == "my-own-secret-of-forty-letters-and-more"
    for _ in range(20):  # the answer comes once the gateway knows, and not a round later
        old = other.get_keys()[0]
        other.regen_key("Primary")
        assert status_of(keyed.scoring_uri, old) == 401
    with pytest.raises(WebserviceException, match="no key 'Third'"):
        keyed.regen_key("Third")
    with pytest.raises(NotImplementedError):
        keyed.get_token()


def test_a_key_opens_its_own_service_alone(
    place: Workspace, keyed: AciWebservice, model: Model, config: InferenceConfig
) -> None:
    other = Model.deploy(place, "other-keyed", [model], config, AciWebservice.deploy_configuration(auth_enabled=True))
    other.wait_for_deployment()

    assert status_of(other.scoring_uri, other.get_keys()[0]) == 200
    assert status_of(other.scoring_uri, keyed.get_keys()[0]) == 401
    assert status_of(other.scoring_uri, place._client.address.token) == 401  # of the server
    api = place.discovery_url.rstrip("/") + f"/api/v1/workspaces/{place.name}/services"
    assert status_of(api, other.get_keys()[0], body=None) in (401, 403)


def test_tokens_open_a_service_on_a_target(place: Workspace, model: Model, config: InferenceConfig) -> None:
    target = ComputeTarget.create(
        place, "aks", AksCompute.provisioning_configuration(cluster_purpose=AksCompute.ClusterPurpose.DEV_TEST)
    )
    settings = AksWebservice.deploy_configuration(num_replicas=1, token_auth_enabled=True, auth_enabled=False)
    service = Model.deploy(place, "with-token", [model], config, settings, deployment_target=target)
    service.wait_for_deployment()

    assert (service.compute_type, service.compute_name, service.num_replicas) == ("AKS", "aks", 1)
    assert (service.auth_enabled, service.token_auth_enabled) == (False, True)
    token, refresh_after = service.get_token()
    made = service.get_access_token()
    assert [status_of(service.scoring_uri, one) for one in (token, made.access_token, "", token[:-2] + "AA")] == [
        200,
        200,
        401,
        401,
    ]
    assert made.expiry_on - made.refresh_after == timedelta(hours=12) and refresh_after <= made.refresh_after
    assert (
        isinstance(made, AksServiceAccessToken)
        and made.token_type == "Bearer"
        and type(made).deserialize(made.serialize()) is not None
    )
    assert service.run(BODY) == [2.0, 5.0]
    config = told_to_the_gateway("with-token")
    ends = made.expiry_on.replace(tzinfo=made.expiry_on.tzinfo or timezone.utc).timestamp()
    for moment, is_good in ((ends - 1, True), (ends, False)):
        door = Doorkeeper(config, frozenset(), clock=lambda moment=moment: moment)
        assert door.may_enter(f"Bearer {made.access_token}".encode()) is is_good
    now = int(time.time())
    ended, lasting = (make_token(config.token_secret, config.id, now + s) for s in (-1, 600))
    assert [status_of(service.scoring_uri, one) for one in (ended, lasting)] == [401, 200]
    service.update(auth_enabled=True)
    assert (service.auth_enabled, service.token_auth_enabled) == (True, False)
    assert status_of(service.scoring_uri, token) == 401 and service.run(BODY) == [2.0, 5.0]
    with pytest.raises(WebserviceException, match="takes no tokens"):
        service.get_token()
    with pytest.raises(WebserviceException, match="cannot both be on"):
        service.update(auth_enabled=True, token_auth_enabled=True)
    service.delete()
    target.delete()


def test_an_update_serves_another_model_and_leaves_the_rest(
    place: Workspace, model: Model, config: InferenceConfig, write_model: Callable[[float], Model]
) -> None:
    service = Model.deploy(place, "updated", [model], config, AciWebservice.deploy_configuration(tags={"a": "1"}))
    service.wait_for_deployment()
    third = write_model(3)
    service.update(models=[third], tags={"b": "2"}, description="thrice", properties={"p": "1"})
    service.wait_for_deployment(True)

    assert service.run(BODY) == [3.0, 7.5] and [one.id for one in service.models] == [third.id]
    assert (service.tags, service.description, service.properties) == ({"b": "2"}, "thrice", {"p": "1"})
    service.add_tags({"c": 3})
    service.remove_tags(["b", "not-there"])
    assert service.tags == {"c": "3"} and Webservice(place, "updated").tags == {"c": "3"}
    service.add_properties({"q": "2"})
    with pytest.raises(WebserviceException, match="Properties cannot be changed: p"):
        service.add_properties({"p": "9"})
    with pytest.raises(WebserviceException, match="Nothing to update"):
        service.update()
    service.update(auth_enabled=True, enable_app_insights=True)
    assert service.auth_enabled and service.enable_app_insights and status_of(service.scoring_uri) == 401


def test_secrets_of_the_environment_outlive_an_update_of_the_model(
    place: Workspace, model: Model, project: Path, write_model: Callable[[float], Model]
) -> None:
    from azureml.core import Environment

    (project / "secret.py").write_text(
        "import os\ndef init(): pass\ndef run(raw): return os.environ['API_KEY'] + os.environ['MODEL_NUMBER']\n"
    )
    environment = Environment("with-secret")
    environment.environment_variables = {"API_KEY": "s3cr3t-value-of-a-key", "MODEL_NUMBER": "7"}
    config = InferenceConfig(str(project / "secret.py"), environment=environment)
    service = Model.deploy(place, "with-secret", [model], config)
    service.wait_for_deployment()

    assert service.run("{}") == "s3cr3t-value-of-a-key7"
    assert "s3cr3t" not in json.dumps(service.serialize(), default=str)
    service.update(models=[write_model(5)])
    service.wait_for_deployment()
    assert service.run("{}") == "s3cr3t-value-of-a-key7"


def test_numbers_of_a_service_on_a_target_change_with_and_without_a_revision(
    place: Workspace, model: Model, config: InferenceConfig
) -> None:
    settings = AksWebservice.deploy_configuration(
        autoscale_min_replicas=1, autoscale_max_replicas=2, cpu_cores=0.2, auth_enabled=False, gpu_cores=0
    )
    service = Model.deploy(place, "numbers", [model], config, settings)
    service.wait_for_deployment()

    assert service.autoscaler.serialize() == {
        "autoscaleEnabled": True,
        "maxReplicas": 2,
        "minReplicas": 1,
        "refreshPeriodInSeconds": 1,
        "targetUtilization": 70,
    }
    assert (service.max_request_wait_time, service.scoring_timeout_ms, service.num_replicas) == (500, 60_000, None)
    assert service.liveness_probe_requirements.initial_delay_seconds == 310
    revisions = len(service._record.revisions)
    service.update(num_replicas=1)
    assert service.num_replicas == 1 and len(service._record.revisions) == revisions
    service.update(scoring_timeout_ms=5000, replica_max_concurrent_requests=2, memory_gb=1, cpu_cores=0.3)
    service.wait_for_deployment()
    assert (service.scoring_timeout_ms, service.max_concurrent_requests_per_container) == (5000, 2)
    assert service.container_resource_requirements.cpu == 0.3 and service.num_replicas == 1
    assert service.run(BODY) == [2.0, 5.0] and service.data_collection.storage_enabled is False
    assert service.serialize()["maxConcurrentRequestsPerContainer"] == 2 and service.namespace is None
    with pytest.raises(WebserviceException, match="num_replicas must be a number above 0"):
        service.update(num_replicas=0)


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("def init():\n    raise ValueError('the weights are odd')\ndef run(raw): pass\n", "the weights are odd"),
        ("import no_such_module\ndef init(): pass\ndef run(raw): pass\n", "No module named 'no_such_module'"),
        ("def init():\n    open('model.pkl')\ndef run(raw): pass\n", "No such file or directory: 'model.pkl'"),
        ("def init(): pass\n", "run"),
    ],
    ids=["init raises", "missing module", "missing file", "no run"],
)
def test_a_script_that_does_not_load_is_an_exception_with_its_cause(
    place: Workspace, model: Model, tmp_path: Path, script: str, cause: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.py").write_text(script)
    service = Model.deploy(
        place, "broken", [model], InferenceConfig(str(tmp_path / "broken.py")), overwrite=True, show_output=False
    )

    with pytest.raises(WebserviceException, match="ended without success; its state is Failed") as caught:
        service.wait_for_deployment(show_output=True)
    assert cause in str(caught.value) and "'.get_logs()'" in str(caught.value)
    said = json.loads(str(caught.value).partition("Error:\n")[2])
    assert said["code"] == "AciDeploymentFailed" and said["statusCode"] == caught.value.status_code == 400
    assert service.state == "Failed" and service.error is not None and cause in json.dumps(service.error)
    assert cause in service.get_logs()
    assert 'operation "Failed"' in capsys.readouterr().out
    with pytest.raises(WebserviceException) as refused:
        service.run(BODY)
    assert refused.value.status_code == 503


def test_an_error_of_run_is_in_the_log_and_not_in_the_answer(place: Workspace, model: Model, tmp_path: Path) -> None:
    (tmp_path / "raises.py").write_text("def init(): pass\ndef run(raw):\n    return {}['hidden ' + raw]\n")
    service = Model.deploy(place, "raises", [model], InferenceConfig(str(tmp_path / "raises.py")))
    service.wait_for_deployment()

    with pytest.raises(WebserviceException, match="The scoring script failed") as caught:
        service.run("cause")
    assert caught.value.status_code == 502 and "cause" not in str(caught.value)
    assert "Traceback" not in str(caught.value) and "KeyError" not in str(caught.value)
    log = service.get_logs()
    assert "Traceback (most recent call last)" in log and "KeyError: 'hidden cause'" in log
    service.delete()


def test_a_script_that_is_no_python_is_found_before_anything_is_sent(place: Workspace, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def init(:\n")

    with pytest.raises(UserErrorException, match="line 1"):
        InferenceConfig(str(tmp_path / "broken.py"))


def test_an_update_that_fails_leaves_what_served(
    place: Workspace, model: Model, config: InferenceConfig, tmp_path: Path
) -> None:
    (tmp_path / "broken.py").write_text("def init():\n    1 / 0\ndef run(raw): pass\n")
    service = Model.deploy(place, "keeps-on", [model], config)
    service.wait_for_deployment()
    service.update(inference_config=InferenceConfig(str(tmp_path / "broken.py")))

    with pytest.raises(WebserviceException, match="Revision 1 goes on to answer"):
        service.wait_for_deployment()
    assert service.state == "Healthy" and "ZeroDivisionError" in json.dumps(service.error)
    assert service.run(BODY) == [2.0, 5.0] and "ZeroDivisionError" in service.get_logs()


def test_a_name_that_is_taken_and_a_change_that_is_under_way(
    place: Workspace, model: Model, config: InferenceConfig, tmp_path: Path, write_model: Callable[[float], Model]
) -> None:
    first = Model.deploy(place, "taken", [model], config)
    first.wait_for_deployment()

    with pytest.raises(WebserviceException, match=r"`taken` in workspace .* already") as caught:
        Model.deploy(place, "taken", [model], config)
    assert caught.value.status_code == 409
    key = first.get_keys()
    again = Model.deploy(place, "taken", [write_model(4)], config, overwrite=True)
    with pytest.raises(WebserviceException, match="is being changed") as caught:
        again.update(models=[model])
    assert caught.value.status_code == 409
    again.wait_for_deployment()
    assert again.run(BODY) == [4.0, 10.0] and again.get_keys() == key


def test_services_are_listed_and_found_as_what_they_are(keyed: AciWebservice, model: Model) -> None:
    place = keyed.workspace

    assert isinstance(Webservice(place, "keyed"), AciWebservice) and isinstance(
        AciWebservice(place, "keyed"), AciWebservice
    )
    assert isinstance(place.webservices["keyed"], AciWebservice)
    for found in (
        Webservice.list(place, model_name="doubling", tags=["method"]),
        Webservice.list(place, "aci", model_id=model.id, tags=[["method", "sklearn"]], properties=["made"]),
    ):
        assert [one.name for one in found] == ["keyed"]
    for none in (
        Webservice.list(place, compute_type="AKSENDPOINT"),
        Webservice.list(place, model_id="doubling:99"),
        Webservice.list(place, tags=[["method", "torch"]]),
        Webservice.list(place, image_name="x"),
        Webservice.list(place, image_digest="sha256:0"),
    ):
        assert none == []
    with pytest.raises(WebserviceException, match="WebserviceNotFound") as caught:
        Webservice(place, "not-there")
    assert caught.value.status_code == 404
    with pytest.raises(WebserviceException, match="is of type ACI, not a AksWebservice"):
        AksWebservice(place, "keyed")
    with pytest.raises(WebserviceException, match="WebserviceNotFound"):
        LocalWebservice(place, "keyed")


def test_deleting_twice_is_fine_and_a_wait_can_be_limited(place: Workspace, model: Model, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\ndef init():\n    time.sleep(600)\ndef run(raw): pass\n")
    service = Model.deploy(place, "slow-start", [model], InferenceConfig(str(tmp_path / "slow.py")))

    with pytest.raises(WebserviceException, match="DeploymentTimedOut") as caught:
        service.wait_for_deployment(timeout_sec=0.2)
    assert caught.value.status_code == 504 and service.state == "Transitioning"
    service.delete()
    service.delete()
    assert service.state == "Deleting" and "slow-start" not in place.webservices
    with pytest.raises(WebserviceException, match="WebserviceNotFound"):
        service.update_deployment_state()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "Not_A_Name"}, "3 to 32 lower-case letters"),
        ({"deployment_config": 3}, "found a int"),
        ({"inference_config": "score.py"}, "must be an InferenceConfig"),
        ({"inference_config": None}, "cannot be served without an entry script"),
        ({"models": ["no-such-model:3"]}, "ModelNotFound"),
        ({"deployment_target": 5}, "must be a ComputeTarget"),
    ],
)
def test_what_cannot_be_deployed_is_said(
    place: Workspace, model: Model, config: InferenceConfig, arguments: dict[str, Any], message: str
) -> None:
    whole: dict[str, Any] = {"name": "refused", "models": [model], "inference_config": config, **arguments}

    with pytest.raises(WebserviceException, match=message):
        Model.deploy(place, **whole)
    assert "refused" not in place.webservices


def test_a_big_body_arrives_and_a_bigger_one_is_refused(place: Workspace, model: Model, tmp_path: Path) -> None:
    (tmp_path / "length.py").write_text("def init(): pass\ndef run(raw): return [len(raw), raw[:3], raw[-3:]]\n")
    service = Model.deploy(place, "lengths", [model], InferenceConfig(str(tmp_path / "length.py")))
    service.wait_for_deployment()

    size = 60 << 20
    assert service.run("[1," + "2" * (size - 5) + "]\n") == [size, "[1,", "2]\n"]
    with pytest.raises(WebserviceException) as caught:
        service.run(b"x" * (101 << 20))
    assert caught.value.status_code == 413
    service.delete()


def test_the_kind_of_a_service_of_a_later_version_is_unknown(place: Workspace) -> None:
    from azureml.core.webservice import UnknownWebservice
    from runyard.core.webservices import Webservice as Record
    from runyard.sdk.webservices.webservice import class_of

    assert class_of("FUTURE") is UnknownWebservice and issubclass(UnknownWebservice, Webservice)
    assert NewService(ServiceSettings(), RevisionSpec()).settings.compute_type == "ACI" and Record is not Webservice
