"""The seams `Sampler` and `StoppingPolicy`: names and lookup."""

from __future__ import annotations

from runyard.core.plugins import load_plugin
from runyard.core.specs import SweepSpec
from runyard.tuning.base import Sampler, StoppingPolicy

SAMPLERS = {
    "RANDOM": "runyard.tuning.samplers:RandomSampler",
    "GRID": "runyard.tuning.samplers:GridSampler",
    "BayesianOptimization": "runyard.tuning.bayesian:BayesianSampler",
}
POLICIES = {
    "Default": "runyard.tuning.policies:NoStopping",
    "Bandit": "runyard.tuning.policies:Bandit",
    "MedianStopping": "runyard.tuning.policies:MedianStopping",
    "TruncationSelection": "runyard.tuning.policies:Truncation",
}


def get_sampler(spec: SweepSpec) -> Sampler:
    """Return the sweep's sampler.

    Raises:
        NotFound: there is none of that name; the known ones are listed.
    """
    sampler: Sampler = load_plugin("samplers", spec.sampling, SAMPLERS)(spec)
    return sampler


def get_policy(spec: SweepSpec) -> StoppingPolicy:
    """Return the sweep's policy.

    Raises:
        NotFound: there is none of that name; the known ones are listed.
    """
    policy: StoppingPolicy = load_plugin("policies", spec.policy, POLICIES)(spec)
    return policy
