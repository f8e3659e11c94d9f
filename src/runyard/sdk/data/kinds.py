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
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Iterable,
    Iterator,
    List,
    Mapping,
    NoReturn,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from runyard.core.errors import NotFound
from runyard.core.specs import MOUNT, TABULAR, DatasetInputSpec, DataSource
from runyard.data.datasets import DataFile, Open, bring_dataset, fetch_all, list_files, opened_once
from runyard.data.references import Node
from runyard.sdk.config.texts import check_texts
from runyard.sdk.data.abstract_dataset import AbstractDataset, invented_name, values_of
from runyard.sdk.data.conditions import ColumnCondition, Condition, condition_of, stream_source
from runyard.sdk.data.inputs import DatasetConsumptionConfig
from runyard.sdk.errors import raises_azure_errors, unsupported
from runyard.sdk.exceptions import DatasetTimestampMissingError, UserErrorException

if TYPE_CHECKING:
    from runyard.sdk.data.profile import DataProfile

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
        _fetch(list(zip(files, targets)), opened)
        return [os.path.abspath(target) for target in targets]

    def mount(self, mount_point: Optional[str] = None) -> MountContext:
        """Return what shows the files in a folder of this machine: `with dataset.mount() as mounted: …`."""
        return MountContext(self, mount_point)

    def __getitem__(self, key: str) -> ColumnCondition:
        """Return a partition key for a condition: `dataset.filter(dataset['city'] == 'Oslo')`."""
        return ColumnCondition(key)

    def file_metadata(self, col: str) -> ColumnCondition:
        """Return what is known of each file, for a condition: `Size`."""
        if col != "Size":
            raise UserErrorException(f"Of a file its 'Size' is known here, found {col!r}.")
        return ColumnCondition(col)

    def filter(self, expression: Condition) -> FileDataset:
        """Return the files that fit a condition: `dataset.filter(dataset.file_metadata('Size') > 100)`."""
        form = self._spec.reader.get("partition_format") or ""
        return self._with({"do": "filter", "condition": condition_of(expression), "form": form})

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

        Args:
            on_error: `null` puts null for values that do not fit their column's type, `fail` raises an error.
            out_of_range_datetime: the same for times before 1678 and after 2261, which pandas cannot hold.

        Raises:
            UserErrorException: pyarrow or pandas is not installed here, a column is not there, or a value does not fit.
        """
        from runyard.data.columns import cut_out_of_range
        from runyard.data.tables import to_table

        fails, cuts = _fails("on_error", on_error), _fails("out_of_range_datetime", out_of_range_datetime)
        table = to_table(self._batches(fail=fails))
        return cut_out_of_range(table, fail=cuts).to_pandas(date_as_object=False)

    def to_spark_dataframe(self) -> NoReturn:
        unsupported("`TabularDataset.to_spark_dataframe`", hint="spark.createDataFrame(dataset.to_pandas_dataframe()).")

    def to_dask_dataframe(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        unsupported(
            "`TabularDataset.to_dask_dataframe`",
            hint="dask.dataframe.read_parquet(dataset.to_parquet_files().download()).",
        )

    def head(self, count: int = 5) -> Any:
        """Return the first rows as a pandas DataFrame."""
        return self.take(count).to_pandas_dataframe()

    def keep_columns(self, columns: Columns, validate: bool = False) -> TabularDataset:
        """Return it with these columns alone; `validate` reads the first rows to see whether they are there."""
        names = _names(columns)
        gone = [name for name in self.timestamp_columns if name and name not in names]
        return self._checked(names, validate)._without_times(gone)._with({"do": "keep", "columns": names})

    def drop_columns(self, columns: Columns) -> TabularDataset:
        """Return it without these columns. One that is not there is left out, with a warning when the rows are read."""
        return self._without_times(_names(columns))._with({"do": "drop", "columns": _names(columns)})

    def __getitem__(self, column: str) -> ColumnCondition:
        """Return a column for a condition: `dataset.filter(dataset['age'] > 30)`."""
        return ColumnCondition(column)

    def filter(self, expression: Condition) -> TabularDataset:
        """Return the rows that fit a condition: `(dataset['age'] > 30) & (dataset['city'] == 'Oslo')`."""
        return self._with({"do": "filter", "condition": condition_of(expression)})

    @property
    def timestamp_columns(self) -> Tuple[Optional[str], Optional[str]]:
        """The columns that `with_timestamp_columns` named."""
        reader = self._spec.reader
        return reader.get("timestamp") or None, reader.get("partition_timestamp") or None

    def with_timestamp_columns(
        self,
        timestamp: Optional[str] = None,
        partition_timestamp: Optional[str] = None,
        validate: bool = False,
        *,
        fine_grain_timestamp: Optional[str] = None,
        coarse_grain_timestamp: Optional[str] = None,
    ) -> TabularDataset:
        """Say which column holds each row's time, for `time_before` and its like, and which the time of its partition.

        Args:
            validate: read the first rows to see whether the columns are there and hold times.
            fine_grain_timestamp: the older name of `timestamp`; `coarse_grain_timestamp` of `partition_timestamp`.
        """
        fine, coarse = timestamp or fine_grain_timestamp, partition_timestamp or coarse_grain_timestamp
        check_texts(timestamp=fine, partition_timestamp=coarse)
        if coarse and (not fine or fine == coarse):
            raise UserErrorException("partition_timestamp needs a timestamp beside it, which is another column.")
        named = {"timestamp": fine or "", "partition_timestamp": coarse or ""}
        self._checked([name for name in (fine, coarse) if name], validate, times=True)
        return self._read_by({**self._spec.reader, **named})

    def time_before(self, end_time: datetime, include_boundary: bool = True, validate: bool = True) -> TabularDataset:
        return self._between(None, end_time, include_boundary, validate)

    def time_after(self, start_time: datetime, include_boundary: bool = True, validate: bool = True) -> TabularDataset:
        return self._between(start_time, None, include_boundary, validate)

    def time_between(
        self, start_time: datetime, end_time: datetime, include_boundary: bool = True, validate: bool = True
    ) -> TabularDataset:
        return self._between(start_time, end_time, include_boundary, validate)

    def time_recent(
        self, time_delta: timedelta, include_boundary: bool = True, validate: bool = True
    ) -> TabularDataset:
        """Return rows not older than `time_delta`, counted from now."""
        return self._between(datetime.now() - time_delta, None, include_boundary, validate)

    def to_csv_files(self, separator: str = ",") -> FileDataset:
        """Write it as CSV files to the workspace's datastore and return those as a dataset."""
        return write_dataset(self, "csv", separator)

    def to_parquet_files(self) -> FileDataset:
        """Write it as Parquet files to the workspace's datastore and return those as a dataset."""
        return write_dataset(self, "parquet")

    def partition_by(
        self,
        partition_keys: Sequence[str],
        target: Any,
        name: Optional[str] = None,
        show_progress: bool = True,
        partition_as_file_dataset: bool = False,
    ) -> Any:
        """Write the rows to `target`, a folder for each combination of values of `partition_keys`, as Parquet.

        Args:
            target: `(datastore, 'path')` or a DataPath; the path must hold nothing yet.
            name: register the new dataset under it.
            partition_as_file_dataset: return a dataset of the files.

        Returns:
            The dataset of the partitions, which knows their keys: `partition_keys`, `get_partition_key_values()`.
        """
        from runyard.sdk.data.partitioning import write_partitions

        workspace, sources, reader = write_partitions(self, _names(partition_keys), target, show_progress)
        kind = FileDataset if partition_as_file_dataset else TabularDataset
        made = kind._new(workspace, sources, reader)
        return made if name is None else made.register(workspace, name, create_new_version=True)

    def get_profile(self, workspace: Any = None) -> DataProfile:
        """Return counts, smallest and largest values and the like of each column, of the rows as they are now."""
        from runyard.sdk.data.profile import profile_of

        return profile_of(self._batches())

    def download(
        self,
        stream_column: str,
        target_path: Optional[str] = None,
        overwrite: bool = False,
        ignore_not_found: bool = True,
    ) -> List[str]:
        """Fetch the files that a column names (`DataType.to_stream`) and return their paths."""
        return self._streams(stream_column, ignore_not_found).download(target_path, overwrite, ignore_not_found)

    def mount(self, stream_column: str, mount_point: Optional[str] = None) -> MountContext:
        """Show the files that a column names (`DataType.to_stream`) in a folder of this machine."""
        return self._streams(stream_column, False).mount(mount_point)

    def as_mount(self, path_on_compute: Optional[str] = None) -> DatasetConsumptionConfig:
        raise UserErrorException("A tabular dataset cannot be mounted. Use as_named_input(name), or to_csv_files().")

    as_download = as_mount

    def _between(
        self, first: Optional[datetime], last: Optional[datetime], inclusive: bool, validate: bool
    ) -> TabularDataset:
        column = self._spec.reader.get("timestamp")
        if not column:
            raise DatasetTimestampMissingError(
                "The dataset does not know which column holds the time: with_timestamp_columns('column') says it."
            )
        self._checked([column], validate, times=True)
        moments = {"first": first.isoformat() if first else None, "last": last.isoformat() if last else None}
        return self._with({"do": "between", "column": column, **moments, "inclusive": bool(inclusive)})

    def _without_times(self, columns: Sequence[str]) -> TabularDataset:
        """Forget the timestamp columns that are in `columns`; the partition's goes with the rows' own."""
        timestamp, partition = self.timestamp_columns
        if timestamp in columns:
            return self._read_by({**self._spec.reader, "timestamp": "", "partition_timestamp": ""})
        return self._read_by({**self._spec.reader, "partition_timestamp": ""}) if partition in columns else self

    def _read_by(self, reader: Mapping[str, Any]) -> TabularDataset:
        spec = replace(self._spec, id=str(uuid.uuid4()), reader=dict(reader))
        return type(self)._made(self._workspace, spec, None)

    def _checked(self, columns: Sequence[str], validate: bool, *, times: bool = False) -> TabularDataset:
        """Read the first rows and raise where a column is not there, or holds no times."""
        if validate and columns:
            from runyard.data.columns import convert
            from runyard.data.tables import check_columns

            for batch in self._batches(first_file=True):
                check_columns(batch, columns)
                for name in columns if times else ():
                    convert(batch.column(name), name, "datetime", fail=True)
                break
        return self

    def _batches(self, *, fail: bool = False, first_file: bool = False) -> Iterator[Any]:
        from runyard.data.tables import apply_steps, read_batches

        reader = self._spec.reader
        with tempfile.TemporaryDirectory(prefix="runyard-tables-") as scratch:
            files, paths = self._local_files(scratch, 1 if first_file else None)
            names = [f"/{file.name}" for file in files]
            said = [values_of(file, reader) for file in files] if reader.get("partition_format") else []
            rows = read_batches(paths, reader, names, said, fail=fail)
            yield from apply_steps(rows, self._spec.steps, str(reader.get("timestamp") or ""))

    def _local_files(self, scratch: str, most: Optional[int] = None) -> Tuple[List[DataFile], List[str]]:
        """Return the files and where they are on this machine; what is elsewhere is fetched first."""
        opened = opened_once(self._open)
        found = list_files(replace(self._spec, steps=[]), opened)[:most]  # steps are about rows
        here = [None if file.url else opened(file.datastore).find_local(file.path) for file in found]
        paths = [path or os.path.join(scratch, str(index)) for index, path in enumerate(here)]
        _fetch([(file, target) for file, path, target in zip(found, here, paths) if path is None], opened)
        return found, paths

    def _streams(self, column: str, ignore_not_found: bool) -> FileDataset:
        texts = self.keep_columns(column, validate=True).to_pandas_dataframe()[column].dropna()
        kind = (self._spec.reader.get("types") or {}).get(column)
        escaped = isinstance(kind, Mapping) and bool(kind.get("escaped"))
        sources = [stream_source(str(text), escaped=escaped) for text in texts]
        if ignore_not_found:
            sources = [source for source in sources if self._is_there(source)]
        return FileDataset._new(self._workspace, sources)

    def _is_there(self, source: DataSource) -> bool:
        return bool(source.url) or self._open(source.datastore).find_file(source.path) is not None


def _fetch(wanted: Sequence[Tuple[DataFile, str]], opened: Open) -> None:
    from runyard.core.machine.progress import Progress  # many datasets are read where they lie

    if wanted:
        with Progress("downloading the dataset's files", sum(file.size for file, _ in wanted)) as progress:
            fetch_all(wanted, opened, progress.add)


def _fails(name: str, value: str) -> bool:
    if value not in ("null", "fail"):
        raise UserErrorException(f"{name} is 'null' or 'fail', found {value!r}.")
    return value == "fail"


def _names(columns: Columns) -> List[str]:
    found = [columns] if isinstance(columns, str) else list(columns)
    if not found or not all(isinstance(name, str) for name in found):
        raise UserErrorException(f"Columns are given by their names, found {columns!r:.100}.")
    return found


def write_dataset(dataset: TabularDataset, kind: str, separator: str = ",") -> FileDataset:
    """Write the rows batch by batch to one file on the workspace's datastore."""
    if dataset._workspace is None:
        raise UserErrorException("A dataset of web addresses belongs to no workspace: there is nowhere to write it.")
    datastore = dataset._workspace.get_default_datastore()
    place = f"{WRITTEN}/{uuid.uuid4()}"
    with tempfile.TemporaryDirectory(prefix="runyard-tables-") as scratch:
        path = os.path.join(scratch, f"part-00000.{kind}")
        write_batches(dataset._batches(), path, kind, separator)
        datastore.upload_files([path], target_path=place, show_progress=False)
    return FileDataset._new(dataset._workspace, [DataSource(datastore.name, place)])


def write_batches(batches: Iterable[Any], path: str, kind: str, separator: str = ",") -> None:
    from runyard.data.columns import load_pyarrow

    csv, parquet = load_pyarrow("csv"), load_pyarrow("parquet")
    writer = None
    for batch in batches:
        if writer is None and kind == "csv":
            writer = csv.CSVWriter(path, batch.schema, write_options=csv.WriteOptions(delimiter=separator))
        elif writer is None:
            writer = parquet.ParquetWriter(path, batch.schema)
        writer.write_batch(batch)
    if writer is None:
        raise UserErrorException("The dataset has no rows, so there is nothing to write.")
    writer.close()
