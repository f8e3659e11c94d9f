"""Packed columns of metrics, out of the frames they travel in."""

from __future__ import annotations

import json
import sys
from typing import Any, Dict, List, NamedTuple, Tuple, Union

from runyard.client.decoding import SeriesValues
from runyard.client.transport import Response
from runyard.core.errors import ProtocolError
from runyard.core.formats.frames import iter_frames

Values = Union["memoryview[int]", "memoryview[float]", List[Any]]
_FORMATS = {"f8": "d", "i8": "q"}


class SeriesPoints(NamedTuple):
    """One series, point by point; the three have one length."""

    steps: Values
    times: Values  # wall clock, ns
    values: Values


def read_values(response: Response) -> List[SeriesValues]:
    return [_series(head, body) for head, body in iter_frames(response.read())]


def read_points(response: Response) -> SeriesPoints:
    columns = _columns(response)
    try:
        return SeriesPoints(columns["steps"], columns["times"], columns["values"])
    except KeyError as error:
        raise ProtocolError("A series came without one of its columns.", why=f"There is no {error}.") from error


def read_chart(response: Response) -> Dict[str, List[Any]]:
    return {name: _as_list(values) for name, values in _columns(response).items()}


def _columns(response: Response) -> Dict[str, Values]:
    return {str(head.get("column")): _numbers(head, body)[1] for head, body in iter_frames(response.read())}


def _series(head: Dict[str, Any], body: memoryview) -> SeriesValues:
    kind, values = _numbers(head, body)
    try:
        return SeriesValues(
            metric=str(head["metric"]),
            kind=str(head["kind"]),
            column=str(head.get("column", "")),
            rank=int(head.get("rank") or 0),
            type=kind,
            count=len(values),
            values=values,
            file=head.get("file"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError("A metric's frame cannot be read.", why=f"Its head is {str(head)[:200]}.") from error


def _numbers(head: Dict[str, Any], body: memoryview) -> Tuple[str, Values]:
    kind = str(head.get("type"))
    try:
        values = _unpack(kind, body)
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(
            "A column of numbers cannot be read.", why=f"{len(body)} bytes of type {kind[:20]!r}."
        ) from error
    if len(values) != head.get("count", len(values)):
        raise ProtocolError("A column of numbers is cut off.", why=f"{head.get('count')} were due, {len(values)} came.")
    return kind, values


def _unpack(kind: str, body: memoryview) -> Values:
    if kind == "json":
        found = json.loads(bytes(body) or b"[]")
        if not isinstance(found, list):
            raise ValueError("not a list")
        return found
    if kind == "b1":
        return [bool(value) for value in body]
    if kind not in _FORMATS:
        raise ValueError("not a type of numbers")
    if sys.byteorder == "big":
        # Rare enough not to deserve a faster way.
        from array import array

        swapped = array(_FORMATS[kind], body.tobytes())
        swapped.byteswap()
        return swapped.tolist()
    return body.cast("d") if kind == "f8" else body.cast("q")


def _as_list(values: Values) -> List[Any]:
    return values.tolist() if isinstance(values, memoryview) else values
