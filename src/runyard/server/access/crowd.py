"""The open connections of one listening socket, with a limit: when it is full, unauthenticated ones make room.

Anybody can open connections and send nothing. So a new connection is accepted as long as another can be dropped. The
first to go is the oldest one without a valid token, of the peer that has most of them; idle connections follow. A
request of a user or a run in progress is never cut.
"""

from __future__ import annotations

import ipaddress
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Hashable
from enum import IntEnum
from typing import Protocol

logger = logging.getLogger(__name__)

LOG_EVERY_S = 60.0
_AT_ONCE = 16  # a sixteenth of the door's places is freed at once, so that a flood does not cost a look at all for each


class Standing(IntEnum):
    """What a connection does at this moment; the lowest are dropped first."""

    UNKNOWN = 0  # no valid token came over it yet
    IDLE = 1  # it waits for the next request of a known principal
    BUSY = 2


class Guest(Protocol):
    """One connection."""

    peer: str

    @property
    def standing(self) -> Standing: ...

    @property
    def holder(self) -> Hashable:
        """Whose connection it is: a user or run where that is known, else the peer."""

    def drop(self) -> None: ...


class Crowd:
    """Used on the event loop. `door` is its name in the log."""

    def __init__(self, most: int, door: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._door = door
        self._clock = clock
        self._guests: dict[Guest, None] = {}  # oldest first
        self._logged_at = -LOG_EVERY_S
        self._dropped = 0

    def __len__(self) -> int:
        return len(self._guests)

    def enter(self, guest: Guest) -> bool:
        """Let a connection in; False: all others are busy, and it is not."""
        if len(self._guests) >= self._most:
            self._make_room()
        if len(self._guests) >= self._most:
            self._log("All of its connections are busy: new ones are refused.", guest.peer)
            return False
        self._guests[guest] = None
        return True

    def leave(self, guest: Guest) -> None:
        self._guests.pop(guest, None)

    def drop_all(self) -> None:
        for guest in list(self._guests):
            self._drop(guest)

    def _make_room(self) -> None:
        wanted = max(1, self._most // _AT_ONCE)
        for standing in (Standing.UNKNOWN, Standing.IDLE):
            victims = self._oldest_of_the_largest(standing, wanted)
            if victims:
                self._dropped += len(victims)
                peers = [guest.peer for guest in victims]
                for guest in victims:
                    self._drop(guest)
                words = "without a valid token" if standing is Standing.UNKNOWN else "that were idle"
                self._log(f"Dropped {self._dropped} connections {words}.", max(set(peers), key=peers.count))
                return

    def _oldest_of_the_largest(self, standing: Standing, wanted: int) -> list[Guest]:
        groups: dict[Hashable, list[Guest]] = defaultdict(list)
        for guest in reversed(self._guests):
            if guest.standing is standing:
                groups[guest.holder].append(guest)  # the oldest last
        victims: list[Guest] = []
        while groups and len(victims) < wanted:
            largest = max(groups, key=lambda holder: len(groups[holder]))
            rest = max((len(group) for holder, group in groups.items() if holder != largest), default=0)
            count = min(wanted - len(victims), max(1, len(groups[largest]) - rest))
            victims += [groups[largest].pop() for _ in range(count)]
            if not groups[largest]:
                del groups[largest]
        return victims

    def _drop(self, guest: Guest) -> None:
        self._guests.pop(guest, None)
        guest.drop()

    def _log(self, words: str, peer: str) -> None:
        now = self._clock()
        if now - self._logged_at >= LOG_EVERY_S:
            logger.warning("%s has %d connections, its limit. %s Most are of %s.", self._door, self._most, words, peer)
            self._logged_at, self._dropped = now, 0


def peer_of(address: str) -> str:
    """Return the peer of an address: a peer with one IPv6 address has the 2**64 around it."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 4:
        return str(found)
    return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
