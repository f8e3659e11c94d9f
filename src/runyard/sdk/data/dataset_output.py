"""`OutputFileDatasetConfig`: a folder that a run writes to and that ends on a datastore, as a dataset if wanted."""

from __future__ import annotations

import uuid
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from runyard.core.datasets import MOUNT, UPLOAD, DatasetOutputSpec
from runyard.data.datastores import DEFAULT
from runyard.data.paths import clean_data_path
from runyard.sdk.data.data_reference import reference_name
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.not_yet import refuse

_TABLE = "Dataset.Tabular.from_delimited_files((datastore, 'path')), where the run has ended."
PLACE = "dataset/{run-id}/{output-name}"


class OutputFileDatasetConfig:
    """In a run's arguments it stands for an existing, writable folder.

    Args:
        destination: `(datastore, 'path')`; `{run-id}` and `{output-name}` in the path are filled in. Default:
            `dataset/{run-id}/{output-name}` on the workspace's own datastore.
        source: where the script writes, below its work folder, when it does not take the path as an argument.
    """

    def __init__(
        self,
        name: Optional[str] = None,
        destination: Optional[Tuple[Any, str]] = None,
        source: Optional[str] = None,
        partition_format: Optional[str] = None,
    ) -> None:
        if partition_format is not None:
            refuse("`partition_format` of an output")
        self.name = reference_name(name or f"output_{uuid.uuid4().hex[:8]}")
        self.destination = _checked(destination)
        self.source = source
        self.mode = MOUNT
        self._overwrite = False
        self._globs: List[str] = []
        self._register: Dict[str, Any] = {}

    def as_mount(self, disable_metadata_cache: bool = False) -> OutputFileDatasetConfig:
        return self._changed(mode=MOUNT)

    def as_upload(
        self, overwrite: bool = False, source_globs: Optional[Sequence[str]] = None
    ) -> OutputFileDatasetConfig:
        """Copy what the run wrote to the datastore at its end; of `source_globs` only what fits one of them."""
        return self._changed(mode=UPLOAD, _overwrite=bool(overwrite), _globs=list(source_globs or ()))

    def register_on_complete(
        self, name: str, description: Optional[str] = None, tags: Optional[Mapping[str, Any]] = None
    ) -> OutputFileDatasetConfig:
        """Register it as a dataset when the run has ended well."""
        texts = {str(key): str(value) for key, value in (tags or {}).items()}
        return self._changed(_register={"name": name, "description": description, "tags": texts})

    def as_input(self, name: Optional[str] = None) -> Any:
        refuse("An output as the input of a later step", hint="register_on_complete(name), then Dataset.get_by_name.")

    def read_delimited_files(self, *_args: Any, **_kwargs: Any) -> Any:
        refuse("An output that is read as a table", hint=_TABLE)

    def read_parquet_files(self, *_args: Any, **_kwargs: Any) -> Any:
        refuse("An output that is read as a table", hint=_TABLE)

    def __str__(self) -> str:
        return f"DatasetOutputConfig:{self.name}"

    __repr__ = __str__

    def _changed(self, **changes: Any) -> OutputFileDatasetConfig:
        made = OutputFileDatasetConfig.__new__(OutputFileDatasetConfig)
        made.__dict__ = {**self.__dict__, **changes}
        return made

    def _spec(self) -> DatasetOutputSpec:
        datastore, path = self.destination or (None, PLACE)
        return DatasetOutputSpec(
            datastore=datastore.name if datastore is not None else DEFAULT,
            path=path.replace("{output-name}", self.name),
            mode=self.mode,
            overwrite=self._overwrite,
            source=self.source,
            globs=list(self._globs),
            register=dict(self._register),
        )


def _checked(destination: Any) -> Optional[Tuple[Any, str]]:
    if destination is None:
        return None
    if not isinstance(destination, tuple) or len(destination) != 2 or not hasattr(destination[0], "datastore_type"):
        raise UserErrorException(f"destination is written as (datastore, 'path'), found {destination!r:.100}.")
    return destination[0], clean_data_path(destination[1])
