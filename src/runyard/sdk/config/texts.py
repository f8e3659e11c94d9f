"""Small texts of the SDK: warnings, tags and properties as they are stored, and the user's name.

A warning that would only annoy when repeated is logged once per process.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Union

from runyard.sdk.exceptions import UserErrorException

_SAID: Set[str] = set()


def warn(text: str) -> None:
    import logging  # costs a third of the whole import, and most processes never warn

    logging.getLogger("runyard.sdk").warning(text)


def warn_once(text: str) -> None:
    if text not in _SAID:
        _SAID.add(text)
        warn(text)


def note_without_effect(arguments: Mapping[str, Any]) -> None:
    """Say once which of these arguments, the given ones, only Azure's services act on."""
    given = sorted(name for name, value in arguments.items() if value is not None)
    if given:
        warn_once(f"These arguments of Azure have no effect here: {', '.join(given)}.")


def check_texts(**given: Any) -> None:
    """Raises UserErrorException: an argument that is given is no text."""
    for name, value in given.items():
        if value is not None and not isinstance(value, str):
            raise UserErrorException(f"{name} must be a text, found {value!r:.100}.")


def tag_texts(tags: Mapping[str, Any]) -> Dict[str, Optional[str]]:
    """Return tags as stored: values are text or None; others become text with a warning."""
    _check_mapping(tags, "tags")
    return {_key(key, "tag"): _tag_value(key, value) for key, value in tags.items()}


def property_texts(properties: Mapping[str, Any]) -> Dict[str, str]:
    """Return properties as stored: all values are text."""
    _check_mapping(properties, "properties")
    return {_key(key, "property"): value if isinstance(value, str) else str(value) for key, value in properties.items()}


def filters(wanted: Union[str, Mapping[str, Any], None]) -> Optional[List[str]]:
    """Return query texts: "key" for "has it", "key=value" for "equal"; values are compared as text."""
    if wanted is None:
        return None
    if isinstance(wanted, str):
        return [wanted]
    _check_mapping(wanted, "tags or properties to filter by")
    return [f"{key}={value}" for key, value in wanted.items()]


def narrowed(
    type: Optional[str],
    tags: Union[str, Mapping[str, Any], None],
    properties: Union[str, Mapping[str, Any], None],
    status: Union[str, Sequence[str], None],
) -> Dict[str, Any]:
    """Return what these mean to a list of runs."""
    check_texts(type=type)
    return {
        "type": type,
        "tag": filters(tags),
        "property": filters(properties),
        "status": [status] if isinstance(status, str) else status,
    }


def _tag_value(key: str, value: Any) -> Optional[str]:
    if value is None or isinstance(value, str):
        return value
    warn(f"The value of tag {key!r} is a {type(value).__name__}; it is stored as the text {str(value)!r}.")
    return str(value)


def _key(key: Any, noun: str) -> str:
    if isinstance(key, str) and key:
        return key
    raise UserErrorException(f"The name of a {noun} must be text that is not empty, found {key!r}.")


def _check_mapping(value: Any, what: str) -> None:
    if not isinstance(value, Mapping):
        raise UserErrorException(f"{what} must be a dict, found {type(value).__name__}.")


def user_name() -> str:
    """Return this user's name, or their number where the system knows no name."""
    try:
        import pwd  # only a submit asks
    except ImportError:  # Windows
        return os.environ.get("USERNAME") or "user"
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
