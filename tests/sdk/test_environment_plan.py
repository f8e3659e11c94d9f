"""An environment becomes the node's order; what contradicts itself is refused before anything is copied."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from runyard.core.errors import SubmitRejected
from runyard.core.specs import ContainerSpec
from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import DEFAULT_GPU_IMAGE, DockerBuildContext, Environment
from runyard.sdk.environments.plan import plan_environment
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.run_config.run_configuration import DockerConfiguration

OWN = "{}.{}".format(*sys.version_info[:2])
DOCKER = DockerConfiguration(use_docker=True)


def with_packages(**packages: Any) -> Environment:
    environment = Environment("mine")
    environment.python.conda_dependencies = CondaDependencies.create(**packages)
    return environment


def test_pip_packages_are_an_order_for_uv() -> None:
    environment = with_packages(
        pip_packages=["azureml-defaults", "torch==2.0", "--pre"], pip_indexurl="https://i/simple"
    )
    environment.environment_variables = {"N": 3}  # type: ignore[dict-item]  # users do
    spec = plan_environment(environment)

    assert (spec.kind, spec.interpreter, spec.python_version) == ("uv", sys.executable, OWN)
    assert spec.pip_packages == ["azureml-defaults", "torch==2.0"]
    assert spec.pip_options == ["--index-url https://i/simple", "--pre"]
    assert (spec.conda_packages, spec.container, spec.variables) == ([], None, {"N": "3"})
    assert spec.definition["python"]["condaDependencies"]["dependencies"][1] == {
        "pip": ["--index-url https://i/simple", "azureml-defaults", "torch==2.0", "--pre"]
    }


def test_one_conda_package_makes_it_an_order_for_conda() -> None:
    spec = plan_environment(with_packages(conda_packages=["pip=20", "conda-forge::numpy=2"], python_version="3.12"))

    assert (spec.kind, spec.python_version) == ("conda", "3.12")
    assert spec.conda_packages == ["conda-forge::numpy=2"]
    assert spec.conda_channels == ["anaconda", "conda-forge"]


def test_another_python_alone_is_a_reason_to_build() -> None:
    assert plan_environment(with_packages(python_version="3.9" if OWN != "3.9" else "3.10")).kind == "uv"
    assert plan_environment(with_packages(python_version=OWN)).kind == "system"
    assert plan_environment(with_packages(python_version="{}.{}.{}".format(*sys.version_info[:3]))).kind == "system"
    assert plan_environment(with_packages(python_version=OWN + ".99")).kind == "uv"


@pytest.mark.parametrize(("version", "why"), [("2.7", "does not run on Python 3"), ("three", "no version of Python")])
def test_a_python_that_cannot_be_is_refused(version: str, why: str) -> None:
    with pytest.raises(SubmitRejected) as caught:
        plan_environment(with_packages(python_version=version))
    assert version in caught.value.what and why in caught.value.why and "set_python_version" in caught.value.hint


def test_an_old_python_is_left_to_the_node_which_takes_the_nearest() -> None:
    spec = plan_environment(with_packages(pip_packages=["a"], python_version="3.6.2"))

    assert (spec.kind, spec.python_version) == ("uv", "3.6.2")


@pytest.mark.parametrize(
    ("packages", "kind"),
    [
        (["azureml-defaults"], "system"),
        (["azureml-train-automl"], "system"),
        (["azureml-mlflow"], "uv"),
        (["azureml-dataset-runtime[pandas]"], "uv"),
    ],
)
def test_what_microsofts_packages_bring_is_a_reason_to_build(packages: list[str], kind: str) -> None:
    spec = plan_environment(with_packages(pip_packages=packages))

    assert (spec.kind, spec.pip_packages) == (kind, [] if packages == ["azureml-defaults"] else packages)


def test_files_that_pip_lines_name_are_read_at_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requirements.txt").write_text("numpy\n-c limits.txt\n")
    (tmp_path / "limits.txt").write_text("numpy<3\nscipy>1\n")
    spec = plan_environment(with_packages(pip_packages=["joblib", "-r requirements.txt"]))

    assert spec.pip_packages == ["joblib", "numpy"]
    assert (spec.pip_options, spec.pip_constraints) == ([], ["numpy<3", "scipy>1"])


def test_a_conda_file_named_alone_is_read_at_submit(tmp_path: Path) -> None:
    (tmp_path / "env.yml").write_text("dependencies:\n- python=3.9\n- pip:\n  - joblib\n")
    environment = Environment("mine")
    environment.python.conda_dependencies_file = str(tmp_path / "env.yml")
    spec = plan_environment(environment)

    assert (spec.kind, spec.pip_packages, spec.python_version) == ("uv", ["joblib"], "3.9")
    assert spec.definition["python"]["condaDependencies"]["dependencies"] == ["python=3.9", {"pip": ["joblib"]}]
    environment.python.conda_dependencies_file = str(tmp_path / "none.yml")
    with pytest.raises(Exception, match=r"none\.yml"):
        plan_environment(environment)


def test_packages_of_another_type_are_refused() -> None:
    environment = Environment("mine")
    environment.python.conda_dependencies = ["numpy"]  # type: ignore[assignment]  # users do

    with pytest.raises(UserErrorException, match="must be a CondaDependencies, found list"):
        plan_environment(environment)


def test_spark_packages_are_refused() -> None:
    environment = Environment("mine")
    environment.spark.packages = [{"group": "com.microsoft.ml.spark"}]

    with pytest.raises(SubmitRejected, match="Spark packages"):
        plan_environment(environment)


def test_packages_beside_a_python_of_ones_own_are_noted_and_said(caplog: pytest.LogCaptureFixture) -> None:
    wanted = ["azureml-defaults", "torch", "an-own-one"]
    environment = with_packages(pip_packages=wanted)
    environment.python.user_managed_dependencies = True
    with caplog.at_level(logging.WARNING):
        spec = plan_environment(environment)

    assert (spec.kind, spec.interpreter, spec.pip_packages) == ("system", sys.executable, wanted)
    assert "names packages (torch, an-own-one) that are not installed" in caplog.text


def test_an_image_without_a_wish_for_a_container_is_said_to_be_unused(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        spec = plan_environment(Environment.from_docker_image("mine", "an/unused:1"))

    assert spec.kind == "system" and spec.container is None
    assert "The image an/unused:1 of environment `mine` is not used" in caplog.text
    assert "DockerConfiguration(use_docker=True)" in caplog.text


def test_a_container_takes_the_image_and_the_runtime_settings() -> None:
    environment = with_packages(pip_packages=["joblib"])
    environment.docker.base_image = "an/image:1"
    registry = environment.docker.base_image_registry
    registry.address, registry.username, registry.password = "registry.example", "me", "hidden-canary"
    docker = DockerConfiguration(use_docker=True, shared_volumes=False, arguments=["--cap-add", "X"], shm_size="8g")
    spec = plan_environment(environment, docker=docker)

    assert spec.kind == "container" and spec.pip_packages == ["joblib"]
    assert spec.container == ContainerSpec(
        image="an/image:1",
        registry="registry.example",
        username="me",
        password="hidden-canary",
        shared_volumes=False,
        shm_size="8g",
        arguments=["--cap-add", "X"],
    )
    assert "hidden-canary" not in str(spec.definition)


def test_docker_enabled_is_the_older_word_for_it() -> None:
    environment = Environment("mine")
    environment.docker.enabled = True
    environment.docker.base_image = "an/image"
    environment.docker.shm_size = "1g"
    spec = plan_environment(environment, docker=DockerConfiguration())

    assert (spec.kind, spec.container) == ("container", ContainerSpec(image="an/image", shm_size="1g"))


def test_azures_default_images_need_no_container(caplog: pytest.LogCaptureFixture) -> None:
    environment = with_packages(pip_packages=["joblib"])
    environment.name = "without-image"
    environment.docker.base_image = DEFAULT_GPU_IMAGE
    with caplog.at_level(logging.WARNING):
        spec = plan_environment(environment, docker=DOCKER)

    assert (spec.kind, spec.container) == ("uv", None)
    assert "`without-image` names no image of yours" in caplog.text


def test_a_dockerfile_may_be_a_path(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM an/image\nRUN true\n")
    environment = Environment("mine")
    environment.docker.base_dockerfile = str(tmp_path / "Dockerfile")
    container = plan_environment(environment, docker=DOCKER).container

    assert container is not None and (container.image, container.dockerfile) == ("", "FROM an/image\nRUN true\n")


def test_the_images_own_python_gets_no_packages() -> None:
    spec = plan_environment(Environment.from_docker_image("mine", "an/image"), docker=DOCKER)

    assert (spec.interpreter, spec.pip_packages, spec.conda_channels) == ("python", [], [])


def test_a_build_contexts_dockerfile_is_the_environments(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM an/image\nRUN true\nCOPY --from=other /a /b\n")
    context = DockerBuildContext.from_local_directory(None, str(tmp_path))  # type: ignore[arg-type]  # not asked
    environment = Environment.from_docker_build_context("mine", context)
    spec = plan_environment(environment, docker=DOCKER)

    assert spec.container is not None and spec.container.dockerfile == (tmp_path / "Dockerfile").read_text()
    assert (spec.kind, spec.container.image, spec.interpreter) == ("container", "", "python")
    (tmp_path / "Other").write_text("FROM an/image\n  COPY a /b\n")
    context.dockerfile_path = "Other"
    with pytest.raises(SubmitRejected, match=r"copies files of that folder: `COPY a /b`"):
        plan_environment(environment, docker=DOCKER)
    context.location = "https://git.example.org/x.git"
    with pytest.raises(SubmitRejected, match=r"docker\.build_context\) cannot be used") as caught:
        plan_environment(environment, docker=DOCKER)
    assert caught.value.why == "Only a folder of this machine is read."
    with pytest.raises(UserErrorException, match="must be a DockerBuildContext"):
        Environment.from_docker_build_context("mine", "folder")  # type: ignore[arg-type]  # users do


def test_container_settings_that_cannot_be_are_refused() -> None:
    environment = Environment("mine")
    environment.docker.build_context = object()
    with pytest.raises(SubmitRejected, match="build_context"):
        plan_environment(environment, docker=DOCKER)

    docker = DockerConfiguration(use_docker=True, arguments="-v x")  # type: ignore[arg-type]  # users do
    with pytest.raises(UserErrorException, match=r"docker\.arguments must be a list"):
        plan_environment(Environment.from_docker_image("mine", "an/image"), docker=docker)


def test_an_image_is_preferred_with_what_serves_without_it() -> None:
    environment = Environment("boxed")
    environment.docker.base_image = "mine/image:1"
    environment.python.conda_dependencies = CondaDependencies.create(pip_packages=["no-such-package"])
    spec = plan_environment(environment, prefers_image=True)

    assert spec.kind == "container" and spec.container is not None
    assert (spec.container.image, spec.python_version, spec.pip_packages) == ("mine/image:1", None, ["no-such-package"])
    assert spec.container.fallback == {"kind": "uv", "interpreter": sys.executable, "python_version": OWN}
    environment.docker.enabled = True  # then it is asked for, and nothing takes its place
    asked = plan_environment(environment, prefers_image=True)
    assert asked.container is not None and asked.container.fallback == {}
    environment.docker.base_image = None
    environment.docker.enabled = False
    assert plan_environment(environment, prefers_image=True).kind == "uv"
