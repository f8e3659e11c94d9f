"""`azureml.core.image`: not there yet."""

from __future__ import annotations

from runyard.sdk.errors import placeholder

ContainerImage = placeholder("azureml.core.image.ContainerImage")
Image = placeholder("azureml.core.image.Image")

__all__ = ["ContainerImage", "Image"]
