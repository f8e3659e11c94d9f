"""Sessions of browsers that were ended before their cookie's time: remembered until then, over restarts too."""

from __future__ import annotations

import json
import threading

from runyard.server.signin import Session
from runyard.store.base import RunStore

_KEY = "ended_sessions"
_MOST = 10_000
_LOCK = threading.Lock()


def end_session(store: RunStore, session: Session, *, now: float) -> None:
    """Make the cookie worth nothing; twice is fine."""
    with _LOCK:
        ended = {nonce: until for nonce, until in _read(store).items() if until > now}
        ended[session.nonce] = session.until
        store.set_value(_KEY, json.dumps(dict(list(ended.items())[-_MOST:])))


def is_ended(store: RunStore, session: Session) -> bool:
    return session.nonce in _read(store)


def _read(store: RunStore) -> dict[str, float]:
    return dict(json.loads(store.find_value(_KEY) or "{}"))
