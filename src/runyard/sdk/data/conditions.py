"""What users write about columns: conditions of `filter`, types of `set_column_types`, and columns of file names."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Dict, Optional, Sequence, Union

from runyard.core.specs import DataSource
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import UserErrorException

_STREAM = re.compile(r"(?:AmlDatastore://([^/]+)/|azureml://.*?datastores/([^/]+)/paths/)(.+)", re.IGNORECASE)


class Condition:
    """`&`, `|` and `~` join conditions; Python's `and`, `or` and `not` cannot."""

    def __init__(self, plain: Dict[str, Any]) -> None:
        self._plain = plain

    def __and__(self, other: Condition) -> Condition:
        return Condition({"op": "and", "parts": [self._plain, condition_of(other)]})

    def __or__(self, other: Condition) -> Condition:
        return Condition({"op": "or", "parts": [self._plain, condition_of(other)]})

    def __invert__(self) -> Condition:
        return Condition({"op": "not", "parts": [self._plain]})

    def __bool__(self) -> bool:
        raise UserErrorException("Join conditions with & | ~ and brackets: (ds['a'] > 1) & (ds['b'] == 'x').")


class ColumnCondition:
    """A column of a dataset: comparing it with a value makes a condition."""

    __hash__ = None  # type: ignore[assignment]  # == makes a condition

    def __init__(self, column: str) -> None:
        if not isinstance(column, str):
            raise UserErrorException(f"A column is given by its name, found {column!r:.100}.")
        self._column = column

    def __eq__(self, value: object) -> Condition:  # type: ignore[override]  # a condition, as Azure's
        return self._compared("==", value)

    def __ne__(self, value: object) -> Condition:  # type: ignore[override]
        return self._compared("!=", value)

    def __lt__(self, value: Any) -> Condition:
        return self._compared("<", value)

    def __le__(self, value: Any) -> Condition:
        return self._compared("<=", value)

    def __gt__(self, value: Any) -> Condition:
        return self._compared(">", value)

    def __ge__(self, value: Any) -> Condition:
        return self._compared(">=", value)

    def _compared(self, op: str, value: Any) -> Condition:
        value = value.item() if hasattr(value, "item") else value  # a number of numpy's
        if not isinstance(value, (str, int, float, bool, datetime)):
            raise UserErrorException(f"A column is compared with a text, a number or a time, found {value!r:.100}.")
        plain = {"time": value.isoformat()} if isinstance(value, datetime) else value
        return Condition({"column": self._column, "op": op, "value": plain})


def condition_of(expression: Any) -> Dict[str, Any]:
    """Raises UserErrorException: it is no condition."""
    if isinstance(expression, Condition):
        return expression._plain
    raise UserErrorException(f"A condition is written as dataset['column'] > 3, found {expression!r:.100}.")


@raises_azure_errors
class DataType:
    """The type of a column, for `set_column_types`."""

    def __init__(self, kind: str, **options: Any) -> None:
        self._kind = kind
        self._options = options

    @staticmethod
    def to_string() -> DataType:
        return DataType("string")

    @staticmethod
    def to_long() -> DataType:
        return DataType("long")

    @staticmethod
    def to_float(decimal_mark: str = ".") -> DataType:
        if decimal_mark not in (".", ","):
            raise UserErrorException(f"decimal_mark is '.' or ',', found {decimal_mark!r}.")
        return DataType("float", **({} if decimal_mark == "." else {"decimal_mark": decimal_mark}))

    @staticmethod
    def to_bool() -> DataType:
        return DataType("bool")

    @staticmethod
    def to_stream(workspace: Any, escaped: bool = False) -> DataType:
        """The column names files: web addresses, or `AmlDatastore://datastore/path`; for `download` and `mount`."""
        return DataType("stream", **({"escaped": True} if escaped else {}))

    @staticmethod
    def to_datetime(formats: Optional[Union[str, Sequence[str]]] = None) -> DataType:
        """`formats` as of Python's strptime, `%d/%m/%Y`; without them ISO 8601 and the usual ones, month before day."""
        given = [formats] if isinstance(formats, str) else list(formats or ())
        return DataType("datetime", **({"formats": given} if given else {}))

    def __repr__(self) -> str:
        return f"DataType({self._kind!r})"


def type_names(types: Optional[Dict[str, DataType]]) -> Dict[str, Any]:
    """Raises UserErrorException: a type is not one of DataType's."""
    wrong = [name for name, kind in (types or {}).items() if not isinstance(kind, DataType)]
    if wrong:
        raise UserErrorException(f"The type of column {wrong[0]!r} must be made by DataType, as DataType.to_long().")
    return {
        name: {"kind": kind._kind, **kind._options} if kind._options else kind._kind
        for name, kind in (types or {}).items()
    }


def stream_source(text: str, *, escaped: bool) -> DataSource:
    """Return the file that a text in a column of streams means.

    Raises:
        UserErrorException: it means none.
    """
    if text.lower().startswith(("http://", "https://")):
        return DataSource(url=text)
    found = _STREAM.fullmatch(text)
    if found is None:
        raise UserErrorException(
            f"{text[:200]!r} names no file: a column of streams holds web addresses, or AmlDatastore://datastore/path."
        )
    from urllib.parse import unquote  # few columns name files

    return DataSource(found[1] or found[2], unquote(found[3]) if escaped else found[3])
