"""Names of later releases import, are classes, and say on use what is missing."""

from __future__ import annotations

import copy

import pytest

from runyard.core.errors import NotYetSupported
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.placeholders import placeholder

Model = placeholder("azureml.core.model.ModelPackage")


def test_construction_and_attributes_are_refused_by_name() -> None:
    with pytest.raises(UserErrorException, match=r"`azureml\.core\.model\.ModelPackage` is not there yet") as caught:
        Model("name")
    assert isinstance(caught.value, NotYetSupported) and isinstance(caught.value, NotImplementedError)

    with pytest.raises(NotYetSupported, match=r"`azureml\.core\.model\.ModelPackage\.register` is not there yet"):
        Model.register(model_path="x")


def test_it_takes_part_in_isinstance_and_inheritance() -> None:
    class Mine(Model):  # type: ignore[misc, valid-type]  # made at run time
        pass

    assert not isinstance(3, Model)
    assert issubclass(Mine, Model)
    with pytest.raises(NotYetSupported):
        Mine()


def test_it_can_be_inspected() -> None:
    assert repr(Model) == "<azureml.core.model.ModelPackage: not in this version of Runyard>"
    assert not hasattr(Model, "__wrapped__")
    assert not hasattr(Model, "_repr_html_")
    assert copy.copy(Model) is Model
