"""A15 to A17 against the names that the store itself takes: keys and the names in trees."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runyard.artifacts.filesystem import FilesystemStore
from runyard.core.errors import InvalidArgument, StoreUnavailable
from runyard.core.formats.tree import name_fault
from tests.attacks.payloads import absolutes, behind_marks, traversals

CANARY = b"canary"


def payloads(canary: Path) -> list[str]:
    below = str(canary).lstrip("/")
    return [*traversals(below), *traversals("canary"), *absolutes(str(canary)), *behind_marks(str(canary))]


@pytest.mark.long
@pytest.mark.slow
def test_no_key_leads_out_of_the_root(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.write_bytes(CANARY)
    store = FilesystemStore(tmp_path / "artifacts")
    names = payloads(canary)
    assert len(names) > 1000
    assert any(reaches(os.path.join(tmp_path, "artifacts", name), canary) for name in names), "the control is bitten"

    for name in names:
        try:
            store.append(name, 0, b"overwritten")
            assert store.read_stream(name) == b"overwritten"
            store.delete(name)
        except (InvalidArgument, StoreUnavailable):
            pass
    store.close()

    assert canary.read_bytes() == CANARY
    assert sorted(os.listdir(tmp_path)) == ["artifacts", "canary"]


def reaches(path: str, canary: Path) -> bool:
    try:
        return os.path.samefile(path, canary)
    except (OSError, ValueError):
        return False


def test_a_name_in_a_tree_is_one_plain_part_of_a_path(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    for name in payloads(tmp_path / "canary"):
        if not name_fault(name):
            assert os.path.dirname(os.path.abspath(tmp_path / "root" / name)) == str(tmp_path / "root"), name


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "/", "\0", "../x", "x/.."], ids=repr)
def test_the_dangerous_names_themselves_are_found(name: str) -> None:
    assert name_fault(name)
