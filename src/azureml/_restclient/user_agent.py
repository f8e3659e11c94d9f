"""Where libraries name themselves for Microsoft's telemetry (`azureml._base_sdk_common.user_agent`). There is none."""

from __future__ import annotations

from typing import Optional


def append(key: str, value: Optional[str] = None) -> None:
    """Do nothing."""


__all__ = ["append"]
