"""`azureml.core.dataset`: not there yet."""

from __future__ import annotations

from runyard.sdk.not_yet import placeholder

Dataset = placeholder("azureml.core.dataset.Dataset")

__all__ = ["Dataset"]
