"""Callbacks and loggers for training frameworks: what they report goes to the run, with the framework's own steps.

`from runyard.integrations import HuggingFaceCallback, LightningLogger, KerasCallback`: each loads its framework, and
nothing else does. They log as `runyard.log` does, so outside of a run they print.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from runyard.integrations.huggingface import HuggingFaceCallback
    from runyard.integrations.keras import KerasCallback
    from runyard.integrations.lightning import LightningLogger

_HOMES = {
    "HuggingFaceCallback": "runyard.integrations.huggingface",
    "KerasCallback": "runyard.integrations.keras",
    "LightningLogger": "runyard.integrations.lightning",
}

__all__ = ["HuggingFaceCallback", "KerasCallback", "LightningLogger"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> List[str]:
    return sorted({*globals(), *__all__})
