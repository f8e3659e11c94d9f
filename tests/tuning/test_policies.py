"""Stopping policies: each decision against a plain recomputation of the documented rule."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runyard.core.specs import MAXIMIZE, MINIMIZE, SweepSpec, Trial
from runyard.tuning import get_policy

VALUES = st.floats(-1e3, 1e3, allow_nan=False).map(lambda value: round(value, 3))
HISTORIES = st.lists(st.lists(VALUES, min_size=1, max_size=8), min_size=1, max_size=8)
GOALS = st.sampled_from([MAXIMIZE, MINIMIZE])


def sweep(policy: str, goal: str = MAXIMIZE, **properties: float) -> SweepSpec:
    return SweepSpec("RANDOM", {}, "accuracy", goal=goal, policy=policy, policy_properties=properties)


def trials_of(histories: list[list[float]]) -> list[Trial]:
    return [Trial(f"t{number}", values=values) for number, values in enumerate(histories)]


def worse(value: float, bound: float, goal: str) -> bool:
    return value < bound if goal == MAXIMIZE else value > bound


@pytest.mark.long
@settings(max_examples=250, deadline=None)
@given(HISTORIES, GOALS, st.floats(0.01, 2.0), st.booleans())
def test_bandit_stops_exactly_who_is_beyond_the_slack(
    histories: list[list[float]], goal: str, slack: float, is_factor: bool
) -> None:
    name = "slack_factor" if is_factor else "slack_amount"
    policy = get_policy(sweep("Bandit", goal, **{name: slack}))
    trials = trials_of(histories)
    for trial in trials:
        interval = len(trial.values)
        pick = max if goal == MAXIMIZE else min
        best = pick(value for one in trials for value in one.values[:interval])
        own = pick(trial.values)
        if not is_factor:
            bound = best - slack if goal == MAXIMIZE else best + slack
        elif (best >= 0) == (goal == MAXIMIZE):
            bound = best / (1 + slack)
        else:
            bound = best * (1 + slack)

        assert policy.decide(trial, interval, trials).stop is worse(own, bound, goal)


@settings(max_examples=250, deadline=None)
@given(HISTORIES, GOALS)
def test_median_stops_exactly_who_is_worse_than_the_median_average(histories: list[list[float]], goal: str) -> None:
    policy = get_policy(sweep("MedianStopping", goal))
    trials = trials_of(histories)
    for trial in trials:
        interval = len(trial.values)
        heads = [list(map(Fraction, one.values[:interval])) for one in trials]
        averages = sorted(sum(head, Fraction()) / len(head) for head in heads)
        middle = len(averages) // 2
        median = averages[middle] if len(averages) % 2 else (averages[middle - 1] + averages[middle]) / 2
        own = max(trial.values) if goal == MAXIMIZE else min(trial.values)
        decision = policy.decide(trial, interval, trials)

        if abs(Fraction(own) - median) > Fraction(1, 10**6):  # closer, the mean's last bits decide
            assert decision.stop is worse(own, float(median), goal)


@settings(max_examples=250, deadline=None)
@given(HISTORIES, GOALS, st.integers(1, 99))
def test_truncation_stops_exactly_the_worst_share(histories: list[list[float]], goal: str, percentage: int) -> None:
    policy = get_policy(sweep("TruncationSelection", goal, truncation_percentage=percentage))
    trials = trials_of(histories)
    for trial in trials:
        interval = len(trial.values)
        own = trial.values[interval - 1]
        there = [one.values[interval - 1] for one in trials if len(one.values) >= interval]
        # Stopped: at most the share, and everybody at or below it in rank, so ties with a survivor go on.
        no_better = sum(1 for value in there if not worse(own, value, goal))
        expected = no_better <= len(there) * percentage // 100

        assert policy.decide(trial, interval, trials).stop is expected


@settings(max_examples=200, deadline=None)
@given(HISTORIES, GOALS, st.floats(0.01, 2.0))
@example([[683.008, 683.008, 683.008]], MAXIMIZE, 1.0)  # their mean is rounded up
def test_the_best_trial_is_never_stopped(histories: list[list[float]], goal: str, slack: float) -> None:
    trials = trials_of(histories)
    pick = max if goal == MAXIMIZE else min
    best = pick(trials, key=lambda trial: pick(trial.values))
    interval = len(best.values)
    bandits = [sweep("Bandit", goal, slack_factor=slack), sweep("Bandit", goal, slack_amount=slack)]

    for spec in [*bandits, sweep("MedianStopping", goal)]:
        assert get_policy(spec).decide(best, interval, trials).stop is False


@settings(max_examples=200, deadline=None)
@given(HISTORIES, st.floats(0.01, 2.0))
def test_minimising_is_maximising_with_the_sign_turned(histories: list[list[float]], slack: float) -> None:
    trials = trials_of(histories)
    mirrored = trials_of([[-value for value in values] for values in histories])
    truncation: tuple[str, dict[str, float]] = ("TruncationSelection", {"truncation_percentage": 40})
    policies = [("Bandit", {"slack_factor": slack}), truncation]
    for name, properties in policies:
        up, down = get_policy(sweep(name, MAXIMIZE, **properties)), get_policy(sweep(name, MINIMIZE, **properties))
        for trial, mirror in zip(trials, mirrored):
            interval = len(trial.values)

            assert up.decide(trial, interval, trials).stop is down.decide(mirror, interval, mirrored).stop


def test_older_trials_are_compared_by_their_earlier_intervals() -> None:
    old, young = Trial("old", values=[0.1, 0.2, 0.9]), Trial("young", values=[0.15])
    policy = get_policy(sweep("Bandit", slack_amount=0.01))

    assert policy.decide(young, 1, [old, young]).stop is False
    assert policy.decide(Trial("young", values=[0.15, 0.15]), 2, [old, young]).stop is True


def test_truncation_can_leave_finished_trials_out() -> None:
    finished = [Trial(f"f{number}", values=[0.1], is_finished=True) for number in range(4)]
    trials = [*finished, Trial("a", values=[0.2]), Trial("b", values=[0.9])]
    properties: dict[str, float] = {"truncation_percentage": 50, "exclude_finished_jobs": True}

    everybody = get_policy(sweep("TruncationSelection", truncation_percentage=50))
    without = get_policy(sweep("TruncationSelection", MAXIMIZE, **properties))

    assert everybody.decide(trials[4], 1, trials).stop is False
    assert without.decide(trials[4], 1, trials).stop is True


def test_a_decision_says_what_it_compared() -> None:
    leader, behind = Trial("a", values=[0.8]), Trial("b", values=[0.5])
    decision = get_policy(sweep("Bandit", slack_factor=0.1)).decide(behind, 1, [leader, behind])

    assert decision.stop and decision.found == 0.5 and decision.bound == pytest.approx(0.8 / 1.1)
    assert "0.5" in decision.reason and "0.727273" in decision.reason and "slack_factor 0.1" in decision.reason


@pytest.mark.parametrize(
    ("interval", "delay", "due"),
    [(1, 0, [1, 2, 3, 4, 5, 6]), (2, 0, [2, 4, 6]), (1, 4, [4, 5, 6]), (2, 5, [6]), (3, 3, [3, 6])],
)
def test_a_policy_looks_at_multiples_of_its_interval_from_the_delay_on(
    interval: int, delay: int, due: list[int]
) -> None:
    policy = get_policy(sweep("Bandit", slack_amount=1, evaluation_interval=interval, delay_evaluation=delay))

    assert [number for number in range(1, 7) if policy.is_due(number)] == due


def test_without_a_policy_nobody_is_ever_looked_at() -> None:
    assert not any(get_policy(sweep("Default")).is_due(number) for number in range(1, 50))


@pytest.mark.parametrize(
    ("name", "properties"),
    [
        ("Bandit", {"slack_factor": 0.1}),
        ("MedianStopping", {}),
        ("TruncationSelection", {"truncation_percentage": 50}),
    ],
)
@pytest.mark.parametrize("goal", [MAXIMIZE, MINIMIZE])
def test_nan_is_the_worst_value_and_breaks_nothing(name: str, properties: dict[str, float], goal: str) -> None:
    lost, fine = Trial("lost", values=[math.nan, math.nan]), Trial("fine", values=[0.5, 0.6])
    policy = get_policy(sweep(name, goal, **properties))

    assert policy.decide(lost, 2, [lost, fine]).stop is True
    assert policy.decide(fine, 2, [lost, fine]).stop is False
    assert policy.decide(lost, 2, [lost]).stop is False
    assert policy.decide(Trial("silent"), 0, [lost, fine]).stop is False
