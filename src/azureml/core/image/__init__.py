"""`azureml.core.image`: images of 2018, definitions that services are made from."""

from __future__ import annotations

from runyard.sdk.names import absent_names
from runyard.sdk.serving.images import ContainerImage, Image, UnknownImage

__getattr__ = absent_names(__name__)

__all__ = ["ContainerImage", "Image", "UnknownImage"]
