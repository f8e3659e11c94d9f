"""Bayesian sampling by Optuna: asked from a history, it answers with values of the space and goes where it is good."""

from __future__ import annotations

import math
from typing import Any

from runyard.core.specs import MINIMIZE, SweepSpec, Trial
from runyard.tuning import get_sampler

SPACE: dict[str, list[Any]] = {
    "x": ["uniform", [-10, 10]],
    "n": ["quniform", [16, 128, 16]],
    "kind": ["choice", [["a", "b"]]],
}
SPEC = SweepSpec("BayesianOptimization", SPACE, "loss", goal=MINIMIZE, seed=5)


def played(count: int, seed: int = 5) -> list[Trial]:
    """Play a search for the smallest x² with a worse `b`."""
    sampler = get_sampler(SweepSpec("BayesianOptimization", SPACE, "loss", goal=MINIMIZE, seed=seed))
    trials: list[Trial] = []
    for index in range(count):
        drawn = sampler.sample(index, trials)
        assert drawn is not None
        loss = drawn["x"] ** 2 + (20 if drawn["kind"] == "b" else 0)
        trials.append(Trial(f"t{index}", drawn, [loss + 1, loss], is_finished=True))
    return trials


def test_values_are_of_the_space() -> None:
    trials = played(15)

    assert all(-10 <= trial.parameters["x"] <= 10 and trial.parameters["kind"] in "ab" for trial in trials)
    assert all(trial.parameters["n"] % 16 == 0 and 16 <= trial.parameters["n"] <= 128 for trial in trials)
    assert list(trials[0].parameters) == list(SPACE)


def test_later_trials_go_where_earlier_ones_were_good() -> None:
    trials = played(40)
    early, late = (sum(trial.values[-1] for trial in part) / 10 for part in (trials[:10], trials[-10:]))

    assert late < early / 2


def test_the_same_history_gives_the_same_answer() -> None:
    history = played(14)
    sampler = get_sampler(SPEC)

    assert sampler.sample(14, history) == sampler.sample(14, history) == get_sampler(SPEC).sample(14, history)


def test_running_failed_and_nan_trials_break_nothing() -> None:
    values = {"x": 1.0, "n": 16, "kind": "a"}
    history = [
        Trial("running", values),
        Trial("failed", values, is_finished=True),
        Trial("nan", values, [math.nan], is_finished=True),
        *played(12),
    ]

    assert get_sampler(SPEC).sample(len(history), history) is not None
