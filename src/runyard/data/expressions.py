"""Conditions of `dataset.filter(…)`: a tree of plain values, checked on a batch of rows or on one file.

A leaf is `{"column": name, "op": "==", "value": 3}`; a branch is `{"op": "and", "parts": […]}`, `or` or `not`.
"""

from __future__ import annotations

import operator
from datetime import datetime
from typing import Any, Callable, Dict, List, Mapping

from runyard.core.errors import InvalidArgument
from runyard.data.columns import cast, load_pyarrow

Condition = Mapping[str, Any]
_PLAIN: Dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ARROW = {
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


def columns_of(condition: Condition) -> List[str]:
    if "column" in condition:
        return [str(condition["column"])]
    return [name for part in condition["parts"] for name in columns_of(part)]


def fits(condition: Condition, values: Mapping[str, Any]) -> bool:
    """Whether one file, known by these values, fits. A value that is missing fits nothing."""
    if "column" not in condition:
        found = [fits(part, values) for part in condition["parts"]]
        return {"and": all(found), "or": any(found), "not": not found[0]}[str(condition["op"])]
    if condition["column"] not in values:
        raise InvalidArgument(
            f"A file has no {condition['column']!r}.",
            why=f"Known of each file: {', '.join(values)}.",
            hint="Partition keys come from partition_format=.",
        )
    value = values[str(condition["column"])]
    return value is not None and bool(_PLAIN[str(condition["op"])](value, _wanted(condition)))


def mask(condition: Condition, batch: Any) -> Any:
    """Return which rows of a batch fit. A value that is missing fits nothing."""
    arrow, compute = load_pyarrow(), load_pyarrow("compute")
    if "column" not in condition:
        found = [mask(part, batch) for part in condition["parts"]]
        if condition["op"] == "not":
            return compute.invert(found[0])
        return getattr(compute, f"{condition['op']}_")(*found)
    name, wanted = str(condition["column"]), _wanted(condition)
    column = batch.column(name)
    value = arrow.array([wanted])
    if not value.type.equals(column.type) and not _are_numbers(value.type, column.type):
        value = cast(value, name, column.type, fail=True)
    return compute.fill_null(getattr(compute, _ARROW[str(condition["op"])])(column, value[0]), False)


def _are_numbers(*kinds: Any) -> bool:
    types = load_pyarrow().types
    return all(types.is_integer(kind) or types.is_floating(kind) for kind in kinds)


def _wanted(condition: Condition) -> Any:
    value = condition["value"]
    return datetime.fromisoformat(value["time"]) if isinstance(value, Mapping) else value
