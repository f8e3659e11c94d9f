"""Tables written to a datastore: a dataset's rows, or a DataFrame's."""

from __future__ import annotations

import os
import tempfile
import uuid
from typing import TYPE_CHECKING, Any, Iterable

from runyard.core.datasets import DataSource
from runyard.sdk.data.kinds import FileDataset
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.sdk.data.tabular_dataset import TabularDataset

WRITTEN = "dataset/written"


def write_dataset(dataset: TabularDataset, kind: str) -> FileDataset:
    """Write the rows batch by batch to one file on the workspace's datastore."""
    if dataset._workspace is None:
        raise UserErrorException("A dataset of web addresses belongs to no workspace: there is nowhere to write it.")
    datastore = dataset._workspace.get_default_datastore()
    place = f"{WRITTEN}/{uuid.uuid4()}"
    with tempfile.TemporaryDirectory(prefix="runyard-tables-") as scratch:
        path = os.path.join(scratch, f"part-00000.{kind}")
        write_batches(dataset._batches(), path, kind)
        datastore.upload_files([path], target_path=place, show_progress=False)
    return FileDataset._new(dataset._workspace, [DataSource(datastore.name, place)])


def write_batches(batches: Iterable[Any], path: str, kind: str) -> None:
    from runyard.data.tables import load_pyarrow

    csv, parquet = load_pyarrow("csv"), load_pyarrow("parquet")
    writer = None
    for batch in batches:
        if writer is None:
            writer = csv.CSVWriter(path, batch.schema) if kind == "csv" else parquet.ParquetWriter(path, batch.schema)
        writer.write_batch(batch)
    if writer is None:
        raise UserErrorException("The dataset has no rows, so there is nothing to write.")
    writer.close()
