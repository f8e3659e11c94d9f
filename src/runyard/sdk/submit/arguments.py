"""Turn the arguments of a script, as the user gave them, into the texts that reach it."""

from __future__ import annotations

import os
from typing import Any, List, Sequence, Union

from runyard.sdk.exceptions import UserErrorException


def argument_texts(arguments: Any) -> List[str]:
    """Return each argument as text.

    Raises:
        UserErrorException: `arguments` is no list, or holds what no command line can.
    """
    if arguments is None:
        return []
    if isinstance(arguments, (str, bytes, dict)) or not isinstance(arguments, Sequence):
        raise UserErrorException(
            f"arguments must be a list, found {type(arguments).__name__} ({arguments!r:.100}).\n"
            "Write it as arguments=['--alpha', 0.5]."
        )
    return [_text(index, argument) for index, argument in enumerate(arguments)]


def command_text(command: Union[str, Sequence[Any], None]) -> str:
    """Return the shell command; a list is joined with spaces."""
    if command is None:
        return ""
    if isinstance(command, str):
        return _checked("command", command)
    if isinstance(command, (list, tuple)):
        return " ".join(_text(index, part, what="command") for index, part in enumerate(command))
    raise UserErrorException(f"command must be a text or a list of texts, found {type(command).__name__}.")


def _text(index: int, value: Any, *, what: str = "arguments") -> str:
    if isinstance(value, str):
        return _checked(f"{what}[{index}]", value)
    if isinstance(value, (bool, int, float)):
        return str(value)
    if isinstance(value, os.PathLike):
        return _checked(f"{what}[{index}]", str(os.fspath(value)))
    if getattr(value, "shape", None) == () and hasattr(value, "item"):  # numpy's numbers
        return str(value.item())
    raise UserErrorException(
        f"{what}[{index}] is a {type(value).__name__} ({value!r:.100}); an argument is one text or number.\n"
        + _advice(value)
    )


def _advice(value: Any) -> str:
    if isinstance(value, (list, tuple, set)):
        return "Give its items one by one: arguments=['--layers', 64, 32], not ['--layers', [64, 32]]."
    if value is None:
        return "Leave the argument out, or give the text that the script expects."
    return "Turn it into text first, for example with json.dumps(...)."


def _checked(what: str, text: str) -> str:
    if "\0" in text:
        raise UserErrorException(f"{what} holds a NUL character, which no command line can carry: {text!r:.100}.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UserErrorException(f"{what} is not valid text: {text!r:.100}.") from None
    return text
