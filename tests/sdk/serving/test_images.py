"""The way of 2018: an image of models, script and packages, and services that are made from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from azureml.core import Image, Model, Webservice, Workspace
from azureml.core.image import ContainerImage, UnknownImage
from azureml.core.image.container import ContainerImageConfig
from azureml.core.model import InferenceConfig
from azureml.core.webservice import AciWebservice, AksWebservice
from azureml.exceptions import WebserviceException

pytestmark = pytest.mark.long
BODY = json.dumps({"data": [1, 2.5]})
HELPED = """
import json, os, helper
from azureml.core.model import Model
def init():
    global factor
    factor = float(open(Model.get_model_path("doubling")).read())
def run(raw):
    return helper.scaled(factor, json.loads(raw)["data"]) + [sorted(os.listdir("tables"))]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A script with a module and a folder that it needs."""
    made = tmp_path_factory.mktemp("image")
    (made / "score.py").write_text(HELPED)
    (made / "lib").mkdir()
    (made / "lib/helper.py").write_text("def scaled(factor, values): return [factor * one for one in values]\n")
    (made / "tables").mkdir()
    (made / "tables/a.csv").write_text("1")
    (made / "conda.yml").write_text("dependencies:\n- pip:\n  - azureml-defaults\n")
    (made / "schema.json").write_text("{}")
    return made


@pytest.fixture(scope="module")
def image_config(folder: Path) -> ContainerImageConfig:
    return ContainerImage.image_configuration(
        execution_script=str(folder / "score.py"),
        runtime="python",
        conda_file=str(folder / "conda.yml"),
        schema_file=str(folder / "schema.json"),
        dependencies=[str(folder / "lib/helper.py"), str(folder / "tables")],
        tags={"data": "mnist"},
        properties={"made": "2018"},
        description="an image",
    )


@pytest.fixture(scope="module")
def image(place: Workspace, model: Model, image_config: ContainerImageConfig) -> Image:
    return ContainerImage.create(name="digits", models=[model], image_config=image_config, workspace=place)


def test_an_image_is_there_at_once(image: Image, model: Model, capsys: pytest.CaptureFixture[str]) -> None:
    image.wait_for_creation(show_output=True)
    image.update_creation_state()

    assert 'operation "Succeeded"' in capsys.readouterr().out
    assert (image.creation_state, image.creation_error, image.id, image.version) == ("Succeeded", None, "digits:1", 1)
    assert image.image_location and image.image_location == image.generated_image_location
    assert str(image.image_build_log_uri).startswith("http://127.0.0.1:")
    assert (image.image_flavor, image.image_type) == ("WebApiContainer", "Docker")
    assert (image.tags, image.properties, image.description) == ({"data": "mnist"}, {"made": "2018"}, "an image")
    shown = image.serialize()
    assert (shown["id"], shown["modelIds"], shown["driverProgram"]) == ("digits:1", [model.id], "score.py")
    assert shown["createdBy"] == image.created_by and shown["createdTime"] == image.created_time.isoformat()
    assert [one.id for one in image.models] == [model.id]
    assert Image.deserialize(image.workspace, shown).id == image.id


def test_a_service_is_deployed_from_an_image(place: Workspace, image: Image) -> None:
    settings = AciWebservice.deploy_configuration(cpu_cores=1, memory_gb=1, tags={"way": "image"})
    service = Webservice.deploy_from_image(workspace=place, name="from-image", image=image, deployment_config=settings)
    service.wait_for_deployment(show_output=True)

    assert service.state == "Healthy" and service.run(BODY) == [2.0, 5.0, ["a.csv"]]
    assert service.image_id == "digits:1" and service.image is not None and service.image.id == "digits:1"
    assert [one.name for one in Webservice.list(place, image_name="digits")] == ["from-image"]
    assert Webservice.list(place, image_id="digits:2") == []
    with pytest.raises(WebserviceException, match="already"):
        Webservice.deploy_from_image(place, "from-image", image)
    with pytest.raises(WebserviceException, match="not both"):
        service.update(image=image, models=[])


def test_a_service_is_updated_with_a_later_image(
    place: Workspace, image: Image, model: Model, image_config: ContainerImageConfig, folder: Path
) -> None:
    (folder / "lib/helper.py").write_text("def scaled(factor, values): return [-factor * one for one in values]\n")
    service = Webservice.deploy_from_image(place, "updated-image", image.id)
    service.wait_for_deployment()
    later = Image.create(place, "digits", [model], image_config)
    service.update(image=later)
    service.wait_for_deployment()

    assert later.id == "digits:2" and service.run(BODY)[:2] == [-2.0, -5.0] and service.image_id == "digits:2"
    assert place.images["digits"].id == "digits:2" and Image(place, "digits").version == 2
    assert Image(place, id="digits:1").version == Image(place, "digits", version=1).version == 1
    assert [one.id for one in Image.list(place, image_name="digits")] == ["digits:2", "digits:1"]
    later.delete()
    later.delete()
    assert [one.id for one in Image.list(place, model_id=model.id)] == ["digits:1"]
    assert service.run(BODY)[:2] == [-2.0, -5.0]
    assert Image.create(place, "digits", [model], image_config).id == "digits:3"


def test_models_and_files_are_deployed_through_images(
    place: Workspace, model: Model, image_config: ContainerImageConfig, project: Path, config: InferenceConfig
) -> None:
    service = Webservice.deploy_from_model(
        workspace=place,
        name="from-model",
        models=[model],
        image_config=image_config,
        deployment_config=AksWebservice.deploy_configuration(num_replicas=1, auth_enabled=False),
    )
    service.wait_for_deployment()
    assert service.run(BODY)[2] == ["a.csv"] and service.image_id == "from-model:1"
    (project / "plain.py").write_text("def init(): pass\ndef run(raw): return 'plain'\n")
    plain = ContainerImage.image_configuration(str(project / "plain.py"), "python")
    from_file = Webservice.deploy(place, "from-file", [str(project / "factor.txt")], plain)
    from_file.wait_for_deployment()
    assert from_file.run(BODY) == "plain" and [one.name for one in from_file.models] == ["factor.txt"]
    newer = Webservice.deploy_from_model(place, "newer-way", [model], config)
    newer.wait_for_deployment()
    assert newer.run(BODY) == [2.0, 5.0] and newer.image is None
    with pytest.raises(WebserviceException, match="already"):
        Webservice.check_for_existing_webservice(place, "newer-way")
    Webservice.check_for_existing_webservice(place, "newer-way", overwrite=True)


def test_tags_of_images_change_and_searches_use_them(
    place: Workspace, model: Model, image_config: ContainerImageConfig
) -> None:
    image = Image.create(place, "tagged", [model], image_config)
    image.update(tags={"a": 1})
    image.add_tags({"b": "2"})
    image.remove_tags("a")
    image.add_properties({"more": "x"})

    assert Image(place, "tagged").tags == {"b": "2"} and image.properties == {"made": "2018", "more": "x"}
    assert [one.name for one in Image.list(place, tags=["b"], properties=[["made", "2018"]])] == ["tagged"]
    assert [one.name for one in Image.list(place, model_name="doubling", tags=[["b", "3"]])] == []
    with pytest.raises(WebserviceException, match="Properties cannot be changed: made"):
        image.add_properties({"made": "today"})
    with pytest.raises(WebserviceException, match="ImageNotFound"):
        Image(place, "tagged", tags=["zzz"])
    with pytest.raises(WebserviceException, match="not served"):
        ContainerImage(place, "tagged").run(BODY)
    image.delete()
    with pytest.raises(WebserviceException, match="ImageNotFound"):
        Image(place, id="tagged:1")
    assert issubclass(UnknownImage, Image)


def test_what_no_image_can_be_made_from_is_said(
    place: Workspace, model: Model, config: InferenceConfig, folder: Path
) -> None:
    script = str(folder / "score.py")
    with pytest.raises(WebserviceException, match="not InferenceConfig"):
        Image.create(place, "wrong", [model], config)
    with pytest.raises(WebserviceException, match="found a str"):
        Image.create(place, "wrong", [model], "score.py")
    with pytest.raises(WebserviceException, match="no runtime 'java'"):
        ContainerImage.image_configuration(script, "java")
    with pytest.raises(WebserviceException, match="`missing` does not exist"):
        ContainerImage.image_configuration(script, "python", dependencies=["missing"])
    with pytest.raises(WebserviceException, match="list of paths"):
        ContainerImage.image_configuration(script, "python", dependencies="missing")
    with pytest.raises(NotImplementedError):
        Image.image_configuration()
    made = ContainerImage.image_configuration(script, "spark-py", docker_file=script, enable_gpu=True, base_image="x")
    assert made.execution_script_path == script and made.allow_absolute_path is False and made.cuda_version is None
    assert made.base_image_registry is None and made.execution_script == script
