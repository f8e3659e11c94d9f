"""The kinds of datasets: `FileDataset` for files, `TabularDataset` for tables.

Tables are read lazily and in bounded memory; reading them needs pyarrow. The functions at the end write the rows of a
dataset or a DataFrame to a datastore.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

from runyard.core.errors import NotFound
from runyard.core.specs import MOUNT, TABULAR, DatasetInputSpec, DataSource
from runyard.data.datasets import bring_dataset, fetch_all, list_files, opened_once
from runyard.data.references import Node
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.data.abstract_dataset import AbstractDataset, invented_name
from runyard.sdk.data.inputs import DatasetConsumptionConfig
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import DatasetTimestampMissingError, UserErrorException

if TYPE_CHECKING:
    from runyard.sdk.data.inputs import DatasetConsumptionConfig

WRITTEN = "dataset/written"


@raises_azure_errors
class FileDataset(AbstractDataset):
    """Made by `Dataset.File.from_files`."""

    def to_path(self) -> List[str]:
        """Return the paths of the files within the dataset, each with a leading `/`."""
        return [f"/{file.name}" for file in self._files()]

    def download(
        self, target_path: Optional[str] = None, overwrite: bool = False, ignore_not_found: bool = False
    ) -> List[str]:
        """Write the files below `target_path` (default: a temporary folder) and return their paths.

        Raises:
            UserErrorException: one is there already, and `overwrite` is not set; or the dataset has no files, unless
                `ignore_not_found` is set.
        """
        folder = target_path or tempfile.mkdtemp(prefix="runyard-dataset-")
        opened = opened_once(self._open)
        try:
            files = list_files(self._spec, opened)
        except NotFound:
            if ignore_not_found:
                return []
            raise
        targets = [os.path.join(folder, file.name) for file in files]
        there = [target for target in targets if os.path.lexists(target)]
        if there and not overwrite:
            raise UserErrorException(f"{there[0]} is there already. Pass overwrite=True to replace it.")
        fetch_all(list(zip(files, targets)), opened)
        return [os.path.abspath(target) for target in targets]

    def mount(self, mount_point: Optional[str] = None) -> MountContext:
        """Return what shows the files in a folder of this machine: `with dataset.mount() as mounted: …`."""
        return MountContext(self, mount_point)

    def as_mount(self, path_on_compute: Optional[str] = None) -> DatasetConsumptionConfig:
        return self.as_named_input(invented_name()).as_mount(path_on_compute)

    def as_download(self, path_on_compute: Optional[str] = None) -> DatasetConsumptionConfig:
        return self.as_named_input(invented_name()).as_download(path_on_compute)


class MountContext:
    """`start()` or `with` shows the files at `mount_point`; `stop()` takes what was made for that away."""

    def __init__(self, dataset: FileDataset, mount_point: Optional[str]) -> None:
        self._dataset = dataset
        self._made = mount_point is None
        self._folder = mount_point or tempfile.mkdtemp(prefix="runyard-mount-")
        self.mount_point = self._folder

    def start(self) -> None:
        os.makedirs(self._folder, exist_ok=True)
        node = Node(self._folder, self._folder, _ignore, _ignore)
        given = DatasetInputSpec(self._dataset._spec, MOUNT, path_on_compute=os.path.abspath(self._folder))
        bring_dataset("mount", given, self._dataset._open, node)

    def stop(self) -> None:
        from shutil import rmtree

        if self._made:
            rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> MountContext:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _ignore(_: str) -> None:
    pass


Columns = Union[str, Sequence[str]]


@raises_azure_errors
class TabularDataset(AbstractDataset):
    """Made by `Dataset.Tabular.from_delimited_files` and its like."""

    _kind: ClassVar[str] = TABULAR

    def to_pandas_dataframe(self, on_error: str = "null", out_of_range_datetime: str = "null") -> Any:
        """Return all rows as a pandas DataFrame.

        Raises:
            UserErrorException: pyarrow or pandas is not installed here, or a column is not there.
        """
        from runyard.data.tables import to_table

        return to_table(self._batches()).to_pandas(date_as_object=False)

    def keep_columns(self, columns: Columns, validate: bool = False) -> TabularDataset:
        return self._with({"do": "keep", "columns": _names(columns)})

    def drop_columns(self, columns: Columns) -> TabularDataset:
        return self._with({"do": "drop", "columns": _names(columns)})

    def with_timestamp_columns(
        self, timestamp: Optional[str] = None, partition_timestamp: Optional[str] = None, validate: bool = False
    ) -> TabularDataset:
        """Say which column holds each row's time, for `time_before` and its like."""
        made = self._with({})
        reader = {**self._spec.reader, "timestamp": timestamp or ""}
        return type(self)._made(self._workspace, replace(made._spec, steps=self._spec.steps, reader=reader), None)

    @property
    def timestamp_columns(self) -> Tuple[Optional[str], Optional[str]]:
        """The columns that `with_timestamp_columns` named: each row's time, and the time of its partition."""
        reader = self._spec.reader
        return reader.get("timestamp") or None, reader.get("partition_timestamp") or None

    def time_before(self, end_time: datetime, include_boundary: bool = True, validate: bool = True) -> TabularDataset:
        return self._between(None, end_time, include_boundary)

    def time_after(self, start_time: datetime, include_boundary: bool = True, validate: bool = True) -> TabularDataset:
        return self._between(start_time, None, include_boundary)

    def time_between(
        self, start_time: datetime, end_time: datetime, include_boundary: bool = True, validate: bool = True
    ) -> TabularDataset:
        return self._between(start_time, end_time, include_boundary)

    def time_recent(
        self, time_delta: timedelta, include_boundary: bool = True, validate: bool = True
    ) -> TabularDataset:
        """Return rows not older than `time_delta`, counted from now."""
        return self._between(datetime.now() - time_delta, None, include_boundary)

    def to_csv_files(self, separator: str = ",") -> FileDataset:
        """Write it as CSV files to the workspace's datastore and return those as a dataset."""
        return self._written("csv")

    def to_parquet_files(self) -> FileDataset:
        """Write it as Parquet files to the workspace's datastore and return those as a dataset."""
        return self._written("parquet")

    def as_mount(self, path_on_compute: Optional[str] = None) -> DatasetConsumptionConfig:
        raise UserErrorException("A tabular dataset cannot be mounted. Use as_named_input(name), or to_csv_files().")

    as_download = as_mount

    def _between(self, first: Optional[datetime], last: Optional[datetime], inclusive: bool) -> TabularDataset:
        if not self._spec.reader.get("timestamp"):
            raise DatasetTimestampMissingError(
                "The dataset does not know which column holds the time: with_timestamp_columns('column') says it."
            )
        moments = {"first": first.isoformat() if first else None, "last": last.isoformat() if last else None}
        return self._with({"do": "between", **moments, "inclusive": bool(inclusive)})

    def _batches(self) -> Iterator[Any]:
        from runyard.data.tables import apply_steps, read_batches

        with tempfile.TemporaryDirectory(prefix="runyard-tables-") as scratch:
            paths, names = self._local_files(scratch)
            rows = read_batches(paths, self._spec.reader, names)
            yield from apply_steps(rows, self._spec.steps, str(self._spec.reader.get("timestamp") or ""))

    def _local_files(self, scratch: str) -> Tuple[List[str], List[str]]:
        """Return where the files are on this machine; what is elsewhere is fetched first."""
        opened = opened_once(self._open)
        found = list_files(replace(self._spec, steps=[]), opened)  # steps are about rows
        here = [None if file.url else opened(file.datastore).find_local(file.path) for file in found]
        paths = [path or os.path.join(scratch, str(index)) for index, path in enumerate(here)]
        fetch_all([(file, target) for file, path, target in zip(found, here, paths) if path is None], opened)
        return paths, [f"/{file.name}" for file in found]

    def _written(self, kind: str) -> FileDataset:

        return write_dataset(self, kind)


def _names(columns: Columns) -> List[str]:
    found = [columns] if isinstance(columns, str) else list(columns)
    if not found or not all(isinstance(name, str) for name in found):
        raise UserErrorException(f"Columns are given by their names, found {columns!r:.100}.")
    return found


@raises_azure_errors
class DataType(AzureClass):
    """The type of a column, for `set_column_types`."""

    def __init__(self, kind: str, formats: Optional[Sequence[str]] = None) -> None:
        self._kind = kind
        self._formats = list(formats or ())

    @staticmethod
    def to_string() -> DataType:
        return DataType("string")

    @staticmethod
    def to_long() -> DataType:
        return DataType("long")

    @staticmethod
    def to_float(decimal_mark: str = ".") -> DataType:
        return DataType("float")

    @staticmethod
    def to_bool() -> DataType:
        return DataType("bool")

    @staticmethod
    def to_datetime(formats: Optional[Union[str, Sequence[str]]] = None) -> DataType:
        return DataType("datetime", [formats] if isinstance(formats, str) else formats)

    @staticmethod
    def to_stream(workspace: Any, escaped: bool = False) -> DataType:
        """A column of paths. They stay text: nothing opens them."""
        return DataType("string")

    def __repr__(self) -> str:
        return f"DataType({self._kind!r})"


def type_names(types: Optional[Dict[str, DataType]]) -> Dict[str, str]:
    """Raises UserErrorException: a type is not one of DataType's."""
    wrong = [name for name, kind in (types or {}).items() if not isinstance(kind, DataType)]
    if wrong:
        raise UserErrorException(f"The type of column {wrong[0]!r} must be made by DataType, as DataType.to_long().")
    return {name: kind._kind for name, kind in (types or {}).items()}


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
