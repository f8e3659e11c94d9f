"""`azureml.contrib.notebook`: a notebook as the script of a run."""

from __future__ import annotations

from runyard.sdk.names import absent_names
from runyard.sdk.run_config.notebook import (
    AzureMLNotebookHandler,
    NotebookExecutionHandler,
    NotebookRunConfig,
    PapermillExecutionHandler,
)

__getattr__ = absent_names(__name__)

__all__ = ["AzureMLNotebookHandler", "NotebookExecutionHandler", "NotebookRunConfig", "PapermillExecutionHandler"]
