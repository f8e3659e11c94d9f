"""The `__getattr__` of façade modules. Every start loads this file; `absent.py` and its table wait for a miss."""

from __future__ import annotations

from typing import Any, Callable


def absent_names(module: str) -> Callable[[str], Any]:
    def find(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        from runyard.sdk.absent import find_in_module

        return find_in_module(module, name)

    return find
