"""One build per key, however many runs wait for it: the machinery behind every builder that installs something."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, Callable, Dict, Optional

from runyard.core.errors import UserError, error_from_plain
from runyard.environments.base import Check, Say
from runyard.environments.cache import FAILED, Place

POLL_S = 0.05
REMIND_EVERY_S = 15.0

# Gets the lock's descriptor: the programs that it starts inherit it, so that nobody builds beside one that outlived us.
Make = Callable[[int], Dict[str, Any]]


def build_once(
    place: Place,
    make: Make,
    *,
    say: Say,
    check: Check,
    user: Optional[str],
    who: str,
    remind_every_s: float = REMIND_EVERY_S,
) -> Dict[str, Any]:
    """Return the marker of the finished environment; `make` fills an empty `place.prefix` when nobody did.

    A build that fails with a UserError fails for all who waited for it; who asks later tries again. One that was
    killed or stopped leaves no marker, and the next in line builds.
    """
    asked_at = time.time()
    marker = place.take(user)
    if marker is not None:
        return marker
    fd = wait_for_lock(place, say=say, check=check, remind_every_s=remind_every_s)
    with place.signed(fd, who):
        marker = place.note_use(user)
        if marker is not None:
            return marker
        _raise_failure_since(place, asked_at)
        place.clear()
        _make(place, lambda: make(fd))
        marker = place.note_use(user)
    assert marker is not None
    return marker


def _make(place: Place, make: Callable[[], Dict[str, Any]]) -> None:
    began = time.monotonic()
    try:
        facts = make()
    except UserError as error:
        with suppress(OSError):  # a full disk: those who wait find out by themselves
            place.write(FAILED, {"at": time.time(), "error": error.to_plain()})
        raise
    place.publish({**facts, "built_at": time.time(), "build_s": round(time.monotonic() - began, 3)})


def _raise_failure_since(place: Place, asked_at: float) -> None:
    failed = place.read(FAILED)
    if failed is not None and float(failed.get("at", 0)) >= asked_at:
        raise error_from_plain(failed["error"])


def wait_for_lock(place: Place, *, say: Say, check: Check, remind_every_s: float = REMIND_EVERY_S) -> int:
    """Return a descriptor that holds the lock; meanwhile `say` tells who has it."""
    began = time.monotonic()
    said_at: Optional[float] = None
    while True:
        fd = place.try_lock()
        if fd is not None:
            return fd
        now = time.monotonic()
        if said_at is None or now - said_at >= remind_every_s:
            say(_waiting(place, now - began))
            said_at = now
        check()
        time.sleep(POLL_S)


def _waiting(place: Place, waited_s: float) -> str:
    holder = place.read("lock") or {}
    who = holder.get("who") or "Somebody"
    for_s = f" Waiting for {waited_s:.0f} s." if waited_s >= 1 else ""
    return f"{who} (process {holder.get('pid', '?')}) builds this environment; using it when it is ready.{for_s}"
