"""`ResourceConfiguration`: what a model needs to be served, as it was said at its registration."""

from __future__ import annotations

from typing import Any, Dict, Optional

from runyard.sdk.exceptions import UserErrorException


class ResourceConfiguration:
    def __init__(
        self, cpu: Optional[float] = None, memory_in_gb: Optional[float] = None, gpu: Optional[int] = None
    ) -> None:
        """Raises UserErrorException: one of them is not a number above zero."""
        self.cpu = _positive("cpu", cpu)
        self.memory_in_gb = _positive("memory_in_gb", memory_in_gb)
        self.gpu = _positive("gpu", gpu)

    def serialize(self) -> Dict[str, Any]:
        return {"cpu": self.cpu, "memoryInGB": self.memory_in_gb, "gpu": self.gpu}


def _positive(name: str, value: Any) -> Any:
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0):
        raise UserErrorException(f"{name} must be a number above zero, not {value!r}.")
    return value
