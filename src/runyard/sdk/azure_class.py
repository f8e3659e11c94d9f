"""The base of classes that stand for Azure's. A member that only Azure's has is refused with words by `absent.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


class _AzureClass(type):
    if not TYPE_CHECKING:  # a type checker would take every attribute for known

        def __getattr__(cls, name: str) -> Any:
            raise missing_member(cls, name, f"type object {cls.__name__!r} has no attribute {name!r}")


class AzureClass(metaclass=_AzureClass):
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            cls = type(self)
            if hasattr(cls, name):  # a property that raised AttributeError itself: let it say so again
                return object.__getattribute__(self, name)
            raise missing_member(cls, name, f"{cls.__name__!r} object has no attribute {name!r}")


def missing_member(cls: type, name: str, message: str) -> AttributeError:
    if not name.startswith(("__", "_repr_", "_ipython_")):
        from runyard.sdk.absent import find_member

        return find_member(cls, name) or AttributeError(message)
    return AttributeError(message)
