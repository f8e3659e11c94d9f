"""How long to wait between two looks at a run: short at first, longer the longer it takes."""

from __future__ import annotations

import os
import time
from typing import Callable, Mapping, Optional

SHORTEST_S = 0.02
LONGEST_S = 2.0


class Pace:
    """`next()` is a twentieth of the time since the start, between the two limits.

    Azure's variables AZUREML_RUN_POLLING_INTERVAL_MIN and _MAX (seconds) move the limits.
    """

    def __init__(
        self, *, environ: Optional[Mapping[str, str]] = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        env = os.environ if environ is None else environ
        self._shortest = _seconds(env, "AZUREML_RUN_POLLING_INTERVAL_MIN", SHORTEST_S)
        self._longest = max(self._shortest, _seconds(env, "AZUREML_RUN_POLLING_INTERVAL_MAX", LONGEST_S))
        self._clock = clock
        self._start = clock()

    def next(self) -> float:
        return min(self._longest, max(self._shortest, (self._clock() - self._start) / 20))


def _seconds(env: Mapping[str, str], name: str, default: float) -> float:
    try:
        value = float(env.get(name, ""))
    except ValueError:
        return default
    return value if value > 0 else default
