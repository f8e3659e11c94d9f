"""`Dataset`: find the datasets of a workspace by name and version, and make new ones.

The factories behind `Dataset.File` and `Dataset.Tabular` turn paths as users write them into sources.
`PromoteHeadersBehavior` describes the first line of delimited files.
"""

from __future__ import annotations

import os
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Dict, List, NoReturn, Optional, Tuple, Type, TypeVar, Union

from runyard.core.errors import NotFound
from runyard.core.specs import FILE, KIND, TABULAR, DatasetSpec, DataSource
from runyard.data.folder import clean_data_path
from runyard.data.tables import CODECS, COMBINED, DELIMITED, FIRST_ONLY, JSON_LINES, PARQUET
from runyard.runtime.context import find_context
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.compat import CallableDict
from runyard.sdk.config.texts import warn_once
from runyard.sdk.data.abstract_dataset import AbstractDataset, values_of
from runyard.sdk.data.conditions import DataType, type_names
from runyard.sdk.data.inputs import DataPath, DataReference, place_of_target
from runyard.sdk.data.kinds import FileDataset, TabularDataset
from runyard.sdk.errors import translates, unsupported
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.core.records import Asset
    from runyard.sdk.workspaces.workspace import Workspace


class PromoteHeadersBehavior(Enum):
    """A value of `header=`, as are True and False."""

    NO_HEADERS = 0
    ONLY_FIRST_FILE_HAS_HEADERS = 1
    COMBINE_ALL_FILES_HEADERS = 2
    ALL_FILES_HAVE_SAME_HEADERS = 3


class SkipLinesBehavior(Enum):
    """Of which files `Dataset.from_delimited_files(skip_rows=...)` leaves the first lines out."""

    NO_ROWS = 0
    FROM_FIRST_FILE_ONLY = 1
    FROM_ALL_FILES = 2


class FileEncoding(Enum):
    """A value of `encoding=`, as are the texts 'utf8', 'latin1' and so on."""

    UTF8 = 0
    ISO88591 = 1
    LATIN1 = 2
    ASCII = 3
    UTF16 = 4
    UTF32 = 5
    UTF8BOM = 6
    WINDOWS1252 = 7


def header_of(header: Any) -> Any:
    """Return which files begin with the names of their columns: True, False, or a word of `data.tables`."""
    if header is PromoteHeadersBehavior.ONLY_FIRST_FILE_HAS_HEADERS:
        return FIRST_ONLY
    if header is PromoteHeadersBehavior.COMBINE_ALL_FILES_HEADERS:
        return COMBINED
    if not isinstance(header, (bool, int, PromoteHeadersBehavior)) and header is not None:
        raise UserErrorException(f"header is True, False or one of PromoteHeadersBehavior, found {header!r:.100}.")
    return header is not False and header is not PromoteHeadersBehavior.NO_HEADERS


def delimited_reader(include_path: bool, set_column_types: Any, separator: str, header: Any) -> Dict[str, Any]:
    """Return how delimited files are read."""
    if not isinstance(separator, str) or len(separator) != 1:
        raise UserErrorException(f"separator is one character, such as ',' or '\\t', found {separator!r}.")
    return {
        "format": DELIMITED,
        "include_path": bool(include_path),
        "types": type_names(set_column_types),
        "separator": separator,
        "header": header_of(header),
    }


def parquet_reader(include_path: bool, set_column_types: Any) -> Dict[str, Any]:
    return {"format": PARQUET, "include_path": bool(include_path), "types": type_names(set_column_types)}


class FileDatasetFactory(AzureClass):
    @staticmethod
    @translates
    def from_files(
        path: Any, validate: bool = True, partition_format: Optional[str] = None, is_file: bool = False
    ) -> FileDataset:
        """Return a dataset of files: `(datastore, 'folder/**/*.png')`, several of them, a DataPath, or web addresses.

        Args:
            validate: look now whether anything is there.
            partition_format: values in the paths, `/{city}/{day:yyyy/MM/dd}/*.png`, become `partition_keys`.
            is_file: without effect: what is there decides.

        Raises:
            UserErrorException: nothing is there, or it is no path.
        """
        sources, workspace = sources_of(path)
        dataset = FileDataset._new(workspace, sources, _partitioned(partition_format))
        return _validated(dataset) if validate else dataset

    @staticmethod
    @translates
    def upload_directory(
        src_dir: str, target: Any, pattern: Optional[str] = None, overwrite: bool = False, show_progress: bool = True
    ) -> FileDataset:
        """Store a folder on a datastore and return it as a dataset.

        Args:
            target: `(datastore, 'path')` or a DataPath.
            pattern: only files whose names fit, such as `*.csv`.
        """
        datastore, place = place_of_target(target)
        if pattern is None:
            datastore.upload(src_dir, place, overwrite=overwrite, show_progress=show_progress)
        else:
            datastore.upload_files(
                _fitting(src_dir, pattern),
                relative_root=src_dir,
                target_path=place,
                overwrite=overwrite,
                show_progress=show_progress,
            )
        return FileDatasetFactory.from_files((datastore, place))


class TabularDatasetFactory(AzureClass):
    """Nothing is read here, but to look whether the files are there."""

    @staticmethod
    @translates
    def from_delimited_files(
        path: Any,
        validate: bool = True,
        include_path: bool = False,
        infer_column_types: bool = True,
        set_column_types: Optional[Dict[str, DataType]] = None,
        separator: str = ",",
        header: Any = True,
        partition_format: Optional[str] = None,
        support_multi_line: bool = False,
        empty_as_string: bool = False,
        encoding: Any = "utf8",
    ) -> TabularDataset:
        """Return a dataset of CSV, TSV or other delimited files.

        Args:
            header: False: the files have none, and columns are called Column1, Column2 …
            set_column_types: `{'column': DataType.to_long()}`.
            partition_format: values in the paths, `/{city}/{day:yyyy/MM/dd}/*.csv`, become columns.
            encoding: utf8, iso88591, latin1, ascii, utf16, utf32, utf8bom or windows1252.
        """
        reader = {
            **delimited_reader(include_path, set_column_types, separator, header),
            "infer_column_types": bool(infer_column_types),
            "support_multi_line": bool(support_multi_line),
            "empty_as_string": bool(empty_as_string),
            "encoding": encoding_of(encoding),
        }
        return _tabular(path, reader, validate, partition_format)

    @staticmethod
    @translates
    def from_parquet_files(
        path: Any,
        validate: bool = True,
        include_path: bool = False,
        set_column_types: Optional[Dict[str, DataType]] = None,
        partition_format: Optional[str] = None,
    ) -> TabularDataset:
        reader = parquet_reader(include_path, set_column_types)
        return _tabular(path, reader, validate, partition_format)

    @staticmethod
    @translates
    def from_json_lines_files(
        path: Any,
        validate: bool = True,
        include_path: bool = False,
        set_column_types: Optional[Dict[str, DataType]] = None,
        partition_format: Optional[str] = None,
        invalid_lines: str = "error",
        encoding: Any = "utf8",
    ) -> TabularDataset:
        """Return a dataset of files that hold one JSON object a line.

        Args:
            invalid_lines: `error`, or `drop` to leave out lines that are no JSON objects.
        """
        if invalid_lines not in ("error", "drop"):
            raise UserErrorException(f"invalid_lines is 'error' or 'drop', found {invalid_lines!r}.")
        reader = {
            "format": JSON_LINES,
            "include_path": bool(include_path),
            "types": type_names(set_column_types),
            "invalid_lines": invalid_lines,
            "encoding": encoding_of(encoding),
        }
        return _tabular(path, reader, validate, partition_format)

    @staticmethod
    def from_sql_query(*_args: Any, **_kwargs: Any) -> NoReturn:
        unsupported(
            "`Dataset.Tabular.from_sql_query`", hint="Write the query's result to Parquet, and from_parquet_files."
        )

    @staticmethod
    def register_spark_dataframe(*_args: Any, **_kwargs: Any) -> NoReturn:
        unsupported(
            "`Dataset.Tabular.register_spark_dataframe`",
            hint="frame.write.parquet(folder), datastore.upload(folder, 'path'), then from_parquet_files.",
        )

    @staticmethod
    def register_dask_dataframe(*_args: Any, **_kwargs: Any) -> NoReturn:
        unsupported(
            "`Dataset.Tabular.register_dask_dataframe`",
            hint="frame.to_parquet(folder), datastore.upload(folder, 'path'), then from_parquet_files.",
        )

    @staticmethod
    @translates
    def register_pandas_dataframe(
        dataframe: Any,
        target: Any,
        name: str,
        description: Optional[str] = None,
        tags: Optional[Dict[str, str]] = None,
        show_progress: bool = True,
        row_group_size: Optional[int] = None,
        make_target_path_unique: bool = True,
    ) -> TabularDataset:
        """Write a DataFrame as Parquet to `target`, `(datastore, 'path')`, and register it under `name`."""
        place = _write_frame(
            dataframe,
            target,
            show_progress=show_progress,
            row_group_size=row_group_size,
            is_unique=make_target_path_unique,
        )
        dataset = TabularDatasetFactory.from_parquet_files(place)
        return dataset.register(place[0].workspace, name, description, tags, create_new_version=True)


def _write_frame(
    dataframe: Any,
    target: Any,
    *,
    show_progress: bool = False,
    row_group_size: Optional[int] = None,
    is_unique: bool = True,
) -> Tuple[Any, str]:
    """Write a DataFrame as Parquet to a datastore and return where."""
    import tempfile
    import uuid

    if not hasattr(dataframe, "to_parquet"):
        raise UserErrorException(f"A pandas DataFrame is needed, found {type(dataframe).__name__}.")
    if isinstance(target, DataReference):
        target = (target.datastore, target.path_on_datastore or "")
    datastore, place = place_of_target(target) if isinstance(target, (tuple, DataPath)) else (target, "")
    if not hasattr(datastore, "upload_files"):
        raise UserErrorException(f"target is (datastore, 'path'), found {target!r:.100}.")
    folder = "/".join(filter(None, (place, str(uuid.uuid4()) if is_unique else "")))
    with tempfile.TemporaryDirectory(prefix="runyard-frame-") as scratch:
        path = os.path.join(scratch, "data.parquet")
        dataframe.to_parquet(path, **({"row_group_size": row_group_size} if row_group_size else {}))
        datastore.upload_files([path], target_path=folder, overwrite=True, show_progress=show_progress)
    return datastore, folder


def _tabular(path: Any, reader: Dict[str, Any], validate: bool, partition_format: Optional[str]) -> TabularDataset:
    sources, workspace = sources_of(path)
    dataset = TabularDataset._new(workspace, sources, {**reader, **_partitioned(partition_format)})
    return _validated(dataset) if validate else dataset


def _skipping(rows: Any, mode: Any, comment: Any) -> Dict[str, Any]:
    """Return what the reader leaves out of delimited files.

    Raises:
        UserErrorException: it is no number of lines, or no beginning of one.
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 0:
        raise UserErrorException(f"skip_rows is a number of lines, 0 or more, found {rows!r}.")
    if not isinstance(mode, SkipLinesBehavior):
        raise UserErrorException(f"skip_mode is one of SkipLinesBehavior, found {mode!r}.")
    if comment is not None and not (isinstance(comment, str) and comment):
        raise UserErrorException(f"comment is the text that a comment begins with, found {comment!r}.")
    if rows and mode is SkipLinesBehavior.NO_ROWS:
        warn_once("skip_rows has no effect with SkipLinesBehavior.NO_ROWS: skip_mode says of which files.")
        rows = 0
    first = {"skip_mode": FIRST_ONLY} if mode is SkipLinesBehavior.FROM_FIRST_FILE_ONLY else {}
    skipped = {"skip_rows": rows, **first} if rows else {}
    return {**skipped, **({"comment": comment} if comment else {})}


def _partitioned(form: Optional[str]) -> Dict[str, Any]:
    """Raises InvalidArgument: it is no partition format."""
    if form is None:
        return {}
    from runyard.data.partitions import partition_keys  # few datasets have them

    return {"partition_format": form} if partition_keys(form) else {}


D = TypeVar("D", bound=AbstractDataset)


def _validated(dataset: D) -> D:
    """Raises UserErrorException: no files are there, or their paths do not fit the partition format."""
    if any(source.datastore or "*" in source.url for source in dataset._spec.sources):
        files = dataset._source_files()
        for file in files if dataset.partition_keys else ():
            values_of(file, dataset._spec.reader)
    return dataset


def encoding_of(encoding: Any) -> str:
    """Raises UserErrorException: Azure knows no such encoding, and Python does not either."""
    import codecs

    name = str(getattr(encoding, "name", encoding)).lower().replace("-", "").replace("_", "")
    try:
        codecs.lookup(CODECS.get(name, str(encoding)))
    except LookupError:
        raise UserErrorException(f"There is no encoding {encoding!r}. Known: {', '.join(CODECS)}.") from None
    return name if name in CODECS else str(encoding)


def sources_of(path: Any) -> Tuple[List[DataSource], Optional[Workspace]]:
    """Return what `path` means, and the workspace of its datastores.

    Raises:
        UserErrorException: it is no path.
    """
    given = path if isinstance(path, list) else [path]
    if not given:
        raise UserErrorException("A dataset needs at least one path.")
    found = [_source(one) for one in given]
    return [source for source, _ in found], next((workspace for _, workspace in found if workspace is not None), None)


def _source(one: Any) -> Tuple[DataSource, Optional[Workspace]]:
    if isinstance(one, str):
        if one.lower().startswith(("http://", "https://")):
            return DataSource(url=one), None
        raise UserErrorException(
            f"{one!r} is no path of a dataset: it lies on a datastore, or has a web address.\n"
            f"Upload it, and write (datastore, {os.path.basename(one) or 'data'!r})."
        )
    if isinstance(one, DataReference):
        return DataSource(one.datastore.name, clean_data_path(one.path_on_datastore)), one.datastore.workspace
    datastore, place = place_of_target(one)
    return DataSource(datastore.name, place), datastore.workspace


def _fitting(folder: str, pattern: str) -> List[str]:
    import fnmatch

    from runyard.data.folder import iter_files

    found = [file.path for file in iter_files(folder) if fnmatch.fnmatch(file.name, pattern)]
    if not found:
        raise UserErrorException(f"No file below {folder!r} fits {pattern!r}.")
    return found


AnyDataset = Union[FileDataset, TabularDataset]


class Dataset(AzureClass):
    """`Dataset.File` and `Dataset.Tabular` make datasets; the rest finds those that were registered."""

    def __init__(self, definition: Any, workspace: Any = None, name: Optional[str] = None, id: Any = None) -> None:
        given = ", ".join(type(one).__name__ for one in (definition, workspace, name, id) if one is not None)
        unsupported(
            f"A dataset made from a definition of Azure's data preparation ({given})",
            hint="Dataset.Tabular.from_delimited_files((datastore, 'path')) makes one, Dataset.get_by_name finds one.",
        )

    class Scenario:
        """What a dataset is for, in `Model.register(datasets=[(Dataset.Scenario.TRAINING, dataset)])`."""

        TRAINING: ClassVar[str] = "training"
        VALIDATION: ClassVar[str] = "validation"
        INFERENCE: ClassVar[str] = "inference"

    File: ClassVar[Type[FileDatasetFactory]] = FileDatasetFactory
    Tabular: ClassVar[Type[TabularDatasetFactory]] = TabularDatasetFactory

    @staticmethod
    @translates
    def get_by_name(workspace: Workspace, name: str, version: Any = "latest") -> AnyDataset:
        """Raises UserErrorException: there is none of that name and version."""
        wanted = None if version in (None, "latest") else int(version)
        try:
            asset = workspace._client.assets.get(workspace.name, KIND, name, version=wanted)
        except NotFound as error:
            known = [one.name for one in workspace._client.assets.list(workspace.name, KIND)]
            raise NotFound(
                f'Cannot find dataset registered with name "{name}"'
                + (f" and version {wanted}" if wanted is not None else "")
                + f" in workspace `{workspace.name}`.",
                why=f"Known here: {', '.join(known) or 'none yet'}.",
                hint="dataset.register(workspace, name) keeps one.",
            ) from error
        return of_asset(workspace, asset)

    @staticmethod
    @translates
    def get_by_id(workspace: Workspace, id: str) -> AnyDataset:
        """Raises UserErrorException: no registered dataset and no input of this process's run has that id."""
        for newest in workspace._client.assets.list(workspace.name, KIND):
            for asset in workspace._client.assets.list(workspace.name, KIND, name=newest.name):
                if asset.document.get("spec", {}).get("id") == id:
                    return of_asset(workspace, asset)
        for spec in _own_inputs(workspace):
            if spec.id == id:
                return (TabularDataset if spec.kind == TABULAR else FileDataset)._made(workspace, spec, None)
        raise NotFound(f"No dataset of workspace `{workspace.name}` has the id `{id}`.")

    @staticmethod
    def get(workspace: Workspace, name: Optional[str] = None, id: Optional[str] = None) -> AnyDataset:
        """The call of early 2019: by name, or by id.

        Raises:
            UserErrorException: there is none of that name or id, or neither is given.
        """
        if name is None and id is None:
            raise UserErrorException("Dataset.get(workspace, ...) needs the name or the id of a dataset.")
        if name is None:
            return Dataset.get_by_id(workspace, str(id))
        found = Dataset.get_by_name(workspace, name)
        if id is not None and found.id != id:
            raise UserErrorException(f"The dataset {name!r} has the id {found.id!r}, not {id!r}. Give one of both.")
        return found

    @staticmethod
    def list(workspace: Workspace) -> List[AnyDataset]:
        """The call of early 2019: the latest version of each."""
        return [*Dataset.get_all(workspace).values()]

    @staticmethod
    @translates
    def get_all(workspace: Workspace) -> Dict[str, AnyDataset]:
        """Return the latest version of each, by name."""
        found = workspace._client.assets.list(workspace.name, KIND)
        return CallableDict((asset.name, of_asset(workspace, asset)) for asset in found)

    @staticmethod
    @translates
    def auto_read_files(
        path: Any, include_path: bool = False, partition_format: Optional[str] = None
    ) -> TabularDataset:
        """Early 2019's way to read files by what their names end in: Parquet, JSON lines, TSV, else CSV.

        Raises:
            UserErrorException: they are of several kinds, or none is there.
        """
        sources, workspace = sources_of(path)
        files = FileDataset._new(workspace, sources)._source_files()
        endings = {os.path.splitext(file.name)[1].lower() for file in files}
        if len(endings) != 1:
            raise UserErrorException(f"The files end in {sorted(endings)}: name those of one kind, as 'folder/*.csv'.")
        ending, rest = endings.pop(), (include_path, None, partition_format)
        if ending == ".parquet":
            return TabularDatasetFactory.from_parquet_files(path, True, *rest)
        if ending in (".json", ".jsonl"):
            return TabularDatasetFactory.from_json_lines_files(path, True, *rest)
        return TabularDatasetFactory.from_delimited_files(
            path, True, include_path, separator="\t" if ending == ".tsv" else ",", partition_format=partition_format
        )

    @staticmethod
    def from_delimited_files(
        path: Any,
        separator: str = ",",
        header: Any = PromoteHeadersBehavior.ALL_FILES_HAVE_SAME_HEADERS,
        encoding: Any = "utf8",
        quoting: bool = False,
        infer_column_types: bool = True,
        skip_rows: int = 0,
        skip_mode: SkipLinesBehavior = SkipLinesBehavior.NO_ROWS,
        comment: Optional[str] = None,
        include_path: bool = False,
        archive_options: Any = None,
        partition_format: Optional[str] = None,
    ) -> TabularDataset:
        """Early 2019's `Dataset.Tabular.from_delimited_files`.

        Args:
            quoting: allow line breaks in quoted values.
            skip_rows: leave so many lines out at the beginning of the files that `skip_mode` says.
            comment: leave lines out that begin with this.
            archive_options: files in an archive are not read.
        """
        if archive_options is not None:
            unsupported("Reading files inside an archive (archive_options)", hint="Unpack it and upload the files.")
        reader = _skipping(skip_rows, skip_mode, comment)
        made = TabularDatasetFactory.from_delimited_files(
            path,
            include_path=include_path,
            infer_column_types=infer_column_types,
            separator=separator,
            header=header,
            partition_format=partition_format,
            support_multi_line=quoting,
            encoding=encoding,
        )
        return made._read_by({**made._spec.reader, **reader}) if reader else made

    @staticmethod
    def from_parquet_files(
        path: Any, include_path: bool = False, partition_format: Optional[str] = None
    ) -> TabularDataset:
        """Early 2019's `Dataset.Tabular.from_parquet_files`."""
        return TabularDatasetFactory.from_parquet_files(path, True, include_path, None, partition_format)

    @staticmethod
    def from_json_files(
        path: Any,
        encoding: Any = "utf8",
        flatten_nested_arrays: bool = False,
        include_path: bool = False,
        partition_format: Optional[str] = None,
    ) -> TabularDataset:
        """Early 2019's `Dataset.Tabular.from_json_lines_files`."""
        if flatten_nested_arrays:
            unsupported(
                "A row for each item of a nested array (flatten_nested_arrays)",
                hint="dataset.to_pandas_dataframe().explode('column') makes them.",
            )
        return TabularDatasetFactory.from_json_lines_files(
            path, True, include_path, None, partition_format, encoding=encoding
        )

    @staticmethod
    @translates
    def from_pandas_dataframe(dataframe: Any, path: Any = None, in_memory: bool = False) -> TabularDataset:
        """Write a DataFrame as Parquet to `path`, `(datastore, 'path')`, and return it as a dataset.

        Raises:
            UserErrorException: no path is given. A dataset that is in memory alone cannot be given to a run.
        """
        if path is None or in_memory:
            raise UserErrorException(
                "A dataset lies on a datastore: Dataset.from_pandas_dataframe(frame, path=(datastore, 'folder')).\n"
                "Without one, the DataFrame itself is all there is."
            )
        return TabularDatasetFactory.from_parquet_files(_write_frame(dataframe, path))

    @staticmethod
    def from_binary_files(path: Any) -> FileDataset:
        """Early 2019's `Dataset.File.from_files`."""
        return FileDatasetFactory.from_files(path)


def _own_inputs(workspace: Workspace) -> List[DatasetSpec]:
    """Return the datasets that the run of this process was given; a script knows the id of an unregistered one, too."""
    context = find_context()
    if context is None:
        return []
    return [given.dataset for given in workspace._client.runs.get(context.run_id).spec.datasets.values()]


def of_asset(workspace: Workspace, asset: Asset) -> AnyDataset:
    kind = asset.document.get("spec", {}).get("kind", FILE)
    return TabularDataset._of(workspace, asset) if kind == TABULAR else FileDataset._of(workspace, asset)
