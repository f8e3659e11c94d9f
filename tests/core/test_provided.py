"""Packages whose place Runyard takes."""

from __future__ import annotations

import pytest

from runyard.core.provided_packages import is_provided, package_name, split_provided


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("azureml-defaults", True),
        ("AzureML_Defaults==1.0.43", True),
        ("azureml-sdk[notebooks,automl]>=1.1", True),
        ("azureml-train-automl-runtime", True),
        ("azureml-contrib-fairness", True),
        ("azureml.dataset.runtime[pandas]", True),
        (" azureml-widgets ; python_version < '3.9'", True),
        ("runyard", True),
        ("azure-storage-blob", False),
        ("azureml-defaultsx", False),
        ("my-azureml-core", False),
        ("scikit-learn", False),
        ("https://host/azureml-core.whl", False),
        ("", False),
    ],
)
def test_they_are_known_by_name_in_any_spelling(requirement: str, expected: bool) -> None:
    assert is_provided(requirement) is expected


def test_they_are_told_from_what_must_be_installed() -> None:
    assert split_provided(["b", "azureml-core", "a", "azureml-sdk"]) == (["b", "a"], ["azureml-core", "azureml-sdk"])


def test_names_have_one_form() -> None:
    assert [package_name(text) for text in ("Foo.Bar_baz>=1", "x[y]", " z ", "-e .")] == ["foo-bar-baz", "x", "z", ""]
