"""What entry scripts may use beside Azure's `init()` and `run()`: batches, and a class instead of two functions."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, TypeVar, Union, overload

from runyard.core.errors import InvalidArgument

MARK = "__runyard_batched__"
MOST_ROWS = 4096

Function = TypeVar("Function", bound=Callable[..., Any])


class Batching(NamedTuple):
    """How many requests one call may get, and how long a free worker waits for a full batch."""

    max_batch: int = 32
    max_wait_ms: float = 0.0


@overload
def batched(function: Function) -> Function: ...
@overload
def batched(*, max_batch: int = 32, max_wait_ms: float = 0) -> Callable[[Function], Function]: ...
def batched(
    function: Function | None = None, *, max_batch: int = 32, max_wait_ms: float = 0
) -> Union[Function, Callable[[Function], Function]]:
    """Have `run(items)` or `predict(self, items)` called with a list of requests; it returns a list as long.

    Each item is what the function would get for one request. While all workers are busy requests gather, and the next
    free worker takes up to `max_batch` of them. A free worker never waits, unless `max_wait_ms` says so. If the call
    raises, each request of the batch is tried alone, so that a bad one fails alone.

    Raises:
        InvalidArgument: a limit is out of range.
    """
    if isinstance(max_batch, bool) or not isinstance(max_batch, int) or not 1 <= max_batch <= MOST_ROWS:
        raise InvalidArgument(
            f"`max_batch` is {max_batch!r}.", hint=f"Give a whole number from 1 to {MOST_ROWS}: batched(max_batch=32)."
        )
    if isinstance(max_wait_ms, bool) or not isinstance(max_wait_ms, (int, float)) or not 0 <= max_wait_ms <= 60_000:
        raise InvalidArgument(f"`max_wait_ms` is {max_wait_ms!r}.", hint="Give milliseconds from 0 to 60000.")

    def mark(function: Function) -> Function:
        if not callable(function):
            raise InvalidArgument(f"@batched stands on {function!r}.", hint="Put it on `run` or on `predict`.")
        setattr(function, MARK, Batching(max_batch, float(max_wait_ms)))
        return function

    return mark if function is None else mark(function)


class Scorer:
    """A model that answers requests: define a subclass in the entry script and leave out `init()` and `run()`.

    `setup` runs once in each worker, before the first request; `model_folder` is set by then ("" without a model).
    `predict` gets its parameters from the keys of the JSON body; with one parameter the body may also be its bare
    value. Values are checked and converted as the annotations say, and the service's OpenAPI document describes them.
    """

    model_folder: str = ""

    def setup(self) -> None:
        """Load what `predict` needs."""

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """Answer one request, or a list of them under `@batched`."""
        raise NotImplementedError(f"{type(self).__name__} has no predict().")
