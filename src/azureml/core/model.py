"""`azureml.core.model`; web services are not there yet."""

from __future__ import annotations

from azureml.core.dataset import Dataset
from runyard.sdk.models.model import Model
from runyard.sdk.names import absent_names
from runyard.sdk.placeholders import placeholder

InferenceConfig = placeholder("azureml.core.model.InferenceConfig")

__getattr__ = absent_names(__name__)

__all__ = ["Dataset", "InferenceConfig", "Model"]
