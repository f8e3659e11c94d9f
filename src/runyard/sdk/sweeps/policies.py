"""The early termination policies of a sweep. One interval is one logging of the primary metric by a trial."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Type

from runyard.sdk.azure_class import AzureClass
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import HyperDriveConfigException


@raises_azure_errors
class EarlyTerminationPolicy(AzureClass):
    """Base of the policies: one that Runyard knows by its name, with its properties.

    `EarlyTerminationPolicy("Bandit", {"slack_factor": 0.1})` is a BanditPolicy, as the services of Azure read it. A
    subclass with a NAME of its own, as plug-ins have, gives the evaluation interval and the delay instead.

    Raises:
        HyperDriveConfigException: there is no policy of that name, or it has other properties.
    """

    NAME = ""

    def __init__(self, name: str, properties: Optional[Mapping[str, Any]] = None) -> None:
        if self.NAME:
            interval = IntervalPolicy(name, properties or 0)  # type: ignore[arg-type]  # the two numbers
            self._meant: EarlyTerminationPolicy = interval
            self.evaluation_interval: int = interval.evaluation_interval
            self.delay_evaluation: int = interval.delay_evaluation
            return
        known: Dict[str, Type[IntervalPolicy]] = {kind.NAME: kind for kind in IntervalPolicy.__subclasses__()}
        if name not in known:
            raise HyperDriveConfigException(f"There is no policy {name!r}. Known: {', '.join(known)}.")
        try:
            self._meant = known[name](**(properties or {}))
        except TypeError as error:
            raise HyperDriveConfigException(f"The properties {properties!r} do not fit {name}: {error}.") from None
        self.NAME = name

    def properties(self) -> Dict[str, Any]:
        return self._meant.properties()

    def to_json(self) -> Dict[str, Any]:
        return {"name": self.NAME, "properties": self.properties()}


@raises_azure_errors
class IntervalPolicy(EarlyTerminationPolicy):
    """A policy that looks at trials at intervals.

    Args:
        evaluation_interval: look at a trial at every so many loggings.
        delay_evaluation: not before this many.
    """

    def __init__(self, evaluation_interval: int = 1, delay_evaluation: int = 0) -> None:
        self.evaluation_interval = _count("evaluation_interval", evaluation_interval, least=1)
        self.delay_evaluation = _count("delay_evaluation", delay_evaluation, least=0)

    def properties(self) -> Dict[str, Any]:
        return {"evaluation_interval": self.evaluation_interval, "delay_evaluation": self.delay_evaluation}


@raises_azure_errors
class BanditPolicy(IntervalPolicy):
    """Stops a trial whose best lies further behind the best of all trials than the slack allows.

    Raises:
        HyperDriveConfigException: not exactly one of slack_factor and slack_amount.
    """

    NAME = "Bandit"

    def __init__(
        self,
        evaluation_interval: int = 1,
        slack_factor: Optional[float] = None,
        slack_amount: Optional[float] = None,
        delay_evaluation: int = 0,
    ) -> None:
        super().__init__(evaluation_interval, delay_evaluation)
        if (slack_factor is None) == (slack_amount is None):
            raise HyperDriveConfigException("BanditPolicy takes exactly one of slack_factor and slack_amount.")
        for name, value in (("slack_factor", slack_factor), ("slack_amount", slack_amount)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0):
                raise HyperDriveConfigException(f"{name} must be a number, 0 or more, found {value!r}.")
        self.slack_factor = slack_factor
        self.slack_amount = slack_amount

    def properties(self) -> Dict[str, Any]:
        slack = (
            {"slack_amount": self.slack_amount} if self.slack_factor is None else {"slack_factor": self.slack_factor}
        )
        return {**super().properties(), **slack}


@raises_azure_errors
class MedianStoppingPolicy(IntervalPolicy):
    """Stops a trial whose best is worse than the median of all trials' running averages."""

    NAME = "MedianStopping"


@raises_azure_errors
class TruncationSelectionPolicy(IntervalPolicy):
    """Stops the worst `truncation_percentage` per cent of all trials at each interval it looks at."""

    NAME = "TruncationSelection"

    def __init__(
        self,
        truncation_percentage: int,
        evaluation_interval: int = 1,
        delay_evaluation: int = 0,
        exclude_finished_jobs: bool = False,
    ) -> None:
        super().__init__(evaluation_interval, delay_evaluation)
        percentage = _count("truncation_percentage", truncation_percentage, least=1)
        if percentage > 99:
            raise HyperDriveConfigException(f"truncation_percentage must be 1 to 99, found {percentage}.")
        self.truncation_percentage = percentage
        self.exclude_finished_jobs = bool(exclude_finished_jobs)

    def properties(self) -> Dict[str, Any]:
        own = {
            "truncation_percentage": self.truncation_percentage,
            "exclude_finished_jobs": self.exclude_finished_jobs,
        }
        return {**super().properties(), **own}


@raises_azure_errors
class NoTerminationPolicy(IntervalPolicy):
    """Lets every trial go on to its own end; what a sweep without a policy does."""

    NAME = "Default"

    def __init__(self) -> None:
        super().__init__()


def _count(name: str, value: Any, *, least: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    raise HyperDriveConfigException(f"{name} must be a whole number, {least} or more, found {value!r}.")
