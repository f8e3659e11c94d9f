"""A dict that may also be called: `ws.experiments` was a method in 2018 and is a property since."""

from __future__ import annotations

from typing import Dict, TypeVar

V = TypeVar("V")


class CallableDict(Dict[str, V]):
    def __call__(self) -> CallableDict[V]:
        return self
