"""`azureml.core.image`: not there yet."""

from __future__ import annotations

from runyard.sdk.errors import placeholder
from runyard.sdk.names import absent_names

ContainerImage = placeholder("azureml.core.image.ContainerImage")
Image = placeholder("azureml.core.image.Image")

__getattr__ = absent_names(__name__)

__all__ = ["ContainerImage", "Image"]
