"""Data as inputs of a run: the objects that a user puts into a run's arguments.

`DataReference` is a path on a datastore, `DatasetConsumptionConfig` a dataset. `DataPath` names a place on a datastore;
`DataPathComputeBinding` says how a run gets it. `outputs.py` has the folders that a run writes.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Optional, Tuple

from runyard.core.specs import DIRECT, DOWNLOAD, MOUNT, TABULAR, DatasetInputSpec
from runyard.data.folder import clean_data_path
from runyard.data.references import MODES, PREFIX
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.config.texts import check_texts
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.run_config.run_configuration import DataReferenceConfiguration

if TYPE_CHECKING:
    from runyard.sdk.data.abstract_dataset import AbstractDataset
    from runyard.sdk.data.datastore import Datastore


_NAME = re.compile(r"\w+", re.ASCII)
DATASET_MODES = (DIRECT, MOUNT, DOWNLOAD)


@raises_azure_errors
class DataReference(AzureClass):
    """`str()` of it is `$AZUREML_DATAREFERENCE_<name>`, which becomes the path where the run's processes start.

    Args:
        data_reference_name: default the datastore's name for all of it, else a random one.
        path_on_datastore: a file or folder; default all of the datastore.
        mode: `mount` (the data itself, on this machine), `download` (a copy before the start) or `upload` (what the run
            writes there is copied to the datastore at its end).
        path_on_compute: below the work folder, unless absolute.

    Raises:
        UserErrorException: a mode, name or path that cannot be.
    """

    def __init__(
        self,
        datastore: Datastore,
        data_reference_name: Optional[str] = None,
        path_on_datastore: Optional[str] = None,
        mode: str = "mount",
        path_on_compute: Optional[str] = None,
        overwrite: bool = False,
    ) -> None:
        if not hasattr(datastore, "datastore_type"):
            raise UserErrorException(f"A DataReference is about a Datastore, found {type(datastore).__name__}.")
        self.datastore = datastore
        self.path_on_datastore = clean_data_path(path_on_datastore) or None
        self.data_reference_name = reference_name(data_reference_name or self._default_name())
        self.mode = checked_mode(mode)
        self.path_on_compute = path_on_compute
        self.overwrite = bool(overwrite)

    def path(self, path: Optional[str] = None, data_reference_name: Optional[str] = None) -> DataReference:
        """Return a reference to `path` below this one."""
        both = "/".join(filter(None, (self.path_on_datastore, clean_data_path(path))))
        return DataReference(self.datastore, data_reference_name, both, self.mode, self.path_on_compute, self.overwrite)

    def as_mount(self) -> DataReference:
        return self._as("mount", None, False)

    def as_download(self, path_on_compute: Optional[str] = None, overwrite: bool = False) -> DataReference:
        return self._as("download", path_on_compute, overwrite)

    def as_upload(self, path_on_compute: Optional[str] = None, overwrite: bool = False) -> DataReference:
        return self._as("upload", path_on_compute, overwrite)

    def to_config(self) -> DataReferenceConfiguration:
        """Return the form that `run_config.data_references` holds."""
        return DataReferenceConfiguration(
            self.datastore.name, self.mode, self.path_on_datastore, self.path_on_compute, self.overwrite
        )

    def __str__(self) -> str:
        return f"${PREFIX}{self.data_reference_name}"

    def __repr__(self) -> str:
        return str(self)

    def _as(self, mode: str, path_on_compute: Optional[str], overwrite: bool) -> DataReference:
        return DataReference(
            self.datastore, self.data_reference_name, self.path_on_datastore, mode, path_on_compute, overwrite
        )

    def _default_name(self) -> str:
        return os.urandom(16).hex() if self.path_on_datastore else self.datastore.name


def reference_name(name: Any) -> str:
    """Raises UserErrorException for what cannot be part of a variable's name."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    raise UserErrorException(
        f"{name!r:.100} cannot be the name of a data reference: it becomes a variable, {PREFIX}<name>.\n"
        "Use letters, digits and `_`; give data_reference_name where the datastore's own name has others."
    )


def checked_mode(mode: Any) -> str:
    if mode in MODES:
        return str(mode)
    raise UserErrorException(f"The mode of a data reference is one of {', '.join(MODES)}, found {mode!r}.")


@raises_azure_errors
class DatasetConsumptionConfig(AzureClass):
    """In a run's arguments it stands for the path of the files (mount, download) or the dataset's id (direct)."""

    def __init__(
        self, name: str, dataset: AbstractDataset, mode: str = DIRECT, path_on_compute: Optional[str] = None
    ) -> None:
        """Raises UserErrorException: a name or mode that cannot be."""
        if mode not in DATASET_MODES:
            raise UserErrorException(f"The mode of a dataset is one of {', '.join(DATASET_MODES)}, found {mode!r}.")
        if getattr(dataset, "_kind", None) == TABULAR and mode != DIRECT:
            raise UserErrorException("A tabular dataset is given as it is, not as files: leave as_mount() out.")
        self.name = reference_name(name)
        self.dataset = dataset  # or an output of an earlier run, `output.as_input()`
        self.mode = mode
        self.path_on_compute = path_on_compute

    def as_mount(self, path_on_compute: Optional[str] = None) -> DatasetConsumptionConfig:
        return DatasetConsumptionConfig(self.name, self.dataset, MOUNT, path_on_compute)

    def as_download(self, path_on_compute: Optional[str] = None) -> DatasetConsumptionConfig:
        return DatasetConsumptionConfig(self.name, self.dataset, DOWNLOAD, path_on_compute)

    def as_direct(self) -> DatasetConsumptionConfig:
        return DatasetConsumptionConfig(self.name, self.dataset, DIRECT)

    def as_hdfs(self) -> DatasetConsumptionConfig:
        raise UserErrorException("as_hdfs() is for Spark, which Runyard does not run. Use as_mount().")

    def __str__(self) -> str:
        return f"DatasetConsumptionConfig:{self.name}"

    __repr__ = __str__

    def _given(self) -> AbstractDataset:
        """Return the dataset; that of an earlier run's output is known when that run has ended."""
        make = getattr(self.dataset, "_written_dataset", None)
        found: AbstractDataset = self.dataset if make is None else make()
        return found

    def _spec(self) -> DatasetInputSpec:
        dataset = self._given()
        return DatasetInputSpec(
            dataset._spec, self.mode, self.path_on_compute, dataset.name or "", dataset.version or 0
        )


def place_of_target(target: Any) -> Tuple[Any, str]:
    """Return the datastore and the path on it that `(datastore, 'path')` or a DataPath means.

    Raises:
        UserErrorException: it means none.
    """
    if isinstance(target, DataPath):
        target = (target.datastore, target.path_on_datastore)
    if not isinstance(target, tuple) or len(target) != 2 or not hasattr(target[0], "datastore_type"):
        raise UserErrorException(f"A place on a datastore is written as (datastore, 'path'), found {target!r:.100}.")
    return target[0], clean_data_path(target[1])


@raises_azure_errors
class DataPathComputeBinding(AzureClass):
    def __init__(self, mode: str = "mount", path_on_compute: Optional[str] = None, overwrite: bool = False) -> None:
        self.mode = checked_mode(mode)
        self.path_on_compute = path_on_compute
        self.overwrite = overwrite

    def create_data_reference(self, data_reference_name: str, datapath: DataPath) -> DataReference:
        return datapath.create_data_reference(data_reference_name, self)


@raises_azure_errors
class DataPath(AzureClass):
    def __init__(
        self,
        datastore: Optional[Datastore] = None,
        path_on_datastore: Optional[str] = None,
        name: Optional[str] = None,
        *,
        datastore_name: Optional[str] = None,
        relative_path: Optional[str] = None,
    ) -> None:
        if (datastore is not None and datastore_name) or (path_on_datastore is not None and relative_path is not None):
            raise UserErrorException("datastore_name and relative_path stand for datastore and path_on_datastore.")
        if datastore is not None and not hasattr(datastore, "datastore_type"):
            raise UserErrorException(f"datastore must be a Datastore, found {type(datastore).__name__}.")
        check_texts(name=name, datastore_name=datastore_name)
        self._datastore = datastore
        self._datastore_name = datastore_name
        self.path_on_datastore = (
            clean_data_path(relative_path if path_on_datastore is None else path_on_datastore) or None
        )
        self.name = name

    @property
    def datastore(self) -> Optional[Datastore]:
        """The datastore; one that was named is that of the workspace that `config.json` names."""
        if self._datastore is None and self._datastore_name:
            from runyard.sdk.data.datastore import Datastore  # which knows this class too
            from runyard.sdk.workspaces.workspace import Workspace

            self._datastore = Datastore(Workspace.from_config(), self._datastore_name)
        return self._datastore

    @property
    def datastore_name(self) -> Optional[str]:
        return self._datastore_name if self._datastore is None else self._datastore.name

    @staticmethod
    def create_from_data_reference(data_reference: DataReference) -> DataPath:
        return DataPath(data_reference.datastore, data_reference.path_on_datastore, data_reference.data_reference_name)

    def create_data_reference(
        self,
        data_reference_name: Optional[str] = None,
        datapath_compute_binding: Optional[DataPathComputeBinding] = None,
    ) -> DataReference:
        """Raises UserErrorException when it has no datastore."""
        how = datapath_compute_binding or DataPathComputeBinding()
        return DataReference(
            self.datastore,  # type: ignore[arg-type]  # None is refused there, with words
            data_reference_name or self.name,
            self.path_on_datastore,
            how.mode,
            how.path_on_compute,
            how.overwrite,
        )

    def __repr__(self) -> str:
        return f"DataPath(datastore={self.datastore_name!r}, path_on_datastore={self.path_on_datastore!r})"
