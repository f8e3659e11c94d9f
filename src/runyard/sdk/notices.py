"""Words of the SDK for people: one log line each, said once per process where repetition would only annoy."""

from __future__ import annotations

from typing import Set

_SAID: Set[str] = set()


def warn(text: str) -> None:
    import logging  # costs a third of the whole import, and most processes never warn

    logging.getLogger("runyard.sdk").warning(text)


def warn_once(text: str) -> None:
    if text not in _SAID:
        _SAID.add(text)
        warn(text)
