"""Names of later releases import, are classes, and say on use what is missing."""

from __future__ import annotations

import copy

import pytest

from runyard.core.errors import NotYetSupported
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.placeholders import placeholder

Pipeline = placeholder("azureml.pipeline.core.Pipeline")


def test_construction_and_attributes_are_refused_by_name() -> None:
    with pytest.raises(UserErrorException, match=r"`azureml\.pipeline\.core\.Pipeline` is not there yet") as caught:
        Pipeline("name")
    assert isinstance(caught.value, NotYetSupported) and isinstance(caught.value, NotImplementedError)

    with pytest.raises(NotYetSupported, match=r"`azureml\.pipeline\.core\.Pipeline\.register` is not there yet"):
        Pipeline.register(model_path="x")


def test_it_takes_part_in_isinstance_and_inheritance() -> None:
    class Mine(Pipeline):  # type: ignore[misc, valid-type]  # made at run time
        pass

    assert not isinstance(3, Pipeline)
    assert issubclass(Mine, Pipeline)
    with pytest.raises(NotYetSupported):
        Mine()


def test_it_can_be_inspected() -> None:
    assert repr(Pipeline) == "<azureml.pipeline.core.Pipeline: not in this version of Runyard>"
    assert not hasattr(Pipeline, "__wrapped__")
    assert not hasattr(Pipeline, "_repr_html_")
    assert copy.copy(Pipeline) is Pipeline
