"""How long this supervisor may go on without an answer of the server.

Only for runs that may be started again elsewhere: the server starts their next attempt some seconds after a lease has
passed since our last word, so by then nothing of ours may live. A lease counts from when a question was sent that the
server answered, through suspends of the machine and restarts of the supervisor.
"""

from __future__ import annotations

import time
from typing import Callable, Optional

from runyard.core.leases import LEASE_S
from runyard.core.machine.facts import boot_id
from runyard.core.specs import JobSpec
from runyard.supervisor.proc import boot_ns
from runyard.supervisor.run_folder import RunFolder

FILE = "lease.json"
ASK_S = 0.9
GRACE_S = 5.0  # between TERM and KILL once it is over, whatever the run's: the server does not wait longer


class Lease:
    """Shared between threads."""

    def __init__(self, folder: RunFolder, job: JobSpec, *, ask_s: float = ASK_S) -> None:
        self._folder = folder
        self._ask_s = ask_s
        self._asked_at: Optional[float] = None
        self._counts = job.spec.max_attempts > 1
        known = folder.read_object(FILE) if self._counts else {}
        is_known = bool(known) and known.get("boot_id") == boot_id()
        self._since_ns = int(known["since_boot_ns"]) if is_known else boot_ns()
        if self._counts and not is_known:
            self._save()

    def renew(self, asked_boot_ns: int) -> None:
        """The server has answered what was asked then."""
        if self._counts and asked_boot_ns > self._since_ns:
            self._since_ns = asked_boot_ns
            self._save()

    @property
    def is_over(self) -> bool:
        return self._counts and boot_ns() - self._since_ns >= LEASE_S * 1e9

    def has_ended(self, ask: Callable[[], None]) -> bool:
        """Whether it is over and `ask`, called once then, brought no answer in a moment.

        This process or its machine may have been stopped for a while, with nothing wrong between it and the server.
        """
        if not self.is_over:
            self._asked_at = None
            return False
        if self._asked_at is None:
            self._asked_at = time.monotonic()
            ask()
        return time.monotonic() - self._asked_at >= self._ask_s

    def _save(self) -> None:
        try:
            self._folder.write(FILE, {"since_boot_ns": self._since_ns, "boot_id": boot_id()})
        except OSError:  # a full disk, or a folder that was removed: others look for that
            pass
