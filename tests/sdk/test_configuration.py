"""Run configurations and environments: Azure's defaults, names and guards."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from runyard.sdk.config.objects import SealedConfig
from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import Environment
from runyard.sdk.exceptions import RunConfigurationException, UserErrorException
from runyard.sdk.run_config.run_configuration import (
    DockerConfiguration,
    MpiConfiguration,
    PyTorchConfiguration,
    RunConfiguration,
    TensorflowConfiguration,
)
from runyard.sdk.run_config.script_run_config import ScriptRunConfig

TOP_KEYS = [
    "script",
    "arguments",
    "target",
    "framework",
    "communicator",
    "maxRunDurationSeconds",
    "nodeCount",
    "priority",
    "environment",
    "history",
    "spark",
    "docker",
    "hdi",
    "tensorflow",
    "mpi",
    "pytorch",
    "paralleltask",
    "dataReferences",
    "data",
    "datacaches",
    "outputData",
    "sourceDirectoryDataStore",
    "amlcompute",
    "autoClusterComputeSpecification",
    "kubernetescompute",
    "credentialPassthrough",
    "command",
    "environmentVariables",
    "applicationEndpoints",
]


def test_a_run_configuration_has_azures_keys_in_azures_order() -> None:
    assert list(RunConfiguration().to_plain()) == TOP_KEYS


def test_defaults_are_azures() -> None:
    plain = RunConfiguration().to_plain()

    assert plain["target"] == "local" and plain["framework"] == "Python" and plain["communicator"] == "None"
    assert plain["nodeCount"] == 1 and plain["maxRunDurationSeconds"] is None and plain["priority"] is None
    assert plain["history"] == {"outputCollection": True, "snapshotProject": True, "directoriesToWatch": ["logs"]}
    assert plain["docker"] == {"useDocker": False, "sharedVolumes": True, "arguments": [], "shmSize": "2g"}
    assert plain["pytorch"] == {"communicationBackend": "nccl", "processCount": None, "nodeCount": 1}
    assert plain["amlcompute"]["clusterMaxNodeCount"] is None
    environment = plain["environment"]
    assert environment["name"] == "default-environment"
    assert environment["environmentVariables"] == {"EXAMPLE_ENV_VAR": "EXAMPLE_VALUE"}
    assert environment["python"]["userManagedDependencies"] is False
    assert environment["python"]["interpreterPath"] == "python"
    assert environment["python"]["condaDependencies"]["dependencies"][1] == {"pip": ["azureml-defaults"]}
    assert list(environment["docker"]) == [
        "enabled",
        "baseImage",
        "baseDockerfile",
        "buildContext",
        "sharedVolumes",
        "shmSize",
        "arguments",
        "baseImageRegistry",
        "platform",
    ]


@pytest.mark.parametrize(
    ("thing", "wrong", "near"),
    [
        (RunConfiguration(), "taget", "Did you mean `target`"),
        (RunConfiguration(), "node_cout", "Did you mean `node_count`"),
        (RunConfiguration().history, "directories_to_wach", "Did you mean `directories_to_watch`"),
        (Environment("e"), "pyton", "Did you mean `python`"),
        (Environment("e").python, "user_managed_dependancies", "Did you mean `user_managed_dependencies`"),
        (Environment("e").docker, "base_imag", "Did you mean `base_image`"),
        (Environment("e").python, "zzz", "Known: base_conda_environment, conda_dependencies, "),
        (MpiConfiguration(), "process_count", "Did you mean `process_count_per_node`"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_misspelt_attribute_is_an_error_that_names_the_near_one(thing: SealedConfig, wrong: str, near: str) -> None:
    with pytest.raises(AttributeError) as caught:
        setattr(thing, wrong, 1)

    assert str(caught.value).startswith(f"{type(thing).__name__} has no attribute `{wrong}`. {near}")


def test_what_2018_scripts_set_is_accepted_without_effect() -> None:
    config = RunConfiguration()
    config.auto_prepare_environment = True
    config.prepare_environment = False
    config.container_instance.region = "eastus2"
    config.container_instance.cpu_cores = 1
    config.container_instance.memory_gb = 2

    assert list(config.to_plain()) == TOP_KEYS
    with pytest.raises(AttributeError, match="Did you mean `memory_gb`"):
        config.container_instance.memory = 2


def test_an_image_and_a_dockerfile_exclude_each_other() -> None:
    docker = Environment("e").docker
    docker.base_dockerfile = "FROM x"
    assert (docker.base_image, docker.base_dockerfile) == (None, "FROM x")
    docker.base_image = None
    assert (docker.base_image, docker.base_dockerfile) == (None, "FROM x")

    docker.base_image = "image"
    assert (docker.base_image, docker.base_dockerfile) == ("image", None)


def test_a_registry_password_is_not_shown() -> None:
    environment = Environment("e")
    environment.docker.base_image_registry.password = "hidden-canary"

    assert "hidden-canary" not in repr(environment)


def test_environment_names_and_clones() -> None:
    environment = Environment("e")
    environment.python.user_managed_dependencies = True
    copy = environment.clone("f")
    copy.python.interpreter_path = "elsewhere"

    assert (copy.name, copy.version, copy.python.user_managed_dependencies) == ("f", None, True)
    assert environment.python.interpreter_path == "python"
    assert str(environment) == "Environment(Name: e,\nVersion: None)"
    with pytest.raises(TypeError, match="must be text, found int"):
        Environment(3)  # type: ignore[arg-type]


def test_packages_come_from_a_requirements_file(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("numpy==2.0  # numbers\n\n# a comment\nscikit-learn\n")
    environment = Environment.from_pip_requirements("e", str(file))

    assert list(environment.python.conda_dependencies.pip_packages) == ["numpy==2.0", "scikit-learn"]
    with pytest.raises(UserErrorException, match="does not exist"):
        Environment.from_pip_requirements("e", str(tmp_path / "none.txt"))


def test_script_run_config_fills_a_run_configuration() -> None:
    environment = Environment("mine")
    config = ScriptRunConfig(".", "train.py", ["--alpha", 0.5, True], compute_target="local", environment=environment)

    assert (config.source_directory, config.script, config.arguments) == (".", "train.py", ["--alpha", 0.5, True])
    assert config.run_config.environment is environment
    assert config.run_config.target == "local"
    assert config.run_config.max_run_duration_seconds == 2592000


def test_a_given_run_config_wins_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    given = RunConfiguration()
    with caplog.at_level(logging.WARNING):
        config = ScriptRunConfig(".", "train.py", run_config=given, compute_target="other")

    assert config.run_config is given and given.target == "local"
    assert "run_config decides: compute_target" in caplog.text


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [
        (MpiConfiguration(2, 3), ("Python", "IntelMpi", 3)),
        (TensorflowConfiguration(2, 1), ("TensorFlow", "ParameterServer", 2)),
        (PyTorchConfiguration("Gloo", 4, 2), ("PyTorch", "gloo", 2)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_distribution_sets_framework_communicator_and_nodes(
    distribution: MpiConfiguration | TensorflowConfiguration | PyTorchConfiguration, expected: tuple[str, str, int]
) -> None:
    config = ScriptRunConfig(".", "train.py", distributed_job_config=distribution).run_config

    assert (config.framework, config.communicator, config.node_count) == expected


def test_wrong_types_are_refused_at_once() -> None:
    with pytest.raises(RunConfigurationException, match="TensorflowConfiguration"):
        ScriptRunConfig(".", "a.py", distributed_job_config=3)  # type: ignore[arg-type]
    with pytest.raises(RunConfigurationException, match="DockerConfiguration"):
        ScriptRunConfig(".", "a.py", docker_runtime_config=3)  # type: ignore[arg-type]
    with pytest.raises(UserErrorException, match="must be an Environment, found str"):
        ScriptRunConfig(".", "a.py", environment="mine")  # type: ignore[arg-type]
    with pytest.raises(UserErrorException, match="DataPath"):
        ScriptRunConfig(".", "a.py", resume_from="x")


def test_docker_settings_come_from_the_environment_unless_given() -> None:
    environment = Environment("e")
    environment.docker.shm_size = "8g"

    assert ScriptRunConfig(".", "a.py", environment=environment).run_config.docker.shm_size == "8g"
    given = DockerConfiguration(use_docker=False, shm_size="1g")
    assert ScriptRunConfig(".", "a.py", environment=environment, docker_runtime_config=given).run_config.docker is given


def test_conda_dependencies_as_azure_keeps_them() -> None:
    made = CondaDependencies.create(
        pip_packages=["b", "a==1"], conda_packages=["scikit-learn=0.20"], python_version="3.7"
    )
    made.add_pip_package("a==2")
    made.add_conda_package("scikit-learn=0.21")
    made.add_conda_package("python=3.6")
    made.add_channel("pytorch")
    made.add_tensorflow_pip_package("gpu", "1.13")
    made.set_pip_option("--pre")

    assert made.conda_packages == ["python=3.6", "scikit-learn=0.20", "scikit-learn=0.21"]
    assert made.pip_packages == ["b", "a==2", "tensorflow-gpu==1.13"]
    assert made.pip_options == ["--pre"]
    assert made.conda_channels == ["anaconda", "conda-forge", "pytorch"]
    assert made.as_dict() == {
        "name": "project_environment",
        "dependencies": [
            "python=3.6",
            {"pip": ["b", "a==2", "tensorflow-gpu==1.13", "--pre"]},
            "scikit-learn=0.20",
            "scikit-learn=0.21",
        ],
        "channels": ["anaconda", "conda-forge", "pytorch"],
    }
    assert made.serialize_to_string().split("\n", 1)[1] == (
        "name: project_environment\n"
        "dependencies:\n- python=3.6\n- pip:\n  - b\n  - a==2\n  - tensorflow-gpu==1.13\n  - --pre\n"
        "- scikit-learn=0.20\n- scikit-learn=0.21\n"
        "channels:\n- anaconda\n- conda-forge\n- pytorch\n"
    )


def test_default_conda_dependencies_and_their_errors() -> None:
    made = CondaDependencies()

    assert made.pip_packages == ["azureml-defaults"]
    assert made.get_python_version() == "{}.{}".format(*sys.version_info[:2])
    assert CondaDependencies.merge_requirements(["a==1", "b", "a>0"]) == ["a==1,>0", "b"]
    with pytest.raises(UserErrorException, match="cannot be removed"):
        made.remove_conda_package("python")
    with pytest.raises(UserErrorException, match=r"found the text 'x'"):
        CondaDependencies.create(pip_packages="x")


def test_conda_dependencies_are_written_where_azure_writes_them(tmp_path: Path) -> None:
    made = CondaDependencies()

    assert made.save_to_file(str(tmp_path), "env.yml") == "env.yml"
    assert (tmp_path / "env.yml").read_text() == made.serialize_to_string()
