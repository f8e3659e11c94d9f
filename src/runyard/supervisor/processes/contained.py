"""What the end of a container engine says about the process in the container."""

from __future__ import annotations

import signal
from typing import Any, Mapping, Optional, Tuple

_SIGNAL_BASE = 128  # engines, like shells, tell of a signal by this much and its number


def end_of(process: Mapping[str, Any], code: Optional[int]) -> Tuple[Optional[int], Optional[int]]:
    """Return (code, signal) of a process that ended with `code`: an engine ends as its container did."""
    if process.get("contained") and code is not None and code - _SIGNAL_BASE in set(signal.Signals):
        return None, code - _SIGNAL_BASE
    return code, None
