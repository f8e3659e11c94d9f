"""The border of the native API: callers see Runyard's own errors, raised once, and notes on stderr."""

from __future__ import annotations

import sys
from functools import wraps
from typing import Any, Callable, Set, Type, TypeVar, cast

from runyard.core.errors import InvalidArgument, RunyardError, SystemFailure
from runyard.sdk.exceptions import AzureMLException, ServiceException

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=Type[Any])
_SAID: Set[str] = set()


def say(text: str) -> None:
    """Print a line for the person who runs the program."""
    print(f"runyard: {text}", file=sys.stderr, flush=True)


def say_once(text: str) -> None:
    if text not in _SAID:
        _SAID.add(text)
        say(text)


def plain_errors(function: F) -> F:
    """Let `function` raise RunyardError for everything that a user can meet, without the frames inside Runyard."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (RunyardError, AzureMLException) as error:
            raise _raised(error) from None

    return cast(F, call)


def with_plain_errors(cls: C) -> C:
    """Class decorator: the same for every public method and property of `cls`."""
    for name, member in list(vars(cls).items()):
        if name.startswith("_") and name not in ("__enter__", "__exit__", "__getitem__", "__iter__", "__len__"):
            continue
        if isinstance(member, property):
            setattr(cls, name, property(plain_errors(member.fget) if member.fget else None, doc=member.__doc__))
        elif hasattr(member, "__code__"):
            setattr(cls, name, plain_errors(member))
    return cls


def _raised(error: RunyardError | AzureMLException) -> RunyardError:
    if isinstance(error, SystemFailure):
        return error  # its frames help us
    if isinstance(error, RunyardError):
        return error.with_traceback(None)
    family = SystemFailure if isinstance(error, ServiceException) else InvalidArgument
    return family(error.message)
