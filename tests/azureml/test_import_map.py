"""Every import path of the SDK that people's scripts use resolves."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import pytest

from runyard.core.errors import NotYetSupported

HERE = {
    "azureml.core.image": "ContainerImage Image",
    "azureml.core.image.container": "ContainerImage ContainerImageConfig",
    "azureml.core.image.image": "Image",
    "azureml.core.compute.aks": "AksCompute",
    "azureml.core.webservice": "Webservice AciWebservice AksWebservice LocalWebservice AksEndpoint",
    "azureml.core.webservice.aci": "AciWebservice AciServiceDeploymentConfiguration",
    "azureml.core.webservice.aks": "AksWebservice AksEndpoint AksServiceDeploymentConfiguration",
    "azureml.core.webservice.local": "LocalWebservice LocalWebserviceDeploymentConfiguration",
    "azureml.core.webservice.webservice": "Webservice WebserviceDeploymentConfiguration",
    "azureml.core": "VERSION Workspace Experiment Run ScriptRunConfig ScriptRun RunConfiguration Environment "
    "ComputeTarget ContainerRegistry CondaDependencies Datastore get_run",
    "azureml.core.workspace": "Workspace",
    "azureml.core.experiment": "Experiment",
    "azureml.core.run": "Run get_run _OfflineRun",
    "azureml.core.script_run_config": "ScriptRunConfig",
    "azureml.core.script_run": "ScriptRun",
    "azureml.core.model": "Model",
    "azureml.core.keyvault": "Keyvault",
    "azureml.core.dataset": "Dataset",
    "azureml.data": "FileDataset OutputFileDatasetConfig TabularDataset DataType",
    "azureml.data.dataset_factory": "FileDatasetFactory TabularDatasetFactory DataType",
    "azureml.data.tabular_dataset": "TabularDataset",
    "azureml.data.dataset_type_definitions": "PromoteHeadersBehavior",
    "azureml._restclient.snapshots_client": "SNAPSHOT_MAX_SIZE_BYTES",
    "azureml.opendatasets": "MNIST Diabetes",
    "azureml.data.dataset_consumption_config": "DatasetConsumptionConfig",
    "azureml.data.file_dataset": "FileDataset",
    "azureml.data.output_dataset_config": "OutputFileDatasetConfig",
    "azureml.core.resource_configuration": "ResourceConfiguration",
    "azureml.core.runconfig": "RunConfiguration MpiConfiguration TensorflowConfiguration PyTorchConfiguration "
    "DockerConfiguration DataReferenceConfiguration CondaDependencies DEFAULT_CPU_IMAGE "
    "DEFAULT_GPU_IMAGE MPI_CPU_IMAGE "
    "MPI_GPU_IMAGE",
    "azureml.core.environment": "Environment CondaDependencies DEFAULT_CPU_IMAGE",
    "azureml.core.conda_dependencies": "CondaDependencies",
    "azureml.core.container_registry": "ContainerRegistry",
    "azureml.core.compute": "ComputeTarget AmlCompute ComputeInstance BatchAiCompute",
    "azureml.core.compute_target": "ComputeTarget ComputeTargetException",
    "azureml.core.authentication": "InteractiveLoginAuthentication AzureCliAuthentication "
    "ServicePrincipalAuthentication "
    "MsiAuthentication TokenAuthentication Audience",
    "azureml.core.datastore": "Datastore",
    "azureml.data.data_reference": "DataReference",
    "azureml.data.datapath": "DataPath DataPathComputeBinding",
    "azureml.train.estimator": "Estimator",
    "azureml.train.dnn": "TensorFlow PyTorch Chainer Mpi ParameterServer Gloo Nccl",
    "azureml.train.sklearn": "SKLearn",
    "azureml.exceptions": "AzureMLException UserErrorException AuthenticationException ComputeTargetException "
    "ActivityFailedException ExperimentExecutionException RunEnvironmentException SnapshotException TrainingException "
    "RunConfigurationException WebserviceException ModelNotFoundException ModelPathNotFoundException "
    "ProjectSystemException WorkspaceException DiscoveryUrlNotFoundException "
    "DatasetTimestampMissingError ServiceException",
    "azureml.train.hyperdrive.exceptions": "HyperDriveException HyperDriveServiceException HyperDriveConfigException "
    "HyperDriveScenarioNotSupportedException HyperDriveNotImplementedException HyperDriveRehydrateException",
    "azureml.telemetry": "set_diagnostics_collection",
    "azureml.widgets": "RunDetails",
    "azureml.train.widgets": "RunDetails",
    "azureml.tensorboard": "Tensorboard",
    "azureml.tensorboard.export": "export_to_tensorboard",
    "azureml.contrib.tensorboard": "Tensorboard",
    "azureml.contrib.tensorboard.export": "export_to_tensorboard",
    "azureml.mlflow": "get_mlflow_tracking_uri get_mlflow_tracking_uri_v2 get_portal_url register_model",
    "azureml.train.hyperdrive": "HyperDriveConfig HyperDriveRunConfig RandomParameterSampling GridParameterSampling "
    "BayesianParameterSampling PrimaryMetricGoal HyperDriveRun BanditPolicy MedianStoppingPolicy NoTerminationPolicy "
    "TruncationSelectionPolicy choice uniform loguniform normal lognormal quniform qloguniform "
    "qnormal qlognormal randint",
    "azureml.train.hyperdrive.runconfig": "HyperDriveConfig HyperDriveRunConfig",
    "azureml.train.hyperdrive.sampling": "RandomParameterSampling GridParameterSampling BayesianParameterSampling",
    "azureml.train.hyperdrive.run": "PrimaryMetricGoal HyperDriveRun",
    "azureml.train.hyperdrive.policy": "BanditPolicy MedianStoppingPolicy NoTerminationPolicy "
    "TruncationSelectionPolicy",
    "azureml.train.hyperdrive.parameter_expressions": "choice uniform loguniform",
}
LATER = {
    "azureml.core.compute": "KubernetesCompute",
}


def pairs(table: dict[str, str]) -> list[tuple[str, str]]:
    return [(module, name) for module, names in table.items() for name in names.split()]


@pytest.mark.parametrize("module", sorted({*HERE, *LATER}))
def test_every_module_imports(module: str) -> None:
    assert importlib.import_module(module).__name__ == module


@pytest.mark.parametrize(("module", "name"), pairs(HERE))
def test_what_is_there_is_real(module: str, name: str) -> None:
    found: Any = getattr(importlib.import_module(module), name)

    assert "not in this version" not in repr(found)


@pytest.mark.parametrize(("module", "name"), pairs(LATER))
def test_what_comes_later_imports_and_is_refused_on_use(module: str, name: str) -> None:
    found: Any = getattr(importlib.import_module(module), name)

    assert isinstance(found, type) and not isinstance(3, found)
    with pytest.raises(NotYetSupported, match=rf"{name}.* is not there yet"):
        found()
    with pytest.raises(NotYetSupported, match=rf"{name}\.ANYTHING.* is not there yet"):
        _ = found.ANYTHING


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("azureml.core:Model", "azureml.core.model:Model"),
        ("azureml.core:Run", "azureml.core.run:Run"),
        ("azureml.core.compute_target:ComputeTargetException", "azureml.exceptions:ComputeTargetException"),
        ("azureml.train.hyperdrive:choice", "azureml.train.hyperdrive.parameter_expressions:choice"),
        ("azureml.widgets:RunDetails", "azureml.train.widgets:RunDetails"),
        ("azureml.core:Workspace", "runyard:Workspace"),
    ],
)
def test_a_name_is_one_object_wherever_it_is_imported_from(one: str, other: str) -> None:
    def load(text: str) -> Any:
        module, _, name = text.partition(":")
        return getattr(importlib.import_module(module), name)

    assert load(one) is load(other)


def test_the_version_is_a_text_and_unknown_names_are_attribute_errors() -> None:
    core: Any = importlib.import_module("azureml.core")

    assert isinstance(core.VERSION, str) and core.VERSION.split(".")[0] == "1"
    assert set(core.__all__) <= set(dir(core))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = core.Nothing


def test_the_version_is_found_after_importing_azureml_alone() -> None:
    code = "import azureml; print(azureml.core.VERSION, hasattr(azureml, 'nothing'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "1.61.0 False\n"


HYPERDRIVE = "azureml.train.hyperdrive.exceptions"


@pytest.mark.parametrize(
    ("module", "name", "base"),
    [
        *(("azureml.exceptions", name, "AzureMLException") for name in HERE["azureml.exceptions"].split()),
        ("azureml.exceptions", "AuthenticationException", "UserErrorException"),
        (HYPERDRIVE, "HyperDriveServiceException", "HyperDriveException"),
        (HYPERDRIVE, "HyperDriveConfigException", "HyperDriveException"),
        (HYPERDRIVE, "HyperDriveScenarioNotSupportedException", "HyperDriveConfigException"),
        (HYPERDRIVE, "HyperDriveNotImplementedException", "HyperDriveScenarioNotSupportedException"),
        (HYPERDRIVE, "HyperDriveRehydrateException", "HyperDriveException"),
    ],
)
def test_exceptions_stand_below_the_base_that_azure_gives_them(module: str, name: str, base: str) -> None:
    place: Any = importlib.import_module(module)
    error: Any = importlib.import_module("azureml.exceptions")

    assert issubclass(getattr(place, name), getattr(place, base))
    assert issubclass(getattr(place, name), error.AzureMLException)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("AzureMLException", ("text",), "text"),
        ("UserErrorException", ("text",), "text"),
        ("WebserviceException", ("text", 404), "text"),
        ("ActivityFailedException", ('{"error": 1}',), 'Activity Failed:\n{"error": 1}'),
        ("SnapshotException", ("text",), "text"),
    ],
)
def test_an_exceptions_text_is_its_message(name: str, arguments: tuple[Any, ...], message: str) -> None:
    error = getattr(importlib.import_module("azureml.exceptions"), name)(*arguments)

    assert error.message == str(error) == message


def test_what_2018_scripts_set_on_a_run_configuration_is_accepted() -> None:
    from azureml.core.runconfig import RunConfiguration

    config = RunConfiguration()
    config.prepare_environment = True
    config.auto_prepare_environment = True

    assert config.prepare_environment is True
    assert "prepareEnvironment" not in config.to_plain() and "autoPrepareEnvironment" not in config.to_plain()


def test_stars_bring_all_names_of_hyperdrive() -> None:
    code = "from azureml.train.hyperdrive import *; print(choice(1, 2), BanditPolicy.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "['choice', [[1, 2]]] BanditPolicy\n"


def test_telemetry_is_accepted_and_does_nothing() -> None:
    from azureml.telemetry import set_diagnostics_collection

    set_diagnostics_collection(send_diagnostics=True)


def test_authentication_is_accepted_and_keeps_no_secret() -> None:
    from azureml.core.authentication import ServicePrincipalAuthentication

    made = ServicePrincipalAuthentication(
        tenant_id="t", service_principal_id="i", service_principal_password="hidden-canary"
    )

    assert "hidden-canary" not in repr(vars(made))
