"""Sort the words of a command line into options and arguments, also of one that is still being typed."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

from runyard.cli.parsing.parameters import Option


class SortedTokens:
    """What was found: `given` options with their values in order, arguments, and the first `fault`, if any.

    `waiting` is an option at the end that lacks its value. `options_ended` says that only arguments can follow.
    `is_behind_dashes` says that `--` stands before the first argument.
    """

    def __init__(self) -> None:
        self.given: List[Tuple[Option, Any]] = []
        self.arguments: List[str] = []
        self.fault = ""
        self.waiting: Optional[Option] = None
        self.options_ended = False
        self.is_behind_dashes = False


def sort_tokens(options: Sequence[Option], tokens: Sequence[str], *, interspersed: bool) -> SortedTokens:
    """Sort the tokens. `--` ends the options; without `interspersed` the first argument does so, too.

    A value is the next token whatever it looks like, or stands behind `=` or, after a short option, directly behind it.
    """
    found = SortedTokens()
    spellings = _spellings(options)
    left = list(tokens)
    while left:
        token = left.pop(0)
        if found.options_ended or token == "-" or not token.startswith("-"):
            found.arguments.append(token)
            found.options_ended = found.options_ended or not interspersed
        elif token == "--":
            found.options_ended = True
            found.is_behind_dashes = not found.arguments
        elif token.startswith("--"):
            name, equals, text = token.partition("=")
            _add(found, spellings, name, text if equals else None, left)
        else:
            _add_short(found, spellings, token, left)
    return found


def _spellings(options: Sequence[Option]) -> Dict[str, Tuple[Option, Any]]:
    """Return each spelling's option, and its value if it is a flag."""
    found = {name: (option, option.flag_value) for option in options for name in option.opts}
    return {**found, **{name: (option, False) for option in options for name in option.secondary_opts}}


def _add_short(found: SortedTokens, spellings: Dict[str, Tuple[Option, Any]], token: str, left: List[str]) -> None:
    """Take `-abc` apart: flags, and perhaps an option at the end whose value follows or is the rest."""
    for at, letter in enumerate(token[1:], 2):
        name, rest = f"-{letter}", token[at:]
        known = spellings.get(name)
        if rest and (rest.startswith("=") or (known is not None and known[0].takes_value)):
            return _add(found, spellings, name, rest[1:] if rest.startswith("=") else rest, left)
        _add(found, spellings, name, None, left)
        if known is None:
            return None
    return None


def _add(
    found: SortedTokens, spellings: Dict[str, Tuple[Option, Any]], name: str, text: Optional[str], left: List[str]
) -> None:
    option, flag_value = spellings.get(name, (None, None))
    if option is None:
        found.fault = found.fault or f"There is no option `{name}`.{_near(name, list(spellings))}"
    elif not option.takes_value:
        if text is not None:
            found.fault = found.fault or f"The option `{name}` takes no value."
        found.given.append((option, flag_value))
    elif text is not None:
        found.given.append((option, text))
    elif left:
        found.given.append((option, left.pop(0)))
    else:
        found.waiting = option
        found.fault = found.fault or f"The option `{name}` needs a value."


def _near(name: str, known: List[str]) -> str:
    import difflib  # only a mistake needs it

    near = [one for one in known if one.startswith(name) and len(name) > 2]
    near = near or difflib.get_close_matches(name, known, n=1)
    return f" Did you mean {' or '.join(f'`{one}`' for one in near[:3])}?" if near else ""
