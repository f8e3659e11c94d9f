"""Dataclasses that cost nothing until they are used: `from runyard.core.lazy_dataclass import dataclass`.

The standard library writes and compiles a dataclass's methods when its class is defined, about 0.4 ms each. A process
that imports our records has dozens of them and uses a few, and a node's start is mostly imports. Here the methods are
made at the first instance, comparison or look at the fields; from then on the class is the standard library's.

Measured without it (Python 3.11, medians of 21): +26 ms of CPU on 63 in a script that gets its run, +32 on 76 in a
supervisor, +30 on 87 in `runyard runs`; +24 ms on 108 from a node's start to the first line.
"""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

_LOCK = threading.RLock()
_PENDING: Dict[type, Dict[str, Any]] = {}  # with the options of each
# All attributes that can be asked of a dataclass that was not made yet.
_NAMES = ("__init__", "__eq__", "__hash__", "__repr__", "__dataclass_fields__", "__dataclass_params__")

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(**options: Any) -> Callable[[type], type]:
        """As `dataclasses.dataclass(...)`."""

        def mark(cls: type) -> type:
            _PENDING[cls] = options
            for name in _NAMES:
                if name not in cls.__dict__:
                    setattr(cls, name, _Later(cls, name))
            return cls

        return mark


def is_dataclass(cls: type) -> bool:
    """As `dataclasses.is_dataclass`, of classes; it makes none."""
    return cls in _PENDING or dataclasses.is_dataclass(cls)


def make_all() -> None:
    """Make all classes that were not used yet, for a process that has time now and none later."""
    for cls in list(_PENDING):
        _make(cls)


class _Later:
    """Stands for an attribute of the class; makes the class when the attribute is read."""

    def __init__(self, cls: type, name: str) -> None:
        self._cls, self._name = cls, name

    def __get__(self, instance: Any, owner: Optional[type] = None) -> Any:
        cls = self._cls
        _make(cls)
        if self._name not in cls.__dict__:
            return getattr(super(cls, owner if instance is None else instance), self._name)
        made = cls.__dict__[self._name]
        return made.__get__(instance, owner) if hasattr(made, "__get__") else made


def _make(cls: type) -> None:
    """Make a twin and copy its attributes to the class, name by name: another thread finds all of them or waits."""
    with _LOCK:
        options = _PENDING.get(cls)
        if options is None:
            return  # another thread was faster
        own = {name: value for name, value in cls.__dict__.items() if name not in ("__dict__", "__weakref__")}
        plain = {name: value for name, value in own.items() if not isinstance(value, _Later)}
        plain["__doc__"] = cls.__doc__ or cls.__name__  # else one is made from the signature, which takes longest
        twin = type(cls)(cls.__name__, cls.__bases__, plain)
        dataclasses.dataclass(**options)(twin)
        for name, value in twin.__dict__.items():
            if name not in ("__dict__", "__weakref__") and own.get(name, twin) is not value:
                setattr(cls, name, _belonging_to(cls, twin, value))
        for name in own.keys() - twin.__dict__.keys():
            delattr(cls, name)
        del _PENDING[cls]


def _belonging_to(cls: type, twin: type, value: Any) -> Any:
    """A frozen class's methods name their class, for `super()`."""
    for cell in getattr(value, "__closure__", None) or ():
        if cell.cell_contents is twin:
            cell.cell_contents = cls
    return value
