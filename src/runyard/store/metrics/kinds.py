"""What a series' values are: f8, i8, b1 (bool as 0 and 1) in arrays, or json, a list of scalars.

Ints become floats once a float is in the series, as Azure does; everything else that does not fit one array is json.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from runyard.store.text import scalar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Values = NDArray[np.float64] | NDArray[np.int64] | list[Any]

F8, I8, B1, JSON = "f8", "i8", "b1", "json"
CODES = {F8: 1, I8: 2, B1: 4, JSON: 8}  # bits, so that a series can say in one number what it holds
NAMES = {code: name for name, code in CODES.items()}
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


def join(first: str, second: str) -> str:
    """Return the kind that holds values of both."""
    if first == second:
        return first
    return F8 if {first, second} == {F8, I8} else JSON


def join_codes(codes: int) -> str:
    """Return the kind that holds all kinds of a bit mask."""
    if codes in NAMES:
        return NAMES[codes]
    return F8 if codes == CODES[F8] | CODES[I8] else JSON


def convert(values: Values, kind: str, wanted: str) -> Values:
    """Return `values` of `kind` as `wanted`, a kind that `join` gave."""
    if kind == wanted or isinstance(values, list):
        return values
    if wanted == F8:
        return values.astype("f8")
    return to_python(values, kind)


def to_python(values: Values, kind: str) -> list[Any]:
    if isinstance(values, list):
        return values
    found: list[Any] = values.tolist()
    return [bool(value) for value in found] if kind == B1 else found


def settle(values: Iterable[Any]) -> tuple[str, Values]:
    """Return scalars in the narrowest kind that holds them all."""
    # Most servers are idle most of the time and never touch a metric; numpy costs them 25 MB.
    import numpy as np

    found = [scalar(value) for value in values]
    types = {type(value) for value in found}
    if types <= {float}:
        return F8, np.array(found, dtype=np.float64)
    if types == {bool}:
        return B1, np.array(found, dtype=np.int64)
    if types == {int} and min(found) >= _INT64_MIN and max(found) <= _INT64_MAX:
        return I8, np.array(found, dtype=np.int64)
    if float in types and int in types:
        found = [_widen(value) for value in found]
        if {type(value) for value in found} == {float}:
            return F8, np.array(found, dtype=np.float64)
    return JSON, found


def as_number(value: Any) -> float | None:
    """Return what a value counts as in filters and order: None for text, NaN and what no float holds."""
    if not isinstance(value, (bool, int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return None if number != number else number


def numbers_among(values: Sequence[Any]) -> list[float]:
    found = (as_number(value) for value in values)
    return [number for number in found if number is not None]


def _widen(value: Any) -> Any:
    if type(value) is not int:
        return value
    try:
        return float(value)
    except OverflowError:
        return value
