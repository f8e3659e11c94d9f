"""Types of values: each turns the text that was typed into a value, or says what may be typed."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, NoReturn, Optional, Sequence, Union

from runyard.cli.parsing.context import BadParameter


class ParamType:
    """Any text. Subclasses override `convert` and call `fail` for a text that is no such value."""

    name = "text"  # in capitals it stands for the value in help texts
    completes = ""  # "file" or "dir": the shell itself completes paths

    def convert(self, value: str) -> Any:
        return value

    def fail(self, message: str) -> NoReturn:
        raise BadParameter(message)

    def choices(self) -> Sequence[str]:
        """Return the only values there are, if they can be listed."""
        return ()

    def limits(self) -> str:
        """Return the range of values for the help text. That a count is not negative goes without saying."""
        return ""


class Number(ParamType):
    """A number of the given Python type."""

    def __init__(self, python_type: Union[Callable[[str], int], Callable[[str], float]], name: str) -> None:
        self.python_type = python_type
        self.name = name

    def convert(self, value: str) -> Any:
        try:
            return self.python_type(value)
        except ValueError:
            self.fail(f"{value!r} is no {'whole number' if self.python_type is int else 'number'}.")


class IntRange(Number):
    def __init__(self, min: Optional[int] = None, max: Optional[int] = None) -> None:
        super().__init__(int, "integer")
        self.min, self.max = min, max

    def convert(self, value: str) -> Any:
        number = super().convert(value)
        if (self.min is not None and number < self.min) or (self.max is not None and number > self.max):
            self.fail(f"{number} is not in the range {self._range()}.")
        return number

    def limits(self) -> str:
        return "" if self.max is None and self.min in (0, 1) else self._range()

    def _range(self) -> str:
        if self.min is not None and self.max is not None:
            return f"{self.min}<=x<={self.max}"
        return f"x<={self.max}" if self.min is None else f"x>={self.min}"


class Choice(ParamType):
    def __init__(self, choices: Sequence[str]) -> None:
        self._choices = tuple(choices)
        self.name = "|".join(self._choices)

    def convert(self, value: str) -> str:
        if value not in self._choices:
            self.fail(f"{value!r} is none of {', '.join(self._choices)}.")
        return value

    def choices(self) -> Sequence[str]:
        return self._choices


class Path(ParamType):
    """A path; `path_type` makes the value of it. With `exists` it must be there and be of an allowed kind."""

    def __init__(
        self,
        *,
        exists: bool = False,
        file_okay: bool = True,
        dir_okay: bool = True,
        resolve_path: bool = False,
        path_type: Callable[[str], Any] = str,
    ) -> None:
        self.exists, self.file_okay, self.dir_okay = exists, file_okay, dir_okay
        self.resolve_path, self.path_type = resolve_path, path_type
        self.name = "path" if file_okay and dir_okay else "file" if file_okay else "directory"
        self.completes = "file" if file_okay else "dir"

    def convert(self, value: str) -> Any:
        path = os.path.realpath(value) if self.resolve_path else value
        if self.exists and not os.path.exists(path):
            self.fail(f"There is no {self.name} {value!r}.")
        if not self.dir_okay and os.path.isdir(path):
            self.fail(f"{value!r} is a folder.")
        if not self.file_okay and os.path.isfile(path):
            self.fail(f"{value!r} is a file.")
        return self.path_type(path)


class Unprocessed(ParamType):
    """A word for another program, which shells complete as a file's name."""

    completes = "file"


UNPROCESSED = Unprocessed()
TYPES: Dict[Any, ParamType] = {str: ParamType(), int: Number(int, "integer"), float: Number(float, "float")}


def type_of(given: Any, default: object) -> ParamType:
    """Return the type that a parameter asks for: one of ours, or `int`, `float`, `str`; else that of its default."""
    if isinstance(given, ParamType):
        return given
    return TYPES[given] if given is not None else TYPES.get(type(default), TYPES[str])
