"""Runs by the short names that people type: `GET /workspaces/{workspace}/runs/named`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from runyard.core.errors import InvalidArgument, NotFound
from tests.server.conftest import Served
from tests.server.test_routes_runs import new_run


@pytest.fixture(scope="module")
def named(shared: Served) -> Iterator[Served]:
    """`exp_1` is digits#1 of `shared`; beside it four runs of two experiments."""
    for run_id, experiment in (
        ("digits_a1", "digits"),
        ("digits_a2", "digits"),
        ("other_b1", "other"),
        ("last_c", "x"),
    ):
        shared.client.runs.create(replace(new_run(run_id), experiment=experiment, display_name=f"the {run_id}"))
    yield shared


def found(served: Served, name: str) -> str:
    return served.client.runs.find("default", name).id


@pytest.mark.parametrize(
    ("name", "run_id"),
    [
        pytest.param("digits_a1", "digits_a1", id="id"),
        pytest.param("digits#2", "digits_a2", id="experiment and number"),
        pytest.param("other#1", "other_b1", id="the same number elsewhere"),
        pytest.param("#2", "digits_a2", id="number of one run only"),
        pytest.param("2", "digits_a2", id="number without a sign"),
        pytest.param("other_", "other_b1", id="beginning of an id"),
        pytest.param("the digits_a1", "digits_a1", id="name"),
        pytest.param(" digits#2 ", "digits_a2", id="spaces around"),
        pytest.param("last", "last_c", id="last"),
    ],
)
def test_a_run_is_found_by(named: Served, name: str, run_id: str) -> None:
    assert found(named, name) == run_id


def test_a_name_that_fits_several_runs_lists_them(named: Served) -> None:
    with pytest.raises(InvalidArgument) as caught:
        found(named, "digits_a")

    assert "digits#1 (digits_a1)" in caught.value.why and "digits#2 (digits_a2)" in caught.value.why
    assert "digits#" in caught.value.hint


@pytest.mark.parametrize("name", ["digits#9", "9", "digits%", "d_gits_a1", "", "#", "none#1", "x" * 5000])
def test_a_name_that_fits_no_run_is_refused(named: Served, name: str) -> None:
    with pytest.raises(NotFound, match="There is no run"):
        found(named, name)


def test_an_unknown_workspace_is_named(named: Served) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        named.client.runs.find("nowhere", "last")
