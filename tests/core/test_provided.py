"""Microsoft's azureml packages in lists of requirements."""

from __future__ import annotations

import pytest

from runyard.core.provided_packages import (
    brought_by,
    find_left_out,
    package_name,
    split_provided,
    tell_absent,
    tell_left_out,
)


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("azureml-defaults", "provided"),
        ("AzureML_Defaults==1.0.43", "provided"),
        ("azureml-sdk[notebooks,automl]>=1.1", "provided"),
        ("azureml-train-automl-runtime", "absent"),
        ("azureml-train-core", "provided"),
        ("azureml-contrib-fairness", "absent"),
        ("azureml-contrib-run", "replaced"),
        ("azureml-contrib-whatever", "absent"),
        ("azureml-interpret", "replaced"),
        ("azureml.dataset.runtime[pandas]", "provided"),
        ("azureml-dataprep-rslex", "replaced"),
        (" azureml-widgets ; python_version < '3.9'", "provided"),
        ("runyard", "provided"),
        ("sklearn==0.0", "replaced"),
        ("azure-storage-blob", None),
        ("azureml-defaultsx", None),
        ("my-azureml-core", None),
        ("scikit-learn", None),
        ("https://host/azureml-core.whl", None),
        ("", None),
    ],
)
def test_they_are_known_by_name_in_any_spelling(requirement: str, expected: str | None) -> None:
    found = find_left_out(requirement)

    assert (found and found.state) == expected


def test_they_are_told_from_what_must_be_installed() -> None:
    own, left_out = split_provided(["b", "azureml-core", "a", "azureml-sdk[x]==1"])

    assert own == ["b", "a"] and [one.requirement for one in left_out] == ["azureml-core", "azureml-sdk[x]==1"]


def test_each_is_said_by_name_and_truthfully() -> None:
    lines = ["azureml-core==1.5", "azureml-mlflow", "azureml-train-automl", "azureml-defaults", "numpy"]
    _, left_out = split_provided(lines)
    absent = "azureml-train-automl is not available here: automated ML is a service of Azure's: FLAML or AutoGluon do"

    told = tell_left_out(left_out)
    assert told[:2] == [
        "Provided by Runyard: azureml-core==1.5, azureml-defaults.",
        "azureml-mlflow is replaced by mlflow-skinny.",
    ]
    assert len(told) == 3 and told[2].startswith(absent)
    assert tell_absent(left_out) == told[2:]


def test_what_they_brought_from_others_comes_along_unless_it_is_named() -> None:
    _, left_out = split_provided(["azureml-dataset-runtime[pandas, fuse]", "azureml-mlflow", "azureml-defaults"])
    brought = brought_by(left_out, [], is_base=False)

    assert "mlflow-skinny" in brought and "pyarrow" in brought and "pandas<2; python_version<'3.12'" in brought
    assert brought_by(left_out, ["pandas==1.0", "PyArrow", "numpy"], is_base=False) == ["mlflow-skinny"]
    assert "pyarrow" in brought_by(left_out, ["numpy"], is_base=True)
    assert brought_by(split_provided(["azureml-train-automl"])[1], [], is_base=False) == []


@pytest.mark.parametrize("named", ["mlflow==1.30", "MLflow", "mlflow_skinny<3"])
def test_mlflow_is_kept_as_it_is_named(named: str) -> None:
    _, left_out = split_provided(["azureml-mlflow==1.62", "azureml-contrib-run"])

    assert brought_by(left_out, [named], is_base=False) == []
    assert brought_by(left_out, ["mlflow-export-import"], is_base=False) == ["mlflow-skinny"]


def test_names_have_one_form() -> None:
    assert [package_name(text) for text in ("Foo.Bar_baz>=1", "x[y]", " z ", "-e .")] == ["foo-bar-baz", "x", "z", ""]


def test_the_defaults_bring_pandas_as_they_did_until_2021() -> None:
    """Through azureml-model-management-sdk: course notebooks name `azureml-defaults` alone and import pandas."""
    _, left_out = split_provided(["scikit-learn", "azureml-defaults"])

    assert "pandas" in brought_by(left_out, ["scikit-learn"], is_base=True)
    assert "pandas" not in brought_by(left_out, ["scikit-learn", "pandas==1.3"], is_base=True)
