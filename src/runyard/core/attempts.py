"""Numbers of attempts, and the lease of a supervisor.

The attempts of a run count 1, 2, 3… Processes that log to the run from outside get numbers far above. `LEASE_S` is how
long server and supervisor each count the other as alive without a word from it.
"""

from __future__ import annotations

import zlib

FIRST_WRITER = 1 << 20


def writer_attempt(pid: int, start_ticks: int, host: str = "") -> int:
    """Return the attempt number under which that process writes: the same for the same process."""
    return FIRST_WRITER + zlib.crc32(f"{pid} {start_ticks} {host}".rstrip().encode()) % (1 << 30)


def is_external_writer(attempt: int) -> bool:
    """Whether it is a process that only adds to a run and never decides about it."""
    return attempt >= FIRST_WRITER


LEASE_S = 30.0
