"""`Dataset`: find the datasets of a workspace by name and version, and make new ones.

The factories behind `Dataset.File` and `Dataset.Tabular` turn paths as users write them into sources.
`PromoteHeadersBehavior` describes the first line of delimited files.
"""

from __future__ import annotations

import os
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Dict, List, NoReturn, Optional, Tuple, Type, Union

from runyard.core.errors import NotFound
from runyard.core.specs import FILE, KIND, TABULAR, DataSource
from runyard.data.folder import clean_data_path
from runyard.data.tables import DELIMITED, JSON_LINES, PARQUET
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.compat import CallableDict
from runyard.sdk.data.inputs import DataPath, DataReference
from runyard.sdk.data.kinds import DataType, FileDataset, TabularDataset, type_names
from runyard.sdk.errors import translates, unsupported
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.core.records import Asset
    from runyard.sdk.workspaces.workspace import Workspace


class PromoteHeadersBehavior(Enum):
    """A value of `header=`, as are True and False. Files that have headers have one each."""

    NO_HEADERS = 0
    ONLY_FIRST_FILE_HAS_HEADERS = 1
    COMBINE_ALL_FILES_HEADERS = 2
    ALL_FILES_HAVE_SAME_HEADERS = 3


def has_header(header: Any) -> bool:
    """Whether each file begins with the names of its columns."""
    if header is PromoteHeadersBehavior.ONLY_FIRST_FILE_HAS_HEADERS:
        unsupported("A header that only the first file has", hint="Give each file its header, or none: header=False.")
    return header is not False and header is not PromoteHeadersBehavior.NO_HEADERS


class FileDatasetFactory(AzureClass):
    @staticmethod
    @translates
    def from_files(
        path: Any, validate: bool = True, partition_format: Optional[str] = None, is_file: bool = False
    ) -> FileDataset:
        """Return a dataset of files: `(datastore, 'folder/**/*.png')`, several of them, a DataPath, or web addresses.

        Args:
            validate: look now whether anything is there.

        Raises:
            UserErrorException: nothing is there, or it is no path.
        """
        sources, workspace = sources_of(path)
        if partition_format is not None:
            unsupported("`partition_format` of a dataset of files")
        dataset = FileDataset._new(workspace, sources)
        if validate and any(source.datastore for source in sources):
            dataset.to_path()
        return dataset

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
        datastore, place = _place(target)
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
        encoding: str = "utf8",
    ) -> TabularDataset:
        """Return a dataset of CSV, TSV or other delimited files.

        Args:
            header: False: the files have none, and columns are called Column1, Column2 …
            set_column_types: `{'column': DataType.to_long()}`.
        """
        reader = {
            "format": DELIMITED,
            "include_path": bool(include_path),
            "infer_column_types": bool(infer_column_types),
            "types": type_names(set_column_types),
            "separator": separator,
            "header": has_header(header),
            "support_multi_line": bool(support_multi_line),
            "empty_as_string": bool(empty_as_string),
            "encoding": encoding,
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
        return _tabular(path, {"format": PARQUET, "include_path": bool(include_path)}, validate, partition_format)

    @staticmethod
    @translates
    def from_json_lines_files(
        path: Any,
        validate: bool = True,
        include_path: bool = False,
        set_column_types: Optional[Dict[str, DataType]] = None,
        partition_format: Optional[str] = None,
        invalid_lines: str = "error",
        encoding: str = "utf8",
    ) -> TabularDataset:
        return _tabular(path, {"format": JSON_LINES, "include_path": bool(include_path)}, validate, partition_format)

    @staticmethod
    def from_sql_query(*_args: Any, **_kwargs: Any) -> NoReturn:
        unsupported(
            "`Dataset.Tabular.from_sql_query`", hint="Write the query's result to Parquet, and from_parquet_files."
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
        import tempfile
        import uuid

        datastore, place = _place(target) if isinstance(target, (tuple, DataPath)) else (target, "")
        folder = "/".join(filter(None, (place, str(uuid.uuid4()) if make_target_path_unique else "")))
        with tempfile.TemporaryDirectory(prefix="runyard-frame-") as scratch:
            path = os.path.join(scratch, "data.parquet")
            dataframe.to_parquet(path)
            datastore.upload_files([path], target_path=folder, overwrite=True, show_progress=show_progress)
        dataset = TabularDatasetFactory.from_parquet_files((datastore, folder))
        return dataset.register(datastore.workspace, name, description, tags, create_new_version=True)


def _tabular(path: Any, reader: Dict[str, Any], validate: bool, partition_format: Optional[str]) -> TabularDataset:
    if partition_format is not None:
        unsupported("`partition_format` of a tabular dataset")
    sources, workspace = sources_of(path)
    dataset = TabularDataset._new(workspace, sources, reader)
    if validate and any(source.datastore for source in sources):
        dataset._source_files()
    return dataset


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
    datastore, place = _place(one)
    return DataSource(datastore.name, place), datastore.workspace


def _place(target: Any) -> Tuple[Any, str]:
    if isinstance(target, DataPath):
        target = (target.datastore, target.path_on_datastore)
    if not isinstance(target, tuple) or len(target) != 2 or not hasattr(target[0], "datastore_type"):
        raise UserErrorException(f"A place on a datastore is written as (datastore, 'path'), found {target!r:.100}.")
    return target[0], clean_data_path(target[1])


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

    class Scenario:
        """What a dataset of a model is for: `Model.register(datasets=[(Dataset.Scenario.TRAINING, dataset)])`."""

        TRAINING = "training"
        VALIDATION = "validation"
        INFERENCE = "inference"

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
                f"There is no dataset `{name if wanted is None else f'{name}:{wanted}'}` in `{workspace.name}`.",
                why=f"Known here: {', '.join(known) or 'none yet'}.",
                hint="dataset.register(workspace, name) keeps one.",
            ) from error
        return of_asset(workspace, asset)

    @staticmethod
    @translates
    def get_by_id(workspace: Workspace, id: str, **_kwargs: Any) -> AnyDataset:
        """Raises UserErrorException: no registered dataset has that id."""
        for newest in workspace._client.assets.list(workspace.name, KIND):
            for asset in workspace._client.assets.list(workspace.name, KIND, name=newest.name):
                if asset.document.get("spec", {}).get("id") == id:
                    return of_asset(workspace, asset)
        raise NotFound(f"No dataset of workspace `{workspace.name}` has the id `{id}`.")

    @staticmethod
    def get(workspace: Workspace, name: Optional[str] = None, id: Optional[str] = None) -> AnyDataset:
        """The call of early 2019: by name, or by id.

        Raises:
            UserErrorException: there is none of that name or id, or neither is given.
        """
        if name is None and id is None:
            raise UserErrorException("Dataset.get(workspace, ...) needs the name or the id of a dataset.")
        return Dataset.get_by_name(workspace, name) if name is not None else Dataset.get_by_id(workspace, str(id))

    @staticmethod
    def list(workspace: Workspace) -> List[AnyDataset]:
        """The call of early 2019: the latest version of each."""
        return [*Dataset.get_all(workspace).values()]

    @staticmethod
    def auto_read_files(path: Any, include_path: bool = False) -> TabularDataset:
        """The call of early 2019: a table of files that are read by their ending; what is no other kind is CSV."""
        first = path[0] if isinstance(path, list) else path
        place = first[1] if isinstance(first, tuple) else getattr(first, "path_on_datastore", None) or first
        ending = os.path.splitext(str(place).lower())[1]
        if ending == ".parquet":
            return Dataset.Tabular.from_parquet_files(path, include_path=include_path)
        if ending in (".json", ".jsonl"):
            return Dataset.Tabular.from_json_lines_files(path, include_path=include_path)
        return Dataset.Tabular.from_delimited_files(path, include_path=include_path)

    @staticmethod
    @translates
    def get_all(workspace: Workspace) -> Dict[str, AnyDataset]:
        """Return the latest version of each, by name."""
        found = workspace._client.assets.list(workspace.name, KIND)
        return CallableDict((asset.name, of_asset(workspace, asset)) for asset in found)


def of_asset(workspace: Workspace, asset: Asset) -> AnyDataset:
    kind = asset.document.get("spec", {}).get("kind", FILE)
    return TabularDataset._of(workspace, asset) if kind == TABULAR else FileDataset._of(workspace, asset)
