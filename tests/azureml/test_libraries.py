"""What libraries around the SDK (hi-ml, ray-on-aml, FLAML) lean on beyond the documented names."""

from __future__ import annotations

import threading
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from azureml._run_impl.run_watcher import RunWatcher
from azureml.core import Dataset, Environment, Experiment, ScriptRunConfig, Workspace
from azureml.data import OutputFileDatasetConfig
from azureml.exceptions import UserErrorException
from azureml.mlflow import get_mlflow_tracking_uri_v2
from azureml.tensorboard import Tensorboard
from azureml.train.hyperdrive import GridParameterSampling, HyperDriveConfig, PrimaryMetricGoal, choice
from runyard.sdk.environments.plan import names_image


def test_a_sweep_tells_its_metric_in_azures_private_form() -> None:
    config = HyperDriveConfig(
        run_config=ScriptRunConfig(".", "train.py"),
        hyperparameter_sampling=GridParameterSampling({"split": choice(0, 1)}),
        primary_metric_name="val/acc",
        primary_metric_goal=PrimaryMetricGoal.MINIMIZE,
        max_total_runs=2,
    )

    assert config._primary_metric_config == {"name": "val/acc", "goal": "minimize"}
    assert config._max_total_runs == 2


@pytest.mark.parametrize(
    ("image", "is_named"),
    [
        ("mcr.microsoft.com/azureml/openmpi3.1.2-ubuntu18.04:20210513.v1", False),
        ("mcr.microsoft.com/azureml/openmpi4.1.0-cuda11.1-cudnn8-ubuntu20.04", False),
        ("mcr.microsoft.com/azureml/base:intelmpi2018.3-ubuntu16.04", False),
        ("azureml/intelmpi2018.3-ubuntu18.04:latest", False),
        ("mcr.microsoft.com/azureml/curated/sklearn-1.5:1", True),
        ("mcr.microsoft.com/azureml/minimal-ubuntu18.04-py37-cpu-inference", True),
        ("example.org/azureml/openmpi4.1.0-ubuntu22.04", True),
        ("ubuntu:22.04", True),
    ],
)
def test_base_images_of_azure_need_no_container(image: str, is_named: bool) -> None:
    environment = Environment("e")
    environment.docker.base_image = image

    assert names_image(environment) is is_named


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.chdir(tmp_path)
    return Workspace.from_config()


def test_messages_that_libraries_match(workspace: Workspace) -> None:
    with pytest.raises(UserErrorException, match='Cannot find dataset registered with name "nowhere" and version 3'):
        Dataset.get_by_name(workspace, "nowhere", version=3)
    with pytest.raises(UserErrorException, match=r"workspace configuration file config\.json, could not be found"):
        Workspace.from_config(path="does_not_exist")


def test_an_output_reads_back_as_it_was_given(workspace: Workspace) -> None:
    store = workspace.get_default_datastore()
    output = OutputFileDatasetConfig(name="o", destination=(store, "made/{output-name}/"))

    assert output.destination == (store, "made/{output-name}/")
    assert output._spec().path == "made/o"


@pytest.mark.long
def test_a_watcher_copies_a_folder_of_a_run_until_it_ends(workspace: Workspace, tmp_path: Path) -> None:
    run = Experiment(workspace, "watched").start_logging()
    for name in ("outputs/events.out.tfevents.1", "outputs/deep/a.txt", "logs/b.txt"):
        (tmp_path / "source").write_text(name)
        run.upload_file(name, str(tmp_path / "source"))
    run.complete()
    RunWatcher(
        run, local_root=str(tmp_path / "copy"), remote_root="outputs/", event=threading.Event()
    ).refresh_requeue()

    copied = sorted(str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*.*"))
    assert copied == ["deep/a.txt", "events.out.tfevents.1"]


def test_a_subclass_may_start_tensorboard_in_its_own_way() -> None:
    class Other(Tensorboard):
        def start(self, start_browser: bool = False) -> Any:
            if self._tb_proc is not None:
                return None
            return self._runs, self._local_root, self._port

    run: Any = type("Run", (), {"id": "r"})

    assert Other([run], local_root="below/here", port=7007).start() == ([run], "below/here", 7007)


@pytest.mark.parametrize(
    ("module", "name", "home"),
    [
        ("azureml.core.run", "RunStatus", "azureml._restclient.constants"),  # NNI
        ("azureml.core.workspace", "ComputeTarget", "azureml.core.compute"),
        ("azureml.core.script_run_config", "MpiConfiguration", "azureml.core.runconfig"),
        ("azureml.core.compute.amlcompute", "ComputeTargetException", "azureml.exceptions"),
        ("azureml.data.dataset_factory", "DataPath", "azureml.data.datapath"),
    ],
)
def test_names_are_also_where_microsofts_modules_import_them(module: str, name: str, home: str) -> None:
    assert getattr(import_module(module), name) is getattr(import_module(home), name)


def test_a_workspace_of_the_second_sdk_keeps_its_own_address() -> None:
    class OfSdk2:
        ml_flow_tracking_uri = "azureml://westeurope.api.azureml.ms/mlflow/v1.0/subscriptions/0/workspaces/w"

    second = "azureml://westeurope.api.azureml.ms/mlflow/v2.0/subscriptions/0/workspaces/w"
    assert get_mlflow_tracking_uri_v2(OfSdk2()) == get_mlflow_tracking_uri_v2(OfSdk2(), "context") == second
