"""What `runyard` lists is what it gives and what the reference page describes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import runyard

PAGE = Path(__file__).parent.parent.parent / "docs/reference/sdk.md"


def test_the_reference_page_describes_every_public_name_and_no_other() -> None:
    table = PAGE.read_text().split("## Run")[0]
    described = set(re.findall(r"`([A-Za-z_]+)`", " ".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE))))

    assert described == set(runyard.__all__)


@pytest.mark.parametrize("name", runyard.__all__)
def test_every_public_name_loads(name: str) -> None:
    assert getattr(runyard, name).__name__ == name


def test_the_list_is_sorted_and_complete() -> None:
    assert runyard.__all__ == sorted(runyard.__all__)
    assert set(runyard.__all__) == set(runyard._HOMES)
    assert set(runyard.__all__) <= set(dir(runyard))


def test_other_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = runyard.Nothing
