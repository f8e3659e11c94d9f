"""Keywords become the arguments of a script: `lr=0.1` is `--lr 0.1`, as the script itself spells its options."""

from __future__ import annotations

import json
import os
from typing import Any, Callable, List, Mapping, Sequence

from runyard.core.errors import InvalidArgument
from runyard.native.script_options import ScriptOption, ScriptOptions

Note = Callable[[str], None]


def argument_words(parameters: Mapping[str, object], options: ScriptOptions, note: Note) -> List[str]:
    """Return the words that give a script its parameters, in their order; what gives no word is told to `note`."""
    if options.style == "hydra":
        return [f"{name}={_hydra(value)}" for name, value in parameters.items()]
    words: List[str] = []
    for name, value in parameters.items():
        option = options.known.get(name.lstrip("-").replace("-", "_"))
        words += _known(name, option, value, note) if option is not None else _guessed(name, options, value, note)
    return words


def _known(name: str, option: ScriptOption, value: object, note: Note) -> List[str]:
    """Return the words of an option that the script declares."""
    if value is None:
        return []
    truth = _as_truth(value)
    if option.kind == "flag":
        if truth is None and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return [option.spelling] * value  # `count`: -v -v
        if truth is None:
            raise InvalidArgument(
                f"`{name}={value!r:.60}`: the script's `{option.spelling}` is a flag, which takes no value.",
                hint=f"{name}=True gives the flag, {name}=False leaves it out.",
            )
        return [option.spelling] if truth else []
    if option.kind == "switch" and truth is not None:
        return [option.spelling if truth else option.opposite]
    if option.kind == "repeated" and _is_several(value):
        return [word for one in _items(value) for word in _with_value(option.spelling, [text_of(name, one)])]
    if option.is_truth and truth is False:
        note(f"`{name}=False` is passed as an empty text: the script declares type=bool, for which 'False' is true.")
        return [option.spelling, ""]
    return _with_value(option.spelling, _texts(name, value))


def _guessed(name: str, options: ScriptOptions, value: object, note: Note) -> List[str]:
    """Return the words of an option that is not found in the script's text."""
    spelling = name if name.startswith("-") else f"--{name.replace('_', '-') if options.style == 'dashes' else name}"
    if value is None:
        return []
    truth = _as_truth(value)
    if truth is True:
        return [spelling]
    if truth is False and options.style == "dashes":
        return [f"--no-{spelling.lstrip('-')}"]
    if truth is False:
        note(f"`{name}=False` adds no argument. parameters={{'{name}': 'False'}} passes `{spelling} False`.")
        return []
    return _with_value(spelling, _texts(name, value))


def _with_value(spelling: str, texts: Sequence[str]) -> List[str]:
    """Return an option with its values. Parsers take a value that begins with a dash for an option of its own."""
    if len(texts) == 1 and texts[0].startswith("-") and spelling.startswith("--"):
        return [f"{spelling}={texts[0]}"]
    return [spelling, *texts]


def _texts(name: str, value: object) -> List[str]:
    return [text_of(name, one) for one in _items(value)] if _is_several(value) else [text_of(name, value)]


def _is_several(value: object) -> bool:
    return isinstance(value, (list, tuple, set, frozenset, range)) or bool(getattr(value, "shape", ()))


def _items(value: Any) -> List[object]:
    if hasattr(value, "tolist"):
        return list(value.tolist())
    return sorted(value, key=str) if isinstance(value, (set, frozenset)) else list(value)


def _as_truth(value: Any) -> Any:
    """Return True or False for a bool, numpy's too; None for all else."""
    if isinstance(value, bool):
        return value
    return bool(value) if type(value).__name__ in ("bool_", "bool") and hasattr(value, "item") else None


def text_of(name: str, value: Any) -> str:
    """Return one value as a command line has it.

    Raises:
        InvalidArgument: no text stands for it.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, int, float)):
        return str(value)
    if isinstance(value, os.PathLike):
        return os.fsdecode(os.fspath(value))
    if getattr(value, "shape", None) == () and hasattr(value, "item"):  # scalars of numpy and torch
        return str(value.item())
    if isinstance(value, (Mapping, list, tuple)):
        try:
            return json.dumps(value)
        except (TypeError, ValueError):
            pass
    text = str(getattr(value, "value", value))  # Decimal, datetime, UUID, an enum's value …
    if not callable(value) and not text.startswith("<"):
        return text
    raise InvalidArgument(
        f"`{name}` is a {type(value).__name__}, which no command line can carry: {value!r:.80}.",
        hint="Give a number, a text, a path, a bool, or a list of them.",
    )


def _hydra(value: object) -> str:
    """Return a value as Hydra's overrides have it."""
    truth = _as_truth(value)
    if value is None:
        return "null"
    if truth is not None:
        return "true" if truth else "false"
    if _is_several(value):
        return f"[{','.join(_hydra(one) for one in _items(value))}]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_hydra(one)}" for key, one in value.items()) + "}"
    text = text_of("value", value)
    return text if text and not set(text) & set(",=[]{}:'\" \\") else "'" + text.replace("'", "\\'") + "'"
