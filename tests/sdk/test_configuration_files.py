"""Run configurations, environments and conda files on disk."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path, PurePosixPath
from typing import Any

import numpy
import pytest
import yaml  # type: ignore[import-untyped]

from runyard.sdk.config import texts
from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import Environment
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.run_config.run_configuration import DataReferenceConfiguration, RunConfiguration

# As Azure's SDK 1.x writes it, in a project that also holds keys of older and newer releases.
AZURE_FILE = """\
# The script to run.
script: train.py
# The arguments to the script file.
arguments: [--alpha, 0.5, --fast, true]
target: gpu-cluster
framework: Python
communicator: None
autoPrepareEnvironment: true
maxRunDurationSeconds:
nodeCount: 2
environment:
  name: project environment
  version: 3
  environmentVariables:
    DEBUG: true
    LEVEL: 2
  python:
    userManagedDependencies: false
    interpreterPath: python
    condaDependenciesFile: .azureml/conda.yml
    baseCondaEnvironment:
  docker:
    enabled: false
    baseImage:
    baseDockerfile: "FROM ubuntu\\nRUN true\\n"
    sharedVolumes: true
    gpuSupport: false
    shmSize: 4g
    arguments: []
    baseImageRegistry:
      address:
      username:
      password:
  spark:
    repositories: ['https://mmlspark.azureedge.net/maven']
    packages:
    - {group: com.microsoft.ml.spark, artifact: mmlspark_2.11, version: '0.12'}
    precachePackages: true
history:
  outputCollection: true
  directoriesToWatch: [logs, charts]
spark:
  configuration: {spark.app.name: Azure ML Experiment, spark.yarn.maxAppAttempts: 1}
hdi: {yarnDeployMode: cluster}
mpi: {processCountPerNode: 4, nodeCount: 2}
dataReferences:
  images: {dataStoreName: store, mode: download, pathOnDataStore: a/b, pathOnCompute: , overwrite: false}
data: {}
sourceDirectoryDataStore:
command: ''
quantumLeap: {zip: 1}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".azureml").mkdir()
    (tmp_path / ".azureml" / "train.runconfig").write_text(AZURE_FILE)
    (tmp_path / ".azureml" / "conda.yml").write_text("dependencies: [python=3.8, numpy, {pip: [torch==2.0]}]\n")
    return tmp_path


def test_a_file_of_azures_sdk_loads(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    texts._SAID.clear()
    with caplog.at_level(logging.WARNING):
        config = RunConfiguration.load(str(project), "train")

    assert (config.script, config.arguments) == ("train.py", ["--alpha", 0.5, "--fast", True])
    assert (config.target, config.node_count, config.communicator) == ("gpu-cluster", 2, "None")
    assert (config.mpi.process_count_per_node, config.max_run_duration_seconds) == (4, None)
    assert config.history.directories_to_watch == ["logs", "charts"] and config.history.snapshot_project is True
    environment = config.environment
    assert (environment.name, environment.version) == ("project environment", "3")
    assert environment.environment_variables == {"DEBUG": "true", "LEVEL": "2"}
    assert environment.docker.base_dockerfile == "FROM ubuntu\nRUN true\n" and environment.docker.base_image is None
    assert environment.docker.shm_size == "4g"
    assert environment.spark.packages[0]["artifact"] == "mmlspark_2.11"
    assert environment.python.conda_dependencies.conda_packages == ["python=3.8", "numpy"]
    assert environment.python.conda_dependencies.pip_packages == ["torch==2.0"]
    images = config.data_references["images"]
    assert isinstance(images, DataReferenceConfiguration)
    assert (images.data_store_name, images.mode, images.path_on_data_store) == ("store", "download", "a/b")
    assert "The key `quantumLeap` is not known and has no effect." in caplog.text


def test_the_file_can_be_named_itself_and_lie_in_the_older_folder(project: Path) -> None:
    assert RunConfiguration.load(str(project / ".azureml" / "train.runconfig")).node_count == 2
    (project / ".azureml").rename(project / "aml_config")
    text = (project / "aml_config" / "train.runconfig").read_text().replace(".azureml/conda.yml", "conda.yml")
    (project / "aml_config" / "train.runconfig").write_text(text)

    assert (
        RunConfiguration.load(str(project), "train").environment.python.conda_dependencies.conda_packages[1] == "numpy"
    )


def test_saved_and_loaded_is_the_same(tmp_path: Path) -> None:
    config = RunConfiguration(
        "train.py", ["--a", 1, 0.5, True, "x: y", numpy.float64(0.25), PurePosixPath("/p")], "PyTorch", "Nccl"
    )
    config.environment = Environment("mine")
    config.environment.python.conda_dependencies = CondaDependencies.create(pip_packages=["a[b]==1", "-f http://x"])
    config.environment.docker.base_dockerfile = "FROM x\nRUN y: z\n"
    config.target, config.node_count, config.max_run_duration_seconds = "other", 3, 60
    config.docker.shm_size = None
    config.environment_variables = {"ON": "on", "PORT": "8080"}
    config.data_references["images"] = DataReferenceConfiguration("store", "download")
    config.save(str(tmp_path), "train")
    loaded = RunConfiguration.load(str(tmp_path), "train")

    expected = {**config.to_plain(), "arguments": ["--a", 1, 0.5, True, "x: y", 0.25, "/p"]}
    expected["environment"]["python"]["condaDependenciesFile"] = ".azureml/conda_dependencies.yml"
    assert loaded.to_plain() == expected


def test_the_file_has_azures_keys_in_azures_order(tmp_path: Path) -> None:
    config = RunConfiguration(conda_dependencies=CondaDependencies.create(conda_packages=["scipy"]))
    config.save(str(tmp_path), "train")
    found = yaml.safe_load((tmp_path / ".azureml" / "train").read_text())

    assert list(found) == list(config.to_plain())
    assert list(found["environment"]["python"]) == [
        "userManagedDependencies",
        "interpreterPath",
        "condaDependenciesFile",
        "baseCondaEnvironment",
    ]
    assert found["communicator"] == "None" and found["datacaches"] == [] and found["priority"] is None
    conda = yaml.safe_load((tmp_path / ".azureml" / "conda_dependencies.yml").read_text())
    assert conda["dependencies"][-1] == "scipy"


def test_the_environment_can_have_its_own_file(tmp_path: Path) -> None:
    config = RunConfiguration()
    config.environment = Environment("apart")
    config.save(str(tmp_path), "train", separate_environment_yaml=True)

    assert yaml.safe_load((tmp_path / ".azureml" / "train").read_text())["environment"] == ".azureml/environment.yml"
    assert yaml.safe_load((tmp_path / ".azureml" / "environment.yml").read_text())["name"] == "apart"
    assert RunConfiguration.load(str(tmp_path), "train").environment.name == "apart"


def test_a_loaded_configuration_is_saved_where_it_came_from_and_deleted(project: Path) -> None:
    config = RunConfiguration.load(str(project), "train.runconfig")
    config.node_count = 7
    config.save()
    assert RunConfiguration.load(str(project), "train").node_count == 7

    RunConfiguration.delete(str(project), "train")
    with pytest.raises(UserErrorException, match="There is no run configuration 'train'"):
        RunConfiguration.delete(str(project), "train")


def test_saving_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UserErrorException, match="needs a name"):
        RunConfiguration().save(str(tmp_path))
    with pytest.raises(UserErrorException, match="cannot be written: No such file or directory"):
        RunConfiguration().save(str(tmp_path / "none"), "train")
    config = RunConfiguration()
    config.data["x"] = object()
    with pytest.raises(UserErrorException, match="cannot be saved: <object"):
        config.save(str(tmp_path), "train")
    assert list(tmp_path.iterdir()) == []


def test_a_range_of_pythons_is_kept() -> None:
    fitting = CondaDependencies.create(conda_packages=["python>=3.8"])
    other = CondaDependencies.create(conda_packages=["python >=3.6,<3.8"])

    assert (fitting._wanted_python, fitting.conda_packages) == (None, ["python>=3.8"])
    assert fitting.get_python_version() == "{}.{}".format(*sys.version_info[:2])
    assert (other._wanted_python, other.get_python_version()) == ("3.7", "3.7")  # which becomes the nearest there is
    assert CondaDependencies.create(conda_packages=["python<3.7"])._wanted_python == "3.6"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("taget: local", "The key `taget` is not known. Did you mean `target`?"),
        ("node_count: 2", "The key `node_count` is not known. Did you mean `nodeCount`?"),
        (
            "history: {directoriesToWach: []}",
            "`history.directoriesToWach` is not known. Did you mean `directoriesToWatch`",
        ),
        ("environment: {python: {userManagedDependency: true}}", "Did you mean `userManagedDependencies`?"),
        ("dataReferences: {a: {mod: mount}}", "`dataReferences.a.mod` is not known. Did you mean `mode`?"),
        ("nodeCount: two", "`nodeCount` must be a whole number, found 'two'."),
        ("nodeCount: true", "`nodeCount` must be a whole number, found True."),
        ("arguments: --alpha 1", "`arguments` must be a list, found '--alpha 1'."),
        ("history: {outputCollection: 1}", "`history.outputCollection` must be true or false, found 1."),
        ("history: [logs]", "`history` must be `key: value` lines, found ['logs']."),
        ("script: [a]", "`script` must be a text, found ['a']."),
        ("command: {a: b}", "`command` must be a text"),
        ("environment: none.yml", "names the file 'none.yml', which does not exist"),
        ("environment: {python: {condaDependenciesFile: none.yml}}", "names the file 'none.yml'"),
        ("a: [", "cannot be read as YAML"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_the_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "my.runconfig").write_text(text)

    with pytest.raises(UserErrorException) as caught:
        RunConfiguration.load(str(tmp_path / "my.runconfig"))
    assert message in caught.value.message and "my.runconfig" in caught.value.message


def test_missing_files_are_named_with_those_that_are_there(project: Path) -> None:
    with pytest.raises(UserErrorException, match=r"There is: train.runconfig."):
        RunConfiguration.load(str(project), "trian")
    with pytest.raises(UserErrorException, match="There is no run configuration"):
        RunConfiguration.load(str(project / "nowhere.runconfig"))


@pytest.mark.parametrize("command", ["echo $HOME", ["python", "-c", "pass"]], ids=["text", "list"])
def test_commands_survive_the_file(tmp_path: Path, command: Any) -> None:
    RunConfiguration(command=command).save(str(tmp_path), "train")

    assert RunConfiguration.load(str(tmp_path), "train").command == command


def test_packages_come_from_a_conda_file(tmp_path: Path) -> None:
    file = tmp_path / "conda.yml"
    file.write_text(
        "name: mine\nchannels: [pytorch, defaults]\nprefix: /opt/x\n"
        "dependencies:\n- python=3.9.7\n- numpy>=1.2\n- pip\n- pip:\n  - --extra-index-url http://x\n  - torch\n"
    )
    found = Environment.from_conda_specification("e", str(file)).python.conda_dependencies

    assert found.get_python_version() == "3.9.7" and found._wanted_python == "3.9.7"
    assert found.conda_packages == ["python=3.9.7", "numpy>=1.2", "pip"]
    assert (found.pip_packages, found.pip_options) == (["torch"], ["--extra-index-url http://x"])
    assert found.conda_channels == ["pytorch", "defaults"] and found.as_dict()["name"] == "mine"
    found.save(str(tmp_path))
    assert CondaDependencies(str(tmp_path / "conda_dependencies.yml")).as_dict() == found.as_dict()


@pytest.mark.parametrize(
    ("line", "wanted"),
    [("python", None), ("python=3.8.*", "3.8"), ("python==3.8", "3.8"), ("python 3.8", "3.8")],
)
def test_only_an_exact_python_is_asked_for(line: str, wanted: str | None) -> None:
    made = CondaDependencies.create(conda_packages=[line])

    assert made._wanted_python == wanted
    assert made.get_python_version() == (wanted or "{}.{}".format(*sys.version_info[:2]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dependancies: [a]", "Did you mean `dependencies`?"),
        ("dependencies: numpy", "must be a list, found 'numpy'"),
        ("dependencies: [{pi: [a]}]", "a dependency is a package or `pip:` with a list"),
        ("dependencies: [{pip: [3]}]", "one line of text, found 3"),
        ("[", "cannot be read as YAML"),
    ],
)
def test_a_mistake_in_a_conda_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "conda.yml").write_text(text)

    with pytest.raises(UserErrorException) as caught:
        CondaDependencies(str(tmp_path / "conda.yml"))
    assert message in caught.value.message


def test_an_environment_is_saved_to_a_folder_and_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    environment = Environment("mine")
    environment.version = "4"
    environment.python.conda_dependencies = CondaDependencies.create(pip_packages=["a"], python_version="3.9")
    environment.docker.base_dockerfile = "FROM x\n"
    environment.docker.base_image_registry.password = "hidden-canary"
    environment.environment_variables = {"A": "1"}
    environment.save_to_directory(str(tmp_path / "env"))

    assert sorted(file.name for file in (tmp_path / "env").iterdir()) == [
        "BaseDockerfile",
        "azureml_environment.json",
        "conda_dependencies.yml",
    ]
    definition = json.loads((tmp_path / "env" / "azureml_environment.json").read_text())
    assert "condaDependencies" not in definition["python"] and "hidden-canary" not in str(definition)
    assert "password of docker.base_image_registry is not written" in caplog.text
    loaded = Environment.load_from_directory(str(tmp_path / "env"))
    environment.docker.base_image_registry.password = None
    environment.python.conda_dependencies_file = "conda_dependencies.yml"
    assert loaded.to_plain() == environment.to_plain()


def test_a_folder_of_azures_sdk_gives_the_files_that_its_definition_does_not_name(tmp_path: Path) -> None:
    (tmp_path / "azureml_environment.json").write_text('{"name": "theirs", "python": {}, "docker": {}}')
    (tmp_path / "conda_dependencies.yml").write_text("dependencies:\n- python=3.8\n- pip:\n  - numpy\n")
    (tmp_path / "BaseDockerfile").write_text("FROM ubuntu\n")
    loaded = Environment.load_from_directory(str(tmp_path))

    assert list(loaded.python.conda_dependencies.pip_packages) == ["numpy"]
    assert loaded.docker.base_dockerfile == "FROM ubuntu\n"


def test_a_saved_environment_has_azures_keys_in_azures_order(tmp_path: Path) -> None:
    Environment("mine").save_to_directory(str(tmp_path / "env"))
    found = json.loads((tmp_path / "env" / "azureml_environment.json").read_text())

    assert " ".join(found) == (
        "name version environmentVariables python docker spark databricks r inferencingStackVersion assetId"
    )
    assert " ".join(found["python"]) == (
        "userManagedDependencies interpreterPath condaDependenciesFile baseCondaEnvironment"
    )
    assert " ".join(found["docker"]) == (
        "enabled baseImage baseDockerfile buildContext sharedVolumes shmSize arguments baseImageRegistry platform"
    )
    assert list(found["docker"]["baseImageRegistry"]) == ["address", "username", "password", "registryIdentity"]
    assert found["docker"]["platform"] == {"os": "Linux", "architecture": "amd64"}
    assert json.loads(repr(Environment("mine")))["python"]["condaDependencies"]["name"] == "project_environment"


def test_environment_folders_are_not_overwritten_or_guessed(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError, match="overwrite=True"):
        Environment("e").save_to_directory(str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"no azureml_environment.json"):
        Environment.load_from_directory(str(tmp_path))
    Environment("e").save_to_directory(str(tmp_path), overwrite=True)
    assert Environment.load_from_directory(str(tmp_path)).name == "e"
    (tmp_path / "azureml_environment.json").write_text("[" * 100_000)
    with pytest.raises(UserErrorException, match="cannot be read"):
        Environment.load_from_directory(str(tmp_path))
