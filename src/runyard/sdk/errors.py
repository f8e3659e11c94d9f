"""Translate Runyard's errors into Azure's exceptions at the border of the SDK.

The translated object inherits from both classes, so `except UserErrorException` and
`except runyard.core.errors.NotFound` catch it. A mistake of the caller is raised without the frames inside the SDK:
they are in `__context__`. `training_error` makes the TrainingException of estimators and sweeps,
with the reason and a hint.
"""

from __future__ import annotations

from functools import wraps
from typing import Any, Callable, Dict, Iterator, NoReturn, Tuple, Type, TypeVar, cast

from runyard.core import errors
from runyard.core.errors import InvalidArgument, NotYetSupported
from runyard.sdk import exceptions as azure
from runyard.sdk.exceptions import TrainingException

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])

_GENERATOR = 0x20  # inspect.CO_GENERATOR

# The first class that fits, most special first.
_AZURE: Tuple[Tuple[Type[errors.RunyardError], Type[azure.AzureMLException]], ...] = (
    (errors.NotAuthenticated, azure.AuthenticationException),
    (errors.SubmitRejected, azure.ExperimentExecutionException),
    (errors.SnapshotRejected, azure.SnapshotException),
    (errors.UserError, azure.UserErrorException),
    (errors.SystemFailure, azure.ServiceException),
    (errors.RunyardError, azure.AzureMLException),
)
_BOTH: Dict[Tuple[type, type], type] = {}


def azure_error(error: errors.RunyardError, cls: Type[azure.AzureMLException] | None = None) -> azure.AzureMLException:
    """Return `error` as an exception that is also Azure's `cls` (by default, the one that fits its family)."""
    if isinstance(error, azure.AzureMLException):
        return error
    both = _class_of_both(cls or _azure_class(error), type(error))
    made = both.__new__(both)
    errors.RunyardError.__init__(made, error.what, why=error.why, hint=error.hint, details=error.details)
    made._exception_message = _message(error)
    made._inner_exception = None
    made._target = None
    made._details = error.details
    made._kwargs = {}
    made.args = (error.what,)
    return cast(azure.AzureMLException, made)


def translates(function: F) -> F:
    """Let `function` raise Azure's exceptions for ours, and name the keyword that was meant by a misspelt one."""
    if function.__code__.co_flags & _GENERATOR:

        @wraps(function)
        def iterate(*args: Any, **kwargs: Any) -> Iterator[Any]:
            try:
                yield from function(*args, **kwargs)
            except (errors.RunyardError, azure.AzureMLException) as error:
                raise _raised(error) from None

        return cast(F, iterate)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (errors.RunyardError, azure.AzureMLException) as error:
            raise _raised(error) from None
        except TypeError as error:
            trace = error.__traceback__
            if not kwargs or (trace is not None and trace.tb_next is not None):
                raise  # not about the call itself
            from runyard.sdk.config.keywords import known_keywords  # loads inspect

            try:
                known = known_keywords(function, kwargs, error)
            except TypeError as meant:
                raise meant.with_traceback(None) from None
            return call(*args, **known)

    return cast(F, call)


def raises_azure_errors(cls: C) -> C:
    """Class decorator: every public method and property of `cls` raises Azure's exceptions for ours."""
    for name, member in list(vars(cls).items()):
        if name.startswith("_") and name not in ("__init__", "__enter__", "__exit__"):
            continue
        if isinstance(member, (staticmethod, classmethod)):
            setattr(cls, name, type(member)(translates(member.__func__)))
        elif isinstance(member, property):
            setattr(cls, name, _translated_property(member))
        elif hasattr(member, "__code__"):
            setattr(cls, name, translates(member))
    return cls


def _translated_property(member: property) -> property:
    getter = translates(member.fget) if member.fget else None
    setter = translates(member.fset) if member.fset else None
    return property(getter, setter, member.fdel, member.__doc__)


def _raised(error: errors.RunyardError | azure.AzureMLException) -> azure.AzureMLException:
    """Return what is raised for an error: with its frames when they help us and not the caller."""
    made = error if isinstance(error, azure.AzureMLException) else azure_error(error)
    return made if isinstance(error, errors.SystemFailure) else made.with_traceback(None)


def _message(error: errors.RunyardError) -> str:
    """Return the text of an error in few lines."""
    text = f"{error.what} {error.why}" if error.why else error.what
    return f"{text}\nhint: {error.hint}" if error.hint else text


def _azure_class(error: errors.RunyardError) -> Type[azure.AzureMLException]:
    return next(theirs for ours, theirs in _AZURE if isinstance(error, ours))


def _class_of_both(theirs: type, ours: type) -> Any:
    both = _BOTH.get((theirs, ours))
    if both is None:
        both = _BOTH[theirs, ours] = type(theirs.__name__, (theirs, ours), {"__module__": theirs.__module__})
    return both


def unsupported(thing: str, *, hint: str = "") -> NoReturn:
    """Raise the error that says that `thing` is not in this version."""
    raise not_yet(thing, hint=hint)


def not_yet(thing: str, *, hint: str = "") -> Exception:
    from runyard import __version__

    return azure_error(
        NotYetSupported(
            f"{thing} is not there yet.",
            why=f"Runyard {__version__} does not have this part of Azure's SDK.",
            hint=hint or "`pip install --upgrade runyard` brings newer releases.",
        )
    )


def training_error(what: str, *, why: str = "", hint: str = "") -> Exception:
    return azure_error(InvalidArgument(what, why=why, hint=hint), TrainingException)
