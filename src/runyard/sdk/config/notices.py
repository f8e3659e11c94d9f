"""Words of the SDK for people: one log line each, said once per process where repetition would only annoy."""

from __future__ import annotations

from typing import Any, Mapping, Set

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
