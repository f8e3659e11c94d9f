"""Classes that stand for names of Azure's SDK that are not here: they import, and refuse any use but `isinstance`."""

from __future__ import annotations

from typing import Any, NoReturn, Type

from runyard.core.errors import AbsentName, NotYetSupported
from runyard.sdk.errors import azure_error


class _Refusing(type):
    """Metaclass of placeholders: calling the class or reading an attribute of it is the use that is refused."""

    def __call__(cls, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise _refusal(cls, "", NotYetSupported)

    def __getattr__(cls, name: str) -> NoReturn:
        # Dunder names are asked for by inspect, copy, doctest and notebooks, which expect this answer.
        if name.startswith("__") or name.startswith("_repr_") or name.startswith("_ipython_"):
            raise AttributeError(name)
        raise _refusal(cls, f".{name}", AbsentName)

    def __repr__(cls) -> str:
        return f"<{_public_name(cls)}: not in this version of Runyard>"


def _refusal(cls: type, member: str, kind: Type[NotYetSupported]) -> Exception:
    from runyard.sdk.absent import reason_of, refusal  # the table of reasons is not for those who only import a name

    path = _public_name(cls)
    return azure_error(refusal(path + member, reason_of(path), kind))


def placeholder(path: str) -> Type[Any]:
    """Return a class that stands for `path`, such as `azureml.train.dnn.TensorFlow`."""
    module, _, name = path.rpartition(".")
    return _Refusing(name, (), {"__module__": module, "__doc__": "Not in this version of Runyard."})


def _public_name(cls: type) -> str:
    named = next((base for base in cls.__mro__ if base.__module__.startswith("azureml")), cls)
    return f"{named.__module__}.{named.__name__}"
