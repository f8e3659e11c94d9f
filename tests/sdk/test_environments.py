"""Environments of a workspace: registered in versions, found again, labelled; curated ones beside them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from runyard.core import records
from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.specs import EnvironmentSpec, RunSpec
from runyard.core.statuses import RunStatus
from runyard.sdk.config import texts
from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import Environment
from runyard.sdk.environments.files import environment_of
from runyard.sdk.environments.registry import list_curated
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.runs.run import Run
from runyard.sdk.workspaces.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """One of this test's own: names that others register are not there."""
    monkeypatch.chdir(tmp_path)
    return Workspace.create(f"env-{os.urandom(6).hex()}")


def made(name: str = "train-env", *packages: str) -> Environment:
    environment = Environment(name)
    environment.python.conda_dependencies = CondaDependencies.create(pip_packages=[*packages, "joblib>=1.3"])
    environment.environment_variables = {"MESSAGE": "hello"}
    return environment


def test_the_same_content_is_the_same_version_and_changed_content_the_next(workspace: Workspace) -> None:
    environment = made()

    assert environment.version is None
    first = environment.register(workspace)
    assert (first.version, first.name, environment.version) == ("1", "train-env", None)
    assert made().register(workspace).version == "1"
    assert first.register(workspace).version == "1"
    assert made("other-env").register(workspace).version == "1"
    assert made("train-env", "numpy").register(workspace).version == "2"
    assert made().register(workspace).version == "3"  # the content of an older one is a change, too


def test_a_registered_environment_comes_back_whole(workspace: Workspace) -> None:
    environment = made()
    environment.docker.base_dockerfile = "FROM an/image\n"
    environment.docker.arguments = ["-v", "/a:/b"]
    environment.inferencing_stack_version = "latest"
    environment.python.conda_dependencies.set_python_version("3.10")
    registered = environment.register(workspace)
    found = Environment.get(workspace, "train-env")

    assert found.to_plain() == registered.to_plain()
    assert found.python.conda_dependencies.get_python_version() == "3.10"
    assert found.clone("copy").version is None


def test_versions_and_labels_are_found(workspace: Workspace) -> None:
    made().register(workspace)
    made("train-env", "numpy").register(workspace)
    Environment.label(workspace, "TRAIN-env", "1", ["good", "old"])

    assert Environment.get(workspace, "train-env").version == "2"
    assert Environment.get(workspace, "Train-Env", version="1").python.conda_dependencies.pip_packages == [
        "joblib>=1.3"
    ]
    assert Environment.get(workspace, "train-env", version=1).version == "1"  # numbers, too
    assert Environment.get(workspace, "train-env", label="good").version == "1"
    assert Environment.get(workspace, "train-env", label="Latest").version == "2"
    Environment.label(workspace, "train-env", "2", ["good"])
    assert Environment.get(workspace, "train-env", label="good").version == "2"
    assert Environment.get(workspace, "train-env", label="old").version == "1"
    assert made("train-env", "numpy").register(workspace).version == "2"  # labels are no content


def test_what_cannot_be_found_says_what_there_is(workspace: Workspace) -> None:
    made().register(workspace)

    with pytest.raises(UserErrorException, match="Both version and label"):
        Environment.get(workspace, "train-env", version="1", label="x")
    with pytest.raises(UserErrorException) as caught:
        Environment.get(workspace, "train-env", version="7")
    assert isinstance(caught.value, NotFound)
    assert "no version '7'" in caught.value.message and "Its versions: 1" in caught.value.message
    with pytest.raises(UserErrorException, match="no label 'x'"):
        Environment.get(workspace, "train-env", label="x")
    with pytest.raises(UserErrorException, match=r"Did you mean 'train-env'"):
        Environment.get(workspace, "train_env")
    with pytest.raises(UserErrorException, match=r"Did you mean .*'AzureML-sklearn-1\.5'"):
        Environment.get(workspace, "AzureML-skleran-1.5")
    with pytest.raises(UserErrorException, match="There is no environment 'none'"):
        Environment.label(workspace, "none", "1", ["x"])
    with pytest.raises(UserErrorException, match="'AzureML-Minimal' has no labels"):
        Environment.label(workspace, "AzureML-Minimal", "1", ["x"])
    with pytest.raises(UserErrorException, match="'AzureML-Minimal' has no labels"):
        Environment.get(workspace, "azureml-minimal", label="x")
    assert Environment.get(workspace, "azureml-minimal", label="latest").version == "1"
    with pytest.raises(UserErrorException, match="'latest' always is the newest"):
        Environment.label(workspace, "train-env", "1", ["latest"])


def test_names_of_curated_environments_cannot_be_registered(workspace: Workspace) -> None:
    with pytest.raises(UserErrorException, match=r"env\.clone") as caught:
        Environment.get(workspace, "AzureML-Tutorial").register(workspace)
    assert isinstance(caught.value, InvalidArgument)
    with pytest.raises(UserErrorException, match="printable"):
        Environment("not\na name").register(workspace)


def test_a_registrys_password_is_not_kept(workspace: Workspace, caplog: pytest.LogCaptureFixture) -> None:
    environment = made()
    environment.docker.base_image_registry.password = "hidden-canary"
    with caplog.at_level(logging.WARNING):
        registered = environment.register(workspace)

    assert "password of docker.base_image_registry is not kept" in caplog.text
    assert registered.docker.base_image_registry.password == "hidden-canary"
    found = workspace._client.assets.get(workspace.name, "environment", "train-env")
    assert "hidden-canary" not in str(found) and "***" not in str(found.document)
    assert Environment.get(workspace, "train-env").docker.base_image_registry.password is None


def test_lists_hold_registered_and_curated_ones(workspace: Workspace) -> None:
    made().register(workspace)
    made("train-env", "numpy").register(workspace)
    found = Environment.list(workspace)

    assert found["train-env"].version == "2"
    assert set(found) == {"train-env", *list_curated()}
    assert list(workspace.environments) == list(found)
    workspace._client.assets.put(workspace.name, "environment", "odd", {"definition": [1]})
    assert Environment.list(workspace)["odd"].version == "1"
    assert workspace.environments()["train-env"].version == "2"


@pytest.mark.parametrize(
    ("name", "known", "package"),
    [
        ("AzureML-Minimal", "AzureML-Minimal", "azureml-defaults"),
        ("azureml-minimal", "AzureML-Minimal", "azureml-defaults"),
        ("AzureML-TensorFlow-1.13-GPU", "AzureML-TensorFlow-1.13-GPU", "tensorflow==1.13.*"),
        ("azureml-acpt-pytorch-2.2-cuda12.1", "AzureML-acpt-pytorch-2.2-cuda12.1", "torch==2.2.2"),
        ("AzureML-ACPT-pytorch-1.13-py38-cuda11.7-gpu", "AzureML-ACPT-pytorch-1.13-py38-cuda11.7-gpu", "transformers"),
        ("azureml-sklearn-1.5", "AzureML-sklearn-1.5", "scikit-learn==1.5.2"),
        ("AzureML-BERT", "AzureML-BERT", "transformers"),
    ],
)
def test_curated_environments_are_found_in_any_spelling_and_version(
    workspace: Workspace, name: str, known: str, package: str
) -> None:
    found = Environment.get(workspace, name, version="37")

    assert (found.name, found.version) == (known, "37")
    assert package in found.python.conda_dependencies.pip_packages
    assert Environment.get(workspace, name).version == "1"


def test_taking_a_curated_environment_says_what_it_is(
    workspace: Workspace, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "_SAID", set())
    with caplog.at_level(logging.WARNING):
        Environment.get(workspace, "AzureML-TensorFlow-2.0-GPU")

    assert (
        "packages here on Python 3.6: matplotlib, numpy<1.24, pandas, protobuf<3.21, tensorboard, "
        "tensorflow==2.0.*." in caplog.text
    )
    assert "the nearest one is taken" in caplog.text and "Whether they use a GPU" in caplog.text


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("AzureML-PySpark-MmlSpark-0.15", "starts no Spark"),
        ("azureml-automl-dnn-gpu", "Automated ML"),
    ],
)
def test_curated_environments_that_cannot_be_had_say_why(workspace: Workspace, name: str, why: str) -> None:
    with pytest.raises(UserErrorException, match=why):
        Environment.get(workspace, name)


def test_a_run_knows_the_name_and_version_of_a_registered_environment(
    workspace: Workspace, submit: Callable[..., Run]
) -> None:
    environment = Environment("train-env")
    environment.python.conda_dependencies = CondaDependencies.create(pip_indexurl="https://me:canary-9@i/simple")
    environment.docker.base_image_registry.password = "canary-8"
    environment.environment_variables = {"MESSAGE": "hello"}
    registered = environment.register(workspace)
    run = submit("import os; print(os.environ['MESSAGE'])", environment=registered)
    run.wait_for_completion()
    used = run.get_environment()

    assert (used.name, used.version) == ("train-env", "1")
    assert used.environment_variables == {"MESSAGE": "hello"}
    assert used.packages["pytest"] == pytest.__version__ and used.lock_file is None
    definition = run.get_details()["runDefinition"]["environment"]
    assert (definition["name"], definition["version"]) == ("train-env", "1")
    assert definition["python"]["condaDependencies"]["dependencies"][1]["pip"] == [
        "--index-url https://********@i/simple",
        "azureml-defaults",
    ]
    assert "canary" not in str(run.get_details()) + repr(used)


def test_what_conda_and_pip_installed_comes_back_under_its_own_list() -> None:
    spec = EnvironmentSpec("e", kind="conda", conda_packages=["numpy"], conda_channels=["c"], pip_packages=["joblib"])
    used = {
        "python": "3.9.1",
        "packages": {"numpy": "2.0", "Joblib": "1.5", "odd": ""},
        "conda": [{"name": "numpy", "version": "2.0"}, {"name": "python", "version": "3.9.1"}],
        "lock": "system_logs/requirements.lock.txt",
    }
    run = records.Run(
        "r", 1, "w", "x", "i", RunStatus.COMPLETED, datetime.now(timezone.utc), type="azureml.scriptrun",
        spec=RunSpec(environment=spec), environment=used,
    )  # fmt: skip
    found = environment_of(run)

    assert found.python.conda_dependencies.as_dict() == {
        "name": "project_environment",
        "dependencies": ["python=3.9.1", {"pip": ["Joblib==1.5"]}, "numpy=2.0"],
        "channels": ["c"],
    }
    assert found.lock_file == "system_logs/requirements.lock.txt" and found.python.user_managed_dependencies is False
    before = environment_of(replace(run, environment={}))
    assert before.python.conda_dependencies.conda_packages[1:] == ["numpy"] and before.packages == {}


def test_a_private_wheel_is_stored_once_and_has_an_address(workspace: Workspace, tmp_path: Path) -> None:
    wheel = tmp_path / "own-1.0-py3-none-any.whl"
    wheel.write_bytes(b"first")
    address = Environment.add_private_pip_wheel(workspace, str(wheel))
    wheel.write_bytes(b"second")

    assert address.startswith("file:///") and address.endswith("/own-1.0-py3-none-any.whl")
    assert Path(address[len("file://") :]).read_bytes() == b"first"
    assert Environment.add_private_pip_wheel(workspace, str(wheel), exist_ok=True) == address
    with pytest.raises(UserErrorException, match="exist_ok=True"):
        Environment.add_private_pip_wheel(workspace, str(wheel))
    with pytest.raises(UserErrorException, match="must be a wheel"):
        Environment.add_private_pip_wheel(workspace, str(tmp_path / "missing.whl"))
