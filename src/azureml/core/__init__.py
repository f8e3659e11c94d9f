"""`azureml.core`: names load on first use, so that importing costs next to nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List

from runyard.sdk.compat import refuse_shared_folder
from runyard.sdk.names import absent_names

if TYPE_CHECKING:
    from azureml.core.compute import ComputeTarget
    from azureml.core.dataset import Dataset
    from azureml.core.datastore import Datastore
    from azureml.core.image import Image
    from azureml.core.keyvault import Keyvault
    from azureml.core.model import Model
    from azureml.core.webservice import Webservice
    from runyard.sdk.environments.conda_dependencies import CondaDependencies
    from runyard.sdk.environments.environment import ContainerRegistry, Environment
    from runyard.sdk.run_config.run_configuration import RunConfiguration
    from runyard.sdk.run_config.script_run_config import ScriptRunConfig
    from runyard.sdk.runs.run import Run, ScriptRun, get_run
    from runyard.sdk.workspaces.experiment import Experiment
    from runyard.sdk.workspaces.workspace import Workspace

refuse_shared_folder(__file__)

VERSION = "1.61.0"  # the SDK release whose API this is
__version__ = VERSION
_absent = absent_names(__name__)

_HOMES = {
    "ComputeTarget": "azureml.core.compute",
    "CondaDependencies": "runyard.sdk.environments.conda_dependencies",
    "ContainerRegistry": "runyard.sdk.environments.environment",
    "Dataset": "azureml.core.dataset",
    "Datastore": "azureml.core.datastore",
    "Environment": "runyard.sdk.environments.environment",
    "Experiment": "runyard.sdk.workspaces.experiment",
    "Image": "azureml.core.image",
    "Keyvault": "azureml.core.keyvault",
    "Model": "azureml.core.model",
    "Run": "runyard.sdk.runs.run",
    "RunConfiguration": "runyard.sdk.run_config.run_configuration",
    "ScriptRun": "runyard.sdk.runs.run",
    "ScriptRunConfig": "runyard.sdk.run_config.script_run_config",
    "Webservice": "azureml.core.webservice",
    "Workspace": "runyard.sdk.workspaces.workspace",
    "get_run": "runyard.sdk.runs.run",
}

__all__ = [
    "VERSION",
    "ComputeTarget",
    "CondaDependencies",
    "ContainerRegistry",
    "Dataset",
    "Datastore",
    "Environment",
    "Experiment",
    "Image",
    "Keyvault",
    "Model",
    "Run",
    "RunConfiguration",
    "ScriptRun",
    "ScriptRunConfig",
    "Webservice",
    "Workspace",
    "get_run",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        return _absent(name)
    from importlib import import_module

    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> List[str]:
    return sorted({*globals(), *__all__})
