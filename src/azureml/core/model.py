"""`azureml.core.model`: models. What deploys them loads on first use: entry scripts import this module too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from azureml.core.dataset import Dataset
from runyard.sdk.models.model import Model
from runyard.sdk.names import absent_names

if TYPE_CHECKING:
    from runyard.sdk.serving.inference_config import InferenceConfig
    from runyard.sdk.serving.package import ModelPackage
    from runyard.sdk.serving.profile import ModelProfile

_absent = absent_names(__name__)
_HOMES = {
    "InferenceConfig": "runyard.sdk.serving.inference_config",
    "ModelPackage": "runyard.sdk.serving.package",
    "ModelProfile": "runyard.sdk.serving.profile",
}

__all__ = ["Dataset", "InferenceConfig", "Model", "ModelPackage", "ModelProfile"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        return _absent(name)
    from importlib import import_module

    value = globals()[name] = getattr(import_module(home), name)
    return value
