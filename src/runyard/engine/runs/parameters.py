"""The `--name value` pairs of a script's arguments: what runs are compared and filtered by."""

from __future__ import annotations

from collections.abc import Sequence

MAX_NAME, MAX_VALUE, MAX_COUNT = 255, 1000, 500


def parse_parameters(arguments: Sequence[str]) -> dict[str, str]:
    """Return {name: value} of `--name value` and `--name=value`; a lone `--flag` is "True", the last of twins wins."""
    found: dict[str, str] = {}
    waiting = list(reversed(arguments))
    while waiting and len(found) < MAX_COUNT:
        word = waiting.pop()
        if word == "--" or not word.startswith("--"):
            continue
        name, equals, value = word[2:].partition("=")
        if not equals:
            takes_next = bool(waiting) and not waiting[-1].startswith("--")
            value = waiting.pop() if takes_next else "True"
        if name and len(name) <= MAX_NAME:
            found[name] = value[:MAX_VALUE]
    return found
