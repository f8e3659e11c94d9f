"""Who guesses is told to stop; who has a good token is not: a neighbour's guesses lock nobody out."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from runyard.server.access.crowd import peer_of

logger = logging.getLogger(__name__)

MOST_TRIES = 30  # within WINDOW_S, from one address
WINDOW_S = 60.0
_MOST_PEERS = 4096


class WrongTries:
    """Counts wrong tokens and codes by the peer's address. Used on the event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._peers: OrderedDict[str, tuple[float, int]] = OrderedDict()  # address → (since, tries), oldest first

    def is_too_many(self, scope: Any) -> bool:
        """Count one more wrong try of the request's peer; whether it has made too many of late."""
        peer = _peer(scope)
        if peer is None:
            return False  # our own user, on the unix socket
        now = self._clock()
        since, tries = self._peers.get(peer, (now, 0))
        if now - since > WINDOW_S:
            self._peers.pop(peer)
            since, tries = now, 0
        self._peers[peer] = (since, tries + 1)
        if len(self._peers) > _MOST_PEERS:
            self._peers.popitem(last=False)
        if tries == MOST_TRIES:
            logger.warning("More than %d wrong tokens within %d s from %s.", MOST_TRIES, WINDOW_S, peer)
        return tries >= MOST_TRIES


def _peer(scope: Any) -> str | None:
    client = scope.get("client")
    return peer_of(str(client[0])) if client and client[0] else None
