"""`DataPath`: a place on a datastore, and `DataPathComputeBinding`: how a run gets it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from runyard.data.paths import clean_data_path
from runyard.sdk.data.data_reference import DataReference, checked_mode
from runyard.sdk.errors import translates_errors

if TYPE_CHECKING:
    from runyard.sdk.data.datastore import Datastore


class DataPathComputeBinding:
    def __init__(self, mode: str = "mount", path_on_compute: Optional[str] = None, overwrite: bool = False) -> None:
        self.mode = checked_mode(mode)
        self.path_on_compute = path_on_compute
        self.overwrite = overwrite

    def create_data_reference(self, data_reference_name: str, datapath: DataPath) -> DataReference:
        return datapath.create_data_reference(data_reference_name, self)


@translates_errors
class DataPath:
    def __init__(
        self,
        datastore: Optional[Datastore] = None,
        path_on_datastore: Optional[str] = None,
        name: Optional[str] = None,
    ) -> None:
        self.datastore = datastore
        self.path_on_datastore = clean_data_path(path_on_datastore) or None
        self.name = name

    @property
    def datastore_name(self) -> Optional[str]:
        return None if self.datastore is None else self.datastore.name

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
