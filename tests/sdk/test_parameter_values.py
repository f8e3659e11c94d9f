"""Every optional parameter of every call of the façade, by values: none is ignored in silence, a wrong one is told.

A call is made with its required arguments, and again with one parameter more. What comes of it must differ: the result,
what is said, or an error. Of a wrong value an error or a warning must come. `parameters/` has the calls and the values.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import azureml
from runyard.sdk.data.datastore import AzureBlobDatastore
from tests.sdk.parameters.calls import CALLS
from tests.sdk.parameters.outcomes import Outcome, outcome
from tests.sdk.parameters.values import ANY, UNSEEN, VALUES, Given
from tests.sdk.parameters.world import World
from tests.sdk.test_parameters_are_used import ALWAYS, WHOLE

SOURCE = str(Path(azureml.__file__).parent)
# Calls that need what is not here in seconds, or that another test makes: which one.
ELSEWHERE = {
    **dict.fromkeys(
        (
            "MNIST.get_file_dataset",
            "MNIST.get_tabular_dataset",
            "OjSalesSimulated.get_file_dataset",
            "OjSalesSimulated.get_tabular_dataset",
            "OpenDataset.get_file_dataset",
            "OpenDataset.get_tabular_dataset",
            "Diabetes.get_tabular_dataset",
        ),
        "test_opendatasets.py",
    ),
    **dict.fromkeys(
        (
            "HyperDriveRun.__init__",
            "HyperDriveRun.get_best_run_by_primary_metric",
            "HyperDriveRun.get_metrics",
            "HyperDriveRun.get_children_sorted_by_primary_metric",
        ),
        "test_hyperdrive.py",
    ),
    **dict.fromkeys(("Environment.build", "Environment.build_local"), "test_environment_build.py"),
    **dict.fromkeys(("AzureMLNotebookHandler.__init__", "NotebookRunConfig.__init__"), "test_notebook_config.py"),
    **dict.fromkeys(
        ("Model.package", "ModelPackage.__init__", "ModelPackage.wait_for_creation"),
        "serving/test_package.py",
    ),
    **dict.fromkeys(("Model.profile", "ModelProfile.wait_for_completion"), "serving/test_profile.py"),
    **dict.fromkeys(
        (
            "AciWebservice.deploy_configuration",
            "AksWebservice.deploy_configuration",
            "AksEndpoint.deploy_configuration",
            "LocalWebservice.deploy_configuration",
            "AksCompute.attach_configuration",
            "AksCompute.provisioning_configuration",
        ),
        "serving/test_configurations.py",
    ),
    **dict.fromkeys(
        ("AksEndpoint.create_version", "AksEndpoint.update", "AksEndpoint.update_version"), "serving/test_endpoints.py"
    ),
    **dict.fromkeys(
        (
            "ContainerImage.image_configuration",
            "Image.list",
            "Image.wait_for_creation",
            "Webservice.check_for_existing_webservice",
            "Webservice.deploy",
            "Webservice.deploy_from_image",
            "Webservice.deploy_from_model",
        ),
        "serving/test_images.py",
    ),
    **dict.fromkeys(
        (
            "LocalWebservice.delete",
            "LocalWebservice.deploy_to_cloud",
            "LocalWebservice.get_logs",
            "LocalWebservice.list",
            "LocalWebservice.regen_key",
            "LocalWebservice.reload",
            "LocalWebservice.update",
            "LocalWebservice.update_deployment_state",
            "LocalWebservice.wait_for_deployment",
            "Webservice.deploy_local_from_model",
        ),
        "serving/test_local_services.py",
    ),
    **dict.fromkeys(
        (
            "AciWebservice.update",
            "AksWebservice.update",
            "Model.deploy",
            "Webservice.get_logs",
            "Webservice.list",
            "Webservice.regen_key",
            "Webservice.wait_for_deployment",
        ),
        "serving/test_cloud_services.py",
    ),
    "InferenceConfig.__init__": "serving/test_inference_config.py",
    "Environment.add_private_pip_wheel": "test_environment_sources.py",
    "Environment.from_project": "test_project_files.py",
    "get_mlflow_tracking_uri_v2": "../azureml/test_libraries.py",
    "register_model": "../mlflow/test_plugin.py",
    **dict.fromkeys(("Tensorboard.start", "RunWatcher.__init__"), "../azureml/test_libraries.py"),
    **dict.fromkeys(("TabularDataset.download", "TabularDataset.mount"), "test_tabular_datasets.py"),
    "DockerBuildContext.from_local_directory": "test_environment_sources.py",
    "SealedConfig.read_plain": "test_configuration_files.py",
    "CondaDependencies.save": "test_environments.py",
    **dict.fromkeys(("TabularDataset.as_mount", "TabularDataset.as_download"), "test_tabular_datasets.py"),
}


def facade() -> dict[str, Callable[..., Any]]:
    """Return each public function and method that a name of `azureml` leads to, by the class that has it."""
    found: dict[str, Callable[..., Any]] = {}
    for module in pkgutil.walk_packages([SOURCE], "azureml."):
        loaded = importlib.import_module(module.name)
        for name in getattr(loaded, "__all__", ()):
            value = getattr(loaded, name)
            if inspect.isfunction(value):
                found.setdefault(name, value)
            elif inspect.isclass(value) and type(value).__name__ != "_Refusing":
                found.update(methods(value))
    found.update(methods(AzureBlobDatastore))  # at Microsoft's path, which no file of ours has
    return found


def methods(cls: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for base in cls.__mro__:
        if base.__module__.startswith(("runyard.sdk", "azureml")):
            for name, member in vars(base).items():
                function = getattr(member, "__func__", member)
                if inspect.isfunction(function) and (not name.startswith("_") or name == "__init__"):
                    shown = base if name == "__init__" and "__signature__" in vars(base) else function
                    yield f"{base.__name__}.{name}", shown
            if "__signature__" in vars(base):
                yield f"{base.__name__}.__init__", base


def optional(function: Callable[..., Any]) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(function).parameters.values()
    return [one.name for one in parameters if one.kind in kinds and one.default is not one.empty and one.name[0] != "_"]


PARAMETERS = {name: optional(function) for name, function in sorted(facade().items()) if optional(function)}


def value_of(call: str, parameter: str) -> tuple[Any, Any] | Given | None:
    return VALUES.get(f"{call}({parameter})") or VALUES.get(parameter)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("fuzz")
    before = os.getcwd()
    os.chdir(folder)
    made = World(folder)
    yield made
    made.close()
    os.chdir(before)


def test_every_call_and_parameter_has_an_entry() -> None:
    kept = [name for name in PARAMETERS if not name.startswith("_OfflineRun.")]  # which prints, and keeps nothing
    calls = [name for name in kept if name not in CALLS and name not in ELSEWHERE]
    values = [f"{call}({one})" for call in CALLS for one in PARAMETERS.get(call, ()) if value_of(call, one) is None]

    assert (calls, values) == ([], [])
    assert [name for name in (*CALLS, *ELSEWHERE) if name not in PARAMETERS] == []


@pytest.mark.parametrize("call", [name for name in CALLS if name in PARAMETERS])
def test_no_value_is_ignored_in_silence(world: World, call: str) -> None:
    silent, taken = [], []
    plain = made(world, call, {})
    for name in PARAMETERS[call]:
        entry = value_of(call, name)
        assert entry is not None
        beside = entry.beside if isinstance(entry, Given) else None
        before = made(world, call, beside(world)) if beside else plain
        if name in ALWAYS or f"{call}({name})" in UNSEEN or {call, call.rpartition(".")[2]} & WHOLE:
            continue
        valid = entry[0](world) if inspect.isfunction(entry[0]) else entry[0]
        if made(world, call, {**(beside(world) if beside else {}), name: valid}) == before:
            silent.append(name)
        if entry[1] is not ANY:
            came = made(world, call, {**(beside(world) if beside else {}), name: entry[1]})
            if not came.is_told or came[:2] == before[:2]:
                taken.append(name)

    problems = {"nothing comes of": silent, "a wrong value is taken for": taken}
    assert not (silent or taken), "; ".join(f"{what} {', '.join(names)}" for what, names in problems.items() if names)


def made(world: World, call: str, more: dict[str, Any]) -> Outcome:
    function, required, *look = CALLS[call](world)
    return outcome(lambda: function(**{**required, **more}), look[0] if look else None)  # type: ignore[arg-type]  # a look
