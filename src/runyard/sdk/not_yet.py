"""Names of later releases: they import, take part in `isinstance`, and say on use what is not there yet."""

from __future__ import annotations

from typing import Any, NoReturn, Type

from runyard.core.errors import NotYetSupported
from runyard.sdk.errors import azure_error


def refuse(thing: str, *, hint: str = "") -> NoReturn:
    """Raise the error that says that `thing` is not in this version."""
    raise not_yet(thing, hint=hint)


def not_yet(thing: str, *, hint: str = "") -> Exception:
    from runyard import __version__

    return azure_error(
        NotYetSupported(
            f"{thing} is not there yet.",
            why=f"Runyard {__version__} submits and tracks script runs on this machine; later releases bring the rest.",
            hint=hint
            or "What is there: docs/azureml-differences.md. `pip install --upgrade runyard` brings newer releases.",
        )
    )


class _Refusing(type):
    """Metaclass of placeholders: calling the class or reading an attribute of it is the use that is refused."""

    def __call__(cls, *_args: Any, **_kwargs: Any) -> NoReturn:
        refuse(f"`{_public_name(cls)}`")

    def __getattr__(cls, name: str) -> NoReturn:
        # Dunder names are asked for by inspect, copy, doctest and notebooks, which expect this answer.
        if name.startswith("__") or name.startswith("_repr_") or name.startswith("_ipython_"):
            raise AttributeError(name)
        refuse(f"`{_public_name(cls)}.{name}`")

    def __repr__(cls) -> str:
        return f"<{_public_name(cls)}: not in this version of Runyard>"


def placeholder(path: str) -> Type[Any]:
    """Return a class that stands for `path`, such as `azureml.train.dnn.TensorFlow`."""
    module, _, name = path.rpartition(".")
    return _Refusing(name, (), {"__module__": module, "__doc__": "Not in this version of Runyard."})


def _public_name(cls: type) -> str:
    named = next((base for base in cls.__mro__ if base.__module__.startswith("azureml")), cls)
    return f"{named.__module__}.{named.__name__}"
