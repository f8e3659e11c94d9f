from __future__ import annotations

import math
from typing import Any

import pytest
from my_runyard.halton import HaltonSampler
from my_runyard.patience import Patience

from runyard.core.errors import InvalidArgument
from runyard.core.specs import MINIMIZE, SweepSpec, Trial
from runyard.tuning import get_policy, get_sampler


def sweep(space: dict[str, list[Any]], **more: Any) -> SweepSpec:
    return SweepSpec("HALTON", space, "loss", goal=MINIMIZE, policy="Patience", **more)


def test_trials_fill_the_space_evenly() -> None:
    space: dict[str, list[Any]] = {
        "--x": ["uniform", [0, 8]],
        "--kernel": ["choice", [["a", "b", "c"]]],
        "--lr": ["loguniform", [-2, 0]],
    }
    sampler = get_sampler(sweep(space))
    trials = [sampler.sample(index, []) for index in range(6)]

    assert isinstance(sampler, HaltonSampler)
    assert [trial["--x"] for trial in trials if trial] == [4, 2, 6, 1, 5, 3]
    assert [trial["--kernel"] for trial in trials if trial] == ["b", "c", "a", "b", "c", "a"]
    assert all(math.exp(-2) <= trial["--lr"] <= 1 for trial in trials if trial)
    assert sampler.sample(3, []) == sampler.sample(3, [Trial("earlier")])


def test_a_space_that_it_cannot_sample_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="cannot sample"):
        get_sampler(sweep({"--x": ["normal", [0, 1]]}))


@pytest.mark.parametrize(
    ("values", "stop"),
    [([3.0, 2.0], False), ([3.0, 2.0, 1.0], False), ([1.0, 2.0, 1.0], True), ([2.0, 2.0, 2.0], True)],
)
def test_a_trial_is_stopped_when_its_last_values_bring_nothing(values: list[float], stop: bool) -> None:
    policy = get_policy(sweep({"--x": ["uniform", [0, 1]]}, policy_properties={"patience": 2}))
    trial = Trial("t", values=values)

    assert isinstance(policy, Patience)
    assert policy.decide(trial, len(values), [trial]).stop is stop
