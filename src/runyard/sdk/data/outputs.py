"""Folders that a run writes and that end on a datastore: `OutputFileDatasetConfig`, and as a table.

An output is also the input of a later run: `output.as_input()`, once the run that wrote it has ended.
"""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple

from runyard.core.specs import DIRECT, MOUNT, TABULAR, UPLOAD, DatasetOutputSpec, DataSource
from runyard.core.statuses import RunStatus
from runyard.data.datastores import DEFAULT
from runyard.data.folder import clean_data_path
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.config.texts import check_texts, note_without_effect
from runyard.sdk.data.inputs import DatasetConsumptionConfig, reference_name
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.sdk.data.abstract_dataset import AbstractDataset
    from runyard.sdk.runs.run import Run

PLACE = "dataset/{run-id}/{output-name}"
_RUN_ID = "{run-id}"
Reader = Dict[str, Any]  # how a dataset reads its files, and its steps, as DatasetSpec keeps them


@raises_azure_errors
class OutputDatasetConfig(AzureClass):
    """Base of what a run writes. In a run's arguments it stands for an existing, writable folder.

    Args:
        mode: `mount` (the run writes to the datastore, or it is copied there at the end) or `upload`.
    """

    def __init__(self, mode: str, name: Optional[str] = None) -> None:
        if mode not in (MOUNT, UPLOAD):
            raise UserErrorException(f"The mode of an output is {MOUNT} or {UPLOAD}, found {mode!r}.")
        self.name = reference_name(name or f"output_{uuid.uuid4().hex[:8]}")
        self.mode = mode
        self.destination: Optional[Tuple[Any, str]] = None
        self.source: Optional[str] = None
        self._overwrite = False
        self._globs: List[str] = []
        self._reader: Reader = {}
        self._register: Reader = {}
        self._runs: List[Run] = []  # the runs that write it: all changed copies share the list

    @property
    def arg_val(self) -> str:
        """What an argument says in its place before the run starts."""
        return str(self)

    def register_on_complete(
        self, name: str, description: Optional[str] = None, tags: Optional[Mapping[str, Any]] = None
    ) -> Any:
        """Register it as a dataset when the run has ended well."""
        check_texts(description=description)
        if not isinstance(name, str) or not name:
            raise UserErrorException(f"The name of a dataset is a text that is not empty, found {name!r}.")
        if tags is not None and not isinstance(tags, Mapping):
            raise UserErrorException(f"tags must be a dict, found {type(tags).__name__}.")
        texts = {str(key): str(value) for key, value in (tags or {}).items()}
        return self._changed(_register={"name": name, "description": description, "tags": texts})

    def as_input(self, name: Optional[str] = None) -> DatasetConsumptionConfig:
        """Return what a run wrote as an input of a later run.

        The later run is submitted when the earlier one has ended: until then nobody knows what it holds.
        """
        return DatasetConsumptionConfig(name or f"input_{self.name}", self, MOUNT)  # type: ignore[arg-type]  # becomes one

    def __str__(self) -> str:
        return f"DatasetOutputConfig:{self.name}"

    __repr__ = __str__

    def _changed(self, **changes: Any) -> Any:
        made = type(self).__new__(type(self))
        made.__dict__ = {**self.__dict__, **changes}
        return made

    def _written_dataset(self) -> AbstractDataset:
        """Return the dataset that it has become.

        Raises:
            UserErrorException: no run has written it, or that run has not ended well.
        """
        from runyard.sdk.data.kinds import FileDataset  # which knows inputs

        workspace, source = self._place()
        return FileDataset._new(workspace, [source], self._reader)

    def _place(self) -> Tuple[Any, DataSource]:
        spec = self._spec()
        if not self._runs:
            if self.destination is None or _RUN_ID in spec.path:
                raise UserErrorException(
                    f"No run has written the output {self.name!r} yet, so it cannot be an input.\n"
                    "Submit the run that has it among its arguments, wait_for_completion(), then submit this one."
                )
            return self.destination[0].workspace, DataSource(spec.datastore, spec.path)
        run = self._runs[-1]
        status = run.get_status()
        if status != RunStatus.COMPLETED.value:
            raise UserErrorException(
                f"The output {self.name!r} is written by the run {run.id!r}, which is {status}.\n"
                "run.wait_for_completion() waits for it; then it can be an input."
            )
        return run.experiment.workspace, DataSource(spec.datastore, spec.path.replace(_RUN_ID, run.id))

    def _dataset_form(self) -> Reader:
        """Return how the dataset that it becomes reads its files."""
        return {"reader": self._reader} if self._reader else {}

    def _spec(self) -> DatasetOutputSpec:
        datastore, path = self.destination or (None, PLACE)
        return DatasetOutputSpec(
            datastore=datastore.name if datastore is not None else DEFAULT,
            path=clean_data_path(path.replace("{output-name}", self.name)),
            mode=self.mode,
            overwrite=self._overwrite,
            source=self.source,
            globs=list(self._globs),
            register={**self._register, **self._dataset_form()} if self._register else {},
        )


@raises_azure_errors
class OutputFileDatasetConfig(OutputDatasetConfig):
    """A folder of files.

    Args:
        destination: `(datastore, 'path')`; `{run-id}` and `{output-name}` in the path are filled in. Default:
            `dataset/{run-id}/{output-name}` on the workspace's own datastore.
        source: where the script writes, below its work folder, when it does not take the path as an argument.
        partition_format: of the dataset that it becomes, by `register_on_complete` or `as_input`.
    """

    def __init__(
        self,
        name: Optional[str] = None,
        destination: Optional[Tuple[Any, str]] = None,
        source: Optional[str] = None,
        partition_format: Optional[str] = None,
    ) -> None:
        super().__init__(MOUNT, name)
        if source is not None and not isinstance(source, str):
            raise UserErrorException(f"source is a path below the work folder, found {source!r:.100}.")
        self.destination = _checked(destination)
        self.source = source
        self._reader = _partitions(partition_format)

    def as_mount(self, disable_metadata_cache: bool = False) -> Any:
        note_without_effect({"disable_metadata_cache": disable_metadata_cache or None})
        return self._changed(mode=MOUNT)

    def as_upload(self, overwrite: bool = False, source_globs: Optional[Sequence[str]] = None) -> Any:
        """Copy what the run wrote to the datastore at its end; of `source_globs` only what fits one of them."""
        globs = [source_globs] if isinstance(source_globs, str) else list(source_globs or ())
        return self._changed(mode=UPLOAD, _overwrite=bool(overwrite), _globs=globs)

    def read_delimited_files(
        self,
        include_path: bool = False,
        separator: str = ",",
        header: Any = True,
        partition_format: Optional[str] = None,
        path_glob: Optional[str] = None,
        set_column_types: Optional[Dict[str, Any]] = None,
    ) -> OutputTabularDatasetConfig:
        """Return it as a table: what it registers, and what `as_input()` gives, is a tabular dataset of its CSV files.

        Args:
            path_glob: only the files that fit, such as `**/*.csv`.
        """
        from runyard.sdk.data.dataset import delimited_reader  # few outputs are tables

        reader = delimited_reader(include_path, set_column_types, separator, header)
        return self._as_table(reader, partition_format, path_glob)

    def read_parquet_files(
        self,
        include_path: bool = False,
        partition_format: Optional[str] = None,
        path_glob: Optional[str] = None,
        set_column_types: Optional[Dict[str, Any]] = None,
    ) -> OutputTabularDatasetConfig:
        """Return it as a table, as `read_delimited_files` does, of its Parquet files."""
        from runyard.sdk.data.dataset import parquet_reader

        return self._as_table(parquet_reader(include_path, set_column_types), partition_format, path_glob)

    def _as_table(
        self, reader: Reader, partition_format: Optional[str], path_glob: Optional[str]
    ) -> OutputTabularDatasetConfig:
        if path_glob is not None and not (isinstance(path_glob, str) and path_glob):
            raise UserErrorException(f"path_glob is a pattern such as '**/*.csv', found {path_glob!r}.")
        made = OutputTabularDatasetConfig.__new__(OutputTabularDatasetConfig)
        made.__dict__ = {**self.__dict__, "_glob": path_glob or "", "_steps": []}
        made._reader = {**reader, **self._reader, **_partitions(partition_format)}
        return made


@raises_azure_errors
class OutputTabularDatasetConfig(OutputFileDatasetConfig):
    """An output that becomes a tabular dataset; made by `read_delimited_files` and `read_parquet_files`."""

    _glob: str
    _steps: List[Reader]

    def __init__(self) -> None:
        raise UserErrorException("OutputFileDatasetConfig(...).read_delimited_files() makes an output that is a table.")

    def keep_columns(self, columns: Any) -> OutputTabularDatasetConfig:
        return self._step({"do": "keep", "columns": _names(columns)})

    def drop_columns(self, columns: Any) -> OutputTabularDatasetConfig:
        return self._step({"do": "drop", "columns": _names(columns)})

    def random_split(
        self, percentage: float, seed: Optional[int] = None
    ) -> Tuple[OutputTabularDatasetConfig, OutputTabularDatasetConfig]:
        """Return two tables that share the rows out; `percentage` is about the first one's part."""
        from runyard.sdk.data.abstract_dataset import checked_seed, part_of_one

        step = {"do": "split", "fraction": part_of_one(percentage), "seed": checked_seed(seed)}
        return self._step(step), self._step({**step, "rest": True})

    def as_input(self, name: Optional[str] = None) -> DatasetConsumptionConfig:
        """Return the table as an input of a later run, which is submitted when this one has ended."""
        return DatasetConsumptionConfig(name or f"input_{self.name}", self, DIRECT)  # type: ignore[arg-type]  # becomes one

    def _step(self, step: Reader) -> OutputTabularDatasetConfig:
        made: OutputTabularDatasetConfig = self._changed(_steps=[*self._steps, step])
        return made

    def _written_dataset(self) -> AbstractDataset:
        from dataclasses import replace

        from runyard.sdk.data.kinds import TabularDataset

        workspace, source = self._place()
        path = "/".join(filter(None, (source.path, self._glob)))
        made = TabularDataset._new(workspace, [DataSource(source.datastore, path)], self._reader)
        made._spec = replace(made._spec, steps=list(self._steps))
        return made

    def _dataset_form(self) -> Reader:
        return {"kind": TABULAR, "reader": self._reader, "steps": self._steps, "glob": self._glob}


def _names(columns: Any) -> List[str]:
    found = [columns] if isinstance(columns, str) else list(columns or ())
    if not found or not all(isinstance(name, str) for name in found):
        raise UserErrorException(f"columns is the name of a column, or a list of them, found {columns!r:.100}.")
    return found


def _partitions(form: Optional[str]) -> Reader:
    """Return what the dataset that it becomes knows of its paths."""
    if form is None:
        return {}
    from runyard.data.partitions import partition_keys  # few outputs have them

    return {"partition_format": form} if partition_keys(form) else {}


def _checked(destination: Any) -> Optional[Tuple[Any, str]]:
    if destination is None:
        return None
    if not isinstance(destination, tuple) or len(destination) != 2 or not hasattr(destination[0], "datastore_type"):
        raise UserErrorException(f"destination is written as (datastore, 'path'), found {destination!r:.100}.")
    clean_data_path(destination[1])  # a path that leaves the datastore is refused here; others read back as given
    return destination[0], os.fspath(destination[1] or "")
