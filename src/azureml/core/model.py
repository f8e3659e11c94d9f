"""`azureml.core.model`; web services are not there yet."""

from __future__ import annotations

from azureml.core.dataset import Dataset
from runyard.sdk.errors import placeholder
from runyard.sdk.models.model import Model
from runyard.sdk.names import absent_names

InferenceConfig = placeholder("azureml.core.model.InferenceConfig")

__getattr__ = absent_names(__name__)

__all__ = ["Dataset", "InferenceConfig", "Model"]
