"""`DataReference`: data of a datastore that a run gets as a path."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Optional

from runyard.data.paths import clean_data_path
from runyard.data.references import MODES, PREFIX
from runyard.sdk.errors import translates_errors
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.run_config.run_configuration import DataReferenceConfiguration

if TYPE_CHECKING:
    from runyard.sdk.data.datastore import Datastore

_NAME = re.compile(r"\w+", re.ASCII)


@translates_errors
class DataReference:
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
