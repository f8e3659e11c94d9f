"""Estimators: every parameter, rule and spelling becomes the right run configuration, or is refused with words."""

from __future__ import annotations

import inspect
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from azureml.train.hyperdrive import HyperDriveConfig, PrimaryMetricGoal, RandomParameterSampling, choice
from runyard.core.specs import DataReferenceSpec, DistributionSpec, RunSpec
from runyard.sdk.config import texts
from runyard.sdk.data.datastore import Datastore
from runyard.sdk.data.inputs import DataPath
from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import ContainerRegistry, Environment
from runyard.sdk.estimators import environment
from runyard.sdk.estimators.estimator import Chainer, Estimator, PyTorch, SKLearn, TensorFlow
from runyard.sdk.exceptions import TrainingException, UserErrorException
from runyard.sdk.run_config.distribution import Gloo, Mpi, Nccl, ParameterServer
from runyard.sdk.run_config.run_configuration import MpiConfiguration, TensorflowConfiguration
from runyard.sdk.submit.submission import plan_submission

STORE = Datastore._known(None, "workspaceblobstore", {"type": "folder", "path": "/data"})  # type: ignore[arg-type]
FRAMEWORKS = [TensorFlow, PyTorch, SKLearn, Chainer]
OWN = "{}.{}".format(*sys.version_info[:2])


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(texts, "_SAID", set())
    (tmp_path / "train.py").write_text("print('hello')")
    return tmp_path


def make(cls: Any = Estimator, **parameters: Any) -> Any:
    return cls(source_directory=".", **{"compute_target": "local", "entry_script": "train.py", **parameters})


def plan(estimator: Any, **options: Any) -> RunSpec:
    return plan_submission(estimator, options or None).spec


def pip(estimator: Any) -> list[str]:
    return list(estimator.conda_dependencies.pip_packages)


def test_the_single_node_snippet_becomes_a_plan() -> None:
    estimator = TensorFlow(
        source_directory=".",
        script_params={"--batch-size": 50, "--learning-rate": 0.01},
        compute_target="local",
        entry_script="train.py",
        conda_packages=["scikit-learn"],
        use_gpu=True,
    )
    spec = plan(estimator)

    assert (spec.script, spec.arguments) == ("train.py", ["--batch-size", "50", "--learning-rate", "0.01"])
    assert spec.distribution == DistributionSpec() and spec.gpus == 1
    assert spec.environment.conda_packages == ["scikit-learn"]
    assert any(line.startswith("tensorflow") for line in spec.environment.pip_packages)
    assert "horovod" not in " ".join(spec.environment.pip_packages)


def test_the_horovod_snippet_becomes_a_plan() -> None:
    estimator = TensorFlow(
        source_directory=".",
        script_params={},
        compute_target="local",
        entry_script="train.py",
        node_count=2,
        process_count_per_node=1,
        distributed_backend="mpi",
        use_gpu=True,
    )
    spec = plan(estimator)

    assert spec.distribution == DistributionSpec("mpi", 2, 1)
    assert (spec.communicator, spec.framework, spec.gpus) == ("IntelMpi", "Python", 1)
    assert "horovod==0.28.1" in spec.environment.pip_packages
    assert any(line.endswith("==2.15.1") for line in spec.environment.pip_packages)


def test_the_parameter_server_snippet_becomes_a_plan() -> None:
    estimator = TensorFlow(
        source_directory=".",
        script_params={},
        compute_target="local",
        entry_script="train.py",
        node_count=2,
        worker_count=2,
        parameter_server_count=1,
        distributed_backend="ps",
        use_gpu=True,
    )
    spec = plan(estimator)

    assert (spec.communicator, spec.framework) == ("ParameterServer", "TensorFlow")
    assert (spec.distribution.kind, spec.distribution.node_count) == ("tensorflow", 2)
    assert spec.distribution.options == {"worker_count": 2, "parameter_server_count": 1}
    assert "horovod==0.28.1" not in spec.environment.pip_packages


def test_the_pytorch_snippet_becomes_a_plan() -> None:
    estimator = PyTorch(
        source_directory=".",
        script_params={"--data_dir": STORE},
        compute_target="local",
        entry_script="train.py",
        use_gpu=True,
    )
    spec = plan(estimator)

    assert spec.arguments == ["--data_dir", "$AZUREML_DATAREFERENCE_workspaceblobstore"]
    assert spec.data_references == {"workspaceblobstore": DataReferenceSpec("workspaceblobstore")}
    assert spec.variables["NCCL_TREE_THRESHOLD"] == "0"


@pytest.mark.parametrize(
    ("params", "arguments"),
    [
        ({"--my_bool_var": ""}, ["--my_bool_var"]),
        ({"--flag": None, "--n": 1}, ["--flag", "--n", "1"]),
        ({"--layers": [64, 32], "--x": "y"}, ["--layers", "64", "32", "--x", "y"]),
        ({"--zero": 0, "--no": False}, ["--zero", "0", "--no", "False"]),
        ({}, []),
        (None, []),
    ],
)
def test_script_params_are_flattened_in_their_order(params: Any, arguments: list[str]) -> None:
    assert plan(make(script_params=params)).arguments == arguments


def test_data_goes_into_script_params_and_inputs() -> None:
    estimator = make(
        script_params={"--a": STORE.path("a", "a").as_download(), "--both": [STORE.path("b", "b"), 3]},
        inputs=[STORE.path("c", "c").as_mount()],
    )
    spec = plan(estimator)

    assert spec.arguments == ["--a", "$AZUREML_DATAREFERENCE_a", "--both", "$AZUREML_DATAREFERENCE_b", "3"]
    assert {name: one.mode for name, one in spec.data_references.items()} == {
        "a": "download",
        "b": "mount",
        "c": "mount",
    }


def test_submit_takes_params_and_inputs_that_win() -> None:
    estimator = make(script_params={"--a": 1, "--b": 2})
    spec = plan(estimator, script_params={"--b": 3, "--c": ""}, inputs=[STORE.path("x", "x")])

    assert spec.arguments == ["--a", "1", "--b", "3", "--c"] and list(spec.data_references) == ["x"]
    assert plan(estimator).arguments == ["--a", "1", "--b", "2"]
    stored = plan(estimator, source_directory_data_store=STORE).definition
    assert stored["sourceDirectoryDataStore"] == "workspaceblobstore"
    with pytest.raises(UserErrorException, match=r"does not know node_count.*script_params"):
        plan(estimator, node_count=2)


@pytest.mark.parametrize(
    ("parameters", "framework", "communicator", "distribution"),
    [
        ({"distributed_backend": "mpi"}, "Python", "IntelMpi", ("mpi", 2, 3)),
        ({"distributed_training": Mpi(process_count_per_node=3)}, "Python", "Mpi", ("mpi", 2, 3)),
        ({"distributed_training": MpiConfiguration(3, 2)}, "Python", "IntelMpi", ("mpi", 2, 3)),
        ({"distributed_backend": "gloo"}, "PyTorch", "gloo", ("pytorch", 2, 3)),
        ({"distributed_backend": "nccl"}, "PyTorch", "nccl", ("pytorch", 2, 3)),
        ({"distributed_training": Gloo()}, "pytorch", "Gloo", ("pytorch", 2, 3)),
        ({"distributed_training": Nccl()}, "pytorch", "Nccl", ("pytorch", 2, 3)),
    ],
)
def test_backends_have_azures_words(
    parameters: dict[str, Any], framework: str, communicator: str, distribution: tuple[str, int, int]
) -> None:
    estimator = make(PyTorch, node_count=2, process_count_per_node=3, **parameters)
    spec = plan(estimator)

    assert (estimator.run_config.framework, estimator.run_config.communicator) == (framework, communicator)
    found = spec.distribution
    assert (found.kind, found.node_count, found.processes_per_node) == distribution


@pytest.mark.parametrize(
    "training", [ParameterServer(worker_count=3, parameter_server_count=2), TensorflowConfiguration(3, 2)]
)
def test_parameter_servers_may_be_given_as_an_object(training: Any) -> None:
    estimator = make(TensorFlow, node_count=3, distributed_training=training)

    assert (estimator.run_config.framework, estimator.run_config.communicator) == ("tensorflow", "ParameterServer")
    assert plan(estimator).distribution.options == {"worker_count": 3, "parameter_server_count": 2}


@pytest.mark.parametrize(
    ("cls", "parameters", "message"),
    [
        (Estimator, {"compute_target": None}, "Neither compute_target nor vm_size"),
        (Estimator, {"node_count": 2}, r"node_count=2 without a distributed_backend[\s\S]*'mpi'"),
        (PyTorch, {"process_count_per_node": 2}, r"process_count_per_node=2 without[\s\S]*'mpi', 'gloo', 'nccl'"),
        (TensorFlow, {"worker_count": 2}, r"worker_count=2 without[\s\S]*'mpi', 'ps'"),
        (Estimator, {"distributed_backend": "ps"}, r"does not know the distributed_backend 'ps'[\s\S]*'mpi'"),
        (TensorFlow, {"distributed_backend": "gloo"}, r"'gloo'[\s\S]*'mpi', 'ps'"),
        (TensorFlow, {"distributed_training": Gloo()}, r"a Gloo as[\s\S]*Mpi, MpiConfiguration, ParameterServer"),
        (PyTorch, {"distributed_training": "mpi"}, "does not take a str"),
        (PyTorch, {"distributed_training": Mpi(), "distributed_backend": "mpi"}, "cannot go together"),
        (Estimator, {"node_count": 0}, "node_count is 0"),
        (Estimator, {"process_count_per_node": -1}, "process_count_per_node is -1"),
        (Estimator, {"node_count": "2"}, "whole number"),
        (TensorFlow, {"worker_count": 0}, "worker_count is 0"),
        (TensorFlow, {"parameter_server_count": -1}, "parameter_server_count is -1"),
        (Estimator, {"environment_definition": Environment("x"), "pip_packages": ["a"]}, "pip_packages cannot go"),
        (TensorFlow, {"environment_definition": Environment("x"), "use_gpu": True}, "use_gpu cannot go together"),
        (Estimator, {"environment_definition": Environment("x"), "custom_docker_image": "i"}, "custom_docker_image"),
        (Estimator, {"environment_definition": "x"}, "must be an Environment, found str"),
        (Estimator, {"conda_dependencies_file": "e.yml", "conda_packages": ["a"]}, "conda_packages cannot go"),
        (Estimator, {"conda_dependencies_file": "e.yml", "pip_requirements_file": "r"}, "pip_requirements_file"),
        (Estimator, {"use_docker": False, "custom_docker_image": "i"}, "An image is used in a container only"),
        (Estimator, {"custom_docker_image": "i", "image_registry_details": "r"}, "must be a ContainerRegistry"),
        (Estimator, {"script_params": ["--a", 1]}, "script_params is a list"),
        (Estimator, {"inputs": STORE}, "inputs is no list: it is of type AzureBlobDatastore"),
        (Estimator, {"inputs": ["data"]}, "inputs holds a str"),
        (Estimator, {"pip_packages": "numpy"}, "must be a list"),
        (Estimator, {"entry_script": "train.ipynb"}, "is a notebook"),
        (TensorFlow, {"framework_version": "9.9"}, r"'9.9' is not among[\s\S]*1\.10, 1\.12, 1\.13, 2\.0"),
    ],
)
def test_a_rule_that_is_broken_is_told(cls: Any, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainingException, match=message):
        make(cls, **parameters)


def test_packages_beside_a_python_of_ones_own_are_a_users_error() -> None:
    with pytest.raises(UserErrorException, match=r"user_managed=True and pip_packages cannot go together"):
        make(user_managed=True, pip_packages=["numpy"])


@pytest.mark.parametrize(
    ("cls", "parameters", "message"),
    [
        (SKLearn, {"use_gpu": True}, "unexpected keyword argument 'use_gpu'"),
        (SKLearn, {"source_directory_data_store": "x"}, "source_directory_data_store"),
        (Estimator, {"nodes": 2}, "'nodes'"),
        (Estimator, {"pip_package": []}, "Did you mean `pip_packages`"),
        (Estimator, {"conda_dependencies_file": "a", "conda_dependencies_file_path": "b"}, "both"),
    ],
)
def test_a_parameter_that_is_not_there_is_named(cls: Any, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make(cls, **parameters)


def test_the_signature_shows_every_parameter() -> None:
    shown = inspect.signature(TensorFlow).parameters

    assert next(iter(shown)) == "source_directory"
    assert {"worker_count", "distributed_training", "framework_version", "shm_size", "resume_from"} <= set(shown)
    assert (shown["node_count"].default, shown["use_docker"].default, shown["use_gpu"].default) == (1, True, False)
    assert "use_gpu" not in inspect.signature(SKLearn).parameters


def test_packages_come_from_lists_and_files_in_both_spellings(project: Path) -> None:
    (project / "requirements.txt").write_text("joblib==1.3\n")
    (project / "environment.yml").write_text("dependencies: [python=3.10, scipy, {pip: [rich]}]\n")
    listed = make(pip_packages=["rich"], conda_packages=["scipy"])
    by_file = make(pip_requirements_file_path="requirements.txt", pip_packages=["rich"])
    by_conda_file = make(conda_dependencies_file_path="environment.yml")

    assert pip(listed) == ["azureml-defaults", "rich"] and "scipy" in listed.conda_dependencies.conda_packages
    assert pip(by_file) == ["azureml-defaults", "joblib==1.3", "rich"]
    assert pip(by_conda_file) == ["rich"]
    assert by_conda_file.conda_dependencies.conda_packages == ["python=3.10", "scipy"]
    assert plan(listed).environment.kind == "conda"


def test_without_packages_an_estimator_runs_in_the_submitting_python() -> None:
    spec = plan(make())

    assert (spec.environment.kind, spec.environment.interpreter, spec.gpus) == ("system", sys.executable, 0)


def test_packages_may_be_edited_until_the_estimator_is_submitted() -> None:
    estimator = make(TensorFlow, conda_packages=["scikit-learn"])
    estimator.conda_dependencies.remove_conda_package("scikit-learn")
    estimator.conda_dependencies.add_conda_package("scipy")
    estimator.conda_dependencies.add_channel("mine")
    estimator.run_config.node_count = 1
    spec = plan(estimator)

    assert isinstance(estimator.conda_dependencies, CondaDependencies)
    assert spec.environment.conda_packages == ["scipy"] and "mine" in spec.environment.conda_channels


def test_a_given_environment_decides_alone() -> None:
    environment = Environment("mine")
    environment.python.conda_dependencies.add_pip_package("rich")
    for name in ("environment_definition", "environment"):
        estimator = make(TensorFlow, distributed_backend="mpi", **{name: environment})
        spec = plan(estimator)

        assert estimator.run_config.environment is environment
        assert spec.environment.pip_packages == ["azureml-defaults", "rich"] and spec.gpus is None


def test_a_python_of_ones_own_gets_no_framework() -> None:
    spec = plan(make(PyTorch, user_managed=True))

    assert (spec.environment.kind, spec.gpus) == ("system", None)
    assert not any("torch" in line for line in spec.environment.pip_packages)


def test_an_image_makes_a_container() -> None:
    registry = ContainerRegistry()
    registry.address = "registry.example"
    for name in ("custom_docker_image", "custom_docker_base_image"):
        estimator = make(user_managed=True, image_registry_details=registry, shm_size="8g", **{name: "me/image:1"})
        docker = estimator.run_config.environment.docker

        assert (docker.enabled, docker.base_image, docker.shm_size) == (True, "me/image:1", "8g")
        assert docker.base_image_registry.address == "registry.example"
        assert plan(estimator).environment.kind == "container"
    assert make().run_config.environment.docker.enabled is False


def test_other_parameters_reach_the_run() -> None:
    estimator = make(
        compute_target=None,
        vm_size="STANDARD_NC6",
        vm_priority="lowpriority",
        environment_variables={"A": 1},
        max_run_duration_seconds=60,
        resume_from=DataPath(STORE, "checkpoints"),
        source_directory_data_store="workspacefilestore",
    )
    config = estimator.run_config

    assert (config.target, config.amlcompute.vm_size) == ("amlcompute", "STANDARD_NC6")
    assert config.amlcompute.vm_priority == "lowpriority"
    assert config.source_directory_data_store == "workspacefilestore"
    config.target = "local"
    spec = plan(estimator)
    assert (spec.variables, spec.time_limit_s) == ({"A": "1"}, 60.0)
    assert spec.arguments == ["--resume-from", "$AZUREML_DATAREFERENCE_MODEL_LOCATION"]


@pytest.mark.parametrize("source", [None, ""])
def test_without_a_folder_the_current_one_is_the_source(source: Any, project: Path) -> None:
    estimator = Estimator(source, compute_target="local", entry_script="train.py")

    assert estimator.source_directory == "."
    assert plan_submission(estimator).source_directory == str(project)


def test_a_target_may_be_named_for_many_nodes() -> None:
    """Azure wants the object; a name is enough here."""
    estimator = make(node_count=4, distributed_backend="mpi")

    assert plan(estimator).distribution == DistributionSpec("mpi", 4, 1)


@pytest.mark.parametrize("cls", FRAMEWORKS)
def test_every_known_version_makes_an_environment(cls: Any) -> None:
    for version in cls.get_supported_versions():
        estimator = make(cls, framework_version=version)

        assert estimator.framework_version == version
        assert len(pip(estimator)) > 1


def test_azures_versions_are_all_known() -> None:
    assert {"1.10", "1.12", "1.13", "2.0", "2.1", "2.2", "2.3"} <= set(TensorFlow.get_supported_versions())
    assert {"1.0", "1.1", "1.2", "1.3", "1.4", "1.5", "1.6"} <= set(PyTorch.get_supported_versions())
    assert {"5.1.0", "7.0.0"} <= set(Chainer.get_supported_versions())
    assert "0.20.3" in SKLearn.get_supported_versions()


def test_a_version_that_cannot_be_had_is_replaced_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        make(TensorFlow, framework_version="1.13")
        make(TensorFlow, framework_version="1.13")
        make(TensorFlow, framework_version=TensorFlow.get_supported_versions()[-1])
        make(TensorFlow)

    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert told[0].startswith(f"TensorFlow 1.13 has no packages for Python {OWN}: TensorFlow 2.")


def test_the_python_that_is_asked_for_decides_on_the_version() -> None:
    old = make(TensorFlow, framework_version="2.3", conda_packages=["python=3.8"])
    newest = make(PyTorch, conda_packages=["python=3.9"])

    assert "tensorflow-cpu==2.3.4" in pip(old) and "protobuf<3.21" in pip(old)
    assert "torch==2.8.0" in pip(newest) and newest.framework_version == "2.8.0"
    with pytest.raises(TrainingException, match=r"TensorFlow with Horovod cannot be had on Python 3.13"):
        make(TensorFlow, distributed_backend="mpi", conda_packages=["python=3.13"])


def test_a_package_that_the_user_names_is_the_users() -> None:
    estimator = make(TensorFlow, pip_packages=["tensorflow==2.15.0"])
    other = make(PyTorch, distributed_backend="mpi", pip_packages=["torch==2.12.0", "tensorboard==2.20.0"])

    assert pip(estimator) == ["azureml-defaults", "tensorflow==2.15.0", "tensorboard"]
    assert "torch==2.12.0" in pip(other) and "torch==2.13.0" not in pip(other)
    assert "tensorboard" not in pip(other) and "horovod==0.28.1" in pip(other)


def test_a_release_for_gpus_is_chosen_where_there_are_some() -> None:
    gpu = environment.find_release("TensorFlow", None, python="3.11", gpu=True, horovod=False)
    cpu = environment.find_release("TensorFlow", None, python="3.11", gpu=False, horovod=False)
    torch = environment.find_release("PyTorch", None, python="3.11", gpu=True, horovod=False)

    assert gpu is not None and gpu.packages[0].startswith("tensorflow[and-cuda]==")
    assert cpu is not None and cpu.packages[0].startswith("tensorflow-cpu==") and cpu.exact == gpu.exact
    assert "tensorboard" in gpu.packages and "tensorboard" in cpu.packages  # TensorFlow 2.21 no longer brings it
    assert torch is not None and torch.packages[0] == "torch==2.13.0"
    assert environment.find_release("TensorFlow", None, python="3.99", gpu=False, horovod=False) is None


@pytest.mark.parametrize("cls", [Estimator, Chainer])
def test_horovod_is_for_tensorflow_and_pytorch_only(cls: Any) -> None:
    assert not any(line.startswith("horovod") for line in pip(make(cls, distributed_backend="mpi")))


def test_gpus_are_asked_for_one_for_each_process() -> None:
    assert plan(make(PyTorch, use_gpu=True, distributed_backend="mpi", process_count_per_node=4)).gpus == 4
    assert plan(make(PyTorch)).gpus == 0


def test_a_sweep_takes_an_estimator() -> None:
    estimator = make(PyTorch, script_params={"--a": 1})
    sweep = HyperDriveConfig(
        estimator=estimator,
        hyperparameter_sampling=RandomParameterSampling({"--lr": choice(0.1, 0.2)}),
        primary_metric_name="loss",
        primary_metric_goal=PrimaryMetricGoal.MINIMIZE,
        max_total_runs=2,
    )
    spec = plan(sweep)

    assert spec.sweep is not None and spec.arguments == ["--a", "1"]
    assert any(line.startswith("torch==") for line in spec.environment.pip_packages)
