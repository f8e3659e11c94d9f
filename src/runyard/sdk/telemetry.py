"""Azure's switch for diagnostics. Runyard collects none, so there is nothing to switch."""

from __future__ import annotations

from typing import Optional


def set_diagnostics_collection(
    send_diagnostics: bool = True, verbosity: Optional[int] = None, reason: str = "", path: Optional[str] = None
) -> None:
    """Do nothing."""
