"""`script_params` of an estimator → the script's arguments."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from runyard.sdk.training_errors import training_error

_EXAMPLE = "script_params={'--batch-size': 50, '--verbose': ''}"


def checked_params(script_params: Any) -> Dict[str, Any]:
    """Raises TrainingException: it is no dict of texts."""
    if script_params is None:
        return {}
    if not isinstance(script_params, Mapping) or not all(isinstance(name, str) for name in script_params):
        raise training_error(
            f"script_params is a {type(script_params).__name__} ({script_params!r:.100}).",
            why="It must be a dict from arguments to their values.",
            hint=_EXAMPLE,
        )
    return dict(script_params)


def flat_arguments(script_params: Mapping[str, Any]) -> List[Any]:
    """Return them in order: '' and None are bare flags, a list is spread. Data among them is left as it is."""
    found: List[Any] = []
    for name, value in script_params.items():
        found.append(name)
        if isinstance(value, (list, tuple)):
            found += value
        elif value is not None and not (isinstance(value, str) and value == ""):
            found.append(value)
    return found


def merged_params(own: Mapping[str, Any], given: Optional[Any]) -> Dict[str, Any]:
    """Return `own` with what submit() is given: a flag that both have gets the given value."""
    return {**own, **checked_params(given)}
