"""Records that could not be applied, folded together: a million bad cells are one entry."""

from __future__ import annotations

import json
from typing import Any

from runyard.engine.texts import storable

MAX_ENTRIES = 100
MAX_SAMPLE = 2000


class Quarantine:
    def __init__(self) -> None:
        self._entries: dict[tuple[int, str], dict[str, Any]] = {}

    def add(self, offset: int, kind: int, reason: str, payload: dict[str, Any], *, count: int = 1) -> None:
        key = (kind, reason[:300])
        found = self._entries.get(key)
        if found is None and len(self._entries) >= MAX_ENTRIES:
            key = (0, "many other reasons")
            found = self._entries.get(key)
        if found is not None:
            found["count"] += count
            return
        self._entries[key] = {
            "offset": offset,
            "kind": kind,
            "reason": storable(key[1]),
            "count": count,
            "sample": _sample(payload),
        }

    def entries(self) -> list[dict[str, Any]]:
        return list(self._entries.values())


def _sample(payload: dict[str, Any]) -> str:
    try:
        return json.dumps(payload, ensure_ascii=True)[:MAX_SAMPLE]
    except RecursionError:
        return ""
