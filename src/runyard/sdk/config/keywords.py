"""Says which keyword was meant when a call has one that its function does not know. Loaded only then."""

from __future__ import annotations

import difflib
import inspect
from typing import Any, Callable, Dict, Mapping, Sequence

from runyard.sdk.config.texts import warn_once

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def known_keywords(function: Callable[..., Any], given: Mapping[str, Any], error: TypeError) -> Dict[str, Any]:
    """Return the keywords without Azure's private ones (`_skip_name_validation` …), which are said once.

    Raises:
        TypeError: `error` where it is about something else; else with the name that comes nearest.
    """
    parameters = inspect.signature(function).parameters.values()
    names = [one.name for one in parameters if one.kind in _NAMED and one.name not in ("self", "cls")]
    unknown = [name for name in given if name not in names]
    if not unknown:
        raise error
    call = function.__qualname__.replace(".__init__", "")
    for name in unknown:
        if not name.startswith("_"):
            raise unknown_keyword(call, name, names) from None
    warn_once(f"These private arguments of {call}() have no effect here: {', '.join(sorted(unknown))}.")
    return {name: value for name, value in given.items() if name not in unknown}


def unknown_keyword(call: str, name: str, known: Sequence[str]) -> TypeError:
    """Return the error of a call with a keyword that is not among the known ones."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    public = ", ".join(one for one in known if not one.startswith("_"))
    hint = f"Did you mean `{near[0]}`?" if near else f"It takes: {public or 'none'}."
    return TypeError(f"{call}() got an unexpected keyword argument {name!r}. {hint}")
