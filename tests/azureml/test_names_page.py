"""The generated page of names says of each what is true. That it is up to date, tests/test_docs.py checks."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from tests.azureml.test_import_map import HERE, LATER

PAGE = Path(__file__).parent.parent.parent / "docs/reference/azureml-names.md"
STATES = ("supported", "without effect", "not yet")


def state(owner: str, name: str) -> str:
    """Return the column in which the owner's row has `name`."""
    row = re.search(rf"^\| `{re.escape(owner)}` \|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    assert row is not None, owner
    cells = [cell.split() for cell in row.group(1).split("|")]
    return next(column for column, cell in zip(STATES, cells, strict=True) if f"`{name}`" in cell)


@pytest.mark.parametrize("module", sorted({*HERE, *LATER} - {"azureml.mlflow"}))
def test_every_name_that_a_module_exports_has_a_state(module: str) -> None:
    exported = importlib.import_module(module).__all__

    assert exported
    for name in exported:
        assert state(module, name) in STATES


@pytest.mark.parametrize(
    ("owner", "name", "expected"),
    [
        ("Run", "log", "supported"),
        ("Run", "take_snapshot", "supported"),
        ("Run", "start", "without effect"),
        ("Run", "register_model", "supported"),
        ("Run", "input_datasets", "supported"),
        ("Experiment", "submit", "supported"),
        ("Environment", "from_docker_image", "supported"),
        ("RunConfiguration", "prepare_environment", "without effect"),
        ("RunConfiguration", "target", "supported"),
        ("ScriptRunConfig", "arguments", "supported"),
        ("_OfflineRun", "log_row", "supported"),
        ("azureml.core", "Workspace", "supported"),
        ("azureml.core.authentication", "MsiAuthentication", "without effect"),
        ("azureml.train.dnn", "TensorFlow", "supported"),
        ("azureml.core.dataset", "Dataset", "supported"),
        ("Datastore", "upload_files", "supported"),
        ("Datastore", "register_azure_blob_container", "supported"),
    ],
)
def test_a_name_is_in_the_column_that_it_belongs_to(owner: str, name: str, expected: str) -> None:
    assert state(owner, name) == expected
