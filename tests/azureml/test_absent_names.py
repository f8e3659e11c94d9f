"""Names of Azure's SDK that are not here are refused with words; libraries that look for them go on without them."""

from __future__ import annotations

import importlib
import importlib.util
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import azureml
import azureml.core
from azureml.core import CondaDependencies, Environment, Model, Run
from azureml.core.model import InferenceConfig
from runyard.core.errors import AbsentModule, AbsentName, NotYetSupported
from runyard.sdk import absent
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.exceptions import AzureMLException

TABLE = json.loads(Path(absent.__file__).with_name("absent.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("module", "state", "instead"),
    [
        ("azureml.pipeline.core", "is not there yet", "experiment.submit"),
        ("azureml.train.automl", "is not part of Runyard", "FLAML"),
        ("azureml.automl.core.shared", "is not part of Runyard", "AutoGluon"),
        ("azureml.interpret", "is not part of Runyard", "SHAP"),
        ("azureml.datadrift", "is not part of Runyard", "Evidently"),
        ("azureml.dataprep", "is not part of Runyard", "pyarrow"),
        ("azureml._restclient.run_client", "is not part of Runyard", "public classes"),
        ("azureml._run_impl.core", "is not part of Runyard", "public classes"),
    ],
)
def test_a_package_that_is_not_here_is_an_import_error_that_says_what_to_use(
    module: str, state: str, instead: str
) -> None:
    with pytest.raises(ModuleNotFoundError, match=state) as caught:
        importlib.import_module(module)

    assert isinstance(caught.value, AbsentModule) and instead in caught.value.hint
    assert caught.value.name is not None and module.startswith(caught.value.name)


def test_a_submodule_imported_from_its_package_keeps_the_words() -> None:
    with pytest.raises(ImportError, match=r"`azureml\.train\.automl` is not part of Runyard"):
        exec("from azureml.train import automl")
    with pytest.raises(ImportError, match=r"`azureml\.pipeline` is not there yet"):
        exec("from azureml import pipeline")


def test_libraries_that_look_for_a_package_go_on_without_it() -> None:
    assert importlib.util.find_spec("azureml.pipeline") is None
    assert importlib.util.find_spec("azureml.core.run") is not None
    assert not hasattr(azureml, "pipeline")
    assert not hasattr(azureml.core, "Nothing")
    assert not hasattr(InferenceConfig, "build_create_payload")
    assert getattr(Run, "identity", "none") == "none"


def test_a_name_that_nobody_has_is_pythons_own_error() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'azureml\.nonsense'") as caught:
        importlib.import_module("azureml.nonsense")
    assert not isinstance(caught.value, NotYetSupported)
    with pytest.raises(ImportError, match="cannot import name 'Nonsense'"):
        exec("from azureml.core import Nonsense")
    with pytest.raises(AttributeError, match="type object 'Model' has no attribute 'deployy'"):
        _ = Model.deployy
    with pytest.raises(AttributeError, match="'Environment' object has no attribute 'pythn'"):
        _ = Environment("x").pythn  # type: ignore[attr-defined]


def test_a_class_that_is_not_here_imports_and_is_refused_on_use() -> None:
    data: Any = importlib.import_module("azureml.data")

    assert not isinstance(3, data.HDFSOutputDatasetConfig)
    with pytest.raises(NotYetSupported, match=r"HDFSOutputDatasetConfig` is not part of Runyard"):
        data.HDFSOutputDatasetConfig("name")
    with pytest.raises(AttributeError, match=r"HDFSOutputDatasetConfig\.as_input` is not part of Runyard"):
        _ = data.HDFSOutputDatasetConfig.as_input


def test_a_member_that_is_not_here_is_an_attribute_error_that_says_what_to_use() -> None:
    with pytest.raises(AbsentName, match=r"`InferenceConfig\.build_create_payload` is not there yet") as caught:
        _ = InferenceConfig.build_create_payload  # type: ignore[attr-defined]
    assert "Model.deploy" in caught.value.hint
    with pytest.raises(AbsentName, match=r"`CondaDependencies\._merge_dependencies` is not part of Runyard"):
        _ = CondaDependencies()._merge_dependencies  # type: ignore[attr-defined]


def test_what_we_have_is_found_at_microsofts_own_paths() -> None:
    paths = {
        "azureml.core.compute.amlcompute:AmlCompute": "azureml.core.compute:AmlCompute",
        "azureml.core.compute.amlcompute:ScaleSettings": "runyard.sdk.compute.target:ScaleSettings",
        "azureml.core.authentication:AuthenticationException": "azureml.exceptions:AuthenticationException",
        "azureml.core.runconfig:SparkConfiguration": "runyard.sdk.run_config.run_configuration:SparkConfiguration",
        "azureml.data.azure_storage_datastore:AzureBlobDatastore": "runyard.sdk.data.datastore:AzureBlobDatastore",
        "azureml.exceptions._azureml_exception:UserErrorException": "azureml.exceptions:UserErrorException",
        "azureml._common.exceptions:AzureMLException": "azureml.exceptions:AzureMLException",
        "azureml._restclient.exceptions:ServiceException": "azureml.exceptions:ServiceException",
        "azureml.train.estimator:Mpi": "azureml.train.dnn:Mpi",
        "azureml.widgets.run_details:RunDetails": "azureml.widgets:RunDetails",
    }

    for path, home in paths.items():
        assert load(path) is load(home), path
    assert issubclass(load("azureml.data.dataset_error_handling:DatasetValidationError"), AzureMLException)
    assert load("azureml._restclient.constants:RunStatus").COMPLETED == "Completed"
    assert load("azureml._base_sdk_common.user_agent:append")("library", "1.0") is None
    assert load("azureml.data:__version__") == azureml.core.VERSION


def load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def test_submodules_are_reached_from_the_package_without_an_import() -> None:
    assert azureml.exceptions.UserErrorException is load("azureml.exceptions:UserErrorException")
    assert azureml.core.runconfig.RunConfiguration is load("azureml.core.runconfig:RunConfiguration")


def test_environments_of_2018_and_sections_of_azure_are_kept() -> None:
    definition = load("azureml.core.runconfig:EnvironmentDefinition")()
    definition.python.user_managed_dependencies = True
    definition.spark.packages = [load("azureml.core.environment:SparkPackage")("com.x", "y", "1")]
    library = load("azureml.core.databricks:PyPiLibrary")(package="x")

    assert isinstance(definition, Environment) and library.package == "x"
    assert definition.to_plain()["spark"]["packages"] == [{"group": "com.x", "artifact": "y", "version": "1"}]
    with pytest.raises(AttributeError, match="PyPiLibrary has no attribute `pakage`"):
        library.pakage = "x"


def test_every_reason_of_the_table_is_one_and_every_home_has_its_names() -> None:
    for owner, lists in [*TABLE["modules"].items(), *TABLE["members"].items()]:
        for reason, names in lists.items():
            if reason.startswith("="):
                home = importlib.import_module(reason[1:])
                assert all(hasattr(home, name) for name in names.split()), (owner, reason)
            else:
                what, comes_later, why, instead = TABLE["reasons"][reason]
                assert what and why and instead and isinstance(comes_later, bool)
    assert set(TABLE["packages"].values()) <= set(TABLE["reasons"])


def test_an_attribute_error_inside_of_a_property_is_told_as_it_is() -> None:
    class Wrong(AzureClass):
        @property
        def name(self) -> Any:
            return self.inner.name  # type: ignore[attr-defined]

    with pytest.raises(AttributeError, match="'Wrong' object has no attribute 'inner'"):
        _ = Wrong().name


def test_configuration_objects_still_travel_between_processes() -> None:
    again = pickle.loads(pickle.dumps(Environment("x")))

    assert again.name == "x"
