"""Sessions of browsers that are signed in. The server keeps a list of them, so a session that is not listed is over.

Each token has a list of its own, of bounded length: however often somebody signs in and out, only their own oldest
sessions end.
"""

from __future__ import annotations

import json
import threading

from runyard.server.access.signin import Session
from runyard.store.base import RunStore

MOST = 50  # sessions of one token at a time
_LOCK = threading.Lock()


def begin_session(store: RunStore, session: Session, *, now: float) -> None:
    """Make the session good; it stays so over restarts, until its time is over or it is ended."""
    with _LOCK:
        live = {nonce: until for nonce, until in _read(store, session).items() if until > now}
        live[session.nonce] = session.until
        _write(store, session, dict(list(live.items())[-MOST:]))


def end_session(store: RunStore, session: Session) -> None:
    """Make the session worth nothing, for good; calling it twice is fine."""
    with _LOCK:
        live = _read(store, session)
        if live.pop(session.nonce, None) is not None:
            _write(store, session, live)


def is_live(store: RunStore, session: Session) -> bool:
    return session.nonce in _read(store, session)


def _read(store: RunStore, session: Session) -> dict[str, float]:
    return dict(json.loads(store.find_value(_key(session)) or "{}"))


def _write(store: RunStore, session: Session, live: dict[str, float]) -> None:
    store.set_value(_key(session), json.dumps(live))


def _key(session: Session) -> str:
    return f"sessions:{'owner' if session.token_id is None else session.token_id}"
