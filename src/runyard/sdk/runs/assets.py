"""Assets around a run: its input and output datasets, `run.register_model`, and its outputs as data for another run.

In the run's own script an input dataset is a path; elsewhere it is a dataset object. `outputs_datapath` copies the
outputs to the default datastore.
"""

from __future__ import annotations

import os
import posixpath
import tempfile
from typing import TYPE_CHECKING, Any, Dict, Optional

from runyard.client.calls.workspace import ModelCalls
from runyard.core.errors import NotFound
from runyard.core.names import clean_file_name, stored_file_name
from runyard.core.specs import DIRECT, TABULAR, DatasetInputSpec, DatasetOutputSpec, DatasetSpec, DataSource
from runyard.data.references import PREFIX
from runyard.sdk.data.inputs import DataPath
from runyard.sdk.data.kinds import FileDataset, TabularDataset
from runyard.sdk.exceptions import ModelPathNotFoundException, UserErrorException
from runyard.sdk.models.model import Model, describe_model

if TYPE_CHECKING:
    from runyard.core.records import ModelVersion
    from runyard.sdk.runs.run import Run

_FOLDER = "outputs/"


def input_datasets(run: Run) -> Dict[str, Any]:
    return {name: _input(run, name, given) for name, given in _spec(run).datasets.items()}


def output_datasets(run: Run) -> Dict[str, Any]:
    return {name: _output(run, name, output) for name, output in _spec(run).outputs.items()}


def _input(run: Run, name: str, given: DatasetInputSpec) -> Any:
    path = os.environ.get(PREFIX + name) if run._own and given.mode != DIRECT else None
    if path is not None:
        return path
    cls = TabularDataset if given.dataset.kind == TABULAR else FileDataset
    return cls._made(run.experiment.workspace, given.dataset, None)


def _output(run: Run, name: str, output: DatasetOutputSpec) -> Any:
    path = os.environ.get(PREFIX + name) if run._own else None
    if path is not None:
        return path
    source = DataSource(output.datastore, output.path.replace("{run-id}", run.id))
    return FileDataset._made(run.experiment.workspace, DatasetSpec(f"{run.id}/{name}", sources=[source]), None)


def _spec(run: Run) -> Any:
    return run._facts.spec


def register_run_model(run: Run, model_name: str, model_path: Optional[str], **about: Any) -> Model:
    """Register what the run holds at `model_path` (default: `model_name`); nothing is copied.

    In the run's own script a file that is on its disk and was not stored yet is stored first.

    Raises:
        ModelPathNotFoundException: the run has no such file or folder.
    """
    path = clean_file_name(posixpath.normpath(model_path or model_name))  # scripts write `./outputs/`
    run._flush_own()
    try:
        version = _register(run, model_name, path, about)
    except NotFound as error:
        if not _store(run, path):
            raise ModelPathNotFoundException(
                f"Could not locate the provided model_path {model_path or model_name} in the set of files uploaded to "
                f"the run: {run.get_file_names()}. Store it first: run.upload_file(name, path)."
            ) from error
        version = _register(run, model_name, path, about)
    return Model._of(run.experiment.workspace, version)


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


def outputs_datapath(run: Run) -> DataPath:
    """Copy the files that the run has in `outputs/` so far to the default datastore; return where they are.

    A run may not read another run's files; a datastore of its workspace it may.

    Raises:
        UserErrorException: the run has none.
    """
    names = [name for name in run.get_file_names() if name.startswith(_FOLDER)]
    if not names:
        raise UserErrorException(f"The run {run.id!r} has no files in outputs/, so there is nothing to resume from.")
    datastore = run.experiment.workspace.get_default_datastore()
    place = f"ExperimentRun/dcid.{run.id}"
    storage = datastore._storage()
    with tempfile.TemporaryDirectory(prefix="runyard-outputs-") as folder:
        for name in names:
            part = os.path.join(folder, "file")
            run.download_file(name, part)
            storage.put_file(part, f"{place}/{stored_file_name(name)}")
    return DataPath(datastore, f"{place}/{_FOLDER}")
