"""A run without data: nothing to bring, nothing to deliver. What is about data stays unloaded: most runs have none."""

from __future__ import annotations

from typing import Any, Dict, Optional

from runyard.core.specs import RunSpec


def has_data(spec: RunSpec) -> bool:
    return bool(spec.data_references or spec.datasets or spec.outputs)


class NoData:
    """In the place of `run_data.RunData`."""

    def bring(self) -> Dict[str, str]:
        return {}

    def recall(self) -> Dict[str, Any]:
        return {}

    def deliver(self) -> Optional[Dict[str, Any]]:
        return None

    def register(self) -> None:
        pass
