"""The fields of a request, from its JSON body or its query, with MLflow's words for those that are missing or wrong.

Unknown fields are ignored. Numbers may come as text, and single values in a query are texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import QueryParams

from runyard.server.mlflow.errors import BAD_REQUEST, MlflowError

_INT64 = 1 << 63
MOST_SHOWN = 100
MORE = " See the API docs for more information about request parameters."
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class Fields:
    """The fields of one request, or of an object in it: errors name its fields with `path` in front."""

    def __init__(self, values: Mapping[str, Any], path: str = "", *, is_query: bool = False) -> None:
        self._values = values
        self._path = path
        self._is_query = is_query  # a list of one is then the one

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text. Without `default`, one that is missing or empty is refused."""
        value = self._values.get(name)
        if value is None or (value == "" and default is None):
            if default is None:
                raise missing(f"{self._path}{name}")
            return default
        if not isinstance(value, str):
            raise wrong(f"{self._path}{name}", value)
        if _UNSTORABLE.search(value):
            raise MlflowError(f"Invalid value for parameter '{name}' supplied: it holds NUL or half a surrogate pair.")
        return value

    def find_text(self, name: str) -> str | None:
        """Return a text, None where the request has none."""
        return None if self._values.get(name) is None else self.text(name, "")

    def integer(self, name: str, default: int | None = None) -> int:
        """Return a whole number, also one written as text."""
        value = self._values.get(name)
        if value is None or value == "":
            if default is None:
                raise missing(f"{self._path}{name}")
            return default
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise wrong(f"{self._path}{name}", value)
        try:
            number = int(value)
        except ValueError:
            raise wrong(f"{self._path}{name}", value) from None
        if not -_INT64 <= number < _INT64:
            raise wrong(f"{self._path}{name}", value)
        return number

    def number(self, name: str) -> float:
        """Return a number; NaN and the infinities come as text."""
        value = self._values.get(name)
        if value is None:
            raise missing(f"{self._path}{name}")
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise wrong(f"{self._path}{name}", value)
        try:
            return float(value)
        except (ValueError, OverflowError):
            raise wrong(f"{self._path}{name}", value) from None

    def value(self, name: str) -> Any:
        """Return a value of any kind, None where the request has none."""
        return self._values.get(name)

    def items(self, name: str) -> list[Fields]:
        """Return a list of objects."""
        values = self._list(name)
        if not all(isinstance(value, dict) for value in values):
            raise wrong(f"{self._path}{name}", values)
        return [Fields(value, f"{self._path}{name}[{index}].") for index, value in enumerate(values)]

    def texts(self, name: str) -> list[str]:
        """Return a list of texts; in a query, the name comes once for each."""
        values = self._list(name)
        if not all(isinstance(value, str) for value in values):
            raise wrong(f"{self._path}{name}", values)
        return values

    def find_fields(self, name: str) -> Fields | None:
        """Return the fields of an object inside the request."""
        value = self._values.get(name)
        if value is not None and not isinstance(value, dict):
            raise wrong(f"{self._path}{name}", value)
        return None if value is None else Fields(value, f"{self._path}{name}.")

    def _list(self, name: str) -> list[Any]:
        value = self._values.get(name)
        if value is None:
            return []
        if isinstance(value, str) and self._is_query:
            return [value]
        if not isinstance(value, list):
            raise wrong(f"{self._path}{name}", value)
        return value


def fields_of(body: bytes, query: QueryParams) -> Fields:
    """Return the fields of a body; of the query where there is no body."""
    if not body:
        found = {key: query.getlist(key) for key in query}
        return Fields(
            {key.removesuffix("[]"): values[0] if len(values) == 1 else values for key, values in found.items()},
            is_query=True,
        )
    try:
        loaded = json.loads(body)
    except (ValueError, RecursionError):
        raise MlflowError("The request's body is not JSON.", BAD_REQUEST) from None
    if isinstance(loaded, str):  # a client may encode the object twice
        try:
            loaded = json.loads(loaded)
        except (ValueError, RecursionError):
            loaded = None
    if not isinstance(loaded, dict):
        raise MlflowError("The request's body is not a JSON object.", BAD_REQUEST)
    return Fields(loaded)


def missing(name: str) -> MlflowError:
    """Return the error for a field that must be there."""
    return MlflowError(f"Missing value for required parameter '{name}'.{MORE}")


def wrong(name: str, value: object) -> MlflowError:
    """Return the error for a value of another kind than the field's."""
    hint = f" Hint: Value was of type '{type(value).__name__}'."
    return MlflowError(f"Invalid value {shown(value)} for parameter '{name}' supplied: {hint}{MORE}")


def shown(value: object) -> str:
    """Return a value as errors show it: JSON, cut where it is long."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
