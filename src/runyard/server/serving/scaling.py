"""How many replicas a revision shall have: Azure's rule, and down to none where that is allowed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from runyard.core.webservices import RevisionSpec


@dataclass
class Load:
    """What was seen of a revision's load; forgotten when the server restarts."""

    high_at: float = 0.0  # when as many replicas as there are were last needed
    busy_at: float = 0.0  # when there was a request last
    requests: int = 0


def wanted_replicas(spec: RevisionSpec, load: Load, *, now: float, present: int, asked: int, requests: int) -> int:
    """Return how many replicas there shall be.

    Args:
        present: how many there are, starting ones too.
        asked: requests that are computed or wait.
        requests: of the service since its gateway started; another number means that there were some.
    """
    scaling = spec.scaling
    if not scaling.is_on:
        return scaling.replicas
    if requests != load.requests or asked:
        load.requests, load.busy_at = requests, now
    slots = spec.workers * spec.threads
    needed = math.ceil(asked / (slots * scaling.target_utilization / 100.0))
    least = scaling.min_replicas
    if least == 0 and (asked or now - load.busy_at < scaling.idle_s):
        least = 1
    needed = min(max(needed, least), scaling.max_replicas)
    if needed >= present:
        load.high_at = now
        return needed
    return present if now - load.high_at < scaling.down_after_s and present <= scaling.max_replicas else needed
