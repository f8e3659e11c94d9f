"""What a sweep is: its space, its limits, and what became of its trials, as plain values."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar, Dict, List, Optional

from runyard.core.lazy_dataclass import dataclass

SWEEP_TYPE = "hyperdrive"  # of the run that a sweep is
MAX_TOTAL_RUNS, MAX_CONCURRENT_RUNS = 1000, 100
MAXIMIZE = "MAXIMIZE"
MINIMIZE = "MINIMIZE"


@dataclass(frozen=True)
class SweepSpec:
    """A search, complete: with its seed nothing else decides which trials Random and Grid make."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    sampling: str  # the Sampler's name
    space: Dict[str, List[Any]]  # parameter → [expression, [arguments]], in the order given
    primary_metric: str
    goal: str = MAXIMIZE
    max_total_runs: int = 1
    max_concurrent_runs: int = 1
    max_duration_s: float = 604800.0
    policy: str = "Default"  # the StoppingPolicy's name
    policy_properties: Dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    resume_from: List[str] = field(default_factory=list)  # earlier sweeps, whose trials inform sampler and policy
    first_trials: List[Dict[str, Any]] = field(default_factory=list)  # before the sampler's


@dataclass(frozen=True)
class Trial:
    """One child of a sweep as its policy and sampler see it: `values` are its loggings of the primary metric."""

    id: str
    parameters: Dict[str, Any] = field(default_factory=dict)
    values: List[float] = field(default_factory=list)
    is_finished: bool = False


@dataclass(frozen=True)
class Decision:
    """What a policy says about one trial at one interval, with everything it looked at in words."""

    stop: bool
    reason: str
    bound: Optional[float] = None  # the value that was compared with
    found: Optional[float] = None  # the trial's own
