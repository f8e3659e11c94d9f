"""`TabularDataset`: tables in files, read lazily and in bounded memory. Needs pyarrow where it is read."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from runyard.core.datasets import TABULAR
from runyard.data.dataset_views import fetch_all
from runyard.data.datasets import list_files, opened_once
from runyard.sdk.data.abstract_dataset import AbstractDataset
from runyard.sdk.errors import translates_errors
from runyard.sdk.exceptions import DatasetTimestampMissingError, UserErrorException

if TYPE_CHECKING:
    from runyard.sdk.data.inputs import DatasetConsumptionConfig
    from runyard.sdk.data.kinds import FileDataset

Columns = Union[str, Sequence[str]]


@translates_errors
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
        from runyard.sdk.data.dataset_writing import write_dataset  # few datasets are written

        return write_dataset(self, kind)


def _names(columns: Columns) -> List[str]:
    found = [columns] if isinstance(columns, str) else list(columns)
    if not found or not all(isinstance(name, str) for name in found):
        raise UserErrorException(f"Columns are given by their names, found {columns!r:.100}.")
    return found


class DataType:
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

    def __repr__(self) -> str:
        return f"DataType({self._kind!r})"


def type_names(types: Optional[Dict[str, DataType]]) -> Dict[str, str]:
    """Raises UserErrorException: a type is not one of DataType's."""
    wrong = [name for name, kind in (types or {}).items() if not isinstance(kind, DataType)]
    if wrong:
        raise UserErrorException(f"The type of column {wrong[0]!r} must be made by DataType, as DataType.to_long().")
    return {name: kind._kind for name, kind in (types or {}).items()}
