"""Attempts of a run, external writers, and the lease of a supervisor.

The attempts of a run count 1, 2, 3… An external writer is a process that logs to a run without being a part of it; it
has a number of its own and no attempt. `LEASE_S` is how long server and supervisor each count the other as alive
without a word from it.
"""

from __future__ import annotations

import zlib
from typing import Any, Dict

# Up to version 0.2 an external writer was an attempt from this number on. Numbers still start here, so that a client or
# supervisor of that version, which gets its number as an attempt, knows that it is an external writer.
FIRST_EXTERNAL_WRITER = 1 << 20


def external_writer_number(pid: int, start_ticks: int, host: str = "") -> int:
    """Return the number of an external writer: the same for the same process, never 0."""
    return FIRST_EXTERNAL_WRITER + zlib.crc32(f"{pid} {start_ticks} {host}".rstrip().encode()) % (1 << 30)


def with_external_writer(plain: Dict[str, Any]) -> Dict[str, Any]:
    """Return `plain`, a job or an answer of any version, with `attempt` and `external_writer` as this version has them.

    Version 0.2 and older wrote the number of an external writer into `attempt`. All that reads what such a version may
    have written goes through here. A server needs it nowhere: the token of a request says which writer sends it.
    """
    attempt = plain.get("attempt") or 0
    return plain if attempt < FIRST_EXTERNAL_WRITER else {**plain, "attempt": 0, "external_writer": attempt}


LEASE_S = 30.0
