"""The Sampler `BayesianOptimization`: Optuna's TPE, asked anew from the history each time. Extra `bayes`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from runyard.core.errors import MissingExtra
from runyard.core.specs import MAXIMIZE, SweepSpec, Trial
from runyard.tuning.base import Sampler
from runyard.tuning.policies import best_of
from runyard.tuning.samplers import split

try:
    import optuna
except ImportError as error:
    raise MissingExtra(
        "Bayesian sampling needs Optuna.",
        why="It is not installed where the server runs.",
        hint="`pip install 'runyard[bayes]'` where you submit, then `runyard server stop`.",
    ) from error

STARTUP_TRIALS = 10  # drawn at random before the model is asked


class BayesianSampler(Sampler):
    def __init__(self, spec: SweepSpec) -> None:
        self._spec = spec
        self._distributions = {name: _distribution(expression) for name, expression in spec.space.items()}

    def sample(self, index: int, history: Sequence[Trial]) -> dict[str, Any] | None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = optuna.samplers.TPESampler(
            seed=(self._spec.seed * 1_000_003 + index) % 2**32,
            n_startup_trials=STARTUP_TRIALS,
            constant_liar=True,  # trials that still run keep the next ones away
        )
        directions = optuna.study.StudyDirection
        direction = directions.MAXIMIZE if self._spec.goal == MAXIMIZE else directions.MINIMIZE
        study = optuna.create_study(sampler=sampler, direction=direction)
        for trial in history:
            study.add_trial(self._known(trial))
        return dict(study.ask(self._distributions).params)

    def _known(self, trial: Trial) -> optuna.trial.FrozenTrial:
        best = best_of(trial.values, self._spec.goal)
        is_known = trial.is_finished and best is not None and not math.isnan(best)
        failed = optuna.trial.TrialState.FAIL if trial.is_finished else optuna.trial.TrialState.RUNNING
        return optuna.trial.create_trial(
            params=trial.parameters,
            distributions=self._distributions,
            value=best if is_known else None,
            state=optuna.trial.TrialState.COMPLETE if is_known else failed,
        )


def _distribution(expression: Sequence[Any]) -> optuna.distributions.BaseDistribution:
    name, arguments = split(expression)
    if name == "choice":
        return optuna.distributions.CategoricalDistribution(arguments[0])
    low, high = arguments[:2]
    if name == "quniform":
        q = int(arguments[2])
        return optuna.distributions.IntDistribution(round(low / q) * q, round(high / q) * q, step=q)
    return optuna.distributions.FloatDistribution(low, high)
