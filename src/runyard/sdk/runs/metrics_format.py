"""Series as the server sends them → the dict that `get_metrics()` returns. Pure; the rules are Azure's.

A metric with one value is that value, with several it is a list in logging order. A table (rows, tables) is a dict of
columns, each again one value or a list. A file (image, confusion matrix …) is its address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List

if TYPE_CHECKING:
    from runyard.client.decoding import SeriesValues


def format_metrics(series: Iterable[SeriesValues], *, address: Callable[[str], Any]) -> Dict[str, Any]:
    """Return {metric: value} in the order of `series`; `address` turns a run file's name into what stands for it."""
    found: Dict[str, Any] = {}
    for one in series:
        if one.kind == "artifact":
            files = one.to_list() or ([one.file] if one.file else [])
            found[one.metric] = collapse([address(str(name)) for name in files])
            continue
        values = one.to_list()
        value = collapse(widen(values) if one.type == "json" else values)
        if one.kind == "table":
            found.setdefault(one.metric, {})[one.column] = value
        else:
            found[one.metric] = value
    return found


def collapse(values: List[Any]) -> Any:
    """A list of one is its only value."""
    return values[0] if len(values) == 1 else values


def widen(values: List[Any]) -> List[Any]:
    """Once a float is among the values, ints come back as floats; bools, texts and None stay."""
    kinds = set(map(type, values))
    if float not in kinds or int not in kinds:
        return values
    return [_as_float(value) if type(value) is int else value for value in values]


def artifact_address(run_id: str, name: str) -> str:
    """Return Azure's name for a file of a run."""
    return f"aml://artifactId/ExperimentRun/dcid.{run_id}/{name}"


def _as_float(value: int) -> Any:
    try:
        return float(value)
    except OverflowError:
        return value
