"""`DatasetConsumptionConfig`: a dataset as an input of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from runyard.core.datasets import DIRECT, DOWNLOAD, MOUNT, TABULAR, DatasetInputSpec
from runyard.sdk.data.data_reference import reference_name
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.sdk.data.abstract_dataset import AbstractDataset

MODES = (DIRECT, MOUNT, DOWNLOAD)


class DatasetConsumptionConfig:
    """In a run's arguments it stands for the path of the files (mount, download) or the dataset's id (direct)."""

    def __init__(
        self, name: str, dataset: AbstractDataset, mode: str = DIRECT, path_on_compute: Optional[str] = None
    ) -> None:
        """Raises UserErrorException: a name or mode that cannot be."""
        if mode not in MODES:
            raise UserErrorException(f"The mode of a dataset is one of {', '.join(MODES)}, found {mode!r}.")
        if dataset._kind == TABULAR and mode != DIRECT:
            raise UserErrorException("A tabular dataset is given as it is, not as files: leave as_mount() out.")
        self.name = reference_name(name)
        self.dataset = dataset
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

    def _spec(self) -> DatasetInputSpec:
        dataset = self.dataset
        return DatasetInputSpec(
            dataset._spec, self.mode, self.path_on_compute, dataset.name or "", dataset.version or 0
        )
