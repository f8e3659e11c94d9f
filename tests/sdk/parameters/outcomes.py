"""What comes of a call: its result, what it says, and what it raises, in a form that two calls can be compared by."""

from __future__ import annotations

import dataclasses
import io
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from enum import Enum
from typing import Any, NamedTuple

from runyard.runtime import writer
from runyard.sdk.config import texts
from runyard.sdk.runs.run import Run
from runyard.sdk.workspaces.workspace import Workspace

# Of a new object each time: ids, names of the fuzz, times, temporary folders.
_PASSING = re.compile(
    r"fz\d{5}|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32,}|[0-9a-f]{8}\b|_\d{10}\b|0x[0-9a-f]+|"
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\d+:Z]*|runyard-[\w-]+|\btmp\w{8}\b|\b\d+\.\d{6,}\b"
)


class Outcome(NamedTuple):
    raised: str
    said: str
    result: str

    @property
    def is_told(self) -> bool:
        return bool(self.raised or self.said)


def outcome(call: Callable[[], Any], look: Callable[[Any], Any] | None) -> Outcome:
    texts._SAID.clear()  # what is said once per process is said once per call here
    writer._SAID.clear()
    records = _Records()
    logger = logging.getLogger("runyard")
    logger.addHandler(records)
    printed = io.StringIO()
    raised, result = "", ""
    try:
        with warnings.catch_warnings(record=True) as told, redirect_stdout(printed), redirect_stderr(printed):
            warnings.simplefilter("always")
            try:
                made = call()
                result = repr(plain(made))
                if look is not None:
                    result += repr(plain(look(made)))
            except Exception as error:  # whatever it raises is the outcome
                raised = f"{type(error).__name__}: {error}"
    finally:
        logger.removeHandler(records)
    words = [*records.lines, *(str(one.message) for one in told)]
    return Outcome(_steady(raised), _steady("\n".join(words)), _steady(result + printed.getvalue()))


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def _steady(text: str) -> str:
    return _PASSING.sub("~", text)


def plain(value: Any, depth: int = 6) -> Any:  # one line for each kind of value
    """Return what a value shows of itself."""
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    if depth == 0:
        return type(value).__name__
    if isinstance(value, Workspace):
        return f"workspace {value.name}"
    if isinstance(value, Run):
        return (
            type(value).__name__,
            value.id,
            plain(value._record, depth - 1),
            plain(getattr(value, "_outputs", None), depth - 1),
        )
    if isinstance(value, Enum):
        return str(value)
    if type(value).__name__ == "DataFrame":
        return value.to_csv(), str(dict(value.dtypes))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name), depth - 1) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset, Iterator)):
        return [plain(item, depth - 1) for item in value]
    if isinstance(value, BaseException):
        return str(value)
    own = getattr(value, "__dict__", None)
    if own is None or isinstance(value, type) or callable(value):
        return str(value)
    shown = {name: plain(item, depth - 1) for name, item in own.items() if name not in ("_client", "_experiment")}
    return {"": type(value).__name__, **shown}
