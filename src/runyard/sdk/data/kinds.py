"""`FileDataset`: files of a datastore or of the web, as one thing that runs can get and that is registered by name."""

from __future__ import annotations

import os
import tempfile
from typing import List, Optional

from runyard.core.datasets import MOUNT, DatasetInputSpec
from runyard.core.errors import NotFound
from runyard.data.dataset_views import bring_dataset, fetch_all
from runyard.data.datasets import list_files, opened_once
from runyard.data.references import Node
from runyard.sdk.data.abstract_dataset import AbstractDataset, invented_name
from runyard.sdk.data.inputs import DatasetConsumptionConfig
from runyard.sdk.errors import translates_errors
from runyard.sdk.exceptions import UserErrorException


@translates_errors
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
        fetch_all(list(zip(files, targets)), opened)
        return [os.path.abspath(target) for target in targets]

    def mount(self, mount_point: Optional[str] = None) -> MountContext:
        """Return what shows the files in a folder of this machine: `with dataset.mount() as mounted: …`."""
        return MountContext(self, mount_point)

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
