"""Samplers: what they draw, in which order, and that the seed alone decides."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest

from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.specs import SweepSpec
from runyard.tuning import get_policy, get_sampler

KERNELS = ["linear", "rbf", "poly", "sigmoid"]
IRIS: dict[str, list[Any]] = {"--kernel": ["choice", [KERNELS]], "--penalty": ["choice", [[0.5, 1, 1.5]]]}


def samples(sampling: str, space: dict[str, list[Any]], count: int, seed: int = 7) -> list[dict[str, Any] | None]:
    sampler = get_sampler(SweepSpec(sampling, space, "m", seed=seed))
    return [sampler.sample(index, []) for index in range(count)]


def test_a_grid_is_every_combination_once_with_the_last_parameter_fastest() -> None:
    found = samples("GRID", IRIS, 13)

    assert found[:4] == [
        {"--kernel": "linear", "--penalty": 0.5},
        {"--kernel": "linear", "--penalty": 1},
        {"--kernel": "linear", "--penalty": 1.5},
        {"--kernel": "rbf", "--penalty": 0.5},
    ]
    assert len({tuple(one.values()) for one in found if one}) == 12 and found[12] is None


def test_a_random_search_of_a_countable_space_meets_every_combination_once() -> None:
    found = samples("RANDOM", IRIS, 13)

    assert len({tuple(one.values()) for one in found if one}) == 12 and found[12] is None
    assert found != samples("GRID", IRIS, 13)


def test_the_seed_alone_decides_and_another_seed_gives_another_order() -> None:
    space = {**IRIS, "--lr": ["loguniform", [-6, -1]]}

    assert samples("RANDOM", space, 20) == samples("RANDOM", space, 20)
    assert samples("RANDOM", space, 20)[13] == get_sampler(SweepSpec("RANDOM", space, "m", seed=7)).sample(13, [])
    assert samples("RANDOM", space, 20) != samples("RANDOM", space, 20, seed=8)
    assert samples("RANDOM", IRIS, 12) != samples("RANDOM", IRIS, 12, seed=8)


def test_a_huge_countable_space_gives_no_combination_twice() -> None:
    space = {"a": ["randint", [1000]], "b": ["randint", [1000]]}
    found = [tuple(one.values()) for one in samples("RANDOM", space, 300) if one]

    assert len(set(found)) == 300


@pytest.mark.parametrize(
    ("expression", "low", "high", "mean"),
    [
        (["uniform", [2, 4]], 2, 4, 3.0),
        (["loguniform", [-2, 2]], math.exp(-2), math.exp(2), (math.exp(2) - math.exp(-2)) / 4),
        (["normal", [10, 2]], -math.inf, math.inf, 10.0),
        (["lognormal", [0, 0.5]], 0, math.inf, math.exp(0.125)),
        (["quniform", [0, 100, 10]], 0, 100, 50.0),
        (["qnormal", [50, 10, 5]], -math.inf, math.inf, 50.0),
        (["qloguniform", [0, 3, 1]], 1, 20, (math.exp(3) - 1) / 3),
        (["qlognormal", [3, 0.2, 1]], 0, math.inf, math.exp(3.02)),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, list) else "",
)
def test_an_expression_draws_from_its_range_with_its_mean(
    expression: list[Any], low: float, high: float, mean: float
) -> None:
    found = [float(one["x"]) for one in samples("RANDOM", {"x": expression}, 4000) if one]

    assert all(low <= value <= high for value in found)
    assert abs(statistics.fmean(found) - mean) < 5 * statistics.stdev(found) / math.sqrt(len(found))


def test_quantised_values_are_whole_multiples_and_whole_numbers() -> None:
    found = [one["x"] for one in samples("RANDOM", {"x": ["quniform", [16, 128, 16]]}, 200) if one]

    assert {type(value) for value in found} == {int}
    assert {value % 16 for value in found} == {0} and {min(found), max(found)} == {16, 128}


def test_randint_draws_below_its_bound() -> None:
    assert sorted(one["x"] for one in samples("RANDOM", {"x": ["randint", [5]]}, 5) if one) == [0, 1, 2, 3, 4]


def test_what_a_grid_cannot_count_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="`--lr`, a uniform"):
        get_sampler(SweepSpec("GRID", {"--lr": ["uniform", [0, 1]]}, "m"))


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(NotFound, match="GRID"):
        get_sampler(SweepSpec("MAGIC", {}, "m"))
    with pytest.raises(NotFound, match="Bandit"):
        get_policy(SweepSpec("GRID", {}, "m", policy="MAGIC"))
    with pytest.raises(InvalidArgument, match="gaussian"):
        samples("RANDOM", {"x": ["gaussian", [0, 1]]}, 1)


@pytest.mark.parametrize("sampling", ["RANDOM", "GRID"])
def test_a_large_range_of_numbers_takes_no_memory(sampling: str) -> None:
    """`randint(10**12)` used to be written out as a list, on the server."""
    found = samples(sampling, {"seed": ["randint", [10**12]], "lr": ["choice", [[1, 2]]]}, 4)[3]

    assert found is not None and 0 <= found["seed"] < 10**12


def test_a_range_beyond_counting_is_drawn_from() -> None:
    found = samples("RANDOM", {"seed": ["randint", [10**30]]}, 1)[0]

    assert found is not None and 0 <= found["seed"] < 10**30
