"""Limits per caller: how much of a shared resource one user or run may hold at once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from runyard.core.errors import TooManyRequests
from runyard.server.access.permissions import Principal, RunPrincipal, UserPrincipal


class Shares:
    """Counts what each caller holds. Shared between threads."""

    def __init__(self, most: int, things: str, *, most_in_all: int = 0) -> None:
        """`things`: what is counted, for the message. `most_in_all` 0: only each caller's share is limited."""
        self._most = most
        self._most_in_all = most_in_all
        self._things = things
        self._lock = threading.Lock()
        self._held: Counter[Hashable] = Counter()

    @contextmanager
    def take(self, principal: Principal) -> Iterator[None]:
        """Hold one more until the block ends.

        Raises:
            TooManyRequests: the caller holds as many as one may, or all callers together do.
        """
        holder = holder_of(principal)
        with self._lock:
            self._check(holder)
            self._held[holder] += 1
        try:
            yield
        finally:
            with self._lock:
                self._held[holder] -= 1
                if not self._held[holder]:
                    del self._held[holder]

    def _check(self, holder: Hashable) -> None:
        if self._held[holder] >= self._most:
            raise TooManyRequests(
                f"{self._most} {self._things} are open already.",
                why=f"{self._most} at once are the most of one user or run.",
                hint="Wait for some of them to end, then ask again.",
            )
        if self._most_in_all and sum(self._held.values()) >= self._most_in_all:
            raise TooManyRequests(
                f"{self._most_in_all} {self._things} are open already, as many as this server gives at once.",
                hint="Ask again in a moment.",
            )


def holder_of(principal: Principal) -> Hashable:
    """Return the holder of a request's share: a user with all tokens and browsers, or a run with all its nodes."""
    if isinstance(principal, UserPrincipal):
        return "user", principal.name
    if isinstance(principal, RunPrincipal):
        return "run", principal.run_id
    return "owner"
