"""Open datasets that Azure's samples use, without Azure: from the workspace's own datastore, or out of scikit-learn."""

from __future__ import annotations

import os
import tempfile
from importlib import import_module
from typing import Any

from runyard.core.errors import NotFound
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.data.dataset import FileDatasetFactory, TabularDatasetFactory
from runyard.sdk.data.kinds import FileDataset, TabularDataset
from runyard.sdk.errors import translates
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.workspaces.workspace import Workspace

PLACE = "opendatasets"
MNIST_FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
_COLUMNS = ("AGE", "SEX", "BMI", "BP", "S1", "S2", "S3", "S4", "S5", "S6")


class MNIST(AzureClass):
    """The four files of handwritten digits, once you have put them on the workspace's datastore."""

    @staticmethod
    @translates
    def get_file_dataset(dataset_filter: str = "all", enable_telemetry: bool = True) -> FileDataset:
        """Return the files; `dataset_filter` may be `train` or `test`.

        Raises:
            UserErrorException: they are not there; says where they belong.
        """
        wanted = [name for name in MNIST_FILES if dataset_filter == "all" or _part(name) == dataset_filter]
        if not wanted:
            raise UserErrorException(f"dataset_filter is all, train or test, found {dataset_filter!r}.")
        datastore = Workspace.from_config().get_default_datastore()
        try:
            return FileDatasetFactory.from_files([(datastore, f"{PLACE}/mnist/{name}") for name in wanted])
        except NotFound as error:
            raise UserErrorException(
                "The MNIST files are not on this workspace's datastore; nothing is fetched from the internet.\n"
                f"Get these four files: {', '.join(MNIST_FILES)}, then:\n"
                f"ws.get_default_datastore().upload('./folder-with-them', target_path='{PLACE}/mnist')"
            ) from error

    get_tabular_dataset = get_file_dataset


class Diabetes(AzureClass):
    """The diabetes data of scikit-learn, under the names that Azure's samples know: AGE … S6 and the target Y."""

    @staticmethod
    @translates
    def get_tabular_dataset(enable_telemetry: bool = True) -> TabularDataset:
        """Raises UserErrorException: scikit-learn or pyarrow is not installed here."""
        datastore = Workspace.from_config().get_default_datastore()
        place = f"{PLACE}/diabetes"
        if datastore._storage().find_file(f"{place}/diabetes.parquet") is None:
            with tempfile.TemporaryDirectory(prefix="runyard-diabetes-") as scratch:
                path = os.path.join(scratch, "diabetes.parquet")
                _frame().to_parquet(path)
                datastore.upload_files([path], target_path=place, overwrite=True, show_progress=False)
        return TabularDatasetFactory.from_parquet_files((datastore, f"{place}/diabetes.parquet"))


def _part(name: str) -> str:
    return "test" if name.startswith("t10k") else "train"


def _frame() -> Any:
    try:
        pandas, sklearn = import_module("pandas"), import_module("sklearn.datasets")
    except ImportError as error:
        raise UserErrorException(
            f"The diabetes data comes out of scikit-learn, which cannot be loaded here ({error}).\n"
            "pip install scikit-learn pandas pyarrow"
        ) from error
    found = sklearn.load_diabetes(scaled=False)
    return pandas.DataFrame(found.data, columns=list(_COLUMNS)).assign(Y=found.target)
