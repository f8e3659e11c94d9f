"""`azureml.core.model`; web services are not there yet."""

from __future__ import annotations

from azureml.core.dataset import Dataset
from runyard.sdk.models.model import Model
from runyard.sdk.not_yet import placeholder

InferenceConfig = placeholder("azureml.core.model.InferenceConfig")

__all__ = ["Dataset", "InferenceConfig", "Model"]
