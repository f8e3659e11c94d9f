"""`TabularDataset.partition_by`: write the rows to a folder for each combination of values of some columns."""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Dict, List, Tuple

from runyard.core.specs import DataSource
from runyard.data.columns import kind_of, load_pyarrow
from runyard.data.partitions import partition_folder
from runyard.data.tables import PARQUET, check_columns
from runyard.sdk.data.inputs import place_of_target
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.sdk.data.kinds import TabularDataset
    from runyard.sdk.workspaces.workspace import Workspace

Written = Tuple["Workspace", List[DataSource], Dict[str, Any]]


def write_partitions(dataset: TabularDataset, keys: List[str], target: Any, show_progress: bool) -> Written:
    """Write Parquet files, a folder per combination, batch by batch, and return where they are and how they are read.

    Raises:
        UserErrorException: a key is no column, all columns are keys, or something is at the target already.
    """
    datastore, place = place_of_target(target)
    if next(datastore._storage().iter_files(place), None) is not None:
        raise UserErrorException(
            f"There is something at {place or '/'!r} of {datastore.name!r} already: choose another path."
        )
    parquet = load_pyarrow("parquet")
    parts: Dict[str, int] = defaultdict(int)  # by folder: a batch has a file of its own
    types: Dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="runyard-partitions-") as scratch:
        for batch in dataset._batches():
            check_columns(batch, keys)
            if len(keys) == batch.num_columns:
                raise UserErrorException("At least one column must not be a partition key: there is nothing to write.")
            types = types or {key: kind_of(batch.schema.field(key).type) for key in keys}
            for values, rows in _shared_out(batch, keys):
                folder = partition_folder(values)
                os.makedirs(os.path.join(scratch, folder), exist_ok=True)
                parquet.write_table(rows, os.path.join(scratch, folder, f"part-{parts[folder]:05}.parquet"))
                parts[folder] += 1
        if not parts:
            raise UserErrorException("The dataset has no rows, so there is nothing to write.")
        datastore.upload(scratch, place, show_progress=show_progress)
    form = "/" + "/".join(f"{{{key}}}" for key in keys) + "/*.parquet"
    reader = {"format": PARQUET, "partition_format": form, "partition_quoted": True, "types": types}
    return datastore.workspace, [DataSource(datastore.name, place)], reader


def _shared_out(batch: Any, keys: List[str]) -> List[Tuple[Dict[str, Any], Any]]:
    """Return the rows of a batch by the values of the keys, without the keys."""
    arrow = load_pyarrow()
    table = arrow.Table.from_batches([batch]).append_column("\0row", arrow.array(range(batch.num_rows)))
    groups = table.group_by(keys).aggregate([("\0row", "list")]).to_pylist()
    rest = arrow.Table.from_batches([batch]).drop_columns(keys)
    return [({key: group[key] for key in keys}, rest.take(group["\0row_list"])) for group in groups]
