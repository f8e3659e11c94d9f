"""The server as one run sees it: requests that survive outages, the private server's restart, and the lease.

The lease is how long this supervisor may go on without an answer. It counts only for runs that may be started again
elsewhere: the server starts their next attempt some seconds after the lease has passed since our last word, so by then
no process of ours may live. It counts from the moment an answered request was sent, through suspends of the machine and
restarts of the supervisor.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Callable, ContextManager, Optional, TypeVar

from runyard.client.address import Address
from runyard.client.client import Client
from runyard.client.transport import Transport
from runyard.core.attempts import LEASE_S
from runyard.core.config.settings import Settings
from runyard.core.errors import NotAllowed, NotAuthenticated, NotFound, RunyardError, ServerUnreachable, is_later
from runyard.core.formats.plain import from_plain
from runyard.core.machine.facts import boot_id, supervisor_command
from runyard.core.specs import JobSpec
from runyard.supervisor.proc import boot_ns
from runyard.supervisor.run_folder import FolderIdentity, RunFolder
from runyard.supervisor.shipping.loops import Backoff

logger = logging.getLogger(__name__)
T = TypeVar("T")
Aside = Callable[[], ContextManager[None]]

REVIVE_AFTER_S = 1.0  # a server that is being replaced answers again by then
REVIVE_EVERY_S = 5.0
START_S = 30.0
REFUSED_FOR_S = 120.0  # how long a server may refuse our token before we accept the refusal

REFUSALS = (NotAuthenticated, NotAllowed, NotFound)
FILE = "lease.json"
ASK_S = 0.9
GRACE_S = 5.0  # between TERM and KILL after the lease, whatever the run's grace is: the server does not wait longer


class HomeGone(Exception):
    """The whole home was removed: no server can be told anything, and no file is left to keep."""


class Connection:
    """The connection to the server, shared by all threads of a supervisor.

    The private server is started again only while `needs_server` returns True, and never in a removed home. `aside` is
    entered while the new server's process leaves the run's process tree; `_lock` lets one thread start it.
    """

    def __init__(
        self, job: JobSpec, settings: Settings, *, aside: Aside, needs_server: Callable[[], bool] = lambda: True
    ) -> None:
        address = from_plain(Address, {**job.server, "token": job.token})
        self.client = Client(Transport(address, revive=self._revive if address.home else None))
        self._home = FolderIdentity(address.home or job.home)
        self._settings = settings
        self._needs_server = needs_server
        self._aside = aside
        self._lock = threading.Lock()
        self._asked = threading.local()
        self._silent_since: Optional[float] = None
        self._revived_at = 0.0

    def call(self, work: Callable[[], T]) -> T:
        """Do one request, and note whether the server answers. Raises what the request raises."""
        self._asked.at = boot_ns()
        try:
            result = work()
        except ServerUnreachable:
            self._silent_since = self._silent_since or time.monotonic()
            raise
        self._silent_since = None
        return result

    def asked_boot_ns(self) -> int:
        """Return when the calling thread began its last request."""
        return int(getattr(self._asked, "at", 0))

    def insist(self, work: Callable[[], T]) -> T:
        """Repeat a request until the server takes it, for as long as an outage lasts. The calling thread waits.

        Raises:
            RunyardError: the server refuses it, so repeating cannot help.
            HomeGone: the home was removed, so no server will answer any more.
        """
        backoff = Backoff()
        refused_since: Optional[float] = None
        said = ""
        while True:
            try:
                return self.call(work)
            except RunyardError as error:
                if is_later(error):
                    self.check_home()
                elif not isinstance(error, REFUSALS):
                    raise
                else:
                    refused_since = refused_since or time.monotonic()
                    if time.monotonic() - refused_since > REFUSED_FOR_S:
                        raise
                if str(error) != said:
                    said = str(error)
                    logger.warning("waiting for the server: %s", error)
            time.sleep(backoff.next_s())

    def check_home(self) -> None:
        """Raise HomeGone when the home was removed."""
        if self._home.is_gone():
            raise HomeGone

    def _revive(self, address: Address) -> Address:
        """Start the private server as the SDK does; not before a second of silence, and at most once in 5 s."""
        silent_s = time.monotonic() - (self._silent_since or time.monotonic())
        if silent_s < REVIVE_AFTER_S or self._home.is_gone() or not self._needs_server():
            raise ServerUnreachable(f"The server at {address} does not answer.")
        with self._lock:
            if time.monotonic() - self._revived_at < REVIVE_EVERY_S:
                raise ServerUnreachable(f"The server at {address} does not answer yet.")
            self._revived_at = time.monotonic()
            return replace(self._start_server(Path(str(address.home))), token=address.token)

    def _start_server(self, home: Path) -> Address:
        # Only a supervisor whose server is gone needs these.
        import subprocess

        from runyard.client.private_server import find

        with self._aside():
            subprocess.run(
                [*supervisor_command(), "--serve"], env={**os.environ, "RUNYARD_HOME": str(home)}, check=True
            )
        deadline = time.monotonic() + START_S
        while True:
            found = find(replace(self._settings, home=home, url=None))
            if found is not None:
                logger.info("the private server is there again")
                return found.address
            if time.monotonic() > deadline:
                raise ServerUnreachable(f"The private server of {home} could not be started.")
            time.sleep(0.05)


class Lease:
    """How long this supervisor may go on without an answer of the server; kept in `lease.json`.

    Any thread that gets an answer renews it; the main thread checks it.
    """

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
        """Count the lease from `asked_boot_ns`, when the request was sent that the server has answered now."""
        if self._counts and asked_boot_ns > self._since_ns:
            self._since_ns = asked_boot_ns
            self._save()

    @property
    def is_over(self) -> bool:
        """Whether the lease has passed. Always False for a run with one attempt."""
        return self._counts and boot_ns() - self._since_ns >= LEASE_S * 1e9

    def has_ended(self, ask: Callable[[], None]) -> bool:
        """Return whether the lease is over and `ask`, called once then, brought no answer within a second.

        The question is needed because this process or its machine may have been suspended while all else works.
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
        except OSError:  # a full disk or a removed folder is noticed elsewhere
            pass
