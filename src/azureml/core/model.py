"""`azureml.core.model`: not there yet."""

from __future__ import annotations

from azureml.core.dataset import Dataset
from runyard.sdk.not_yet import placeholder

InferenceConfig = placeholder("azureml.core.model.InferenceConfig")
Model = placeholder("azureml.core.model.Model")

__all__ = ["Dataset", "InferenceConfig", "Model"]
