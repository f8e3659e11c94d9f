"""Open datasets without the internet."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureml.opendatasets import MNIST, Diabetes
from runyard.sdk.data.opendatasets import MNIST_FILES
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.workspaces.workspace import Workspace


def test_mnist_says_where_its_files_belong_and_is_found_there(workspace: Workspace, tmp_path: Path) -> None:
    with pytest.raises(UserErrorException, match="target_path='opendatasets/mnist'"):
        MNIST.get_file_dataset()
    for name in MNIST_FILES:
        (tmp_path / "files").mkdir(exist_ok=True)
        (tmp_path / "files" / name).write_text(name)
    workspace.get_default_datastore().upload(str(tmp_path / "files"), "opendatasets/mnist", show_progress=False)

    assert MNIST.get_file_dataset().to_path() == [f"/{name}" for name in MNIST_FILES]
    assert MNIST.get_file_dataset("test").to_path() == [f"/{name}" for name in MNIST_FILES[2:]]


def test_diabetes_comes_out_of_scikit_learn(workspace: Workspace) -> None:
    frame = Diabetes.get_tabular_dataset().to_pandas_dataframe()

    assert list(frame.columns) == ["AGE", "SEX", "BMI", "BP", "S1", "S2", "S3", "S4", "S5", "S6", "Y"]
    assert (len(frame), frame["AGE"][0], frame["Y"][0]) == (442, 59.0, 151.0)
