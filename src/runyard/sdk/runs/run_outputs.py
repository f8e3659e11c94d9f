"""A run's outputs as data for another run: a copy on the default datastore."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

from runyard.core.names import stored_file_name
from runyard.sdk.data.datapath import DataPath
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.sdk.runs.run import Run

_FOLDER = "outputs/"


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
