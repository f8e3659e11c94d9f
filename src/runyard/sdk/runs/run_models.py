"""`run.register_model`: a run's file or folder becomes a version of a model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Optional

from runyard.client.calls.models import ModelCalls
from runyard.core.errors import NotFound
from runyard.core.names import clean_file_name
from runyard.sdk.exceptions import ModelPathNotFoundException
from runyard.sdk.models.model import Model, describe_model

if TYPE_CHECKING:
    from runyard.core.models import ModelVersion
    from runyard.sdk.runs.run import Run


def register_run_model(run: Run, model_name: str, model_path: Optional[str], **about: Any) -> Model:
    """Register what the run holds at `model_path` (default: `model_name`); nothing is copied.

    In the run's own script a file that is on its disk and was not stored yet is stored first.

    Raises:
        ModelPathNotFoundException: the run has no such file or folder.
    """
    path = clean_file_name(model_path or model_name)
    run._flush_own()
    try:
        found = _register(run, model_name, path, about)
    except NotFound as error:
        if not _store(run, path):
            raise ModelPathNotFoundException(
                f"Could not locate the provided model_path {model_path or model_name} in the set of files uploaded to "
                f"the run: {run.get_file_names()}. Store it first: run.upload_file(name, path)."
            ) from error
        found = _register(run, model_name, path, about)
    return Model._of(run.experiment.workspace, found)


def _register(run: Run, model_name: str, path: str, about: Any) -> ModelVersion:
    workspace = run.experiment.workspace
    spec = describe_model(**about, run_id=run.id)
    return ModelCalls(workspace._client.transport).register(workspace.name, model_name, spec, run_path=path)


def _store(run: Run, path: str) -> bool:
    """Store a file or folder of the script's own work folder; False when there is none, or this is not the script."""
    if not run._writes_here() or not os.path.exists(path):
        return False
    if os.path.isdir(path):
        run.upload_folder(path, path)
    else:
        run.upload_file(path, path)
    run._flush_own()
    return True
