"""Values of a configuration file that a person wrote: each is checked where it stands."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Type

from runyard.sdk.config.notices import warn_once
from runyard.sdk.exceptions import UserErrorException

_KINDS: Dict[Type[Any], str] = {
    dict: "`key: value` lines",
    list: "a list",
    bool: "true or false",
    int: "a whole number",
    str: "a text",
}


def checked_mapping(found: Any, place: str) -> Dict[str, Any]:
    if found is None:
        return {}
    if isinstance(found, dict):
        return found
    raise _wrong(dict, found, place)


def checked_value(current: Any, value: Any, place: str) -> Any:
    """Return `value`, which takes the place of `current` and must be of its kind; null empties lists and texts."""
    kind = next((kind for kind in (bool, int, dict, list, str) if isinstance(current, kind)), None)
    if kind is None or type(value) is kind:
        return value
    if value is None:
        return current if kind in (bool, int) else None if kind is str else kind()
    if kind is str and not isinstance(value, (dict, list)):
        return str(value)
    raise _wrong(kind, value, place)


def variable_values(found: Dict[str, Any]) -> Dict[str, str]:
    """Return environment variables as the file spells them: `true` is the text true, and nothing is an empty text."""
    return {str(name): "" if value is None else _spelt(value) for name, value in found.items()}


def _spelt(value: Any) -> str:
    return value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def report_unknown(key: str, known: Iterable[str], place: str) -> None:
    """Refuse a misspelt key; one that resembles none, such as a newer SDK's, is reported as without effect."""
    from difflib import get_close_matches  # only for the message

    spelt = {_letters(name): name for name in known}
    near = get_close_matches(_letters(key), spelt, n=1, cutoff=0.75)
    if near:
        raise UserErrorException(f"The key `{place}` is not known. Did you mean `{spelt[near[0]]}`?")
    warn_once(f"The key `{place}` is not known and has no effect.")


def _letters(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _wrong(kind: Type[Any], value: Any, place: str) -> UserErrorException:
    return UserErrorException(f"`{place}` must be {_KINDS[kind]}, found {value!r:.100}.")
