"""`azureml.core.image`: not there yet."""

from __future__ import annotations

from runyard.sdk.names import absent_names
from runyard.sdk.placeholders import placeholder

ContainerImage = placeholder("azureml.core.image.ContainerImage")
Image = placeholder("azureml.core.image.Image")

__getattr__ = absent_names(__name__)

__all__ = ["ContainerImage", "Image"]
